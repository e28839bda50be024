"""The whole manipulator with everything around it that can go wrong: a bad network, a cable to pull, a wall clock that jumps."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard.errors import SafetyError
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.safety.faults import LINES, Fault, page
from sim.faults.cable import Cable
from sim.faults.network import BadNetwork
from sim.rig import SimulatedRobot
from tests.hil.support import log, ready, wait_for

ROOT = Path(__file__).resolve().parents[2]
CONVERTER_PA = 150.0  # a count of the valve's converter
REACTION_S = 1.2  # deadline, slew from any pressure to the safe one, and a busy test machine
CABLED = "valve4"  # the board whose USB cable can be pulled


class FaultyRobot(SimulatedRobot):
    """A simulated robot whose daemon sees its broker through `network`, one board through `cable`, and a wall clock with an
    offset. What was said before `listen` does not count as said."""

    network: BadNetwork
    cable: Cable

    def start_world(self) -> None:
        self._clock_file = self.folder / "clock_offset"
        self._clock_file.write_bytes(struct.pack("d", 0.0))
        super().start_world()
        assert self.fleet is not None
        self.network = BadNetwork(self.broker.port)
        self.cable = Cable(self.fleet[CABLED].port, self.folder / "cable")

    def start_daemon(self, *, record: bool = False) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PRESTRESS_TEST_CLOCK", str(self._clock_file))
            patch.setenv("PYTHONPATH", str(Path(__file__).parent / "wall_clock"))
            super().start_daemon(record=record)

    def close(self) -> None:
        super().close()
        if hasattr(self, "network"):
            self.network.close()
        if hasattr(self, "cable") and self.cable._ends:
            self.cable.unplug()

    def ports(self) -> dict[str, str]:
        return {**super().ports(), CABLED: str(self.cable.path)}

    def _daemon_url(self) -> str:
        return f"mqtt://127.0.0.1:{self.network.port}" if hasattr(self, "network") else super()._daemon_url()

    def jump(self, seconds: float) -> None:
        """Set the daemon's wall clock `seconds` off the true one."""
        with self._clock_file.open("r+b") as file:
            file.write(struct.pack("d", seconds))

    def listen(self) -> None:
        """Only what is said from now on is heard."""
        self._mark = len(log(self))

    def said(self) -> str:
        """What the daemon has said since `listen`."""
        return log(self)[self._mark :]

    def heal(self) -> None:
        """Everything around the daemon is as it should be."""
        assert self.plant is not None and self.fleet is not None
        self.network.heal()
        self.jump(0.0)
        self.cable.to_board = self.cable.to_host = lambda data: data
        if not self.cable._ends:
            self.cable.plug()
        for strut in self.spec.struts:
            self.plant.ask("fault", strut=strut, kind="none")
        for board in super().ports():
            self.plant.ask("bus", board=board, faults=0)
            self.plant.ask("press_stop", board=board, pressed=False)
            self.plant.ask("jam", board=board, jammed=False)
        self.plant.ask("weigh", share=1.0)
        self.plant.ask("be_still")
        if self.daemon is not None and self.daemon.poll() is None:
            self.ask("record_stop")  # a recording that failed stays a trouble until it is ended
        self.fleet.start()


def robot_with_faults(folder: Path) -> FaultyRobot:
    """The manipulator, not started yet."""
    path = robot_file("manipulator")
    return FaultyRobot(path, load_robot(path), folder, seed=1, runtime=folder)


def bring_to_active(arm: FaultyRobot) -> None:
    """What a person does after a fault: reset, wait until all is well, arm, go. What is wrong must have been mended.

    On a machine that is busy with other things the arm may fall out of this by itself, rightly; then once more.
    """
    if arm.daemon is None or arm.daemon.poll() is not None:
        arm.start_daemon()
    for tries_left in (2, 1, 0):
        wait_for(lambda: _step_to_active(arm), 40.0, "the arm is active")
        try:
            _to_rest(arm)
            break
        except (AssertionError, SafetyError):
            if state(arm) == "active" or not tries_left:
                raise
    arm.listen()


def forget_degraded(arm: FaultyRobot) -> None:
    """Disarm and arm again: the time in the degraded state that the last minute's tests spent counts no more."""
    arm.ask("disarm")
    bring_to_active(arm)


def _to_rest(arm: FaultyRobot) -> None:
    if not arm.ask("postures")["postures"]:
        arm.ask("hand")
        wait_for(lambda: setpoints(arm).mean() > 3.2e5, 8.0, "teaching leads to the rest pressure")
        arm.ask("teach", name="rest")
    arm.ask("go", name="rest")
    wait_for(lambda: setpoints(arm).mean() > 3.0e5, 8.0, "pressures are the controller's")
    wait_for(lambda: at_goal(arm), 10.0, "the arm is at its goal")


