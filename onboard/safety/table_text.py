"""The transition table as text, for docs/safety.md: `python -m onboard.safety.table_text` prints it."""

from __future__ import annotations

from onboard.safety.faults import LINES, Fault
from onboard.safety.table import REQUESTS, ROWS, Condition, Event, Hold, Row, State

_HOLDS = {
    Hold.NONE: "at once",
    Hold.NOT_A_NUMBER: "after `actuators.command_ttl_ms`",
    Hold.RECOVERY: "after 0.5 s without a gap",
    Hold.ARMING: "after 3 s",
    Hold.DEGRADED: "after `safety.degraded_limit_s`",
}


def transitions() -> str:
    """A Markdown table of what conditions cause; states with the same row share a line."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for row in ROWS:
        fault = f"[{row.fault.value}](faults/{row.fault.value}.md)" if row.fault else ""
        groups.setdefault((_when(row), row.target.value, _HOLDS[row.hold], fault), []).append(row.state.value)
    lines = ["| in | when | how soon | to | fault |", "|---|---|---|---|---|"]
    for (when, target, hold, fault), states in groups.items():
        lines.append(f"| {', '.join(states)} | {when} | {hold} | **{target}** | {fault} |")
    return "\n".join(lines)


def requests() -> str:
    """A Markdown table of requests by state: where each leads, and what refuses it."""
    found = {(row.state, row.event): row for row in REQUESTS}
    lines = ["| in | " + " | ".join(event.value for event in Event) + " |", "|---" * (len(Event) + 1) + "|"]
    for state in State:
        cells = []
        for event in Event:
            row = found.get((state, event))
            guarded = row is not None and (row.refuse_if or row.require)
            cells.append("refused" if row is None else f"{row.target.value}{' (if clear)' if guarded else ''}")
        lines.append(f"| **{state.value}** | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def faults() -> str:
    """A Markdown list of all faults with their lines and pages."""
    return "\n".join(f"- [{fault.value}](faults/{fault.value}.md): {LINES[fault]}" for fault in Fault)


def _when(row: Row) -> str:
    if row.any_of:
        return _names(row.any_of)
    if row.hold in (Hold.ARMING, Hold.DEGRADED):
        return "still there"
    return f"{_names(row.all_of)} and no trouble" if row.all_of else "no trouble"


def _names(bits: Condition) -> str:
    return ", ".join(bit.name.lower().replace("_", " ") for bit in Condition if bit & bits and bit.name)


if __name__ == "__main__":
    print(transitions(), requests(), faults(), sep="\n\n")
