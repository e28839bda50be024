"""A finished rollout: the states after each frame, their report, and the reverse pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sim.vine.kernels import entry, reverse
from sim.vine.robot import VineError, finite
from sim.vine.state import Array, Gradients, Report, State
from sim.vine.threads import share

if TYPE_CHECKING:
    from sim.vine.simulator import Simulator


def buffers(frames: int, batch: int, links: int, keep: bool, tape: bool) -> tuple[Any, Any]:
    kept, taped = (frames if keep else 0), (frames if tape else 0)
    whole = [np.zeros((frames, batch), np.int64) for _ in range(3)]
    real = [np.zeros((frames, batch)) for _ in range(2)]
    out = (
        np.zeros((kept, batch, links, 3)),
        np.zeros((kept, batch, links, 3)),
        np.zeros((kept, batch), np.int64),
        *whole,
        *real,
    )
    slots = (
        np.zeros((taped, batch, links, 3)),
        np.zeros((taped, batch, entry.TAPE_ROWS, 2)),
        np.zeros((taped, batch), np.int64),
    )
    return out, slots


class Rollout:
    """States q, v (T, B, N, 3) and links (T, B) after each frame when kept, the report, the last state, gradients."""

    def __init__(self, sim: Simulator, first: State, controls: Array, last: State, out: Any, tape: Any, checkpoint: int) -> None:
        self.sim, self.first, self.controls, self.last, self.checkpoint = sim, first, controls, last, checkpoint
        self.out, self.tape = out, tape
        self.q, self.v, self.links = out[0], out[1], out[2]
        self.report = Report(out[3], out[4], out[5], out[6], out[7])

    def state(self, frame: int) -> State:
        """The state after a frame of a kept rollout."""
        base = self.controls[frame, :, 2:5].copy()
        return State(self.q[frame].copy(), self.v[frame].copy(), self.links[frame].copy(), base)

    def backward(self, by_q: Array, by_v: Array | None = None) -> Gradients:
        """Gradients of a scalar whose cotangents on the states after each frame are by_q, by_v (T, B, N, 3)."""
        if self.tape is None and not self.checkpoint:
            raise VineError("backward: the rollout was made without tape=True or checkpoint")
        by_q = np.ascontiguousarray(finite("by_q", by_q))
        if by_q.shape != self.q.shape:
            raise VineError(f"by_q: shape {by_q.shape}, wanted {self.q.shape}")
        by_v = np.zeros_like(by_q) if by_v is None else np.ascontiguousarray(finite("by_v", by_v))
        if by_v.shape != self.v.shape:
            raise VineError(f"by_v: shape {by_v.shape}, wanted {self.v.shape}")
        made = Gradients(
            np.zeros_like(self.first.q),
            np.zeros_like(self.first.q),
            np.zeros_like(self.first.base),
            np.zeros_like(self.sim.parameters),
            np.zeros_like(self.controls),
        )
        frames, stride = len(self.controls), self.checkpoint or max(len(self.controls), 1)
        for begin in reversed(range(0, frames, stride)):
            end = min(begin + stride, frames)
            part = self
            if self.tape is None:
                start = self.state(begin - 1) if begin else self.first
                part = self.sim.rollout(start, self.controls[begin:end], tape=True)
            by_base = np.zeros_like(self.first.base)
            part.reverse_into(made, by_base, made.controls[begin:end], by_q[begin:end], by_v[begin:end])
            if begin:
                made.controls[begin - 1, :, 2:5] += by_base
            else:
                made.base += by_base
        return made

    def reverse_into(self, made: Gradients, by_base: Array, by_controls: Array, by_q: Array, by_v: Array) -> None:
        """One taped stretch in reverse; made.q, made.v come in as the cotangents of its last state."""
        good = np.ones(self.sim.batch, np.bool_)
        share(
            reverse.backward,
            self.sim.batch,
            self.first.q,
            self.first.v,
            self.first.links,
            self.first.base,
            self.controls,
            self.sim.parameters,
            self.sim.world,
            self.sim.settings,
            self.out,
            self.tape,
            by_q,
            by_v,
            made.q,
            made.v,
            by_base,
            made.parameters,
            by_controls,
            good,
        )
        if not good.all():
            raise VineError(f"backward: no factor for robots {np.flatnonzero(~good).tolist()}")
