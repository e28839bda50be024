"""Factor and solve the chain's saddle-point system [H A'; A -C] in O(links).

H is block diagonal (3 x 3 a link: mass, drag and the weighted contact rows). Joint j ties link j to link j - 1 by three
rows: two velocities and the bending rate. The Schur complement A H^-1 A' + C is block tridiagonal with 3 x 3 blocks.
"""

from __future__ import annotations

import math

from sim.vine.kernels import apart, inner
from sim.vine.kernels import columns as col


@inner
def factor(work, n, per):
    """Factors with the rows' weights; `per` rows a contact. False if a pivot is not positive."""
    apart()
    u00 = u01 = u02 = u10 = u11 = u12 = u20 = u21 = u22 = 0.0  # V A' of the link before
    v00 = v01 = v02 = v11 = v12 = v22 = 0.0
    g00 = g10 = g11 = g20 = g21 = g22 = 0.0
    for j in range(n):
        h00 = work.link[j, col.HEFT]
        h11 = h00
        h22 = work.link[j, col.HEFT + 1]
        h01 = h02 = h12 = 0.0
        for r in range(work.first[j] * per, work.first[j + 1] * per):
            w = work.row[r, col.WEIGHT]
            if w != 0.0:
                a, b, c = work.row[r, col.ROW], work.row[r, col.ROW + 1], work.row[r, col.ROW + 2]
                h00 += w * a * a
                h01 += w * a * b
                h02 += w * a * c
                h11 += w * b * b
                h12 += w * b * c
                h22 += w * c * c
        d00 = d10 = d11 = d20 = d21 = d22 = 0.0
        if j > 0:  # Q = B V B' of the link before, B = [[1, 0, Yx], [0, 1, Yy], [0, 0, 1]]
            yx, yy = work.link[j - 1, col.FRONT], work.link[j - 1, col.FRONT + 1]
            w02, w12 = v02 + yx * v22, v12 + yy * v22
            d00 = v00 + yx * v02 + yx * w02
            d10 = v01 + yx * v12 + yy * w02
            d11 = v11 + yy * v12 + yy * w12
            d20, d21, d22 = w02, w12, v22
            # S(j, j-1) = -B U; L = S G^-T, row by row
            t00, t01, t02 = -(u00 + yx * u20), -(u01 + yx * u21), -(u02 + yx * u22)
            t10, t11, t12 = -(u10 + yy * u20), -(u11 + yy * u21), -(u12 + yy * u22)
            t20, t21, t22 = -u20, -u21, -u22
            t00 *= g00
            t10 *= g00
            t20 *= g00
            t01 = (t01 - t00 * g10) * g11
            t11 = (t11 - t10 * g10) * g11
            t21 = (t21 - t20 * g10) * g11
            t02 = (t02 - t00 * g20 - t01 * g21) * g22
            t12 = (t12 - t10 * g20 - t11 * g21) * g22
            t22 = (t22 - t20 * g20 - t21 * g21) * g22
            work.link[j, col.LOW], work.link[j, col.LOW + 1], work.link[j, col.LOW + 2] = t00, t01, t02
            work.link[j, col.LOW + 3], work.link[j, col.LOW + 4], work.link[j, col.LOW + 5] = t10, t11, t12
            work.link[j, col.LOW + 6], work.link[j, col.LOW + 7], work.link[j, col.LOW + 8] = t20, t21, t22
            d00 -= t00 * t00 + t01 * t01 + t02 * t02
            d10 -= t10 * t00 + t11 * t01 + t12 * t02
            d11 -= t10 * t10 + t11 * t11 + t12 * t12
            d20 -= t20 * t00 + t21 * t01 + t22 * t02
            d21 -= t20 * t10 + t21 * t11 + t22 * t12
            d22 -= t20 * t20 + t21 * t21 + t22 * t22
        # V = H^-1
        c00, c01, c02 = h11 * h22 - h12 * h12, h02 * h12 - h01 * h22, h01 * h12 - h02 * h11
        scale = 1.0 / (h00 * c00 + h01 * c01 + h02 * c02)
        v00, v01, v02 = c00 * scale, c01 * scale, c02 * scale
        v11, v12, v22 = (h00 * h22 - h02 * h02) * scale, (h01 * h02 - h00 * h12) * scale, (h00 * h11 - h01 * h01) * scale
        (
            work.link[j, col.INV],
            work.link[j, col.INV + 1],
            work.link[j, col.INV + 2],
            work.link[j, col.INV + 3],
            work.link[j, col.INV + 4],
            work.link[j, col.INV + 5],
        ) = v00, v01, v02, v11, v12, v22
        # U = V A', A = [[1, 0, -Xx], [0, 1, -Xy], [0, 0, 1]]; P = A U
        xx, xy = work.link[j, col.REAR], work.link[j, col.REAR + 1]
        u00, u01, u02 = v00 - xx * v02, v01 - xy * v02, v02
        u10, u11, u12 = v01 - xx * v12, v11 - xy * v12, v12
        u20, u21, u22 = v02 - xx * v22, v12 - xy * v22, v22
        d00 += u00 - xx * u20 + work.link[j, col.GIVE]
        d10 += u10 - xy * u20 + work.link[j, col.GIVE + 1]
        d11 += u11 - xy * u21 + work.link[j, col.GIVE + 2]
        d20 += u20
        d21 += u21
        d22 += u22 + work.link[j, col.GIVE + 3]
        if not d00 > 0.0:
            return False
        g00 = 1.0 / math.sqrt(d00)
        g10, g20 = d10 * g00, d20 * g00
        d11 -= g10 * g10
        if not d11 > 0.0:
            return False
        g11 = 1.0 / math.sqrt(d11)
        g21 = (d21 - g20 * g10) * g11
        d22 -= g20 * g20 + g21 * g21
        if not d22 > 0.0:
            return False
        g22 = 1.0 / math.sqrt(d22)
        (
            work.link[j, col.DIAG],
            work.link[j, col.DIAG + 1],
            work.link[j, col.DIAG + 2],
            work.link[j, col.DIAG + 3],
            work.link[j, col.DIAG + 4],
            work.link[j, col.DIAG + 5],
        ) = g00, g10, g11, g20, g21, g22
    return True


