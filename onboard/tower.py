"""A tower of class-1 tensegrity modules: struts between passive loops, cables or cylinders between joints of adjacent loops.

Numbering (reference page, "A MuJoCo plant that stands"): loop k carries the lower joints B(k, j) of module k and the upper
joints T(k-1, j) of module k-1. B(m, j) stands at azimuth beta_m + 360 j/N, T(m, j) at beta_m + s_m x + 360 j/N with x the
strut twist and s_m the handedness; beta_(m+1) = beta_m + s_m x + ring_offset. Strut (m, j) joins B(m, j) and T(m, j). A
cable of group `step` joins T(m, j) and B(m, (j + s_m step) mod N). Struts are numbered m N + j, cables module by module, in
each module group by group.
"""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.errors import ConfigError
from onboard.messages import Floats


def _above(low: float, high: float, text: str) -> Meta:
    return Meta(gt=low, le=high, description=text)


def _from(low: float, high: float, text: str) -> Meta:
    return Meta(ge=low, le=high, description=text)


class Ring(Section, frozen=True):
    """[structure.ring]: the edges of the passive loops, springs that cannot push."""

    stiffness_n_per_m: Annotated[float, _above(0, 1e6, "stiffness of one edge")]
    damping_n_s_per_m: Annotated[float, _from(0, 1e5, "damping of one edge")]


class CableGroup(Section, frozen=True):
    """[[structure.cables]]: the cables or cylinders from T(m, j) to B(m, j + s step), alike in every module.

    A cylinder pulls with pressure x piston area; its parallel stiffness is the trapped gas; friction is a spring that yields.
    A passive cable is a spring that cannot push, with its rest tension at the nominal length.
    """

    name: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_]{0,31}$", description="name of the group")]
    step: Annotated[int, _from(-8, 8, "joints between the strut's own lower end and the cable's")]
    actuation: Annotated[Literal["cylinder", "passive"], Meta(description="pneumatic cylinder or plain cable")]
    damping_n_s_per_m: Annotated[float, _from(0, 1e5, "damping")]
    parallel_stiffness_n_per_m: Annotated[float, _from(0, 1e6, "stiffness of the cable, or of the gas in the cylinder")]
    stroke_m: Annotated[float, _above(0, 10, "travel either way from the nominal length")] = 0.05
    piston_area_m2: Annotated[float, _from(0, 0.1, "cylinder only: pull per pressure")] = 0.0
    friction_stiffness_n_per_m: Annotated[float, _from(0, 1e6, "cylinder only: stiffness before friction yields")] = 0.0
    friction_yield_m: Annotated[float, _from(0, 0.1, "cylinder only: travel at which friction yields")] = 0.0
    rest_tension_n: Annotated[float, _from(0, 1e4, "passive cable only: tension at the nominal length")] = 0.0


