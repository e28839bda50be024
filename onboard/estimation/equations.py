"""Normal equations of the joint estimate: strut lengths, measured directions, twist and bend priors and a warp per ring.

One module couples two discs. For a residual r that depends on the strut v = p2 - p1 through n = dr/dv, small motions of the
discs (position, then world rotation vector) change it by n . dq2 + (R2 b x n) . dw2 - n . dq1 - (R1 a x n) . dw1: the reference
page's gradient in world coordinates. The warp amplitude w of the upper ring (joint j shifted by saddle[j] w along the
disc's z) is a thirteenth unknown of the module and eliminated in it.
"""

from __future__ import annotations

import math

import numpy as np

from onboard.estimation.compiled import compiled
from onboard.estimation.so3 import inverse_left_jacobian, log_so3, relative, rotate
from onboard.messages import Floats

DIRECTION, INCLINATION = 0, 1
WARP = 12  # index of the warp among a module's 13 unknowns
# indices into the weights vector
W_LENGTH, W_TWIST, W_BEND, W_WARP, HUBER = 0, 1, 2, 3, 4
MIN_SINE = 0.05  # an inclination row of a strut this close to the vertical says nothing more


@compiled
def _robust(size: float, huber: float) -> float:
    """Weight of a residual of `size` standard deviations under Huber's loss."""
    return 1.0 if size <= huber else huber / size


@compiled
def _loss(size: float, huber: float) -> float:
    """Huber's loss."""
    return 0.5 * size * size if size <= huber else huber * (size - 0.5 * huber)


@compiled
def add_row(h: Floats, g: Floats, j: Floats, r: float, w: float) -> None:
    """Add a residual's row `j` (13,) with weight `w`: h += w j j^T (lower half), g += w r j."""
    for x in range(13):
        wj = w * j[x]
        g[x] += wj * r
        for y in range(x + 1):
            h[x, y] += wj * j[y]


@compiled
def set_row(
    j: Floats, nx: float, ny: float, nz: float, a: tuple[float, float, float], b: tuple[float, float, float], s: float
) -> None:
    """Row of a residual with gradient n = (nx, ny, nz) for turned joints `a`, `b` and warp sensitivity `s`."""
    j[0], j[1], j[2] = -nx, -ny, -nz
    j[3] = -(a[1] * nz - a[2] * ny)
    j[4] = -(a[2] * nx - a[0] * nz)
    j[5] = -(a[0] * ny - a[1] * nx)
    j[6], j[7], j[8] = nx, ny, nz
    j[9] = b[1] * nz - b[2] * ny
    j[10] = b[2] * nx - b[0] * nz
    j[11] = b[0] * ny - b[1] * nx
    j[12] = s


@compiled
def _priors(h: Floats, g: Floats, r1: Floats, r2: Floats, anchor: Floats, weight: Floats, j: Floats) -> float:
    """Twist and bend priors on log(R1^T R2) against `anchor` (3,); returns their share of the cost."""
    phi = log_so3(relative(r1, r2))
    inner = inverse_left_jacobian(phi)
    cost = 0.0
    for i in range(3):
        w = weight[W_TWIST] if i == 2 else weight[W_BEND]
        r = phi[i] - anchor[i]
        cost += 0.5 * w * r * r
        for x in range(13):
            j[x] = 0.0
        for x in range(3):
            j[9 + x] = inner[i, 0] * r1[x, 0] + inner[i, 1] * r1[x, 1] + inner[i, 2] * r1[x, 2]
            j[3 + x] = -j[9 + x]
        add_row(h, g, j, r, w)
    return cost


