"""The plant as a process of its own, in real time: it moves on an absolute schedule and feeds the virtual boards.

    python -m sim.realtime robots/manipulator.toml --boards DIR --socket PATH [--seed N] [--speed X]

Requests on the socket (JSON lines, key "do"): lead_to {tilt_rad, azimuth_rad}; let_go; push_at_random {seed, peak_n};
be_still; push {force_n, loop}; fault {strut, kind, axis}; bus {board, faults}; press_stop {board, pressed};
jam {board, jammed}; weigh {share}; quit.
"""

from __future__ import annotations

import argparse
import select
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onboard.clock import Clock, KernelTimer, WallClock
from onboard.errors import PrestressError, UsageError
from onboard.robot import load_robot
from onboard.runtime.realtime import enter_realtime
from sim.hand import Hand, Pusher
from sim.imu import Fault, ImuArray
from sim.tower.coupling import BoardCoupling, open_registers
from sim.tower.feed import PlantFeed, Report
from sim.tower.plant import TowerPlant
from sim.usb.tap import tap_ports

PRIORITY = 10
REPORT_HZ = 50.0
HAND_HZ = 100.0
MAX_LAG_S = 0.25  # later than this the schedule is moved, not caught up: boards would see time run too fast


class RealtimePlant:
    """Steps a coupling when its time has come. `speed` 2 runs the plant twice as fast as the clock."""

    def __init__(self, coupling: BoardCoupling, feed: PlantFeed, clock: Clock, speed: float = 1.0) -> None:
        if not (np.isfinite(speed) and 0.01 <= speed <= 100.0):
            raise UsageError(f"speed is {speed}: must lie in 0.01 .. 100")
        self.coupling, self.feed, self._clock, self._speed = coupling, feed, clock, speed
        self.plant = coupling.plant
        self.hand = Hand(self.plant.tower.rest_height_m)
        self.pusher: Pusher | None = None
        self.lag_s, self.slips, self.quit = 0.0, 0, False
        self._period_s = self.plant.timestep_s / speed
        self._start_s, self._index = clock.now_s(), 0
        self._report_every = max(1, round(1.0 / (REPORT_HZ * self.plant.timestep_s)))
        self._hand_every = max(1, round(1.0 / (HAND_HZ * self.plant.timestep_s)))
        self._requests: dict[str, Callable[[dict[str, Any]], None]] = {
            "lead_to": lambda r: self.hand.lead_to(float(r["tilt_rad"]), float(r["azimuth_rad"])),
            "let_go": lambda r: self._let_go(),
            "push_at_random": self._push_at_random,
            "be_still": lambda r: self._be_still(),
            "push": lambda r: self.plant.push(r["force_n"], int(r.get("loop", -1))),
            "fault": self._set_fault,
            "bus": lambda r: self.coupling.board(str(r["board"])).set_faults(int(r["faults"])),
            "press_stop": lambda r: self.coupling.board(str(r["board"])).press_stop(bool(r["pressed"])),
            "jam": lambda r: self.coupling.jam(str(r["board"]), bool(r["jammed"])),
            "weigh": lambda r: self.plant.weigh(float(r["share"])),
            "quit": lambda r: self._end(),
        }

    @property
    def due_s(self) -> float:
        """When the next step is due, host monotonic [s]."""
        return self._start_s + self._index * self._period_s

    def run_due(self) -> None:
        """Do every step whose time has come; raises PlantError."""
        now = self._clock.now_s()
        self.lag_s = now - self.due_s
        if self.lag_s > MAX_LAG_S:
            self._start_s += self.lag_s
            self.slips += 1
        while self.due_s <= now and not self.quit:
            self._step()
            if self._clock.now_s() - self.due_s > MAX_LAG_S:
                break  # the outer loop shall see requests and signals

    def handle_requests(self) -> None:
        """Do what clients ask for; what cannot be done is answered with `refused`."""
        for request in self.feed.requests():
            action = self._requests.get(str(request.get("do")))
            try:
                if action is None:
                    raise UsageError(f"unknown request {request.get('do')!r}: known are {', '.join(self._requests)}")
                action(request)
            except (PrestressError, KeyError, TypeError, ValueError) as error:
                self.feed.publish(Report(refused=f"{request.get('do')}: {error!r}"))

    def report(self, failed: str = "") -> Report:
        """The plant as it is now."""
        truth = self.plant.truth()
        return Report(
            t_s=self.due_s,
            plant_s=truth.t_s,
            position_m=truth.position_m.tolist(),
            rotation=truth.rotation.tolist(),
            cable_length_m=truth.cable_length_m.tolist(),
            pressure_pa=truth.pressure_pa.tolist(),
            setpoint_pa=self.coupling.setpoints_pa.tolist(),
            violation_pa=max(0.0, self.coupling.violation_pa),
            force_n=self.hand.force_n.tolist(),
            hand_error_rad=self.hand.error_rad(truth),
            holding=self.hand.holding,
            warp_m=float(truth.warp_m.max()),
            lag_s=self.lag_s,
            slips=self.slips,
            failed=failed,
        )

    def _step(self) -> None:
        self.coupling.step()
        self._index += 1
        if self._index % self._hand_every == 0:
            if self.hand.holding:
                self.hand.update(self.plant, self.plant.truth())
            elif self.pusher is not None:
                self.pusher.update(self.plant)
        if self._index % self._report_every == 0:
            self.handle_requests()
            if self.feed.clients:
                self.feed.publish(self.report())

    def _let_go(self) -> None:
        self.hand.let_go()
        self.plant.release()

    def _push_at_random(self, request: dict[str, Any]) -> None:
        self._let_go()
        self.pusher = Pusher(int(request["seed"]), self.plant.tower.modules, float(request.get("peak_n", 8.0)))

    def _be_still(self) -> None:
        self.pusher = None
        self._let_go()

    def _set_fault(self, request: dict[str, Any]) -> None:
        strut = self.plant.spec.strut_index(str(request["strut"]))
        if strut is None:
            raise UsageError(f"no strut {request['strut']!r}")
        axis = request.get("axis")
        self.coupling.sensors.set_fault(strut, Fault(request["kind"]), None if axis is None else int(axis))

    def _end(self) -> None:
        self.quit = True


