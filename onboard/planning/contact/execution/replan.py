"""Plans from a measured state: with room for control first, then once more without it."""

from __future__ import annotations

import msgspec

from onboard.clock import Clock
from onboard.planning.contact.execution.aim import lenient_spec, measured_body, planning_spec
from onboard.planning.contact.execution.ports import Floats
from onboard.planning.contact.guide import Guide
from onboard.planning.contact.plan import Plan, State
from onboard.planning.contact.scene import Scene
from onboard.planning.contact.search import search
from onboard.planning.contact.worm import WormSpec


def plan_measured(
    spec: WormSpec, scene: Scene, state: State, goal: Floats, clock: Clock, *, budget_s: float, expansions: int,
    guide: Guide | None = None,
) -> Plan:  # fmt: skip
    """A plan for execution; `expansions` bounds each of the two searches, whatever the clock says.

    Raises:
        PlanningError: the start or the goal is illegal, or no guide exists.
    """
    numbers = msgspec.structs.replace(spec.search, max_expansions=expansions)
    body = measured_body(spec)
    strict, lenient = (msgspec.structs.replace(s, search=numbers) for s in (planning_spec(spec), lenient_spec(spec)))
    plan = search(strict, scene, state, goal, clock, budget_s=budget_s, guide=guide, start_body=body)
    if not plan.complete:
        plan = search(lenient, scene, state, goal, clock, budget_s=budget_s, guide=guide, start_body=body)
    return plan
