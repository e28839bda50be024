"""The robot's file as a MuJoCo model: struts as rigid bodies, loops, cables and cylinders as spatial tendons.

Along the reference page, "A MuJoCo plant that stands". Struts of module 0 turn on ball joints about their lower ends, all others
are free. The loops are chains of springs that cannot push, so a loop may warp: no rigid disc is built into the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from onboard.messages import Floats, Ints
from onboard.robot import RobotSpec
from onboard.tower import CableGroup
from sim.tower.prestress import Joint, solve_prestress

SOLVER_TOLERANCE = 1e-6  # reference measurement: tighter costs time and changes nothing
MAX_TENSION_N = 2000.0  # a cylinder's rod and its joints; an order above what 0.6 MPa can pull


@dataclass(frozen=True)
class TowerModel:
    """The compiled model and where things are in it.

    strut_body (n,): body numbers. lower_site, upper_site (M, N): sites of B and T. cable (C,): tendon numbers in cable order;
    edge (E,): those of loop edges. actuator (A,): actuator numbers in channel order. accel, gyro (n,): sensor addresses.
    strut_rotation (n, 3, 3): strut axes in world axes in the nominal shape: z along the strut, y level, so that x points
    down its slope.
    """

    spec: RobotSpec
    mj: mujoco.MjModel
    strut_body: Ints
    lower_site: Ints
    upper_site: Ints
    cable: Ints
    edge: Ints
    actuator: Ints
    accel: Ints
    gyro: Ints
    strut_rotation: Floats


def quiet_log() -> None:
    """Stop MuJoCo from writing MUJOCO_LOG.TXT into the user's folder; warnings are read from MjData's counters instead."""
    config = mujoco.MjLogConfig.get()
    config.logto_file = False
    config.logto_console = False
    mujoco.MjLogConfig.set(config)


def strut_axes(direction: Floats) -> Floats:
    """Rotation (3, 3) with z along the unit vector `direction` and y level; a vertical strut gets y along world y."""
    z = np.asarray(direction, dtype=float)
    y = np.array([-z[1], z[0], 0.0])
    norm = float(np.linalg.norm(y))
    y = y / norm if norm > 1e-9 else np.array([0.0, 1.0, 0.0])
    return np.stack([np.cross(y, z), y, z], axis=-1)


def build_model(spec: RobotSpec, integrator: mujoco.mjtIntegrator = mujoco.mjtIntegrator.mjINT_DISCRETE) -> TowerModel:
    """Compile the plant of `spec`; raises ConfigError when the structure cannot stand.

    `integrator` is there for the test that shows why it must be `discrete`: the implicit ones drop damper coupling between
    free bodies.
    """
    quiet_log()
    builder = _Builder(spec)
    builder.options(integrator)
    builder.struts()
    builder.loops()
    builder.cables()
    builder.imus()
    return builder.compile()


class _Builder:
    def __init__(self, spec: RobotSpec) -> None:
        self.spec, self.tower = spec, spec.structure
        self.prestress = solve_prestress(spec)
        self.lower, self.upper = self.tower.rest_joints_m()
        self.mjs = mujoco.MjSpec()
        self.mjs.modelname = spec.name

    def options(self, integrator: mujoco.mjtIntegrator) -> None:
        option = self.mjs.option
        option.timestep = self.spec.simulation.timestep_s
        option.integrator = integrator
        option.solver = mujoco.mjtSolver.mjSOL_NEWTON
        option.tolerance = SOLVER_TOLERANCE
        # After a NaN MuJoCo would restore the start state and go on; with this the counters rise and the trial fails instead.
        option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT) | int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)

    def struts(self) -> None:
        tower = self.tower
        half, radius = tower.strut_length_m / 2.0, tower.strut_diameter_m / 2.0
        self.rotation = np.zeros((tower.struts, 3, 3))
        for m in range(tower.modules):
            for j in range(tower.struts_per_module):
                b, t = self.lower[m, j], self.upper[m, j]
                axes = strut_axes((t - b) / np.linalg.norm(t - b))
                self.rotation[m * tower.struts_per_module + j] = axes
                quaternion = np.zeros(4)
                mujoco.mju_mat2Quat(quaternion, axes.ravel())
                body = self.mjs.worldbody.add_body(name=f"strut{m}_{j}", pos=(b + t) / 2.0, quat=quaternion)
                if m == 0:
                    joint = body.add_joint(type=mujoco.mjtJoint.mjJNT_BALL, pos=[0.0, 0.0, -half])
                    joint.damping = [tower.base_joint_damping_n_m_s_per_rad, 0.0, 0.0]
                else:
                    body.add_freejoint()
                body.add_geom(
                    type=mujoco.mjtGeom.mjGEOM_CYLINDER,
                    size=[radius, half, 0.0],
                    mass=tower.strut_mass_kg,
                    rgba=[0.25, 0.28, 0.33, 1.0],
                )
                body.add_site(name=f"B{m}_{j}", pos=[0.0, 0.0, -half])
                body.add_site(name=f"T{m}_{j}", pos=[0.0, 0.0, half])
                body.add_site(name=f"imu{m}_{j}", pos=[0.0, 0.0, 0.0])

    def loops(self) -> None:
        ring = self.tower.ring
        for e, (a, b) in enumerate(self.prestress.edges):
            length = float(self.prestress.edge_length_m[e] - self.prestress.edge_tension_n[e] / ring.stiffness_n_per_m)
            tendon = self._tendon(f"edge{e}", a, b, [0.8, 0.6, 0.2, 1.0])
            tendon.stiffness = [ring.stiffness_n_per_m, 0.0, 0.0]
            tendon.damping = [ring.damping_n_s_per_m, 0.0, 0.0]
            tendon.springlength = [0.0, length]  # slack below: a cord cannot push

    def cables(self) -> None:
        n, groups = self.tower.struts_per_module, self.tower.cables
        for c, (m, j, i) in enumerate(self.tower.cable_ends()):
            group = groups[(c // n) % len(groups)]
            length = float(np.linalg.norm(self.upper[m, j] - self.lower[m, i]))
            tendon = self._tendon(f"cable{c}", ("T", m, j), ("B", m, i), [0.7, 0.2, 0.2, 1.0])
            tendon.damping = [group.damping_n_s_per_m, 0.0, 0.0]
            if group.actuation == "passive":
                tendon.stiffness = [group.parallel_stiffness_n_per_m, 0.0, 0.0]
                tendon.springlength = [0.0, length - group.rest_tension_n / group.parallel_stiffness_n_per_m]
            else:
                self._cylinder(tendon, group, length)

    def _cylinder(self, tendon: Any, group: CableGroup, length: float) -> None:
        """Stroke limits, friction as a spring that yields, and a valve-fed piston with its trapped gas as a parallel spring."""
        valves = self.spec.actuators
        assert valves is not None  # the file's check refuses cylinders without valves
        tendon.limited = True
        tendon.range = [length - group.stroke_m, length + group.stroke_m]
        tendon.stiffness = [group.friction_stiffness_n_per_m, 0.0, 0.0]
        tendon.springlength = [length, length]
        tendon.springyield = group.friction_yield_m
        span = [valves.min_pressure_pa, valves.max_pressure_pa]
        lag, stiffness = self.spec.simulation.valve_time_constant_s, group.parallel_stiffness_n_per_m
        self.mjs.add_actuator(
            name=f"valve_{tendon.name}",
            trntype=mujoco.mjtTrn.mjTRN_TENDON,
            target=tendon.name,
            dyntype=mujoco.mjtDyn.mjDYN_FILTEREXACT,
            dynprm=[max(lag, 1e-4)] + [0.0] * 9,
            gaintype=mujoco.mjtGain.mjGAIN_FIXED,
            gainprm=[-group.piston_area_m2] + [0.0] * 9,
            biastype=mujoco.mjtBias.mjBIAS_AFFINE,
            biasprm=[stiffness * length, -stiffness] + [0.0] * 8,
            ctrllimited=True,
            ctrlrange=span,
            actlimited=True,
            actrange=span,
            forcelimited=True,
            forcerange=[-MAX_TENSION_N, 0.0],
        )

    def imus(self) -> None:
        for site in [f"{m}_{j}" for m in range(self.tower.modules) for j in range(self.tower.struts_per_module)]:
            for kind, name in ((mujoco.mjtSensor.mjSENS_ACCELEROMETER, "accel"), (mujoco.mjtSensor.mjSENS_GYRO, "gyro")):
                self.mjs.add_sensor(name=f"{name}{site}", type=kind, objtype=mujoco.mjtObj.mjOBJ_SITE, objname=f"imu{site}")

    def _tendon(self, name: str, a: Joint, b: Joint, rgba: list[float]) -> Any:
        tendon = self.mjs.add_tendon(name=name, rgba=rgba, width=0.002)
        for kind, m, j in (a, b):
            tendon.wrap_site(f"{kind}{m}_{j}")
        return tendon

    def _resist_spin(self, mj: mujoco.MjModel) -> None:
        """Cables that end on the axis would let a strut spin freely; on a real one they are tied round it and do not.

        The last degree of freedom of a ball or free joint is the turn about the body's own z, the strut's axis.
        """
        for joint in range(mj.njnt):
            last = 5 if mj.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE else 2
            dof = mj.jnt_dofadr[joint] + last
            mj.dof_damping[dof] = max(mj.dof_damping[dof], self.tower.spin_damping_n_m_s_per_rad)

    def compile(self) -> TowerModel:
        mj = self.mjs.compile()
        self._resist_spin(mj)
        modules, n = self.tower.modules, self.tower.struts_per_module

        def sites(letter: str) -> Ints:
            return np.array([[mj.site(f"{letter}{m}_{j}").id for j in range(n)] for m in range(modules)])

        def sensors(name: str) -> Ints:
            return np.array([mj.sensor(f"{name}{m}_{j}").adr[0] for m in range(modules) for j in range(n)])

        return TowerModel(
            spec=self.spec,
            mj=mj,
            strut_body=np.array([mj.body(f"strut{m}_{j}").id for m in range(modules) for j in range(n)]),
            lower_site=sites("B"),
            upper_site=sites("T"),
            cable=np.array([mj.tendon(f"cable{c}").id for c in range(self.tower.cable_count)]),
            edge=np.array([mj.tendon(f"edge{e}").id for e in range(len(self.prestress.edges))]),
            actuator=np.array([mj.actuator(f"valve_cable{c}").id for c in self.tower.cylinders], dtype=np.int64),
            accel=sensors("accel"),
            gyro=sensors("gyro"),
            strut_rotation=self.rotation,
        )
