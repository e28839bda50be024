"""Plant, sensors, link, orientation, estimator and controller of one robot on a simulated clock, as fast as it runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, fields

import numpy as np

from onboard.errors import EstimationError
from onboard.messages import Floats, ImuBatch, PoseEstimate, SensorFlag, frozen
from onboard.ports import Estimator, OrientationSource
from onboard.robot import RobotSpec
from sim.imu import ImuArray, ImuSamples
from sim.tower.model import TowerModel
from sim.tower.plant import TowerPlant
from sim.tower.truth import TowerTruth

# What the link does to a packet, from measurements of it on loopback: a fixed part, an exponential part, and the error of a
# board's clock against the host's.
LATENCY_S = 0.002
LATENCY_TAIL_S = 0.0015
CLOCK_ERROR_S = 1.2e-4
COMMAND_DELAY_S = 0.004  # from control tick to converter: serial line and the board's own turn
COMMAND_UNIT_PA = 100.0  # one count of a set-point on the wire


class LinkModel:
    """Makes batches of samples as boards send them, late as a link makes them, with times as clock synchronisation has them."""

    def __init__(self, spec: RobotSpec, scale: Floats, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 0x71CC])
        self._batch, self._scale = spec.imu.batch, scale
        n = len(spec.struts)
        self._clock_error = self._rng.normal(0.0, CLOCK_ERROR_S, n)
        self._open: list[list[tuple[float, Floats]]] = [[] for _ in range(n)]
        self._sequence = np.zeros(n, dtype=np.int64)
        self._under_way: list[ImuBatch] = []

    def send(self, samples: ImuSamples) -> None:
        """Samples from the sensors, oldest first."""
        for row, strut in enumerate(samples.strut.tolist()):
            values = np.concatenate([samples.accel[row], samples.gyro[row]]) * self._scale
            self._open[strut].append((float(samples.t_s[row]) + self._clock_error[strut], values))
            if len(self._open[strut]) >= self._batch:
                self._post(strut, float(samples.t_s[row]))

    def receive(self, t_s: float) -> list[ImuBatch]:
        """Batches that have arrived by `t_s`, in order of arrival."""
        arrived = sorted((b for b in self._under_way if b.received_s <= t_s), key=lambda b: b.received_s)
        if arrived:
            self._under_way = [b for b in self._under_way if b.received_s > t_s]
        return arrived

    def _post(self, strut: int, now_s: float) -> None:
        rows, self._open[strut] = self._open[strut], []
        values = np.array([value for _, value in rows])
        self._under_way.append(
            ImuBatch(
                strut=strut,
                boot_id=1,
                sequence=int(self._sequence[strut]),
                t_s=frozen([t for t, _ in rows]),
                acceleration_m_s2=frozen(values[:, :3]),
                rate_rad_s=frozen(values[:, 3:]),
                temperature_c=33.0,
                flags=SensorFlag.NONE,
                received_s=now_s + LATENCY_S + float(self._rng.exponential(LATENCY_TAIL_S)),
            )
        )
        self._sequence[strut] += len(rows)


@dataclass
class Track:
    """What happened, a row a tick. t_s, truth_t_s, tilt_rad (n,): of the tick, of the truth, of the tip; estimate_m, truth_m
    (n, 3): tips; cable_length_m (n, C): estimated; pressure_pa, setpoint_pa (n, A)."""

    t_s: list[float] = field(default_factory=list)
    estimate_m: list[Floats] = field(default_factory=list)
    truth_t_s: list[float] = field(default_factory=list)
    truth_m: list[Floats] = field(default_factory=list)
    pressure_pa: list[Floats] = field(default_factory=list)
    setpoint_pa: list[Floats] = field(default_factory=list)
    tilt_rad: list[float] = field(default_factory=list)
    cable_length_m: list[Floats] = field(default_factory=list)

    def extend(self, later: Track) -> None:
        """Append what happened next."""
        for entry in fields(self):
            getattr(self, entry.name).extend(getattr(later, entry.name))


Policy = Callable[[float, PoseEstimate, Floats], Floats]
Hands = Callable[[TowerPlant, TowerTruth], None]


class SimulatedLoop:
    """One robot's whole loop. `policy(t_s, estimate, measured)` gives set-points (A,) each tick; `hands(plant, truth)` push.

    The estimator's tick is the control tick too; both are at the file's estimator rate.
    """

    def __init__(self, spec: RobotSpec, seed: int, model: TowerModel | None = None) -> None:
        self.spec = spec
        self.plant = TowerPlant(spec, seed, model)
        self.sensors = ImuArray(spec, seed)
        self.link = LinkModel(spec, self.sensors.scale, seed)
        self.orientation: OrientationSource = spec.orientation.build(spec)
        self.estimator: Estimator = spec.estimator.build(spec)
        self._commands: deque[tuple[float, Floats]] = deque()
        self._tick = 0
        self.estimate: PoseEstimate | None = None
        self.truth = self.plant.truth()
        self.setpoints_pa: Floats = self.plant.pressures_pa()

    @property
    def t_s(self) -> float:
        """The last tick [s]."""
        return self._tick / self.spec.rates.estimator_hz

    def warm_up(self, seconds: float = 3.0) -> None:
        """Let the arm stand still at its present pressures while the filters level."""
        self.run(seconds, lambda t_s, estimate, measured: self.setpoints_pa)

    def run(self, seconds: float, policy: Policy, hands: Hands | None = None) -> Track:
        """Go on for a while; raises PlantError when the simulation breaks down."""
        track = Track()
        for _ in range(round(seconds * self.spec.rates.estimator_hz)):
            self._tick += 1
            t_s = self.t_s
            while self.plant.time_s < t_s - 1e-9:
                self._plant_step()
            self.truth = self.plant.truth()
            if hands is not None:
                hands(self.plant, self.truth)
            for batch in self.link.receive(t_s):
                self.orientation.add(batch)
            try:
                self.estimate = self.estimator.update(self.orientation.observe(t_s))
            except EstimationError:
                continue  # no strut has been heard of yet: nothing to control with
            measured = self.plant.measured_pressures_pa()
            self.setpoints_pa = policy(t_s, self.estimate, measured)
            counts = np.rint(self.setpoints_pa / COMMAND_UNIT_PA) * COMMAND_UNIT_PA
            self._commands.append((t_s + COMMAND_DELAY_S, counts))
            self._note(track, t_s)
        return track

    def _plant_step(self) -> None:
        while self._commands and self._commands[0][0] <= self.plant.time_s:
            _, value = self._commands.popleft()
            if self.plant.channels:
                self.plant.set_setpoints(value)
        self.plant.step()
        force, rate = self.plant.imu_truth()
        self.link.send(self.sensors.update(self.plant.time_s, force, rate))

    def _note(self, track: Track, t_s: float) -> None:
        assert self.estimate is not None
        track.t_s.append(t_s)
        track.estimate_m.append(self.estimate.tip_m)
        track.truth_t_s.append(self.truth.t_s)
        track.truth_m.append(self.truth.tip_m)
        track.pressure_pa.append(self.truth.pressure_pa)
        track.setpoint_pa.append(self.setpoints_pa)
        track.tilt_rad.append(self.truth.tip_tilt_rad)
        track.cable_length_m.append(self.estimate.cable_length_m)
