"""One control frame of one robot: as many substeps as its accuracy asks for."""

from __future__ import annotations

import numpy as np

from sim.vine.kernels import apart, inner
from sim.vine.kernels.laws import RADIUS
from sim.vine.kernels.step import joint_error, penetration, substep
from sim.vine.kernels.work import BASE_HEADING, BASE_X, BASE_Y, COARSE, CURVATURE, PRESSURE, RATE, UNCONVERGED


@inner
def copy_state(n, q, v, to_q, to_v):
    for i in range(n):
        for k in range(3):
            to_q[i, k], to_v[i, k] = q[i, k], v[i, k]


@inner
def base_at(base, control, part):
    """The base's pose a `part` of the way from where it was to the frame's target."""
    return (
        base[0] + part * (control[BASE_X] - base[0]),
        base[1] + part * (control[BASE_Y] - base[1]),
        base[2] + part * (control[BASE_HEADING] - base[2]),
    )


@inner
def run_frame(work, world, robot, q, v, n, start_q, start_v, start_n, base, control, p, cfg, substeps):
    """Runs a frame in `substeps` steps from the start; returns (links, iterations, status, rows of the last step)."""
    apart()
    copy_state(start_n, start_q, start_v, q, v)
    n, total, status, rows = start_n, 0, 0, 0
    h = cfg.dt / substeps
    turn = (control[BASE_HEADING] - base[2]) / cfg.dt
    for k in range(substeps):
        at = base_at(base, control, (k + 1.0) / substeps)
        n, iterations, more, rows, _ = substep(
            work, world, robot, q, v, n, control[RATE], control[PRESSURE], at, turn, control[CURVATURE], p, cfg, h
        )
        total += iterations
        status |= more
    return n, total, status, rows


@inner
def adaptive_frame(work, world, robot, q, v, n, start_q, start_v, start_n, base, control, p, cfg):
    """A frame, redone with 2, 4, ... substeps while joints or contacts miss their tolerance.

    Returns (links, substeps, iterations, status, rows, joint error, penetration).
    """
    apart()
    substeps, total = np.int64(1), 0  # not a literal: one compiled variant serves all counts
    while True:
        n, iterations, status, rows = run_frame(
            work, world, robot, q, v, n, start_q, start_v, start_n, base, control, p, cfg, substeps
        )
        total += iterations
        error = joint_error(q, n, base_at(base, control, 1.0), cfg.half)
        depth = penetration(work, world, robot, q, n, cfg, p[RADIUS])
        good = error <= cfg.joint_tolerance and depth <= cfg.penetration_tolerance
        if (good and not status & UNCONVERGED) or 2 * substeps > cfg.max_substeps:
            if not good and cfg.max_substeps > 1:
                status |= COARSE
            return n, substeps, total, status, rows, error, depth
        substeps *= 2
