"""One idea: two-second windows out of episodes, as the batches that training and evaluation take.

Velocities are what the robot can measure: differences of cap positions over four plant steps, 0.04 s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from offboard.three_bar.dataset import DataError, Shard
from offboard.three_bar.episodes import VELOCITY_STEPS
from onboard.models.strut_dynamics import nearest_rows

WORLD_NEAREST = 6


@dataclass(frozen=True, slots=True)
class Batch:
    """B windows of C chunks.

    Caps, velocity (C + 1, 6, B, 3) at chunk ends, the first entry is the start; rest (2 C + 1, 6, B); world (B, K,
    16).
    """

    caps: Tensor
    velocity: Tensor
    rest: Tensor
    world: Tensor


class Windows:
    """All windows of a set of episodes, addressed by number."""

    def __init__(self, shards: list[Shard], chunk_steps: int, chunks: int, step_s: float) -> None:
        self.chunk_steps, self.chunks, self.step_s = chunk_steps, chunks, step_s
        span = chunk_steps * chunks
        starts, episode = [], []
        base = 0
        for number, shard in enumerate(shards):
            last = shard.steps - span
            if last >= VELOCITY_STEPS:
                first = base + VELOCITY_STEPS
                starts.append(np.arange(first, base + last + 1))
                episode.append(np.full(last + 1 - VELOCITY_STEPS, number))
            base += shard.steps + 1
        if not starts:
            raise DataError(f"no episode is as long as a window of {span + VELOCITY_STEPS} steps")
        self.starts, self.episode = np.concatenate(starts), np.concatenate(episode)
        self.caps = np.concatenate([shard.caps_u for shard in shards])
        self.rest = np.concatenate([shard.rest_u for shard in shards])
        self.worlds = np.stack([shard.world for shard in shards]).astype(np.float32)
        self.drives = [str(shard.about["drive"]) for shard in shards]

    def __len__(self) -> int:
        return len(self.starts)

    def batch(self, numbers: np.ndarray, chunks: int | None = None) -> Batch:
        """Windows `numbers`, cut off after `chunks`."""
        count = self.chunks if chunks is None else chunks
        start = self.starts[numbers]
        at = start[:, None] + self.chunk_steps * np.arange(count + 1)
        halves = start[:, None] + (self.chunk_steps * np.arange(2 * count + 1)) // 2
        caps = self.caps[at]
        velocity = (caps - self.caps[at - VELOCITY_STEPS]) / (VELOCITY_STEPS * self.step_s)
        world = nearest_rows(self.worlds[self.episode[numbers]], caps[:, 0].mean(axis=1), WORLD_NEAREST)
        return Batch(
            caps=torch.from_numpy(np.ascontiguousarray(caps.transpose(1, 2, 0, 3))),
            velocity=torch.from_numpy(np.ascontiguousarray(velocity.transpose(1, 2, 0, 3).astype(np.float32))),
            rest=torch.from_numpy(np.ascontiguousarray(self.rest[halves].transpose(1, 2, 0))),
            world=torch.from_numpy(np.ascontiguousarray(world)),
        )

    def dense_caps(self, numbers: np.ndarray) -> np.ndarray:
        """Caps (B, T + 1, 6, 3) at every plant step of whole windows."""
        at = self.starts[numbers][:, None] + np.arange(self.chunk_steps * self.chunks + 1)
        return self.caps[at]


def hermite(start: np.ndarray, caps: np.ndarray, velocity: np.ndarray, steps: int, step_s: float) -> np.ndarray:
    """Caps at every plant step (T, ...) between chunk ends.

    start: (caps, velocity) stacked (2, ...); caps, velocity (C, ...) at chunk ends; cubic Hermite with the velocities
    as tangents.
    """
    p = np.concatenate([start[:1], caps])
    v = np.concatenate([start[1:2], velocity]) * (steps * step_s)
    f = (np.arange(1, steps + 1) / steps).reshape(1, -1, *([1] * (p.ndim - 1)))
    p0, p1, v0, v1 = p[:-1, None], p[1:, None], v[:-1, None], v[1:, None]
    curve = (2 * f**3 - 3 * f**2 + 1) * p0 + (f**3 - 2 * f**2 + f) * v0 + (-2 * f**3 + 3 * f**2) * p1 + (f**3 - f**2) * v1
    return curve.reshape(-1, *p.shape[1:])
