"""Boards on USB made into parts of a robot: found, programmed, provisioned, certified."""
