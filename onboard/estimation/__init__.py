"""Estimation: where struts point (orientation) and where the discs between modules are (disc poses)."""
