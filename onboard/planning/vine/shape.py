"""One idea: the vine's state from a noisy centre line and what the model expected, by a few Gauss-Newton steps.

Interior points count by their distance from the curve (where along it they lie is unknown), the last one is the tip.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.errors import EstimationError, NotANumberError
from onboard.messages import Floats
from onboard.planning.vine.state import Layout


@dataclass(frozen=True, slots=True)
class CentreLine:
    """One picture: points_m (P, 2) from base to tip [m], taken at t_s; heading_rad and curvature_1_m as the actuators report."""

    t_s: float
    points_m: Floats
    heading_rad: float
    curvature_1_m: float


@dataclass(frozen=True, slots=True)
class ShapeFit:
    """How far pictures and expectation are trusted: standard deviations of points [m], angles [rad] and length [m]."""

    layout: Layout
    point_sd_m: float
    angle_sd_rad: float = 0.03
    length_sd_m: float = 0.005
    rounds: int = 4

    def __call__(self, expected: Floats, line: CentreLine) -> Floats:
        """The state (nx,) at the picture's time, given the `expected` one there.

        Raises NotANumberError for a picture that is not finite, EstimationError for one without points.
        """
        if len(line.points_m) < 2:
            raise EstimationError(f"a centre line needs two points or more, got {len(line.points_m)}")
        if not (np.isfinite(line.points_m).all() and np.isfinite((line.heading_rad, line.curvature_1_m)).all()):
            raise NotANumberError("a centre line is not finite")
        lay, n = self.layout, self.layout.links
        state = expected.copy()
        state[n + 1 :] = line.heading_rad, line.curvature_1_m
        weight = np.concatenate([np.full(n, self.angle_sd_rad**-2), [self.length_sd_m**-2]])
        prior = expected[: n + 1]
        for _ in range(self.rounds):
            rows, error = self._residuals(state, line.points_m)
            normal = np.diag(weight) + rows.T @ rows / self.point_sd_m**2
            pull = weight * (prior - state[: n + 1]) - rows.T @ error / self.point_sd_m**2
            state[: n + 1] += np.linalg.solve(normal, pull)
            state[n] = np.clip(state[n], 0.5 * lay.link_m, lay.longest_m)
        return state

    def _residuals(self, state: Floats, seen: Floats) -> tuple[Floats, Floats]:
        """(Jacobian (R, N + 1), errors (R,) [m]): distances of the curve from the points, and both coordinates of the tip."""
        n, size = self.layout.links, self.layout.link_m
        start, direction, part = self.layout.joints(state)
        inner = seen[:-1]
        offset = inner[:, None] - start[None]
        along = np.clip(np.einsum("pnk,nk->pn", offset, direction), 0.0, part)
        away = np.linalg.norm(offset - along[..., None] * direction, axis=2)
        owner = np.argmin(np.where(part > 0.0, away, np.inf), axis=1)
        index = np.arange(len(inner))
        foot = start[owner] + along[index, owner][:, None] * direction[owner]
        across = np.stack([-direction[owner, 1], direction[owner, 0]], axis=1)
        last = int(np.max(np.flatnonzero(part > 0.0), initial=0))
        tip = start[last] + part[last] * direction[last]
        spots = np.concatenate([foot, tip[None], tip[None]])
        owners = np.concatenate([owner, [last, last]])
        normals = np.concatenate([across, np.eye(2)])
        errors = np.einsum("rk,rk->r", spots - np.concatenate([inner, seen[-1:], seen[-1:]]), normals)
        arm = spots[:, None] - start[None]
        rows = np.zeros((len(spots), n + 1))
        turned = arm[..., 0] * normals[:, None, 1] - arm[..., 1] * normals[:, None, 0]
        rows[:, :n] = np.where(np.arange(n) <= owners[:, None], turned, 0.0)
        rows[-2:, n] = direction[last] if state[n] < n * size else 0.0
        return rows, errors
