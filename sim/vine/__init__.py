"""Batched, differentiable simulator of soft-growing vine robots in the plane."""

from sim.vine.robot import Robot, UnitsWarning, VineError, paper_robot, wrinkling_moment
from sim.vine.rollout import Rollout
from sim.vine.scene import Obstacle, Scene, box, circle, polygon, wall
from sim.vine.scene_file import load_scene
from sim.vine.simulator import Simulator
from sim.vine.state import Gradients, Options, Report, State

__all__ = [
    "Gradients",
    "Obstacle",
    "Options",
    "Report",
    "Robot",
    "Rollout",
    "Scene",
    "Simulator",
    "State",
    "UnitsWarning",
    "VineError",
    "box",
    "circle",
    "load_scene",
    "paper_robot",
    "polygon",
    "wall",
    "wrinkling_moment",
]