@compiled
def assemble(
    position: Floats,
    rotation: Floats,
    warp: Floats,
    lower_m: Floats,
    upper_m: Floats,
    length_m: Floats,
    saddle: Floats,
    direction: Floats,
    weight_incl: Floats,
    weight_az: Floats,
    trust: Floats,
    mode: int,
    weight: Floats,
    anchor: Floats,
    h: Floats,
    g: Floats,
    warp_row: Floats,
    residual: Floats,
) -> float:
    """Fill the normal equations of all discs at the given poses and return the cost (half a weighted sum of squares).

    position (M+1, 3), rotation (M+1, 3, 3), warp (M,); direction (MN, 3): measured, azimuth corrected; weight_incl and
    weight_az (MN,): 1/variance across the strut [1/rad^2]; trust (MN,): 0 for no reading, 1 for a good one, less to look at
    its residual only; anchor (M, 3): prior mean of log(R1^T R2). Out: h (6M, 6M) lower band, g (6M,) gradient, warp_row (M, 14):
    12 couplings, gradient and curvature of the warp, residual (MN, 2): in standard deviations, before the robust weight.
    """
    modules, n = length_m.shape
    h[:] = 0.0
    g[:] = 0.0
    cost = 0.0
    hl, gl, j = np.empty((13, 13)), np.empty(13), np.empty(13)
    for m in range(modules):
        hl[:] = 0.0
        gl[:] = 0.0
        r1, r2 = rotation[m], rotation[m + 1]
        for k in range(n):
            i = m * n + k
            a = rotate(r1, lower_m[m, k])
            sb = saddle[k] * warp[m]
            bx, by, bz = rotate(r2, upper_m[m, k])
            b = (bx + sb * r2[0, 2], by + sb * r2[1, 2], bz + sb * r2[2, 2])
            vx = position[m + 1, 0] + b[0] - position[m, 0] - a[0]
            vy = position[m + 1, 1] + b[1] - position[m, 1] - a[1]
            vz = position[m + 1, 2] + b[2] - position[m, 2] - a[2]
            dist = math.sqrt(vx * vx + vy * vy + vz * vz)
            ux, uy, uz = vx / dist, vy / dist, vz / dist
            sx, sy, sz = saddle[k] * r2[0, 2], saddle[k] * r2[1, 2], saddle[k] * r2[2, 2]
            r = dist - length_m[m, k]
            w = weight[W_LENGTH]
            cost += 0.5 * w * r * r
            set_row(j, ux, uy, uz, a, b, ux * sx + uy * sy + uz * sz)
            add_row(hl, gl, j, r, w)
            if trust[i] == 0.0:
                residual[i, 0] = residual[i, 1] = 0.0
                continue
            dx, dy, dz = direction[i, 0], direction[i, 1], direction[i, 2]
            sine = math.sqrt(dx * dx + dy * dy)
            if mode == INCLINATION:
                w = weight_incl[i] / max(sine, MIN_SINE) ** 2
                r = uz - dz
                z = r * math.sqrt(w)
                residual[i, 0], residual[i, 1] = z, 0.0
                size = abs(z)
                robust = trust[i] * _robust(size, weight[HUBER])
                cost += trust[i] * _loss(size, weight[HUBER])
                nx, ny, nz = -uz * ux / dist, -uz * uy / dist, (1.0 - uz * uz) / dist
                set_row(j, nx, ny, nz, a, b, nx * sx + ny * sy + nz * sz)
                add_row(hl, gl, j, r, w * robust)
                continue
            # Tangent at the measured direction: azimuth (level) and inclination (towards the vertical); any pair when vertical.
            ax, ay = (-dy / sine, dx / sine) if sine > 1e-9 else (1.0, 0.0)
            ix, iy, iz = -ay * dz, ax * dz, ay * dx - ax * dy
            r_az = ax * ux + ay * uy
            r_in = ix * ux + iy * uy + iz * uz
            z_in, z_az = r_in * math.sqrt(weight_incl[i]), r_az * math.sqrt(weight_az[i])
            residual[i, 0], residual[i, 1] = z_in, z_az
            size = math.sqrt(z_in * z_in + z_az * z_az)
            robust = trust[i] * _robust(size, weight[HUBER])
            cost += trust[i] * _loss(size, weight[HUBER])
            nx, ny, nz = (ix - r_in * ux) / dist, (iy - r_in * uy) / dist, (iz - r_in * uz) / dist
            set_row(j, nx, ny, nz, a, b, nx * sx + ny * sy + nz * sz)
            add_row(hl, gl, j, r_in, weight_incl[i] * robust)
            nx, ny, nz = (ax - r_az * ux) / dist, (ay - r_az * uy) / dist, -r_az * uz / dist
            set_row(j, nx, ny, nz, a, b, nx * sx + ny * sy + nz * sz)
            add_row(hl, gl, j, r_az, weight_az[i] * robust)
        cost += _priors(hl, gl, r1, r2, anchor[m], weight, j)
        hl[WARP, WARP] += weight[W_WARP]
        gl[WARP] += weight[W_WARP] * warp[m]
        cost += 0.5 * weight[W_WARP] * warp[m] * warp[m]
        _scatter(m, hl, gl, h, g, warp_row)
    return cost


@compiled
def _scatter(m: int, hl: Floats, gl: Floats, h: Floats, g: Floats, warp_row: Floats) -> None:
    """Eliminate the module's warp (Schur complement) and add what is left to the tower's equations."""
    curvature = hl[WARP, WARP]
    for x in range(12):
        warp_row[m, x] = hl[WARP, x]
    warp_row[m, 12], warp_row[m, 13] = gl[WARP], curvature
    start = 6 * (m - 1)  # the fixed base has no unknowns: for m = 0 the first six of the module fall away
    for x in range(6 if m == 0 else 0, 12):
        share = hl[WARP, x] / curvature
        g[start + x] += gl[x] - share * gl[WARP]
        for y in range(6 if m == 0 else 0, x + 1):
            h[start + x, start + y] += hl[x, y] - share * hl[WARP, y]
