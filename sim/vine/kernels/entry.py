"""Entry point: a whole rollout of some robots of a batch; cached on disk.

It releases the interpreter's lock, so ordinary threads share a batch: no thread pool of the compiler's is involved.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from sim.vine.kernels import columns as col
from sim.vine.kernels import source_digest
from sim.vine.kernels.frame import adaptive_frame, copy_state
from sim.vine.kernels.work import BASE_X, make_work

ENTRY: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": {"contract"}}

TAPE_ROWS = 64  # contact rows a tape keeps a frame; a frame with more is solved again in reverse


def _build(digest: str) -> Any:
    @numba.njit(**ENTRY)
    def forward(begin, end, q, v, n, base, controls, params, world, cfg, keep, taped, out, tape):
        """Rolls robots begin to end - 1 through all frames; q, v, n, base are updated in place.

        out: (Q, V, links, status, iterations, substeps, joint error, penetration), each with frames first; Q, V and
        links hold the state after each frame when `keep`. tape: (lam, rows' z and weight, row count).
        """
        len(digest)  # part of the cache key
        frames, links = controls.shape[0], q.shape[1]
        work = make_work(links)
        for b in range(begin, end):
            start_q, start_v = np.zeros((links, 3)), np.zeros((links, 3))
            for t in range(frames):
                copy_state(n[b], q[b], v[b], start_q, start_v)
                count, substeps, iterations, status, rows, error, depth = adaptive_frame(
                    work, world, b, q[b], v[b], n[b], start_q, start_v, n[b], base[b], controls[t, b], params[b], cfg
                )
                n[b] = count
                for k in range(3):
                    base[b, k] = controls[t, b, BASE_X + k]
                out[3][t, b], out[4][t, b], out[5][t, b] = status, iterations, substeps
                out[6][t, b], out[7][t, b] = error, depth
                if keep:
                    copy_state(count, q[b], v[b], out[0][t, b], out[1][t, b])
                    out[2][t, b] = count
                if taped:
                    tape[2][t, b] = rows if substeps == 1 and rows <= TAPE_ROWS else -1
                    if tape[2][t, b] >= 0:
                        for i in range(count):
                            for k in range(3):
                                tape[0][t, b, i, k] = work.link[i, col.LAM + k]
                        for r in range(rows):
                            tape[1][t, b, r, 0], tape[1][t, b, r, 1] = work.row[r, col.Z], work.row[r, col.WEIGHT]

    return forward


forward = _build(source_digest("reverse.py", "adjoint.py"))
