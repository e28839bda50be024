"""The virtual hand leads, holds and lets go; the plant process feeds its boards in real time and answers requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from onboard.clock import SimulatedClock, WallClock
from onboard.errors import LinkError, UsageError
from onboard.robot import load_robot
from sim.hand import Grip, Hand, Pusher
from sim.imu import ImuArray
from sim.realtime import MAX_LAG_S, RealtimePlant, run
from sim.tower.coupling import BoardCoupling, open_registers
from sim.tower.feed import PlantClient, PlantFeed, Report
from sim.tower.model import TowerModel, build_model
from sim.tower.plant import TowerPlant

ROBOTS = Path(__file__).parents[2] / "robots"


@cache
def model(robot: str = "manipulator") -> TowerModel:
    return build_model(load_robot(ROBOTS / f"{robot}.toml"))


def plant(robot: str = "manipulator", seed: int = 1) -> TowerPlant:
    return TowerPlant(model(robot).spec, seed, model(robot))


class Registers:
    """Stands for a board's register file: remembers what the plant wrote, says what a test wants the board to say."""

    def __init__(self, pressures: Sequence[float] = ()) -> None:
        self.counters: list[int] = []
        self.told, self.writes = list(pressures), 0
        self.measured: Sequence[float] = []
        self.correction, self.faults, self.stopped = 0, 0, False

    def write_sample(self, counter: int, accel: Sequence[int], gyro: Sequence[int], temperature: int) -> None:
        assert len(accel) == len(gyro) == 3
        self.counters.append(counter)

    def set_rate_correction(self, steps: int) -> None:
        self.correction = steps

    def set_faults(self, bits: int) -> None:
        self.faults = bits

    def press_stop(self, pressed: bool) -> None:
        self.stopped = pressed

    def outputs(self) -> list[float]:
        return self.told

    def output_writes(self) -> int:
        return self.writes

    def write_pressures(self, pressures_pa: Sequence[float]) -> None:
        self.measured = pressures_pa


class World:
    """A coupled plant on a simulated clock, with a socket and one client."""

    def __init__(self, folder: Path) -> None:
        tower = plant()
        self.struts = {name: Registers() for name in tower.spec.struts}
        assert tower.spec.actuators is not None
        self.valves = {board.id: Registers([4.0e5] * 8) for board in tower.spec.actuators.boards}
        self.coupling = BoardCoupling(tower, ImuArray(tower.spec, 1), self.struts, self.valves)
        self.clock = SimulatedClock(100.0)
        self.feed = PlantFeed(folder / "plant.sock")
        self.plant = RealtimePlant(self.coupling, self.feed, self.clock)
        self.client = PlantClient(folder / "plant.sock")

    def run_s(self, seconds: float) -> None:
        for _ in range(round(seconds / 0.01)):
            self.clock.advance(0.01)
            self.plant.run_due()
            self.client.poll()

    def reports(self) -> list[Report]:
        """All since the last call."""
        while self.client.poll():
            pass
        found = list(self.client.reports)
        self.client.reports.clear()
        return found


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.client.close()
    made.feed.close()


@pytest.mark.parametrize(("tilt_deg", "azimuth_deg", "pressure_pa"), [(50, 130, 3.5e5), (25, -100, 2.0e5)])
def test_the_hand_leads_the_tip_to_the_wanted_tilt_and_holds_it(tilt_deg: float, azimuth_deg: float, pressure_pa: float) -> None:
    tower = plant()
    tower.set_setpoints(np.full(40, pressure_pa))
    hand = Hand(tower.tower.rest_height_m)
    hand.lead_to(np.radians(tilt_deg), np.radians(azimuth_deg))
    strongest = 0.0
    for _ in range(400):
        hand.update(tower, tower.truth())
        strongest = max(strongest, float(np.linalg.norm(hand.force_n)))
        tower.step(5)
    truth = tower.truth()
    assert np.degrees(hand.error_rad(truth)) < 0.5
    assert np.degrees(truth.tip_tilt_rad) == pytest.approx(tilt_deg, abs=0.5)
    assert strongest <= hand.grip.max_force_n
    hand.let_go()
    hand.update(tower, truth)
    tower.step(2500)
    assert np.degrees(tower.truth().tip_tilt_rad) < 0.3 * tilt_deg


def test_a_weak_hand_does_what_it_can_and_no_more() -> None:
    tower = plant()
    hand = Hand(tower.tower.rest_height_m, Grip(max_force_n=3.0))
    hand.lead_to(np.radians(60.0), 0.0)
    for _ in range(300):
        hand.update(tower, tower.truth())
        assert np.linalg.norm(hand.force_n) <= 3.0 + 1e-9
        tower.step(5)
    assert 3.0 < np.degrees(tower.truth().tip_tilt_rad) < 20.0


def test_a_hand_refuses_nonsense() -> None:
    with pytest.raises(UsageError):
        Hand(float("nan"))
    for tilt, azimuth in ((float("nan"), 0.0), (-0.1, 0.0), (2.0, 0.0), (0.5, float("inf"))):
        with pytest.raises(UsageError):
            Hand(1.0).lead_to(tilt, azimuth)


