"""One idea: how far the planner's quasi-static model parts from the full simulator, by horizon, on held-out random tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from offboard.vine.quasi_static import FRAMES
from onboard.models.manifest import load_model_file
from onboard.planning.sampling import Knots
from onboard.planning.vine.dynamics import VineDynamics
from onboard.planning.vine.state import layout_of
from onboard.vine_robot import VineRobot
from sim.vine.goals import steering_task
from sim.vine.plant import plant_robot
from sim.vine.reach import follow
from sim.vine.simulator import Simulator
from sim.vine.state import Options
from sim.vine.steer import field_for

KNOTS = 4


def model_error(robot: VineRobot, seed: int, tasks: int, each: int = 8) -> dict[str, Any]:
    """Tip distance [mm] by horizon [s]: median and 90th percentile of `each` rollouts in each of `tasks` scenes.

    Both start from the launch and get the same commands: full growth, base heading and curvature from lines between random
    knots over their whole range, held for a step of the model, followed at the slew rates.
    """
    layout = layout_of(robot)
    model = VineDynamics(load_model_file(robot.manifest_path, robot.robot.name, robot.physics_hash), layout)
    rng = np.random.default_rng([seed, 13])
    errors: list[Any] = []
    frames = model.steps * FRAMES
    for number in range(tasks):
        task = steering_task(10_000 * (seed + 1) + number, robot.body.radius_m)
        model.set_field(field_for(robot, task))
        knots = rng.uniform(robot.low, robot.high, (each, KNOTS, 3))
        knots[..., 0] = robot.high[0]
        knots[:, 0, 1:] = 0.0
        wanted = Knots(model.steps, KNOTS, "linear").expand(knots)
        followed = follow(robot, np.repeat(wanted, FRAMES, axis=1).transpose(1, 0, 2))
        sim = Simulator(plant_robot(robot), [task.scene] * each, Options(links=robot.body.links))
        state = sim.start(0.0)
        controls = sim.controls(frames, state)
        controls[..., 0], controls[..., 4], controls[..., 5] = followed[..., 0], followed[..., 1], followed[..., 2]
        made = sim.rollout(state, controls)
        predicted = layout.tip(model.rollout(layout.straight(1.5 * robot.body.link_m), wanted))
        true = np.stack([made.state(FRAMES * (k + 1) - 1).tip() for k in range(model.steps)], axis=1)
        errors.append(1e3 * np.linalg.norm(predicted - true, axis=2))
    whole = np.concatenate(errors)
    table = {}
    for steps in (3, 5, 10, 15, 20, 25, 30):
        if steps <= model.steps:
            part = whole[:, steps - 1]
            table[f"{steps * model.step_s:.2f}"] = {
                "median_mm": round(float(np.median(part)), 2),
                "p90_mm": round(float(np.percentile(part, 90)), 2),
                "max_mm": round(float(part.max()), 1),
            }
    return {"rollouts": len(whole), "by_horizon_s": table}
