"""Courses are read onboard; these are their names as the simulation uses them."""

from onboard.planning.course import (
    COURSES,
    WORLD_COLUMNS,
    Course,
    OrientedBox,
    RampTable,
    Scene,
    box,
    load_course,
    ramp,
    scene_of,
    signed_distance,
    tilt,
)

__all__ = [
    "COURSES",
    "WORLD_COLUMNS",
    "Course",
    "OrientedBox",
    "RampTable",
    "Scene",
    "box",
    "load_course",
    "ramp",
    "scene_of",
    "signed_distance",
    "tilt",
]
