"""`evaluate worm`: the planners on seeded tasks, every plan judged by the independent validator."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from onboard.clock import Clock
from onboard.errors import UsageError
from onboard.planning.contact.guide import make_guide
from onboard.planning.contact.library import Library, load_library
from onboard.planning.contact.plan import Plan
from onboard.planning.contact.retrieval import PrimitiveExpander
from onboard.planning.contact.search import BlockExpander, search
from onboard.planning.contact.validator import validate
from onboard.planning.contact.worm import WormSpec, load_worm
from onboard.resources import robot_file, root
from sim.worm.common import bar, choose_clock, find_scene
from sim.worm.discrete import DiscreteExpander
from sim.worm.encoders import ENCODERS, encoded
from sim.worm.tasks import HELD_OUT_SEED, TRAINING_SEED, draw_task
from sim.worm.warmstart import WarmstartExpander

SCENES = {"s1": "floor_wall_ceiling", "s2": "clutter", "s3": "ridge"}
METHODS = ("pahs", "ikhs", "pahs_nf", "rpr", "pwto", "dbs")
WITHOUT_LIBRARY = {"ikhs", "dbs"}
CAP_S, QUICK_CAP_S = 30.0, 2.0


@dataclass(frozen=True)
class Outcome:
    """One task by one method: what the tables are made of. hit_pct is nan for methods without a library."""

    success: bool
    planning_s: float
    guide_s: float
    steps: int
    deformation: float
    ik_calls: int
    expansions: int
    hit_pct: float
    violations: int
    reason: str


@dataclass(frozen=True)
class Row:
    """A task to run, and the list of outcomes it counts in."""

    method: str
    scene: str
    seed: int
    into: dict[tuple[str, str], list[Outcome]]
    key: tuple[str, str]
    encoder: str = "hand"


def library_file(robot: str) -> Path:
    """Where a worm's primitive library lies."""
    return root() / "models_onnx" / robot / "primitives.npz"


def evaluate_worm(parser: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """Arguments of `evaluate worm`."""
    parser.add_argument("--robot", default="worm", help="worm by name, or the path of its TOML file")
    parser.add_argument("--methods", default=",".join(METHODS), help="methods, comma-separated")
    parser.add_argument("--encoders", default=",".join(ENCODERS), help="keys of the library to compare; '' for none")
    parser.add_argument("--scenes", default=",".join(SCENES), help="scenes, comma-separated")
    parser.add_argument("--tasks", type=int, default=20, help="tasks a scene")
    parser.add_argument("--seed", type=int, default=HELD_OUT_SEED, help="seed of the first task; the others follow")
    parser.add_argument("--cap", type=float, default=CAP_S, help="time limit of a task [s]")
    parser.add_argument("--library", help="primitive library; the robot's own if left out")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="what times and the limit are measured in")
    parser.add_argument("--out", default="runs/evaluate_worm.jsonl", help="one line a task; a run that stopped is taken up again")
    parser.add_argument("--quick", action="store_true", help=f"one task a scene, {QUICK_CAP_S:g} s a task; keys in one scene")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return _evaluate_worm


