"""One idea: the vine without inertia, in relative angles and total length: the planner's model, in plain numpy.

State (N + 3,): N joint angles of a chain of long links (the first from the base's zero, so the base is a moving rest angle),
length L [m], base heading [rad], rest curvature [1/m]. Link i is clip(L - 2 i h, 0, 2 h) long: growing needs no event. One step:

    (c + dt k + J' D J) a_dot = -k (a - rest) + J_c' lambda,    w L_dot = w u + J_t' lambda,    gap / dt + J y >= 0

with c, k joint damping and stiffness, D the drag of the ground, w stall force over top rate. The mobility of the left side is
that of a straight vine of equal length, from a table: equilibria do not depend on it, only how fast they are approached.
Contacts: the nearest few of the discs along the vine against a grid of distances, by accelerated projected gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard.planning.vine.field import Field
from onboard.vine_robot import VineRobot

Array = NDArray[np.float64]
CONTACTS = 8  # nearest discs that may push (reference measurement: eight suffice)
SWEEPS = 12  # accelerated projected-gradient steps a time step
LENGTHS = 97  # rows of the mobility table
SOFT = 2e-3  # of a contact's own mobility: keeps the dual problem regular
FRAMES = 6  # frames of 1/90 s a step


@dataclass(frozen=True)
class Constants:
    """What of the robot enters the model: N links of `link` [m], per joint stiffness k and damping c, rest curvature's lever
    `span` [m] (joint 0 stands for one simulated link less), metric w [N s/m], mobility (LENGTHS, N + 1, N + 1)."""

    links: int
    link: float
    radius: float
    dt: float
    k: Array
    c: Array
    weight: float
    slew: Array
    mobility: Array
    low: Array
    high: Array

    @property
    def size(self) -> int:
        """Length of a state."""
        return self.links + 3


def constants(robot: VineRobot) -> Constants:
    """Two simulated links are one of the model's; a joint's compliance is the sum of what it stands for."""
    body, links = robot.body, robot.body.links // 2
    link, dt = 2 * body.link_m, FRAMES / 90
    share = np.full(links, 2.0)
    share[0] = 1.5
    k, c = body.stiffness_n_m_per_rad / share, body.damping_n_m_s_per_rad / share
    weight = robot.stall_force_n / robot.actuators.growth.max_m_s
    drag = body.drag_n_s_per_m / body.link_m
    joints = link * np.arange(links)
    mobility = np.zeros((LENGTHS, links + 1, links + 1))
    for row, length in enumerate(np.linspace(0.0, links * link, LENGTHS)):
        part = np.clip(length - joints, 0.0, link)
        lever = np.maximum(joints[:, None] + 0.5 * part[:, None] - joints[None, :], 0.0) * (part[:, None] > 0)
        metric = np.diag(c + dt * k) + np.einsum("ij,i,ik->jk", lever, drag * part, lever)
        metric += np.diag(np.array([drag * np.sum(p**3) / 12 for p in part]))  # a link turning about its middle
        mobility[row, :links, :links] = np.linalg.inv(metric)
        mobility[row, links, links] = 1.0 / weight
    return Constants(links, link, body.radius_m, dt, k, c, weight, robot.slew, mobility, robot.low, robot.high)


def points_of(angles: Array, length: Array, con: Constants) -> tuple[Array, Array, Array]:
    """(joints (B, N, 2), directions (B, N, 2), link lengths (B, N))."""
    heading = np.cumsum(angles, axis=1)
    part = np.clip(length[:, None] - con.link * np.arange(con.links), 0.0, con.link)
    direction = np.stack([np.cos(heading), np.sin(heading)], axis=2)
    ends = np.cumsum(part[..., None] * direction, axis=1)
    return ends - part[..., None] * direction, direction, part


def tip_of(state: Array, con: Constants) -> Array:
    """Tips (B, 2) of states (B, N + 3)."""
    joint, direction, part = points_of(state[:, : con.links], state[:, con.links], con)
    tip: Array = joint[:, -1] + part[:, -1:] * direction[:, -1]
    return tip


def step(state: Array, control: Array, field: Field, con: Constants) -> Array:
    """States (B, N + 3) after `dt` under commands (B, 3): growth, base heading, curvature."""
    n, b = con.links, len(state)
    a, length = state[:, :n], state[:, n]
    reach = con.slew * con.dt
    base = state[:, n + 1 : n + 3] + np.clip(control[:, 1:] - state[:, n + 1 : n + 3], -reach, reach)
    heading, curvature = base[:, :1], base[:, 1:]
    joint, direction, part = points_of(a, length, con)
    lever = part.copy()
    lever[:, 0] = np.minimum(part[:, 0], 0.5 * con.link)
    rest = curvature * lever
    rest[:, 0] += heading[:, 0]
    at = np.clip(length / (n * con.link) * (LENGTHS - 1), 0, LENGTHS - 1)
    mobility = con.mobility[np.round(at).astype(int)]
    torque = np.concatenate([con.k * (rest - a), con.weight * control[:, :1]], axis=1)
    torque[:, 0] += con.c[0] * (base[:, 0] - state[:, n + 1]) / con.dt  # the base's damper turns with the base
    free = np.einsum("bij,bj->bi", mobility, torque)
    # discs at the middle and the end of every link
    half = 0.5 * con.link
    reachs = np.stack([np.minimum(part, half), part], axis=2)  # (B, N, 2)
    spots = (joint[:, :, None] + reachs[..., None] * direction[:, :, None]).reshape(b, 2 * n, 2)
    begin = half * np.arange(2 * n)
    alive = begin[None] < length[:, None]
    is_tip = alive & (length[:, None] <= begin + half)
    distance, normal = field.look_up(spots)
    gap = np.where(alive, distance - con.radius, 1.0)
    order = np.argsort(gap, axis=1, kind="stable")[:, :CONTACTS]
    pick = np.arange(b)[:, None]
    spot, norm, gap = spots[pick, order], normal[pick, order], gap[pick, order]
    tip, owner = is_tip[pick, order], order // 2
    arm = spot[:, :, None] - joint[:, None]  # (B, C, N, 2)
    rows = arm[..., 0] * norm[:, :, None, 1] - arm[..., 1] * norm[:, :, None, 0]
    rows = np.where(np.arange(n) <= owner[..., None], rows, 0.0)
    ahead = direction[pick, owner]
    grow = np.where(tip, (norm * ahead).sum(axis=2), 0.0)
    jac = np.concatenate([rows, grow[..., None]], axis=2)
    spread = jac @ mobility
    matrix = spread @ jac.transpose(0, 2, 1)
    matrix += np.eye(CONTACTS) * (SOFT * np.einsum("bii->bi", matrix)[:, None] + 1e-9)
    target = gap / con.dt + np.einsum("bci,bi->bc", jac, free)
    size = 1.0 / np.abs(matrix).sum(axis=2)
    push = np.zeros((b, CONTACTS))
    old = push
    for sweep in range(SWEEPS):
        ahead_push = push + (sweep / (sweep + 3.0)) * (push - old)
        old = push
        push = np.maximum(ahead_push - size * (np.einsum("bcd,bd->bc", matrix, ahead_push) + target), 0.0)
    rate = free + np.einsum("bc,bci->bi", push, spread)
    longer = np.clip(length + con.dt * np.maximum(rate[:, n], 0.0), 0.0, n * con.link)
    return np.concatenate([a + con.dt * rate[:, :n], longer[:, None], base], axis=1)


def rollout(state: Array, controls: Array, field: Field, con: Constants) -> Array:
    """States (B, T, N + 3) after each of T steps of controls (B, T, 3) from one state (N + 3,) or one each (B, N + 3)."""
    now = np.broadcast_to(state, (len(controls), con.size)).copy()
    path = np.empty((len(controls), controls.shape[1], con.size))
    for t in range(controls.shape[1]):
        now = step(now, controls[:, t], field, con)
        path[:, t] = now
    return path