class StrutTower(Section, frozen=True):
    """[structure], type "strut_tower": bodies and tendons of class-1 modules stacked on one another."""

    modules: Annotated[int, _from(1, 16, "number of modules")]
    struts_per_module: Annotated[int, _from(3, 8, "number of struts in each")]
    ring_radius_m: Annotated[float, _above(0, 10, "distance of the joints from the axis")]
    module_height_m: Annotated[float, _above(0, 10, "height of a module at rest")]
    strut_twist_deg: Annotated[
        float, Meta(gt=-180, lt=180, description="turn of a module's upper joints against its lower ones, at least 10 either way")
    ]
    handedness: Annotated[list[Annotated[int, Meta(ge=-1, le=1)]], Meta(description="1 or -1 a module: which way it twists")]
    strut_mass_kg: Annotated[float, _above(0, 100, "mass of a strut with its board")]
    strut_diameter_m: Annotated[float, _above(0, 10, "outer diameter of a strut")]
    ring: Ring
    cables: Annotated[list[CableGroup], Meta(min_length=1, max_length=8, description="groups of cables")]
    base_joint_damping_n_m_s_per_rad: Annotated[float, _from(0, 10, "friction of the ball joints that carry the base")] = 0.0
    spin_damping_n_m_s_per_rad: Annotated[float, _from(0, 10, "simulation: resists a strut that turns about its own axis")] = 2e-4
    ring_offset_deg: Annotated[float, _from(-180, 180, "azimuth from a loop's upper joints to its next lower ones")] = 45.0

    def check(self, file: str) -> None:
        """What single ranges cannot say; raises ConfigError."""
        if len(self.handedness) != self.modules or any(s == 0 for s in self.handedness):
            raise ConfigError(
                file,
                "structure.handedness",
                f"is {self.handedness}: needs {self.modules} entries, each 1 or -1",
            )
        if abs(self.strut_twist_deg) < 10.0:
            raise ConfigError(
                file,
                "structure.strut_twist_deg",
                f"is {self.strut_twist_deg}: parallel struts carry no pose information (3 of 6 directions of the disc "
                "above stay free, and inclination cannot see them); use at least 10 degrees of twist",
            )
        names = [group.name for group in self.cables]
        if len(set(names)) != len(names):
            raise ConfigError(file, "structure.cables", f"has a group name twice: {names}")
        for index, group in enumerate(self.cables):
            if group.actuation == "cylinder" and group.piston_area_m2 <= 0.0:
                raise ConfigError(file, f"structure.cables[{index}].piston_area_m2", "a cylinder needs a piston area > 0")
            if group.actuation == "passive" and group.rest_tension_n <= 0.0:
                raise ConfigError(
                    file,
                    f"structure.cables[{index}].rest_tension_n",
                    "a passive cable needs a tension > 0 at rest",
                )

    @property
    def struts(self) -> int:
        """Number of struts."""
        return self.modules * self.struts_per_module

    @property
    def cable_count(self) -> int:
        """Number of cables between loops, passive ones included."""
        return self.struts * len(self.cables)

    @property
    def cylinders(self) -> list[int]:
        """Cable numbers that are cylinders, ascending: the order of actuator channels."""
        n, groups = self.struts_per_module, self.cables
        return [
            (m * len(groups) + g) * n + j
            for m in range(self.modules)
            for g, group in enumerate(groups)
            if group.actuation == "cylinder"
            for j in range(n)
        ]

    @property
    def strut_length_m(self) -> float:
        """Length of every strut from height, radius and twist: sqrt(h^2 + 4 r^2 sin^2(x/2)) [m]."""
        chord = 2.0 * self.ring_radius_m * np.sin(np.radians(self.strut_twist_deg) / 2.0)
        return float(np.hypot(self.module_height_m, chord))

    @property
    def rest_height_m(self) -> float:
        """Height of the upright tower, and the length that errors are quoted against [m]."""
        return self.modules * self.module_height_m

    def azimuths_rad(self) -> tuple[Floats, Floats]:
        """Azimuths of B (M, N) and T (M, N) of the upright tower in world axes [rad]."""
        step = 2.0 * np.pi * np.arange(self.struts_per_module) / self.struts_per_module
        twist, offset = np.radians(self.strut_twist_deg), np.radians(self.ring_offset_deg)
        lower, upper, beta = [], [], 0.0
        for hand in self.handedness:
            lower.append(beta + step)
            upper.append(beta + hand * twist + step)
            beta += hand * twist + offset
        return np.array(lower), np.array(upper)

    def rest_joints_m(self) -> tuple[Floats, Floats]:
        """World positions of B (M, N, 3) and T (M, N, 3) of the upright tower [m], base loop at z = 0."""
        lower, upper = self.azimuths_rad()
        height: Floats = self.module_height_m * np.arange(self.modules, dtype=np.float64)[:, None]
        radius = self.ring_radius_m

        def place(azimuth: Floats, z: Floats) -> Floats:
            return np.stack(
                [radius * np.cos(azimuth), radius * np.sin(azimuth), np.broadcast_to(z, azimuth.shape)],
                axis=-1,
            )

        return place(lower, height), place(upper, height + self.module_height_m)

    def cable_ends(self) -> list[tuple[int, int, int]]:
        """(module, upper joint index of T, lower joint index of B) of every cable, in cable order."""
        n = self.struts_per_module
        return [
            (m, j, (j + self.handedness[m] * group.step) % n)
            for m in range(self.modules)
            for group in self.cables
            for j in range(n)
        ]