def _evaluate_worm(args: argparse.Namespace) -> int:
    methods, scenes = _chosen("method", args.methods, METHODS), _chosen("scene", args.scenes, SCENES)
    encoders = _chosen("encoder", args.encoders, ENCODERS)
    spec = load_worm(robot_file(args.robot))
    path = Path(args.library) if args.library else library_file(spec.robot.name)
    library = load_library(path, spec) if encoders or set(methods) - WITHOUT_LIBRARY else None
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12] if library is not None else ""
    tasks, cap = (1, QUICK_CAP_S) if args.quick else (args.tasks, args.cap)
    clock, log = choose_clock(args.clock), Path(args.out)
    done = _read(log)
    outcomes: dict[tuple[str, str], list[Outcome]] = {}
    compared: dict[tuple[str, str], list[Outcome]] = {}
    rows = [Row(m, s, args.seed + i, outcomes, (m, s)) for i in range(tasks) for s in scenes for m in methods]
    for i in range(tasks):  # the hand-made key on unseen tasks is the method `pahs`: its rows are shared
        for kind, first in (("seen", TRAINING_SEED), ("unseen", args.seed)):
            places = scenes[-1:] if args.quick else scenes
            rows += [Row("pahs", s, first + i, compared, (e, kind), e) for s in places for e in encoders]
    libraries = {e: encoded(library, spec, e) for e in {row.encoder for row in rows}} if library is not None else {}
    with bar("planning", args.json) as told:
        for index, row in enumerate(rows):
            source = "" if row.method in WITHOUT_LIBRARY else digest + ("" if row.encoder == "hand" else f" {row.encoder}")
            label = msgspec.json.encode([spec.body_hash[:12], row.method, row.scene, row.seed, cap, args.clock, source]).decode()
            if label not in done:
                chosen = libraries.get(row.encoder)
                done[label] = run_task(spec, SCENES[row.scene], row.method, row.seed, cap, chosen, clock)
                _append(log, label, done[label])
            row.into.setdefault(row.key, []).append(done[label])
            told((index + 1) / len(rows))
    result = table(outcomes, cap, args.quick) | {"encoders": compare(compared, cap)}
    result["violations"] += sum(row.violations for rows in compared.values() for row in rows)
    result |= {"seed": args.seed, "clock": args.clock, "cap_s": cap}
    if args.json:
        print(msgspec.json.encode(result).decode())
    else:
        _tell(result)
    return 0 if result["violations"] == 0 else 1


def run_task(
    spec: WormSpec, scene_name: str, method: str, seed: int, cap_s: float, library: Library | None, clock: Clock
) -> Outcome:
    """One task by one method. A plan counts as a success when it is complete and breaks nothing."""
    scene = find_scene(scene_name)
    task = draw_task(scene, spec, seed)
    began = clock.now_s()
    guide = make_guide(scene, spec, task.start.frames[:, :, 3], task.goal)
    guide_s = clock.now_s() - began
    made: list[PrimitiveExpander] = []

    def expander(blocks: BlockExpander) -> Any:
        if method == "ikhs":
            return blocks
        if method == "dbs":
            return DiscreteExpander(blocks)
        assert library is not None
        if method == "pwto":
            stretches = WarmstartExpander(blocks, library)
            made.append(stretches.primitives)
            return stretches
        made.append(PrimitiveExpander(blocks, library, mend=method != "rpr", fall_back=method == "pahs"))
        return made[-1]

    plan = search(spec, scene, task.start, task.goal, clock, budget_s=cap_s, guide=guide, expand_with=expander)
    return outcome(spec, plan, len(validate(spec, scene, plan)), guide_s, made[0].counts.hit_pct if made else float("nan"))


def outcome(spec: WormSpec, plan: Plan, violations: int, guide_s: float, hit_pct: float) -> Outcome:
    """The numbers of one plan."""
    s = plan.statistics
    return Outcome(
        plan.complete and violations == 0, s["planning_s"], guide_s, len(plan.steps), plan.deformation, s["ik_calls"],
        s["expansions"], hit_pct, violations, plan.reason,
    )  # fmt: skip


def table(outcomes: dict[tuple[str, str], list[Outcome]], cap_s: float, quick: bool) -> dict[str, Any]:
    """Rows by method and scene: planning_s is the median over all tasks, a failed one counting with the cap."""
    result: dict[str, Any] = {"methods": {}, "violations": 0}
    guides: dict[str, list[float]] = {}
    for (method, scene), rows in outcomes.items():
        solved = [row for row in rows if row.success]
        low, high = wilson(len(solved), len(rows))
        entry: dict[str, Any] = {
            "success": len(solved),
            "trials": len(rows),
            "success_ci95_pct": [low, high],
            "planning_s": float(np.median([row.planning_s if row.success else cap_s for row in rows])),
            "ik_calls": float(np.median([row.ik_calls for row in rows])),
            "expansions": float(np.median([row.expansions for row in rows])),
            "capped": quick or any("time budget" in row.reason for row in rows),
        }
        entry["steps"] = float(np.mean([row.steps for row in solved])) if solved else None
        entry["deformation"] = float(np.mean([row.deformation for row in solved])) if solved else None
        entry["hit_pct"] = None if np.isnan(rows[0].hit_pct) else float(np.mean([row.hit_pct for row in rows]))
        result["methods"].setdefault(method, {})[scene] = entry
        result["violations"] += sum(row.violations for row in rows)
        guides.setdefault(scene, []).extend(row.guide_s for row in rows)
    result["guide_s"] = float(np.median([t for times in guides.values() for t in times])) if guides else None
    result["guide_s_by_scene"] = {scene: float(np.median(times)) for scene, times in guides.items()}
    return result


