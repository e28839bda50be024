"""Offboard work for the three-bar robot: data, contact detection, learned dynamics, export, evaluation."""
