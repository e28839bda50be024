"""The vine simulator: a batch of growing robots rolled through time, with exact gradients of the whole rollout."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sim.vine.kernels import entry
from sim.vine.kernels.qp import AUTO, INTERIOR_ONLY
from sim.vine.kernels.work import CONTROLS, Settings
from sim.vine.robot import LAWS, Robot, UnitsWarning, VineError, check_pressure, finite
from sim.vine.rollout import Rollout, buffers
from sim.vine.scene import Scene, world
from sim.vine.state import Array, Options, State
from sim.vine.threads import share


class Simulator:
    """A batch of `scenes` (one a robot) and `robots` (one, or one a robot) under common options."""

    def __init__(self, robots: Robot | Sequence[Robot], scenes: Sequence[Scene], options: Options | None = None) -> None:
        self.options = options or Options()
        many = [robots] * len(scenes) if isinstance(robots, Robot) else list(robots)
        if len(many) != len(scenes) or not many:
            raise VineError(f"{len(many)} robots for {len(scenes)} scenes: give one robot, or one a scene")
        first = many[0]
        for other in many:
            if (other.law, other.half_length_m, other.top_rate_m_s) != (
                first.law,
                first.half_length_m,
                first.top_rate_m_s,
            ):
                raise VineError("robots of one batch share bending law, link length and top growth rate")
        self.robots, self.scenes, self.world = many, list(scenes), world(scenes)
        self.parameters: Array = np.stack([r.vector() for r in many])
        o = self.options
        self.settings = Settings(
            o.dt_s,
            first.half_length_m,
            first.top_rate_m_s,
            o.contact_stiffness_n_m,
            o.margin_m,
            o.joint_tolerance_m,
            o.penetration_tolerance_m,
            LAWS[first.law],
            o.implicit_bending,
            o.hard_growth,
            o.growing_mass,
            o.centre_discs,
            o.max_substeps,
            INTERIOR_ONLY if o.interior_point_only else AUTO,
        )

    @property
    def batch(self) -> int:
        """Number of robots."""
        return len(self.robots)

    def start(self, headings_rad: Any, length_m: float | None = None) -> State:
        """Straight robots at rest at their scenes' bases; length from base to tip, default one and a half links."""
        full = 2 * self.settings.half
        length = 1.5 * full if length_m is None else float(finite("length_m", length_m))
        headings = np.broadcast_to(finite("headings_rad", headings_rad), (self.batch,))
        if np.any(np.abs(headings) > 20):
            warnings.warn("vine start: headings beyond 20 rad (degrees?)", UnitsWarning, stacklevel=2)
        count = int(np.ceil(length / full - 1e-9))
        if not 2 <= count <= self.options.links:
            raise VineError(f"length_m: {length} needs {count} links, allowed are 2 to {self.options.links}")
        along = full * (np.arange(count) + 0.5)
        along[-1] = length
        q = np.zeros((self.batch, self.options.links, 3))
        base = np.array([(*scene.base, heading) for scene, heading in zip(self.scenes, headings, strict=True)])
        q[:, :count, 0] = base[:, :1] + np.cos(headings)[:, None] * along
        q[:, :count, 1] = base[:, 1:2] + np.sin(headings)[:, None] * along
        q[:, :count, 2] = headings[:, None]
        state = State(q, np.zeros_like(q), np.full(self.batch, count, dtype=np.int64), base)
        self.check_free(state)
        return state

    def check_free(self, state: State, allowed_m: float = 1e-3) -> None:
        """VineError when a robot starts inside an obstacle."""
        from sim.vine.measure import clearance

        for b in range(self.batch):
            gap = clearance(state, b, self.scenes[b], self.robots[b], self.settings.half)
            if gap < -allowed_m:
                raise VineError(f"robot {b} starts {-1e3 * gap:.1f} mm inside an obstacle of scene {self.scenes[b].name!r}")

    def controls(self, frames: int, state: State, **values: Any) -> Array:
        """Constant controls (T, B, 6): rate_m_s, pressure_pa, base pose (from the state), curvature_1_m."""
        made = np.empty((frames, self.batch, CONTROLS))
        made[..., 0] = values.pop("rate_m_s", [s.rate_m_s for s in self.scenes])
        made[..., 1] = values.pop("pressure_pa", [r.pressure_pa for r in self.robots])
        made[..., 2:5] = values.pop("base", state.base)
        made[..., 5] = values.pop("curvature_1_m", 0.0)
        if values:
            raise VineError(f"controls: unknown {', '.join(values)}")
        return made

    def check_controls(self, controls: Array) -> Array:
        """Controls as the kernels want them, or a VineError that names the channel."""
        array = np.ascontiguousarray(finite("controls", controls))
        if array.ndim != 3 or array.shape[1:] != (self.batch, CONTROLS):
            raise VineError(f"controls: shape {array.shape}, wanted (frames, {self.batch}, {CONTROLS})")
        if np.any(array[..., 0] < 0):
            raise VineError("controls: a negative growth rate; this model does not retract")
        if array[..., 0].size and array[..., 0].max() * self.settings.dt > self.settings.half:
            raise VineError(
                f"controls: growth of {array[..., 0].max():g} m/s is over half a link a frame (millimetres a second?)"
            )
        check_pressure(self.robots[0].law, array[..., 1])
        if self.robots[0].law == "wrinkling" and array.size:
            for b, robot in enumerate(self.robots):
                robot.check_domain(array[:, b, 1])
        return array

    def rollout(
        self,
        state: State,
        controls: Array,
        *,
        keep: bool = True,
        tape: bool = False,
        checkpoint: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> Rollout:
        """Rolls the batch through controls (T, B, 6); the given state is not changed.

        keep: store the state after each frame. tape: also what `Rollout.backward` needs. checkpoint: instead of a
        tape, solve stretches of so many frames again in reverse (a third more time, a fraction of the memory).
        progress: called with the number of frames done every twenty frames.
        """
        controls = self.check_controls(controls)
        for name in ("q", "v", "base"):
            finite(f"state.{name}", getattr(state, name))
        frames, keep = len(controls), keep or tape or checkpoint > 0
        last = state.copy()
        out, slots = buffers(frames, self.batch, self.options.links, keep, tape)
        stride = 20 if progress else max(frames, 1)
        for begin in range(0, frames, stride):
            end = min(begin + stride, frames)
            part = tuple(a[begin:end] for a in out)
            held = tuple(a[begin:end] for a in slots)
            share(
                entry.forward,
                self.batch,
                last.q,
                last.v,
                last.links,
                last.base,
                controls[begin:end],
                self.parameters,
                self.world,
                self.settings,
                keep,
                tape,
                part,
                held,
            )
            if progress:
                progress(end)
        return Rollout(self, state, controls, last, out, slots if tape else None, checkpoint)
