"""Calibration of a tower from the poses it was held still in: what its sensors get wrong, found, kept in a file and taken off."""
