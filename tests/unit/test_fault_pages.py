"""The index of fault pages says what the transition table does."""

from __future__ import annotations

from pathlib import Path

import pytest

from onboard.safety.faults import LINES, Fault
from onboard.safety.table import ROWS, State

INDEX = (Path(__file__).resolve().parents[2] / "docs" / "faults" / "index.md").read_text()


@pytest.mark.parametrize("fault", list(Fault))
def test_a_fault_stands_in_the_index_with_its_line_and_where_it_leads(fault: Fault) -> None:
    (row,) = [line for line in INDEX.splitlines() if line.startswith(f"| [{fault.value}]")]
    targets = sorted({row.target.value for row in ROWS if row.fault is fault})
    if fault is Fault.STOP_REQUEST:  # caused by a request, not by a condition
        targets = [State.SAFE.value]
    assert LINES[fault] in row
    assert row.endswith(f"| {', '.join(targets) or 'a warning'} |")
