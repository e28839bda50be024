"""How certain fitted values are: every tracked point's sensitivity to the unknowns, and the noise left over."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from offboard.vine.problem import Problem
from offboard.vine.shape import centre_line, lie_on, places

Array = NDArray[np.float64]


def sensitivities(problem: Problem, packed: Array) -> tuple[Array, float]:
    """How tracked points move per unit of each unknown (M, unknowns) [m], and the noise variance [m^2].

    A point counts by its motion across the line, a frame's last point by its whole motion.
    """
    unknowns = problem.unpack(packed)
    frames = problem.frames(10**6)
    run, robot = problem.simulate(unknowns, frames, tape=False)
    here = problem.matches(run, unknowns)
    spots = [places(q, run.links[f, k], robot.half_length_m, target) for k, _, f, _, q, target in here]
    seen = [np.arange(t.points.shape[1]) < t.counts[:, None] for *_, t in here]
    off = np.concatenate([offset[mask] for (_, _, offset), mask in zip(spots, seen, strict=True)])

    def moved(values: Array) -> list[Array]:
        other = problem.unpack(values)
        again, made = problem.simulate(other, frames, tape=False)
        out = []
        for (k, _, f, left, _, _), (arc, _, _) in zip(here, spots, strict=True):
            q = again.q[f, k] - left[:, None, None] * again.v[f, k]
            line, corners = centre_line(q, again.links[f, k], made.half_length_m)
            out.append(lie_on(line, corners, np.minimum(arc, 1e3)))
        return out

    columns = []
    for index in range(len(packed)):
        step = 1e-4
        there, back = packed.copy(), packed.copy()
        there[index] += step
        back[index] -= step
        column = []
        for ahead, behind, (arc, normal, _), mask in zip(moved(there), moved(back), spots, seen, strict=True):
            shift = (ahead - behind) / (2 * step)
            across = np.einsum("fkd,fkd->fk", shift, normal)
            along = shift[..., 0] * normal[..., 1] - shift[..., 1] * normal[..., 0]
            column.append(np.concatenate([across[mask], along[np.isinf(arc)]]))
        columns.append(np.concatenate(column))
    return np.stack(columns, axis=1), float(np.mean(off**2))


def uncertainties(problem: Problem, packed: Array) -> Array:
    """Approximate standard error of every packed unknown, from the points' sensitivities and the residual noise.

    Every tracked point counts as one independent measurement; what moves no point comes back as infinite.
    """
    moves, variance = sensitivities(problem, packed)
    values, vectors = np.linalg.eigh(moves.T @ moves)
    floor = 1e-12 * max(float(values.max()), 1e-300)
    seen = values > floor
    inverse = np.where(seen, variance / np.maximum(values, floor), 0.0)
    weight = vectors**2
    blind = np.any((weight > 1e-6) & ~seen, axis=1)
    return np.where(blind, np.inf, np.sqrt(weight @ inverse))
