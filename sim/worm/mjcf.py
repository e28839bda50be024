"""The worm as a MuJoCo model: rigid links, segments as chains of slides and ball joints, pads held by welds to mocap bodies.

A segment is PIECES ball joints with slides between them (midpoint rule: half a slide at either end), so that equal bends and
equal slides give an arc. Every joint is a spring about a set value, which the chambers move; a chamber pair's stiffness
follows from the feasible set: the moment that takes all curvature away is the load capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.scene import Scene
from onboard.planning.contact.worm import WormSpec

PIECES = 3
TIMESTEP_S = 0.004
AXIAL_N_PER_M = 700.0  # of a whole segment (ours): 1 N stretches it by 1.4 mm
TWIST = 2.0  # stiffness about the body axis over that in bending (ours)
RELAXATION_S = 0.01  # damping over stiffness of the material (ours)
# inertias added to joints: constraint forces are computed without the implicit damping, so a pad would give way where damping
# outweighs inertia
BALL_ARMATURE, SLIDE_ARMATURE = 1e-4, 0.03
SLACK_M = 0.003  # bodies are this much thinner than planned: plans may touch by the collision tolerance
BELLOWS_M = 0.002  # how far a pad's lip gives before it pushes


@dataclass(frozen=True)
class PlantModel:
    """The model's text and how to address it: actuators a segment in the order slides (PIECES + 1), then x, y, z a ball."""

    xml: str
    actuators_per_segment: int = PIECES + 1 + 3 * PIECES


def build(spec: WormSpec, scene: Scene) -> PlantModel:
    """MJCF for one worm in one scene. Bodies link0.., mocap bodies hold0.., welds weld0.., all inactive."""
    segments, n = spec.segments, spec.links.count - 1
    middle = 0.5 * (segments.length_min_m + segments.length_max_m)
    bending = spec.load.capacity_n_m * spec.load.mean / segments.curvature_max_per_m  # N m^2
    bend = bending * PIECES / middle
    slide = AXIAL_N_PER_M * PIECES
    body, actuators = _link(spec, 0, root=True), []
    depth = 0
    for i in range(n):
        for k in range(PIECES):
            half = 2.0 if k == 0 else 1.0
            name = f"s{i}_{k}"
            body += (
                f'<body name="{name}"><joint name="{name}_l" type="slide" axis="0 0 1" armature="{SLIDE_ARMATURE}"/>'
                f'<joint name="{name}_b" type="ball" armature="{BALL_ARMATURE}"/>'
                f'<geom type="capsule" size="{segments.radius_m - SLACK_M} {0.5 * middle / PIECES}" '
                f'mass="{segments.mass_kg / PIECES}" '
                'contype="1" conaffinity="0" rgba="0.13 0.39 0.61 1"/>'
            )
            depth += 1
            actuators.append(_spring(f"{name}_l", "1", slide * half, middle / PIECES / half))
        name = f"s{i}_{PIECES}"
        body += _link(spec, i + 1, slide=name)
        depth += 1
        actuators.append(_spring(f"{name}_l", "1", 2.0 * slide, middle / PIECES / 2.0))
        for k in range(PIECES):
            for axis, stiff in (("1 0 0", bend), ("0 1 0", bend), ("0 0 1", TWIST * bend)):
                actuators.append(_spring(f"s{i}_{k}_b", axis, stiff, 0.0))
    body += "</body>" * (depth + 1)
    holds = "".join(f'<body name="hold{i}" mocap="true"/>' for i in range(n + 1))
    welds = "".join(
        f'<weld name="weld{i}" body1="link{i}" body2="hold{i}" active="false" relpose="0 0 0 1 0 0 0" '
        'solref="0.02 1" solimp="0.99 0.999 0.001"/>'
        for i in range(n + 1)
    )
    gravity = " ".join(f"{g:.6g}" for g in spec.gravity)
    xml = (
        f'<mujoco model="{spec.robot.name}"><option timestep="{TIMESTEP_S}" integrator="implicitfast" gravity="{gravity}" '
        'cone="elliptic" iterations="20"/><visual><global offwidth="800" offheight="600"/></visual>'
        f"<worldbody>{_solids(scene)}{holds}{body}</worldbody>"
        f"<equality>{welds}</equality><actuator>{''.join(actuators)}</actuator></mujoco>"
    )
    return PlantModel(xml)


def _link(spec: WormSpec, index: int, *, root: bool = False, slide: str = "") -> str:
    joint = "<freejoint/>" if root else f'<joint name="{slide}_l" type="slide" axis="0 0 1" armature="{SLIDE_ARMATURE}"/>'
    lip = spec.pads.offset_m - BELLOWS_M
    return (
        f'<body name="link{index}">{joint}'
        f'<geom type="sphere" size="{spec.links.radius_m - SLACK_M}" mass="{0.8 * spec.links.mass_kg}" contype="1" '
        'conaffinity="0" rgba="0.3 0.3 0.3 1"/>'
        f'<geom name="pad{index}" type="cylinder" size="{0.8 * spec.pads.ring_radius_m} 0.002" pos="{-lip + 0.002} 0 0" '
        f'euler="0 90 0" mass="{0.2 * spec.links.mass_kg}" contype="1" conaffinity="0" friction="0.8" solref="0.02 1" '
        'rgba="0.82 0.29 0.36 1"/>'
    )


def _spring(joint: str, gear: str, stiffness: float, rest: float) -> str:
    damping = stiffness * RELAXATION_S
    return (
        f'<general joint="{joint}" gear="{gear}" biastype="affine" gainprm="{stiffness:.6g}" '
        f'biasprm="0 {-stiffness:.6g} {-damping:.6g}" ctrlrange="-1 1" ctrllimited="false"/>'
    )


def _solids(scene: Scene) -> str:
    out = ""
    for row in scene.solids:
        place = " ".join(f"{v:.6g}" for v in row[1:4])
        turn = row[4:13].reshape(3, 3)
        axes = " ".join(f"{v:.6g}" for v in (*turn[:, 0], *turn[:, 1]))
        edge = row[16]
        if row[0] == 0.0:
            kind, size = "plane", "2 2 0.1"
        elif row[0] == 1.0:
            kind, size = "box", " ".join(f"{v + edge:.6g}" for v in row[13:16])
        else:
            kind, size = "cylinder", f"{row[13] + edge:.6g} {row[14] + edge:.6g}"
        out += (
            f'<geom type="{kind}" pos="{place}" xyaxes="{axes}" size="{size}" contype="0" conaffinity="1" friction="0.6" '
            'rgba="0.75 0.75 0.75 1"/>'
        )
    return out


def joint_targets(shape: NDArray[np.float64]) -> NDArray[np.float64]:
    """Set values of one segment's actuators for a shape (L [m], kx, ky [1/m]): slides, then three per ball joint."""
    length, theta = shape[0], shape[1:] * shape[0]
    slides = np.full(PIECES + 1, length / PIECES)
    slides[[0, -1]] *= 0.5
    balls = np.tile([theta[0] / PIECES, theta[1] / PIECES, 0.0], PIECES)
    return np.concatenate([slides, balls])
