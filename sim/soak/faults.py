"""The faults of a soak: each a way to break something and how long it lasts; `SoakRobot.heal` mends them all."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from onboard.errors import SafetyError
from sim.boards.registers import FAULT_NO_ANSWER
from sim.soak.robot import SoakRobot


@dataclass(frozen=True, slots=True)
class SoakFault:
    """One kind. least_s, most_s: how long it lasts. actuated: only a robot with actuators can have it."""

    name: str
    begin: Callable[[SoakRobot, random.Random], None]
    least_s: float
    most_s: float
    actuated: bool = False


def _loss(robot: SoakRobot, rng: random.Random) -> None:
    robot.network.loss = rng.uniform(0.1, 0.7)


def _held_network(robot: SoakRobot, rng: random.Random) -> None:
    robot.network.hold = True


def _sensor(kind: str) -> Callable[[SoakRobot, random.Random], None]:
    def begin(robot: SoakRobot, rng: random.Random) -> None:
        assert robot.plant is not None
        robot.plant.ask("fault", strut=rng.choice(robot.spec.struts), kind=kind, axis=rng.randrange(3))

    return begin


def _strut_off(robot: SoakRobot, rng: random.Random) -> None:
    assert robot.fleet is not None
    robot.fleet[rng.choice(robot.spec.struts)].stop()


def _strut_restart(robot: SoakRobot, rng: random.Random) -> None:
    assert robot.fleet is not None
    robot.fleet[rng.choice(robot.spec.struts)].restart()


def _broker_frozen(robot: SoakRobot, rng: random.Random) -> None:
    if robot.broker.pid is not None:
        os.kill(robot.broker.pid, signal.SIGSTOP)


def _daemon_starved(robot: SoakRobot, rng: random.Random) -> None:
    assert robot.daemon is not None
    os.kill(robot.daemon.pid, signal.SIGSTOP)


def _pushed(robot: SoakRobot, rng: random.Random) -> None:
    assert robot.plant is not None
    robot.plant.ask("push_at_random", seed=rng.randrange(10_000))


def _cable_pulled(robot: SoakRobot, rng: random.Random) -> None:
    robot.cables[rng.choice(list(robot.cables))].unplug()


def _noisy_cable(robot: SoakRobot, rng: random.Random) -> None:
    """One byte in a hundred changes on its way to the board: after the point where commands are judged."""
    name = rng.choice(list(robot.cables))
    heard, noise = robot.cables[name].to_board, random.Random(rng.random())

    def disturbed(data: bytes) -> bytes:
        data = heard(data)
        return bytes(noise.randrange(256) if noise.random() < 0.01 else byte for byte in data)

    robot.cables[name].to_board = disturbed


def _of_board(request: str, **fields: object) -> Callable[[SoakRobot, random.Random], None]:
    def begin(robot: SoakRobot, rng: random.Random) -> None:
        assert robot.plant is not None
        robot.plant.ask(request, board=rng.choice(list(robot.cables)), **fields)

    return begin


def _valve_board_off(robot: SoakRobot, rng: random.Random) -> None:
    assert robot.fleet is not None
    robot.fleet[rng.choice(list(robot.cables))].restart()


def _asked(request: str) -> Callable[[SoakRobot, random.Random], None]:
    def begin(robot: SoakRobot, rng: random.Random) -> None:
        with suppress(SafetyError):
            robot.ask(request)

    return begin


FAULTS = (
    SoakFault("samples lost", _loss, 2.0, 10.0),
    SoakFault("network held up", _held_network, 0.3, 4.0),
    SoakFault("sensor frozen", _sensor("frozen"), 2.0, 6.0),
    SoakFault("sensor saturated", _sensor("saturated"), 2.0, 6.0),
    SoakFault("sensor flipped", _sensor("flipped"), 2.0, 6.0),
    SoakFault("sensor silent", _sensor("missing"), 2.0, 6.0),
    SoakFault("strut board off", _strut_off, 1.0, 5.0),
    SoakFault("strut board restarted", _strut_restart, 1.0, 3.0),
    SoakFault("broker frozen", _broker_frozen, 0.5, 4.0),
    SoakFault("daemon stopped", _daemon_starved, 0.05, 1.0),
    SoakFault("pushed by hand", _pushed, 3.0, 8.0),
    SoakFault("cable pulled", _cable_pulled, 0.5, 4.0, actuated=True),
    SoakFault("noise on a cable", _noisy_cable, 1.0, 4.0, actuated=True),
    SoakFault("valve board restarted", _valve_board_off, 1.0, 3.0, actuated=True),
    SoakFault("valve bus silent", _of_board("bus", faults=FAULT_NO_ANSWER), 0.5, 3.0, actuated=True),
    SoakFault("stop pressed", _of_board("press_stop", pressed=True), 0.5, 3.0, actuated=True),
    SoakFault("valve jammed", _of_board("jam", jammed=True), 2.0, 4.0, actuated=True),
    SoakFault("stop asked for", _asked("stop"), 0.2, 1.0, actuated=True),
    SoakFault("disarmed", _asked("disarm"), 0.2, 1.0, actuated=True),
)


def faults_for(robot: SoakRobot) -> list[SoakFault]:
    """Those that this robot can have."""
    return [fault for fault in FAULTS if robot.cables or not fault.actuated]
