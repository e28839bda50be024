"""One idea: the planner's two model files with manifests: many samples over the horizon, and one over a few steps."""

from __future__ import annotations

import hashlib
import json
import subprocess
from dataclasses import asdict
from pathlib import Path

import msgspec
import numpy as np

from offboard.vine.export import OPSET, build_onnx, ports
from offboard.vine.quasi_static import FRAMES, Constants, constants
from onboard.models.manifest import FORMAT, Manifest, Port
from onboard.vine_robot import VineRobot

FRAME_S = 1 / 90
WHOLE = ("quasi_static", 64, 30)  # name, samples a call, steps: two seconds, 300 mm at full growth
SHORT = ("predict", 1, 4)  # carries one state from a picture's time to the next plan's start


def _commit() -> str:
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True, timeout=10, cwd=Path(__file__).parent
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def _data_hash(con: Constants) -> str:
    """sha256 of all numbers in the model: there is no training data."""
    numbers = {key: np.asarray(value).round(12).tolist() for key, value in asdict(con).items()}
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).hexdigest()


def write_models(robot: VineRobot, folder: Path) -> list[Manifest]:
    """Write both models under `folder`, each manifest after its model."""
    con, made = constants(robot), []
    folder.mkdir(parents=True, exist_ok=True)
    for name, tile, steps in (WHOLE, SHORT):
        raw = build_onnx(con, tile, steps, robot.map.cells)
        manifest = Manifest(
            format=FORMAT,
            name=name,
            robot=robot.robot.name,
            file=f"{name}.onnx",
            onnx_sha256=hashlib.sha256(raw).hexdigest(),
            onnx_bytes=len(raw),
            opset=OPSET,
            physics_hash=robot.physics_hash,
            data_hash=_data_hash(con),
            commit=_commit(),
            inputs=[
                Port(name=key, shape=shape, dtype="float32", unit=unit)
                for key, (shape, unit) in ports(con, tile, steps, robot.map.cells).items()
            ],
            outputs=[Port(name="states", shape=[steps, tile, con.size], dtype="float32", unit="rad, m, rad, 1/m")],
            tile=tile,
            chunks=steps,
            chunk_steps=FRAMES,
            step_s=FRAME_S,
            world_rows=robot.map.cells[0],
            normalisation={},
            parameters=int(con.mobility.size),
        )
        for path, content in (
            (folder / manifest.file, raw),
            (folder / f"{name}.json", msgspec.json.format(msgspec.json.encode(manifest), indent=1)),
        ):
            part = path.with_suffix(path.suffix + ".part")
            part.write_bytes(content)
            part.replace(path)
        made.append(manifest)
    return made