def test_random_pushes_come_and_go_and_repeat_with_their_seed() -> None:
    tracks = []
    for seed in (1, 1, 2):
        tower, pusher = plant(), Pusher(seed, 5, peak_n=8.0)
        track = []
        for _ in range(250):
            pusher.update(tower)
            tower.step(5)
            track.append(tower.truth().tip_m)
        tracks.append(np.array(track))
    assert np.array_equal(tracks[0], tracks[1])
    assert not np.array_equal(tracks[0], tracks[2])
    assert np.linalg.norm(tracks[0][:, :2], axis=1).max() > 0.05


def test_the_plant_feeds_every_board_and_obeys_the_valves(world: World) -> None:
    world.run_s(0.5)
    assert all(45 <= len(board.counters) <= 60 for board in world.struts.values())
    assert all(board.counters == list(range(1, len(board.counters) + 1)) for board in world.struts.values())
    assert len({board.correction for board in world.struts.values()}) > 3
    np.testing.assert_allclose(world.coupling.plant.pressures_pa(), 3.5e5, rtol=1e-6)  # no board has spoken yet
    for board in world.valves.values():
        board.writes = 1
    world.run_s(1.0)
    np.testing.assert_allclose(world.coupling.plant.pressures_pa(), 4.0e5, rtol=1e-4)
    measured = np.array([board.measured for board in world.valves.values()])
    assert 100.0 < np.std(measured) < 1500.0
    np.testing.assert_allclose(measured, 4.0e5, atol=5000.0)
    assert world.coupling.violation_pa <= 0.0


def test_truth_goes_out_with_host_times_and_requests_come_in(world: World) -> None:
    world.client.ask("lead_to", tilt_rad=0.5, azimuth_rad=0.0)
    world.client.ask("bus", board="strut03", faults=2)
    world.client.ask("press_stop", board="valve1", pressed=True)
    world.client.ask("fault", strut="strut07", kind="missing")
    world.run_s(3.0)
    reports = world.reports()
    assert len(reports) == pytest.approx(150, abs=4)
    np.testing.assert_allclose([r.t_s - r.plant_s for r in reports], 100.0, atol=1e-6)
    assert reports[-1].holding
    assert reports[-1].hand_error_rad < 0.05
    np.testing.assert_allclose(reports[-1].tip_m, world.coupling.plant.truth().tip_m, atol=0.02)
    assert world.struts["strut03"].faults == 2
    assert world.valves["valve1"].stopped
    assert len(world.struts["strut07"].counters) < 10
    world.client.ask("let_go")
    world.run_s(0.1)
    assert not world.reports()[-1].holding
    world.client.ask("quit")
    world.run_s(0.1)
    assert world.plant.quit


def test_requests_that_make_no_sense_are_answered_and_change_nothing(world: World) -> None:
    world.client.ask("fly")
    world.client.ask("lead_to", tilt_rad="up")
    world.client.ask("lead_to", tilt_rad=9.0, azimuth_rad=0.0)
    world.client.ask("bus", board="nobody", faults=1)
    world.client._socket.sendall(b"{nonsense\n")
    world.run_s(0.1)
    refused = [report.refused for report in world.reports() if report.refused]
    assert len(refused) == 5
    assert any("unknown request 'fly'" in text for text in refused)
    assert any("no board 'nobody'" in text for text in refused)
    assert not world.plant.hand.holding


def test_a_stall_moves_the_schedule_instead_of_racing_after_it(world: World) -> None:
    world.run_s(0.1)
    before = world.coupling.plant.time_s
    world.clock.advance(3.0)
    world.plant.run_due()
    assert world.plant.slips == 1
    assert world.coupling.plant.time_s - before <= MAX_LAG_S
    world.run_s(0.1)
    assert world.plant.lag_s < 0.02


def test_a_broken_simulation_tells_its_clients_and_ends(tmp_path: Path) -> None:
    world = World(tmp_path)
    live = RealtimePlant(world.coupling, world.feed, WallClock())
    ended: list[Exception] = []

    def process() -> None:
        try:
            run(live, lambda: False)
        except Exception as error:
            ended.append(error)

    world.feed.requests()  # let the client in
    world.coupling.plant.data.qpos[5] = np.nan
    thread = threading.Thread(target=process)
    thread.start()
    thread.join(20.0)
    assert ended and "broke down" in str(ended[0])
    assert any("broke down" in report.failed for report in world.reports())
    assert not (tmp_path / "plant.sock").exists()


def test_only_the_owner_may_connect_and_missing_boards_are_named(world: World, tmp_path: Path) -> None:
    assert (world.feed.path.stat().st_mode & 0o777) == 0o600
    with pytest.raises(LinkError, match="no plant answers"):
        PlantClient(tmp_path / "nothing.sock")
    with pytest.raises(UsageError, match=r"strut00.*start the virtual boards"):
        open_registers(world.coupling.plant.spec, tmp_path)
    with pytest.raises(UsageError, match="strut05"):
        struts = {name: board for name, board in world.struts.items() if name != "strut05"}
        BoardCoupling(world.coupling.plant, world.coupling.sensors, struts, world.valves)
