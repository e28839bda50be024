"""Episodes are recorded, kept, split and refused as they should be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.errors import UsageError
from sim.three_bar.motors import rest_lengths_over
from sim.three_bar.robot_file import ThreeBar, physics_hash

pytest.importorskip("torch")

from offboard.three_bar.collect import CollectSettings, collect
from offboard.three_bar.dataset import (
    DataError,
    data_hash,
    episode_files,
    load_dataset,
    read_episode,
    shard_path,
    split_of,
    write_episode,
)
from offboard.three_bar.episodes import DRIVES, run_episode
from offboard.three_bar.terrains import TERRAINS, TRAINING_COURSES, random_ground
from offboard.three_bar.windows import Windows, hermite
from onboard.models.strut_dynamics import nearest_rows

SMALL = CollectSettings(seed=3, episodes=11, seconds=3.0, drives=("bang", "primitives"), terrains=("flat", "walls"))


def silent(done: int, total: int) -> None:
    """A progress bar that shows nothing."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data")
    counts = collect(path, SMALL, 1, silent)
    assert counts == {"made": 11, "kept": 0, "failed": 0}
    return path


@pytest.mark.parametrize("drive", [drive for drive in DRIVES if drive != "value"])
def test_an_episode_follows_from_its_seed_and_from_the_motor_law(spec: ThreeBar, drive: str) -> None:
    first = run_episode(spec, "walls", drive, 3.0, (1, 5), mppi_samples=4)
    again = run_episode(spec, "walls", drive, 3.0, (1, 5), mppi_samples=4)
    assert np.array_equal(first.caps_u, again.caps_u)
    assert first.caps_u.shape == (301, 6, 3)
    assert np.abs(first.command).max() <= 1.0
    rests, speeds = rest_lengths_over(
        spec.actuators, first.rest_u[0], first.speed_rad_s[0], first.command[None], spec.plant.step_s
    )
    assert rests[0] == pytest.approx(first.rest_u[1:], abs=1e-12)
    assert speeds[0] == pytest.approx(first.speed_rad_s[1:], abs=1e-9)


def test_mppi_drives_towards_its_goals(spec: ThreeBar) -> None:
    episode = run_episode(spec, "flat", "mppi", 5.0, (0, 2), mppi_samples=16)
    com = episode.caps_u.mean(axis=1)
    assert np.hypot(*(com[-1] - com[0])[:2]) > 0.5


@pytest.mark.parametrize("terrain", [*TERRAINS, *(f"course:{name}" for name in TRAINING_COURSES)])
def test_every_ground_can_be_stood_on(spec: ThreeBar, terrain: str) -> None:
    from sim.three_bar.plant import Plant

    for seed in range(3):
        ground = random_ground(np.random.default_rng(seed), terrain)
        plant = Plant(spec, ground.scene)
        plant.reset(ground.x_u, ground.y_u, ground.yaw_rad)
        plant.settle(0.3)


def test_what_is_there_is_not_done_again_and_what_is_damaged_is(folder: Path) -> None:
    before = {path.name: path.read_bytes() for path in episode_files(folder)}
    shard_path(folder, 4).write_bytes(b"not an episode")
    shard_path(folder, 5).write_bytes(before["episode_000005.npz"][:-700])
    shard_path(folder, 6).unlink()
    assert collect(folder, SMALL, 1, silent) == {"made": 3, "kept": 8, "failed": 0}
    for name in before:
        assert np.array_equal(read_episode(folder / name).caps_u, np.load(folder / name)["caps_u"])
    assert {path.name: len(path.read_bytes()) for path in episode_files(folder)} == {k: len(v) for k, v in before.items()}


def test_a_folder_keeps_to_one_kind_of_data(folder: Path) -> None:
    with pytest.raises(DataError, match="seed = 3, not 4"):
        collect(folder, replace(SMALL, seed=4), 1, silent)
    with pytest.raises(UsageError, match="unknown terrain moon"):
        collect(folder, replace(SMALL, terrains=("moon",)), 1, silent)


def test_splits_are_by_episode_and_fixed(folder: Path) -> None:
    assert [split_of(i) for i in range(10)] == ["train"] * 8 + ["validate", "test"]
    names = {
        split: [s.about["index"] for s in load_dataset([folder], physics_hash(), (split,))]
        for split in ("train", "validate", "test")
    }
    assert names == {"train": [0, 1, 2, 3, 4, 5, 6, 7, 10], "validate": [8], "test": [9]}
    combinations = {SMALL.plan(i) for i in range(8)}
    assert len(combinations) == 4
    tested = {SMALL.plan(i) for i in range(400) if split_of(i) == "test"}
    assert tested == combinations, "no combination of drive and ground is missing from the test split"


