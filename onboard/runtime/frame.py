"""One frame of the live view, built by the daemon on request: the estimate and the actuators, rounded to what a screen shows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from onboard.runtime.core import Core


def frame(core: Core, now_s: float) -> dict[str, Any]:
    """Poses [m], cable lengths [m], set-points and measured pressures [Pa], state and troubles at `now_s`."""
    estimate, supervisor = core.estimate, core.supervisor
    fields: dict[str, Any] = {
        "kind": "frame",
        "t_s": round(now_s, 4),
        "state": supervisor.state.value,
        "fault": supervisor.fault.value if supervisor.fault else None,
        "troubles": [fault.value for fault in supervisor.troubles()],
        "goal": core.goal.name if core.goal else None,
    }
    if estimate is not None:
        fields |= {
            "position_m": _rounded(estimate.position_m, 5),
            "rotation": _rounded(estimate.rotation, 5),
            "cable_length_m": _rounded(estimate.cable_length_m, 5),
            "age_ms": round(1000.0 * (now_s - estimate.t_s + estimate.age_s), 1),
            "tip_sigma_mm": round(1000.0 * estimate.tip_sigma_m, 2),
            "strut_flags": [int(flag) for flag in estimate.strut_flags],
        }
    if core.command is not None:
        fields["setpoint_pa"] = _rounded(core.command.value, 0)
    reports = core.reports()
    boards = core.spec.actuators.boards if core.spec.actuators else []
    if boards and all(board.id in reports for board in boards):
        measured = np.zeros(sum(board.channels for board in boards))
        for board in boards:
            measured[board.first : board.first + board.channels] = reports[board.id].measured[: board.channels]
        fields["measured_pa"] = _rounded(measured, 0)
    return fields


def _rounded(values: ArrayLike, digits: int) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), digits).tolist()
