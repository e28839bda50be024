"""Recordings and made-up motions for the tests of strut orientation."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from onboard.estimation.imu_checks import counts_si
from onboard.estimation.orientation import VqfConfig, VqfOrientation
from onboard.messages import Bools, Floats, ImuBatch, Ints, SensorFlag, StrutObservations, frozen
from onboard.robot import RobotSpec
from tests.unit.estimation_support import robot

G = 9.80665
RATE_HZ = 100.0
DT = 1.0 / RATE_HZ
COUNT = counts_si("lsm6dsox", 4, 500)
ROOT = Path(__file__).resolve().parents[2]
EXCERPTS = ROOT / "tests" / "data" / "broad"
FULL = ROOT.parent / "shared" / "data" / "broad"
# Mounting quaternions (sensor axes to strut axes) that make sensor x, y and z the strut's own axis.
HALF = math.sqrt(0.5)
MOUNTINGS = ([HALF, 0.0, -HALF, 0.0], [HALF, HALF, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])


@dataclass(frozen=True)
class Recording:
    """One IMU with optical truth: rate_hz, gyro (n, 3), acceleration (n, 3), truth (n, 4) w first, movement (n,)."""

    rate_hz: float
    gyro: Floats
    acceleration: Floats
    truth: Floats
    movement: Bools

    def resampled(self, step: int) -> Recording:
        """Every `step`-th sample."""
        return Recording(
            self.rate_hz / step,
            self.gyro[::step].copy(),
            self.acceleration[::step].copy(),
            self.truth[::step],
            self.movement[::step],
        )

    def quantised(self) -> Recording:
        """In counts of the LSM6DSOX at +-4 g and +-500 dps."""
        accel, gyro = 0.122e-3 * G, math.radians(17.5e-3)
        return replace(self, acceleration=np.round(self.acceleration / accel) * accel, gyro=np.round(self.gyro / gyro) * gyro)


def excerpt(name: str) -> Recording:
    """The 60 s excerpt of a BROAD trial that lies with the tests (see tests/data/broad/ATTRIBUTION.md)."""
    with np.load(EXCERPTS / f"{name}.npz") as data:
        return Recording(
            float(data["rate_hz"]),
            data["gyro_rad_s"].astype(float, order="C"),
            data["acceleration_m_s2"].astype(float, order="C"),
            data["truth_wxyz"].astype(float, order="C"),
            data["movement"],
        )


def sensor(rate_hz: float, mounting: list[float] | None = None, struts: RobotSpec | None = None) -> RobotSpec:
    """The one-module rig with another IMU rate and mounting, and with the LSM6DSOX's ranges."""
    spec = struts if struts is not None else robot(name="module_rig")
    imu = msgspec.structs.replace(
        spec.imu, board="nano_rp2040", sensor="lsm6dsox", rate_hz=rate_hz, mounting_wxyz=mounting or [1.0, 0.0, 0.0, 0.0]
    )
    return msgspec.structs.replace(spec, imu=imu)


def play(source: VqfOrientation, recording: Recording, strut: int = 0, dt_factor: float = 1.0) -> Floats:
    """Feed a recording to one strut, a sample a batch, observing after each; directions (n, 3)."""
    n = len(recording.gyro)
    out = np.empty((n, 3))
    t_s = 1.0 + np.arange(n) * dt_factor / recording.rate_hz
    filter_ = source._filters[strut]
    for k in range(n):
        source.add(
            ImuBatch(
                strut=strut,
                boot_id=1,
                sequence=k,
                t_s=t_s[k : k + 1],
                acceleration_m_s2=recording.acceleration[k : k + 1],
                rate_rad_s=recording.gyro[k : k + 1],
                temperature_c=25.0,
                flags=SensorFlag.NONE,
                received_s=float(t_s[k]),
            )
        )
        filter_.point()
        out[k] = filter_.direction
    return out


def vertical(recording: Recording, dt_factor: float = 1.0, mountings=MOUNTINGS, config: VqfConfig | None = None) -> Floats:
    """The estimated vertical in sensor axes (n, 3): the cosines of three struts along the sensor's x, y and z axes."""
    columns = []
    for mounting in mountings:
        source = (config or VqfConfig()).build(sensor(recording.rate_hz, mounting))
        columns.append(play(source, recording, dt_factor=dt_factor)[:, 2])
    out = np.stack(columns, axis=1)
    return out / np.linalg.norm(out, axis=1)[:, None]


def inclination_rms_deg(recording: Recording, estimate: Floats) -> float:
    """RMS angle between estimated and true vertical over the moving samples with truth: BROAD's inclination error."""
    w, x, y, z = recording.truth.T
    true = np.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], axis=1)
    use = recording.movement & np.isfinite(true).all(axis=1)
    sine = np.linalg.norm(np.cross(true[use], estimate[use]), axis=1)
    angle = np.arctan2(sine, (true[use] * estimate[use]).sum(axis=1))
    return float(np.degrees(np.sqrt((angle**2).mean())))


def trouble(seen: StrutObservations) -> Ints:
    """Flags (n,) less SETTLING, which every strut carries for its first seconds."""
    return seen.flags & ~int(SensorFlag.SETTLING)


def upright(direction: np.ndarray) -> np.ndarray:
    """A rotation (3, 3), sensor to world, that puts sensor z along `direction`."""
    z = direction / np.linalg.norm(direction)
    x = np.cross([0.0, 1.0, 0.0], z)
    x /= np.linalg.norm(x)
    return np.stack([x, np.cross(z, x), z], axis=1)


def sample(strut: int, k: int, t_s: float, turn: np.ndarray, rate_world=(0.0, 0.0, 0.0), noise=None, **changes) -> ImuBatch:
    """One sample of a strut in orientation `turn` that turns at `rate_world`; noise in counts (6,)."""
    values = np.concatenate([turn.T @ [0.0, 0.0, G], turn.T @ np.asarray(rate_world)])
    if noise is not None:
        values = np.round(values / COUNT + noise) * COUNT
    fields = {
        "strut": strut,
        "boot_id": 1,
        "sequence": k,
        "t_s": frozen([t_s]),
        "acceleration_m_s2": frozen(values[None, :3]),
        "rate_rad_s": frozen(values[None, 3:]),
        "temperature_c": 25.0,
        "flags": SensorFlag.NONE,
        "received_s": t_s + 0.002,
    }
    return ImuBatch(**(fields | changes))


def run_still(source: VqfOrientation, rest, seconds: float, start_s: float = 1.0, struts=range(4), rng=None) -> float:
    """All struts at rest for a while; returns the time of the last sample."""
    for k in range(round(seconds * RATE_HZ)):
        for strut in struts:
            noise = None if rng is None else rng.normal(0.0, 8.0, 6)
            source.add(sample(strut, round(start_s * RATE_HZ) + k, start_s + k * DT, upright(rest[strut]), noise=noise))
    return start_s + (k * DT)
