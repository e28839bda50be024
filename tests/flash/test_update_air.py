"""New firmware comes to struts over the air, one by one; one that is no good goes back by itself and ends the row."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.cli.main import main
from onboard.link.broker import EmbeddedBroker
from sim.boards.launcher import VirtualBoard
from tests.flash.air import NEW, OLD, SPEC, Keys, firmware, in_use, install, says, strut_config, update

Air = Callable[..., VirtualBoard]


def test_struts_are_updated_one_by_one_and_the_second_time_nothing_is_sent(
    air: Air, air_port: int, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    boards = [air("strut03", keys.public), air("strut01", keys.public)]
    for board in boards:
        board.start()
        says(board, "link: online")
    source = firmware()
    words = ["update", "manipulator", "--board", "strut03", "strut01", "--key", str(keys.signer.path)]
    words += ["--broker", f"mqtt://127.0.0.1:{air_port}", "--firmware", str(source), "--trial", "10", "--json"]
    assert main(words) == 0
    out, err = capsys.readouterr()
    told = json.loads(out.splitlines()[-1])
    assert [row["board_id"] for row in told["boards"]] == ["strut03", "strut01"]
    assert all((row["state"], row["before"], row["version"]) == ("updated", OLD, NEW) for row in told["boards"])
    assert told["failed"] == {} and told["not_tried"] == []
    size = sum(map(len, in_use(boards[0].jail).values()))
    assert 0 < told["boards"][0]["sent"] < size / 3  # what has not changed was copied on the board
    for board in boards:
        assert (board.jail / "slot").read_text() == "b" and not (board.jail / "trial").exists()
        assert board.log_path.read_text().split(" runs strut ")[-1].split()[0] == NEW
        board.restart()
        says(board, "link: online")
        assert board.log_path.read_text().split(" runs strut ")[-1].split()[0] == NEW
    done, failed = update(air_port, keys, source, ["strut03"])
    assert (done[0].state, done[0].sent, failed) == ("current", 0, {})
    assert keys.signer.path.read_text() not in out + err and keys.public.hex() not in out + err
    secret = "".join(line for line in keys.signer.path.read_text().splitlines() if "-" not in line)
    for board in boards:
        everything = b"".join(path.read_bytes() for path in board.jail.rglob("*") if path.is_file()) + board.log_path.read_bytes()
        assert secret.encode() not in everything


def test_a_firmware_that_does_not_start_goes_back_and_no_other_board_is_touched(
    air: Air, air_port: int, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = air("strut00", keys.public), air("strut01", keys.public)
    for board in (first, second):
        board.start()
        says(board, "link: online")
    source = firmware(NEW, "strut/sampler.py", 'raise RuntimeError("a bad day")\n')
    words = ["update", "manipulator", "--board", "strut00", "strut01", "--key", str(keys.signer.path), "--trial", "10"]
    words += ["--broker", f"mqtt://127.0.0.1:{air_port}", "--firmware", str(source), "--json"]
    assert main(words) == 4
    out, err = capsys.readouterr()
    told = json.loads(out.splitlines()[-1])
    assert told["boards"] == [] and told["not_tried"] == ["strut01"]
    assert "went back to 0.1.0 by itself" in told["failed"]["strut00"] and "a bad day" in told["failed"]["strut00"]
    assert "not tried: strut01" in err.splitlines()[-1]
    assert first.log_path.read_text().split(" runs strut ")[-1].split()[0] == OLD
    assert (first.jail / "slot").read_text() == "a" and not (first.jail / "trial").exists()
    assert first.resets == 4  # into the trial, and after each of three tries
    assert second.resets == 0 and not (second.jail / "b").exists()
    good = firmware("0.9.8")
    assert update(air_port, keys, good, ["strut00"])[1] == {}  # the version that failed does not count


@pytest.mark.long
def test_a_firmware_that_does_not_reach_the_broker_goes_back(air: Air, air_port: int, keys: Keys) -> None:
    board = air("strut00", keys.public)
    board.start()
    says(board, "link: online")
    source = firmware(NEW, "common/wifi.py", "WiFi.joined = lambda self: False\nJOIN_MS = 1000\n")
    done, failed = update(air_port, keys, source, ["strut00"], trial_s=10)
    assert done == [] and "did not reach the broker within 10 s" in failed["strut00"]
    assert (board.jail / "slot").read_text() == "a"


@pytest.mark.long
def test_a_firmware_that_hangs_is_ended_by_the_watchdog_and_goes_back(air: Air, air_port: int, keys: Keys) -> None:
    board = air("strut00", keys.public)
    board.start()
    says(board, "link: online")
    source = firmware(NEW, "strut/sampler.py", "while True:\n    pass\n")
    done, failed = update(air_port, keys, source, ["strut00"])
    assert done == [] and "went back to 0.1.0 by itself" in failed["strut00"] and "it said nothing" in failed["strut00"]


def test_a_damaged_record_of_a_trial_boots_the_old_firmware(air: Air, air_port: int, keys: Keys) -> None:
    board = air("strut00", keys.public)
    for record in ("", "b", "c 3 60 1.0", "b x 60 1.0", "\x00\xff" * 40, "b 0 60 1.0"):
        (board.jail / "trial").write_text(record)
        board.log_path.write_bytes(b"")
        board.start()
        says(board, "link: online")
        assert " runs strut 0.1.0" in board.log_path.read_text() and board.resets == 0
        board.stop()
        assert not (board.jail / "trial").exists() or not record


@pytest.mark.long
def test_a_board_that_vanishes_half_way_keeps_its_firmware_and_goes_on_next_time(air: Air, air_port: int, keys: Keys) -> None:
    board = air("strut00", keys.public)
    board.start()
    says(board, "link: online")
    source = firmware(NEW, "strut/app.py")
    lacking: list[int] = []  # bytes of files, at each request of the first try and of the second

    def cut(_: str, text: str, sent: int, total: int) -> None:
        if text == "sending" and total:
            lacking.append(total - sent)
            if sent > total // 2:
                board.stop()

    done, failed = update(air_port, keys, source, ["strut00"], on_progress=cut)
    assert done == [] and "vanished from the broker during the transfer" in failed["strut00"]
    assert (board.jail / "slot").read_text() == "a" and not (board.jail / "trial").exists()
    first, second = lacking[0], lacking[-1]
    lacking.clear()
    board.log_path.write_bytes(b"")
    board.start()
    says(board, "link: online")
    assert " runs strut 0.1.0" in board.log_path.read_text()

    def note(_: str, text: str, sent: int, total: int) -> None:
        if text == "sending" and total:
            lacking.append(total - sent)

    done, failed = update(air_port, keys, source, ["strut00"], on_progress=note)
    assert failed == {} and done[0].version == NEW
    assert lacking[0] <= second < first  # what had come did not come again


@pytest.mark.long
def test_a_link_that_breaks_half_way_only_makes_it_longer(air: Air, air_port: int, keys: Keys) -> None:
    board = air("strut00", keys.public)
    board.start()
    says(board, "link: online")
    broken: list[int] = []

    def cut(_: str, text: str, sent: int, total: int) -> None:
        if text == "sending" and total and not broken:
            broken.append(sent)
            board.registers.set_wifi(False)
            threading.Timer(4.0, board.registers.set_wifi, [True]).start()

    done, failed = update(air_port, keys, firmware(NEW, "strut/app.py"), ["strut00"], on_progress=cut)
    assert broken and failed == {} and done[0].version == NEW
    assert "WiFi is gone" in board.log_path.read_text()


@pytest.mark.long
def test_a_strut_that_is_off_is_said(air: Air, air_port: int, keys: Keys) -> None:
    air("strut00", keys.public)
    done, failed = update(air_port, keys, firmware(), ["strut00"])
    assert done == [] and "does not answer within 9 s" in failed["strut00"]


def test_an_unreachable_broker_is_one_line(keys: Keys, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["update", "manipulator", "--key", str(keys.signer.path), "--broker", "mqtt://host:geheim@127.0.0.1:9"]
    assert main(words) == 4
    err = capsys.readouterr().err
    assert "cannot be used" in err.splitlines()[-1] and "geheim" not in err


@pytest.mark.long
def test_a_broker_that_goes_away_half_way_is_said(air: Air, tmp_path: Path, keys: Keys) -> None:
    with EmbeddedBroker(SPEC.link.prefix, port=0) as broker:
        board = VirtualBoard(strut_config("strut00", broker.port), tmp_path / "boards")
        install(board, keys.public)
        try:
            board.start()
            says(board, "link: online")

            def stop(_: str, text: str, sent: int, total: int) -> None:
                if text == "sending" and sent:
                    broker.stop()

            start_s = time.monotonic()
            done, failed = update(broker.port, keys, firmware(), ["strut00"], on_progress=stop)
            assert done == [] and "the broker was lost" in failed["strut00"] and time.monotonic() - start_s < 60.0
            assert (board.jail / "slot").read_text() == "a"
        finally:
            board.close()
