"""The loss of a block's inverse kinematics, with its Gauss-Newton matrix.

Unknowns are, per segment, (rho, cx, cy): extension and curvature scaled to the sections' coordinates. The loss is the
paper's target loss (V-B: normal distance, tangential distance, normal angle, rotation) at one link, closure at the
block's far anchor, the deformation cost, and a hinge that keeps links and segment middles off the solids (ours).
"""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.compiled import jit, zero1, zero2
from onboard.planning.contact.kinematics import chain, segment, segment_jacobian
from onboard.planning.contact.scene import distance_gradient

ROTATION_LEVER_M = 0.1  # turns a closure angle into a length
CLEARANCE_M = 0.002  # beyond what the collision rule asks


@jit
def to_unit(body, shape, unit):  # type: ignore[no-untyped-def]
    """(L, kx, ky) rows -> (rho, cx, cy) rows."""
    for i in range(shape.shape[0]):
        unit[i, 0] = (shape[i, 0] - body.length_min) / body.length_span
        unit[i, 1], unit[i, 2] = shape[i, 1] / body.curvature, shape[i, 2] / body.curvature


@jit
def from_unit(body, unit, shape):  # type: ignore[no-untyped-def]
    """(rho, cx, cy) rows -> (L, kx, ky) rows."""
    for i in range(unit.shape[0]):
        shape[i, 0] = body.length_min + body.length_span * unit[i, 0]
        shape[i, 1], shape[i, 2] = unit[i, 1] * body.curvature, unit[i, 2] * body.curvature


@jit
def world_columns(body, frames, shape, place, turn):  # type: ignore[no-untyped-def]
    """Per segment, derivatives of its end's position and rotation in world axes by (rho, cx, cy): (n, 3, 3) each."""
    dp, dr = np.empty((3, 3)), np.empty((3, 3))
    for i in range(shape.shape[0]):
        segment_jacobian(shape[i, 0], shape[i, 1], shape[i, 2], dp, dr)
        start, end = frames[i], frames[i + 1]
        for j in range(3):
            scale = body.length_span if j == 0 else body.curvature
            for k in range(3):
                place[i, k, j] = scale * (start[k, 0] * dp[0, j] + start[k, 1] * dp[1, j] + start[k, 2] * dp[2, j])
                turn[i, k, j] = scale * (end[k, 0] * dr[0, j] + end[k, 1] * dr[1, j] + end[k, 2] * dr[2, j])


@jit
def point_jacobian(frames, place, turn, count, px, py, pz, out):  # type: ignore[no-untyped-def]
    """Jacobian (3, >= 3 count) of a point fixed to the end of segment count - 1."""
    for i in range(count):
        ax, ay, az = px - frames[i + 1, 0, 3], py - frames[i + 1, 1, 3], pz - frames[i + 1, 2, 3]
        for j in range(3):
            rx, ry, rz = turn[i, 0, j], turn[i, 1, j], turn[i, 2, j]
            out[0, 3 * i + j] = place[i, 0, j] + ry * az - rz * ay
            out[1, 3 * i + j] = place[i, 1, j] + rz * ax - rx * az
            out[2, 3 * i + j] = place[i, 2, j] + rx * ay - ry * ax


@jit
def _add(hessian, gradient, row, size, residual):  # type: ignore[no-untyped-def]
    for i in range(size):
        v = row[i]
        if v != 0.0:
            gradient[i] += v * residual
            for j in range(i + 1):
                hessian[i, j] += v * row[j]


@jit
def _vector_rows(hessian, gradient, jac, size, x, y, z, weight, residual, row):  # type: ignore[no-untyped-def]
    for i in range(size):
        row[i] = weight * (x * jac[0, i] + y * jac[1, i] + z * jac[2, i])
    _add(hessian, gradient, row, size, weight * residual)
    return 0.5 * weight * weight * residual * residual


@jit
def rotation_error(now, wanted, error):  # type: ignore[no-untyped-def]
    """Half the sum of crossed axes, sin(angle) times the axis that turns `wanted` into `now` (world), into (3,)."""
    zero1(error)
    for k in range(3):
        error[0] += 0.5 * (wanted[1, k] * now[2, k] - wanted[2, k] * now[1, k])
        error[1] += 0.5 * (wanted[2, k] * now[0, k] - wanted[0, k] * now[2, k])
        error[2] += 0.5 * (wanted[0, k] * now[1, k] - wanted[1, k] * now[0, k])


@jit
def _deformation(body, weights, unit, shape, i, hessian, gradient, row):  # type: ignore[no-untyped-def]
    """Cost of one segment's bending angle squared and, linearly, of its extension; adds to matrix and gradient."""
    cost = weights.deformation**2 * weights.extension * unit[i, 0]
    gradient[3 * i] += weights.deformation**2 * weights.extension
    for j in range(3 * i):
        row[j] = 0.0
    for j in range(1, 3):
        angle = shape[i, j] * shape[i, 0]
        row[3 * i], row[3 * i + 1], row[3 * i + 2] = weights.deformation * shape[i, j] * body.length_span, 0.0, 0.0
        row[3 * i + j] = weights.deformation * shape[i, 0] * body.curvature
        _add(hessian, gradient, row, 3 * i + 3, weights.deformation * angle)
        cost += 0.5 * (weights.deformation * angle) ** 2
    return cost


