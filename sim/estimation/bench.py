"""`prestress bench estimator`: time of one five-layer update, compiled, default against the paper's gradient step."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from time import perf_counter_ns

import numpy as np
from rich.console import Console

from onboard.estimation.disc_gradient import DiscGradientConfig, gradient_tick
from onboard.estimation.disc_map import DiscMap, DiscMapConfig
from onboard.estimation.geometry import DiscGeometry
from onboard.messages import StrutObservations
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from sim.estimation.motions import make_motion
from sim.estimation.sensing import FINE_HZ, Errors, sense

TARGET_US = 60.0


def bench_estimator(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Declare options on `parser`; returns the function that runs the benchmark and gives the exit status."""
    parser.add_argument("--robot", default="manipulator", help="a robot's name or the path of its TOML file")
    parser.add_argument("--seed", type=int, default=0, help="seed of the motion that the updates follow")
    parser.add_argument("--quick", action="store_true", help="a shorter motion")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Measure; exit status 1 when the target is missed."""
    spec = load_robot(robot_file(args.robot))
    console = Console(stderr=True)
    with console.status("compiling and measuring"):
        result = measure(spec, 15.0 if args.quick else 60.0, args.seed)
    if args.json:
        print(json.dumps(result | {"seed": args.seed}))
    else:
        print(f"gradient step        {result['gradient_us']:8.1f} us")
        print(
            f"default update       {result['map_us']:8.1f} us: {result['ratio']:.1f} gradient steps (target {TARGET_US:.0f} us)"
        )
        print(f"whole call, default  {result['map_call_us']:8.1f} us: update, covariance, cable lengths, records")
    return 0 if result["map_us"] <= TARGET_US else 1


def measure(spec: RobotSpec, duration_s: float, seed: int) -> dict[str, float]:
    """Medians over updates [us]: gradient_us, map_us (all that changes the estimate), map_call_us, ratio."""
    geometry = DiscGeometry.of(spec.structure)
    motion = make_motion("slow", 45.0, geometry.modules, duration_s, FINE_HZ, seed)
    observations = sense(geometry, motion, Errors(), seed).observations
    config = spec.estimator if isinstance(spec.estimator, DiscMapConfig) else DiscMapConfig()
    gradient = _median_us(_gradient_step(DiscGradientConfig(), geometry), observations)
    inner = config.build(spec)
    inner.update(observations[0])
    step = _median_us(lambda o: _inner(inner, o), observations[1:])
    whole = config.build(spec)
    call = _median_us(lambda o: _whole(whole, o), observations)
    return {"gradient_us": gradient, "map_us": step, "map_call_us": call, "ratio": step / gradient}


def _inner(estimator: DiscMap, observations: StrutObservations) -> None:
    estimator.advance(observations)


def _whole(estimator: DiscMap, observations: StrutObservations) -> None:
    estimator.update(observations)


def _gradient_step(config: DiscGradientConfig, geometry: DiscGeometry) -> Callable[[StrutObservations], None]:
    pose = np.zeros((geometry.modules, 6))
    pose[:, :3] = np.diff(geometry.rest_position_m, axis=0)
    position = geometry.rest_position_m.copy()
    rotation = np.tile(np.eye(3), (geometry.modules + 1, 1, 1))

    def step(observations: StrutObservations) -> None:
        gradient_tick(
            pose, position, rotation, geometry.lower_m, geometry.upper_m, geometry.strut_length_m,
            np.ascontiguousarray(observations.direction[:, 2]), observations.valid, config.weight_length, config.weight_cosine,
            config.position_gain, config.rotation_gain, config.steps,
        )  # fmt: skip

    return step


def _median_us(update: Callable[[StrutObservations], None], observations: list[StrutObservations]) -> float:
    """Median time of an update [us]; the first fifty, which compile and fill caches, are left out."""
    times = np.empty(len(observations))
    for k, one in enumerate(observations):
        before = perf_counter_ns()
        update(one)
        times[k] = perf_counter_ns() - before
    return float(np.median(times[50:])) * 1e-3
