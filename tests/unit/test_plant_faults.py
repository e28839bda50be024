"""Faults that a plant can be asked for: no weight, and valves that stick while their board says otherwise."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.errors import UsageError
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.imu import ImuArray
from sim.tower.coupling import BoardCoupling
from sim.tower.plant import TowerPlant


class Port:
    """Registers of any board: sensors take all, valves ask for 5 bar."""

    def write_sample(self, *_: object) -> None: ...

    def set_rate_correction(self, steps: int) -> None: ...

    def set_faults(self, bits: int) -> None: ...

    def press_stop(self, pressed: bool) -> None: ...

    def write_pressures(self, pressures_pa: object) -> None: ...

    def outputs(self) -> list[float]:
        return [5.0e5] * 8

    def output_writes(self) -> int:
        return 1


@pytest.fixture(scope="module")
def spec() -> RobotSpec:
    return load_robot(robot_file("manipulator"))


def test_sensors_of_a_tower_without_weight_feel_nothing(spec: RobotSpec) -> None:
    plant = TowerPlant(spec, 1)
    assert np.linalg.norm(plant.imu_truth()[0], axis=1) == pytest.approx(np.full(20, 9.81), abs=0.05)
    plant.weigh(0.0)
    plant.step(500)
    assert np.linalg.norm(plant.imu_truth()[0], axis=1).max() < 0.5
    for share in (-0.1, 2.1, float("nan")):
        with pytest.raises(UsageError, match="gravity"):
            plant.weigh(share)


def test_valves_that_stick_keep_their_pressure_and_nobody_elses(spec: RobotSpec) -> None:
    plant, port = TowerPlant(spec, 1), Port()
    assert spec.actuators is not None
    struts, valves = dict.fromkeys(spec.struts, port), {board.id: Port() for board in spec.actuators.boards}
    coupling = BoardCoupling(plant, ImuArray(spec, 1), struts, valves)
    coupling.jam("valve3", True)
    for _ in range(400):
        coupling.step()
    stuck = np.arange(24, 32)
    assert plant.pressures_pa()[stuck] == pytest.approx(np.full(8, spec.actuators.rest_pressure_pa), rel=1e-3)
    assert np.delete(plant.pressures_pa(), stuck) == pytest.approx(np.full(32, 5.0e5), rel=1e-3)
    assert coupling.setpoints_pa == pytest.approx(np.full(40, 5.0e5))  # that is what boards ask for
    coupling.jam("valve3", False)
    for _ in range(400):
        coupling.step()
    assert plant.pressures_pa()[stuck] == pytest.approx(np.full(8, 5.0e5), rel=1e-3)
    with pytest.raises(UsageError, match="valve9"):
        coupling.jam("valve9", True)
