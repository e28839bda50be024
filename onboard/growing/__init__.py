"""A growing robot under the daemon: its pneumatic lines, governor, core, console and planner."""
