"""Carrying a crawl out: pressures from shapes, seals before releases, corrections and new plans on the way."""
