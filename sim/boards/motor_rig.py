"""Simulated drives behind virtual motor boards: bridge duty to spool speed with lag, counts and currents back; jams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import numpy as np

from onboard.link.endpoint import Endpoint
from onboard.link.motor_spec import MotorRobot
from onboard.link.wire_types import TICKS_MASK
from onboard.messages import Floats
from sim.boards.jail import BoardConfig
from sim.boards.registers import MotorRegisterFile

WRAP_SOON_US = 20_000_000  # the first board's clock wraps this long after its start
LAG_S = 0.03  # of the spool's speed behind the bridge: ours, a gear motor of this size
BRAKE_S = 0.01  # the same with the winding shorted
STALL_CURRENT_A = 1.6  # at full duty, ours
IDLE_CURRENT_A = 0.05  # of a turning motor without load, ours


def motor_board_configs(robot: MotorRobot, endpoint: Endpoint, seed: int = 0, heap: str = "256K") -> list[BoardConfig]:
    """One virtual board an entry of motors.boards; their clocks start anywhere, drawn from the seed."""
    rng = np.random.default_rng([seed, 0x3070])
    imu = {"batch": robot.imu.batch, "accel_range_g": robot.imu.accel_range_g, "gyro_range_dps": robot.imu.gyro_range_dps}
    return [
        BoardConfig(
            id=name,
            app="motor",
            board=robot.imu.board,
            prefix=robot.link.prefix,
            broker_host=endpoint.host,
            broker_port=endpoint.port,
            broker_user=endpoint.username or "",
            broker_password=endpoint.password or "",
            keepalive_s=robot.link.keepalive_s,
            imu=imu,
            tick_offset_us=TICKS_MASK - WRAP_SOON_US if number == 0 else int(rng.integers(0, TICKS_MASK)),
            drift_ppm=int(rng.integers(-50, 51)),
            heap=heap,
        )
        for number, name in enumerate(robot.struts)
    ]


class MotorPlantFeed:
    """The drives of one robot between its boards' register files in `folder` and a plant; use as a context manager.

    rest_u, speed_rad_s (motors,): what the drives do now; positive speeds shorten. A drive loses no position when its board
    restarts, as a geared motor does not.
    """

    def __init__(self, robot: MotorRobot, folder: Path) -> None:
        self._robot, self._boards = robot, robot.motors.boards
        self._files = [MotorRegisterFile(folder / board.id / "sim" / "registers.bin", robot.imu.sensor) for board in self._boards]
        n, law = robot.count, robot.law
        self.rest_u: Floats = np.full(n, law.rest_start_u)
        self.speed_rad_s: Floats = np.zeros(n)
        self._no_load_rad_s = law.max_speed_rad_s / robot.motors.duty_at_full
        self._locked, self._shorted = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        self._load_rad_s = np.zeros(n)
        self._duty, self._braked = np.zeros(n), np.ones(n, dtype=bool)

    def __enter__(self) -> MotorPlantFeed:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the register files."""
        for file in self._files:
            file.close()

    def step(self, dt_s: float) -> tuple[Floats, Floats]:
        """Let the drives run for `dt_s` under what the boards put out now; (rest lengths [u], spool speeds [rad/s])."""
        for board, file in zip(self._boards, self._files, strict=True):
            duty, braked = file.bridges()
            self._duty[board.motors] = duty[: len(board.motors)]
            self._braked[board.motors] = braked[: len(board.motors)]
        law = self._robot.law
        driven = self._duty * self._no_load_rad_s
        target = np.where(self._braked, 0.0, np.sign(driven) * np.maximum(np.abs(driven) - self._load_rad_s, 0.0))
        lag = np.where(self._braked, BRAKE_S, LAG_S)
        before = self.speed_rad_s
        speed = target + (before - target) * np.exp(-dt_s / lag)
        speed[self._locked] = 0.0
        wound = 0.5 * (before + speed) * law.spool_radius_u * dt_s  # the mean of old and new speed, as the motor law has it
        wound[self._locked] = 0.0
        self.rest_u = np.clip(self.rest_u - wound, law.rest_min_u, law.rest_max_u)
        self.speed_rad_s = speed
        current_a = STALL_CURRENT_A * np.abs(self._duty - speed / self._no_load_rad_s) + IDLE_CURRENT_A * (np.abs(speed) > 0.1)
        current_a[self._shorted & ~self._braked] = 3.0
        turned = (law.rest_start_u - self.rest_u) / self._robot.rest_u_per_count
        for board, file in zip(self._boards, self._files, strict=True):
            file.write_motors([math.floor(turned[m]) for m in board.motors], [current_a[m] * 1000.0 for m in board.motors])
        return self.rest_u.copy(), self.speed_rad_s.copy()

    def imu(self, board: int, counter: int, acceleration_m_s2: Sequence[float], rate_rad_s: Sequence[float]) -> None:
        """A new sample of a board's IMU, in sensor axes."""
        self._files[board].write_physical(counter, acceleration_m_s2, rate_rad_s)

    def lock(self, motor: int, locked: bool) -> None:
        """Jam a spool, or let it go."""
        self._locked[motor] = locked

    def short(self, motor: int, shorted: bool) -> None:
        """A winding that draws 3 A whatever the duty, as long as it is driven."""
        self._shorted[motor] = shorted

    def load(self, motor: int, drop_rad_s: float) -> None:
        """A load that takes this much off a driven spool's speed."""
        self._load_rad_s[motor] = drop_rad_s

    def press_stop(self, board: int, pressed: bool) -> None:
        """Open or close a board's hard-wired stop."""
        self._files[board].press_stop(pressed)
