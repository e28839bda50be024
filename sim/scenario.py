"""What a simulated run does: a virtual hand teaches three postures, the arm returns; one without actuators is pushed about."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from onboard.errors import PrestressError, SafetyError
from onboard.messages import Floats
from onboard.safety.faults import Fault
from sim.evaluate.metrics import settle_s
from sim.rig import SimulatedRobot
from sim.tower.feed import PlantClient
from sim.trace import TruthLog

POSES = 3
TILT_DEG = (20.0, 50.0)
READY_S = 40.0
LEAD_LIMIT_S = 9.0  # for the hand to get there and the arm to come to rest
LEAD_ERROR_RAD = 0.02
REST_M_S = 0.004
TEACH_LIMIT_S = 4.0
HOLD_S = 0.8  # the hand holds still this long before a posture is recorded
RETURN_S = 7.0
JUDGE_S = 1.0  # a return is judged by the mean over its last second
BAND = 0.01  # of the arm's length: within this it counts as settled
NO_RECORDING = Fault.RECORDER_FAILED.value  # a full disk: the robot goes on without
PUSHED_S = 20.0
PUSHED_TILT_DEG = (5.0, 20.0)


class TimeIsUpError(PrestressError):
    """The wanted duration is over before the scenario."""


@dataclass(slots=True)
class Return:
    """One posture taught and returned to. error_m: true tip against the true tip when taught; settle_s: infinite if never."""

    name: str
    tilt_deg: float
    taught_tip_m: Floats
    error_m: float = math.nan
    settle_s: float = math.inf


@dataclass(slots=True)
class Outcome:
    """What happened, with the host times of each phase (name, start, end)."""

    returns: list[Return] = field(default_factory=list)
    phases: list[tuple[str, float, float]] = field(default_factory=list)
    cut_short: bool = False


class Scenario:
    """Plays one run. on_poll is called often, for the display; it must return quickly."""

    def __init__(
        self,
        robot: SimulatedRobot,
        truth: TruthLog,
        duration_s: float | None = None,
        on_poll: Callable[[str], None] = lambda line: None,
        pushed_s: float = 0.0,
        poses: int = POSES,
    ) -> None:
        self._pushed_s, self._poses = pushed_s, poses
        self._robot, self._truth, self._on_poll = robot, truth, on_poll
        self._end_s = None if duration_s is None else time.monotonic() + duration_s
        self.outcome = Outcome()
        self._doing = "starting"

    def play(self) -> Outcome:
        """Until the end, the duration or a fault; raises PrestressError when the robot does not do as told."""
        try:
            self._wait_ready()
            if self._robot.spec.actuators is None:
                self._push_about()
            else:
                self._teach_and_return()
        except TimeIsUpError:
            self.outcome.cut_short = True
        return self.outcome

    # --- scenes -----------------------------------------------------------------------------------------------------------

    def _teach_and_return(self) -> None:
        self._robot.ask("arm")
        self._until(lambda: self._robot.status()["state"] == "active", 5.0, "arming")
        rng = np.random.default_rng([self._robot.seed, 0x7EAC])
        tilts = np.sort(rng.uniform(*TILT_DEG, POSES))
        azimuths = rng.uniform(-np.pi, np.pi) + 2 * np.pi * np.arange(POSES) / POSES + rng.uniform(-0.4, 0.4, POSES)
        tilts, azimuths = tilts[: self._poses], azimuths[: self._poses]
        for number, (tilt_deg, azimuth) in enumerate(zip(tilts, azimuths, strict=True), start=1):
            self.outcome.returns.append(self._teach(f"pose-{number}", float(tilt_deg), float(azimuth)))
        self._plant.ask("let_go")
        for one in self.outcome.returns:
            self._return_to(one)
        if self._pushed_s > 0.0:
            self._push_while_active(self._pushed_s)

    def _teach(self, name: str, tilt_deg: float, azimuth_rad: float) -> Return:
        start_s = time.monotonic()
        if self._robot.status()["state"] != "teaching":
            self._robot.ask("hand")
        self._doing = f"the hand leads the tip to {tilt_deg:.0f} degrees for {name}"
        self._plant.ask("lead_to", tilt_rad=float(np.radians(tilt_deg)), azimuth_rad=azimuth_rad)
        self._until(lambda: self._led(start_s), LEAD_LIMIT_S, "")
        self._run_for(HOLD_S)
        self._until(lambda: self._recorded(name), TEACH_LIMIT_S, f"recording {name}")
        now_s = time.monotonic()
        taught = self._truth.mean_tip(now_s - 0.5, now_s)
        self.outcome.phases.append((f"teach {name}", start_s, now_s))
        return Return(name, tilt_deg, taught)

    def _recorded(self, name: str) -> bool:
        """Ask to record; a person would try again when the estimate is poor for a moment."""
        try:
            self._robot.ask("teach", name=name)
        except SafetyError:
            return False
        return True

    def _return_to(self, one: Return) -> None:
        self._doing = f"returning to {one.name}"
        start_s = time.monotonic()
        self._robot.ask("go", name=one.name)
        self._run_for(RETURN_S)
        end_s = time.monotonic()
        self.outcome.phases.append((f"go {one.name}", start_s, end_s))
        band_m = BAND * self._robot.spec.structure.rest_height_m
        one.error_m = float(np.linalg.norm(self._truth.mean_tip(end_s - JUDGE_S, end_s) - one.taught_tip_m))
        one.settle_s = settle_s(self._truth.t_s, self._truth.tip_m, one.taught_tip_m, start_s, band_m)

    def _push_while_active(self, seconds: float) -> None:
        start_s = time.monotonic()
        self._doing = "the hand pushes while the arm holds its posture"
        self._plant.ask("push_at_random", seed=self._robot.seed)
        self._run_for(seconds)
        self._plant.ask("be_still")
        self.outcome.phases.append(("pushed", start_s, time.monotonic()))

    def _push_about(self) -> None:
        start_s = time.monotonic()
        rng = np.random.default_rng([self._robot.seed, 0x9054])
        while time.monotonic() < start_s + PUSHED_S:
            tilt_deg, azimuth = rng.uniform(*PUSHED_TILT_DEG), rng.uniform(-np.pi, np.pi)
            self._doing = f"the hand pushes the tip towards {tilt_deg:.0f} degrees"
            self._plant.ask("lead_to", tilt_rad=float(np.radians(tilt_deg)), azimuth_rad=float(azimuth))
            self._run_for(float(rng.uniform(1.0, 2.5)))
            self._plant.ask("let_go")
            self._run_for(0.5)
        self.outcome.phases.append(("pushed", start_s, time.monotonic()))

    # --- waiting ----------------------------------------------------------------------------------------------------------

    @property
    def _plant(self) -> PlantClient:
        assert self._robot.plant is not None
        return self._robot.plant

    def _wait_ready(self) -> None:
        self._doing = "waiting for the boards"
        spec = self._robot.spec
        boards = len(spec.actuators.boards) if spec.actuators else 0

        def ready() -> bool:
            status = self._robot.status()
            live = status["struts"]["synchronised"] == len(spec.struts) and len(status["boards"]) == boards
            return bool(live and status["estimate"] and not set(status["troubles"]) - {NO_RECORDING})

        self._until(ready, READY_S, "bringing all boards up")
        self._run_for(1.0)
        self._truth.violation_pa = 0.0  # a board's outputs are off, below the range, until it has its first configuration

    def _led(self, since_s: float) -> bool:
        report = self._plant.latest
        if report is None or report.t_s < since_s + 0.5 or not report.holding or report.hand_error_rad > LEAD_ERROR_RAD:
            return False
        times, tips = self._truth.t_s, self._truth.tip_m
        recent = times > times[-1] - 0.3
        if recent.sum() < 3:
            return False
        return bool(np.linalg.norm(tips[recent][-1] - tips[recent][0]) / 0.3 < REST_M_S)

    def _run_for(self, seconds: float) -> None:
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self._poll()

    def _until(self, done: Callable[[], bool], limit_s: float, what: str) -> None:
        """Wait; past the limit raise PrestressError, or go on when `what` is empty."""
        end_s = time.monotonic() + limit_s
        while not done():
            self._poll()
            if time.monotonic() > end_s:
                if not what:
                    return
                raise PrestressError(
                    f"{what} took longer than {limit_s:.0f} s; the daemon says: {self._robot.last_line('daemon.log')}"
                )

    def _poll(self) -> None:
        self._truth.take(self._plant.poll(0.05))
        if self._truth.failed:
            raise PrestressError(f"the plant failed: {self._truth.failed}")
        if self._robot.daemon is not None and self._robot.daemon.poll() is not None:
            raise SafetyError(f"the daemon ended: {self._robot.last_line('daemon.log')}")
        self._on_poll(self._doing)
        if self._end_s is not None and time.monotonic() > self._end_s:
            raise TimeIsUpError("the duration is over")
