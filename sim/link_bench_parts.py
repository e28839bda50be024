"""The two processes that `bench link` measures with: the daemon's listening half, and the sensors that feed the boards.

python -m sim.link_bench_parts daemon|sensors JSON
"""

from __future__ import annotations

import asyncio
import json
import select
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from onboard.clock import KernelTimer, WallClock, process_cpu_s
from onboard.link.decode import Decoder
from onboard.link.endpoint import Endpoint
from onboard.link.session import Session
from onboard.link.slots import LatestSlots
from onboard.robot import RobotSpec, load_robot
from onboard.runtime.core import Core
from onboard.runtime.loop import LoopGroup
from onboard.runtime.no_boards import NoBoards
from onboard.runtime.parts import LoopTotals
from onboard.runtime.realtime import enter_realtime, freeze_garbage
from onboard.runtime.warmup import warm_up
from onboard.telemetry.recorder import NullRecorder
from sim.boards.registers import G, ImuRegisterFile
from sim.imu import ImuArray
from sim.link_crowd import crowd_spec

READY_S = 60.0  # for all boards to be heard and their clocks to be known; and for each of a crowd
READY_EACH_S = 0.2
SETTLE_S = 2.0
NAMED = 8  # silent boards named in an error
SENSOR_STEP_S = 0.002


class LinkAlone:
    """What listens when no estimator could stand on so many struts: the decoder, and the newest batch of every strut."""

    def __init__(self, spec: RobotSpec) -> None:
        self.decoder, self.slots = Decoder(spec), LatestSlots(len(spec.struts))

    def packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> None:
        """As Core.packet."""
        batch = self.decoder.packet(strut, kind, payload, received_s)
        if batch is not None:
            self.slots.put(batch)

    def estimator_tick(self, t_s: float, skipped: int = 0) -> None:
        """Take what has come, as the estimator would."""
        self.slots.take()

    def supervisor_tick(self, t_s: float, totals: LoopTotals) -> None:
        """Nothing is judged."""


class ListeningDaemon:
    """Session, decoder, orientation and estimator at the robot's rates, as the daemon runs them, with a tally of samples.

    With `link_alone` session and decoder only.

    first, last (n,): sequence numbers of the first sample counted and of the one after the last; samples (n,): those accepted.
    """

    def __init__(self, spec: RobotSpec, endpoint: Endpoint, seconds: float, *, link_alone: bool = False) -> None:
        n = len(spec.struts)
        self.spec, self.clock, self.seconds = spec, WallClock(), seconds
        self.core: Core | LinkAlone = LinkAlone(spec) if link_alone else Core(spec, NoBoards(), NullRecorder())
        self.session = Session(spec, endpoint, self.clock, self._packet, self.core.decoder)
        self.loops = LoopGroup(self.clock)
        self.first, self.last, self.samples = np.full(n, -1), np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
        self.ages_s: list[np.ndarray] = []
        self.begun_s: float | None = None
        self._ready_limit_s = READY_S + (READY_EACH_S * n if link_alone else 0.0)
        self._deadline_s = self.clock.now_s() + self._ready_limit_s
        self._ready_s: float | None = None
        self._cpu_s = 0.0
        self.result: dict[str, Any] = {}

    async def run(self) -> None:
        """Wait for all boards, measure, leave the figures in `result`."""
        self.loops.add("estimator", self.spec.rates.estimator_hz, self._estimate)
        self.loops.add("supervisor", self.spec.rates.supervisor_hz, self._supervise)
        link = asyncio.get_running_loop().create_task(self.session.run())
        await self.loops.run()
        link.cancel()
        await asyncio.gather(link, return_exceptions=True)

    def _packet(self, strut: int, kind: str, payload: bytes, received_s: float) -> None:
        before = self.core.slots.newest(strut)
        self.core.packet(strut, kind, payload, received_s)
        batch = self.core.slots.newest(strut)
        if self.begun_s is not None and batch is not None and batch is not before:
            if self.first[strut] < 0:
                self.first[strut] = batch.sequence
            self.last[strut] = batch.sequence + len(batch.t_s)
            self.samples[strut] += len(batch.t_s)

    def _estimate(self, t_s: float) -> None:
        now_s = self.clock.now_s()
        if self.begun_s is not None:
            self.ages_s.append(now_s - self.core.decoder.newest_s())
        self.core.estimator_tick(t_s)

    def _supervise(self, t_s: float) -> None:
        self.core.supervisor_tick(t_s, LoopTotals(self.loops.ticks, self.loops.overruns, not self.session.connected))
        decoder, struts = self.core.decoder, range(len(self.spec.struts))
        if self.begun_s is None:
            ready = all(decoder.synchronised(k) for k in struts) and np.isfinite(decoder.newest_s()).all()
            if ready and self._ready_s is None:
                self._ready_s = t_s
            if ready and t_s - (self._ready_s or t_s) >= SETTLE_S:
                self.begun_s, self._cpu_s = t_s, process_cpu_s()
            elif t_s > self._deadline_s:
                silent = [self.spec.struts[k] for k in struts if not decoder.synchronised(k)]
                more = f" and {len(silent) - NAMED} more" if len(silent) > NAMED else ""
                self._finish({"error": f"not heard within {self._ready_limit_s:.0f} s: {', '.join(silent[:NAMED])}{more}"})
        elif t_s - self.begun_s >= self.seconds:
            self._finish(self._figures(t_s - self.begun_s))

    def _finish(self, result: dict[str, Any]) -> None:
        self.result = result
        self.loops.stop()

    def _figures(self, elapsed_s: float) -> dict[str, Any]:
        cpu_s = process_cpu_s() - self._cpu_s
        ages_ms = 1e3 * np.concatenate(self.ages_s)
        sent = int(np.sum((self.last - self.first)[self.first >= 0]))
        statuses = [self.core.decoder.status(k) for k in range(len(self.spec.struts))]
        refused: dict[str, int] = {}
        for status in statuses:
            for reason, count in status.refused.items():
                refused[reason] = refused.get(reason, 0) + count
        trips = [status.round_trip_ms for status in statuses]
        return {
            "struts": int(np.count_nonzero(self.first >= 0)),
            "rate_hz": round(sent / elapsed_s / max(1, int(np.count_nonzero(self.first >= 0))), 2),
            "sent": sent,
            "lost": sent - int(self.samples.sum()),
            "age_p50_ms": round(float(np.percentile(ages_ms, 50)), 2),
            "age_p99_ms": round(float(np.percentile(ages_ms, 99)), 2),
            "age_max_ms": round(float(ages_ms.max()), 2),
            "daemon_cpu_pct": round(100.0 * cpu_s / elapsed_s, 1),
            "seconds": round(elapsed_s, 2),
            "estimator_overruns": self.loops.overruns,
            "dropped_unread": self.session.dropped,
            "refused_since_start": refused,
            "clock_round_trip_ms": round(float(np.median(trips)), 2),
        }


