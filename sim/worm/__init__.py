"""Suction worm on a computer: commands, pictures and evaluation of its planner."""
