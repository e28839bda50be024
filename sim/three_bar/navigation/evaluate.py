"""One idea: `prestress evaluate navigation`: trials of one controller on one course, resumed where the results file ends."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
from rich.console import Console
from rich.progress import Progress

from onboard.errors import UsageError
from onboard.navigation.mission import recovery_of, with_library
from onboard.planning.assembly import build
from onboard.planning.settings import PlannerSettings, load_settings
from sim.three_bar.course import COURSES, Course, load_course, scene_of
from sim.three_bar.navigation.conditions import IDEAL, Conditions
from sim.three_bar.navigation.controllers import CONTROLLERS, Choice, choose, load_dynamics, navigator_data
from sim.three_bar.navigation.oracle import PlantModel
from sim.three_bar.navigation.picture import save_top_down
from sim.three_bar.navigation.results import Row, append_row, matching, read_rows, results_path, summary
from sim.three_bar.navigation.trial import Outcome, Trial, place, run_trial
from sim.three_bar.plant import Plant
from sim.three_bar.robot_file import ThreeBar, load_robot

Run = Callable[[argparse.Namespace], int]
RESULTS = Path("runs/navigation")
QUICK_LIMIT_S = 10.0
ASTAR_REACH_U = 1.0
ABLATIONS = ("slack", "escape", "value")
VALUE_KINDS = ("value", "plain", "oracle")
NEVER_S = 1e6
REACH_U = 0.5  # success: this close in plan (A*: 1.0), as the paper has it


def evaluate_navigation(parser: argparse.ArgumentParser) -> Run:
    """Declare options on `parser`; returns what runs the trials."""
    parser.add_argument("--course", choices=COURSES, default="flat_obstacle")
    parser.add_argument("--controller", choices=CONTROLLERS, default="value")
    parser.add_argument("--trials", type=int, default=10, help="1..1000 (default: 10); seeds count up from --seed")
    parser.add_argument("--seed", type=int, default=0, help="first seed; 0-999 are held out, tuning used 1000 and up")
    parser.add_argument("--model", default=None, help="exported model by name or manifest, or 'plant' for MuJoCo itself")
    parser.add_argument("--iteration", type=int, default=None, help="model of this iteration of the data loop")
    parser.add_argument("--ideal", action="store_true", help="no pose noise, no delay, no drop-outs, plans take no time")
    parser.add_argument("--samples", type=int, default=None, help="samples a plan instead of the settings' (marks the rows)")
    parser.add_argument("--without", choices=ABLATIONS, action="append", default=[], help="ablation; may be repeated")
    parser.add_argument("--recover", action="store_true", help="free a stuck or tipped robot by primitives, as the daemon does")
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of result files and pictures")
    parser.add_argument("--quick", action="store_true", help=f"one trial of {QUICK_LIMIT_S:g} s: to see that everything works")
    parser.add_argument("--json", action="store_true", help="one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Run what is missing of the trials and print their summary."""
    if not 1 <= args.trials <= 1000:
        raise UsageError(f"--trials {args.trials}: must be 1..1000")
    if args.seed < 0:
        raise UsageError(f"--seed {args.seed}: must be 0 or more")
    choice = choose(args.controller, args.model, args.iteration)
    spec, course = load_robot(), load_course(args.course)
    settings = load_settings(spec.robot.name)
    settings = varied(settings, args.samples, args.without)
    if "value" in args.without and choice.controller not in VALUE_KINDS:
        raise UsageError(f"--without value: controller {choice.controller!r} does not use it; {', '.join(VALUE_KINDS)} do")
    bench = Bench(
        spec, course, settings, choice, IDEAL if args.ideal else Conditions(), "value" not in args.without, args.recover
    )
    limit_s = min(QUICK_LIMIT_S, course.course.limit_s) if args.quick else course.course.limit_s
    seeds = [args.seed + k for k in range(1 if args.quick else args.trials)]
    iteration = -1 if args.iteration is None else args.iteration
    blank = bench.row(0, iteration, limit_s, Outcome(False, limit_s, "time", 0.0, 0, []))
    folder = args.results / "quick" if args.quick else args.results
    path = results_path(folder, args.course, args.controller, choice.model, bench.conditions.name)
    done = matching(read_rows(path), blank)
    console = Console(stderr=True)
    picture = path.with_suffix(".png")
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{args.course} {args.controller}", total=len(seeds) * limit_s)
        for number, seed in enumerate(seeds):
            if seed not in done:
                outcome = bench.trial(seed, limit_s, lambda t, n=number: progress.update(task, completed=n * limit_s + t))
                done[seed] = bench.row(seed, iteration, limit_s, outcome)
                append_row(path, done[seed])
                bench.picture(picture, seed, outcome)
            progress.update(task, completed=(number + 1) * limit_s)
    result = summary([done[seed] for seed in seeds])
    about = {"course": args.course, "controller": args.controller, "model": choice.model, "model_hash": bench.model_hash}
    about |= {"conditions": bench.conditions.name, "seeds": seeds, "limit_s": limit_s, "simulation": True, "results": str(path)}
    about |= {"settings": bench.how, "recover": args.recover, "without": sorted(set(args.without))}
    about |= {"picture": str(picture) if picture.is_file() else ""}
    if args.json:
        print(json.dumps({**result, **about}))
    else:
        print(
            f"{args.course}, {args.controller}: {result['success_pct']} % of {result['trials']}, mean {result['mean_time_s']} s "
            f"(failures count {limit_s:g} s), {result['plan_ms_p50']} ms a decision; {path}"
        )
    return 0


