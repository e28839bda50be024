"""What flows between the parts: frozen records with read-only arrays and units in their names."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntFlag
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def frozen(array: npt.ArrayLike, dtype: npt.DTypeLike = np.float64) -> npt.NDArray[Any]:
    """A read-only, contiguous copy of `array`."""
    out = np.array(array, dtype=dtype, order="C", copy=True)
    out.flags.writeable = False
    return out


class SensorFlag(IntFlag):
    """Why a strut's reading is not fully trusted; zero means healthy."""

    NONE = 0
    STALE = 1  # the newest sample is older than the robot's file allows
    FROZEN = 2  # bit-identical samples while the strut or its neighbours move
    SATURATED = 4  # a channel sits at the end of its range
    NOT_FINITE = 8  # a scale or sample was not a number
    FREE_FALL = 16  # no gravity to level against: gyro only
    BUS_ERROR = 32  # the board reports I2C errors
    INCONSISTENT = 64  # the estimator's residuals single this strut out
    MISSING = 128  # never heard of
    SETTLING = 256  # its gyro's bias is not known yet: it must be kept still
    UNSYNCHRONISED = 512  # its board's clock is not known yet: the samples may be older than they seem


class EstimateFlag(IntFlag):
    """State of a pose estimate; zero means healthy."""

    NONE = 0
    DEGRADED = 1  # one or more struts are left out, still observable
    COASTING = 2  # at least one module runs on priors alone
    WARPED = 4  # alternating residuals say that a ring is not flat
    UNCERTAIN = 8  # covariance beyond the controller's bound
    LOST = 16  # nothing to stand on: do not control with it


@dataclass(frozen=True, slots=True)
class ImuBatch:
    """Samples of one strut as they came in one packet, in SI units and host time.

    t_s (k,): acquisition time, host monotonic [s]. acceleration_m_s2 (k, 3), rate_rad_s (k, 3): sensor axes.
    """

    strut: int
    boot_id: int
    sequence: int
    t_s: Floats
    acceleration_m_s2: Floats
    rate_rad_s: Floats
    temperature_c: float
    flags: SensorFlag
    received_s: float


@dataclass(frozen=True, slots=True)
class StrutObservations:
    """Where all n struts point, at one estimator tick; struts are ordered module by module as in the robot's file.

    direction (n, 3): unit vector from the strut's lower to its upper end, world axes (z up).
    rate_rad_s (n, 3): angular rate in world axes, bias removed.
    sigma_inclination_rad (n,), sigma_azimuth_rad (n,): standard deviations; the azimuth's grows with its drift.
    age_s (n,): tick minus acquisition of the newest sample used. valid (n,): may be used at all.
    flags (n,): SensorFlag bits.
    """

    t_s: float
    direction: Floats
    rate_rad_s: Floats
    sigma_inclination_rad: Floats
    sigma_azimuth_rad: Floats
    age_s: Floats
    valid: Bools
    flags: Ints


@dataclass(frozen=True, slots=True)
class PoseEstimate:
    """Poses of all D discs (disc 0 is the fixed base) and what follows from them.

    position_m (D, 3) and rotation (D, 3, 3): world frame. cable_length_m (C,): joint to joint, in the order of the robot's
    file. cable_jacobian (C, 6 (D-1)): d length / d (position, world rotation) of discs 1..D-1. covariance (6 (D-1), 6 (D-1)):
    of (position [m], world rotation vector [rad]) disc by disc. age_s: of the oldest valid strut sample used.
    """

    t_s: float
    position_m: Floats
    rotation: Floats
    cable_length_m: Floats
    cable_jacobian: Floats
    covariance: Floats
    strut_flags: Ints
    age_s: float
    flags: EstimateFlag

    @property
    def tip_m(self) -> Floats:
        """Position of the last disc (3,) [m]."""
        tip: Floats = self.position_m[-1]
        return tip

    @property
    def tip_sigma_m(self) -> float:
        """Root of the trace of the last disc's position covariance [m]."""
        return float(np.sqrt(max(0.0, float(np.trace(self.covariance[-6:-3, -6:-3])))))


@dataclass(frozen=True, slots=True)
class Posture:
    """A taught posture: cable lengths (C,) [m] and the pressures (C,) [Pa] that held it when it was recorded."""

    name: str
    cable_length_m: Floats
    pressure_pa: Floats
    tip_m: Floats
    taught_wall_ns: int = 0


@dataclass(frozen=True, slots=True)
class Setpoints:
    """What the controller wants from all C actuators, in the unit of the robot's file (Pa for valves)."""

    t_s: float
    value: Floats
    source: str


@dataclass(frozen=True, slots=True)
class BoardReport:
    """An actuator board's telemetry in host time and SI units. measured (n,): pressures [Pa] of its channels.

    ready: the host may arm it: the right board, configured, its clock known.
    """

    board: str
    t_s: float
    boot_id: int
    epoch: int
    armed: bool
    latched: bool
    stop_input: bool
    fault: int
    last_sequence: int
    measured: Floats
    refused: dict[str, int] = field(default_factory=dict)
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """A time-stamped sequence of actuator values: value[k] holds from start_s + k * dt_s; expires_s ends it."""

    start_s: float
    dt_s: float
    value: Floats
    expires_s: float
    estimate_t_s: float
    cost: float
    parts: dict[str, float] = field(default_factory=dict)

    def sample(self, t_s: float) -> Floats | None:
        """The row that holds at `t_s`, or None before the start or after expiry."""
        if t_s < self.start_s or t_s >= self.expires_s:
            return None
        # A tick that falls on the edge of two rows belongs to the later one, whatever rounding says.
        k = min(int((t_s - self.start_s) / self.dt_s + 1e-9), len(self.value) - 1)
        row: Floats = self.value[k]
        return row
