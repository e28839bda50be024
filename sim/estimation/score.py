"""Scores of an estimator on a trial: tip, tilt and yaw errors, and branch switches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onboard.messages import Floats
from onboard.ports import Estimator
from sim.estimation.sensing import Trial
from sim.estimation.shapes import module_rotations

BRANCH_RAD = np.radians(20.0)  # a module's twist this far off has left its branch of solutions


@dataclass(slots=True)
class Score:
    """Sums of squares over `ticks` evaluated ticks; several trials add up."""

    tip: float = 0.0
    tilt: float = 0.0
    yaw: float = 0.0
    ticks: int = 0
    branch_switches: int = 0

    def add(self, other: Score) -> None:
        """Pool with another trial's."""
        self.tip += other.tip
        self.tilt += other.tilt
        self.yaw += other.yaw
        self.ticks += other.ticks
        self.branch_switches += other.branch_switches

    def table(self, length_m: float) -> dict[str, float]:
        """RMSE as the table prints it: tip in percent of `length_m`, angles in rad."""
        n = max(self.ticks, 1)
        return {
            "tip_rmse_pct": 100.0 * float(np.sqrt(self.tip / n)) / length_m,
            "tilt_rmse_rad": float(np.sqrt(self.tilt / n)),
            "yaw_rmse_rad": float(np.sqrt(self.yaw / n)),
            "branch_switches": self.branch_switches,
        }


def run(estimator: Estimator, trial: Trial) -> tuple[Floats, Floats]:
    """Poses (T, M+1, 3), (T, M+1, 3, 3) that the estimator reports, tick by tick, from its rest pose on."""
    estimator.reset()
    position, rotation = np.empty_like(trial.position), np.empty_like(trial.rotation)
    for k, observations in enumerate(trial.observations):
        estimate = estimator.update(observations)
        position[k], rotation[k] = estimate.position_m, estimate.rotation
    return position, rotation


def score(trial: Trial, position: Floats, rotation: Floats) -> Score:
    """Errors over the evaluated ticks; each time a module's twist error crosses 20 degrees, at any tick, is a branch switch."""
    use = trial.evaluated
    tip = position[use, -1] - trial.position[use, -1]
    true, got = trial.rotation[use, -1], rotation[use, -1]
    # Angle between the disc normals, and rotation about the normal between the discs.
    cosine = np.einsum("ti,ti->t", true[:, :, 2], got[:, :, 2])
    sine = np.linalg.norm(np.cross(true[:, :, 2], got[:, :, 2]), axis=1)
    yaw = module_rotations(np.stack([true, got], axis=1))[:, 0, 2]
    off = np.abs(module_rotations(rotation)[..., 2] - module_rotations(trial.rotation)[..., 2]) > BRANCH_RAD
    crossings = int((off[1:] & ~off[:-1]).sum() + off[0].sum())
    return Score(
        tip=float((tip**2).sum()),
        tilt=float((np.arctan2(sine, cosine) ** 2).sum()),
        yaw=float((yaw**2).sum()),
        ticks=int(use.sum()),
        branch_switches=crossings,
    )
