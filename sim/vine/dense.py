"""Slow, dense, independent statements of one step's program, to check the fast solver with a trusted one.

`step_program` is this simulator's own formulation (linear bending), `paper_program` the formulation of
arXiv 2501.17963, section IV, word for word in SI units. Both are written from the equations, without the kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.vine.robot import Robot, VineError
from sim.vine.scene import Obstacle
from sim.vine.state import Options, State

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Program:
    """Minimise 1/2 x'Px + f'x with A x = b and G x >= e; the first 3 n numbers of x are the next velocity."""

    p: Array
    f: Array
    a: Array
    b: Array
    g: Array
    e: Array
    links: int

    def solve(self) -> Array:
        """The next velocity (n, 3) by Clarabel; VineError when it finds no solution."""
        import clarabel
        from scipy import sparse

        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
        rows = np.vstack([self.a, -self.g])
        right = np.concatenate([self.b, -self.e])
        cones = [clarabel.ZeroConeT(len(self.b)), clarabel.NonnegativeConeT(len(self.e))]
        scale = 1.0 / np.abs(np.diag(self.p)[: 3 * self.links : 3]).max()
        solver = clarabel.DefaultSolver(
            sparse.csc_matrix(np.triu(self.p) * scale),
            self.f * scale,
            sparse.csc_matrix(rows),
            right,
            cones,
            settings,
        )
        found = solver.solve()
        if "Solved" not in str(found.status):
            raise VineError(f"Clarabel: {found.status}")
        return np.array(found.x)[: 3 * self.links].reshape(-1, 3)


def _nearest(obstacle: Obstacle, point: Array) -> tuple[float, Array]:
    """(signed distance, unit normal towards the point) by looking at every edge."""
    corners = obstacle.corners
    best, normal, inside = math.inf, np.zeros(2), len(corners) > 2
    for k in range(len(corners)):
        s, e = corners[k], corners[(k + 1) % len(corners)]
        length = float((e - s) @ (e - s))
        part = min(max(float((point - s) @ (e - s)) / length, 0.0), 1.0) if length > 0 else 0.0
        away = point - s - part * (e - s)
        if np.hypot(*away) < best:
            best = float(np.hypot(*away))
            normal = away / best
        if len(corners) > 2 and (e - s)[0] * (point - s)[1] - (e - s)[1] * (point - s)[0] < 0:
            inside = False
    if inside:
        best, normal = -best, -normal
    return best - obstacle.rounding_m, normal


def _contacts(state: State, obstacles: Any, robot: Robot, options: Options) -> tuple[Array, Array]:
    """Rows (K, 3 n) and gaps (K,) of all contacts within the margin."""
    n, half, q = int(state.links[0]), robot.half_length_m, state.q[0]
    rows, gaps = [], []
    front = q[n - 2, :2] + half * np.array([math.cos(q[n - 2, 2]), math.sin(q[n - 2, 2])])
    for i in range(n):
        t = np.array([math.cos(q[i, 2]), math.sin(q[i, 2])])
        across = np.array([-t[1], t[0]])
        tip = i == n - 1
        arm = 0.0 if tip or options.centre_discs else half
        back = float(t @ (q[i, :2] - front)) if tip else half
        for obstacle in obstacles:
            gap, normal = _nearest(obstacle, q[i, :2] + arm * t)
            found = [(gap - robot.radius_m, normal, arm * float(normal @ across))]
            if not options.centre_discs:
                for corner in obstacle.corners:
                    r = corner - q[i, :2]
                    if -back < r @ t < arm:
                        side = 1.0 if r @ across >= 0 else -1.0
                        gap = abs(float(r @ across)) - obstacle.rounding_m - robot.radius_m
                        found.append((gap, -side * across, -side * float(r @ t)))
            for gap, normal, turn in found:
                if gap < options.margin_m:
                    row = np.zeros(3 * n)
                    row[3 * i : 3 * i + 3] = *normal, turn
                    rows.append(row)
                    gaps.append(gap)
    return np.array(rows).reshape(-1, 3 * n), np.array(gaps)


def step_program(state: State, robot: Robot, obstacles: Any, options: Options, rate: float, pressure: float) -> Program:
    """This simulator's program for one robot (batch of one) with linear bending at rest base and curvature zero."""
    n, half, h, q, v = int(state.links[0]), robot.half_length_m, options.dt_s, state.q[0], state.v[0]
    t = np.stack([np.cos(q[:n, 2]), np.sin(q[:n, 2])], axis=1)
    m = np.stack([-t[:, 1], t[:, 0]], axis=1)
    joint = q[n - 2, :2] + half * t[n - 2]
    r = q[n - 1, :2] - joint
    extension = float(t[-1] @ r)
    share = np.ones(n)
    if options.growing_mass:
        share[-1] = min(max(extension / (2 * half), 0.1), 1.0)
    mass = np.repeat(share[:, None], 3, axis=1) * [robot.mass_kg, robot.mass_kg, robot.inertia_kg_m2]
    heft = mass + np.repeat(share[:, None], 3, axis=1) * [h * robot.drag_ns_m, h * robot.drag_ns_m, 0.0]
    p, f = np.diag(heft.ravel()), -(mass * v[:n]).ravel()
    hard, right = [], []
    for i in range(n):
        row = np.zeros(3 * n)
        row[3 * i + 2] = 1.0
        bent = q[i, 2] - (q[i - 1, 2] if i else state.base[0, 2])
        if i:
            row[3 * i - 1] = -1.0
        if options.implicit_bending:
            p += h * (h * robot.stiffness_nm + robot.damping_nms) * np.outer(row, row)
            f += h * robot.stiffness_nm * bent * row
        else:
            turn = float(row @ v[:n].ravel())
            f += h * (robot.stiffness_nm * bent + robot.damping_nms * turn) * row
        if i == n - 1:
            continue
        before = state.base[0, :2] if i == 0 else q[i - 1, :2] + half * t[i - 1]
        off = q[i, :2] - half * t[i] - before
        for k in range(2):
            row = np.zeros(3 * n)
            row[3 * i + k], row[3 * i + 2] = 1.0, -half * m[i, k]
            if i:
                row[3 * i - 3 + k], row[3 * i - 1] = -1.0, -half * m[i - 1, k]
            hard.append(row)
            right.append(-off[k] / h)
    relative = np.zeros((2, 3 * n))  # the tip's velocity less the joint's
    relative[:, 3 * n - 3 : 3 * n - 1] = np.eye(2)
    relative[:, 3 * n - 6 : 3 * n - 4] = -np.eye(2)
    relative[:, 3 * n - 4] = -half * m[n - 2]
    sideways, growth = m[-1] @ relative, t[-1] @ relative
    sideways[-1] -= extension
    growth[-1] += float(m[-1] @ r)
    hard.append(sideways)
    right.append(-float(m[-1] @ r) / h)
    if options.hard_growth:
        hard.append(growth)
        right.append(rate)
    else:
        weight = pressure * math.pi * robot.radius_m**2 * h / robot.top_rate_m_s
        p += weight * np.outer(growth, growth)
        f -= weight * rate * growth
    rows, gaps = _contacts(state, obstacles, robot, options)
    k = len(gaps)  # the contacts' compression is a variable of its own
    spring = options.contact_stiffness_n_m * h * h
    whole = np.block([[p, np.zeros((3 * n, k))], [np.zeros((k, 3 * n)), spring * np.eye(k)]])
    return Program(
        whole,
        np.concatenate([f, np.zeros(k)]),
        np.hstack([np.array(hard), np.zeros((len(hard), k))]),
        np.array(right),
        np.hstack([rows, np.eye(k)]),
        -gaps / h,
        n,
    )