@inner
def solve(work, n, top, bottom, x, y):
    """Solves [H A'; A -C] (x, y) = (top, bottom) with the last factor; all are columns of work.link, three wide."""
    apart()
    p0 = p1 = p2 = 0.0  # V top of the link before
    y0 = y1 = y2 = 0.0
    for j in range(n):
        xx, xy = work.link[j, col.REAR], work.link[j, col.REAR + 1]
        r0, r1, r2 = work.link[j, top], work.link[j, top + 1], work.link[j, top + 2]
        e0 = work.link[j, col.INV] * r0 + work.link[j, col.INV + 1] * r1 + work.link[j, col.INV + 2] * r2
        e1 = work.link[j, col.INV + 1] * r0 + work.link[j, col.INV + 3] * r1 + work.link[j, col.INV + 4] * r2
        e2 = work.link[j, col.INV + 2] * r0 + work.link[j, col.INV + 4] * r1 + work.link[j, col.INV + 5] * r2
        s0, s1, s2 = e0 - xx * e2 - work.link[j, bottom], e1 - xy * e2 - work.link[j, bottom + 1], e2 - work.link[j, bottom + 2]
        if j > 0:
            s0 -= p0 + work.link[j - 1, col.FRONT] * p2
            s1 -= p1 + work.link[j - 1, col.FRONT + 1] * p2
            s2 -= p2
            s0 -= work.link[j, col.LOW] * y0 + work.link[j, col.LOW + 1] * y1 + work.link[j, col.LOW + 2] * y2
            s1 -= work.link[j, col.LOW + 3] * y0 + work.link[j, col.LOW + 4] * y1 + work.link[j, col.LOW + 5] * y2
            s2 -= work.link[j, col.LOW + 6] * y0 + work.link[j, col.LOW + 7] * y1 + work.link[j, col.LOW + 8] * y2
        y0 = s0 * work.link[j, col.DIAG]
        y1 = (s1 - work.link[j, col.DIAG + 1] * y0) * work.link[j, col.DIAG + 2]
        y2 = (s2 - work.link[j, col.DIAG + 3] * y0 - work.link[j, col.DIAG + 4] * y1) * work.link[j, col.DIAG + 5]
        work.link[j, y], work.link[j, y + 1], work.link[j, y + 2] = y0, y1, y2
        p0, p1, p2 = e0, e1, e2
    z0 = z1 = z2 = 0.0
    for j in range(n - 1, -1, -1):
        s0, s1, s2 = work.link[j, y], work.link[j, y + 1], work.link[j, y + 2]
        r0, r1, r2 = work.link[j, top], work.link[j, top + 1], work.link[j, top + 2]
        if j < n - 1:
            s0 -= work.link[j + 1, col.LOW] * z0 + work.link[j + 1, col.LOW + 3] * z1 + work.link[j + 1, col.LOW + 6] * z2
            s1 -= work.link[j + 1, col.LOW + 1] * z0 + work.link[j + 1, col.LOW + 4] * z1 + work.link[j + 1, col.LOW + 7] * z2
            s2 -= work.link[j + 1, col.LOW + 2] * z0 + work.link[j + 1, col.LOW + 5] * z1 + work.link[j + 1, col.LOW + 8] * z2
            # the joint ahead pulls on this link: - B' y(j+1)
            r0 += z0
            r1 += z1
            r2 += work.link[j, col.FRONT] * z0 + work.link[j, col.FRONT + 1] * z1 + z2
        z2 = s2 * work.link[j, col.DIAG + 5]
        z1 = (s1 - work.link[j, col.DIAG + 4] * z2) * work.link[j, col.DIAG + 2]
        z0 = (s0 - work.link[j, col.DIAG + 1] * z1 - work.link[j, col.DIAG + 3] * z2) * work.link[j, col.DIAG]
        work.link[j, y], work.link[j, y + 1], work.link[j, y + 2] = z0, z1, z2
        r0 -= z0
        r1 -= z1
        r2 -= z2 - work.link[j, col.REAR] * z0 - work.link[j, col.REAR + 1] * z1
        work.link[j, x] = work.link[j, col.INV] * r0 + work.link[j, col.INV + 1] * r1 + work.link[j, col.INV + 2] * r2
        work.link[j, x + 1] = work.link[j, col.INV + 1] * r0 + work.link[j, col.INV + 3] * r1 + work.link[j, col.INV + 4] * r2
        work.link[j, x + 2] = work.link[j, col.INV + 2] * r0 + work.link[j, col.INV + 4] * r1 + work.link[j, col.INV + 5] * r2


