"""Components by type: the robot's file names a type, the registry finds the section that reads it and builds the part.

A component is a configuration section (a frozen msgspec Struct) with a `build` method. Third parties add theirs through the
entry-point group `prestress.components`, named `slot.type`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from onboard.config import Section, convert
from onboard.errors import ConfigError

BUILT_IN: dict[str, str] = {
    "structure.strut_tower": "onboard.tower:StrutTower",
    "orientation.vqf": "onboard.estimation.orientation:VqfConfig",
    "estimator.disc_gradient": "onboard.estimation.disc_gradient:DiscGradientConfig",
    "estimator.disc_gauss_newton": "onboard.estimation.disc_gauss_newton:DiscGaussNewtonConfig",
    "estimator.disc_map": "onboard.estimation.disc_map:DiscMapConfig",
    "controller.cable_pressure_pi": "onboard.control.cable_pressure:CablePressureConfig",
}


def resolve(file: str, slot: str, raw: Any) -> Section:
    """The section for `slot`, read by the component that its `type` key names."""
    if not isinstance(raw, dict):
        raise ConfigError(file, slot, "must be a table")
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in known(slot):
        raise ConfigError(file, f"{slot}.type", f"is {kind!r}: known types are {', '.join(known(slot))}")
    body = {key: value for key, value in raw.items() if key != "type"}
    return convert(file, slot, body, component(slot, kind))


def component(slot: str, kind: str) -> type[Section]:
    """The section class behind a type name that `known` lists."""
    target = BUILT_IN.get(f"{slot}.{kind}")
    if target is not None:
        module, _, name = target.partition(":")
        section: type[Section] = getattr(import_module(module), name)
        return section
    (entry,) = entry_points(group="prestress.components", name=f"{slot}.{kind}")
    loaded: type[Section] = entry.load()
    return loaded


def known(slot: str) -> list[str]:
    """The type names of a slot, sorted."""
    names = [*BUILT_IN, *(entry.name for entry in entry_points(group="prestress.components"))]
    return sorted(name.partition(".")[2] for name in names if name.startswith(slot + "."))
