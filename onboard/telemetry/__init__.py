"""Recordings, metrics and views: what leaves the control loop for people and files."""
