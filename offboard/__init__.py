"""Offboard work: data collection, training, export, fitting and evaluation (needs the `offboard` extra)."""
