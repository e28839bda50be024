"""Taught postures survive: written whole or not at all, checked when read, refused on another robot."""

import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from onboard.control.postures import MAX_POSTURES, PostureError, PostureStore
from onboard.errors import UsageError
from onboard.messages import Posture, frozen
from onboard.resources import robot_file
from onboard.robot import RobotFile, build_spec, load_robot

SPEC = load_robot(robot_file("manipulator"))
CABLES = SPEC.structure.cable_count


def posture(name="left", length=0.25, pressure=3.5e5):
    return Posture(name, frozen(np.full(CABLES, length)), frozen(np.full(40, pressure)), frozen([0.1, 0.0, 1.1]), 17)


def same(a, b):
    return (
        a.name == b.name
        and (a.cable_length_m == b.cable_length_m).all()
        and (a.pressure_pa == b.pressure_pa).all()
        and (a.tip_m == b.tip_m).all()
        and a.taught_wall_ns == b.taught_wall_ns
    )


@pytest.fixture
def store(tmp_path):
    return PostureStore(SPEC, tmp_path)


def test_what_was_taught_comes_back_exactly_in_the_order_of_teaching(store, tmp_path):
    rng = np.random.default_rng(4)
    taught = [
        Posture(
            f"p{k}", frozen(rng.uniform(0.2, 0.3, CABLES)), frozen(rng.uniform(1e5, 6e5, 40)), frozen(rng.uniform(-1, 1, 3)), k
        )
        for k in range(5)
    ]
    for one in taught:
        store.put(one)
    again = PostureStore(SPEC, tmp_path)
    assert all(same(a, b) for a, b in zip(again.all(), taught, strict=True))
    assert same(again.get("p3"), taught[3])


def test_teaching_a_name_again_replaces_it_in_place_and_deleting_removes_it(store):
    for name in ("a", "b", "c"):
        store.put(posture(name))
    store.put(posture("b", length=0.26))
    assert [p.name for p in store.all()] == ["a", "b", "c"]
    assert store.get("b").cable_length_m[0] == 0.26
    store.delete("b")
    assert [p.name for p in store.all()] == ["a", "c"]


def test_an_unknown_name_is_refused_with_the_known_ones(store):
    with pytest.raises(UsageError, match="posture teach"):
        store.get("left")
    store.put(posture("right"))
    with pytest.raises(UsageError, match=r"'left'.*right"):
        store.get("left")
    with pytest.raises(UsageError):
        store.delete("left")


@pytest.mark.parametrize("name", ["", " ", "a b", "../x", "a/b", "x" * 49, "gr\u00fcn", "a\n", "-rf", "a\0"])
def test_names_that_are_no_names_are_refused(store, name):
    with pytest.raises(UsageError, match="no name"):
        store.put(posture(name))
    assert not store.path.exists()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cable_length_m": frozen(np.full(CABLES, np.nan))}, "not a number"),
        ({"cable_length_m": frozen(np.full(CABLES - 1, 0.2))}, "shape"),
        ({"cable_length_m": frozen(np.full(CABLES, -0.2))}, r"cable_length_m\[0\] is -0.2: must lie in"),
        ({"pressure_pa": frozen(np.full(40, 7e5))}, r"pressure_pa\[0\] is 700000: must lie in 100000 .. 600000 Pa"),
        ({"pressure_pa": frozen(np.full(40, np.inf))}, "not a number"),
        ({"tip_m": frozen([0.0, np.nan, 1.0])}, "not a number"),
    ],
)
def test_a_posture_that_could_not_be_driven_to_is_not_stored(store, change, what):
    good = posture()
    fields = {key: getattr(good, key) for key in ("name", "cable_length_m", "pressure_pa", "tip_m")}
    with pytest.raises(PostureError, match=what):
        store.put(Posture(**{**fields, **change}))
    assert not store.path.exists()


@pytest.mark.parametrize("kept", [0, 1, 50, 300, -1])
def test_a_file_cut_off_is_refused_and_left_as_it_is(store, kept):
    store.put(posture())
    data = store.path.read_bytes()[:kept]
    store.path.write_bytes(data)
    with pytest.raises(PostureError, match="damaged"):
        store.all()
    with pytest.raises(PostureError, match="damaged"):
        store.put(posture("other"))
    assert store.path.read_bytes() == data


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("format", 2, "format 2"),
        ("robot", "worm", "'worm'"),
        ("physics_hash", "0" * 64, "another build"),
        ("postures", 3, "damaged"),
        ("extra", 1, "damaged"),
    ],
)
def test_a_file_that_does_not_fit_is_refused_by_name(store, key, value, what):
    store.put(posture())
    content = json.loads(store.path.read_bytes())
    content[key] = value
    store.path.write_text(json.dumps(content))
    with pytest.raises(PostureError, match=what):
        store.all()


