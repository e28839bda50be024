"""MuJoCo plant of a strut tower: built from the robot's file alone."""
