"""What real boards in the loop have added, in lines for a person."""

from __future__ import annotations

from typing import Any

from sim.usb.in_loop import BoardsInTheLoop


def lines_of(in_loop: BoardsInTheLoop) -> list[str]:
    """Lines not told yet, then a line a board and one for what being real adds."""
    result = in_loop.result
    lines = in_loop.take_lines()
    for strut, row in result.get("boards", {}).items():
        lines.append(
            f"{strut} ({row['port']}): plant to packet {_ms(row, 'packet')}, of it plant to register {_ms(row, 'register')}"
            f" (medians and 99th percentiles of {row['samples']} samples and {row['reports']} reports)"
        )
        if row["losses"]:
            lines.append(f"{strut}: stopped taking samples {row['losses']} times")
    if result.get("added_p50_ms") is not None:
        lines.append(
            f"virtual struts: plant to packet {_ms(result, 'virtual_packet')} ({result['virtual_samples']} samples of "
            f"{', '.join(in_loop.timed)}); the real boards add {result['added_p50_ms']:.1f} / {result['added_p99_ms']:.1f} ms"
        )
    return lines


def _ms(row: dict[str, Any], name: str) -> str:
    median, tail = row[f"{name}_p50_ms"], row[f"{name}_p99_ms"]
    return "unknown" if median is None else f"{median:.1f} / {tail:.1f} ms"
