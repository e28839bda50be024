"""The virtual boards of one robot: what each is told at its making, and what a valve board keeps from its first day."""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Any

import numpy as np

from onboard.link.board_json import encode_config
from onboard.link.endpoint import Endpoint
from onboard.link.serial_board import actuator_config
from onboard.link.wire_types import SETPOINT_PA, TICKS_MASK
from onboard.robot import RobotSpec
from sim.boards.jail import BoardConfig
from sim.boards.launcher import BoardFleet

WRAP_SOON_US = 20_000_000  # every third board's clock wraps this long after its start, so that wraps are daily bread


def board_configs(spec: RobotSpec, endpoint: Endpoint, seed: int, real: Container[str] = ()) -> list[BoardConfig]:
    """One configuration a board: clocks start anywhere and drift as the robot's file says, drawn from the seed.

    real: ids of boards that are not virtual and get none; the draws of the others do not depend on it.
    """
    rng = np.random.default_rng([seed, 0xB0A4D])
    imu = {"batch": spec.imu.batch, "accel_range_g": spec.imu.accel_range_g, "gyro_range_dps": spec.imu.gyro_range_dps}
    drift = int(spec.simulation.imu.clock_drift_ppm)
    actuators = spec.actuators.boards if spec.actuators else []
    configs = []
    for number, name in enumerate([*spec.struts, *(board.id for board in actuators)]):
        start = TICKS_MASK - WRAP_SOON_US if number % 3 == 0 else int(rng.integers(0, TICKS_MASK))
        common: dict[str, Any] = {
            "id": name,
            "board": spec.imu.board,
            "prefix": spec.link.prefix,
            "tick_offset_us": start,
            "drift_ppm": int(rng.integers(-drift, drift + 1)),
        }
        if name in real:
            continue
        if number < len(spec.struts):
            configs.append(
                BoardConfig(
                    **common,
                    broker_host=endpoint.host,
                    broker_port=endpoint.port,
                    broker_user=endpoint.username or "",
                    broker_password=endpoint.password or "",
                    keepalive_s=spec.link.keepalive_s,
                    imu=imu,
                )
            )
        else:
            channels = actuators[number - len(spec.struts)].channels
            configs.append(BoardConfig(**{**common, "board": "nano_rp2040"}, app="valve", channels=channels))
    return configs


def commission(spec: RobotSpec, fleet: BoardFleet) -> None:
    """Give valve boards the configuration that a robot's boards keep from their first day: they start at the safe pressure."""
    if spec.actuators is None:
        return
    for board in spec.actuators.boards:
        file = fleet[board.id].jail / "config.json"
        file.write_bytes(encode_config(actuator_config(spec.actuators, board.channels, SETPOINT_PA)))
        owner = file.parent.stat()
        os.chown(file, owner.st_uid, owner.st_gid)
