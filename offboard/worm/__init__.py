"""Suction worm: what is prepared off the robot (feasible sets, primitive libraries)."""
