"""What a contact planner starts from and gives back: states, steps, and why it stopped."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onboard.errors import PlanningError

Floats = NDArray[np.float64]
Mask = NDArray[np.uint8]
FORMAT = 1


@dataclass(frozen=True)
class State:
    """A worm at rest.

    Attributes:
        frames: link poses, tail first: rotation (link to world) and position [m]. Shape (n + 1, 3, 4).
        shape: per segment length [m] and curvatures [1/m]. Shape (n, 3).
        attached: which pads hold, 0 or 1. Shape (n + 1,).
    """

    frames: Floats
    shape: Floats
    attached: Mask

    @property
    def mode(self) -> str:
        """Attached pads as a string of 0 and 1, tail first."""
        return "".join("1" if a else "0" for a in self.attached)


@dataclass(frozen=True)
class Step:
    """One transition: the pads' modes before and after, the shapes on the way, and the state it ends in.

    path: shapes at equal shares of the motion, linear between them. Shape (T, n, 3).
    """

    path: Floats
    end: State
    released: int
    attached: int


@dataclass(frozen=True)
class Plan:
    """Steps from a start; `complete` means the head reached the goal, otherwise `reason` says why not."""

    robot: str
    body_hash: str
    scene: str
    start: State
    goal: Floats
    steps: tuple[Step, ...]
    complete: bool
    reason: str
    deformation: float
    statistics: dict[str, Any] = field(default_factory=dict)

    @property
    def states(self) -> list[State]:
        """All states, the start first."""
        return [self.start, *(step.end for step in self.steps)]


def save_plan(plan: Plan, path: Path) -> None:
    """Writes a plan as JSON."""
    content = {
        "format": FORMAT,
        "robot": plan.robot,
        "body_hash": plan.body_hash,
        "scene": plan.scene,
        "goal_m": plan.goal.tolist(),
        "complete": plan.complete,
        "reason": plan.reason,
        "deformation": plan.deformation,
        "start": _state(plan.start),
        "steps": [
            {
                "path": step.path.tolist(),
                "end": _state(step.end),
                "released": step.released,
                "attached": step.attached,
            }
            for step in plan.steps
        ],
        "statistics": plan.statistics,
    }
    path.write_bytes(msgspec.json.encode(content))


def load_plan(path: Path) -> Plan:
    """Reads what `save_plan` wrote; PlanningError when the file is not a plan."""
    try:
        raw = msgspec.json.decode(path.read_bytes())
        if raw["format"] != FORMAT:
            raise PlanningError(f"{path} has plan format {raw['format']}; this version reads {FORMAT}")
        steps = tuple(
            Step(np.array(s["path"], dtype=np.float64), _read_state(s["end"]), int(s["released"]), int(s["attached"]))
            for s in raw["steps"]
        )
        return Plan(
            raw["robot"], raw["body_hash"], raw["scene"], _read_state(raw["start"]),
            np.array(raw["goal_m"], dtype=np.float64), steps, bool(raw["complete"]), raw["reason"],
            float(raw["deformation"]), raw["statistics"],
        )  # fmt: skip
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise PlanningError(f"{path} is not a plan: {error}") from error


def _state(state: State) -> dict[str, Any]:
    return {"frames": state.frames.tolist(), "shape": state.shape.tolist(), "attached": state.attached.tolist()}


def _read_state(raw: dict[str, Any]) -> State:
    frames, shape = np.array(raw["frames"], dtype=np.float64), np.array(raw["shape"], dtype=np.float64)
    attached = np.array(raw["attached"], dtype=np.uint8)
    if frames.shape != (len(shape) + 1, 3, 4) or shape.shape[1:] != (3,) or len(attached) != len(frames):
        raise ValueError(f"state of shapes {frames.shape}, {shape.shape}, {attached.shape}")
    if not (np.all(np.isfinite(frames)) and np.all(np.isfinite(shape))):
        raise ValueError("a state holds values that are not finite")
    return State(frames, shape, attached)
