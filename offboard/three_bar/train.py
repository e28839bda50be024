"""One idea: train one model.

Unrolled windows, stages, checkpoints; the same settings and data give the same model, also after a kill.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import smooth_l1_loss

from offboard.three_bar.dataset import data_hash, load_dataset
from offboard.three_bar.features import build_graph
from offboard.three_bar.network import Dynamics, RobotGeometry, parameters
from offboard.three_bar.train_settings import TrainSettings
from offboard.three_bar.windows import Batch, Windows
from onboard.clock import process_cpu_s
from onboard.errors import PrestressError
from sim.three_bar.robot_file import ThreeBar, load_robot, physics_hash

CHECKPOINT = "checkpoint.pt"
CABLE_OFFSET_U = 0.36
DRIVEN = ("mppi", "value")  # drives whose windows data.driven_weight weighs


class TrainError(PrestressError):
    """A run cannot start, go on or be saved."""

    exit_code = 2


def geometry_of(spec: ThreeBar) -> RobotGeometry:
    """What the network needs of the robot's file."""
    graph = build_graph(spec.tendons.driven.pairs, spec.tendons.long.pairs)
    return RobotGeometry(spec.bodies.cap_distance_u, spec.bodies.cap_radius_u, CABLE_OFFSET_U, spec.plant.step_s, graph)


@dataclass
class Progress:
    """What a run has come to; goes into the checkpoint."""

    update: int = 0
    best: float = math.inf
    best_update: int = 0
    cpu_s: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)


def loss_of(batch: Batch, caps: Tensor, velocity: Tensor, settings: TrainSettings) -> Tensor:
    """Smooth L1 of free-running positions, velocities and the centre of mass, each in its own unit."""
    t = settings.training
    chunks = caps.shape[0]
    position = smooth_l1_loss(caps / t.position_scale_u, batch.caps[1 : chunks + 1] / t.position_scale_u)
    speed = smooth_l1_loss(velocity / t.velocity_scale_u_s, batch.velocity[1 : chunks + 1] / t.velocity_scale_u_s)
    centre = smooth_l1_loss(caps.mean(dim=1) / t.position_scale_u, batch.caps[1 : chunks + 1].mean(dim=1) / t.position_scale_u)
    return position + t.velocity_weight * speed + t.centre_weight * centre


