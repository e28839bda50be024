"""Primitive libraries are measured, hashed, and refused when damaged or foreign; poses follow from them and back."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest

from offboard.three_bar.library import measure, variants, write_library
from onboard.errors import ModelError
from onboard.planning.primitives import Entry, Library, apply, content_hash, read_library, undo
from sim.three_bar.plant import Plant
from sim.three_bar.pose import displacement
from sim.three_bar.robot_file import ThreeBar, physics_hash


@pytest.fixture(scope="module")
def entry(flat_plant: Plant) -> Entry:
    return measure(flat_plant, "cw", 1.2, 1.2, starts=1, cycles=2, seed=0)


def library_of(entry: Entry, **changes: object) -> Library:
    body = dict(
        format=1,
        robot="three_bar",
        physics_hash=physics_hash(),
        measured_with="plant",
        scene="flat",
        friction=1.8,
        housing_radius_u=0.075,
        seed=0,
        entries=[entry],
    )
    library = Library(**{**body, **changes})  # type: ignore[arg-type]
    return msgspec.structs.replace(library, sha256=content_hash(library))


def test_an_entry_is_the_mean_of_what_the_plant_did(spec: ThreeBar, entry: Entry) -> None:
    assert -34 <= np.degrees(entry.turn_rad) <= -17
    assert entry.dy_u < -1.0
    assert entry.samples == 2 and entry.timeouts == 0
    names = variants(spec)
    assert ("roll", 1.0, 1.4) in names and ("ccw", 1.0, 1.0) in names
    assert len(names) == len(spec.primitives) + 9


def test_a_library_survives_the_disk(entry: Entry, tmp_path: Path) -> None:
    path = tmp_path / "primitives.json"
    write_library(path, library_of(entry))
    assert read_library(path, "three_bar", physics_hash()) == library_of(entry)


def test_what_is_damaged_edited_or_foreign_is_refused(entry: Entry, tmp_path: Path) -> None:
    path = tmp_path / "primitives.json"

    def refused(raw: bytes, robot: str = "three_bar") -> str:
        path.write_bytes(raw)
        with pytest.raises(ModelError) as caught:
            read_library(path, robot, physics_hash())
        return str(caught.value)

    good = msgspec.json.encode(library_of(entry))
    assert "does not match its hash" in refused(good.replace(b'"seed":0', b'"seed":1'))
    assert "not a primitive library" in refused(good[: len(good) // 2])
    assert "not a primitive library" in refused(good.replace(b'"format":1', b'"format":2'))
    assert "unknown field" in refused(json.dumps({**json.loads(good), "extra": 1}).encode())
    assert "not of 'worm'" in refused(good, "worm")
    assert "measure again" in refused(msgspec.json.encode(library_of(entry, physics_hash="0" * 64)))
    path.unlink()
    with pytest.raises(ModelError, match="cannot be read"):
        read_library(path, "three_bar", physics_hash())


def test_applying_and_undoing_are_inverse_and_agree_with_the_plants_displacement(entry: Entry) -> None:
    rng = np.random.default_rng(0)
    poses = rng.uniform([-5, -5, -np.pi], [5, 5, np.pi], (50, 3))
    after = apply(poses, entry)
    assert displacement(poses, after) == pytest.approx(np.tile([entry.dx_u, entry.dy_u, entry.turn_rad], (50, 1)))
    assert undo(after, entry) == pytest.approx(poses)
    assert np.abs(after[:, 2]).max() <= np.pi
