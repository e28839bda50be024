"""Steering of a growing robot: a grid of distances, its cost to go, its dynamics, its shape and the loop that joins them."""
