"""The three-bar robot: plant, gaits, data, contact detection, learned model."""
