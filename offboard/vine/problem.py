"""What a fit minimises: the distance of simulated growths from tracked ones, with its exact gradient.

Unknowns are the logarithms of positive parameters (and plain network weights), and for every trial the nuisances of
tracked data: the length at the first frame, a heading offset and a time offset. A trial starts straight and at rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from offboard.vine.shape import Target, distance, shape_errors
from offboard.vine.tracks import Trial
from sim.vine import Gradients, Options, Robot, Rollout, Scene, Simulator, State, VineError
from sim.vine.kernels import laws
from sim.vine.robot import SCALARS, WRINKLING_PRESSURE_PA

Array = NDArray[np.float64]

#: What may be fitted, by the robot's field; `growth` is the growth rate [m/s], `scale` metres a pixel.
PHYSICAL = ("growth", "mass", "inertia", "stiffness", "damping", "drag", "pressure", "strain_scale", "scale")
FIELDS = {
    "mass": "mass_kg",
    "inertia": "inertia_kg_m2",
    "stiffness": "stiffness_nm",
    "damping": "damping_nms",
    "drag": "drag_ns_m",
    "strain_scale": "strain_scale",
}
USUAL = {
    "linear": ("growth", "stiffness", "damping"),
    "wrinkling": ("growth", "pressure", "strain_scale", "damping"),
    "network": ("growth", "damping"),
}
MM2 = 1e6
MOST_HALVES, MOST_FRAMES, INSIDE_M = 60.0, 20_000, 3e-3  # half links at the start, frames, seeming overlap with a wall then


@dataclass(frozen=True)
class Unknowns:
    """Physical values by name, network weights, and the trials' nuisances (R,): length [m], heading [rad], time [s]."""

    values: dict[str, float]
    network: tuple[float, ...]
    length_m: Array
    heading_rad: Array
    offset_s: Array


