"""A strut tower's file cut down to its first module: an armed robot that a small computer can simulate beside other things."""

from __future__ import annotations

import re
import tomllib
from typing import Any

from onboard.errors import UsageError


def one_module(text: str, name: str) -> str:
    """The robot's file `text` with one module, its struts and the boards of its cylinders, as a robot called `name`.

    Raises UsageError for a file that is laid out differently from the ones that come with prestress."""
    raw: dict[str, Any] = tomllib.loads(text)
    structure = raw.get("structure", {})
    per_module = structure.get("struts_per_module", 0)
    cylinders = per_module * sum(one.get("actuation") == "cylinder" for one in structure.get("cables", []))
    boards = [board for board in raw.get("actuators", {}).get("boards", []) if board["first"] < cylinders]
    if not per_module or not boards:
        raise UsageError("only a strut tower with valves can be cut down to a module")
    struts = ", ".join(f'"{strut}"' for strut in raw["struts"][:per_module])
    lines = ",\n".join(f'    {{ id = "{b["id"]}", first = {b["first"]}, channels = {b["channels"]} }}' for b in boards)
    changes = {
        r"^struts = \[[^\]]*\]": f"struts = [{struts}]",
        r'^name = ".*"$': f'name = "{name}"',
        r'^title = ".*"$': f'title = "One module of {raw["robot"]["name"]}"',
        r"^modules = \d+$": "modules = 1",
        r"^handedness = \[.*\]$": f"handedness = [{structure['handedness'][0]}]",
        r"^boards = \[[^\]]*\]": f"boards = [\n{lines},\n]",
        r'^prefix = ".*"$': f'prefix = "prestress/{name}"',
    }
    for pattern, line in changes.items():
        text, count = re.subn(pattern, lambda _, line=line: line, text, count=1, flags=re.MULTILINE)
        if not count:
            raise UsageError(f"the robot's file has no line like {pattern}")
    return text
