"""Boards on USB: flashing, certificates, what the broker knows."""
