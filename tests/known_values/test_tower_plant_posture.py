"""Estimation and control on the plant's own clock: the numbers that `prestress evaluate posture` stands for, in small."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from onboard.errors import UsageError
from onboard.messages import Floats, ImuBatch, PoseEstimate
from onboard.robot import RobotSpec, load_robot
from sim.evaluate.loop import LATENCY_S, LinkModel, SimulatedLoop
from sim.evaluate.metrics import tip_rmse_pct
from sim.evaluate.posture import run_trial
from sim.imu import ImuArray
from sim.tower.model import TowerModel, build_model
from sim.tower.plant import bend_setpoints_pa

ROBOT = Path(__file__).parents[2] / "robots" / "manipulator.toml"


@cache
def prepared() -> tuple[RobotSpec, TowerModel]:
    spec = load_robot(ROBOT)
    return spec, build_model(spec)


def test_batches_arrive_late_in_order_of_their_sequence_and_complete() -> None:
    spec, _ = prepared()
    sensors = ImuArray(spec, 1)
    link = LinkModel(spec, sensors.scale, 1)
    force, rate = np.tile([0.0, 0.0, 9.81], (20, 1)), np.zeros((20, 3))
    got: list[ImuBatch] = []
    for k in range(1000):
        link.send(sensors.update(k * 0.002, force, rate))
        arrived = link.receive(k * 0.002)
        assert all(batch.received_s <= k * 0.002 for batch in arrived)
        got += arrived
    mine = [batch for batch in got if batch.strut == 7]
    assert [batch.sequence for batch in sorted(mine, key=lambda b: b.sequence)] == list(range(0, 2 * len(mine), 2))
    assert len(mine) == pytest.approx(104, abs=4)
    age = np.array([batch.received_s - batch.t_s[-1] for batch in got])
    assert age.min() > LATENCY_S - 0.001
    assert np.median(age) < 0.008


def test_the_tip_is_known_to_two_per_cent_while_the_arm_bends_itself() -> None:
    spec, model = prepared()
    loop = SimulatedLoop(spec, 1000, model)
    target = bend_setpoints_pa(spec, 0.8, 1.0e5)

    def bend(t_s: float, estimate: PoseEstimate, measured: Floats) -> Floats:
        step = 2.0e5 / spec.rates.estimator_hz
        return loop.setpoints_pa + np.clip(target - loop.setpoints_pa, -step, step)

    loop.warm_up(3.0)
    track = loop.run(3.0, bend)
    assert np.degrees(max(track.tilt_rad)) > 35.0
    tips = [np.array(part) for part in (track.t_s, track.estimate_m, track.truth_t_s, track.truth_m)]
    assert tip_rmse_pct(*tips, spec.structure.rest_height_m) < 2.0


def test_the_same_seed_gives_the_same_run() -> None:
    spec, model = prepared()
    ends = []
    for _ in range(2):
        loop = SimulatedLoop(spec, 1003, model)
        loop.warm_up(0.5)
        assert loop.estimate is not None
        ends.append(np.concatenate([loop.estimate.tip_m, loop.truth.tip_m]))
    assert np.array_equal(ends[0], ends[1])


def test_a_robot_without_valves_has_no_posture_to_hold() -> None:
    import argparse

    from sim.evaluate.posture import evaluate_posture

    parser = argparse.ArgumentParser()
    run = evaluate_posture(parser)
    with pytest.raises(UsageError, match="module_rig has no valves"):
        run(parser.parse_args([str(ROBOT.with_name("module_rig.toml"))]))
    for wrong in (["--seeds", "0"], ["--processes", "0"]):
        with pytest.raises(UsageError, match="must lie in"):
            run(parser.parse_args(wrong))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["active", "pushed", "taught"])
def test_every_trial_reaches_its_target(kind: str) -> None:
    result = run_trial((str(ROBOT), kind, 1001, 15.0))
    assert result.violations == 0
    assert result.tip_rmse_pct < 2.0
    assert all(error < 1.0 for error in result.errors_pct)
    assert len(result.errors_pct) == (3 if kind == "taught" else 0)
