"""A worm without physics for tests of execution: shapes follow pressures with a lag, held links stay where they are."""

from __future__ import annotations

import numpy as np

from onboard.errors import PlanningError
from onboard.planning.contact.execution.executor import Executor, Mode
from onboard.planning.contact.execution.ports import Command, PoseReading, SuctionReport
from onboard.planning.contact.execution.pressures import gravity_sag
from onboard.planning.contact.motion import rebuild
from onboard.planning.contact.plan import Plan, State

LAG_S, VACUUM_PA = 0.2, 50_000.0


class KinematicWorm:
    """Both ports of an executor. Faults are attributes that tests set: `dead` pads never seal, `leaking` ones lose it."""

    def __init__(self, spec, scene, start: State) -> None:
        self.spec, self.scene = spec, scene
        self.frames, self.shape = start.frames.copy(), start.shape.copy()
        self.vacuum_pa = np.where(start.attached, VACUUM_PA, 0.0)
        self.on = start.attached.astype(bool)
        self.dead: set[int] = set()
        self.leaking: set[int] = set()
        self.blind = self.stuck = False
        self.t_s = 0.0
        self.commands: list[Command] = []
        self.least_holding = int(start.attached.sum())
        self.reading = PoseReading(0.0, self.frames.copy())

    def send(self, command: Command) -> None:
        self.commands.append(command)
        self.on = command.suction.copy()

    def report(self) -> SuctionReport:
        return SuctionReport(self.t_s, self.vacuum_pa.copy())

    def newest(self) -> PoseReading:
        return self.reading

    @property
    def holding(self) -> np.ndarray:
        return self.vacuum_pa >= 25_000.0

    def shove(self, link: int, by_m: np.ndarray) -> None:
        """A held pad slides."""
        self.frames[link, :, 3] += by_m

    def advance(self, dt_s: float) -> None:
        self.t_s += dt_s
        if self.commands and not self.stuck:
            wanted = self._shape_of(self.commands[-1].pressures)
            held = self.holding
            wanted[:, 1:] -= gravity_sag(self.spec, self.frames, self.shape, held.astype(np.uint8))
            for i in range(len(self.shape)):
                if not (held[i] and held[i + 1]):
                    self.shape[i] += (wanted[i] - self.shape[i]) * min(1.0, dt_s / LAG_S)
            self._place(held)
        for pad, frame in enumerate(self.frames):
            normal = frame[:, 0]
            at = frame[:, 3] - self.spec.pads.offset_m * normal
            touches = abs(float(self.scene.distance(at))) < self.spec.pads.distance_tolerance_m
            seals = self.on[pad] and touches and pad not in self.dead | self.leaking
            self.vacuum_pa[pad] += ((VACUUM_PA if seals else 0.0) - self.vacuum_pa[pad]) * min(1.0, dt_s / 0.1)
        self.least_holding = min(self.least_holding, int(self.holding.sum()))
        if not self.blind:
            self.reading = PoseReading(self.t_s, self.frames.copy())

    def _place(self, held: np.ndarray) -> None:
        anchors = np.flatnonzero(held)
        if not anchors.size:
            return
        out = np.empty_like(self.frames)
        low, high = int(anchors[0]), int(anchors[-1])
        if low > 0:
            rebuild(self.frames, self.shape, -1, low, out)
            self.frames[:low] = out[:low]
        for first, last in zip(anchors, [*anchors[1:], -1], strict=True):
            if last == -1 and high < len(self.shape):
                rebuild(self.frames, self.shape, high, -1, out)
                self.frames[high + 1 :] = out[high + 1 :]
            elif last > first + 1:
                rebuild(self.frames, self.shape, int(first), int(last), out)
                self.frames[first + 1 : last] = out[first + 1 : last]

    def _shape_of(self, pressures: np.ndarray) -> np.ndarray:
        segments, share = self.spec.segments, pressures / 100.0
        length = segments.length_min_m + share.mean(axis=1) * (segments.length_max_m - segments.length_min_m)
        bend = segments.curvature_max_per_m * np.column_stack([share[:, 0] - share[:, 2], share[:, 1] - share[:, 3]])
        return np.column_stack([length, bend])


class ScriptedPlanner:
    """Answers with plans from a function of the state; `dead` never answers."""

    def __init__(self, make) -> None:
        self.make, self.dead = make, False
        self.asked: list[tuple[State, list]] = []
        self._answer: Plan | PlanningError | None = None

    def request(self, t_s: float, state: State, spoiled: list) -> None:
        self.asked.append((state, list(spoiled)))
        try:
            self._answer = self.make(state)
        except PlanningError as error:
            self._answer = error

    def poll(self, t_s: float) -> Plan | PlanningError | None:
        answer, self._answer = (None, self._answer) if self.dead else (self._answer, None)
        return answer


def drive(worm: KinematicWorm, executor: Executor, for_s: float, until=lambda: False) -> None:
    """Runs both until a condition holds, the run ends, or the time is over."""
    end_s = worm.t_s + for_s
    while worm.t_s < end_s and not until() and executor.mode not in (Mode.ARRIVED, Mode.HOLDING):
        worm.advance(0.05)
        executor.tick(worm.t_s)
