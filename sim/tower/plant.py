"""A strut tower that moves: pressures and forces in, true poses, pressures and inertial quantities out."""

from __future__ import annotations

import mujoco
import numpy as np
import numpy.typing as npt

from onboard.errors import NotANumberError, PrestressError, UsageError
from onboard.messages import Floats
from onboard.robot import RobotSpec
from sim.tower.model import TowerModel, build_model
from sim.tower.truth import DiscFit, TowerTruth

G_M_S2 = 9.81  # MuJoCo's gravity
NUDGE_M_S = 0.01  # a symmetric start stays up even when it is unstable: every start is disturbed by this
SETTLE_LIMIT_S = 8.0
SETTLED_M_S = 2e-4
# Warnings after which MuJoCo's numbers mean nothing; it would restore the start state or drop the control and go on.
_FATAL = np.array(
    [
        int(mujoco.mjtWarning.mjWARN_BADQPOS),
        int(mujoco.mjtWarning.mjWARN_BADQVEL),
        int(mujoco.mjtWarning.mjWARN_BADQACC),
        int(mujoco.mjtWarning.mjWARN_BADCTRL),
    ]
)


class PlantError(PrestressError):
    """The simulation broke down (not a number, or the simulator reset itself): no result of this trial may be used."""


class TowerPlant:
    """The MuJoCo plant of `spec`, settled at rest pressure at time 0. The same seed gives the same run, bit for bit."""

    def __init__(self, spec: RobotSpec, seed: int, model: TowerModel | None = None) -> None:
        self.spec, self.tower = spec, spec.structure
        self.model = model or build_model(spec)
        self._mj, self._data = self.model.mj, mujoco.MjData(self.model.mj)
        self._rng = np.random.default_rng(seed)
        self._fit = DiscFit(self.tower)
        self._force = np.zeros((self.tower.modules + 1, 3))
        self._pushed = False
        self._accel, self._gyro = (a[:, None] + np.arange(3) for a in (self.model.accel, self.model.gyro))
        self.timestep_s = float(self._mj.opt.timestep)
        self._expected_time = 0.0
        if spec.actuators is not None:
            self._data.act[:] = spec.actuators.rest_pressure_pa
            self._data.ctrl[:] = spec.actuators.rest_pressure_pa
        self._settle()

    # Driving

    def step(self, n: int = 1) -> None:
        """Advance by n time steps; raises PlantError when the simulator reports nonsense."""
        if self._pushed:
            for _ in range(n):
                self._apply_forces()
                mujoco.mj_step(self._mj, self._data)
        else:
            mujoco.mj_step(self._mj, self._data, nstep=n)
        self._expected_time += n * self.timestep_s
        self._check()

    def set_setpoints(self, pressure_pa: npt.ArrayLike) -> None:
        """Set-points (A,) of the valves [Pa] in channel order, clamped to the valves' range; raises NotANumberError."""
        value = np.asarray(pressure_pa, dtype=float)
        if value.shape != (self.channels,):
            raise UsageError(f"{self.spec.name}: pressures have shape {value.shape}, the plant has {self.channels} channels")
        if not np.all(np.isfinite(value)):
            raise NotANumberError(f"pressure set-point of channel {int(np.argmin(np.isfinite(value)))} is not a number")
        valves = self.spec.actuators
        if valves is not None:
            self._data.ctrl[self.model.actuator] = np.clip(value, valves.min_pressure_pa, valves.max_pressure_pa)

    def push(self, force_n: npt.ArrayLike, loop: int = -1) -> None:
        """Hold a force (3,) [N], world axes, on loop 1 .. M (default: the tip), shared by its upper joints, until changed."""
        force = np.asarray(force_n, dtype=float)
        if force.shape != (3,) or not np.all(np.isfinite(force)):
            raise NotANumberError(f"push needs three finite components, got {force_n!r}")
        if loop == 0 or not -self.tower.modules <= loop <= self.tower.modules:
            raise UsageError(f"loop {loop} cannot be pushed: loops 1 .. {self.tower.modules} are free")
        self._force[loop] = force
        self._pushed = bool(np.any(self._force))
        if not self._pushed:
            self._data.xfrc_applied[:] = 0.0

    def release(self) -> None:
        """Take all pushes away."""
        self._force[:] = 0.0
        self._pushed = False
        self._data.xfrc_applied[:] = 0.0

    def weigh(self, share: float) -> None:
        """Change gravity to `share` (0 .. 2) of the earth's: at 0 the tower feels what it would in free fall."""
        if not (np.isfinite(share) and 0.0 <= share <= 2.0):
            raise UsageError(f"share of gravity is {share}: must lie in 0 .. 2")
        self._mj.opt.gravity[2] = -G_M_S2 * share

    # Looking

    @property
    def time_s(self) -> float:
        """Simulated time [s]."""
        return float(self._data.time)

    @property
    def channels(self) -> int:
        """Number of actuator channels."""
        return len(self.model.actuator)

    @property
    def data(self) -> mujoco.MjData:
        """MuJoCo's own state, for rendering and tests."""
        return self._data

    @property
    def warnings(self) -> dict[str, int]:
        """MuJoCo's warning counters that are not zero."""
        names = mujoco.mjtWarning.__members__
        found = {name: int(self._data.warning[int(kind)].number) for name, kind in names.items() if name != "mjNWARNING"}
        return {name: count for name, count in found.items() if count}

    def pressures_pa(self) -> Floats:
        """Chamber pressures (A,) [Pa] in channel order."""
        value: Floats = self._data.act[self._mj.actuator_actadr[self.model.actuator]].copy()
        return value

    def measured_pressures_pa(self) -> Floats:
        """Chamber pressures (A,) as the boards' sensors see them, with noise [Pa]."""
        noise = self.spec.simulation.pressure_noise_pa
        return self.pressures_pa() + self._rng.normal(0.0, noise, self.channels)

    def truth(self) -> TowerTruth:
        """Disc poses, directions, lengths and warp at the present time."""
        mujoco.mj_kinematics(self._mj, self._data)
        mujoco.mj_tendon(self._mj, self._data)
        lower = self._data.site_xpos[self.model.lower_site]
        upper = self._data.site_xpos[self.model.upper_site]
        position, rotation, warp = self._fit.fit(lower, upper)
        direction = (upper - lower).reshape(-1, 3)
        return TowerTruth(
            t_s=self.time_s,
            position_m=position,
            rotation=rotation,
            direction=direction / np.linalg.norm(direction, axis=1, keepdims=True),
            cable_length_m=self._data.ten_length[self.model.cable].copy(),
            warp_m=warp,
            pressure_pa=self.pressures_pa(),
        )

    def imu_truth(self) -> tuple[Floats, Floats]:
        """Specific force (n, 3) [m/s^2] and angular rate (n, 3) [rad/s] at every strut's middle, in strut axes.

        Both belong to the start of the last step, `time_s - timestep_s`; the specific force is the mean over that step
        (under the discrete integrator accelerations are differences of velocity), which at 2 ms is far faster than any
        sensor's own filter.
        """
        sensed = self._data.sensordata
        return sensed[self._accel], sensed[self._gyro]

    # Inside

    def _settle(self) -> None:
        # Only translations: nothing brakes a strut's spin about its own axis, so a nudge of that would last for ever.
        for address in self._mj.jnt_dofadr[self._mj.jnt_type == mujoco.mjtJoint.mjJNT_FREE]:
            self._data.qvel[address : address + 3] = self._rng.normal(0.0, NUDGE_M_S, 3)
        if self.tower.modules == 1:
            self._data.qvel[:2] = self._rng.normal(0.0, NUDGE_M_S / self.tower.strut_length_m, 2)
        calm = 0
        for _ in range(round(SETTLE_LIMIT_S / self.timestep_s)):
            self.step()
            calm = calm + 1 if np.abs(self._data.qvel).max() < SETTLED_M_S else 0
            if calm * self.timestep_s > 0.2:
                break
        self._data.time = self._expected_time = 0.0

    def _apply_forces(self) -> None:
        n = self.tower.struts_per_module
        sites = self.model.upper_site
        for module in np.flatnonzero(np.any(self._force[1:], axis=1)):
            bodies = self.model.strut_body[module * n : (module + 1) * n]
            arm = self._data.site_xpos[sites[module]] - self._data.xipos[bodies]
            share = self._force[module + 1] / n
            self._data.xfrc_applied[bodies, :3] = share
            self._data.xfrc_applied[bodies, 3:] = np.cross(arm, share)

    def _check(self) -> None:
        numbers = self._data.warning.number
        if numbers[_FATAL].any():
            bad = [mujoco.mjtWarning(int(kind)).name for kind in _FATAL if numbers[kind]]
            raise PlantError(f"the simulation of {self.spec.name} broke down near {self._expected_time:.3f} s: {', '.join(bad)}")
        if abs(self._data.time - self._expected_time) > 0.5 * self.timestep_s:
            raise PlantError(f"the simulator of {self.spec.name} reset itself near {self._expected_time:.3f} s")
        self._expected_time = float(self._data.time)


def bend_setpoints_pa(spec: RobotSpec, azimuth_rad: float, amplitude_pa: float) -> Floats:
    """Set-points (A,) that bend the tower towards `azimuth_rad`: rest pressure plus amplitude x cos of the azimuth gap.

    A cylinder's azimuth is that of its middle in the nominal shape. Cylinders on the side it bends to pull harder.
    """
    tower, valves = spec.structure, spec.actuators
    if valves is None:
        raise UsageError(f"{spec.name} has no valves to bend with")
    lower, upper = tower.rest_joints_m()
    ends = [tower.cable_ends()[c] for c in tower.cylinders]
    middle = np.array([upper[m, j] + lower[m, i] for m, j, i in ends])
    azimuth = np.arctan2(middle[:, 1], middle[:, 0])
    value = valves.rest_pressure_pa + amplitude_pa * np.cos(azimuth - azimuth_rad)
    return np.clip(value, valves.min_pressure_pa, valves.max_pressure_pa)
