"""The robot's file is read onboard; these are its names as the simulation uses them."""

from onboard.three_bar_robot import (
    CABLES,
    CAPS,
    NAME,
    RODS,
    Actuators,
    Passive,
    Positive,
    Primitive,
    ThreeBar,
    load_robot,
    physics_hash,
    read_robot,
)

__all__ = [
    "CABLES",
    "CAPS",
    "NAME",
    "RODS",
    "Actuators",
    "Passive",
    "Positive",
    "Primitive",
    "ThreeBar",
    "load_robot",
    "physics_hash",
    "read_robot",
]
