"""One idea: another model while planning goes on: loaded, warmed up and tried in a thread, swapped in between two plans.

A model that does not load, or whose prediction from where the robot stands is not finite, is refused with the reason; the one in
use stays. An installation has a number, so that the same file may be installed again after it has changed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onboard.errors import ModelError, PrestressError
from onboard.messages import Floats
from onboard.ports import Dynamics


@dataclass(frozen=True, slots=True)
class Probe:
    """What a model is tried on: a state (nx,), controls (M, T, nu) as large as a plan's, a world (K, 16)."""

    state: Floats
    controls: Floats
    world: Floats


def tried(load: Callable[[Path], Dynamics], manifest: str, probe: Probe) -> Dynamics:
    """A model that has predicted once. Raises PrestressError with the reason when it cannot be used."""
    dynamics = load(Path(manifest))
    states = dynamics.rollout(probe.state, probe.controls, probe.world)
    if not np.isfinite(states).all():
        raise ModelError(f"{manifest}: what it predicts from where the robot stands is not finite")
    return dynamics


class ModelSwap:
    """The next model, if one is on its way. number, manifest: of the model in use; problem, refused: the last refusal."""

    def __init__(self, load: Callable[[Path], Dynamics]) -> None:
        self._load = load
        self.number, self.manifest = -1, ""
        self.problem, self.refused = "", -1
        self._coming = -1
        self._thread: threading.Thread | None = None
        self._result: Dynamics | PrestressError | None = None

    def first(self, number: int, manifest: str, probe: Probe) -> Dynamics:
        """The first model, waited for. Raises PrestressError."""
        try:
            dynamics = tried(self._load, manifest, probe)
        except PrestressError as error:
            self._refuse(number, error)
            raise
        return self._take(number, manifest, dynamics)

    def next(self, number: int, manifest: str, probe: Probe) -> Dynamics | None:
        """The model wanted under `number`, once, when it is ready; None before and after, and when it was refused."""
        if number in (self.number, self.refused) and self._thread is None:
            return None
        if self._thread is None:
            self._coming, self._result = number, None
            self._thread = threading.Thread(target=self._work, args=(manifest, probe), name="next-model", daemon=True)
            self._thread.start()
            return None
        if self._thread.is_alive():
            return None
        coming, result, self._thread = self._coming, self._result, None
        if coming != number:
            return None  # another one was wanted meanwhile: the next call begins with it
        if isinstance(result, PrestressError) or result is None:
            self._refuse(number, result or ModelError(f"{manifest}: cannot be used"))
            return None
        return self._take(number, manifest, result)

    def _work(self, manifest: str, probe: Probe) -> None:
        try:
            self._result = tried(self._load, manifest, probe)
        except PrestressError as error:
            self._result = error
        except (OSError, ValueError, RuntimeError, MemoryError) as error:
            self._result = ModelError(f"{manifest}: cannot be used: {error}")

    def _take(self, number: int, manifest: str, dynamics: Dynamics) -> Dynamics:
        self.number, self.manifest, self.problem, self.refused = number, manifest, "", -1
        return dynamics

    def _refuse(self, number: int, error: PrestressError) -> None:
        self.refused, self.problem = number, str(error)
