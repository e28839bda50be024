"""Where every strut points: IMU batches in, directions with honest uncertainties at the estimator's tick out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import numpy as np
from msgspec import Meta

from onboard.config import Section
from onboard.errors import EstimationError
from onboard.estimation.compiled import compiled
from onboard.estimation.geometry import DiscGeometry
from onboard.estimation.imu_checks import BAD, SATURATED, FrozenDetector, compile_checks, counts_si, screen
from onboard.estimation.so3 import exp_so3, rotate
from onboard.estimation.strut_filter import RATE_ERROR, FilterSettings, StrutFilter
from onboard.messages import Floats, ImuBatch, Ints, SensorFlag, StrutObservations, frozen

if TYPE_CHECKING:
    from onboard.robot import RobotSpec

FUTURE_S = 0.25  # a sample this far ahead of its own arrival carries a broken time stamp
BOARD_FLAGS = SensorFlag.BUS_ERROR | SensorFlag.SATURATED | SensorFlag.UNSYNCHRONISED  # of a batch, kept until the next
RECENT_S = 0.5  # how long an incident stays on a strut's flags
FREE_FALL_FLAG_S = 0.1
REST_LEAN_RAD = math.radians(4.0)  # from the rest pose: more than sensors' mounting and friction's hysteresis explain
REST_RATE_RAD_S = 0.026
LONGEST_ALIGN_S = 0.1


class VqfConfig(Section, frozen=True):
    """[orientation] type "vqf": gyroscope and accelerometer fused for each strut by itself; the heading comes from start-up."""

    tau_s: Annotated[float, Meta(ge=0.1, le=60.0, description="VQF's time constant of levelling by accelerometer")] = 3.0
    gate_m_s2: Annotated[float, Meta(ge=0.5, le=50.0, description="samples whose norm is further from gravity do not level")] = (
        5.0
    )
    relevel_gap_s: Annotated[float, Meta(ge=0.05, le=10.0, description="after a longer silence the strut is levelled anew")] = 0.5
    align_s: Annotated[
        float, Meta(ge=0.0, le=10.0, description="time at start-up over which headings are set against the upright tower")
    ] = 1.0
    inclination_sigma_deg: Annotated[float, Meta(gt=0.0, le=20.0, description="of a strut at rest")] = 0.5
    start_azimuth_sigma_deg: Annotated[float, Meta(gt=0.0, le=90.0, description="of the first heading")] = 2.0
    azimuth_walk_deg_per_sqrt_s: Annotated[float, Meta(ge=0.0, le=10.0, description="drift of the heading")] = 0.1
    gap_azimuth_sigma_deg: Annotated[
        float, Meta(ge=0.0, le=90.0, description="doubt that a reboot, a long silence or frozen samples add")
    ] = 5.0

    def build(self, spec: RobotSpec) -> VqfOrientation:
        """The source of strut directions of this robot."""
        return VqfOrientation(self, spec)


class VqfOrientation:
    """One filter a strut. refused: samples (n,) thrown away, by reason."""

    def __init__(self, config: VqfConfig, spec: RobotSpec) -> None:
        imu, n = spec.imu, len(spec.struts)
        self._count = counts_si(imu.sensor, imu.accel_range_g, imu.gyro_range_dps)
        # The last count of either end means "more than I can say".
        self._limit = self._count * 32700.0
        compile_checks(n, imu.rate_hz, self._limit)
        self._max_age_s = imu.max_age_ms * 1e-3
        self._sigma_incl = math.radians(config.inclination_sigma_deg)
        settings = FilterSettings(
            nominal_dt_s=1.0 / imu.rate_hz,
            tau_s=config.tau_s,
            gate_m_s2=config.gate_m_s2,
            relevel_gap_s=config.relevel_gap_s,
            align_s=config.align_s,
            start_azimuth_var=math.radians(config.start_azimuth_sigma_deg) ** 2,
            walk_var_per_s=math.radians(config.azimuth_walk_deg_per_sqrt_s) ** 2,
            gap_azimuth_var=math.radians(config.gap_azimuth_sigma_deg) ** 2,
            gyro_range_rad_s=math.radians(imu.gyro_range_dps),
        )
        w, x, y, z = imu.mounting_wxyz
        # Third row of the sensor-to-strut matrix: the strut's own axis in sensor axes.
        size = w * w + x * x + y * y + z * z
        axis = (2 * (x * z - w * y) / size, 2 * (y * z + w * x) / size, 1 - 2 * (x * x + y * y) / size)
        axes, self._bias = [axis] * n, np.zeros((n, 6))
        if spec.calibration is not None:
            axes = [(row[0], row[1], row[2]) for row in spec.calibration.axes(spec.struts).tolist()]
            self._bias = spec.calibration.bias(spec.struts)
        rest = DiscGeometry.of(spec.structure).rest_direction
        self._filters = [StrutFilter(settings, one, math.atan2(d[1], d[0])) for one, d in zip(axes, rest, strict=True)]
        self._rest_z = [float(d[2]) for d in rest]
        self._align_s, self._aligned_s = settings.align_s, math.inf
        self._detector = FrozenDetector(n, spec.structure.struts_per_module, imu.rate_hz, self._count)
        self._frozen = np.zeros(n, dtype=np.bool_)
        self._heard = np.zeros(n, dtype=np.bool_)
        self._boot, self._sequence = np.full(n, -1, dtype=np.int64), np.full(n, -1, dtype=np.int64)
        self._incident_s = {flag: np.full(n, -math.inf) for flag in (SensorFlag.NOT_FINITE, SensorFlag.SATURATED)}
        self._board_flags = np.zeros(n, dtype=np.int64)
        self.refused: dict[str, Ints] = {
            reason: np.zeros(n, dtype=np.int64) for reason in ("not_finite", "duplicate", "old", "future")
        }

    def add(self, batch: ImuBatch) -> None:
        """Take new samples of one strut; late, duplicate or non-finite samples are refused and counted."""
        strut, k = batch.strut, len(batch.t_s)
        if not 0 <= strut < len(self._filters):
            raise EstimationError(f"a batch of strut {strut}: the robot has {len(self._filters)}")
        unit = self._filters[strut]
        if self._boot[strut] != batch.boot_id:
            if self._boot[strut] != -1 and k:
                first = float(batch.t_s[0])
                unit.reboot(first if math.isfinite(first) else unit.t_s)
                self._detector.forget(strut)
            self._boot[strut] = batch.boot_id
        elif self._sequence[strut] == batch.sequence:
            self.refused["duplicate"][strut] += k
            return
        self._sequence[strut] = batch.sequence
        guessed = self._board_flags[strut] & int(SensorFlag.UNSYNCHRONISED)
        if guessed and not batch.flags & SensorFlag.UNSYNCHRONISED and k and math.isfinite(batch.t_s[0]):
            unit.retime(float(batch.t_s[0]))  # times guessed from arrivals were too new
        self._board_flags[strut] = int(batch.flags & BOARD_FLAGS)
        times = batch.t_s.tolist()
        acceleration = np.ascontiguousarray(batch.acceleration_m_s2, dtype=np.float64)
        rate = np.ascontiguousarray(batch.rate_rad_s, dtype=np.float64)
        for i in range(k):
            self._take(strut, times[i], acceleration[i], rate[i], batch.received_s)

    def _take(self, strut: int, t_s: float, acceleration: Floats, rate: Floats, received_s: float) -> None:
        unit = self._filters[strut]
        verdict = screen(acceleration, rate, self._limit)
        if verdict == BAD or not math.isfinite(t_s):
            self.refused["not_finite"][strut] += 1
            self._incident_s[SensorFlag.NOT_FINITE][strut] = received_s
        elif t_s <= unit.t_s:
            self.refused["duplicate" if t_s == unit.t_s else "old"][strut] += 1
        elif t_s > received_s + FUTURE_S:
            self.refused["future"][strut] += 1
        else:
            self._heard[strut] = True
            self._detector.add(strut, acceleration, rate)
            if verdict == SATURATED:
                self._incident_s[SensorFlag.SATURATED][strut] = t_s
            if self._frozen[strut]:
                # A frozen gyroscope would turn the filter for ever: wait for life, then level anew.
                unit.t_s = t_s
            else:
                bias = self._bias[strut]
                unit.add(t_s, acceleration - bias[:3], rate - bias[3:], verdict == SATURATED)

    def align_at_rest(self, t_s: float) -> bool:
        """Bring headings back to the rest pose if every strut that is heard lies as it does there, and still; True if so.

        For a robot that stands disarmed: its azimuths are known then, and what was learnt while it moved is not needed.
        """
        elapsed_s = min(max(t_s - self._aligned_s, 0.0), LONGEST_ALIGN_S)
        self._aligned_s = t_s
        heard = [(unit, z) for unit, z, known in zip(self._filters, self._rest_z, self._heard, strict=True) if known]
        for unit, rest_z in heard:
            unit.point()
            lean = abs(math.acos(min(max(unit.direction[2], -1.0), 1.0)) - math.acos(rest_z))
            if lean > REST_LEAN_RAD or math.hypot(*unit.rate) > REST_RATE_RAD_S:
                return False
        share = 1.0 - math.exp(-elapsed_s / max(self._align_s, 1e-3))
        for unit, _ in heard:
            unit.hold_heading(share)
        return True

    def observe(self, t_s: float) -> StrutObservations:
        """Directions of all struts as of the tick at `t_s`, carried there from the newest sample by the gyroscope."""
        filters = self._filters
        for unit in filters:
            unit.point()
        sampled = np.array([unit.t_s for unit in filters])
        age = np.where(self._heard, t_s - sampled, np.inf)
        direction = np.array([unit.direction for unit in filters])
        rate = np.array([unit.rate for unit in filters])
        self._refresh_frozen(age <= self._max_age_s)
        ahead = np.clip(np.where(self._heard, age, 0.0), -self._max_age_s, self._max_age_s)
        direction = _turned(direction, rate * ahead[:, None])
        speed = np.linalg.norm(rate, axis=1)
        doubt = np.array([unit.extra_var + (0.15 * unit.lie) ** 2 + (0.002 * unit.blind_s) ** 2 for unit in filters])
        carried = (RATE_ERROR * speed * ahead) ** 2
        azimuth = np.array([unit.azimuth_var for unit in filters])
        flags = self._flags(t_s, age)
        bad = int(SensorFlag.STALE | SensorFlag.FROZEN | SensorFlag.MISSING | SensorFlag.UNSYNCHRONISED)
        return StrutObservations(
            t_s=t_s,
            direction=frozen(direction),
            rate_rad_s=frozen(rate),
            sigma_inclination_rad=frozen(np.sqrt(self._sigma_incl**2 + doubt + carried)),
            sigma_azimuth_rad=frozen(np.sqrt(azimuth + carried)),
            age_s=frozen(age),
            valid=frozen((flags & bad) == 0, dtype=np.bool_),
            flags=frozen(flags, dtype=np.int64),
        )

    def _refresh_frozen(self, alive: np.typing.NDArray[np.bool_]) -> None:
        now = self._detector.frozen(alive)
        for strut in np.flatnonzero(self._frozen & ~now):
            self._filters[strut].restart()
        self._frozen = now

    def _flags(self, t_s: float, age: Floats) -> Ints:
        flags = self._board_flags.copy()
        flags[~self._heard] |= int(SensorFlag.MISSING)
        flags[self._heard & (age > self._max_age_s)] |= int(SensorFlag.STALE)
        flags[self._frozen] |= int(SensorFlag.FROZEN)
        flags[[not unit.settled for unit in self._filters]] |= int(SensorFlag.SETTLING)
        for flag, when in self._incident_s.items():
            flags[t_s - when < RECENT_S] |= int(flag)
        falling = np.array([unit.free_fall_s > FREE_FALL_FLAG_S for unit in self._filters])
        flags[falling] |= int(SensorFlag.FREE_FALL)
        return flags


@compiled
def _turned(direction: Floats, angle: Floats) -> Floats:
    """Unit vectors (n, 3) turned by rotation vectors (n, 3) [rad]."""
    out, w = np.empty_like(direction), np.empty(3)
    for i in range(len(direction)):
        for x in range(3):
            w[x] = angle[i, x]
        out[i, 0], out[i, 1], out[i, 2] = rotate(exp_so3(w), direction[i])
    return out