def compare(outcomes: dict[tuple[str, str], list[Outcome]], cap_s: float) -> dict[str, Any]:
    """Rows by encoder, for tasks whose plans made the library (seen) and others (unseen), over all scenes."""
    result: dict[str, Any] = {}
    for (encoder, kind), rows in outcomes.items():
        result.setdefault(encoder, {})[kind] = {
            "hit_pct": float(np.mean([row.hit_pct for row in rows])),
            "planning_s": float(np.median([row.planning_s if row.success else cap_s for row in rows])),
            "success": sum(row.success for row in rows),
            "trials": len(rows),
        }
    return result


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """95 % confidence interval of a rate, in percent (Wilson's score interval)."""
    z, rate = 1.959964, successes / trials
    middle = (rate + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z * np.sqrt(rate * (1 - rate) / trials + z * z / (4 * trials**2)) / (1 + z * z / trials)
    return float(100 * max(0.0, middle - half)), float(100 * min(1.0, middle + half))


def _chosen(what: str, text: str, known: Iterable[str]) -> list[str]:
    names = [name for name in text.split(",") if name]
    for name in names:
        if name not in known:
            raise UsageError(f"there is no {what} {name!r}; known are {', '.join(known)}")
    return names


def _read(log: Path) -> dict[str, Outcome]:
    """Outcomes of a run that stopped; a last line cut short is ignored."""
    done: dict[str, Outcome] = {}
    if log.is_file():
        for line in log.read_text().splitlines():
            try:
                label, row = msgspec.json.decode(line)
            except (msgspec.DecodeError, ValueError):
                continue
            row["hit_pct"] = float("nan") if row["hit_pct"] is None else row["hit_pct"]
            done[label] = Outcome(**row)
    return done


def _append(log: Path, label: str, row: Outcome) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    torn = log.is_file() and log.stat().st_size > 0 and not log.read_bytes().endswith(b"\n")
    with log.open("a") as file:
        file.write("\n" * torn + msgspec.json.encode([label, row.__dict__]).decode() + "\n")


def _tell(result: dict[str, Any]) -> None:
    print(
        f"{'method':8} {'scene':5} {'solved':>7} {'95 % interval':>14} {'median s':>9} {'steps':>6} {'deform.':>8} {'hit %':>6}"
    )
    for method, scenes in result["methods"].items():
        for scene, row in scenes.items():
            low, high = row["success_ci95_pct"]
            cells = [
                f"{row[k]:.{d}f}" if row[k] is not None else "-" for k, d in (("steps", 1), ("deformation", 1), ("hit_pct", 0))
            ]
            print(
                f"{method:8} {scene:5} {row['success']:>3}/{row['trials']:<3} {low:6.0f}..{high:4.0f} % "
                f"{row['planning_s']:>9.2f} {cells[0]:>6} {cells[1]:>8} {cells[2]:>6}" + (" capped" if row["capped"] else "")
            )
    for encoder, kinds in result["encoders"].items():
        for kind, row in kinds.items():
            solved = f"{row['success']:>3}/{row['trials']:<3}"
            print(f"key {encoder:8} {kind:6} {solved} {row['planning_s']:.2f} s, hits {row['hit_pct']:.0f} %")
    print(
        f"violations {result['violations']}; guide " + ", ".join(f"{s} {t:.2f} s" for s, t in result["guide_s_by_scene"].items())
    )
