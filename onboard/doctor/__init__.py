"""Checks of a computer before it runs a robot: each says that something is good, or what to do."""
