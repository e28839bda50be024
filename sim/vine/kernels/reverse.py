"""Entry point of the reverse pass: gradients of a whole rollout, frame by frame from its end; cached on disk."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sim.vine.kernels import apart, inner, source_digest
from sim.vine.kernels import columns as col
from sim.vine.kernels.adjoint import BASE_TURN, STEP_INPUTS, substep_adjoint
from sim.vine.kernels.entry import ENTRY
from sim.vine.kernels.frame import base_at, copy_state
from sim.vine.kernels.step import substep
from sim.vine.kernels.work import BASE_HEADING, BASE_X, CURVATURE, PRESSURE, RATE, make_work


@inner
def frame_adjoint(work, world, robot, q, v, n, base, control, p, cfg, substeps, taped, many_q, many_v, gq, gv, gp, gc, gb):
    """Reverse of a frame from its start (q, v, n).

    With `taped` the single step's solution is in `work`; otherwise the frame is run again. many_q, many_v
    (S + 1, N, 3) are scratch. gc (6,), gb (3,): cotangents of the frame's control and of the base before it.
    """
    apart()
    h = cfg.dt / substeps
    turn = (control[BASE_HEADING] - base[2]) / cfg.dt
    inputs = work.extra[4 : 4 + STEP_INPUTS]
    if taped:
        copy_state(n, q, v, many_q[0], many_v[0])
    good = True
    for last in range(substeps - 1, -1, -1):
        here = before = n
        if not taped:  # substeps are few: run up to the one being reversed
            copy_state(n, q, v, many_q[0], many_v[0])
            for k in range(last + 1):
                copy_state(here, many_q[0], many_v[0], many_q[1], many_v[1])
                before = here
                here, _, _, _, _ = substep(
                    work,
                    world,
                    robot,
                    many_q[0],
                    many_v[0],
                    here,
                    control[RATE],
                    control[PRESSURE],
                    base_at(base, control, (k + 1.0) / substeps),
                    turn,
                    control[CURVATURE],
                    p,
                    cfg,
                    h,
                )
            copy_state(before, many_q[1], many_v[1], many_q[0], many_v[0])
            here = before
        for k in range(STEP_INPUTS):
            inputs[k] = 0.0
        part = (last + 1.0) / substeps
        good &= substep_adjoint(
            work,
            world,
            robot,
            many_q[0],
            many_v[0],
            here,
            control[RATE],
            control[PRESSURE],
            base_at(base, control, part),
            turn,
            control[CURVATURE],
            p,
            cfg,
            h,
            gq,
            gv,
            gp,
            inputs,
        )
        gc[RATE] += inputs[RATE]
        gc[PRESSURE] += inputs[PRESSURE]
        gc[CURVATURE] += inputs[CURVATURE]
        for k in range(3):
            gc[BASE_X + k] += part * inputs[BASE_X + k]
            gb[k] += (1.0 - part) * inputs[BASE_X + k]
        gc[BASE_HEADING] += inputs[BASE_TURN] / cfg.dt
        gb[2] -= inputs[BASE_TURN] / cfg.dt
    return good


def _build(digest: str) -> Any:
    @numba.njit(**ENTRY)
    def backward(begin, end, q0, v0, n0, base0, controls, params, world, cfg, out, tape, by_q, by_v, gq, gv, gb, gp, gc, good):
        """Reverse of `forward` for robots begin to end - 1, with kept states and tape.

        by_q, by_v (T, B, N, 3): cotangents of the states after each frame. gq, gv (B, N, 3), gb (B, 3), gp (B, P),
        gc (T, B, 6) receive the gradients.
        """
        len(digest)
        frames, links = controls.shape[0], q0.shape[1]
        work = make_work(links)
        many_q, many_v = np.zeros((2, links, 3)), np.zeros((2, links, 3))
        for b in range(begin, end):
            for t in range(frames - 1, -1, -1):
                after = out[2][t, b]
                for i in range(after):
                    for k in range(3):
                        gq[b, i, k] += by_q[t, b, i, k]
                        gv[b, i, k] += by_v[t, b, i, k]
                taped = tape[2][t, b] >= 0
                if taped:
                    for i in range(after):
                        for k in range(3):
                            work.link[i, col.LAM + k], work.link[i, col.SPEED + k] = tape[0][t, b, i, k], out[1][t, b, i, k]
                    for r in range(tape[2][t, b]):
                        work.row[r, col.Z], work.row[r, col.WEIGHT] = tape[1][t, b, r, 0], tape[1][t, b, r, 1]
                if t > 0:
                    q, v, n, base = out[0][t - 1, b], out[1][t - 1, b], out[2][t - 1, b], controls[t - 1, b, 2:5]
                else:
                    q, v, n, base = q0[b], v0[b], n0[b], base0[b]
                by_base = gc[t - 1, b, 2:5] if t > 0 else gb[b]
                good[b] &= frame_adjoint(
                    work,
                    world,
                    b,
                    q,
                    v,
                    n,
                    base,
                    controls[t, b],
                    params[b],
                    cfg,
                    out[5][t, b],
                    taped,
                    many_q,
                    many_v,
                    gq[b],
                    gv[b],
                    gp[b],
                    gc[t, b],
                    by_base,
                )

    return backward


backward = _build(source_digest())
