"""One idea: the data loop of the paper's section V-A: collect with the present controller, train on all data, and again.

Every step leaves files that the next start finds, so the loop may be interrupted anywhere: whole episodes, a training checkpoint,
a model with its manifest, a report. An iteration is done when its report is there and its model is the one the report names.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from offboard.three_bar.collect import CollectSettings, collect
from offboard.three_bar.evaluate import evaluate
from offboard.three_bar.export import check_parity, write_model
from offboard.three_bar.held_out import SETS
from offboard.three_bar.loop_files import IterationReport, LoopSettings, claim, keep_report, read_report
from offboard.three_bar.train import Trainer, describe, load_model
from offboard.three_bar.train_report import write_report
from offboard.three_bar.train_settings import TrainSettings, overridden
from offboard.three_bar.work import Work
from onboard.errors import ModelError
from onboard.models.manifest import load_model_file
from onboard.models.strut_dynamics import StrutDynamics
from sim.three_bar.robot_file import load_robot, physics_hash

BOOTSTRAP = ("uniform", "bang", "coloured", "primitives")
GROUNDS = ("flat", "tilted", "walls", "ceiling", "ramp")
Bar = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop in a folder. models: where contact_0, contact_1 ... go. train: hyperparameters; data and updates are the loop's."""

    folder: Path
    models: Path
    settings: LoopSettings
    train: TrainSettings
    work: Work
    bar: Bar

    def run(self, iterations: int, done: Callable[[list[IterationReport]], None]) -> list[IterationReport]:
        """Iterations 0 up to `iterations`; `done(reports so far)` is called after each, also after those that were there.

        Raises LoopError when the folder belongs to a loop with other settings, and what collecting and training raise.
        """
        claim(self.folder, self.settings, self.train)
        reports: list[IterationReport] = []
        for number in range(iterations):
            report = self._finished(number)
            if report is None:
                report = self._iterate(number, reports)
                keep_report(self.folder, report)
            reports.append(report)
            done(reports)
        return reports

    def data(self, number: int) -> Path:
        """Episodes of an iteration."""
        return self.folder / f"data_{number}"

    def manifest(self, number: int) -> Path:
        """The model of an iteration."""
        return self.models / f"{self.settings.variant}_{number}.json"

    def _finished(self, number: int) -> IterationReport | None:
        report = read_report(self.folder, number)
        if report is None:
            return None
        try:
            file = load_model_file(self.manifest(number), load_robot().robot.name, physics_hash())
        except ModelError:
            return None  # lost or damaged: made again from the iteration's run, which is kept
        return report if file.manifest.onnx_sha256 == report.onnx_sha256 else None

    def _iterate(self, number: int, before: list[IterationReport]) -> IterationReport:
        s = self.settings
        first = number == 0
        wanted = CollectSettings(
            seed=s.seed + number,
            episodes=s.bootstrap_episodes if first else s.driven_episodes,
            seconds=s.bootstrap_s if first else s.driven_s,
            drives=BOOTSTRAP if first else ("value",),
            terrains=GROUNDS if first else tuple(f"course:{name}" for name in s.courses),
            model="" if first else str(self.manifest(number - 1)),
        )
        with self.bar(f"iteration {number}: episodes") as update:
            counts = collect(self.data(number), wanted, 1, update, self.work)
        trained = self._train(number)
        run = self.folder / f"run_{number}"
        model, identity = load_model(run / "best.pt")
        manifest = write_model(self.models, model, f"{s.variant}_{number}", identity)
        parity = check_parity(self.manifest(number), model, s.seed)
        with self.bar(f"iteration {number}: evaluation") as update:
            loaded = StrutDynamics(load_model_file(self.manifest(number), load_robot().robot.name, physics_hash()))
            sets = SETS[:1] if s.quick else SETS
            table = evaluate({"model": loaded}, s.quick or s.quick_evaluation, update, sets)
        made = counts["made"] + counts["kept"]
        return IterationReport(
            format=1,
            iteration=number,
            model=manifest.name,
            onnx_sha256=manifest.onnx_sha256,
            data_hash=manifest.data_hash,
            episodes=made,
            failed_episodes=counts["failed"],
            robot_minutes=made * wanted.seconds / 60.0,
            all_robot_minutes=made * wanted.seconds / 60.0 + sum(report.robot_minutes for report in before),
            updates=trained["updates"],
            train_cpu_minutes=trained["cpu_minutes"],
            validation_com_error_u=trained["best_com_error_u"],
            parity_u=parity,
            errors=table["models"]["model"],
            quick_evaluation=s.quick or s.quick_evaluation,
        )

    def _train(self, number: int) -> dict[str, Any]:
        """Train on all data so far, from the weights of the iteration before."""
        s = self.settings
        changes: dict[str, int | None] = {"updates": s.updates if number == 0 else s.further_updates, "seed": s.seed}
        if s.quick:
            changes |= {"batch": 16, "check_every": 10, "check_windows": 16}
        folders = tuple(str(self.data(k)) for k in range(number + 1))
        start = self.folder / f"run_{number - 1}" / "best.pt" if number else None
        folder = self.folder / f"run_{number}"
        with self.bar(f"iteration {number}: training") as update:
            trainer = Trainer(overridden(self.train, changes, folders), folder, s.variant, start)
            trainer.run(update)
        report = describe(trainer)
        write_report(folder, report)
        return report


def as_json(reports: list[IterationReport]) -> list[dict[str, Any]]:
    """The reports as plain data."""
    return [json.loads(msgspec.json.encode(report)) for report in reports]
