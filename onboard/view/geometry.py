"""What the page draws, once per robot: joints in the axes of their discs, and which joints struts and cables connect."""

from __future__ import annotations

from typing import Any

from onboard.robot import RobotSpec
from onboard.tower import StrutTower


def scene(spec: RobotSpec) -> dict[str, Any]:
    """Everything about the robot that does not change while it runs. Lengths in metres, pressures in pascals.

    joints: [disc, x, y, z] in that disc's axes; joint m N + j is the foot of strut j of module m, and M N + m N + j its head.
    rings: lists of joints to draw as a loop. struts, cables: pairs of joints. cylinders: numbers of cables with a channel.
    """
    tower: StrutTower = spec.structure
    lower, upper = tower.rest_joints_m()
    struts, per = tower.struts, tower.struts_per_module
    joints = []
    for ends, above in ((lower, 0), (upper, 1)):
        for module in range(tower.modules):
            disc = module + above
            for x, y, z in ends[module]:
                joints.append([disc, round(float(x), 6), round(float(y), 6), round(float(z) - disc * tower.module_height_m, 6)])
    cables = [[struts + m * per + head, m * per + foot] for m, head, foot in tower.cable_ends()]
    valves = spec.actuators
    return {
        "kind": "scene",
        "robot": spec.name,
        "title": spec.robot.title,
        "discs": tower.modules + 1,
        "height_m": tower.rest_height_m,
        "joints": joints,
        "rings": [[m * per + j for j in range(per)] for m in range(tower.modules * 2)],
        "struts": [[k, struts + k] for k in range(struts)],
        "cables": cables,
        "cylinders": tower.cylinders,
        "strut_ids": list(spec.struts),
        "pressure_pa": [valves.min_pressure_pa, valves.max_pressure_pa] if valves else None,
    }