def varied(settings: PlannerSettings, samples: int | None, without: list[str]) -> PlannerSettings:
    """Settings with another number of samples, or without a part; their digest keeps such rows apart. Raises UsageError."""
    mppi, escape = settings.mppi, settings.escape
    if samples is not None:
        if not 2 <= samples <= 100_000:
            raise UsageError(f"--samples {samples}: must be 2..100000")
        mppi = msgspec.structs.replace(mppi, samples=samples)
    if "slack" in without:
        mppi = msgspec.structs.replace(mppi, slack_weight=0.0)
    if "escape" in without:
        escape = msgspec.structs.replace(escape, patience_s=NEVER_S)
    return msgspec.structs.replace(settings, mppi=mppi, escape=escape)


class Bench:
    """One course and controller, built once for all trials."""

    def __init__(
        self,
        spec: ThreeBar,
        course: Course,
        settings: PlannerSettings,
        choice: Choice,
        conditions: Conditions,
        knows_heading: bool = True,
        recover: bool = False,
    ) -> None:
        self.spec, self.course, self.settings, self.choice, self.conditions = spec, course, settings, choice, conditions
        self.plant = Plant(spec, scene_of(course))
        self.dynamics, self.model_hash = load_dynamics(choice, self.plant, spec)
        self.data = navigator_data(choice, spec, course, self.plant.world, settings, seed=0)
        self.how = settings.digest + ("" if knows_heading else "+wavefront") + ("+recovery" if recover else "")
        if not knows_heading:
            self.data = msgspec.structs.replace(self.data, kind="value_wavefront")
        self.recovery = recovery_of(with_library(self.data)) if recover else None
        self.terrain = self.data.terrain
        self.goal = np.array([course.goal.x_u, course.goal.y_u])

    @property
    def reach_u(self) -> float:
        """How close counts as arrived."""
        return ASTAR_REACH_U if self.choice.controller.startswith("astar") else REACH_U

    def trial(self, seed: int, limit_s: float, progress: Callable[[float], None] | None = None) -> Outcome:
        """One trial; everything in it follows from `seed`."""
        rng = np.random.default_rng([seed, 0])
        place(self.plant, self.course, rng)
        if isinstance(self.dynamics, PlantModel):
            self.dynamics = PlantModel(self.plant)
        self.navigator = build(msgspec.structs.replace(self.data, seed=seed), self.dynamics, self.terrain)
        self.navigator.set_goal(self.goal)
        oracle = self.dynamics if isinstance(self.dynamics, PlantModel) else None
        trial = Trial(self.plant, self.navigator, self.settings, self.conditions, rng, oracle, self.recovery)
        return run_trial(trial, self.goal, self.reach_u, limit_s, progress)

    def row(self, seed: int, iteration: int, limit_s: float, outcome: Outcome) -> Row:
        """The outcome as a row of the results file."""
        return Row(
            format=1,
            course=self.course.course.name,
            controller=self.choice.controller,
            model=self.choice.model,
            model_hash=self.model_hash,
            iteration=iteration,
            conditions=self.conditions.name,
            settings=self.how,
            seed=seed,
            limit_s=limit_s,
            success=outcome.success,
            time_s=round(outcome.time_s, 2),
            end=outcome.end,
            final_distance_u=round(outcome.final_distance_u, 3),
            decisions=outcome.decisions,
            plan_ms_p50=round(float(np.median(outcome.plan_ms)), 2) if outcome.plan_ms else 0.0,
            counts=outcome.counts,
        )

    def picture(self, path: Path, seed: int, outcome: Outcome) -> None:
        """The trial from above."""
        how = f"seed {seed}: {outcome.end} at {outcome.time_s:.1f} s (simulation)"
        title = f"{self.course.course.name}, {self.choice.controller}, {how}"
        save_top_down(path, self.spec, self.plant.scene, self.course, self.terrain, self.navigator, outcome.path, title)