def run(world: RealtimePlant, stop: Callable[[], bool]) -> None:
    """Until `stop` or a request to quit; raises PlantError after telling the clients."""
    timer = KernelTimer()
    try:
        while not (stop() or world.quit):
            timer.arm(world.due_s)
            select.select([timer.fd], [], [], 0.5)
            timer.acknowledge()
            world.run_due()
    except PrestressError as error:
        world.feed.publish(Report(failed=str(error)))
        raise
    finally:
        timer.close()
        world.feed.close()


def main(arguments: list[str] | None = None) -> int:
    """The process; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m sim.realtime", description="The MuJoCo plant in real time.")
    parser.add_argument("robot", type=Path, help="the robot's file")
    parser.add_argument("--boards", type=Path, required=True, help="folder of the virtual boards")
    parser.add_argument("--socket", type=Path, required=True, help="where to publish the truth")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tap", type=Path, help="socket that is told of samples as they are taken")
    parser.add_argument("--tapped", action="append", default=[], metavar="STRUT", help="whose samples; may be repeated")
    parser.add_argument("--speed", type=float, default=1.0, help="times real time")
    options = parser.parse_args(arguments)
    stopped: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda got, _: stopped.append(got))
    try:
        spec = load_robot(options.robot)
        struts, valves = open_registers(spec, options.boards)
        if options.tap is not None:
            struts = tap_ports(struts, spec.struts, options.tapped, options.tap, WallClock())
        plant = TowerPlant(spec, options.seed)
        coupling = BoardCoupling(plant, ImuArray(spec, options.seed), struts, valves)
        world = RealtimePlant(coupling, PlantFeed(options.socket), WallClock(), options.speed)
        # A plant that waits for others is no physics; below the daemon's loops, above everything else, where that is permitted.
        for line in enter_realtime(PRIORITY).lines:
            print(f"plant: {line}", flush=True)
        print(f"plant of {spec.name} runs at {options.speed:g} times real time", flush=True)
        run(world, lambda: bool(stopped))
    except PrestressError as error:
        print(f"plant: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