def test_empty_foreign_mixed_and_broken_data_are_refused_by_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="holds no episodes"):
        load_dataset([tmp_path], physics_hash())
    with pytest.raises(DataError, match="another robot"):
        load_dataset([folder], "0" * 64)
    good = run_episode_from(folder)
    for name, change, message in (
        ("caps_u", np.nan, "caps_u holds values that are not finite"),
        ("rest_u", np.inf, "rest_u holds values that are not finite"),
    ):
        broken = {key: getattr(good, key).copy() for key in ("caps_u", "rest_u", "speed_rad_s", "command", "world")}
        broken[name].flat[7] = change
        about = np.frombuffer(json.dumps(good.about).encode(), dtype=np.uint8)
        np.savez(tmp_path / "episode_000000.npz", about=about, **broken)
        with pytest.raises(DataError, match=message) as caught:
            load_dataset([tmp_path], physics_hash())
        assert "episode_000000" in str(caught.value)
    slow = tmp_path / "slow"
    episode = run_episode_as_written(folder)
    write_episode(slow, 0, episode, physics_hash(), 0.02)
    with pytest.raises(DataError, match=r"plant step 0\.02 s among"):
        load_dataset([folder, slow], physics_hash())


def run_episode_from(folder: Path):
    return read_episode(shard_path(folder, 0))


def run_episode_as_written(folder: Path):
    from offboard.three_bar.episodes import Episode

    s = run_episode_from(folder)
    return Episode(s.caps_u, s.rest_u, s.speed_rad_s, s.command, s.world, "flat", "bang", (0, 0))


def test_pickled_objects_are_not_loaded(tmp_path: Path) -> None:
    np.savez(tmp_path / "episode_000000.npz", caps_u=np.array([object()], dtype=object))
    with pytest.raises(DataError, match="not a readable episode"):
        read_episode(tmp_path / "episode_000000.npz")


def test_a_folder_that_cannot_be_written_is_said_so(folder: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(DataError, match="file"):
        write_episode(blocked / "inside", 0, run_episode_as_written(folder), physics_hash(), 0.01)
    with pytest.raises(DataError):
        collect(blocked, SMALL, 1, silent)


def test_the_data_hash_sees_every_byte(folder: Path, tmp_path: Path) -> None:
    before = data_hash([folder])
    assert data_hash([folder]) == before
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in episode_files(folder):
        (copy / path.name).write_bytes(path.read_bytes())
    assert data_hash([copy]) == before
    (copy / "episode_000003.npz").unlink()
    assert data_hash([copy]) != before


def test_windows_give_velocities_over_exactly_four_steps(folder: Path) -> None:
    shards = load_dataset([folder], physics_hash(), ("train",))
    windows = Windows(shards, chunk_steps=20, chunks=5, step_s=0.01)
    numbers = np.array([0, 7, len(windows) - 1])
    batch = windows.batch(numbers)
    first = shards[0]
    start = 4
    assert batch.caps[0, :, 0].numpy() == pytest.approx(first.caps_u[start])
    assert batch.caps[3, :, 1].numpy() == pytest.approx(first.caps_u[start + 7 + 60])
    moved = first.caps_u[start + 20] - first.caps_u[start + 16]
    assert batch.velocity[1, :, 0].numpy() == pytest.approx(moved / 0.04, rel=1e-5)
    assert batch.rest[:, :, 0].numpy() == pytest.approx(first.rest_u[start : start + 101 : 10])
    last = shards[-1]
    assert batch.caps[-1, :, 2].numpy() == pytest.approx(last.caps_u[-1])
    steady = np.zeros((12, 6, 3), dtype=np.float32) + 0.02 * np.arange(12)[:, None, None].astype(np.float32)
    moving = replace(
        first, caps_u=steady, rest_u=first.rest_u[:12], speed_rad_s=first.speed_rad_s[:12], command=first.command[:11]
    )
    only = Windows([moving], chunk_steps=2, chunks=1, step_s=0.01).batch(np.array([0]))
    assert only.velocity.numpy() == pytest.approx(2.0, rel=1e-4), "0.02 a step of 0.01 s is 2 a second"
    with pytest.raises(DataError, match="as long as"):
        Windows([moving], chunk_steps=20, chunks=1, step_s=0.01)


def test_no_window_crosses_from_one_episode_into_the_next(folder: Path) -> None:
    shards = load_dataset([folder], physics_hash(), ("train",))
    windows = Windows(shards, chunk_steps=20, chunks=10, step_s=0.01)
    dense = windows.dense_caps(np.arange(0, len(windows), 13))
    assert np.abs(np.diff(dense, axis=1)).max() < 0.3


def test_hermite_is_exact_for_cubics_and_passes_through_its_ends() -> None:
    t = np.linspace(0.0, 0.4, 41)
    curve, slope = 1 + 2 * t - 3 * t**2 + 4 * t**3, 2 - 6 * t + 12 * t**2
    got = hermite(np.array([curve[0], slope[0]]), curve[[20, 40]], slope[[20, 40]], 20, 0.01)
    assert got == pytest.approx(curve[1:])


def test_nearest_rows_keep_the_floor_when_it_is_near_and_drop_what_is_far() -> None:
    from sim.three_bar.course import load_course, scene_of

    world = scene_of(load_course("three_d")).world(16)
    near = nearest_rows(world[None], np.array([[18.0, 5.0, 0.9]]), 6)[0]
    heights = {tuple(row[:3]) for row in near}
    assert tuple(world[0, :3]) in heights, "the floor"
    assert (11.0, 8.25, 1.25) in heights, "the wall of the corridor"
    assert (-5.0, -15.0, 0.441) not in heights
