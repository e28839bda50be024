"""The benchmark of flashing measures real sessions and reports the numbers that it promises."""

from __future__ import annotations

import argparse
import json

import pytest

from onboard.errors import UsageError
from sim.flash.bench import bench_flash


def test_one_board_is_flashed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    run = bench_flash(parser)
    run(parser.parse_args(["--quick", "--json"]))
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["first_s"] > 0 and result["second_s"] > 0 and result["sent_bytes"] > 20_000 and result["boards"] == 1


@pytest.mark.parametrize("boards", ["0", "-1", "101"])
def test_a_senseless_number_of_boards_is_refused(boards: str) -> None:
    parser = argparse.ArgumentParser()
    run = bench_flash(parser)
    with pytest.raises(UsageError, match="--boards"):
        run(parser.parse_args(["--boards", boards]))
