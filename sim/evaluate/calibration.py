"""`prestress evaluate calibration`: what calibrating from a few hand-held poses gains on the plant, whose sensors are off."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress

from onboard.calibration.make import make
from onboard.calibration.stills import StillFinder
from onboard.errors import UsageError
from onboard.messages import Floats, ImuBatch, PoseEstimate
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.evaluate.loop import SimulatedLoop
from sim.hand import Hand
from sim.tower.model import TowerModel, build_model
from sim.tower.plant import TowerPlant
from sim.tower.truth import TowerTruth

POSES, MOVE_S, HOLD_S = 6, 5.0, 3.0
JUDGED = 3  # poses drawn anew, that the calibration has not seen
TILT_DEG = {True: (5.0, 25.0), False: (3.0, 12.0)}  # with valves; without: the stiff prism of one module


def evaluate_calibration(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the evaluation and gives the exit status."""
    parser.add_argument("robot", nargs="?", default="module_rig", help="a robot's name or file")
    parser.add_argument("--seed", type=int, default=0, help="first seed; tuning used 1000 and up")
    parser.add_argument("--seeds", type=int, default=None, help="number of seeds (10; with --quick 1)")
    parser.add_argument("--quick", action="store_true", help="one seed, the same keys")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Errors before and after on poses that the calibration has not seen; exit status 1 when it did not gain."""
    count = args.seeds if args.seeds is not None else (1 if args.quick else 10)
    if not 1 <= count <= 1000:
        raise UsageError(f"--seeds is {count}: must lie in 1 .. 1000")
    spec = load_robot(robot_file(args.robot))
    model = build_model(spec)
    rows = []
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("calibrating", total=count)
        for k in range(count):
            rows.append(trial(spec, model, args.seed + k))
            bar.advance(task)
    worse = [row["seed"] for row in rows if row["inclination_after_deg"] >= row["inclination_before_deg"]]
    out = {key: round(float(np.sqrt(np.mean([row[key] ** 2 for row in rows]))), 4) for key in rows[0] if key != "seed"}
    result = {"robot": spec.name, **out, "n": count, "failures": worse, "trials": rows, "clock": "simulated", "simulation": True}
    if args.json:
        print(json.dumps(result))
    else:
        print(f"{spec.name}, {count} seeds, simulated: RMS before -> after calibration, on {JUDGED} poses that it has not seen")
        print(f"  strut inclination {out['inclination_before_deg']} -> {out['inclination_after_deg']} degrees")
        print(f"  no gain with seeds: {', '.join(map(str, worse)) or 'none'}")
        print(f"  tip {out['tip_before_mm']} -> {out['tip_after_mm']} mm")
    return int(out["inclination_after_deg"] >= out["inclination_before_deg"])


def trial(spec: RobotSpec, model: TowerModel, seed: int) -> dict[str, float]:
    """One tower with its own sensors: calibrate on poses, then judge both estimators on others."""
    finder = StillFinder(len(spec.struts))
    _visit(spec, model, seed, np.random.default_rng([seed, 1]), POSES, finder)
    calibration = make(spec, finder.stills(), "2026-01-01T00:00:00Z")
    better = msgspec.structs.replace(spec, calibration=calibration)
    before = _visit(spec, model, seed, np.random.default_rng([seed, 2]), JUDGED)
    after = _visit(better, model, seed, np.random.default_rng([seed, 2]), JUDGED)
    return {
        "seed": seed,
        "inclination_before_deg": before[0],
        "inclination_after_deg": after[0],
        "tip_before_mm": before[1],
        "tip_after_mm": after[1],
        "residual_before_deg": calibration.residual_before_deg,
        "residual_after_deg": calibration.residual_after_deg,
    }


def _visit(
    spec: RobotSpec, model: TowerModel, seed: int, rng: np.random.Generator, poses: int, finder: StillFinder | None = None
) -> tuple[float, float]:
    """RMS errors of strut inclination [deg] and tip [mm] over poses that a hand leads to; the first is the rest pose."""
    loop = SimulatedLoop(spec, seed, model)
    if finder is not None:
        receive = loop.link.receive

        def heard(t_s: float) -> list[ImuBatch]:
            batches = receive(t_s)
            for batch in batches:
                finder.add(batch)
            return batches

        loop.link.receive = heard
    hand = Hand(spec.structure.rest_height_m)
    loop.run(HOLD_S + 1.0, lambda t_s, estimate, measured: loop.setpoints_pa)
    angle, tip = [], []

    def hands(plant: TowerPlant, truth: TowerTruth) -> None:
        hand.update(plant, truth)

    def policy(t_s: float, estimate: PoseEstimate, measured: Floats) -> Floats:
        return loop.setpoints_pa

    for _ in range(poses):
        hand.lead_to(float(np.radians(rng.uniform(*TILT_DEG[spec.actuators is not None]))), float(rng.uniform(-np.pi, np.pi)))
        loop.run(MOVE_S + HOLD_S, policy, hands)
        seen = loop.orientation.observe(loop.t_s)
        angle.append(np.degrees(np.arccos(seen.direction[:, 2]) - np.arccos(loop.truth.direction[:, 2])))
        assert loop.estimate is not None
        tip.append(1000.0 * np.linalg.norm(loop.estimate.tip_m - loop.truth.tip_m))
    return float(np.sqrt(np.mean(np.square(angle)))), float(np.sqrt(np.mean(np.square(tip))))