def paper_program(state: State, robot: Robot, obstacles: Any, rate: float, dt_s: float = 1 / 90) -> Program:
    """The paper's hard program: centre discs, explicit bending, atan2 angle row, growth along the centres' line."""
    options = Options.reference(dt_s=dt_s)
    own = step_program(state, robot, obstacles, options, rate, robot.pressure_pa)
    n, half, q = int(state.links[0]), robot.half_length_m, state.q[0]
    joint = q[n - 2, :2] + half * np.array([math.cos(q[n - 2, 2]), math.sin(q[n - 2, 2])])
    r = q[n - 1, :2] - joint
    length2 = float(r @ r)
    across = np.array([-r[1], r[0]]) / length2
    m_before = np.array([-math.sin(q[n - 2, 2]), math.cos(q[n - 2, 2])])
    angle = np.zeros(3 * n)  # d (theta - atan2 r)
    angle[3 * n - 3 : 3 * n - 1], angle[3 * n - 1] = -across, 1.0
    angle[3 * n - 6 : 3 * n - 4], angle[3 * n - 4] = across, half * float(across @ m_before)
    off = q[n - 1, 2] - math.atan2(r[1], r[0])
    off -= 2 * math.pi * round(off / (2 * math.pi))
    line = q[n - 1, :2] - q[n - 2, :2]
    line = line / np.hypot(*line)
    growth = np.zeros(3 * n)
    growth[3 * n - 3 : 3 * n - 1], growth[3 * n - 6 : 3 * n - 4] = line, -line
    rows = np.vstack([own.a[:-2, : 3 * n], angle, growth])
    right = np.concatenate([own.b[:-2], [-off / dt_s, rate]])
    return Program(
        own.p[: 3 * n, : 3 * n],
        own.f[: 3 * n],
        rows,
        right,
        own.g[:, : 3 * n],
        own.e,
        n,
    )
