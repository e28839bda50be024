"""One idea: a trained model becomes one ONNX file that rolls a whole horizon out in one call, and a manifest that vouches for it.

One chunk is exported from torch and becomes the body of a Scan; caps and velocities are its state, the world is seen
from outside. Layout: node-major rows, gathers over nodes, aggregation as a product with a constant 0/1 matrix (no
scatter), a fixed tile of samples.
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import warnings
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from offboard.three_bar.network import Dynamics, parameters
from offboard.three_bar.train import TrainError
from offboard.three_bar.windows import WORLD_NEAREST
from onboard.models.manifest import FORMAT, Manifest, Port, StrutMotors, load_model_file
from onboard.models.strut_dynamics import StrutDynamics, nearest_rows
from sim.three_bar.course import COURSES, WORLD_COLUMNS, load_course, scene_of
from sim.three_bar.robot_file import NAME, ThreeBar, load_robot, physics_hash

OPSET = 17
TILE = 64
CHUNKS = 10


class _Chunk(nn.Module):
    def __init__(self, model: Dynamics) -> None:
        super().__init__()
        self.model = model

    def forward(self, caps: Tensor, velocity: Tensor, rest: Tensor, world: Tensor) -> tuple[Tensor, Tensor]:
        return self.model(caps, velocity, rest, world)


def _chunk_graph(model: Dynamics, tile: int) -> onnx.GraphProto:
    """One chunk as an ONNX graph: caps, velocity, rest, world -> caps_next, velocity_next."""
    example = (
        torch.tensor(np.array(load_robot().start_caps), dtype=torch.float32).unsqueeze(1).repeat(1, tile, 1),
        torch.zeros(6, tile, 3),
        torch.full((3, 6, tile), 1.5),
        torch.zeros(1, WORLD_NEAREST, WORLD_COLUMNS),
    )
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            _Chunk(model),
            example,
            buffer,
            dynamo=False,
            opset_version=OPSET,
            do_constant_folding=True,
            input_names=["caps_now", "velocity_now", "rest_now", "world"],
            output_names=["caps_next", "velocity_next"],
        )
    return onnx.load_from_string(buffer.getvalue()).graph


def build_onnx(model: Dynamics, tile: int = TILE, chunks: int = CHUNKS) -> bytes:
    """The whole rollout: caps, velocity (6, 1, 3), rest (2 C + 1, 6, M), world (1, K, 16) -> caps, velocity (C, 6, M, 3)."""
    model = model.float().eval()
    chunk = _chunk_graph(model, tile)
    state = [6, tile, 3]

    def value(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    body = helper.make_graph(
        [
            *chunk.node,
            helper.make_node("Identity", ["caps_next"], ["caps_row"]),
            helper.make_node("Identity", ["velocity_next"], ["velocity_row"]),
        ],
        "chunk",
        [value("caps_now", state), value("velocity_now", state), value("rest_now", [3, 6, tile])],
        [value(name, state) for name in ("caps_next", "velocity_next", "caps_row", "velocity_row")],
        initializer=list(chunk.initializer),
    )
    triples = np.array([[2 * c, 2 * c + 1, 2 * c + 2] for c in range(chunks)], dtype=np.int64)
    nodes = [
        helper.make_node("Expand", ["caps", "state_shape"], ["caps_start"]),
        helper.make_node("Expand", ["velocity", "state_shape"], ["velocity_start"]),
        helper.make_node("Gather", ["rest", "triples"], ["rest_chunks"], axis=0),
        helper.make_node(
            "Scan",
            ["caps_start", "velocity_start", "rest_chunks"],
            ["caps_end", "velocity_end", "caps_path", "velocity_path"],
            body=body,
            num_scan_inputs=1,
        ),
    ]
    inputs = [
        value("caps", [6, 1, 3]),
        value("velocity", [6, 1, 3]),
        value("rest", [2 * chunks + 1, 6, tile]),
        value("world", [1, WORLD_NEAREST, WORLD_COLUMNS]),
    ]
    if model.settings.flat_ground:  # keep the input of a model that does not look at it
        nodes.append(helper.make_node("Identity", ["world"], ["world_unused"]))
    graph = helper.make_graph(
        nodes,
        "rollout",
        inputs,
        [value("caps_path", [chunks, *state]), value("velocity_path", [chunks, *state])],
        initializer=[
            numpy_helper.from_array(np.array(state, dtype=np.int64), "state_shape"),
            numpy_helper.from_array(triples, "triples"),
        ],
    )
    whole = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    onnx.checker.check_model(whole)
    return bytes(whole.SerializeToString())


def commit_of_checkout() -> str:
    """The commit that a model was exported at; "unknown" outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=10, cwd=Path(__file__).parent
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def manifest_for(model: Dynamics, onnx_bytes: bytes, name: str, identity: dict[str, Any], tile: int, chunks: int) -> Manifest:
    """The manifest of an exported model."""
    spec: ThreeBar = load_robot()
    shapes = {
        "caps": ([6, 1, 3], "u"),
        "velocity": ([6, 1, 3], "u/s"),
        "rest": ([2 * chunks + 1, 6, tile], "u"),
        "world": ([1, WORLD_NEAREST, WORLD_COLUMNS], "u"),
    }
    path = [chunks, 6, tile, 3]
    return Manifest(
        format=FORMAT,
        name=name,
        robot=spec.robot.name,
        file=f"{name}.onnx",
        onnx_sha256=hashlib.sha256(onnx_bytes).hexdigest(),
        onnx_bytes=len(onnx_bytes),
        opset=OPSET,
        physics_hash=identity["physics_hash"],
        data_hash=identity["data_hash"],
        commit=commit_of_checkout(),
        inputs=[Port(name=key, shape=shape, dtype="float32", unit=unit) for key, (shape, unit) in shapes.items()],
        outputs=[
            Port(name="caps_path", shape=path, dtype="float32", unit="u"),
            Port(name="velocity_path", shape=path, dtype="float32", unit="u/s"),
        ],
        tile=tile,
        chunks=chunks,
        chunk_steps=model.settings.chunk_steps,
        step_s=spec.plant.step_s,
        world_rows=WORLD_NEAREST,
        motors=StrutMotors(
            max_speed_rad_s=spec.actuators.max_speed_rad_s,
            spool_radius_u=spec.actuators.spool_radius_u,
            rest_min_u=spec.actuators.rest_min_u,
            rest_max_u=spec.actuators.rest_max_u,
        ),
        normalisation={"scale": [float(v) for v in model.scale]},
        parameters=parameters(model),
    )


