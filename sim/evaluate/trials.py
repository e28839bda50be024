"""The trials of `evaluate posture`: bending under the arm's own pressures, pushed by a hand, taught and returned to."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from onboard.control.teaching import Teacher
from onboard.messages import Floats, Posture, frozen
from onboard.robot import RobotSpec
from sim.evaluate.loop import SimulatedLoop, Track
from sim.evaluate.metrics import mean_between, pressure_violations, settle_s, tip_rmse_pct
from sim.hand import Hand, Pusher
from sim.tower.model import TowerModel
from sim.tower.plant import TowerPlant, bend_setpoints_pa
from sim.tower.truth import TowerTruth

WARM_UP_S = 5.0
ACTIVE_AMPLITUDE_PA = (0.4e5, 1.2e5)  # bends the tip by some 15 to 55 degrees
ACTIVE_SLEW_PA_S = 2.0e5
ACTIVE_MODULE_PA = 0.2e5  # a difference of each module, so that the arm also takes shapes that are no arcs
ACTIVE_EVERY_S = 2.0
PUSHED_TILT_DEG = (10.0, 45.0)
TAUGHT_TILT_DEG = (20.0, 50.0)
POSES = 3
LEAD_LIMIT_S = 8.0
LEAD_ERROR_RAD = 0.02
REST_M_S = 0.004
HOLD_S = 0.8
RECORD_S = 0.5
RETURN_S = 7.0
JUDGE_S = 1.0
BAND = 0.01  # of the arm's length


@dataclass
class TrialResult:
    """What one trial gave. tip_rmse_pct: of the whole trial. errors_pct, settle_s, tilt_deg: one entry a posture, in the order
    taught; an infinite settle_s means that it never settled. violations: pressures or set-points out of range."""

    kind: str
    seed: int
    simulated_s: float
    tip_rmse_pct: float
    tilt_max_deg: float
    violations: int
    errors_pct: list[float] = field(default_factory=list)
    settle_s: list[float] = field(default_factory=list)
    tilt_deg: list[float] = field(default_factory=list)


def active(spec: RobotSpec, model: TowerModel, seed: int, seconds: float) -> TrialResult:
    """The arm bends where random pressures take it, a new target every two seconds, nothing closed around it."""
    loop = SimulatedLoop(spec, seed, model)
    rng = np.random.default_rng([seed, 0xAC])
    assert spec.actuators is not None
    low, high = spec.actuators.min_pressure_pa, spec.actuators.max_pressure_pa
    per_module = loop.plant.channels // spec.structure.modules
    target, next_s = loop.setpoints_pa, WARM_UP_S

    def policy(t_s: float, *_: object) -> Floats:
        nonlocal target, next_s
        if t_s >= next_s:
            next_s += ACTIVE_EVERY_S
            bend = bend_setpoints_pa(spec, rng.uniform(-np.pi, np.pi), rng.uniform(*ACTIVE_AMPLITUDE_PA))
            uneven = np.repeat(rng.normal(0.0, ACTIVE_MODULE_PA, spec.structure.modules), per_module)
            target = np.clip(bend + uneven * np.sign(bend - spec.actuators.rest_pressure_pa), low, high)
        step = ACTIVE_SLEW_PA_S / spec.rates.estimator_hz
        return loop.setpoints_pa + np.clip(target - loop.setpoints_pa, -step, step)

    loop.warm_up(WARM_UP_S)
    return _judged("active", seed, spec, loop.run(seconds, policy))


def pushed(spec: RobotSpec, model: TowerModel, seed: int, seconds: float) -> TrialResult:
    """At constant pressures a hand leads the tip about for half of the time and pushes any upper loop for the other half."""
    loop = SimulatedLoop(spec, seed, model)
    rng = np.random.default_rng([seed, 0xB0])
    hand, pusher = Hand(spec.structure.rest_height_m), Pusher(seed, spec.structure.modules)
    next_s = WARM_UP_S

    def lead(plant: TowerPlant, truth: TowerTruth) -> None:
        nonlocal next_s
        if truth.t_s >= next_s:
            next_s += rng.uniform(1.5, 3.0)
            if hand.holding and rng.uniform() < 0.3:
                hand.let_go()
            else:
                hand.lead_to(float(np.radians(rng.uniform(*PUSHED_TILT_DEG))), float(rng.uniform(-np.pi, np.pi)))
        hand.update(plant, truth)

    def still(*_: object) -> Floats:
        return loop.setpoints_pa

    loop.warm_up(WARM_UP_S)
    track = loop.run(seconds / 2.0, still, lead)
    loop.plant.release()
    track.extend(loop.run(seconds / 2.0, still, lambda plant, truth: pusher.update(plant)))
    return _judged("pushed", seed, spec, track)


def taught(spec: RobotSpec, model: TowerModel, seed: int, poses: int = POSES) -> TrialResult:
    """A hand shows postures, the arm returns to each by itself; judged by the plant's true tip."""
    loop = SimulatedLoop(spec, seed, model)
    rng = np.random.default_rng([seed, 0x7EAC])
    hand, teacher, controller = Hand(spec.structure.rest_height_m), Teacher(spec), spec.controller.build(spec)
    tilts = np.sort(rng.uniform(*TAUGHT_TILT_DEG, poses))
    azimuths = rng.uniform(-np.pi, np.pi) + 2.0 * np.pi * np.arange(poses) / poses + rng.uniform(-0.4, 0.4, poses)
    loop.warm_up(WARM_UP_S)
    track, shown = Track(), []
    teacher.start(loop.setpoints_pa)

    def comply(t_s: float, estimate: object, measured: Floats) -> Floats:
        return teacher.update(t_s, estimate, measured).value

    for number, (tilt_deg, azimuth) in enumerate(zip(tilts, azimuths, strict=True), start=1):
        hand.lead_to(float(np.radians(tilt_deg)), float(azimuth))
        for _ in range(round(LEAD_LIMIT_S / 0.1)):
            part = loop.run(0.1, comply, hand.update)
            track.extend(part)
            speed = np.linalg.norm(part.truth_m[-1] - part.truth_m[0]) / 0.1
            if hand.error_rad(loop.truth) < LEAD_ERROR_RAD and speed < REST_M_S:
                break
        held = loop.run(HOLD_S, comply, hand.update)
        track.extend(held)
        shown.append(_record(f"pose-{number}", held, loop))
    hand.let_go()
    loop.plant.release()
    result_errors, result_settle = [], []
    controller.reset(loop.setpoints_pa)
    for posture, tip_m in shown:
        start_s = loop.t_s
        back = loop.run(RETURN_S, lambda t_s, e, m, goal=posture: controller.update(e, m, goal).value)
        track.extend(back)
        t_s, tips = np.array(back.truth_t_s), np.array(back.truth_m)
        reached = mean_between(t_s, tips, start_s + RETURN_S - JUDGE_S, start_s + RETURN_S)
        length = spec.structure.rest_height_m
        result_errors.append(float(100.0 * np.linalg.norm(reached - tip_m) / length))
        result_settle.append(settle_s(t_s, tips, tip_m, start_s, BAND * length))
    result = _judged("taught", seed, spec, track)
    result.errors_pct, result.settle_s, result.tilt_deg = result_errors, result_settle, tilts.tolist()
    return result


