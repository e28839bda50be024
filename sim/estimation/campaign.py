"""The campaign of the reference page's table: twists x motions x tilts x seeds, four estimators on the same observations."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import msgspec

from onboard.estimation.disc_gauss_newton import DiscGaussNewtonConfig
from onboard.estimation.disc_gradient import DiscGradientConfig
from onboard.estimation.disc_map import DiscMapConfig
from onboard.estimation.geometry import DiscGeometry
from onboard.ports import Estimator
from onboard.robot import RobotSpec, load_robot
from sim.estimation.motions import make_motion
from sim.estimation.score import Score, run, score
from sim.estimation.sensing import FINE_HZ, Errors, sense

TWISTS_DEG = (45.0, 135.0, 146.7)
METHODS = ("gradient", "gauss_newton", "map_inclination", "map_direction")
MOTIONS = ("static", "slow", "abrupt")
TILTS_DEG = (25, 45, 70)


@dataclass(frozen=True, slots=True)
class Job:
    """One trial: all methods see the same observations."""

    robot: str
    twist_deg: float
    motion: str
    tilt_deg: int
    seed: int
    duration_s: float
    errors: Errors


def variant(spec: RobotSpec, twist_deg: float) -> RobotSpec:
    """The robot with another strut twist; height and radius stay, so the strut length follows."""
    return msgspec.structs.replace(spec, structure=msgspec.structs.replace(spec.structure, strut_twist_deg=twist_deg))


def estimators(spec: RobotSpec) -> dict[str, Estimator]:
    """The four methods. The joint estimate takes the robot's own settings where its file chooses that type."""
    own = spec.estimator if isinstance(spec.estimator, DiscMapConfig) else DiscMapConfig()
    return {
        "gradient": DiscGradientConfig().build(spec),
        "gauss_newton": DiscGaussNewtonConfig().build(spec),
        "map_inclination": msgspec.structs.replace(own, mode="inclination").build(spec),
        "map_direction": msgspec.structs.replace(own, mode="direction").build(spec),
    }


def run_job(job: Job) -> dict[str, Score]:
    """Score of every method on one trial."""
    spec = variant(load_robot(job.robot), job.twist_deg)
    motion = make_motion(job.motion, job.tilt_deg, spec.structure.modules, job.duration_s, FINE_HZ, job.seed)
    trial = sense(DiscGeometry.of(spec.structure), motion, job.errors, job.seed)
    return {name: score(trial, *run(estimator, trial)) for name, estimator in estimators(spec).items()}


def jobs_for(robot: str, seeds: list[int], duration_s: float, errors: Errors) -> list[Job]:
    """All trials, the same order every time."""
    return [
        Job(robot, twist, motion, tilt, seed, duration_s, errors)
        for twist in TWISTS_DEG
        for motion in MOTIONS
        for tilt in TILTS_DEG
        for seed in seeds
    ]


def run_all(jobs: list[Job], processes: int, advance: Callable[[], None]) -> list[dict[str, Score]]:
    """Scores in the order of `jobs`, whatever the number of processes; `advance` is called after each."""
    results: list[dict[str, Score]] = []
    for result in _results(jobs, processes):
        results.append(result)
        advance()
    return results


def _results(jobs: list[Job], processes: int) -> Iterator[dict[str, Score]]:
    if processes <= 1:
        yield from map(run_job, jobs)
        return
    # One linear-algebra thread a process: more only get into each other's way.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(run_job, jobs, chunksize=1)


def twist_key(twist_deg: float) -> str:
    """45.0 -> "45", 146.7 -> "146_7"."""
    return f"{twist_deg:g}".replace(".", "_")


def tables(jobs: list[Job], results: list[dict[str, Score]], length_m: float) -> dict[str, object]:
    """The nested table twists.<twist>.<method>.<motion>.<tilt>, errors pooled over seeds."""
    pooled: dict[tuple[float, str, str, int], Score] = {}
    for job, result in zip(jobs, results, strict=True):
        for method, one in result.items():
            pooled.setdefault((job.twist_deg, method, job.motion, job.tilt_deg), Score()).add(one)
    return {
        twist_key(twist): {
            method: {
                motion: {str(tilt): pooled[twist, method, motion, tilt].table(length_m) for tilt in TILTS_DEG}
                for motion in MOTIONS
            }
            for method in METHODS
        }
        for twist in TWISTS_DEG
    }
