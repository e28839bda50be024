"""The worm's plant in MuJoCo: it holds its shape, bends by its load, and a run on it repeats."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.planning.contact.execution.executor import Mode
from onboard.planning.contact.execution.ports import Command
from onboard.planning.contact.execution.pressures import chamber_pressures, gravity_sag
from onboard.planning.contact.kinematics import chain
from onboard.planning.contact.plan import State
from onboard.planning.contact.scene import load_scene
from onboard.planning.contact.worm import load_worm
from sim.worm.faults import Imperfections
from sim.worm.plant import WormPlant
from sim.worm.trials import carry_out, prepare

PERFECT = replace(Imperfections(), hysteresis=0.0, leak_per_s=0.0, seal_pct=100.0, slip_m=0.0)


@pytest.fixture(scope="module")
def spec(root: Path):
    return load_worm(root / "robots" / "worm_hardware.toml")


def on_the_wall(spec, root: Path) -> tuple[WormPlant, State]:
    """A body that stands out from a wall, held by its tail alone, far from everything else."""
    scene = load_scene(root / "robots" / "scenes" / "worm_floor_wall_ceiling.toml")
    shape = np.tile([0.09, 0.0, 0.0], (2, 1))
    frames = np.empty((3, 3, 4))
    chain(np.array([[0, 0, 1, 0.4], [0, -1, 0, 0.3], [1, 0, 0, 0.3]], dtype=float), shape, frames)
    state = State(frames, shape, np.array([1, 0, 0], dtype=np.uint8))
    return WormPlant(spec, scene, state, PERFECT, 0), state


def test_gravity_bends_a_cantilever_and_the_feed_forward_takes_most_of_it_back(spec, root: Path) -> None:
    bends = []
    for forward in (False, True):
        plant, state = on_the_wall(spec, root)
        plant._held[:] = plant.suction.tight[:] = [True, False, False]
        for _ in range(50):
            plant.suction.vacuum_pa[0], plant.suction.tight[0], plant.suction._tried[0] = 50_000.0, True, True
            sag = gravity_sag(spec, plant.frames(), state.shape, state.attached) if forward else None
            plant.send(Command(plant.t_s, chamber_pressures(spec, state.shape, sag), np.array([True, False, False])))
            plant.advance(0.04)
        bends.append(plant.state().shape[:, 2])
    weights = -gravity_sag(spec, state.frames, state.shape, state.attached)[:, 1]  # by statics, tested on its own
    np.testing.assert_allclose(bends[0], weights, rtol=0.2)
    assert np.all(np.abs(bends[1]) < 0.3 * np.abs(weights))
    assert np.degrees(np.arccos(plant.frames()[0, 2, 0])) < 6.0, "the pad carries the moment"


@pytest.mark.long
def test_a_seed_gives_the_same_run(spec) -> None:
    first, again = (carry_out(prepare(spec, "planar", 3), "planar", 12.0) for _ in range(2))
    assert replace(first, planning_s=[]) == replace(again, planning_s=[])


@pytest.mark.long
def test_a_crawl_onto_the_slope_arrives_without_a_fall(spec) -> None:
    assert carry_out(prepare(spec, "slope", 1), "slope").success


@pytest.mark.long
def test_a_frozen_link_leaves_the_pads_as_they_are(spec) -> None:
    run = prepare(spec, "slope", 1)
    carry_out(run, "slope", 10.0)
    run.plant.faults.frozen = True
    on = run.plant.suction.on.copy()
    for _ in range(100):
        run.plant.advance(0.05)
        run.executor.tick(run.plant.t_s)
    np.testing.assert_array_equal(run.plant.suction.on, on)


@pytest.mark.long
def test_an_emergency_stop_on_the_slope_holds_the_worm_where_it_is(spec) -> None:
    run = prepare(spec, "slope", 1)
    carry_out(run, "slope", 20.0)
    run.executor.stop()
    on = run.plant.suction.on.copy()
    run.plant.imperfections = replace(run.plant.imperfections, leak_per_s=0.0)
    for _ in range(200):
        run.plant.advance(0.05)
        run.executor.tick(run.plant.t_s)
    assert run.executor.mode is Mode.HOLDING
    np.testing.assert_array_equal(run.plant.suction.on, on)
    assert run.plant.suction.sealed.any()