def _record(name: str, held: Track, loop: SimulatedLoop) -> tuple[Posture, Floats]:
    """The posture as the daemon records it (means over the last half second), and the plant's true tip meanwhile."""
    last = round(RECORD_S * loop.spec.rates.estimator_hz)
    lengths = np.mean(held.cable_length_m[-last:], axis=0)
    posture = Posture(name, frozen(lengths), frozen(loop.setpoints_pa), frozen(np.mean(held.estimate_m[-last:], axis=0)))
    return posture, np.mean(held.truth_m[-last:], axis=0)


def _judged(kind: str, seed: int, spec: RobotSpec, track: Track) -> TrialResult:
    rmse = tip_rmse_pct(
        np.array(track.t_s),
        np.array(track.estimate_m),
        np.array(track.truth_t_s),
        np.array(track.truth_m),
        spec.structure.rest_height_m,
    )
    violations = pressure_violations(np.array(track.pressure_pa), spec) + pressure_violations(np.array(track.setpoint_pa), spec)
    return TrialResult(
        kind=kind,
        seed=seed,
        simulated_s=track.t_s[-1] - track.t_s[0],
        tip_rmse_pct=rmse,
        tilt_max_deg=float(np.degrees(np.max(track.tilt_rad))),
        violations=violations,
    )
