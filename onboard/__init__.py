"""The daemon on the robot's computer: link, estimation, control, planning, safety, recording, command line."""

__version__ = "0.1.0"
