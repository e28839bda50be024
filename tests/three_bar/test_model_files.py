"""An exported model says what torch says, and nothing but the right model for the right robot is loaded."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

from offboard.three_bar.export import write_model  # noqa: E402
from offboard.three_bar.network import Dynamics, NetworkSettings  # noqa: E402
from offboard.three_bar.train import geometry_of  # noqa: E402
from onboard.errors import ModelError, NotANumberError  # noqa: E402
from onboard.models.manifest import load_model_file  # noqa: E402
from onboard.models.strut_dynamics import StrutDynamics, nearest_rows  # noqa: E402
from sim.three_bar.course import load_course, scene_of  # noqa: E402
from sim.three_bar.motors import rest_lengths_over  # noqa: E402
from sim.three_bar.robot_file import ThreeBar, load_robot, physics_hash  # noqa: E402

SETTINGS = dict(kind="graph", latent=16, message_steps=2, chunk_steps=20, distances=True, contact_edges=True, flat_ground=False)
IDENTITY = {"physics_hash": physics_hash(), "data_hash": "0" * 64}
TILE = 4


def network(seed: int = 0, **changes: object) -> Dynamics:
    torch.manual_seed(seed)
    return Dynamics(NetworkSettings(**{**SETTINGS, **changes}), geometry_of(load_robot())).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models")
    write_model(path, network(), "small", IDENTITY, tile=TILE)
    return path


@pytest.fixture(scope="module")
def dynamics(folder: Path) -> StrutDynamics:
    return StrutDynamics(load_model_file(folder / "small.json", "three_bar", physics_hash()))


def state_of(spec: ThreeBar, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    state = np.zeros(48)
    caps = spec.start_caps + 0.0
    turn = rng.uniform(-np.pi, np.pi)
    c, s = np.cos(turn), np.sin(turn)
    state[:18] = (caps @ np.array([[c, s, 0], [-s, c, 0], [0, 0, 1.0]])).ravel()
    state[18:36] = 0.3 * rng.normal(size=18)
    state[36:42] = rng.uniform(1.0, 2.0, 6)
    state[42:] = rng.uniform(-18, 18, 6)
    return state


def by_torch(model: Dynamics, dynamics: StrutDynamics, state: np.ndarray, controls: np.ndarray, world: np.ndarray) -> np.ndarray:
    lengths, _ = dynamics.rest_lengths(state[36:42], state[42:], controls)
    rows = nearest_rows(world[None], state[:18].reshape(6, 3).mean(axis=0)[None], 6)
    samples = len(controls)
    start = torch.tensor(state[:36].reshape(2, 6, 1, 3), dtype=torch.float32).expand(2, 6, samples, 3)
    with torch.no_grad():
        caps, velocity = model.rollout(start[0], start[1], torch.tensor(lengths), torch.tensor(rows, dtype=torch.float32))
    both = torch.cat([caps.permute(2, 0, 1, 3).flatten(2), velocity.permute(2, 0, 1, 3).flatten(2)], dim=-1)
    return both.numpy()


@pytest.mark.parametrize("samples", [1, 2, 7, 13])
@pytest.mark.parametrize("name", ["three_d", "low_clearance"])
def test_onnx_says_what_torch_says_over_two_seconds(spec: ThreeBar, dynamics: StrutDynamics, samples: int, name: str) -> None:
    """For any number of samples, also where they do not fill a tile."""
    rng = np.random.default_rng(samples)
    controls = rng.uniform(-1, 1, (samples, 4, 6)).repeat(50, axis=1)
    world = scene_of(load_course(name)).world()
    got = dynamics.rollout(state_of(spec, samples), controls, world)
    assert got.shape == (samples, 10, 48)
    assert np.abs(got[..., :36] - by_torch(network(), dynamics, state_of(spec, samples), controls, world)).max() <= 1e-5


@pytest.mark.parametrize(
    "changes",
    [
        dict(flat_ground=True),
        dict(distances=False),
        dict(contact_edges=False),
        dict(kind="plain"),
        dict(message_steps=1, latent=8),
    ],
)
def test_every_variant_exports(spec: ThreeBar, tmp_path: Path, changes: dict) -> None:
    model = network(seed=2, **changes)
    write_model(tmp_path, model, "variant", IDENTITY, tile=3, chunks=5)
    loaded = StrutDynamics(load_model_file(tmp_path / "variant.json", "three_bar", physics_hash()))
    controls = np.random.default_rng(0).uniform(-1, 1, (3, 2, 6)).repeat(50, axis=1)
    world = scene_of(load_course("narrow")).world()
    got = loaded.rollout(state_of(spec), controls, world)
    assert np.abs(got[..., :36] - by_torch(model, loaded, state_of(spec), controls, world)).max() <= 1e-5


def test_the_graph_has_no_scatter_and_one_scan(folder: Path) -> None:
    graph = onnx.load(folder / "small.onnx").graph
    (scan,) = [node for node in graph.node if node.op_type == "Scan"]
    inside = [node.op_type for node in scan.attribute[0].g.node]
    assert not [name for name in inside if "Scatter" in name]


def test_rest_lengths_and_speeds_are_those_of_the_plants_motors(spec: ThreeBar, dynamics: StrutDynamics) -> None:
    controls = np.random.default_rng(3).uniform(-1.5, 1.5, (5, 4, 6)).repeat(50, axis=1)
    state = state_of(spec)
    rests, speeds = rest_lengths_over(spec.actuators, state[36:42], state[42:], controls, 0.01)
    got = dynamics.rollout(state, controls, np.zeros((1, 16)))
    assert got[:, :, 36:42] == pytest.approx(rests[:, 19::20], abs=1e-6)
    assert got[:, :, 42:] == pytest.approx(speeds[:, 19::20], abs=1e-9)
    assert rests.min() == spec.actuators.rest_min_u or rests.max() == spec.actuators.rest_max_u or np.ptp(rests) > 0.5


def test_threads_do_not_change_the_answer(spec: ThreeBar, folder: Path, dynamics: StrutDynamics) -> None:
    two = StrutDynamics(load_model_file(folder / "small.json", "three_bar", physics_hash()), threads=2)
    controls = np.random.default_rng(1).uniform(-1, 1, (11, 4, 6)).repeat(50, axis=1)
    world = scene_of(load_course("incline")).world()
    assert np.array_equal(two.rollout(state_of(spec), controls, world), dynamics.rollout(state_of(spec), controls, world))


def test_what_is_not_a_number_or_of_another_shape_is_refused(spec: ThreeBar, dynamics: StrutDynamics) -> None:
    controls, world = np.zeros((2, 200, 6)), np.zeros((1, 16))
    for state, control in ((np.full(48, np.nan), controls), (state_of(spec), np.full_like(controls, np.inf))):
        with pytest.raises(NotANumberError):
            dynamics.rollout(state, control, world)
    with pytest.raises(ModelError, match="200 steps"):
        dynamics.rollout(state_of(spec), np.zeros((2, 100, 6)), world)
    with pytest.raises(ModelError, match="state of 48"):
        dynamics.rollout(np.zeros(40), controls, world)


def damage(change: Callable[[Path], None], folder: Path, tmp_path: Path, robot: str = "three_bar", **pins: str) -> str:
    """The reason for refusing a copy of the model after `change`."""
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    change(copy)
    with pytest.raises(ModelError) as caught:
        StrutDynamics(load_model_file(copy / "small.json", robot, **{"physics_hash": physics_hash(), **pins}))
    return str(caught.value)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_model_is_refused(folder: Path, tmp_path: Path, share: float) -> None:
    def cut(copy: Path) -> None:
        raw = (copy / "small.onnx").read_bytes()
        (copy / "small.onnx").write_bytes(raw[: int(share * len(raw))])

    assert ("is empty" if share == 0.0 else "cut off") in damage(cut, folder, tmp_path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_a_truncated_manifest_is_refused(folder: Path, tmp_path: Path, share: float) -> None:
    def cut(copy: Path) -> None:
        raw = (copy / "small.json").read_bytes()
        (copy / "small.json").write_bytes(raw[: int(share * len(raw))])

    assert ("is empty" if share == 0.0 else "not a manifest") in damage(cut, folder, tmp_path)


def test_one_changed_byte_is_noticed(folder: Path, tmp_path: Path) -> None:
    def flip(copy: Path) -> None:
        raw = bytearray((copy / "small.onnx").read_bytes())
        raw[len(raw) // 2] ^= 1
        (copy / "small.onnx").write_bytes(bytes(raw))

    assert "damaged or changed" in damage(flip, folder, tmp_path)


def test_other_robots_other_bodies_and_other_pins_are_refused(folder: Path, tmp_path: Path) -> None:
    def nothing(copy: Path) -> None:
        """Leave the copy as it is."""

    assert "not of 'worm'" in damage(nothing, folder, tmp_path / "a", robot="worm")
    assert "other bodies" in damage(nothing, folder, tmp_path / "b", physics_hash="1" * 64)
    assert "pins" in damage(nothing, folder, tmp_path / "c", sha256="1" * 64)
    assert "cannot be read" in damage(lambda copy: (copy / "small.onnx").unlink(), folder, tmp_path / "d")
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3\n"
    assert "LFS pointer" in damage(lambda copy: (copy / "small.onnx").write_bytes(pointer), folder, tmp_path / "e")


def with_manifest(copy: Path, raw: bytes | None = None, **changes: object) -> None:
    """Change the copy's manifest, and its model with a manifest that vouches for it."""
    manifest = json.loads((copy / "small.json").read_text())
    if raw is not None:
        (copy / "small.onnx").write_bytes(raw)
        manifest |= {"onnx_sha256": hashlib.sha256(raw).hexdigest(), "onnx_bytes": len(raw)}
    (copy / "small.json").write_text(json.dumps({**manifest, **changes}))


