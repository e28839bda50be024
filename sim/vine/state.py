"""What a batch of vines is made of: options, state, per-frame report, gradients."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim.vine.robot import VineError

Array = NDArray[np.float64]


MOST_LINKS = 10_000


@dataclass(frozen=True)
class Options:
    """How a batch is simulated. `reference()` gives the paper's hard formulation for parity."""

    dt_s: float = 1 / 90
    links: int = 40
    implicit_bending: bool = True
    hard_growth: bool = False
    growing_mass: bool = True
    centre_discs: bool = False
    max_substeps: int = 16
    joint_tolerance_m: float = 3e-5
    penetration_tolerance_m: float = 3e-5
    contact_stiffness_n_m: float = 1e6
    margin_m: float = 8e-3
    interior_point_only: bool = False

    def __post_init__(self) -> None:
        if not 2 <= self.links <= MOST_LINKS:
            raise VineError(f"links: {self.links}; a vine needs at least two, and {MOST_LINKS} are the most that is laid out")
        if self.max_substeps not in (1, 2, 4, 8, 16, 32):
            raise VineError(f"max_substeps: {self.max_substeps} is none of 1, 2, 4, 8, 16, 32")
        for name in ("dt_s", "joint_tolerance_m", "penetration_tolerance_m", "contact_stiffness_n_m", "margin_m"):
            if not (np.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise VineError(f"{name}: {getattr(self, name)} must be positive and finite")

    @staticmethod
    def reference(**changes: Any) -> Options:
        """The paper's choices: hard growth, explicit bending, constant tip mass, centre discs, one step a frame."""
        hard = Options(implicit_bending=False, hard_growth=True, growing_mass=False, centre_discs=True, max_substeps=1)
        return replace(hard, **changes)


@dataclass
class State:
    """A batch of vines. q (B, N, 3): x, y [m], heading [rad] of each link, v the rates, links (B,) how many count.

    The last counting link is the tip: its position is the tip's, not a link centre. base (B, 3) is the base's pose.
    """

    q: Array
    v: Array
    links: NDArray[np.int64]
    base: Array

    def copy(self) -> State:
        """Independent copy."""
        return State(self.q.copy(), self.v.copy(), self.links.copy(), self.base.copy())

    def tip(self) -> Array:
        """Tip positions, (B, 2) [m]."""
        return self.q[np.arange(len(self.links)), self.links - 1, :2]


@dataclass
class Report:
    """What every frame of every robot reports, all (T, B): status bits, solver iterations, substeps, errors [m]."""

    status: NDArray[np.int64]
    iterations: NDArray[np.int64]
    substeps: NDArray[np.int64]
    joint_error_m: Array
    penetration_m: Array


@dataclass
class Gradients:
    """Gradients of a scalar: state (B, N, 3) twice, base (B, 3), parameters (B, P), controls (T, B, 6)."""

    q: Array
    v: Array
    base: Array
    parameters: Array
    controls: Array