@dataclass
class Problem:
    """Trials to be explained by one robot. `free` names the physical unknowns."""

    robot: Robot
    trials: Sequence[Trial]
    free: tuple[str, ...]
    growth_m_s: float
    dt_s: float = 1 / 90
    fit_heading: bool = False
    fit_time: bool = False
    evaluations: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        for name in self.free:
            if name not in PHYSICAL:
                raise VineError(f"fit: {name!r} is none of {', '.join(PHYSICAL)}")
        unknown_scale = not all(t.scale_known for t in self.trials)
        if unknown_scale and "scale" not in self.free:
            raise VineError("fit: the data are pixels: give the scale, or fit it ('scale') with a known growth rate")
        if "scale" in self.free and "growth" in self.free:
            raise VineError("fit: growth rate and scale cannot both be found from pixels; fix one of them")
        if "scale" in self.free and any(t.walls for t in self.trials):
            raise VineError("fit: walls need a known scale")
        if len(set(self.free)) < len(self.free):
            raise VineError(f"fit: an unknown is named twice in {', '.join(self.free)}")
        low, high = 1e-9, 0.9 * self.robot.half_length_m / self.dt_s
        if not low <= self.growth_m_s <= high:
            raise VineError(
                f"fit: growth rate {self.growth_m_s:g} m/s must lie in {low:g} .. {high:g}, under half a link a frame"
            )
        self.scenes = [Scene(t.name, t.walls) for t in self.trials]
        self._check_starts()

    def _check_starts(self) -> None:
        """Refuses trials too long for the links or the time, and those that start inside a wall."""
        for trial in self.trials:
            if self.frames(10**9) > MOST_FRAMES:
                raise VineError(f"fit: trial {trial.name} lasts over {MOST_FRAMES * self.dt_s:.0f} s (milliseconds?)")
            if trial.scale_known and trial.length_m() > MOST_HALVES * self.robot.half_length_m:
                raise VineError(f"fit: trial {trial.name} starts longer than {MOST_HALVES / 2:.0f} links: take longer ones")
            if trial.walls:
                length = np.array([max(trial.length_m(), 2.02 * self.robot.half_length_m)])
                sim = Simulator(self.robot, [Scene(trial.name, trial.walls)])
                sim.check_free(self.straight(self.robot, trial.base_at(trial.times_s[:1]), length, 40), INSIDE_M)

    def frames(self, horizon: int) -> int:
        """Simulated frames for a horizon, no more than the data last."""
        longest = max(t.times_s[-1] - t.times_s[0] for t in self.trials)
        return min(horizon, math.ceil(longest / self.dt_s) + 1)

    def names(self) -> list[str]:
        """Names of the packed unknowns."""
        names = list(self.free)
        if self.robot.law == "network":
            names += [f"weight{k}" for k in range(len(self.robot.network))]
        for k in range(len(self.trials)):
            names += [f"length{k}"] + [f"heading{k}"] * self.fit_heading + [f"time{k}"] * self.fit_time
        return names

    def start(self, factors: dict[str, float] | None = None) -> Array:
        """Packed unknowns at the robot's own values, some multiplied by factors."""
        factors = factors or {}
        packed = []
        for name in self.free:
            if name == "growth":
                value = self.growth_m_s
            elif name == "pressure":
                value = self.robot.pressure_pa
            elif name == "scale":
                value = 0.0225 / max(self.trials[0].length_m(), 1e-9)
            else:
                value = getattr(self.robot, FIELDS[name])
            if value <= 0:
                raise VineError(f"fit: {name} starts at {value}; a logarithm needs a positive start")
            packed.append(math.log(value * factors.get(name, 1.0)))
        if self.robot.law == "network":
            packed += list(self.robot.network)
        scale = math.exp(packed[self.free.index("scale")]) if "scale" in self.free else 1.0
        for trial in self.trials:
            packed.append(max(trial.length_m() * scale, 1.05 * 2 * self.robot.half_length_m) / self.robot.half_length_m)
            packed += [0.0] * (self.fit_heading + self.fit_time)
        return np.array(packed)

    def bounds(self, start: Array) -> list[tuple[float, float]]:
        """Box around a start: factors of 30 for physical values, the law's pressure range, sensible nuisances."""
        out: list[tuple[float, float]] = []
        for k, name in enumerate(self.free):
            low, high = start[k] - math.log(30), start[k] + math.log(30)
            if name == "pressure" and self.robot.law == "wrinkling":
                low, high = (math.log(v) for v in WRINKLING_PRESSURE_PA)
            if name == "growth":
                high = min(high, math.log(0.9 * self.robot.half_length_m / self.dt_s))
            out.append((low, high))
        if self.robot.law == "network":
            out += [(-50.0, 50.0)] * len(self.robot.network)
        for _ in self.trials:
            out += [(2.02, MOST_HALVES)] + [(-0.5, 0.5)] * self.fit_heading + [(-20.0, 20.0)] * self.fit_time
        return out

    def unpack(self, packed: Array) -> Unknowns:
        """The unknowns in their own units."""
        values = {name: math.exp(packed[k]) for k, name in enumerate(self.free)}
        at = len(self.free)
        network = self.robot.network
        if self.robot.law == "network":
            network = tuple(packed[at : at + len(network)])
            at += len(network)
        rows = packed[at:].reshape(len(self.trials), -1)
        zero = np.zeros(len(self.trials))
        return Unknowns(
            values,
            network,
            rows[:, 0] * self.robot.half_length_m,
            rows[:, 1] if self.fit_heading else zero,
            rows[:, -1] * self.dt_s if self.fit_time else zero,
        )

    def fitted_robot(self, unknowns: Unknowns) -> Robot:
        """The robot with the unknowns' values."""
        changes: dict[str, Any] = {FIELDS[k]: v for k, v in unknowns.values.items() if k in FIELDS}
        if "pressure" in unknowns.values:
            low, high = WRINKLING_PRESSURE_PA
            inside = min(max(unknowns.values["pressure"], low), high)
            changes["pressure_pa"] = inside if self.robot.law == "wrinkling" else unknowns.values["pressure"]
        return self.robot.changed(**changes, network=unknowns.network)

    def simulate(self, unknowns: Unknowns, frames: int, tape: bool) -> tuple[Rollout, Robot]:
        """All trials for some frames."""
        robot = self.fitted_robot(unknowns)
        growth = unknowns.values.get("growth", self.growth_m_s)
        links = math.ceil((unknowns.length_m.max() + growth * frames * self.dt_s) / (2 * robot.half_length_m)) + 2
        sim = Simulator(robot, self.scenes, Options(links=links, dt_s=self.dt_s, max_substeps=4))
        bases = self.bases(unknowns, frames)
        state = self.straight(robot, bases[0], unknowns.length_m, links)
        controls = np.zeros((frames, len(self.trials), 6))
        controls[..., 0], controls[..., 1], controls[..., 2:5] = growth, robot.pressure_pa, bases[1:]
        return sim.rollout(state, controls, tape=tape, keep=True), robot

    def bases(self, unknowns: Unknowns, frames: int) -> Array:
        """Base poses (T + 1, R, 3) at the frames' ends, the first at the start; scaled with the scale."""
        scale = unknowns.values.get("scale", 1.0)
        out = np.empty((frames + 1, len(self.trials), 3))
        for k, trial in enumerate(self.trials):
            times = trial.times_s[0] + self.dt_s * np.arange(frames + 1)
            out[:, k] = trial.base_at(times)
        out[..., :2] *= scale
        out[..., 2] += unknowns.heading_rad
        return out

    def straight(self, robot: Robot, base: Array, length_m: Array, links: int) -> State:
        """Straight robots at rest on their bases (R, 3)."""
        full = 2 * robot.half_length_m
        count = np.maximum(np.ceil(length_m / full - 1e-12).astype(np.int64), 2)
        q = np.zeros((len(base), links, 3))
        for k in range(len(base)):
            along = full * (np.arange(count[k]) + 0.5)
            along[-1] = length_m[k]
            q[k, : count[k], 0] = base[k, 0] + along * math.cos(base[k, 2])
            q[k, : count[k], 1] = base[k, 1] + along * math.sin(base[k, 2])
            q[k, : count[k], 2] = base[k, 2]
        return State(q, np.zeros_like(q), count, base.copy())

    def matches(self, run: Rollout, unknowns: Unknowns) -> list[tuple[int, Any, Any, Array, Array, Target]]:
        """For each trial: (trial, data rows, frames, time to the frame's end, poses, target) within the rollout."""
        out = []
        scale = unknowns.values.get("scale", 1.0)
        for k, trial in enumerate(self.trials):
            at = (trial.times_s - trial.times_s[0] + unknowns.offset_s[k]) / self.dt_s
            rows = np.flatnonzero((at >= 0) & (at <= len(run.q)))
            frame = np.maximum(np.ceil(at[rows] - 1e-9).astype(int) - 1, 0)
            left = (frame + 1 - at[rows]) * self.dt_s
            q = run.q[frame, k] - left[:, None, None] * run.v[frame, k]
            target = Target(trial.target.points[rows] * scale, trial.target.counts[rows])
            out.append((k, rows, frame, left, q, target))
        return out

    def errors(self, packed: Array, horizon: int = 10**6) -> Array:
        """Mean distance of every trial's tracked points from the simulated line (R,) [m]."""
        unknowns = self.unpack(packed)
        run, robot = self.simulate(unknowns, self.frames(horizon), tape=False)
        out = np.zeros(len(self.trials))
        for k, _, frame, _, q, target in self.matches(run, unknowns):
            out[k] = shape_errors(q, run.links[frame, k], robot.half_length_m, target).mean()
        return out

    def loss(self, packed: Array, horizon: int = 10**6) -> tuple[float, Array]:
        """Mean cost over all trials' frames [mm^2] and its gradient by the packed unknowns."""
        self.evaluations += 1
        unknowns = self.unpack(packed)
        run, robot = self.simulate(unknowns, self.frames(horizon), tape=True)
        by_q, by_v = np.zeros_like(run.q), np.zeros_like(run.v)
        trials = len(self.trials)
        total, by_time, by_points = 0.0, np.zeros(trials), 0.0
        for k, rows, frame, left, q, target in self.matches(run, unknowns):
            weight = MM2 / max(len(rows), 1) / trials
            links = run.links[frame, k]
            cost, gradient = distance(q, links, robot.half_length_m, target)
            total += weight * float(cost.sum())
            gradient *= weight
            np.add.at(by_q, (frame, k), gradient)
            np.add.at(by_v, (frame, k), -left[:, None, None] * gradient)
            by_time[k] = float(np.sum(gradient * run.v[frame, k]))
            if "scale" in self.free:
                step = 1e-6
                moved = [
                    distance(q, links, robot.half_length_m, Target(target.points * (1 + s), target.counts))[0].sum()
                    for s in (step, -step)
                ]
                by_points += weight * (moved[0] - moved[1]) / (2 * step)
        gradients = run.backward(by_q, by_v)
        return total, self._collect(unknowns, run, robot, gradients, by_time, by_points)

    def _collect(
        self, unknowns: Unknowns, run: Rollout, robot: Robot, found: Gradients, by_time: Array, by_points: float
    ) -> Array:
        """Gradient by the packed unknowns from the rollout's."""
        start = run.first
        by_base = found.base + found.controls[..., 2:5].sum(axis=0)
        out = []
        for name in self.free:
            value = unknowns.values[name]
            if name == "growth":
                out.append(value * found.controls[..., 0].sum())
            elif name == "pressure":
                out.append(value * found.controls[..., 1].sum())
            elif name == "scale":
                moved = np.sum(found.controls[..., 2:4] * run.controls[..., 2:4]) + np.sum(found.base[:, :2] * start.base[:, :2])
                moved += np.sum(found.q[..., :2].sum(axis=1) * start.base[:, :2])
                out.append(by_points + float(moved))
            else:
                out.append(value * found.parameters[:, SCALARS.index(FIELDS[name])].sum())
        if self.robot.law == "network":
            out += list(found.parameters[:, laws.NETWORK_AT :].sum(axis=0))
        for k in range(len(self.trials)):
            tip, heading = int(start.links[k]) - 1, start.base[k, 2]
            along = np.array([math.cos(heading), math.sin(heading)])
            out.append(robot.half_length_m * float(found.q[k, tip, :2] @ along))
            if self.fit_heading:
                arm = start.q[k, : tip + 1, :2] - start.base[k, :2]
                turned = np.stack([-arm[:, 1], arm[:, 0]], axis=1)
                turn = by_base[k, 2] + np.sum(found.q[k, : tip + 1, :2] * turned) + found.q[k, : tip + 1, 2].sum()
                out.append(float(turn))
            if self.fit_time:
                out.append(self.dt_s * by_time[k])
        return np.array(out)
