"""One idea: robot file and scene become a MuJoCo model.

Driven cables are actuators whose control is the cable's rest length: force = -stiffness * (length - rest), cut off at zero,
which is a spring that cannot push. Their rest lengths then ride along in the control vector, so whole rollouts run in C.
"""

from __future__ import annotations

from xml.sax.saxutils import quoteattr

import mujoco
import numpy as np

from onboard.messages import Floats
from sim.three_bar.course import OrientedBox, Scene
from sim.three_bar.robot_file import Passive, ThreeBar

MAX_PULL = 1e7  # g u/s^2, far above anything the cables reach: a limit only so that zero is one


def frame_of(axis: Floats) -> tuple[Floats, Floats]:
    """Quaternion (4,) w-first and rotation (3, 3) that turn the z axis into the unit vector `axis` the short way."""
    quaternion, matrix = np.zeros(4), np.zeros(9)
    mujoco.mju_quatZ2Vec(quaternion, axis)
    mujoco.mju_quat2Mat(matrix, quaternion)
    return quaternion, matrix.reshape(3, 3)


def quaternion_of(rotation: Floats) -> Floats:
    """Quaternion (4,) w-first of a rotation matrix (3, 3)."""
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(rotation).ravel())
    return quaternion


def numbers(values: Floats) -> str:
    """Values as MJCF writes them."""
    return " ".join(f"{value:.12g}" for value in values)


def build_xml(spec: ThreeBar, scene: Scene) -> str:
    """MJCF of the robot at its start in `scene`.

    Names: caps `cap0`..`cap5` (geoms and, at their centres, sites), driven cables `driven0`..`driven5`, the others
    `beside0`..5, `long0`..2, rods `rod0`..2, obstacles `box0`..
    """
    sites = _cable_sites(spec)
    rods = "".join(_rod(spec, scene, index, sites[index]) for index in range(len(spec.bodies.rods)))
    boxes = "".join(_box(index, item) for index, item in enumerate(scene.boxes))
    driven = spec.tendons.driven
    cables = "".join(
        f'<spatial name="driven{i}" damping="{driven.damping_g_s}"><site site="from{i}"/><site site="to{i}"/></spatial>'
        for i in range(len(driven.pairs))
    )
    cables += _passive("beside", spec.tendons.beside) + _passive("long", spec.tendons.long)
    k = driven.stiffness_g_s2
    motors = "".join(
        f'<general name="motor{i}" tendon="driven{i}" gaintype="fixed" gainprm="{k}" biastype="affine" '
        f'biasprm="0 {-k} 0" forcelimited="true" forcerange="{-MAX_PULL} 0"/>'
        for i in range(len(driven.pairs))
    )
    contact = spec.contact
    return f"""<mujoco model={quoteattr(spec.robot.name)}>
<compiler autolimits="false"/>
<option timestep="{spec.plant.step_s}" integrator="Euler" solver="Newton" cone="elliptic"
 gravity="0 0 {-spec.units.gravity_u_s2}"/>
<visual><headlight ambient=".4 .4 .4"/><global offwidth="1280" offheight="720"/></visual>
<default><geom condim="6" friction="{scene.friction} 0 0" solref="{-contact.stiffness_1_s2} {-contact.damping_1_s}"/></default>
<worldbody>
<geom name="floor" type="plane" size="0 0 1" quat="{numbers(quaternion_of(scene.floor_rotation))}" rgba=".8 .8 .78 1"/>
{boxes}{rods}</worldbody>
<tendon>{cables}</tendon>
<actuator>{motors}</actuator>
</mujoco>"""


def _passive(name: str, table: Passive) -> str:
    return "".join(
        f'<spatial name="{name}{i}" damping="{table.damping_g_s}" stiffness="{table.stiffness_g_s2}" '
        f'springlength="0 {table.rest_u}"><site site="cap{a}"/><site site="cap{b}"/></spatial>'
        for i, (a, b) in enumerate(table.pairs)
    )


def _cable_sites(spec: ThreeBar) -> list[str]:
    """The ends of the driven cables as MJCF sites, one string a rod, each beside its rod on the side of the cable's other end."""
    caps, half = spec.start_caps, spec.bodies.cap_distance_u / 2.0
    rod_of = {cap: rod for rod, pair in enumerate(spec.bodies.rods) for cap in pair}
    driven = spec.tendons.driven
    out = ["" for _ in spec.bodies.rods]

    def site(name: str, cap: int, other: int, offset: float, radius: float) -> None:
        left, right = spec.bodies.rods[rod_of[cap]]
        axis = (caps[right] - caps[left]) / np.linalg.norm(caps[right] - caps[left])
        towards = caps[other] - caps[cap]
        towards = towards - (towards @ axis) * axis
        towards /= np.linalg.norm(towards)
        _, rotation = frame_of(axis)
        local = rotation.T @ (radius * towards) + np.array([0.0, 0.0, offset if cap == right else -offset])
        out[rod_of[cap]] += f'<site name="{name}" pos="{numbers(local)}" size=".03"/>'

    for index, (first, second) in enumerate(driven.pairs):
        site(f"from{index}", first, second, half, driven.cap_site_radius_u)
        site(f"to{index}", second, first, driven.motor_site_offset_u, driven.motor_site_radius_u)
    return out


def _rod(spec: ThreeBar, scene: Scene, index: int, cable_sites: str) -> str:
    b = spec.bodies
    left, right = b.rods[index]
    caps, half = spec.start_caps, b.cap_distance_u / 2.0
    centre = (caps[left] + caps[right]) / 2.0
    quaternion, _ = frame_of((caps[right] - caps[left]) / np.linalg.norm(caps[right] - caps[left]))
    parts = f'<geom type="cylinder" size="{b.shaft_radius_u} {half}" mass="{b.shaft_mass_g}"/>'
    parts += (
        f'<geom type="cylinder" size="{scene.housing_radius_u} {b.housing_length_u / 2}" mass="{b.housing_mass_g}" '
        f'rgba=".2 .2 .25 1"/>'
    )
    for cap, side in ((left, -1.0), (right, 1.0)):
        colour = (".85 .25 .2 1", ".2 .55 .3 1", ".2 .35 .8 1")[index]
        parts += (
            f'<geom name="cap{cap}" type="sphere" size="{b.cap_radius_u}" pos="0 0 {side * half}" '
            f'mass="{b.cap_mass_g}" rgba="{colour}"/>'
            f'<site name="cap{cap}" pos="0 0 {side * half}" size=".03"/>'
            f'<geom type="cylinder" size="{b.motor_radius_u} {b.motor_length_u / 2}" pos="0 0 {side * b.motor_offset_u}" '
            f'mass="{b.motor_mass_g}" rgba=".45 .45 .5 1"/>'
        )
    return (
        f'<body name="rod{index}" pos="{numbers(centre)}" quat="{numbers(quaternion)}"><freejoint/>{parts}{cable_sites}</body>\n'
    )


def _box(index: int, item: OrientedBox) -> str:
    return (
        f'<geom name="box{index}" type="box" size="{numbers(item.half)}" pos="{numbers(item.centre)}" '
        f'quat="{numbers(quaternion_of(item.rotation))}" rgba=".72 .62 .5 1"/>\n'
    )
