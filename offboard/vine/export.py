"""One idea: the quasi-static vine as one ONNX file: a Scan over the horizon, a tile of samples, obstacles as a grid of distances.

The same formulas as quasi_static.py, which the tests hold it to; written by hand so that every array has two or three small
axes and no loop but the Scan is left.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from offboard.vine.graph import Graph, value
from offboard.vine.quasi_static import CONTACTS, FRAMES, LENGTHS, SOFT, SWEEPS, Constants

OPSET = 17
IR = 8


def _chain(g: Graph, a: str, length: str, con: Constants) -> tuple[str, str, str, str, str]:
    """(part, cos, sin, joint x, joint y), all (M, N)."""
    n = con.links
    heading = g.matmul(a, g.const(np.triu(np.ones((n, n)))))
    part = g.clip(g.sub(length, g.const(con.link * np.arange(n)[None])), 0.0, con.link)
    cos, sin = g.op("Cos", heading), g.op("Sin", heading)
    before = g.const(np.triu(np.ones((n, n)), 1))
    return part, cos, sin, g.matmul(g.mul(part, cos), before), g.matmul(g.mul(part, sin), before)


def _contacts(g: Graph, chain: tuple[str, str, str, str, str], length: str, con: Constants) -> tuple[str, str]:
    """(rows (M, C, N + 1), gaps (M, C)) of the nearest discs."""
    n, half = con.links, 0.5 * con.link
    part, cos, sin, jx, jy = chain
    middle = g.op("Min", part, g.const(half))
    px = g.join(g.add(jx, g.mul(middle, cos)), g.add(jx, g.mul(part, cos)))
    py = g.join(g.add(jy, g.mul(middle, sin)), g.add(jy, g.mul(part, sin)))
    begin = np.concatenate([con.link * np.arange(n), con.link * np.arange(n) + half])[None]
    alive = g.op("Less", g.const(begin), length)
    tip = g.op("And", alive, g.op("LessOrEqual", length, g.const(begin + half)))
    spots = g.op("Concat", g.wide(px, 2), g.wide(py, 2), axis=2)
    place = g.sub(g.mul(g.sub(spots, "origin"), "scale"), g.const(1.0))
    seen = g.op("GridSample", "field_1", g.wide(place, 0), mode="bilinear", padding_mode="border", align_corners=1)
    seen = g.op("Squeeze", g.op("Transpose", seen, perm=[0, 2, 3, 1]), g.ints(0))  # (M, 2 N, 3)
    distance = g.op("Squeeze", g.columns(seen, 0, 1, 2), g.ints(2))
    gap = g.op("Where", alive, g.sub(distance, g.const(con.radius)), g.const(1.0))
    _, order = g.op("TopK", gap, g.ints(CONTACTS), outputs=2, axis=1, largest=0, sorted=1)
    ahead = g.op("Concat", g.wide(g.join(cos, cos), 2), g.wide(g.join(sin, sin), 2), axis=2)
    all_of = g.op("Concat", spots, seen, g.wide(gap, 2), g.wide(g.op("Cast", tip, to=1), 2), ahead, axis=2)
    near = g.op("GatherND", all_of, g.wide(order, 2), batch_dims=1)  # (M, C, 9)
    sx, sy, _, gx, gy, gap, is_tip, tx, ty = (g.columns(near, k, k + 1, 2) for k in range(9))
    size = g.op("Sqrt", g.add(g.add(g.mul(gx, gx), g.mul(gy, gy)), g.const(1e-12)))
    nx, ny = g.div(gx, size), g.div(gy, size)
    rows = g.sub(g.mul(g.sub(sx, g.wide(jx, 1)), ny), g.mul(g.sub(sy, g.wide(jy, 1)), nx))
    owned = np.arange(n)[None] <= np.concatenate([np.arange(n), np.arange(n)])[:, None]
    rows = g.mul(rows, g.op("Gather", g.const(owned), order))
    grow = g.mul(is_tip, g.add(g.mul(nx, tx), g.mul(ny, ty)))
    return g.op("Concat", rows, grow, axis=2), g.op("Squeeze", gap, g.ints(2))


def _push(g: Graph, matrix: str, target: str) -> str:
    """Contact pushes (M, C, 1) of the dual problem by accelerated projected gradient, max(0, (1 - S A) p - S target)."""
    size = g.op("Reciprocal", g.op("ReduceSum", g.op("Abs", matrix), g.ints(2), keepdims=1))
    keep, less = g.sub(g.const(np.eye(CONTACTS)[None]), g.mul(matrix, size)), g.mul(target, size)
    now, old = str(g.op("Relu", g.op("Neg", less))), ""
    for sweep in range(1, SWEEPS):
        share = sweep / (sweep + 3.0)
        moved = g.mul(now, g.const(1.0 + share))
        if old:
            moved = g.sub(moved, g.mul(old, g.const(share)))
        old = now
        now = g.op("Relu", g.sub(g.matmul(keep, moved), less))
    return now


def _step(con: Constants, tile: int) -> onnx.GraphProto:
    """One time step as the body of the Scan: state, control -> state, the same as a row."""
    g, n = Graph("s"), con.links
    a, length = g.columns("state", 0, n), g.columns("state", n, n + 1)
    base = g.columns("state", n + 1, n + 3)
    reach = g.const(con.slew[None] * con.dt)
    moved = g.op("Min", g.op("Max", g.sub(g.columns("control", 1, 3), base), g.op("Neg", reach)), reach)
    later = g.add(base, moved)
    chain = _chain(g, a, length, con)
    limit = np.full((1, n), con.link)
    limit[0, 0] = 0.5 * con.link
    first = np.zeros((1, n))
    first[0, 0] = 1.0
    rest = g.mul(g.columns(later, 1, 2), g.op("Min", chain[0], g.const(limit)))
    rest = g.add(rest, g.mul(g.columns(later, 0, 1), g.const(first)))
    torque = g.mul(g.sub(rest, a), g.const(con.k[None]))
    torque = g.add(torque, g.mul(g.columns(moved, 0, 1), g.const(first * con.c[0] / con.dt)))
    torque = g.wide(g.join(torque, g.mul(g.columns("control", 0, 1), g.const(con.weight))), 2)
    row = g.op("Round", g.clip(g.mul(length, g.const((LENGTHS - 1) / (n * con.link))), 0.0, LENGTHS - 1.0))
    row = g.op("Squeeze", g.op("Cast", row, to=7), g.ints(1))
    mobility = g.op("Gather", g.const(con.mobility), row)
    free = g.matmul(mobility, torque)
    jac, gap = _contacts(g, chain, length, con)
    spread = g.matmul(jac, mobility)
    matrix = g.matmul(spread, g.op("Transpose", jac, perm=[0, 2, 1]))
    eye = g.const(np.eye(CONTACTS)[None])
    trace = g.op("ReduceSum", g.mul(matrix, eye), g.ints(2), keepdims=1)  # (M, C, 1): its own diagonal
    matrix = g.add(matrix, g.mul(eye, g.add(g.mul(trace, g.const(SOFT)), g.const(1e-9))))
    target = g.add(g.mul(g.wide(gap, 2), g.const(1.0 / con.dt)), g.matmul(jac, free))
    push = _push(g, matrix, target)
    rate = g.add(free, g.matmul(g.op("Transpose", spread, perm=[0, 2, 1]), push))
    rate = g.mul(g.op("Squeeze", rate, g.ints(2)), g.const(con.dt))
    longer = g.clip(g.add(length, g.op("Relu", g.columns(rate, n, n + 1))), 0.0, n * con.link)
    after = g.join(g.add(a, g.columns(rate, 0, n)), longer, later)
    g.named(after, "state_next")
    g.named(after, "state_row")
    shape = [tile, con.size]
    return helper.make_graph(
        g.nodes,
        "step",
        [value("state", shape), value("control", [tile, 3])],
        [value("state_next", shape), value("state_row", shape)],
        initializer=g.constants,
    )


def ports(con: Constants, tile: int, steps: int, cells: tuple[int, int]) -> dict[str, tuple[list[int], str]]:
    """Inputs by name: shape and unit, in order."""
    return {
        "start": ([1, con.size], "rad, m, rad, 1/m"),
        "controls": ([steps, tile, 3], "m/s, rad, 1/m"),
        "field": ([3, *cells], "m, 1, 1"),
        "origin": ([1, 1, 2], "m"),
        "scale": ([1, 1, 2], "1/m"),
    }


def build_onnx(con: Constants, tile: int, steps: int, cells: tuple[int, int]) -> bytes:
    """The whole rollout: one start state, controls (T, M, 3), the field -> states (T, M, N + 3) after each step."""
    g = Graph("g")
    nodes_in = ports(con, tile, steps, cells)
    begin = g.op("Expand", "start", g.ints(tile, con.size))
    g.nodes.append(helper.make_node("Unsqueeze", ["field", g.ints(0)], ["field_1"]))
    g.nodes.append(helper.make_node("Scan", [begin, "controls"], ["end", "states"], body=_step(con, tile), num_scan_inputs=1))
    graph = helper.make_graph(
        g.nodes,
        "rollout",
        [value(name, shape) for name, (shape, _) in nodes_in.items()],
        [value("states", [steps, tile, con.size])],
        initializer=g.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


STEP_S = FRAMES / 90