def test_a_manifest_that_vouches_for_the_wrong_thing_does_not_help(folder: Path, tmp_path: Path) -> None:
    assert "does not load" in damage(lambda copy: with_manifest(copy, b"garbage" * 99), folder, tmp_path / "a")

    def newer(copy: Path) -> None:
        model = onnx.load(copy / "small.onnx")
        model.opset_import[0].version = 999
        with_manifest(copy, model.SerializeToString())

    assert "does not load" in damage(newer, folder, tmp_path / "b")

    def renamed(copy: Path) -> None:
        model = onnx.load(copy / "small.onnx")
        model.graph.input[0].name = "positions"
        model.graph.node[0].input[0] = "positions"
        with_manifest(copy, model.SerializeToString())

    assert "positions" in damage(renamed, folder, tmp_path / "c")
    assert "unknown field" in damage(lambda copy: with_manifest(copy, extra=1), folder, tmp_path / "d")
    assert "not a manifest of format 1" in damage(lambda copy: with_manifest(copy, format=2), folder, tmp_path / "e")
    assert "tile" in damage(lambda copy: with_manifest(copy, tile="4"), folder, tmp_path / "f")
    assert "file" in damage(lambda copy: with_manifest(copy, file="../small.onnx"), folder, tmp_path / "g")
