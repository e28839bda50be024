"""Hybrid contact and motion planning for robots of links, bending segments and suction pads."""
