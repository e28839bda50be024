"""Planners: what to do next, from an estimate and a goal."""
