"""Robots and plants that the tests share; a plant is put back before each use."""

from __future__ import annotations

import pytest

from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import ThreeBar, load_robot


@pytest.fixture(scope="session")
def spec() -> ThreeBar:
    return load_robot()


@pytest.fixture(scope="session")
def flat_plant(spec: ThreeBar) -> Plant:
    return Plant(spec)


@pytest.fixture
def standing(flat_plant: Plant) -> Plant:
    """The robot on level ground, settled at its start."""
    flat_plant.reset()
    flat_plant.settle()
    return flat_plant
