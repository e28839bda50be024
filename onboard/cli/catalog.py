"""All verbs of the command line: the built-in ones, and those that other packages register by entry point.

An entry point of the group `prestress.verbs` is named `verb.subject` ("evaluate.posture") or `verb` alone. It gives a
function that takes an argparse parser, adds its arguments and returns what runs: `(namespace) -> exit status`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from onboard.errors import MissingExtraError

Run = Callable[[argparse.Namespace], int]
AddVerb = Callable[[argparse.ArgumentParser], Run]

VERBS: dict[str, str] = {
    "run": "run a robot: with its hardware, or everything simulated around the real daemon and firmware",
    "sim": "run a plant and its virtual boards, or a single board",
    "posture": "teach, list, go to and delete postures",
    "arm": "arm the actuators of a running robot",
    "go": "set an armed robot that drives or grows going to its goal",
    "disarm": "disarm them",
    "stop": "emergency stop: safe state on all boards, now",
    "reset": "leave a fault or the safe state, to disarmed",
    "status": "what a running robot's daemon says of itself",
    "record": "record a running robot",
    "replay": "feed a recording through estimator and control again and compare",
    "recording": "what a recording holds; plot it, or export it to tables",
    "flash": "write interpreter and firmware to boards on USB and provision them",
    "update": "bring new firmware to boards over the air",
    "struts": "list the boards that the broker knows",
    "certs": "make certificates for broker and boards",
    "calibrate": "find mountings, biases and offsets, step by step",
    "doctor": "check this computer for running a robot",
    "view": "live view of a running robot",
    "plan": "plan ahead without a robot",
    "fit": "fit a plant's parameters to data",
    "collect": "collect training data",
    "train": "train a dynamics model",
    "loop": "alternate collection and training",
    "primitives": "measure or learn a primitive library",
    "model": "export, check and install learned models",
    "evaluate": "evaluations with held-out seeds",
    "bench": "benchmarks against a named peer",
    "config": "check and show a robot's file",
}

SUBJECTS: dict[str, str] = {
    "evaluate.manipulator": "disc pose estimators against a simulator of errors (table of methods, motions and tilts)",
    "model.install": "hand a model to the running daemon, which verifies, tries and swaps it",
    "loop.three_bar": "drive with the learned controller and train on it, round by round",
    "evaluate.posture": "posture estimation and control on the plant; --hil: through firmware, broker and daemon",
    "evaluate.calibration": "what calibrating a tower from held poses gains, simulated",
    "evaluate.vine": "vine simulator: accuracy, gradients, fits",
    "evaluate.worm": "worm planners on seeded tasks",
    "evaluate.worm-execution": "the suction worm's plans carried out on its plant",
    "evaluate.navigation": "the three-bar robot's controllers on the five courses",
    "evaluate.dynamics": "learned dynamics against the plant",
    "bench.estimator": "time of one five-layer update, and its ratio to a gradient step",
    "bench.flash": "time to make an empty board a strut, and again with nothing to change",
    "bench.board": "what a board on USB in the loop adds to the way of a sample",
    "bench.update": "time to bring new firmware to 20 boards over the air",
    "bench.loop": "lateness of fixed-rate loops, idle and loaded",
    "bench.link": "20 boards through a broker: losses, age, processor time",
    "bench.view": "frames a second of the live view, and what they cost",
    "bench.soak": "long simulated operation with random faults: unsafe commands, memory, rates",
    "bench.dynamics": "plant and model rollouts",
    "fit.vine": "fit the vine's physical parameters to tracked shapes",
    "bench.vine": "vine solver against its peers",
    "bench.worm": "inverse kinematics and search against IPOPT",
    "sim.strut": "one virtual strut that plays a recording through firmware and broker to the orientation filter",
    "run.vine": "grow a vine to a goal through obstacles: daemon, planner, firmware and plant in real time",
    "run.three_bar": "drive the three-bar robot to a course's goal: daemon, planner, firmware and plant in real time",
    "run.worm": "plan a crawl of the suction worm and carry it out, simulated",
    "update.keygen": "make the key that signs updates",
    "sim.vine": "roll out a batch of growing vines",
    "sim.three_bar": "the three-bar robot: gaits and courses",
    "collect.three_bar": "record episodes of the three-bar plant",
    "train.three_bar": "train its graph-network dynamics",
    "primitives.three_bar": "measure its gaits' effects into a library",
    "plan.worm": "plan a crawl of the suction worm over a scene",
    "primitives.worm": "collect its primitive library from plans",
    "fit.worm": "fit its feasible sections to data",
    "model.export": "write a trained model as ONNX with its manifest",
}

BUILT_IN: dict[str, str] = {
    "config": "onboard.cli.config:add",
    "doctor": "onboard.cli.doctor:add",
    "calibrate": "onboard.cli.calibrate:add",
    "run": "onboard.cli.run:add",
    "arm": "onboard.cli.console:add_arm",
    "go": "onboard.cli.go:add",
    "disarm": "onboard.cli.console:add_disarm",
    "stop": "onboard.cli.console:add_stop",
    "reset": "onboard.cli.console:add_reset",
    "status": "onboard.cli.console:add_status",
    "posture": "onboard.cli.posture:add",
    "record": "onboard.cli.record:add",
    "replay": "onboard.cli.replay:add",
    "recording": "onboard.cli.recording:add",
    "view": "onboard.cli.view:add",
    "flash": "onboard.cli.flash:add",
    "certs": "onboard.cli.certs:add",
    "struts": "onboard.cli.struts:add",
    "bench.loop": "onboard.runtime.bench_loop:bench_loop",
}

_EXTRAS = {"mujoco": "sim", "matplotlib": "view", "torch": "offboard", "onnx": "offboard", "scipy": "sim", "ray": "cluster"}


def catalog() -> dict[str, str | EntryPoint]:
    """Every verb and `verb.subject` that is installed."""
    found: dict[str, str | EntryPoint] = dict(BUILT_IN)
    for entry in entry_points(group="prestress.verbs"):
        found.setdefault(entry.name, entry)
    return found


def load(name: str) -> AddVerb:
    """The function behind a catalogue entry; a missing optional package becomes the pip command that brings it."""
    target = catalog()[name]
    try:
        if isinstance(target, str):
            module, _, attribute = target.partition(":")
            function = getattr(import_module(module), attribute)
        else:
            function = target.load()
    except ModuleNotFoundError as error:
        root = (error.name or "").partition(".")[0]
        if root in _EXTRAS:
            raise MissingExtraError(f"prestress {name.replace('.', ' ')}", _EXTRAS[root]) from error
        raise
    add: AddVerb = function
    return add
