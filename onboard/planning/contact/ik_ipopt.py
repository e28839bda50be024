"""The same block problems through CasADi and IPOPT: a reference to compare with, imported only when asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from onboard.errors import MissingExtraError
from onboard.planning.contact.blocks import BlockProblem, BlockSolution
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.worm import WormSpec

ROTATION_LEVER_M = 0.1


class IpoptSolver:
    """Target, closure and deformation loss under the frozen sections, as a nonlinear program with exact derivatives.

    The clearance hinge of the planner's own solver is left out: compare on problems far from surfaces.
    """

    def __init__(self, spec: WormSpec) -> None:
        try:
            casadi: Any = import_module("casadi")
        except ImportError as error:
            raise MissingExtraError("the IPOPT reference solver", "ipopt") from error
        self._casadi, self._spec = casadi, spec
        self._built: dict[tuple[int, int, bool, int], Any] = {}

    def solve(self, problem: BlockProblem) -> BlockSolution:
        n, facets = problem.matrix.shape[:2]
        shape_key = (n, problem.link, problem.closure is not None, facets)
        if shape_key not in self._built:
            self._built[shape_key] = self._build(*shape_key)
        solver = self._built[shape_key]
        closure = problem.root if problem.closure is None else problem.closure
        parameters = np.concatenate(
            [problem.root.ravel(), problem.target.ravel(), closure.ravel(), problem.matrix.ravel(), problem.bound.ravel()]
        )
        segments = self._spec.segments
        span = segments.length_max_m - segments.length_min_m
        scale = np.array([span, segments.curvature_max_per_m, segments.curvature_max_per_m])
        offset = np.array([segments.length_min_m, 0.0, 0.0])
        result = solver(x0=((problem.start - offset) / scale).ravel(), p=parameters, lbg=-np.inf, ubg=0.0)
        shape = np.array(result["x"]).reshape(n, 3) * scale + offset
        frames = np.empty((n + 1, 3, 4))
        chain(problem.root, np.ascontiguousarray(shape), frames)
        return BlockSolution(shape, frames, float(result["f"]), int(solver.stats()["iter_count"]))

    def _build(self, n: int, link: int, closed: bool, facets: int) -> Any:
        ca, spec = self._casadi, self._spec
        unit = ca.SX.sym("unit", 3 * n)
        root, target, closure = ca.SX.sym("root", 12), ca.SX.sym("target", 12), ca.SX.sym("closure", 12)
        matrix, bound = ca.SX.sym("matrix", 3 * facets * n), ca.SX.sym("bound", facets * n)

        def frame(flat: Any) -> tuple[Any, Any]:
            full = ca.reshape(flat, 4, 3).T
            return full[:, :3], full[:, 3]

        segments, ik = spec.segments, spec.ik
        rotation, place = frame(root)
        aim, aim_place = frame(target)
        end, end_place = frame(closure)
        loss, limits = 0, []
        for i in range(n):
            rho, cx, cy = unit[3 * i], unit[3 * i + 1], unit[3 * i + 2]
            length = segments.length_min_m + (segments.length_max_m - segments.length_min_m) * rho
            wx, wy = segments.curvature_max_per_m * cx * length, segments.curvature_max_per_m * cy * length
            t2 = wx * wx + wy * wy + 1e-12  # keeps derivatives of the root finite at a straight segment
            t = ca.sqrt(t2)
            a, b = ca.sin(t) / t, (1 - ca.cos(t)) / t2
            skew = ca.vertcat(ca.horzcat(0, 0, wy), ca.horzcat(0, 0, -wx), ca.horzcat(-wy, wx, 0))
            place = place + rotation @ (length * ca.vertcat(b * wy, -b * wx, a))
            rotation = rotation @ (ca.SX.eye(3) + a * skew + b * skew @ skew)
            loss += ik.deformation * (spec.search.extension * rho + 0.5 * t2)
            section = ca.reshape(matrix[3 * facets * i : 3 * facets * (i + 1)], 3, facets).T
            limits.append(section @ ca.vertcat(rho, cx, cy) - bound[facets * i : facets * (i + 1)])
            if i + 1 == link:
                error = place - aim_place
                loss += 0.5 * ik.normal_distance * ca.dot(aim[:, 0], error) ** 2
                loss += 0.5 * ik.tangent_distance * (ca.dot(aim[:, 1], error) ** 2 + ca.dot(aim[:, 2], error) ** 2)
                loss += 0.5 * ik.normal_angle * ca.sumsqr(rotation[:, 0] - aim[:, 0])
                loss += 0.5 * ik.rotation * ca.sumsqr(rotation[:, 2] - aim[:, 2])
        if closed:
            turn = sum((ca.cross(end[:, k], rotation[:, k]) for k in range(3)), ca.SX.zeros(3)) / 2
            loss += 0.5 * ik.closure * (ca.sumsqr(place - end_place) + ROTATION_LEVER_M**2 * ca.sumsqr(turn))
        problem = {
            "x": unit, "f": loss, "g": ca.vertcat(*limits), "p": ca.vertcat(root, target, closure, matrix, bound),
        }  # fmt: skip
        options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "max_iter": ik.max_iterations}}
        return ca.nlpsol("block", "ipopt", problem, options)