@pytest.mark.parametrize("value", ["0.25", True, None, 1e400, "NaN"])
def test_a_value_of_the_wrong_kind_is_refused(store, value):
    store.put(posture())
    content = json.loads(store.path.read_bytes())
    content["postures"][0]["cable_length_m"][3] = value
    store.path.write_text(json.dumps(content))
    with pytest.raises(PostureError):
        store.all()


@pytest.mark.parametrize(
    ("key", "index", "value", "limits"),
    [
        ("cable_length_m", 7, 5.0, r"0\.1\d* \.\. 0\.3\d* m"),
        ("cable_length_m", 39, 0.05, r"0\.1\d* \.\. 0\.3\d* m"),
        ("tip_m", 2, 1e9, r"-1\.60\d* \.\. 1\.60\d* m"),
        ("pressure_pa", 3, 6.1e5, r"100000 \.\. 600000 Pa"),
    ],
)
def test_a_value_written_by_hand_that_no_such_robot_can_have_is_refused_by_file_key_and_range(store, key, index, value, limits):
    store.put(posture())
    content = json.loads(store.path.read_bytes())
    content["postures"][0][key][index] = value
    store.path.write_text(json.dumps(content))
    with pytest.raises(PostureError, match=rf"manipulator\.json: posture 'left': {key}\[{index}\] is .*: must lie in {limits}"):
        store.all()


def test_a_file_with_more_postures_than_the_store_would_write_is_refused(store):
    store.put(posture())
    content = json.loads(store.path.read_bytes())
    one = content["postures"][0]
    content["postures"] = [{**one, "name": f"p{k}"} for k in range(MAX_POSTURES)]
    store.path.write_text(json.dumps(content))
    assert len(store.all()) == MAX_POSTURES
    content["postures"].append(one)
    store.path.write_text(json.dumps(content))
    with pytest.raises(PostureError, match=r"manipulator\.json: postures holds 1001 entries: must lie in 0 .. 1000"):
        store.all()


def test_a_name_twice_in_the_file_is_refused(store):
    store.put(posture())
    content = json.loads(store.path.read_bytes())
    content["postures"] *= 2
    store.path.write_text(json.dumps(content))
    with pytest.raises(PostureError, match="twice"):
        store.all()


def test_postures_of_another_build_of_the_robot_are_refused(store, tmp_path):
    store.put(posture())
    raw = RobotFile(robot_file("manipulator")).raw
    heavier = build_spec("heavier.toml", {**raw, "structure": {**raw["structure"], "strut_mass_kg": 0.3}})
    with pytest.raises(PostureError, match="another build"):
        PostureStore(heavier, tmp_path).all()
    faster = build_spec("faster.toml", {**raw, "rates": {**raw["rates"], "control_hz": 100.0}})
    assert len(PostureStore(faster, tmp_path).all()) == 1


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_when_writing_fails_half_way_nothing_is_lost_and_nothing_is_left_over(store, monkeypatch, step):
    store.put(posture("kept"))
    before = store.path.read_bytes()

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    if step == "write":
        real = os.fdopen

        class Full:
            def __init__(self, handle, mode):
                self._file = real(handle, mode)

            def __enter__(self):
                return self

            def __exit__(self, *_):
                self._file.close()

            write = fail

        monkeypatch.setattr(os, "fdopen", Full)
    elif step == "fsync":
        monkeypatch.setattr(os, "fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(PostureError, match="No space left"):
        store.put(posture("new"))
    monkeypatch.undo()
    assert store.path.read_bytes() == before
    assert sorted(path.name for path in store.path.parent.iterdir()) == [store.path.name]


def test_on_a_really_full_disk_what_was_taught_stays(tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(full)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("mounting a small tmpfs needs root")
    try:
        store = PostureStore(SPEC, full)
        with pytest.raises(PostureError, match="No space left"):
            for k in range(200):
                store.put(posture(f"p{k}"))
                taught = k + 1
        assert [p.name for p in store.all()] == [f"p{k}" for k in range(taught)]
        assert len(list(full.iterdir())) == 1
    finally:
        subprocess.run(["umount", str(full)], check=True)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["pipe", "endless", "socket folder"])
def test_what_is_no_ordinary_file_is_neither_waited_for_nor_read(store, kind):
    if kind == "pipe":
        os.mkfifo(store.path)
    elif kind == "endless":
        store.path.symlink_to("/dev/zero")
    else:
        store.path.mkdir()
    with pytest.raises(PostureError, match=r"no ordinary file|directory"):
        store.all()
    with pytest.raises(PostureError):
        store.put(posture())