def _step_to_active(arm: FaultyRobot) -> bool:
    now = state(arm)
    if now in ("safe", "fault"):
        accepted(arm, "reset")
    elif now == "disarmed" and ready(arm):
        accepted(arm, "arm")
    return now == "active" and not trouble(arm)


def at_goal(arm: SimulatedRobot) -> bool:
    """Whether the estimated tip is within 2 cm of the goal's."""
    error_mm = arm.status()["goal_error_mm"]
    return error_mm is not None and float(error_mm) < 20.0


def accepted(arm: SimulatedRobot, request: str, **fields: Any) -> bool:
    """Whether the daemon does what it is asked."""
    try:
        arm.ask(request, **fields)
    except SafetyError:
        return False
    return True


def state(arm: SimulatedRobot) -> str:
    """The supervisor's state."""
    return str(arm.status()["state"])


def trouble(arm: SimulatedRobot) -> set[str]:
    """Faults whose conditions hold now."""
    return set(arm.status()["troubles"])


def setpoints(arm: SimulatedRobot) -> np.ndarray:
    """What the valves are told now (40,) [Pa]; never beyond the robot's range in any report since the last look."""
    assert arm.plant is not None
    reports = arm.plant.poll(0.1)
    while more := arm.plant.poll():
        reports += more
    assert all(report.violation_pa <= CONVERTER_PA for report in reports)
    assert arm.plant.latest is not None
    return np.array(arm.plant.latest.setpoint_pa)


def at_safe_pressure(arm: SimulatedRobot, boards: slice = slice(None)) -> bool:
    """Whether these channels are told the robot file's safe pressure."""
    assert arm.spec.actuators is not None
    return bool(np.all(np.abs(setpoints(arm)[boards] - arm.spec.actuators.safe_pressure_pa) <= CONVERTER_PA))


def watch(arm: SimulatedRobot, seconds: float, allowed: Iterable[str] = ("active",)) -> float:
    """Look on for a while: states stay among `allowed`, pressures in range. Furthest way of the true tip from its start [m]."""
    assert arm.plant is not None
    setpoints(arm)
    assert arm.plant.latest is not None
    start_m, furthest_m, end_s = np.array(arm.plant.latest.position_m[-1]), 0.0, time.monotonic() + seconds
    while time.monotonic() < end_s:
        setpoints(arm)
        furthest_m = max(furthest_m, float(np.linalg.norm(np.array(arm.plant.latest.position_m[-1]) - start_m)))
        now = state(arm)
        assert now in allowed, f"{now}: {arm.last_line('daemon.log')}"
    return furthest_m


def told(arm: FaultyRobot, fault: Fault, about: str = "", limit_s: float = 3.0) -> None:
    """Wait until the daemon has said a line about `fault` (and `about`) since the test began; its page must exist."""

    def heard() -> bool:
        return any(page(fault) in line and LINES[fault] in line and about in line for line in arm.said().splitlines())

    assert (ROOT / page(fault)).is_file()
    wait_for(heard, limit_s, f"a line about {fault.value} {about}")


def until_still(arm: FaultyRobot, limit_s: float = 10.0) -> None:
    """The true tip stays within 5 mm for half a second: what it does from now on is not the last test's doing."""
    assert arm.plant is not None
    plant, end_s, kept = arm.plant, time.monotonic() + limit_s, []
    while time.monotonic() < end_s:
        setpoints(arm)
        assert plant.latest is not None
        kept = [*kept, (time.monotonic(), np.array(plant.latest.position_m[-1]))]
        kept = [(t_s, tip) for t_s, tip in kept if t_s > kept[-1][0] - 0.6]
        if kept[-1][0] - kept[0][0] >= 0.5 and max(float(np.linalg.norm(tip - kept[0][1])) for _, tip in kept) < 0.005:
            return
    raise AssertionError(f"the arm does not come to rest within {limit_s:g} s")


def until_well(arm: FaultyRobot, limit_s: float = 12.0) -> None:
    """After the cause has gone: active again, without a trouble, by itself."""
    wait_for(lambda: state(arm) == "active" and not trouble(arm), limit_s, "all is well again")


def until_state(arm: SimulatedRobot, wanted: str, limit_s: float) -> float:
    """Seconds until the supervisor is in `wanted`; pressures stay in range meanwhile."""

    def there() -> bool:
        setpoints(arm)
        return state(arm) == wanted

    return wait_for(there, limit_s, f"the arm is {wanted}")


def stop_and_go(pid: int, stopped_s: float, running_s: float, seconds: float) -> None:
    """Starve a process: again and again it is stopped for a while."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(stopped_s)
        os.kill(pid, signal.SIGCONT)
        time.sleep(running_s)
