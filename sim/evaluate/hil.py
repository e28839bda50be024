"""`evaluate posture --hil`: the same judgement in real time, through the real firmware, broker, daemon and boards."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from onboard.errors import PrestressError
from onboard.robot import RobotSpec
from sim.rig import SimulatedRobot
from sim.scenario import Outcome, Scenario
from sim.trace import EstimateLog, TruthLog

PUSHED_S, QUICK_PUSHED_S = 20.0, 5.0
VIOLATION_PA = 101.0  # a count of the valve's converter


def evaluate_hil(path: Path, spec: RobotSpec, seeds: list[int], quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """One run a seed, each about 70 s; the same keys as on the simulated clock. A seed that failed is listed, not left out."""
    runs, failures = [], []
    for seed in seeds:
        with tempfile.TemporaryDirectory(prefix="prestress-hil-") as folder:
            try:
                runs.append(_one(path, spec, seed, Path(folder), quick, say))
            except PrestressError as error:
                failures.append({"kind": "hil", "seed": seed, "error": str(error)})
    settles = [one["settle_s"] for run in runs for one in run["postures"]]
    errors = [one["error_pct"] for run in runs for one in run["postures"]]
    out: dict[str, Any] = {kind: {"tip_rmse_pct": _rms([run[kind] for run in runs])} for kind in ("active", "pushed")}
    out["posture_error_pct"] = _number(max(errors)) if errors else None
    out["posture_error_mean_pct"] = _number(float(np.mean(errors))) if errors else None
    out["settle_s"] = _number(max(settles)) if settles else None
    out["settle_median_s"] = _number(float(np.median(settles))) if settles else None
    out["taught_tip_rmse_pct"] = {str(run["seed"]): _number(run["taught"]) for run in runs}
    out["postures"] = [
        {**one, "error_pct": _number(one["error_pct"]), "settle_s": _number(one["settle_s"])}
        for run in runs
        for one in run["postures"]
    ]
    out["pressure_violations"] = sum(run["violations"] for run in runs)
    out["samples"] = sum(run["samples"] for run in runs)
    out["samples_lost"] = sum(run["lost"] for run in runs)
    out["plant_slips"] = sum(run["slips"] for run in runs)
    return out | {"seeds": seeds, "failures": failures, "clock": "wall", "simulation": True}


def _one(path: Path, spec: RobotSpec, seed: int, folder: Path, quick: bool, say: Callable[[str], None]) -> dict[str, Any]:
    truth = TruthLog()
    with SimulatedRobot(path, spec, folder, seed=seed, runtime=folder) as robot:
        scenario = Scenario(robot, truth, on_poll=say, pushed_s=QUICK_PUSHED_S if quick else PUSHED_S, poses=1 if quick else 3)
        outcome = scenario.play()
        status = robot.status()
        robot.stop_daemon()
        estimates = EstimateLog.read(robot.recording)
    length = spec.structure.rest_height_m

    def rmse(kind: str) -> float:
        return _rms_of([estimates.tip_rmse_pct(truth, start, end, length) for start, end in _spans(outcome, kind)])

    return {
        "seed": seed,
        "active": rmse("go"),
        "pushed": rmse("pushed"),
        "taught": rmse("teach"),
        "postures": [
            {
                "seed": seed,
                "tilt_deg": round(one.tilt_deg, 2),
                "error_pct": 100.0 * one.error_m / length,
                "settle_s": one.settle_s,
            }
            for one in outcome.returns
        ],
        "violations": int(truth.violation_pa > VIOLATION_PA),
        "samples": status["struts"]["samples"],
        "lost": status["struts"]["lost"],
        "slips": truth.slips,
    }


def _spans(outcome: Outcome, kind: str) -> list[tuple[float, float]]:
    return [(start, end) for name, start, end in outcome.phases if name.split()[0] == kind]


def _rms_of(values: list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(values)))) if values else math.nan


def _rms(values: list[float]) -> float | None:
    return _number(_rms_of(values))


def _number(value: float) -> float | None:
    return round(value, 4) if math.isfinite(value) else None