@inner
def solve_refined(work, n, per, top, bottom, x, y):
    """As `solve`, then once more for what is left over.

    Stiff contacts make H ill-conditioned, sticking ones most of all; a second solve brings back the lost digits.
    """
    apart()
    solve(work, n, top, bottom, x, y)
    for j in range(n):
        x0, x1, x2 = work.link[j, x], work.link[j, x + 1], work.link[j, x + 2]
        y0, y1, y2 = work.link[j, y], work.link[j, y + 1], work.link[j, y + 2]
        heft, turn = work.link[j, col.HEFT], work.link[j, col.HEFT + 1]
        xx, xy = work.link[j, col.REAR], work.link[j, col.REAR + 1]
        r0 = work.link[j, top] - heft * x0 - y0
        r1 = work.link[j, top + 1] - heft * x1 - y1
        r2 = work.link[j, top + 2] - turn * x2 - y2 + xx * y0 + xy * y1
        if j < n - 1:
            z0, z1, z2 = work.link[j + 1, y], work.link[j + 1, y + 1], work.link[j + 1, y + 2]
            r0 += z0
            r1 += z1
            r2 += work.link[j, col.FRONT] * z0 + work.link[j, col.FRONT + 1] * z1 + z2
        for r in range(work.first[j] * per, work.first[j + 1] * per):
            w = work.row[r, col.WEIGHT]
            if w != 0.0:
                a, b, c = work.row[r, col.ROW], work.row[r, col.ROW + 1], work.row[r, col.ROW + 2]
                pull = w * (a * x0 + b * x1 + c * x2)
                r0 -= pull * a
                r1 -= pull * b
                r2 -= pull * c
        give = col.GIVE
        s0 = work.link[j, bottom] - x0 + xx * x2 + work.link[j, give] * y0 + work.link[j, give + 1] * y1
        s1 = work.link[j, bottom + 1] - x1 + xy * x2 + work.link[j, give + 1] * y0 + work.link[j, give + 2] * y1
        s2 = work.link[j, bottom + 2] - x2 + work.link[j, give + 3] * y2
        if j > 0:
            w2 = work.link[j - 1, x + 2]
            s0 += work.link[j - 1, x] + work.link[j - 1, col.FRONT] * w2
            s1 += work.link[j - 1, x + 1] + work.link[j - 1, col.FRONT + 1] * w2
            s2 += w2
        work.link[j, col.RX], work.link[j, col.RX + 1], work.link[j, col.RX + 2] = r0, r1, r2
        work.link[j, col.RY], work.link[j, col.RY + 1], work.link[j, col.RY + 2] = s0, s1, s2
    solve(work, n, col.RX, col.RY, col.CX, col.CY)
    for j in range(n):
        for k in range(3):
            work.link[j, x + k] += work.link[j, col.CX + k]
            work.link[j, y + k] += work.link[j, col.CY + k]
