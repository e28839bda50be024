"""The suction worm in MuJoCo with its boards and a pose source: what an executor drives in place of hardware."""

from __future__ import annotations

from collections import deque

import mujoco
import numpy as np
from numpy.typing import NDArray

from onboard.planning.contact.execution.estimate import fit_chain
from onboard.planning.contact.execution.ports import Command, PoseReading, SuctionReport
from onboard.planning.contact.execution.pressures import chamber_pressures
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.worm import WormSpec
from sim.worm.boards import VACUUM_PA, SuctionBoard, ValveBoard
from sim.worm.faults import Faults, Imperfections
from sim.worm.mjcf import PIECES, TIMESTEP_S, build, joint_targets

Floats = NDArray[np.float64]
BOARD_S = 0.02  # boards and seals advance in steps of this
TEAR_S = 0.06  # forces on a pad are smoothed over this before they tear it off


class WormPlant:
    """Both ports of an executor (`PosePort`, `WormSink`) over a simulated worm. Same seed and commands, same run.

    falls counts the times at which no pad held; torn the pads pulled off.
    """

    def __init__(self, spec: WormSpec, scene: Scene, start: State, imperfections: Imperfections, seed: int) -> None:
        assert spec.execution is not None
        self.spec, self.scene, self.imperfections, self.faults = spec, scene, imperfections, Faults()
        self._rng = np.random.default_rng([seed, 77])
        self._built = build(spec, scene)
        self.model = mujoco.MjModel.from_xml_string(self._built.xml)
        self.data = mujoco.MjData(self.model)
        links = spec.links.count
        self._links = [self.model.body(f"link{i}").id for i in range(links)]
        self._welds = [self.model.equality(f"weld{i}").id for i in range(links)]
        self._mocap = [int(self.model.body(f"hold{i}").mocapid[0]) for i in range(links)]
        pressures = chamber_pressures(spec, start.shape)
        self.valves = ValveBoard(imperfections, pressures)
        self.suction = SuctionBoard(spec.execution, imperfections, self.faults, start.attached.astype(bool), self._rng)
        self.falls, self.torn = 0, 0
        self._held = np.zeros(links, dtype=bool)
        self._force, self._moment = np.zeros(links), np.zeros(links)
        self._arrivals: deque[PoseReading] = deque()
        self._reading: PoseReading | None = None
        self._next_pose_s, self._done_s = 0.0, 0.0
        self._place(start)

    @property
    def t_s(self) -> float:
        """Simulated time [s]."""
        return float(self.data.time)

    def send(self, command: Command) -> None:
        """A command from the daemon, unless nothing arrives (`faults.frozen`)."""
        if not self.faults.frozen:
            self.valves.command(self.t_s, command.pressures)
            self.suction.command(command.suction)

    def report(self) -> SuctionReport | None:
        """What the suction board measures now."""
        return SuctionReport(self.t_s, self.suction.vacuum_pa.copy())

    def newest(self) -> PoseReading | None:
        """The newest pose reading that has arrived."""
        while self._arrivals and self._arrivals[0].t_s + self.imperfections.pose_delay_s <= self.t_s:
            self._reading = self._arrivals.popleft()
        return self._reading

    def frames(self) -> Floats:
        """True link poses (n + 1, 3, 4)."""
        out = np.empty((len(self._links), 3, 4))
        for i, body in enumerate(self._links):
            out[i, :, :3], out[i, :, 3] = self.data.xmat[body].reshape(3, 3), self.data.xpos[body]
        return out

    def state(self) -> State:
        """The true state as a chain of arcs: for pictures and scores."""
        frames = self.frames()
        segments = self.spec.segments
        middle = 0.5 * (segments.length_min_m + segments.length_max_m)
        shape = np.tile([middle, 0.0, 0.0], (len(frames) - 1, 1))
        _, shape, _ = fit_chain(frames, frames[0], shape)
        return State(frames, shape, self.suction.sealed.astype(np.uint8))

    def centre_line(self) -> Floats:
        """Points along the body, tail to head. Shape (n (PIECES + 1) + 1, 3) [m]."""
        points = [self.data.xpos[self._links[0]]]
        for i in range(len(self._links) - 1):
            points += [self.data.xpos[self.model.body(f"s{i}_{k}").id] for k in range(PIECES)]
            points.append(self.data.xpos[self._links[i + 1]])
        return np.array(points)

    def advance(self, for_s: float) -> None:
        """Runs the plant, its boards and its pose source."""
        for _ in range(max(1, round((self.t_s + for_s - self._done_s) / BOARD_S))):
            self._done_s += BOARD_S
            self.valves.advance(self.t_s, BOARD_S)
            self._shape_targets()
            for _ in range(round(BOARD_S / TIMESTEP_S)):
                mujoco.mj_step(self.model, self.data)
            self._tear()
            self.suction.advance(self.t_s, BOARD_S, self._quality())
            self._grip()
            self._look()

    def _shape_targets(self) -> None:
        segments, effective = self.spec.segments, self.valves.effective / 100.0
        rho = effective.mean(axis=1)
        length = segments.length_min_m + rho * (segments.length_max_m - segments.length_min_m)
        bend = segments.curvature_max_per_m * np.column_stack(
            [effective[:, 0] - effective[:, 2], effective[:, 1] - effective[:, 3]]
        )
        count = self._built.actuators_per_segment
        for i in range(len(length)):
            self.data.ctrl[i * count : (i + 1) * count] = joint_targets(np.array([length[i], *bend[i]]))

    def _quality(self) -> Floats:
        """How well each pad lies on a surface: 1 flat, 0 at the tolerances of [pads]."""
        pads, out = self.spec.pads, np.empty(len(self._links))
        for i, frame in enumerate(self.frames()):
            pad = frame[:, 3] - pads.offset_m * frame[:, 0]
            gap = abs(float(self.scene.distance(pad))) / pads.distance_tolerance_m
            cosine = float(np.clip(frame[:, 0] @ self.scene.gradient(pad), -1.0, 1.0))
            out[i] = max(0.0, 1.0 - max(gap, np.degrees(np.arccos(cosine)) / pads.angle_tolerance_deg))
        out[self._held] = 1.0  # a lip that holds follows the surface
        return out

    def _grip(self) -> None:
        """Welds follow the seals; a pad that takes hold slips a little, `shove_m` moves all that hold."""
        sealed = self.suction.sealed
        for i in np.flatnonzero(sealed & ~self._held):
            self._weld(i, self._rng.normal(0.0, self.imperfections.slip_m, 3))
        for i in np.flatnonzero(self._held & ~sealed):
            self.data.eq_active[self._welds[i]] = 0
        if not sealed.any() and self._held.any():
            self.falls += 1
        self._held = sealed.copy()
        if self.faults.shove_m is not None:
            for i in np.flatnonzero(sealed):
                self.data.mocap_pos[self._mocap[i]] += self.faults.shove_m
            self.faults.shove_m = None

    def _weld(self, link: int, slip: Floats) -> None:
        body = self._links[link]
        normal = self.data.xmat[body].reshape(3, 3)[:, 0]
        self.data.mocap_pos[self._mocap[link]] = self.data.xpos[body] + slip - normal * (slip @ normal)
        self.data.mocap_quat[self._mocap[link]] = self.data.xquat[body]
        self.data.eq_active[self._welds[link]] = 1
        self._force[link], self._moment[link] = 0.0, 0.0

    def _tear(self) -> None:
        """Pads whose weld carries more than their vacuum can are pulled off."""
        d, i = self.data, self.imperfections
        share = 1.0 - np.exp(-BOARD_S / TEAR_S)
        first = 0  # equality constraints come first, six rows an active weld, in order; rotation counts in half angles
        for link, weld in enumerate(self._welds):
            if not d.eq_active[weld] or first + 6 > d.ne:
                continue
            load = d.efc_force[first : first + 6]
            first += 6
            self._force[link] += share * (float(np.linalg.norm(load[:3])) - self._force[link])
            self._moment[link] += share * (0.5 * float(np.linalg.norm(load[3:6])) - self._moment[link])
            grip = self.suction.vacuum_pa[link] / VACUUM_PA
            if self._force[link] > grip * i.force_n or self._moment[link] > grip * i.moment_n_m:
                self.suction.vacuum_pa[link], self.suction.tight[link] = 0.0, False
                self.torn += 1

    def _look(self) -> None:
        i = self.imperfections
        if self.faults.blind or self.t_s < self._next_pose_s:
            return
        self._next_pose_s = self.t_s + 1.0 / i.pose_hz - 1e-9
        frames = self.frames()
        for frame in frames:
            frame[:, 3] += self._rng.normal(0.0, i.pose_m, 3)
            vector = self._rng.normal(0.0, np.deg2rad(i.pose_deg), 3)
            quaternion, turn = np.empty(4), np.empty(9)
            angle = float(np.linalg.norm(vector))
            mujoco.mju_axisAngle2Quat(quaternion, vector / max(angle, 1e-12), angle)
            mujoco.mju_quat2Mat(turn, quaternion)
            frame[:, :3] = turn.reshape(3, 3) @ frame[:, :3]
        self._arrivals.append(PoseReading(self.t_s, frames))

    def _place(self, start: State) -> None:
        """Sets the joints so that the links stand as in a state, all its pads holding."""
        d, m = self.data, self.model
        quaternion = np.empty(4)
        mujoco.mju_mat2Quat(quaternion, np.ascontiguousarray(start.frames[0, :, :3]).ravel())
        d.qpos[:3], d.qpos[3:7] = start.frames[0, :, 3], quaternion
        count = self._built.actuators_per_segment
        for i, shape in enumerate(start.shape):
            targets = joint_targets(shape)
            d.ctrl[i * count : (i + 1) * count] = targets
            for k in range(PIECES + 1):
                d.qpos[m.joint(f"s{i}_{k}_l").qposadr[0]] = targets[k]
            for k in range(PIECES):
                vector = targets[PIECES + 1 + 3 * k : PIECES + 4 + 3 * k]
                angle = float(np.linalg.norm(vector))
                mujoco.mju_axisAngle2Quat(quaternion, vector / max(angle, 1e-12), angle)
                at = m.joint(f"s{i}_{k}_b").qposadr[0]
                d.qpos[at : at + 4] = quaternion
        mujoco.mj_forward(m, d)
        for link in np.flatnonzero(start.attached):
            self._weld(int(link), np.zeros(3))
        self._held = start.attached.astype(bool)
        mujoco.mj_forward(m, d)
