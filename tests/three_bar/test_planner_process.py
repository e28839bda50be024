"""The planner is a process: the newest situation in, a decision out; it may be killed, late, or given a wrong model."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from onboard.clock import WallClock, wait_s
from onboard.errors import EstimationError, PlanningError
from onboard.messages import Floats, Plan, frozen
from onboard.planning.client import PlannerClient
from onboard.planning.driver import Driver
from onboard.planning.exchange import SLOT_BYTES, Slot
from onboard.planning.gait import GaitPlayer
from onboard.planning.navigator import Decision, GaitOrder
from onboard.planning.process import Reply, Request, Worker, decision_of
from onboard.planning.strut_state import StrutTracker
from sim.three_bar.robot_file import ThreeBar
from tests.three_bar.planning_support import SETTINGS
from tests.three_bar.test_navigators import LAYOUT, START_CAPS, Slider, data, situation

GOAL = np.array([-5.0, 0.0])


def test_a_slot_holds_the_newest_message_once() -> None:
    writer = Slot.create("test")
    reader = Slot(os.dup(writer.fd))
    assert reader.read() is None
    for k in range(5):
        writer.write(b"message %d" % k)
    assert reader.read() == b"message 4" and reader.read() is None
    writer.write(b"x" * SLOT_BYTES)
    assert reader.read() == b"x" * SLOT_BYTES
    with pytest.raises(PlanningError, match="does not fit"):
        writer.write(b"x" * (SLOT_BYTES + 1))
    writer._map[writer._offset(7) : writer._offset(7) + 8] = bytes(8)  # the writer has begun the seventh message
    writer.write(b"seven")
    assert reader.read() == b"seven"
    reader.close()
    writer.close()


@pytest.fixture
def client() -> Iterator[PlannerClient]:
    client = PlannerClient(data("astar_grid"), GOAL, "", WallClock())
    yield client
    client.close()


def wait_for(client: PlannerClient, wanted: str = "", seconds: float = 60.0) -> Decision | None:
    """Poll as a control loop would until a decision, or a problem that contains `wanted`, is there."""
    import asyncio

    for _ in range(round(seconds / 0.02)):
        decision = client.poll()
        if decision is not None or (wanted and wanted in client.problem):
            return decision
        if not client.waiting:
            client.ask(situation(4.0, 0.0, -np.pi / 2))
        asyncio.run(wait_s(0.02))
    raise AssertionError(f"no answer in {seconds} s: {client.problem}")


def test_a_process_answers_moves_its_goal_and_comes_back_when_killed(client: PlannerClient) -> None:
    decision = wait_for(client)
    assert isinstance(decision, GaitOrder) and decision.name == "roll"
    assert decision.start_s == pytest.approx(1.1) and client.plan_s > 0.0

    client.set_goal(np.array([50.0, 0.0]))
    assert wait_for(client, "off the grid") is None
    client.set_goal(np.array([-5.0, -3.0]))
    assert isinstance(wait_for(client), GaitOrder), "a goal that cannot be does not end it"

    pid = client.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    assert isinstance(wait_for(client), GaitOrder)
    assert client.restarts == 1 and client.pid != pid


def test_the_process_ends_with_the_loop_that_owns_it() -> None:
    client = PlannerClient(data("astar_grid"), GOAL, "", WallClock())
    pid = client.pid
    client.close()
    assert pid is not None and not Path(f"/proc/{pid}").exists()


def request(goal: tuple[float, float], model: str = "", model_number: int = 0) -> Request:
    asked = situation(4.0, 0.0, -np.pi / 2)
    return Request(
        1, asked.t_s, asked.now_s, asked.start_s, asked.state.tobytes(), asked.lead_in.tobytes(), goal, model, model_number
    )


def test_a_model_of_another_robot_is_refused_and_the_old_one_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onboard.planning import process

    def load(navigator_data: object, manifest: Path) -> object:
        if manifest.name == "good.json":
            return Slider()
        return loads(navigator_data, manifest)  # type: ignore[arg-type]

    loads = process.load_dynamics
    monkeypatch.setattr(process, "load_dynamics", load)
    worker = Worker(data("mppi"))
    first = worker.answer(request((-5.0, 0.0), str(tmp_path / "missing.json")))
    assert "missing.json" in first.problem, "without any model there is no plan, and the reason is said"
    good = worker.answer(request((-5.0, 0.0), "good.json", 1))
    assert good.problem == "" and isinstance(decision_of(good, 6), Plan)
    manifest = {
        "format": 1, "name": "contact", "robot": "worm", "file": "contact.onnx", "onnx_sha256": "0" * 64, "onnx_bytes": 1,
        "opset": 17, "physics_hash": "0" * 64, "data_hash": "0" * 64, "commit": "", "inputs": [], "outputs": [], "tile": 64,
        "chunks": 10, "chunk_steps": 20, "step_s": 0.01, "world_rows": 2, "normalisation": {}, "parameters": 1,
        "motors": {"max_speed_rad_s": 18.0, "spool_radius_u": 0.035, "rest_min_u": 0.4, "rest_max_u": 2.7},
    }  # fmt: skip
    foreign = tmp_path / "foreign.json"
    foreign.write_bytes(msgspec.json.encode(manifest))
    swapped = settled(worker, str(foreign), 2)
    assert swapped.refused_number == 2 and "worm" in swapped.model_problem and swapped.problem == ""
    assert swapped.model == "good.json" and isinstance(decision_of(swapped, 6), Plan)


def settled(worker: Worker, model: str, number: int) -> Reply:
    """Ask for plans, as a drive does, until the model is in use or refused; every answer on the way is a plan."""
    import asyncio

    for _ in range(500):
        reply = worker.answer(request((-5.0, 0.0), model, number))
        assert reply.problem == "" and isinstance(decision_of(reply, 6), Plan)
        if number in (reply.model_number, reply.refused_number):
            return reply
        asyncio.run(wait_s(0.01))
    raise AssertionError("the model is neither used nor refused")


class Broken(Slider):
    def rollout(self, state: Floats, controls: Floats, world: Floats) -> Floats:
        return super().rollout(state, controls, world) * np.nan


class Sinking(Slider):
    """The same with another name, to be told apart."""


def test_a_model_is_swapped_between_plans_and_one_that_predicts_nonsense_never_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from onboard.planning import process

    waits = threading.Event()
    kinds = {"slow.json": Sinking, "broken.json": Broken}

    def load(navigator_data: object, manifest: Path) -> Slider:
        if manifest.name == "slow.json":
            assert waits.wait(20.0)
        return kinds.get(manifest.name, Slider)()

    monkeypatch.setattr(process, "load_dynamics", load)
    worker = Worker(data("value"))
    first = worker.answer(request((-5.0, 0.0), "first.json", 0))
    assert first.model_number == 0
    for _ in range(3):
        reply = worker.answer(request((-5.0, 0.0), "slow.json", 1))
        assert reply.model == "first.json" and isinstance(decision_of(reply, 6), Plan), "plans go on while the next one loads"
    waits.set()
    assert settled(worker, "slow.json", 1).model == "slow.json"
    assert type(worker.navigator.lead_in.dynamics) is Sinking  # type: ignore[union-attr]

    refused = settled(worker, "broken.json", 2)
    assert "not finite" in refused.model_problem and refused.model == "slow.json" and refused.model_number == 1
    assert type(worker.navigator.lead_in.dynamics) is Sinking  # type: ignore[union-attr]
    assert settled(worker, "slow.json", 3).model_number == 3, "the same file may be installed again"


def test_a_process_that_dies_after_a_refusal_comes_back_with_the_model_that_worked(client: PlannerClient) -> None:
    client.model, client.model_number, client.wanted_model = "old.json", 0, "old.json"
    assert client.set_model("bad.json") == 1 and client.swapping
    client._heed_model(Reply(1, (0.0, 0.0), "old.json", model_problem="bad.json: damaged", model_number=0, refused_number=1))
    assert client.wanted_model == "old.json" and not client.swapping and "damaged" in client.model_problem
    assert client.set_model("new.json") == 2 and client.model_problem == ""


def driver_of(spec: ThreeBar, lead_s: float = 0.1) -> Driver:
    tracker = StrutTracker(SETTINGS.state, LAYOUT, spec.bodies.cap_distance_u)
    return Driver(SETTINGS, tracker, GaitPlayer(spec.gait, spec.symmetry, 0.01), 0.01, lead_s)


def plan(start_s: float, u: float, span_s: float = 2.0) -> Plan:
    rows = frozen(np.full((round(span_s / 0.01), 6), u))
    return Plan(start_s, 0.01, rows, start_s + span_s, start_s - 0.1, 0.0)


def run(driver: Driver, begin_s: float, end_s: float) -> list[float]:
    ticks = range(round(begin_s / 0.01), round(end_s / 0.01))
    return [float(driver.command(k * 0.01, np.full(6, 1.5), np.full(6, 1.5))[0]) for k in ticks]


def test_a_plan_is_played_by_its_time_expires_and_then_the_motors_are_off(spec: ThreeBar) -> None:
    driver = driver_of(spec)
    assert driver.accept(plan(0.5, 0.7), 0.4)
    played = run(driver, 0.0, 3.0)
    assert played == [0.0] * 50 + [0.7] * 200 + [0.0] * 50
    assert driver.counts["idle"] == 100


def test_a_late_plan_is_joined_where_it_should_be_by_now_and_refused_when_it_is_over(spec: ThreeBar) -> None:
    driver = driver_of(spec)
    rising = Plan(0.0, 0.01, frozen(np.linspace(0.0, 1.0, 200)[:, None].repeat(6, axis=1)), 2.0, 0.0, 0.0)
    run(driver, 0.0, 0.5)
    assert driver.accept(rising, 0.5)
    assert run(driver, 0.5, 0.51) == [pytest.approx(50 / 199)]
    assert not driver.accept(plan(0.0, 0.7), 2.0) and driver.counts["late"] == 1
    driver.stop()
    assert run(driver, 0.51, 0.6) == [0.0] * 9


def test_what_a_plan_starts_from_is_led_in_with_what_the_motors_get(spec: ThreeBar) -> None:
    driver = driver_of(spec)
    driver.accept(plan(0.0, 0.3), 0.0)
    for k in range(40):
        t_s = k * 0.01
        driver.tracker.add_motors(t_s, np.full(6, 1.5), np.zeros(6))
        if k <= 36:
            driver.tracker.add_pose(t_s, START_CAPS)
        driver.command(t_s, np.full(6, 1.5), np.full(6, 1.5))
    asked = driver.situation(0.40, np.zeros((1, 16)))
    assert asked.t_s == pytest.approx(0.36) and asked.start_s == pytest.approx(0.50)
    assert asked.lead_in.shape == (14, 6) and np.all(asked.lead_in == 0.3)


def test_a_lost_pose_stops_planning_and_a_new_one_resumes_it(spec: ThreeBar) -> None:
    driver = driver_of(spec)
    tracker = driver.tracker
    with pytest.raises(EstimationError, match="pose"):
        driver.situation(0.0, np.zeros((1, 16)))
    velocity = np.array([0.4, -0.2, 0.0])
    for k in range(30):
        tracker.add_pose(k * 0.01, START_CAPS + velocity * k * 0.01)
        tracker.add_motors(k * 0.01, np.full(6, 1.5), np.zeros(6))
    t_s, state = tracker.state(0.3)
    assert t_s == pytest.approx(0.29)
    assert state[18:36].reshape(6, 3) == pytest.approx(np.tile(velocity, (6, 1)), abs=1e-6)
    assert not tracker.add_pose(0.31, START_CAPS * np.nan) and not tracker.add_pose(0.2, START_CAPS) and tracker.refused == 2
    for k in range(30, 240):
        tracker.add_motors(k * 0.01, np.full(6, 1.5), np.zeros(6))
    assert tracker.state(0.29 + SETTINGS.state.coast_s)[0] == pytest.approx(0.29), "short silences are coasted through"
    with pytest.raises(EstimationError, match="pose source is silent"):
        tracker.state(2.3)
    tracker.add_pose(2.30, START_CAPS)
    with pytest.raises(EstimationError, match="velocities"):
        tracker.state(2.31)
    for k in range(231, 236):
        tracker.add_pose(k * 0.01, START_CAPS)
    assert np.isfinite(tracker.state(2.36)[1]).all()
    with pytest.raises(EstimationError, match="motor boards are silent"):
        tracker.add_pose(3.2, START_CAPS)
        tracker.state(3.2)
