"""`prestress sim strut`: plays a recording through a virtual strut, its real firmware and a broker to the orientation filter."""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress, TextColumn

from onboard.errors import LinkError, UsageError
from onboard.link.broker import EmbeddedBroker
from onboard.link.decode import Decoder
from onboard.link.endpoint import Endpoint, parse_endpoint
from onboard.link.session import Session
from onboard.messages import Floats, ImuBatch
from onboard.ports import OrientationSource
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from sim.boards.registers import ImuRegisterFile
from sim.recordings import Recording, load_recording

STRUT = 0
LEAD_IN_S = 3.0  # at the first sample's attitude, before the recording begins: link and clocks settle
READY_S = 30.0
ACCEL_RANGES_G = (2, 4, 8, 16)
GYRO_RANGES_DPS = (125, 250, 500, 1000, 2000)
HEADROOM = 0.9
DRIFT_PPM = 30  # of the virtual board's clock
SETTLED_S = 5.0  # errors count from here on when the recording does not say when movement is
# Mountings that make the strut's axis the sensor's x, y and z: three directions tell the whole inclination, not one angle of it.
_HALF = math.sqrt(0.5)
MOUNTINGS = ([_HALF, 0.0, -_HALF, 0.0], [_HALF, _HALF, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0])


def sim_strut(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that plays and gives the exit status."""
    parser.add_argument("--recording", type=Path, required=True, help=".csv (see docs/link.md), BROAD .mat, or an excerpt .npz")
    parser.add_argument("--robot", default="manipulator", help="whose board, sensor and filter to use: a name or a TOML file")
    parser.add_argument("--seconds", type=float, help="play only the beginning")
    parser.add_argument("--speed", type=float, default=1.0, help="times real time, 0.25 .. 4; all clocks are scaled alike")
    parser.add_argument("--broker", help="mqtt://host:port instead of the embedded one")
    parser.add_argument("--seed", type=int, default=0, help="where the board's clock starts")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Play, print the inclination error where the truth is known."""
    if not (math.isfinite(args.speed) and 0.25 <= args.speed <= 4.0):
        raise UsageError(f"--speed is {args.speed}: must lie in 0.25 .. 4")
    recording = load_recording(args.recording)
    if args.seconds is not None:
        if not (math.isfinite(args.seconds) and args.seconds >= 2.0):
            raise UsageError(f"--seconds is {args.seconds}: at least 2 are needed")
        recording = recording.cut(args.seconds)
    spec = fitting_spec(load_robot(robot_file(args.robot)), recording)
    console = Console(stderr=True)
    if args.broker:
        result = asyncio.run(Playback(spec, recording, args.speed, args.seed, console).play(parse_endpoint(args.broker)))
    else:
        with EmbeddedBroker(spec.link.prefix, 0) as broker:
            result = asyncio.run(Playback(spec, recording, args.speed, args.seed, console).play(broker.endpoint))
    if args.json:
        print(json.dumps(result))
    else:
        width = max(len(key) for key in result)
        print("\n".join(f"{key:<{width}}  {value}" for key, value in result.items()))
    return 0


def fitting_spec(spec: RobotSpec, recording: Recording) -> RobotSpec:
    """The robot with the smallest sensor ranges that hold the recording, and topics of its own."""
    accel_g = float(np.abs(recording.acceleration_m_s2).max()) / 9.80665
    gyro_dps = math.degrees(float(np.abs(recording.rate_rad_s).max()))
    imu = msgspec.structs.replace(
        spec.imu,
        accel_range_g=next((r for r in ACCEL_RANGES_G if accel_g < HEADROOM * r), ACCEL_RANGES_G[-1]),
        gyro_range_dps=next((r for r in GYRO_RANGES_DPS if gyro_dps < HEADROOM * r), GYRO_RANGES_DPS[-1]),
    )
    if spec.imu.sensor == "mpu6886":
        imu = msgspec.structs.replace(imu, gyro_range_dps=max(250, imu.gyro_range_dps))
    link = msgspec.structs.replace(spec.link, prefix=f"{spec.link.prefix[:40]}/playback")
    return msgspec.structs.replace(spec, imu=imu, link=link)


class ScaledClock:
    """Monotonic time that runs `speed` times as fast as the computer's: the recording's own time."""

    def __init__(self, speed: float) -> None:
        self._speed, self._start_s = speed, time.monotonic()

    def now_s(self) -> float:
        return self._start_s + (time.monotonic() - self._start_s) * self._speed

    def wall_ns(self) -> int:
        return time.time_ns()

    def wait_until(self, t_s: float) -> None:
        """Sleep until this clock shows `t_s`."""
        time.sleep(max(0.0, (t_s - self.now_s()) / self._speed))


class Sensor(threading.Thread):
    """Writes the recording into the board's registers, sample by sample at the sensor's rate; like a sensor, it never waits.

    start_s: clock time of the recording's beginning. written: samples so far.
    """

    def __init__(self, registers: ImuRegisterFile, clock: ScaledClock, recording: Recording, rate_hz: float) -> None:
        super().__init__(name="sensor", daemon=True)
        t_s, acceleration, rate = recording.resample(rate_hz)
        lead = np.arange(-LEAD_IN_S, t_s[0] - 0.5 / rate_hz, 1.0 / rate_hz)
        self._t_s = np.concatenate([lead, t_s])
        self._acceleration = np.concatenate([np.tile(acceleration[0], (len(lead), 1)), acceleration])
        self._rate = np.concatenate([np.zeros((len(lead), 3)), rate])
        self._registers, self._clock = registers, clock
        self.written, self.late_s, self.end = 0, 0.0, threading.Event()
        self.start_s = math.inf

    def run(self) -> None:
        while not self._registers.setup().running and not self.end.is_set():
            time.sleep(0.01)
        self.start_s = self._clock.now_s() + LEAD_IN_S
        for k, t_s in enumerate(self._t_s.tolist()):
            due_s = self.start_s + t_s
            self._clock.wait_until(due_s)
            self.late_s = max(self.late_s, self._clock.now_s() - due_s)
            if self.end.is_set():
                return
            self._registers.write_physical(k + 1, self._acceleration[k].tolist(), self._rate[k].tolist())
            self.written = k + 1
        self.end.set()


@dataclass(slots=True)
class Track:
    """Estimates as they came: host time, upward direction in sensor axes; and what arrived."""

    t_s: list[float] = field(default_factory=list)
    up: list[Floats] = field(default_factory=list)
    samples: int = 0
    first: int | None = None
    last: int = 0


class Playback:
    """One recording through the whole chain."""

    def __init__(self, spec: RobotSpec, recording: Recording, speed: float, seed: int, console: Console) -> None:
        self._spec, self._recording, self._speed, self._seed, self._console = spec, recording, speed, seed, console
        self._clock = ScaledClock(speed)
        self._decoder = Decoder(spec)
        self._filters = [self._filter(mounting) for mounting in MOUNTINGS]
        self._track = Track()
        self._start_s: Callable[[], float] = lambda: math.inf

    def _filter(self, mounting: list[float]) -> OrientationSource:
        spec = msgspec.structs.replace(self._spec, imu=msgspec.structs.replace(self._spec.imu, mounting_wxyz=mounting))
        source: OrientationSource = spec.orientation.build(spec)
        source.observe(0.0)  # loads what is loaded on first use
        return source

    async def play(self, endpoint: Endpoint) -> dict[str, Any]:
        """Play to the end; the figures. Raises LinkError when the board is not heard."""
        spec, imu = self._spec, self._spec.imu
        session = Session(spec, endpoint, self._clock, self._packet, self._decoder)
        config = BoardConfig(
            id=spec.struts[STRUT],
            board=imu.board,
            prefix=spec.link.prefix,
            broker_host=endpoint.host,
            broker_port=endpoint.port,
            broker_user=endpoint.username or "",
            broker_password=endpoint.password or "",
            imu={"batch": imu.batch, "accel_range_g": imu.accel_range_g, "gyro_range_dps": imu.gyro_range_dps},
            tick_offset_us=(1 << 30) - 20_000_000 - self._seed % 1000 * 10_000,
            drift_ppm=round((self._speed - 1.0) * 1e6) + DRIFT_PPM,
        )
        link = asyncio.create_task(session.run())
        with tempfile.TemporaryDirectory(prefix="prestress-strut-") as scratch:
            board = _board(config, Path(scratch))
            sensor = Sensor(board.imu, self._clock, self._recording, imu.rate_hz)
            self._start_s = lambda: sensor.start_s
            try:
                board.start()
                sensor.start()
                await self._follow(sensor, link)
                missed = board.imu.setup().missed
            finally:
                sensor.end.set()
                sensor.join()
                board.close()
                link.cancel()
                await asyncio.gather(link, return_exceptions=True)
        return self._figures(sensor, missed)

    async def _follow(self, sensor: Sensor, link: asyncio.Task[None]) -> None:
        length_s = self._recording.duration_s
        columns = (*Progress.get_default_columns(), TextColumn("{task.fields[heard]} samples"))
        with Progress(*columns, console=self._console, transient=True) as progress:
            bar = progress.add_task(self._recording.name, total=length_s, heard=0)
            begun_s = time.monotonic()
            while not sensor.end.is_set():
                await asyncio.sleep(0.1)
                if link.done():
                    link.result()
                if not self._track.samples and time.monotonic() - begun_s > READY_S:
                    raise LinkError(f"{self._spec.struts[STRUT]}: no sample within {READY_S:.0f} s")
                done = max(0.0, self._clock.now_s() - sensor.start_s)
                progress.update(bar, completed=min(done, length_s), heard=self._track.samples)
            await asyncio.sleep(0.5)  # for what is still on its way

    def _packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> None:
        batch = self._decoder.packet(strut, kind, payload, received_s)
        # The lead-in stays out of the filter: its made-up rest would be taken for a measurement of the gyroscope's bias.
        if batch is not None and batch.t_s[-1] > self._start_s():
            self._estimate(batch)

    def _estimate(self, batch: ImuBatch) -> None:
        track, t_s = self._track, float(batch.t_s[-1])
        track.first = batch.sequence if track.first is None else track.first
        track.last = batch.sequence + len(batch.t_s)
        track.samples += len(batch.t_s)
        up = np.zeros(3)
        for axis, source in enumerate(self._filters):
            source.add(batch)
            # The world's z of the sensor's axis is the sensor's component of the upward direction.
            up[axis] = source.observe(t_s).direction[STRUT, 2]
        track.t_s.append(t_s)
        track.up.append(up)

    def _figures(self, sensor: Sensor, missed: int) -> dict[str, Any]:
        track, recording = self._track, self._recording
        sent = 0 if track.first is None else track.last - track.first
        status = self._decoder.status(STRUT)
        result: dict[str, Any] = {
            "recording": recording.name,
            "simulation": True,
            "samples": track.samples,
            "lost": sent - track.samples,
            "sensor_missed": missed,
            "inclination_rms_deg": None,
            "inclination_max_deg": None,
            "evaluated": 0,
            "speed": self._speed,
            "clock_drift_ppm": round(status.drift_ppm, 1),
            "sensor_late_max_ms": round(1e3 * sensor.late_s, 1),
            "refused": status.refused,
        }
        if recording.up is not None and track.t_s:
            errors = inclination_errors_rad(recording, np.array(track.t_s) - sensor.start_s, np.array(track.up))
            if len(errors):
                result["inclination_rms_deg"] = round(math.degrees(float(np.sqrt(np.mean(errors**2)))), 4)
                result["inclination_max_deg"] = round(math.degrees(float(errors.max())), 3)
                result["evaluated"] = len(errors)
        return result


def _board(config: BoardConfig, scratch: Path) -> VirtualBoard:
    scratch.chmod(0o755)  # the board runs as another user
    return VirtualBoard(config, scratch)


def inclination_errors_rad(recording: Recording, t_s: Floats, up: Floats) -> Floats:
    """Angle between estimated and true upward direction (both in sensor axes), at those times that count (k,) [rad].

    t_s (n,): recording time of the estimates, up (n, 3). What counts: `movement`, and truth on both sides. The first seconds
    count only where the recording itself marks movement.
    """
    assert recording.up is not None
    after = np.searchsorted(recording.t_s, t_s)
    inside = (after > 0) & (after < len(recording.t_s))
    t_s, up, after = t_s[inside], up[inside], after[inside]
    before = after - 1
    share = ((t_s - recording.t_s[before]) / (recording.t_s[after] - recording.t_s[before]))[:, None]
    truth = (1.0 - share) * recording.up[before] + share * recording.up[after]
    counts = recording.movement[before] & recording.movement[after] & np.isfinite(truth).all(axis=1)
    if recording.movement.all():
        counts &= t_s >= SETTLED_S
    truth, up = truth[counts], up[counts]
    cross = np.linalg.norm(np.cross(up, truth), axis=1)
    angle: Floats = np.arctan2(cross, np.sum(up * truth, axis=1))
    return angle
