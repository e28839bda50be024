"""Statements about the encoder's PIO program, executed instruction by instruction: it counts both edges of one phase."""

from __future__ import annotations

import random
import sys
import types
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[2] / "firmware" / "motor" / "encoder.py"
MASK = 0xFFFFFFFF


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """The instructions that the assembler would get, labels resolved."""
    found: list[Any] = []
    rp2, machine = types.ModuleType("rp2"), types.ModuleType("machine")
    rp2.asm_pio = lambda **_: lambda body: found.append(body) or body  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "rp2", rp2)
    monkeypatch.setitem(sys.modules, "machine", machine)
    out: list[tuple[Any, ...]] = []
    labels: dict[str, int] = {}
    names = {
        "x": "x",
        "pin": "pin",
        "x_dec": "x_dec",
        "invert": lambda register: ("invert", register),
        "label": lambda name: labels.__setitem__(name, len(out)),
        "wait": lambda level, _, index: out.append(("wait", level, index)),
        "mov": lambda to, value: out.append(("mov", to, value)),
        "jmp": lambda *words: out.append(("jmp", *words)),
    }
    exec(compile(SOURCE.read_text(), str(SOURCE), "exec"), names)
    found[0]()
    resolved = [(*line[:-1], labels[line[-1]]) if line[0] == "jmp" else line for line in out]
    assert len(resolved) <= 32, "a PIO block holds 32 instructions"
    return resolved


class StateMachine:
    """Runs the program until it waits."""

    def __init__(self, program: list[tuple[Any, ...]]) -> None:
        self.program, self.at, self.x = program, 0, 0

    def see(self, a: int, b: int) -> None:
        for _ in range(100):
            line = self.program[self.at]
            if line[0] == "wait" and line[1] != a:
                return
            self.at = (self.at + 1) % len(self.program)
            if line[0] == "mov":
                self.x = ~self.x & MASK
            elif line[0] == "jmp":
                jump = len(line) == 2 or (b == 1 if line[1] == "pin" else self.x != 0)
                self.x = self.x - 1 & MASK if len(line) == 3 and line[1] == "x_dec" else self.x
                self.at = line[-1] if jump else self.at
        raise AssertionError("the program does not come to rest")

    @property
    def count(self) -> int:
        return self.x - (1 << 32) if self.x >> 31 else self.x


def phases(quarter: int) -> tuple[int, int]:
    """(A, B) at a position in quarters of a line; A leads when it grows."""
    return ((0, 0), (1, 0), (1, 1), (0, 1))[quarter % 4]


def test_a_turn_forwards_counts_two_a_line_and_back_to_zero(program: list[tuple[Any, ...]]) -> None:
    machine = StateMachine(program)
    for quarter in range(401):
        machine.see(*phases(quarter))
    assert machine.count == 200
    for quarter in range(400, -401, -1):
        machine.see(*phases(quarter))
    assert machine.count == -200


def test_an_edge_that_trembles_does_not_drift(program: list[tuple[Any, ...]]) -> None:
    machine = StateMachine(program)
    for quarter in (0, 1, 0, 1, 0, 1, 0, 1, 0) * 50:
        machine.see(*phases(quarter))
    assert machine.count == 0


@pytest.mark.parametrize("seed", range(5))
def test_a_random_walk_is_never_off_by_more_than_one_count(program: list[tuple[Any, ...]], seed: int) -> None:
    draw, machine, quarter = random.Random(seed), StateMachine(program), 0
    for _ in range(3000):
        quarter += draw.choice((-1, 1, 1)) if seed % 2 else draw.choice((-1, 1))
        machine.see(*phases(quarter))
        assert abs(machine.count - quarter / 2) <= 1.0
