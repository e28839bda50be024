"""Pins and parts of each board."""
