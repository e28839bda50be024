"""Vine robots: fitting parameters to tracked shapes, torch interface."""
