"""What sections of a robot's file must agree on with each other; ranges of single keys are in the sections themselves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onboard.errors import ConfigError

if TYPE_CHECKING:
    from onboard.robot import RobotSpec


def check(spec: RobotSpec) -> None:
    """Raise ConfigError, naming file, key, value and what it must agree with, for the first section that does not fit."""
    file, tower = spec.file, spec.structure
    tower.check(file)
    seen: set[str] = set()
    for index, strut in enumerate(spec.struts):
        if strut in seen:
            raise ConfigError(file, f"struts[{index}]", f"is {strut!r}: this id is already taken")
        seen.add(strut)
    if len(spec.struts) != tower.struts:
        raise ConfigError(
            file,
            "struts",
            f"has {len(spec.struts)} ids: {tower.modules} modules of {tower.struts_per_module} struts need {tower.struts}",
        )
    pairs = {"nano_rp2040": "lsm6dsox", "m5stickc_plus": "mpu6886"}
    if pairs[spec.imu.board] != spec.imu.sensor:
        raise ConfigError(
            file,
            "imu.sensor",
            f"is {spec.imu.sensor!r}: the {spec.imu.board} carries {pairs[spec.imu.board]}",
        )
    norm = sum(value * value for value in spec.imu.mounting_wxyz)
    if abs(norm - 1.0) > 1e-3:
        raise ConfigError(file, "imu.mounting_wxyz", f"has norm {norm**0.5:.4f}, must be a unit quaternion")
    if re.search(r"//|^/|/$", spec.link.prefix):
        raise ConfigError(file, "link.prefix", f"is {spec.link.prefix!r}: no leading, trailing or double slash")
    safety = spec.safety
    if safety.degraded_budget_s >= safety.degraded_window_s:
        raise ConfigError(
            file,
            "safety.degraded_budget_s",
            f"is {safety.degraded_budget_s:g}: must be less than degraded_window_s = {safety.degraded_window_s:g}",
        )
    _check_actuators(spec)


def _check_actuators(spec: RobotSpec) -> None:
    file, valves, cylinders = spec.file, spec.actuators, spec.structure.cylinders
    if valves is None:
        if cylinders:
            raise ConfigError(file, "actuators", f"required section is missing: {len(cylinders)} cylinders need valves")
        return
    if spec.controller is None:
        raise ConfigError(file, "controller", "required section is missing: the robot has actuators")
    if not valves.min_pressure_pa < valves.max_pressure_pa:
        raise ConfigError(
            file,
            "actuators.max_pressure_pa",
            f"is {valves.max_pressure_pa}: must exceed min_pressure_pa = {valves.min_pressure_pa}",
        )
    for key in ("rest_pressure_pa", "safe_pressure_pa"):
        value = getattr(valves, key)
        if not valves.min_pressure_pa <= value <= valves.max_pressure_pa:
            raise ConfigError(
                file,
                f"actuators.{key}",
                f"is {value}: must lie in {valves.min_pressure_pa} .. {valves.max_pressure_pa}",
            )
    channels = [board.first + k for board in valves.boards for k in range(board.channels)]
    if sorted(channels) != list(range(len(cylinders))):
        raise ConfigError(
            file,
            "actuators.boards",
            f"drive channels {channels}: each of 0 .. {len(cylinders) - 1} exactly once",
        )
    ids = [board.id for board in valves.boards]
    if len({*ids, *spec.struts}) != len(ids) + len(spec.struts):
        raise ConfigError(file, "actuators.boards", f"has an id twice or one that a strut bears: {ids}")
