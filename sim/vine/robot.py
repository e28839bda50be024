"""A vine robot's physical parameters: SI units, checked, and laid out as the kernels' parameter vector."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onboard.errors import PrestressError
from sim.vine.kernels import laws

LAWS = {"linear": laws.LINEAR, "network": laws.NETWORK, "wrinkling": laws.WRINKLING}

#: Cubics of the wrinkling strain and the onset angle in normalised pressure (reference measurement, arXiv 2501.17963).
STRAIN_COEFFICIENTS = (0.002077863, 0.009091543, 0.014512785, 0.007656015)
ONSET_COEFFICIENTS = (0.003180574, 0.020924129, 0.048366933, 0.037544482)

#: Between these the cubics are supported by data and the onset lies inside the model's domain [Pa].
WRINKLING_PRESSURE_PA = (1_000.0, 20_000.0)

#: Names of the parameters a gradient comes back for, in the kernels' order.
SCALARS = ("mass_kg", "inertia_kg_m2", "stiffness_nm", "damping_nms", "drag_ns_m", "radius_m", "friction", "strain_scale")


class VineError(PrestressError):
    """The vine simulator was asked for something wrong: says which value and what would be right."""

    exit_code = 2


class UnitsWarning(UserWarning):
    """A value is possible but implausible in SI units: probably millimetres, kilopascals or degrees."""


def finite(name: str, value: Any) -> NDArray[np.float64]:
    """`value` as a float array; VineError when something in it is not a number."""
    array = np.asarray(value, dtype=float)
    if not np.all(np.isfinite(array)):
        where = np.argwhere(~np.isfinite(np.atleast_1d(array)))[0].tolist()
        raise VineError(f"{name}: not a finite number at index {where}")
    return array


@dataclass(frozen=True)
class Robot:
    """Parameters of one vine robot. `mass_kg` and `inertia_kg_m2` are a full link's.

    The defaults are a thin-walled tube of 24 mm diameter at 10 kPa with plausible SI values.
    """

    half_length_m: float = 0.009
    mass_kg: float = 0.001
    inertia_kg_m2: float = 1e-7
    stiffness_nm: float = 0.03
    damping_nms: float = 2e-3
    drag_ns_m: float = 0.02
    radius_m: float = 0.012
    friction: float = 0.0
    pressure_pa: float = 10_000.0
    top_rate_m_s: float = 0.15
    law: str = "linear"
    strain_scale: float = 1.0
    strain: tuple[float, ...] = STRAIN_COEFFICIENTS
    onset: tuple[float, ...] = ONSET_COEFFICIENTS
    network: tuple[float, ...] = field(default=(0.0,) * (3 * laws.NETWORK_UNITS))

    def __post_init__(self) -> None:
        for item in fields(self):
            if item.name != "law":
                finite(item.name, getattr(self, item.name))
        if self.law not in LAWS:
            raise VineError(f"law: {self.law!r} is none of {', '.join(LAWS)}")
        for name in ("half_length_m", "mass_kg", "inertia_kg_m2", "radius_m", "top_rate_m_s", "strain_scale"):
            if getattr(self, name) <= 0.0:
                raise VineError(f"{name}: {getattr(self, name)} must be positive")
        for name in ("stiffness_nm", "damping_nms", "drag_ns_m", "friction"):
            if getattr(self, name) < 0.0:
                raise VineError(f"{name}: {getattr(self, name)} must not be negative")
        if len(self.strain) != 4 or len(self.onset) != 4:
            raise VineError("strain, onset: four coefficients each, highest power first")
        if len(self.network) != 3 * laws.NETWORK_UNITS:
            raise VineError(f"network: {3 * laws.NETWORK_UNITS} weights (input, bias, output), got {len(self.network)}")
        check_pressure(self.law, np.array([self.pressure_pa]))
        if self.law == "wrinkling":
            self.check_domain(np.array([self.pressure_pa]))
        self._warn_units()

    def check_domain(self, pressure_pa: NDArray[np.float64]) -> None:
        """Refuses pressures (any shape) at which the wrinkling law has no onset: it must lie past 2 asin of the strain."""
        span = np.array([pressure_pa.min(), pressure_pa.max()])
        strain = self.strain_scale * np.polyval(self.strain, (span - laws.STRAIN_CENTRE_PA) / laws.STRAIN_SPREAD_PA)
        onset = self.strain_scale * np.polyval(self.onset, (span - laws.ONSET_CENTRE_PA) / laws.ONSET_SPREAD_PA)
        good = (strain > 0.0) & (strain < 1.0) & (onset < math.pi)
        good &= onset > 2.0 * np.arcsin(np.clip(strain, 0.0, 1.0))
        if not good.all():
            k = int(np.argmin(good))
            raise VineError(
                f"strain_scale: {self.strain_scale:g} at {span[k]:g} Pa gives strain {strain[k]:.3g}, onset {onset[k]:.3g} rad: "
                "outside the wrinkling model's domain (onset between 2 asin(strain) and pi)"
            )

    def _warn_units(self) -> None:
        doubts = []
        if self.half_length_m > 0.25 or self.radius_m > 0.25:
            doubts.append("a link longer or wider than half a metre (millimetres?)")
        if self.pressure_pa < 100.0:
            doubts.append("a pressure under 100 Pa (kilopascals?)")
        if self.pressure_pa > 1e6:
            doubts.append("a pressure over 1 MPa (the value in pascals?)")
        if self.stiffness_nm > 1e3:
            doubts.append("a joint stiffer than 1000 N m/rad (newton millimetres?)")
        if self.mass_kg > 5.0:
            doubts.append("a link heavier than 5 kg (grams?)")
        if self.top_rate_m_s > 10.0:
            doubts.append("growth faster than 10 m/s (millimetres a second?)")
        for doubt in doubts:
            warnings.warn(f"vine robot: {doubt}", UnitsWarning, stacklevel=4)

    def vector(self) -> NDArray[np.float64]:
        """The kernels' parameter vector, shape (PARAMETERS,)."""
        p = np.empty(laws.PARAMETERS)
        p[: len(SCALARS)] = [getattr(self, name) for name in SCALARS]
        p[laws.STRAIN : laws.STRAIN + 4] = self.strain
        p[laws.ONSET : laws.ONSET + 4] = self.onset
        p[laws.NETWORK_AT :] = self.network
        return p

    def changed(self, **values: Any) -> Robot:
        """A copy with some values changed, checked again."""
        return replace(self, **values)

    @property
    def stall_force_n(self) -> float:
        """Tip force at which growth stops at full rate demand: pressure times tip area [N]."""
        return self.pressure_pa * math.pi * self.radius_m**2


