"""Cheapest near-surface path through voxels: A* over 26 neighbours with the paper's six cost terms (V-A).

Two of the terms, accumulated bending and non-coplanar transitions, depend on the path so far. With one label a voxel
they are evaluated on the best known path to it (fast, not optimal); with a label for every voxel and incoming
direction more histories are kept (10-40 times slower, cheaper paths: reference measurement).
"""

from __future__ import annotations

import numpy as np

from onboard.planning.contact.compiled import jit
from onboard.planning.contact.scene import distance_gradient

BEND_FREE_RAD = np.pi / 20.0
BEND_KNEE_RAD = np.pi / 4.0
BEND_MEMORY = 0.9
BEND_SLOPE = 0.005
NON_COPLANAR_MIN = 0.1
SHARP_VOXELS = 5.0
REFERENCE_STEP_M = 0.01  # penalties per length count as if every step were this long


@jit
def normal_penalty(cosine):  # type: ignore[no-untyped-def]
    """Penalty of a change of surface normal: angle plus its square."""
    angle = np.arccos(min(1.0, max(-1.0, cosine)))
    return angle + angle * angle


@jit
def turning_history(history, angle):  # type: ignore[no-untyped-def]
    """Accumulated in-plane turning after one more step that turns by `angle` [rad]."""
    return BEND_MEMORY * history + max(angle - BEND_FREE_RAD, 0.0)


@jit
def _sift_up(heap, place, key, i):  # type: ignore[no-untyped-def]
    item = heap[i]
    while i > 0:
        parent = (i - 1) // 2
        if key[heap[parent]] <= key[item]:
            break
        heap[i] = heap[parent]
        place[heap[i]] = i
        i = parent
    heap[i] = item
    place[item] = i


@jit
def _pop(heap, place, key, size):  # type: ignore[no-untyped-def]
    top = heap[0]
    item = heap[size - 1]
    size -= 1
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and key[heap[child + 1]] < key[heap[child]]:
            child += 1
        if key[item] <= key[heap[child]]:
            break
        heap[i] = heap[child]
        place[heap[i]] = i
        i = child
    heap[i] = item
    place[item] = i
    place[top] = -2  # closed
    return top