@jit
def block_loss(  # type: ignore[no-untyped-def]
    body, weights, solids, root, unit, link, target, closed, closure, shape, frames, hessian, gradient, work
):
    """Loss at `unit`, with Gauss-Newton matrix (lower half) and gradient; frames (n + 1, 3, 4) are left behind."""
    place, turn, jac, row, half, error, square, spare = work
    n = unit.shape[0]
    size = 3 * n
    zero2(hessian)
    zero1(gradient)
    from_unit(body, unit, shape)
    chain(root, shape, frames)
    world_columns(body, frames, shape, place, turn)
    cost = 0.0
    if link > 0:
        f = frames[link]
        px, py, pz = f[0, 3], f[1, 3], f[2, 3]
        reach = 3 * link
        point_jacobian(frames, place, turn, link, px, py, pz, jac)
        ex, ey, ez = px - target[0, 3], py - target[1, 3], pz - target[2, 3]
        for k in range(3):  # target axes: 0 is the normal, 1 and 2 span the tangent plane
            weight = weights.normal if k == 0 else weights.tangent
            x, y, z = target[0, k], target[1, k], target[2, k]
            along = x * ex + y * ey + z * ez
            cost += _vector_rows(hessian, gradient, jac, reach, x, y, z, weight, along, row)
        for i in range(link):
            for j in range(3):
                for k in range(3):
                    jac[k, 3 * i + j] = turn[i, k, j]
        for axis in (0, 2):  # pad normal to the surface normal; body axis to the target's
            weight = weights.tilt if axis == 0 else weights.rotation
            ux, uy, uz = f[0, axis], f[1, axis], f[2, axis]
            for k in range(3):
                residual = f[k, axis] - target[k, axis]
                # d(axis) = rotation x axis, component k
                if k == 0:
                    cost += _vector_rows(hessian, gradient, jac, reach, 0.0, uz, -uy, weight, residual, row)
                elif k == 1:
                    cost += _vector_rows(hessian, gradient, jac, reach, -uz, 0.0, ux, weight, residual, row)
                else:
                    cost += _vector_rows(hessian, gradient, jac, reach, uy, -ux, 0.0, weight, residual, row)
    if closed:
        f = frames[n]
        point_jacobian(frames, place, turn, n, f[0, 3], f[1, 3], f[2, 3], jac)
        for k in range(3):
            x, y, z = (1.0 if k == 0 else 0.0), (1.0 if k == 1 else 0.0), (1.0 if k == 2 else 0.0)
            cost += _vector_rows(hessian, gradient, jac, size, x, y, z, weights.closure, f[k, 3] - closure[k, 3], row)
        rotation_error(f, closure, error)
        for k in range(3):
            for i in range(n):
                for j in range(3):
                    row[3 * i + j] = weights.closure * ROTATION_LEVER_M * turn[i, k, j]
            residual = weights.closure * ROTATION_LEVER_M * error[k]
            _add(hessian, gradient, row, size, residual)
            cost += 0.5 * residual * residual
    for i in range(n):
        cost += _deformation(body, weights, unit, shape, i, hessian, gradient, row)
        last = n if not closed else n - 1
        if i + 1 <= last:  # a free link: its pad, too, must stay off
            f = frames[i + 1]
            keep = body.pad_offset - 0.5 * body.collision
            d, gx, gy, gz = distance_gradient(solids, f[0, 3], f[1, 3], f[2, 3])
            if d < keep:
                point_jacobian(frames, place, turn, i + 1, f[0, 3], f[1, 3], f[2, 3], jac)
                cost += _vector_rows(hessian, gradient, jac, 3 * (i + 1), gx, gy, gz, weights.clearance, d - keep, row)
        segment(0.5 * shape[i, 0], shape[i, 1], shape[i, 2], half)
        f = frames[i]
        px = f[0, 0] * half[0, 3] + f[0, 1] * half[1, 3] + f[0, 2] * half[2, 3] + f[0, 3]
        py = f[1, 0] * half[0, 3] + f[1, 1] * half[1, 3] + f[1, 2] * half[2, 3] + f[1, 3]
        pz = f[2, 0] * half[0, 3] + f[2, 1] * half[1, 3] + f[2, 2] * half[2, 3] + f[2, 3]
        keep = body.segment_radius - body.collision + CLEARANCE_M
        d, gx, gy, gz = distance_gradient(solids, px, py, pz)
        if d < keep:
            point_jacobian(frames, place, turn, i, px, py, pz, jac)
            segment_jacobian(0.5 * shape[i, 0], shape[i, 1], shape[i, 2], square, spare)
            for j in range(3):
                scale = 0.5 * body.length_span if j == 0 else body.curvature
                for k in range(3):
                    jac[k, 3 * i + j] = scale * (f[k, 0] * square[0, j] + f[k, 1] * square[1, j] + f[k, 2] * square[2, j])
            cost += _vector_rows(hessian, gradient, jac, 3 * (i + 1), gx, gy, gz, weights.clearance, d - keep, row)
    return cost
