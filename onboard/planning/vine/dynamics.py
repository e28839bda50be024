"""One idea: the vine's exported model as the Dynamics port: a start state and controls in, states out, samples in tiles."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from onboard.errors import ModelError, NotANumberError
from onboard.messages import Floats
from onboard.models.manifest import ModelFile
from onboard.models.session import Session, Single
from onboard.planning.vine.field import Field
from onboard.planning.vine.state import Layout


class VineDynamics:
    """Rolls out states of onboard/planning/vine/state.py through a field of distances.

    `threads` sessions share the tiles. Same inputs, same outputs, whatever the number of threads.
    """

    def __init__(self, model: ModelFile, layout: Layout, threads: int = 1) -> None:
        self.manifest, self.layout = model.manifest, layout
        shapes = {port.name: port.shape for port in self.manifest.inputs}
        wanted = {"start", "controls", "field", "origin", "scale"}
        if set(shapes) != wanted:
            raise ModelError(f"{model.path}: inputs are {sorted(shapes)}, a vine's model has {sorted(wanted)}")
        if shapes["start"] != [1, layout.size]:
            raise ModelError(f"{model.path}: takes states of {shapes['start'][-1]}, the robot's file gives {layout.size}")
        self.steps, self.tile, self.controls = shapes["controls"]
        self.cells = (shapes["field"][1], shapes["field"][2])
        self.step_s = self.manifest.chunk_steps * self.manifest.step_s
        self._sessions = [Session(model) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="vine-rollout") if threads > 1 else None
        self._field: dict[str, Single] = {}

    def set_field(self, field: Field) -> None:
        """The obstacles of all rollouts from now on. Raises ModelError for a grid of another size."""
        if field.shape != self.cells:
            raise ModelError(f"a field of {field.shape} cells, model {self.manifest.name!r} takes {self.cells}")
        if not np.isfinite(field.values).all():
            raise NotANumberError("a distance of the field is not finite")
        ny, nx = field.shape
        scale = 2.0 / (field.cell_m * np.array([nx - 1.0, ny - 1.0]))
        self._field = {
            "field": field.values.astype(np.float32),
            "origin": field.origin.reshape(1, 1, 2).astype(np.float32),
            "scale": scale.reshape(1, 1, 2).astype(np.float32),
        }

    def rollout(self, state: Floats, controls: Floats, world: Floats | None = None) -> Floats:
        """States (M, T, nx) after each step, from state (nx,) under controls (M, T, 3); the world is the field that was set.

        Raises NotANumberError for a non-finite state or control, ModelError without a field or for another horizon.
        Samples whose prediction is not finite are returned as such.
        """
        samples, steps, channels = controls.shape
        if state.shape != (self.layout.size,) or (steps, channels) != (self.steps, self.controls):
            raise ModelError(
                f"model {self.manifest.name!r} takes a state of {self.layout.size}, {self.steps} steps and {self.controls} "
                f"controls, got {state.shape}, {steps} and {channels}"
            )
        if not self._field:
            raise ModelError(f"model {self.manifest.name!r} has no field of distances yet")
        if not (np.isfinite(state).all() and np.isfinite(controls).all()):
            raise NotANumberError("state or controls of a rollout are not finite")
        start = {**self._field, "start": state[None].astype(np.float32)}
        by_time = np.ascontiguousarray(controls.transpose(1, 0, 2)).astype(np.float32)
        out = np.empty((samples, steps, self.layout.size))
        jobs: Sequence[tuple[int, int]] = [(k, min(k + self.tile, samples)) for k in range(0, samples, self.tile)]

        def work(worker: int) -> None:
            for begin, end in jobs[worker :: len(self._sessions)]:
                part = by_time[:, begin:end]
                if end - begin < self.tile:
                    part = np.concatenate([part, np.repeat(part[:, -1:], self.tile - end + begin, axis=1)], axis=1)
                (states,) = self._sessions[worker].run({**start, "controls": np.ascontiguousarray(part)})
                out[begin:end] = states.transpose(1, 0, 2)[: end - begin]

        if self._pool is None:
            work(0)
        else:
            list(self._pool.map(work, range(len(self._sessions))))
        return out
