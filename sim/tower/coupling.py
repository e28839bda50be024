"""The wires between the plant and its boards: samples and pressures into their registers, valve set-points out of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onboard.errors import UsageError
from onboard.messages import Floats
from onboard.robot import RobotSpec
from sim.imu import ImuArray
from sim.tower.plant import TowerPlant

PRESSURE_EVERY = 5  # plant steps between new pressures at the converters: 100 Hz at 2 ms


class ImuPort(Protocol):
    """A strut's sensor registers, as the plant writes them."""

    def write_sample(self, counter: int, accel: Sequence[int], gyro: Sequence[int], temperature: int) -> None:
        """A new raw sample."""

    def set_rate_correction(self, steps: int) -> None:
        """What the sensor says about its own rate, in steps of 0.15 %."""

    def set_faults(self, bits: int) -> None:
        """Faults of the bus from now on."""


class ValvePort(Protocol):
    """A valve board's converters, as the plant sees them."""

    def outputs(self) -> list[float]:
        """Pressures [Pa] that the valves are told to hold."""

    def output_writes(self) -> int:
        """How often the board has written them; zero means never."""

    def write_pressures(self, pressures_pa: Sequence[float]) -> None:
        """Measured pressures [Pa]."""

    def set_faults(self, bits: int) -> None:
        """Faults of the bus from now on."""

    def press_stop(self, pressed: bool) -> None:
        """Open or close the hard-wired stop."""


class BoardCoupling:
    """Moves a plant together with its boards' registers, one plant step at a time.

    A valve whose board has not written its converters yet stays where the plant started.
    """

    def __init__(
        self, plant: TowerPlant, sensors: ImuArray, struts: Mapping[str, ImuPort], valves: Mapping[str, ValvePort]
    ) -> None:
        spec = plant.spec
        self.plant, self.sensors = plant, sensors
        missing = [name for name in spec.struts if name not in struts]
        boards = spec.actuators.boards if spec.actuators else []
        missing += [board.id for board in boards if board.id not in valves]
        if missing:
            raise UsageError(f"{spec.name}: no registers for {', '.join(missing)}")
        self._struts = [struts[name] for name in spec.struts]
        self._boards = {board.id: valves[board.id] for board in boards}
        self._valves = [(valves[board.id], slice(board.first, board.first + board.channels)) for board in boards]
        self.setpoints_pa: Floats = plant.pressures_pa()
        self._jammed: dict[str, Floats] = {}  # board -> pressures that its valves stick at
        self._steps = 0
        if spec.imu.sensor == "lsm6dsox":
            for port, rate in zip(self._struts, sensors.rate_hz, strict=True):
                port.set_rate_correction(round((rate / spec.imu.rate_hz - 1.0) / 0.0015))

    def step(self) -> None:
        """One plant step with what the boards say now; raises PlantError."""
        for port, channels in self._valves:
            if port.output_writes():
                self.setpoints_pa[channels] = port.outputs()
        plant = self.plant
        if self._valves:
            plant.set_setpoints(self._reached() if self._jammed else self.setpoints_pa)
        plant.step()
        force, rate = plant.imu_truth()
        samples = self.sensors.update(plant.time_s, force, rate)
        for row, strut in enumerate(samples.strut.tolist()):
            self._struts[strut].write_sample(
                int(samples.counter[row]), samples.accel[row].tolist(), samples.gyro[row].tolist(), int(samples.temperature[row])
            )
        if self._valves and self._steps % PRESSURE_EVERY == 0:
            measured = plant.measured_pressures_pa()
            for port, channels in self._valves:
                port.write_pressures(measured[channels].tolist())
        self._steps += 1

    def jam(self, board_id: str, jammed: bool) -> None:
        """Let a board's valves stick at the pressures that they have now, or free them; raises UsageError for a stranger."""
        if board_id not in self._boards:
            raise UsageError(f"no valve board {board_id!r}: known are {', '.join(self._boards)}")
        self._jammed.pop(board_id, None)
        if jammed:
            self._jammed[board_id] = self.plant.pressures_pa()[self._channels(board_id)]

    def _channels(self, board_id: str) -> slice:
        return next(channels for port, channels in self._valves if port is self._boards[board_id])

    def _reached(self) -> Floats:
        """Set-points as far as valves obey them (A,) [Pa]."""
        reached = self.setpoints_pa.copy()
        for board_id, pressures in self._jammed.items():
            reached[self._channels(board_id)] = pressures
        return reached

    def board(self, board_id: str) -> Any:
        """The registers of one board by its id; raises UsageError for a stranger."""
        ports = {**dict(zip(self.plant.spec.struts, self._struts, strict=True)), **self._boards}
        if board_id not in ports:
            raise UsageError(f"no board {board_id!r}: known are {', '.join(ports)}")
        return ports[board_id]

    @property
    def violation_pa(self) -> float:
        """How far the valves are told to go beyond the robot's range [Pa]; zero when they are not."""
        valves = self.plant.spec.actuators
        if valves is None:
            return 0.0
        return float(np.max(np.maximum(valves.min_pressure_pa - self.setpoints_pa, self.setpoints_pa - valves.max_pressure_pa)))


def open_registers(spec: RobotSpec, boards: Path) -> tuple[dict[str, ImuPort], dict[str, ValvePort]]:
    """The register files of all boards under the fleet's folder `boards`; raises UsageError when one is missing."""
    from sim.boards.registers import ImuRegisterFile, ValveRegisterFile

    def path(board: str) -> Path:
        file = boards / board / "sim" / "registers.bin"
        if not file.exists():
            raise UsageError(f"{file} is missing: start the virtual boards of {spec.name} first")
        return file

    struts: dict[str, ImuPort] = {name: ImuRegisterFile(path(name), spec.imu.sensor) for name in spec.struts}
    valves: dict[str, ValvePort] = {}
    if spec.actuators is not None:
        valves = {board.id: ValveRegisterFile(path(board.id), board.channels) for board in spec.actuators.boards}
    return struts, valves