@jit
def shortest_path(  # type: ignore[no-untyped-def]
    solids, low, counts, voxel, distance, normal, usable, start, goal, heading, weights, history, by_direction, per_length
):
    """A* from voxel `start` to voxel `goal` (flat indices).

    distance (V,), normal (V, 3), usable (V,) describe the voxels; counts (3,) is the grid; heading (3,) is the unit
    direction in which the body lies behind the start, zero for none; weights are length, lift, sharp, normal, bend,
    non-coplanar. Returns (voxels of the path, cost, labels closed); an empty path: none exists.
    """
    nx, ny, nz = counts
    slots = 27 if by_direction else 1
    total = usable.shape[0] * slots
    cost, key = np.full(total, np.inf), np.full(total, np.inf)
    parent = np.full(total, -1, dtype=np.int64)
    turned = np.zeros(total, dtype=np.float32)
    heap, place = np.empty(total, dtype=np.int64), np.full(total, -1, dtype=np.int64)
    band = np.inf
    for i in range(usable.shape[0]):
        if usable[i]:
            band = min(band, distance[i])
    gx, gy, gz = goal // (ny * nz), (goal // nz) % ny, goal % nz
    origin = start * slots + (13 if by_direction else 0)
    cost[origin], key[origin] = 0.0, 0.0
    heap[0], place[origin], size, closed = origin, 0, 1, 0
    past = np.empty((history, 3))
    final = -1
    while size > 0:
        label = _pop(heap, place, key, size)
        size -= 1
        closed += 1
        here = label // slots
        if here == goal:
            final = label
            break
        ix, iy, iz = here // (ny * nz), (here // nz) % ny, here % nz
        remembered, walk = 0, label
        while remembered < history and parent[walk] >= 0:
            a, b = parent[walk] // slots, walk // slots
            sx = float(b // (ny * nz) - a // (ny * nz))
            sy = float((b // nz) % ny - (a // nz) % ny)
            sz = float(b % nz - a % nz)
            norm = np.sqrt(sx * sx + sy * sy + sz * sz)
            past[remembered, 0], past[remembered, 1], past[remembered, 2] = sx / norm, sy / norm, sz / norm
            remembered += 1
            walk = parent[walk]
        if heading[0] != 0.0 or heading[1] != 0.0 or heading[2] != 0.0:
            while remembered < history:
                past[remembered, 0], past[remembered, 1], past[remembered, 2] = heading[0], heading[1], heading[2]
                remembered += 1
        for direction in range(27):
            if direction == 13:
                continue
            sx, sy, sz = direction // 9 - 1, (direction // 3) % 3 - 1, direction % 3 - 1
            jx, jy, jz = ix + sx, iy + sy, iz + sz
            if jx < 0 or jy < 0 or jz < 0 or jx >= nx or jy >= ny or jz >= nz:
                continue
            there = (jx * ny + jy) * nz + jz
            if not usable[there]:
                continue
            successor = there * slots + (direction if by_direction else 0)
            if place[successor] == -2:
                continue
            norm = np.sqrt(float(sx * sx + sy * sy + sz * sz))
            ux, uy, uz = sx / norm, sy / norm, sz / norm
            length = norm * voxel
            scale = length / REFERENCE_STEP_M if per_length else 1.0
            mx, my, mz = normal[there, 0], normal[there, 1], normal[there, 2]
            step = weights[0] * length + weights[1] * scale * max(distance[there] - band, 0.0)
            if weights[3] > 0.0:
                cosine = normal[here, 0] * mx + normal[here, 1] * my + normal[here, 2] * mz
                step += weights[3] * normal_penalty(cosine)
            if cost[label] + step >= cost[successor]:
                continue
            # sideways: across the step, in the surface's tangent plane
            wx, wy, wz = my * uz - mz * uy, mz * ux - mx * uz, mx * uy - my * ux
            if weights[2] > 0.0:
                x, y, z = low[0] + (jx + 0.5) * voxel, low[1] + (jy + 0.5) * voxel, low[2] + (jz + 0.5) * voxel
                reach = SHARP_VOXELS * voxel / max(np.sqrt(wx * wx + wy * wy + wz * wz), 1e-9)
                for sign in (-1.0, 1.0):
                    d, _, _, _ = distance_gradient(solids, x + sign * reach * wx, y + sign * reach * wy, z + sign * reach * wz)
                    if abs(d - distance[there]) > voxel:
                        step += weights[2] * scale
            if weights[5] > 0.0 and remembered > 0:
                crossing = 0.0
                for k in range(remembered):
                    c = abs(past[k, 0] * wx + past[k, 1] * wy + past[k, 2] * wz)
                    if c > NON_COPLANAR_MIN:
                        crossing += c
                step += weights[5] * scale * crossing / history
            bent = 0.0
            if remembered > 0 and weights[4] > 0.0:
                # both directions in the tangent plane of the new voxel; a step straight off the surface has none, and
                # must not make the path forget where it was heading
                after = ux * mx + uy * my + uz * mz
                bx, by, bz = ux - after * mx, uy - after * my, uz - after * mz
                angle = 0.0
                for k in range(remembered):
                    before = past[k, 0] * mx + past[k, 1] * my + past[k, 2] * mz
                    ax, ay, az = past[k, 0] - before * mx, past[k, 1] - before * my, past[k, 2] - before * mz
                    size_before = ax * ax + ay * ay + az * az
                    if size_before > 0.05:
                        sizes = np.sqrt(size_before * (bx * bx + by * by + bz * bz))
                        if sizes > 1e-3:
                            angle = np.arccos(min(1.0, max(-1.0, (ax * bx + ay * by + az * bz) / sizes)))
                        break
                bent = turning_history(turned[label], angle)
                step += weights[4] * scale * (BEND_SLOPE * bent + max(bent - BEND_KNEE_RAD, 0.0) ** 2)
            candidate = cost[label] + step
            if candidate >= cost[successor]:
                continue
            cost[successor], parent[successor], turned[successor] = candidate, label, bent
            dx, dy, dz = float(jx - gx), float(jy - gy), float(jz - gz)
            key[successor] = candidate + weights[0] * voxel * np.sqrt(dx * dx + dy * dy + dz * dz)
            if place[successor] < 0:
                heap[size] = successor
                place[successor] = size
                size += 1
            _sift_up(heap, place, key, place[successor])
    if final < 0:
        return np.empty(0, dtype=np.int64), np.inf, closed
    count, walk = 0, final
    while walk >= 0:
        count += 1
        walk = parent[walk]
    path, walk = np.empty(count, dtype=np.int64), final
    for i in range(count - 1, -1, -1):
        path[i] = walk // slots
        walk = parent[walk]
    return path, cost[final], closed
