"""Supervisor, monitor and governor on a simulated clock, with boards that do by themselves what real ones do."""

import numpy as np

from onboard.clock import SimulatedClock
from onboard.messages import BoardReport, Setpoints, frozen
from onboard.runtime.loop import LoopGroup
from onboard.safety.governor import Governor
from onboard.safety.monitor import ConditionMonitor, Inputs
from onboard.safety.supervisor import Supervisor
from onboard.safety.table import State
from tests.unit.control_support import SPEC, VALVES, estimate

SUPERVISOR_S = 1.0 / SPEC.rates.supervisor_hz
CONTROL_S = 1.0 / SPEC.rates.control_hz
DEADLINE_S = VALVES.deadline_ms / 1000.0


class Board:
    """What docs/protocol.md says an actuator board does by itself, with the valve's first-order lag."""

    def __init__(self, config):
        self.config, self.epoch, self.boot_id = config, 0, 7
        self.state, self.fault, self.stop_open = "disarmed", 0, False
        self.mute = self.deaf = self.stuck = False
        self.heard_s = self.seen_s = 0.0
        self.target = np.full(config.channels, VALVES.safe_pressure_pa)
        self.pressure = self.target.copy()

    def advance(self, t_s):
        if self.state == "active" and (t_s - self.heard_s > DEADLINE_S or self.stop_open):
            self.state = "latched"
        if self.state != "active":
            self.target = np.full(self.config.channels, VALVES.safe_pressure_pa)
        gain = 1.0 - np.exp(-(t_s - self.seen_s) / 0.08)
        if not self.stuck:
            self.pressure = self.pressure + gain * (self.target - self.pressure)
        self.seen_s = t_s

    def report(self, t_s):
        armed, latched = self.state == "active", self.state == "latched"
        return BoardReport(
            self.config.id, t_s, self.boot_id, self.epoch, armed, latched, self.stop_open, self.fault, 0, frozen(self.pressure)
        )


class Boards:
    """All boards behind one sink."""

    def __init__(self, clock):
        self.clock, self.boards = clock, [Board(config) for config in VALVES.boards]
        self._reports = {}
        self.epoch, self.sent = 0, []

    def each(self, change):
        for board in self.boards:
            if not board.deaf:
                change(board)

    def arm(self, epoch):
        self.epoch = epoch

        def change(board):
            if not board.stop_open and not board.fault:
                board.state, board.epoch, board.heard_s = "active", epoch, self.clock.now_s()

        self.each(change)

    def disarm(self):
        self.each(lambda board: setattr(board, "state", "disarmed") if not board.stop_open else None)

    def stop(self):
        self.each(lambda board: setattr(board, "state", "latched"))

    def send(self, setpoints):
        self.sent.append(setpoints)
        for board in self.boards:
            if board.state == "active" and not board.deaf:
                board.heard_s = self.clock.now_s()
                board.target = setpoints.value[board.config.first : board.config.first + board.config.channels].copy()

    def reports(self):
        for board in self.boards:
            board.advance(self.clock.now_s())
            if not board.mute:
                self._reports[board.config.id] = board.report(self.clock.now_s())
        return list(self._reports.values())


class Arm:
    """Loops on a simulated clock; `see` gives the estimate of a tick, `want` the controller's set-points."""

    def __init__(self):
        self.clock = SimulatedClock(100.0)
        self.sink = Boards(self.clock)
        self.governor, self.supervisor = Governor(SPEC, self.sink), Supervisor(SPEC, epoch_start=1000)
        self.monitor, self.loops = ConditionMonitor(SPEC), LoopGroup(self.clock)
        self.estimate, self.lines, self.pressures = None, [], []
        self.recorder_failed, self.missed = False, 0
        self.see = lambda t_s: estimate(t_s)
        self.want = lambda t_s: Setpoints(t_s, np.full(40, VALVES.rest_pressure_pa), "test")
        self.loops.add("control", SPEC.rates.control_hz, self.control)
        self.loops.add("supervisor", SPEC.rates.supervisor_hz, self.supervise)

    def control(self, t_s):
        seen = self.see(t_s)
        self.estimate = self.estimate if seen is None else seen
        self.governor.issue(t_s, self.want(t_s), self.supervisor.state)
        self.sink.reports()
        self.pressures.append(np.concatenate([board.pressure for board in self.sink.boards]))

    def supervise(self, t_s):
        bits = self.monitor.assess(
            Inputs(
                t_s=t_s,
                estimate=self.estimate,
                reports=self.sink.reports(),
                epoch=self.supervisor.epoch,
                degraded_s=self.supervisor.degraded_s(t_s),
                issued_pa=self.governor.issued,
                not_finite=self.governor.not_finite,
                ticks=self.loops.ticks,
                overruns=self.missed,
                recorder_failed=self.recorder_failed,
            )
        )
        moved = self.supervisor.step(t_s, bits, self.monitor.details)
        if moved is not None:
            self.follow(moved)
        self.lines += [notice.text for notice in self.supervisor.notices()]

    def follow(self, moved):
        self.lines.append(moved.text)
        if moved.target is State.ARMING:
            self.governor.arm(moved.epoch, self.governor.measured())
        elif moved.target in (State.SAFE, State.FAULT):
            self.governor.stop()
        elif moved.target is State.DISARMED:
            self.governor.disarm()

    def ask(self, event):
        self.follow(self.supervisor.request(self.clock.now_s(), event))

    def go_on(self, seconds):
        self.loops.advance(self.clock.now_s() + seconds)

    def until(self, state, limit_s):
        """Seconds until the supervisor is in `state`; fails after `limit_s`."""
        start_s = self.clock.now_s()
        while self.supervisor.state is not state:
            self.go_on(CONTROL_S)
            assert self.clock.now_s() - start_s <= limit_s + CONTROL_S, f"still {self.supervisor.state} after {limit_s} s"
        return self.clock.now_s() - start_s
