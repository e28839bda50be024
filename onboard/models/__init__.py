"""Learned models on board: manifests, sessions, and dynamics that planners roll out."""