def check_pressure(law: str, pressure_pa: NDArray[np.float64]) -> None:
    """Refuses pressures a law has no meaning for."""
    finite("pressure_pa", pressure_pa)
    if np.any(pressure_pa <= 0.0):
        raise VineError(f"pressure_pa: {pressure_pa.min()} must be positive: an empty vine neither stands nor grows")
    low, high = WRINKLING_PRESSURE_PA
    if law == "wrinkling" and (np.any(pressure_pa < low) or np.any(pressure_pa > high)):
        raise VineError(
            f"pressure_pa: {pressure_pa.min():g} to {pressure_pa.max():g} leaves the wrinkling model's data, "
            f"{low:g} to {high:g} Pa"
        )


def paper_robot() -> Robot:
    """Defaults of the paper's simulator, turned from its millimetres into SI."""
    return Robot(
        half_length_m=0.009,
        mass_kg=0.02,
        inertia_kg_m2=1e-5,
        stiffness_nm=0.03,
        damping_nms=5e-7,
        drag_ns_m=0.0,
        radius_m=0.0125,
    )


def wrinkling_moment(angle_rad: Any, pressure_pa: float, radius_m: float, strain_scale: float = 1.0) -> Any:
    """Restoring moment of the wrinkling model [N m] for bending angles in (-pi, pi), shape of `angle_rad`.

    Raises VineError outside the model's domain (angle beyond pi, pressure outside its data).
    """
    robot = Robot(pressure_pa=pressure_pa, radius_m=radius_m, strain_scale=strain_scale, law="wrinkling")
    angles = finite("angle_rad", angle_rad)
    if np.any(np.abs(angles) > math.pi):
        raise VineError(f"angle_rad: {np.abs(angles).max():.3f} is beyond pi, where the wrinkling model ends")
    p = robot.vector()
    terms = laws.law_terms(laws.WRINKLING, p, float(pressure_pa))
    flat = [laws.moment(laws.WRINKLING, p, terms, float(a))[0] for a in angles.ravel()]
    return np.array(flat).reshape(angles.shape)
