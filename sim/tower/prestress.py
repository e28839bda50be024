"""Which tensions the passive loops of a strut tower need so that it stands in its nominal shape at rest pressure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.errors import ConfigError
from onboard.messages import Floats
from onboard.robot import RobotSpec
from onboard.tower import StrutTower

# Unbalanced force at a joint, as a fraction of the largest cable tension, beyond which the shape is called unable to stand.
# The manipulator's rounded numbers (areas to four digits, twist to 0.1 degrees) leave 2e-3.
MAX_RESIDUAL = 0.02

Joint = tuple[str, int, int]


@dataclass(frozen=True)
class Prestress:
    """Loop edges of the tower and the tensions that balance the cables at rest, gravity left out.

    edges: pairs of joints ("T" or "B", module, index). edge_length_m (E,), edge_tension_n (E,), cable_tension_n (C,).
    residual_n: largest force left on any free joint.
    """

    edges: list[tuple[Joint, Joint]]
    edge_length_m: Floats
    edge_tension_n: Floats
    cable_tension_n: Floats
    residual_n: float


def loop_edges(tower: StrutTower) -> list[tuple[Joint, Joint]]:
    """Edges of loops 1 .. M, each loop walked once by azimuth; the base loop's joints are fixed, so it needs no edges."""
    lower, upper = tower.azimuths_rad()
    edges: list[tuple[Joint, Joint]] = []
    for loop in range(1, tower.modules + 1):
        members: list[tuple[float, Joint]] = [(a, ("T", loop - 1, j)) for j, a in enumerate(upper[loop - 1])]
        if loop < tower.modules:
            members += [(a, ("B", loop, j)) for j, a in enumerate(lower[loop])]
        # Azimuths are rounded so that a joint at 0 and one at 2 pi - 1e-16 sort alike.
        members.sort(key=lambda item: round(float(item[0]) % (2.0 * np.pi), 9) % round(2.0 * np.pi, 9))
        walk = [joint for _, joint in members]
        edges += [(walk[i], walk[(i + 1) % len(walk)]) for i in range(len(walk))]
    return edges


def cable_tensions_n(spec: RobotSpec) -> Floats:
    """Tension (C,) of every cable in the nominal shape at rest pressure [N]."""
    pressure = spec.actuators.rest_pressure_pa if spec.actuators else 0.0
    per_group = [
        pressure * group.piston_area_m2 if group.actuation == "cylinder" else group.rest_tension_n
        for group in spec.structure.cables
    ]
    return np.tile(np.repeat(per_group, spec.structure.struts_per_module), spec.structure.modules)


def solve_prestress(spec: RobotSpec) -> Prestress:
    """Edge tensions >= 0 and strut forces that balance every free joint in the least-squares sense.

    Raises ConfigError when no loops that only pull can hold the struts at this twist: the balance of a module asks for
    tan x = -q1/(q1 + 2 q2) with the groups' force densities (reference page, "A MuJoCo plant that stands").
    """
    from scipy.optimize import nnls

    tower = spec.structure
    lower, upper = tower.rest_joints_m()
    place = {("B", m, j): lower[m, j] for m in range(tower.modules) for j in range(tower.struts_per_module)}
    place |= {("T", m, j): upper[m, j] for m in range(tower.modules) for j in range(tower.struts_per_module)}
    free = [joint for joint in place if not (joint[0] == "B" and joint[1] == 0)]
    row = {joint: 3 * i for i, joint in enumerate(free)}
    edges, tension = loop_edges(tower), cable_tensions_n(spec)

    def column(a: Joint, b: Joint) -> Floats:
        """Forces on all free joints of a unit tension between joints a and b."""
        out = np.zeros(3 * len(free))
        unit = (place[b] - place[a]) / np.linalg.norm(place[b] - place[a])
        if a in row:
            out[row[a] : row[a] + 3] += unit
        if b in row:
            out[row[b] : row[b] + 3] -= unit
        return out

    struts = [(("B", m, j), ("T", m, j)) for m in range(tower.modules) for j in range(tower.struts_per_module)]
    load = np.zeros(3 * len(free))
    for (m, j, i), pull in zip(tower.cable_ends(), tension, strict=True):
        load += pull * column(("T", m, j), ("B", m, i))
    matrix = np.column_stack([column(a, b) for a, b in edges] + [-column(a, b) for a, b in struts])
    # A little Tikhonov weight picks the most even tensions where a loop's own self-stress leaves a choice.
    weight = 1e-6
    stacked = np.vstack([matrix, weight * np.eye(matrix.shape[1])])
    solution, _ = nnls(stacked, np.concatenate([-load, np.zeros(matrix.shape[1])]), maxiter=50 * matrix.shape[1])
    left = (matrix @ solution + load).reshape(-1, 3)
    residual = float(np.linalg.norm(left, axis=1).max())
    if residual > MAX_RESIDUAL * float(tension.max()):
        raise ConfigError(
            spec.file,
            "structure.strut_twist_deg",
            f"is {tower.strut_twist_deg}: loops that only pull cannot hold the struts there ({residual:.1f} N stay unbalanced "
            f"at rest){_advice(spec, tension)}",
        )
    return Prestress(
        edges=edges,
        edge_length_m=np.array([np.linalg.norm(place[b] - place[a]) for a, b in edges]),
        edge_tension_n=solution[: len(edges)],
        cable_tension_n=tension,
        residual_n=residual,
    )


def _advice(spec: RobotSpec, tension: Floats) -> str:
    """The twist at which the cables of one module would balance, as text for the error."""
    tower = spec.structure
    n, twist = tower.struts_per_module, np.radians(tower.strut_twist_deg)
    for _ in range(30):  # lengths depend on the twist, the twist on the force densities: a fixed point
        s = c = 0.0
        for g, group in enumerate(tower.cables):
            angle = 2.0 * np.pi * group.step / n
            length = np.hypot(tower.module_height_m, 2.0 * tower.ring_radius_m * np.sin((angle - twist) / 2.0))
            # Torque balance of an upper joint about the axis: the cables' density-weighted sines against the strut's.
            s += tension[g * n] / length * np.sin(angle)
            c += tension[g * n] / length * (1.0 - np.cos(angle))
        twist = np.arctan2(s, -c)
    return f"; these cables balance at {np.degrees(twist):.1f} degrees"