def check_parity(manifest: Path, model: Dynamics, seed: int, samples: int = 32) -> float:
    """Largest difference [u] between exported model, freshly loaded, and torch over the horizon; random states, all courses."""
    loaded = StrutDynamics(load_model_file(manifest, NAME, physics_hash()))
    rng, worst = np.random.default_rng(seed), 0.0
    spec = load_robot()
    for course in COURSES:
        world = scene_of(load_course(course)).world()
        state = np.zeros(48)
        state[:18] = (spec.start_caps + 0.05 * rng.normal(size=(6, 3))).ravel()
        state[18:36], state[36:42] = 0.5 * rng.normal(size=18), rng.uniform(1.0, 2.0, 6)
        controls = rng.uniform(-1.0, 1.0, (samples, loaded.steps // 50, 6)).repeat(50, axis=1)
        lengths, _ = loaded.rest_lengths(state[36:42], state[42:], controls)
        rows = nearest_rows(world[None], state[:18].reshape(1, 6, 3).mean(axis=1), WORLD_NEAREST)
        start = torch.tensor(state[:36].reshape(2, 6, 1, 3), dtype=torch.float32).expand(2, 6, samples, 3)
        with torch.no_grad():
            caps, _ = model.rollout(start[0], start[1], torch.tensor(lengths), torch.tensor(rows, dtype=torch.float32))
        ours = loaded.rollout(state, controls, world)[..., :18]
        worst = max(worst, float(np.abs(caps.permute(2, 0, 1, 3).flatten(2).numpy() - ours).max()))
    return worst


def write_model(
    folder: Path, model: Dynamics, name: str, identity: dict[str, Any], tile: int = TILE, chunks: int = CHUNKS
) -> Manifest:
    """Write <name>.onnx and, last, its manifest. Raises TrainError when they cannot be written."""
    raw = build_onnx(model, tile, chunks)
    manifest = manifest_for(model, raw, name, identity, tile, chunks)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, content in (
            (folder / manifest.file, raw),
            (folder / f"{name}.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1)),
        ):
            part = path.with_suffix(path.suffix + ".part")
            part.write_bytes(content)
            part.replace(path)
    except OSError as error:
        raise TrainError(f"{folder}: model cannot be written: {error.strerror or error}") from error
    return manifest