def listen(settings: dict[str, Any]) -> int:
    """The daemon's process."""
    # Without actuator boards: what is measured is the listening half, at the rates of the robot's file.
    spec = msgspec.structs.replace(load_robot(settings["robot"]), actuators=None, controller=None)
    struts = settings.get("struts")
    if struts is None:
        warm_up(spec)
    else:
        spec = crowd_spec(spec, struts, settings["batch"])
    endpoint = Endpoint(settings["host"], settings["port"])
    daemon = ListeningDaemon(spec, endpoint, settings["seconds"], link_alone=struts is not None)
    if settings["realtime"]:
        enter_realtime()
    else:
        freeze_garbage()
    asyncio.run(daemon.run())
    print(json.dumps(daemon.result), flush=True)
    return 0


def feed(settings: dict[str, Any]) -> int:
    """The sensors' process: gravity and a slow turn into every board's registers, each at its own rate, until killed."""
    spec = load_robot(settings["robot"])
    sensors = ImuArray(spec, settings["seed"])
    registers = [
        ImuRegisterFile(Path(settings["boards"]) / name / "sim" / "registers.bin", spec.imu.sensor) for name in spec.struts
    ]
    clock, timer = WallClock(), KernelTimer()
    start_s, step = clock.now_s(), 0
    force = np.tile([0.0, 0.0, G], (len(registers), 1))
    while True:
        step += 1
        timer.arm(start_s + step * SENSOR_STEP_S)
        select.select([timer.fd], [], [])
        timer.acknowledge()
        t_s = clock.now_s() - start_s
        rate = np.full((len(registers), 3), 0.2 * np.sin(t_s))
        samples = sensors.update(t_s, force, rate)
        for row, strut in enumerate(samples.strut.tolist()):
            registers[strut].write_sample(
                int(samples.counter[row]), samples.accel[row].tolist(), samples.gyro[row].tolist(), int(samples.temperature[row])
            )
        step = max(step, int(t_s / SENSOR_STEP_S))


if __name__ == "__main__":
    sys.exit({"daemon": listen, "sensors": feed}[sys.argv[1]](json.loads(sys.argv[2])))
