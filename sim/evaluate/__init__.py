"""Evaluations of whole robots on their plants, with held-out seeds."""
