"""Navigation trials of the three-bar robot: sensing with faults, controllers by name, trials on a simulated clock, results."""
