"""One idea: an episode of the current controller: `value` over a learned model, through noise and delay, to drawn goals."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from onboard.errors import PlanningError
from onboard.messages import Floats
from onboard.planning.assembly import build
from onboard.planning.settings import load_settings
from onboard.planning.value import ValueField
from onboard.planning.value_navigator import ValueNavigator
from onboard.ports import Dynamics
from sim.three_bar.course import Course, load_course
from sim.three_bar.navigation.conditions import Conditions
from sim.three_bar.navigation.controllers import Choice, navigator_data
from sim.three_bar.navigation.trial import Trial
from sim.three_bar.plant import Plant

COURSE = "course:"
COURSE_GOAL_SHARE = 0.5  # of the episodes go to the course's own goal first; the others to a place nearby
NEARBY_U = (3.0, 10.0)
DRAWS = 60


def drive_value(plant: Plant, watch: Callable[[Plant], None], rng: np.random.Generator, terrain: str, dynamics: Dynamics) -> None:
    """Drive until `watch(plant)`, called after every step, ends it by an exception.

    `terrain` is "course:<name>". The robot senses as in a trial (noise, delay, losses, a plan's lead), so the commands that are
    recorded are those it would really give. A goal that is reached is followed by another one.
    """
    course = load_course(terrain.removeprefix(COURSE))
    settings = load_settings(plant.spec.robot.name)
    seed = int(rng.integers(2**31))
    data = navigator_data(Choice("value", "contact"), plant.spec, course, plant.world, settings, seed)
    navigator = build(data, dynamics)
    if not isinstance(navigator, ValueNavigator):
        raise PlanningError("the controller 'value' was not built")
    own = rng.random() < COURSE_GOAL_SHARE
    goal = _go(navigator, rng, plant, course, own)
    trial = Trial(plant, navigator, settings, Conditions(), rng, None)
    while True:
        trial.tick()
        watch(plant)
        if np.linalg.norm(plant.caps().mean(axis=0)[:2] - goal) <= settings.mppi.goal_reach_u:
            goal = _go(navigator, rng, plant, course, own=False)


def _go(navigator: ValueNavigator, rng: np.random.Generator, plant: Plant, course: Course, own: bool) -> Floats:
    """Set a goal that a way leads to: the course's own, or a drawn one. Raises PlanningError when none is found."""
    here = plant.caps().mean(axis=0)[:2]
    bounds = np.array([course.bounds.x_u, course.bounds.y_u])
    for draw in range(DRAWS):
        angle, away = rng.uniform(-np.pi, np.pi), rng.uniform(*NEARBY_U)
        goal = here + away * np.array([np.cos(angle), np.sin(angle)])
        if own and draw == 0:
            goal = np.array([course.goal.x_u, course.goal.y_u])
        goal = np.clip(goal, bounds[:, 0] + 0.5, bounds[:, 1] - 0.5)
        try:
            navigator.set_goal(goal)
            if isinstance(navigator.field, ValueField) and navigator.field.reachable(here):
                return goal
        except PlanningError:
            continue
    raise PlanningError(f"no goal on {course.course.name!r} can be reached from ({here[0]:.1f}, {here[1]:.1f}) u")