class Trainer:
    """A run in a folder. `run` goes on from the folder's checkpoint when there is one.

    A new run begins with drawn weights, or with those of `start`, the best.pt of a run of the same architecture; its scale
    of outputs comes along, its optimizer and its learning rate do not. Raises TrainError when `start` does not fit.
    """

    def __init__(self, settings: TrainSettings, folder: Path, variant: str, start: Path | None = None) -> None:
        self.settings, self.folder, self.variant = settings, folder, variant
        t, n = settings.training, settings.network
        folders = [Path(item) for item in settings.data.folders]
        physics = physics_hash()
        step_s = load_robot().plant.step_s
        self.windows = Windows(load_dataset(folders, physics, ("train",)), n.chunk_steps, t.horizon_chunks, step_s)
        self.checks = Windows(load_dataset(folders, physics, ("validate",)), n.chunk_steps, t.horizon_chunks, step_s)
        self.identity = {
            "settings": msgspec.to_builtins(settings),
            "variant": variant,
            "data_hash": data_hash(folders),
            "physics_hash": physics,
        }
        torch.manual_seed(t.seed)
        self.model = Dynamics(n, geometry_of(load_robot()))
        self.average = Dynamics(n, geometry_of(load_robot()))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=t.learning_rate, weight_decay=t.weight_decay)
        self.progress = Progress()
        driven = np.isin(np.array(self.windows.drives)[self.windows.episode], DRIVEN)
        weight = np.where(driven, settings.data.driven_weight, 1.0)
        self._odds = np.cumsum(weight / weight.sum())
        self._set_scale()
        if start is not None and not (folder / CHECKPOINT).is_file():
            self._begin_with(start)
        self.average.load_state_dict(self.model.state_dict())
        rng = np.random.default_rng([t.seed, 1])
        self._check_numbers = rng.choice(len(self.checks), min(t.check_windows, len(self.checks)), replace=False)
        if (folder / CHECKPOINT).is_file():
            self._restore()

    def _set_scale(self) -> None:
        batch = self.windows.batch(self._draw(0, 2048), 1)
        moved = (batch.caps[1] - batch.caps[0]).square().mean().sqrt()
        changed = (batch.velocity[1] - batch.velocity[0]).square().mean().sqrt()
        self.model.scale.copy_(torch.stack([moved] * 3 + [changed] * 3))

    def _begin_with(self, start: Path) -> None:
        state = read_checkpoint(start)
        try:
            self.model.load_state_dict(state["model"])
        except RuntimeError as error:
            raise TrainError(f"{start}: a model of another architecture: {error}") from error
        old = json.loads(state["identity"])
        self.identity["began_with"] = [*old.get("began_with", []), {k: old[k] for k in ("variant", "data_hash", "settings")}]

    def _draw(self, update: int, count: int) -> np.ndarray:
        """Window numbers of an update: a function of seed and update alone, so that a resumed run draws the same."""
        rng = np.random.default_rng([self.settings.training.seed, 2, update])
        return np.minimum(np.searchsorted(self._odds, rng.random(count)), len(self.windows) - 1)

    def chunks_at(self, update: int) -> int:
        """How far update number `update` unrolls."""
        passed, t = 0.0, self.settings.training
        for stage in t.stages:
            passed += stage.share * t.updates
            if update < passed:
                return stage.chunks
        return t.stages[-1].chunks

    def learning_rate_at(self, update: int) -> float:
        """Linear warm-up, then a cosine down to the final rate."""
        t = self.settings.training
        if update < t.warm_up:
            return t.learning_rate * (update + 1) / t.warm_up
        fraction = (update - t.warm_up) / max(1, t.updates - t.warm_up)
        return t.final_learning_rate + 0.5 * (t.learning_rate - t.final_learning_rate) * (1 + math.cos(math.pi * fraction))

    def run(self, report: Callable[[int, int], None], stop_after: int | None = None) -> Progress:
        """Train to the end, or for `stop_after` updates; checkpoints at every check.

        Raises TrainError when the loss is not finite.
        """
        t, p = self.settings.training, self.progress
        end = t.updates if stop_after is None else min(t.updates, p.update + stop_after)
        begun_cpu_s, before_s = process_cpu_s(), p.cpu_s
        running = 0.0
        while p.update < end:
            for group in self.optimizer.param_groups:
                group["lr"] = self.learning_rate_at(p.update)
            chunks = self.chunks_at(p.update)
            batch = self.windows.batch(self._draw(p.update, t.batch), chunks)
            caps, velocity = self.model.rollout(batch.caps[0], batch.velocity[0], batch.rest, batch.world)
            loss = loss_of(batch, caps, velocity, self.settings)
            self.optimizer.zero_grad()
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), t.clip)
            if not torch.isfinite(norm):
                raise TrainError(f"update {p.update}: gradient is not finite; the checkpoint before it is kept")
            self.optimizer.step()
            with torch.no_grad():
                for mean, now in zip(self.average.parameters(), self.model.parameters(), strict=True):
                    mean.lerp_(now, 1.0 - min(t.average, p.update / (p.update + 10.0)))
            running += float(loss.detach())
            p.update += 1
            report(p.update, t.updates)
            if p.update % t.check_every == 0 or p.update == t.updates:
                p.cpu_s = before_s + process_cpu_s() - begun_cpu_s
                self._check(running / (p.update % t.check_every or t.check_every), chunks)
                running = 0.0
                self.save()
                if (p.update - p.best_update) // t.check_every >= t.patience:
                    break
        p.cpu_s = before_s + process_cpu_s() - begun_cpu_s
        self.save()
        return p

    def _check(self, train_loss: float, chunks: int) -> None:
        com, axis = check_errors(self.average, self.checks, self._check_numbers)
        p = self.progress
        p.history.append(
            {"update": p.update, "chunks": chunks, "loss": train_loss, "com_error_u": com, "rotation_deg": axis, "cpu_s": p.cpu_s}
        )
        if com < p.best:
            p.best, p.best_update = com, p.update
            write_atomically(self.folder / "best.pt", {"identity": json.dumps(self.identity), "model": self.average.state_dict()})

    def save(self) -> None:
        """Write the checkpoint, whole or not at all. Raises TrainError when the disk is full; the one before it stays."""
        state = {
            "identity": json.dumps(self.identity),
            "model": self.model.state_dict(),
            "average": self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "progress": json.dumps(msgspec.to_builtins(self.progress)),
        }
        write_atomically(self.folder / CHECKPOINT, state)

    def _restore(self) -> None:
        state = read_checkpoint(self.folder / CHECKPOINT)
        there = json.loads(state["identity"])
        for key in ("variant", "physics_hash", "data_hash", "settings"):
            if there.get(key) != json.loads(json.dumps(self.identity[key])):
                raise TrainError(
                    f"{self.folder / CHECKPOINT}: belongs to a run with another {key.replace('_', ' ')}"
                    f"{_difference(there.get(key), self.identity[key])}; give another folder or --restart"
                )
        self.identity.update({key: there[key] for key in ("began_with",) if key in there})
        self.model.load_state_dict(state["model"])
        self.average.load_state_dict(state["average"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.progress = msgspec.convert(json.loads(state["progress"]), Progress, strict=False)


def _difference(there: Any, here: Any) -> str:
    if not (isinstance(there, dict) and isinstance(here, dict)):
        return ""
    parts = [
        f"{table}.{key} {there[table].get(key)} there, {value} here"
        for table, values in here.items()
        if isinstance(values, dict) and isinstance(there.get(table), dict)
        for key, value in json.loads(json.dumps(values)).items()
        if there[table].get(key) != value
    ]
    return f" ({'; '.join(parts[:3])})" if parts else ""


def check_errors(model: Dynamics, windows: Windows, numbers: np.ndarray) -> tuple[float, float]:
    """Mean distance of the centre of mass [u] and mean angle of the rods [degrees] at the end of windows."""
    batch = windows.batch(numbers)
    with torch.no_grad():
        caps, _ = model.rollout(batch.caps[0], batch.velocity[0], batch.rest, batch.world)
    off = (caps[-1].mean(dim=0) - batch.caps[-1].mean(dim=0)).norm(dim=-1).mean()
    ours, true = caps[-1, 1::2] - caps[-1, 0::2], batch.caps[-1, 1::2] - batch.caps[-1, 0::2]
    cosine = torch.nn.functional.cosine_similarity(ours, true, dim=-1).clamp(-1.0, 1.0)
    return float(off), float(torch.rad2deg(torch.acos(cosine)).mean())


def write_atomically(path: Path, state: dict[str, Any]) -> None:
    """Save tensors and strings; a kill or a full disk leaves the file before it. Raises TrainError when it cannot be written."""
    part = path.with_suffix(".part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except (OSError, RuntimeError) as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise TrainError(f"{path}: cannot be written ({error}); the one before it is kept") from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Load without pickled code. Raises TrainError for what is no checkpoint."""
    try:
        state = torch.load(path, weights_only=True, map_location="cpu")
        json.loads(state["identity"])
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, EOFError, pickle.UnpicklingError) as error:
        raise TrainError(
            f"{path}: not a checkpoint of this program ({type(error).__name__}); delete it or use --restart"
        ) from error
    return state


def load_model(path: Path) -> tuple[Dynamics, dict[str, Any]]:
    """A trained model and the identity of its run. Raises TrainError for another architecture."""
    state = read_checkpoint(path)
    identity = json.loads(state["identity"])
    try:
        settings = msgspec.convert(identity["settings"], TrainSettings)
        model = Dynamics(settings.network, geometry_of(load_robot()))
        model.load_state_dict(state["model"])
    except (RuntimeError, KeyError, msgspec.ValidationError) as error:
        raise TrainError(f"{path}: a model of another architecture: {error}") from error
    model.eval()
    return model, identity


def describe(trainer: Trainer) -> dict[str, Any]:
    """What the report says of a run."""
    p = trainer.progress
    return {
        **trainer.identity,
        "parameters": parameters(trainer.model),
        "updates": p.update,
        "cpu_minutes": p.cpu_s / 60.0,
        "best_com_error_u": p.best,
        "best_update": p.best_update,
        "history": p.history,
    }
