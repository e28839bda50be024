"""What a strut refuses: foreign, old, altered, strangers' and untimely updates; each refusal says why, and the board runs on."""

from __future__ import annotations

import asyncio
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onboard.cli.main import main
from onboard.errors import ConfigError, SafetyError, UsageError
from onboard.flash.image import firmware_folder
from onboard.flash.provision import provision, read_secrets
from onboard.runtime.control_socket import ControlSocket, socket_path
from onboard.update.fleet import OneAtATime
from onboard.update.keys import Signer, make_keys, read_public
from onboard.update.manifest import permit_digest
from sim.boards.launcher import VirtualBoard
from tests.flash.air import NEW, OLD, SPEC, Keys, Talk, firmware, new_keys, offer_of, says, start_anew, update
from tests.flash.support import secrets_file

Air = Callable[..., VirtualBoard]


@pytest.fixture
def running(air: Air, keys: Keys) -> VirtualBoard:
    """A strut that holds the public key, at the broker."""
    board = air("strut00", keys.public)
    board.start()
    says(board, "link: online")
    return board


@pytest.fixture
def talk(running: VirtualBoard, air_port: int) -> Iterator[Talk]:
    with Talk(air_port, "strut00") as one:
        yield one


def untouched(board: VirtualBoard) -> bool:
    """Nothing of the update is on the board's flash, and it has not restarted."""
    return not (board.jail / "b").exists() and not (board.jail / "trial").exists() and board.resets == 0


def mpy_of(talk: Talk) -> int:
    talk.send("ota/offer", b"")
    return talk.until("idle").mpy


def test_offers_that_a_board_refuses_and_why(
    running: VirtualBoard, talk: Talk, keys: Keys, tmp_path_factory: pytest.TempPathFactory
) -> None:
    mpy, source = mpy_of(talk), firmware()
    good = offer_of(keys, source, mpy)
    stranger = offer_of(new_keys(tmp_path_factory.mktemp("stranger")), source, mpy)
    altered = good.offer.replace(b'"0.9.9"', b'"0.9.8"')
    refused = {
        altered: "altered or signed by another key",
        stranger.offer: "altered or signed by another key",
        good.offer[:-1]: "altered or signed by another key",
        good.offer[:64]: "altered or signed by another key",
        b"x": "altered or signed by another key",
        bytes(2000): "altered or signed by another key",
        good.signature[:32] + (2**252).to_bytes(32, "little") + good.body: "altered or signed by another key",
        offer_of(keys, source, mpy, board="m5stickc_plus").offer: "it is for m5stickc_plus boards (strut), this is a nano_rp2040",
        offer_of(keys, source, mpy, app="valve").offer: "it is for nano_rp2040 boards (valve)",
        offer_of(keys, source, mpy, version=OLD).offer: "version 0.1.0 is not newer than 0.1.0, which runs",
        offer_of(keys, source, mpy, version="0.0.99").offer: "version 0.0.99 is not newer than 0.1.0",
        offer_of(keys, source, mpy, mpy=mpy + 1).offer: "another interpreter or processor",
        offer_of(keys, source, mpy, mpy=mpy ^ 7 << 10).offer: "another interpreter or processor",
        offer_of(keys, source, mpy, loader=3).offer: "main.py on this board is too old",
    }
    for offer, why in refused.items():
        report = talk.answer(offer)
        assert (report.state, why in report.error) == ("refused", True), (why, report.error)
    assert untouched(running)
    talk.reports.clear()
    talk.send("ota/offer", good.offer, retain=True)  # a board that is there sees it as a message of the moment
    assert talk.until("staging").state == "staging"
    start_anew(running)
    time.sleep(0.3)
    talk.reports.clear()
    assert mpy_of(talk) == mpy and not (running.jail / "trial").exists()  # a kept offer is not acted on
    talk.send("ota/offer", b"", retain=True)


def test_an_armed_robot_is_not_updated_nor_configured_anew(running: VirtualBoard, talk: Talk, keys: Keys) -> None:
    offer = offer_of(keys, firmware(), mpy_of(talk))
    first, second = b'{"generation": 5, "batch": 2}', b'{"generation": 6, "batch": 4}'
    talk.send("cfg", first)
    talk.send("armed", b"1")
    report = talk.answer(offer.offer)
    assert (report.state, report.error) == ("refused", "the robot is armed") and untouched(running)
    talk.send("armed", b"1")
    talk.send("cfg", second)
    talk.send("cfg", first)  # the host may say again what holds
    _until(lambda: len(talk.acks) == 3)
    assert [(ack.generation, ack.ok, ack.error) for ack in talk.acks[1:]] == [
        (0, False, "refused while the robot is armed"),
        (5, True, ""),
    ]
    talk.send("armed", b"0")
    talk.send("cfg", second)
    _until(lambda: len(talk.acks) == 4)
    assert talk.acks[3].ok
    assert talk.answer(offer.offer).state == "staging"
    talk.send("armed", b"1")  # half way
    assert talk.until("refused").error == "the robot is armed"
    time.sleep(3.3)  # what is not said again is forgotten: the host has gone
    assert talk.stage(offer).state == "staged"
    talk.send("armed", b"1")
    assert talk.until("refused").error == "the robot is armed"
    talk.send("armed", b"0")
    last = talk.stage(offer)
    talk.send("ota/permit", keys.signer.sign(permit_digest("strut00", last.boot_id, bytes.fromhex(last.nonce), offer.digest)))
    talk.until("starting")
    talk.send("armed", b"1")  # at the last moment
    assert talk.until("refused").error == "the robot is armed"
    assert running.resets == 0 and not (running.jail / "trial").exists()


def test_a_permit_is_good_for_one_board_one_boot_and_one_moment(
    running: VirtualBoard, talk: Talk, keys: Keys, tmp_path_factory: pytest.TempPathFactory
) -> None:
    offer = offer_of(keys, firmware(), mpy_of(talk))
    other = new_keys(tmp_path_factory.mktemp("other"))
    old = talk.stage(offer)
    nonce = bytes.fromhex(old.nonce)
    right = keys.signer.sign(permit_digest("strut00", old.boot_id, nonce, offer.digest))
    wrong = [
        keys.signer.sign(permit_digest("strut01", old.boot_id, nonce, offer.digest)),
        keys.signer.sign(permit_digest("strut00", old.boot_id ^ 1, nonce, offer.digest)),
        keys.signer.sign(permit_digest("strut00", old.boot_id, nonce, bytes(32))),
        other.signer.sign(permit_digest("strut00", old.boot_id, nonce, offer.digest)),
        b"",
    ]
    for permit in wrong:
        talk.send("ota/permit", permit)
        assert talk.until("refused").error == "the permit is not for this update of this board"
        assert talk.stage(offer).nonce != old.nonce
    talk.send("ota/permit", right)  # it was right for a moment that is over
    assert talk.until("refused").error == "the permit is not for this update of this board"
    assert running.resets == 0 and not (running.jail / "trial").exists()
    new = talk.stage(offer)
    talk.send("ota/permit", keys.signer.sign(permit_digest("strut00", new.boot_id, bytes.fromhex(new.nonce), offer.digest)))
    assert talk.until("confirmed").version == NEW


@pytest.mark.long
def test_damaged_and_foreign_chunks_never_become_a_file(running: VirtualBoard, talk: Talk, keys: Keys) -> None:
    offer = offer_of(keys, firmware(), mpy_of(talk))
    talk.send("ota/offer", offer.offer)
    lost = talk.until("staging")  # nobody answers: it asks again
    while (report := talk.until("staging", "staged", "failed")).state == "staging":
        chunk = offer.chunk(report.file, report.offset)
        if report.file == 0:
            assert report.offset >= lost.offset
            talk.send("ota/chunk", chunk)
            continue
        talk.send("ota/chunk", chunk[:2] + bytes([chunk[2] ^ 1]) + chunk[3:])  # another place
        talk.send("ota/chunk", chunk[:6] + bytes(1500))  # too long
        talk.send("ota/chunk", chunk[:6])  # empty
        talk.send("ota/chunk", chunk[:-1] + bytes([chunk[-1] ^ 1]))
    assert "arrived damaged, twice" in report.error
    assert (running.jail / "slot").read_text() == "a" and running.resets == 0


def test_a_full_board_is_refused_untouched(air: Air, air_port: int, keys: Keys) -> None:
    board = air("strut00", keys.public)
    shim = board.jail / "sim" / "shims" / "jail.py"
    shim.write_text(shim.read_text() + "\n    def statvfs(self, path):\n        return (4096, 4096, 99, 9, 9, 0, 0, 0, 0, 255)\n")
    board.start()
    says(board, "link: online")
    done, failed = update(air_port, keys, firmware(), ["strut00"])
    assert done == [] and "flash is full: 36864 bytes free" in failed["strut00"]
    assert untouched(board)


def test_a_board_without_a_key_takes_nothing(air: Air, air_port: int, keys: Keys) -> None:
    board = air("strut00", None)
    board.start()
    says(board, "link: online")
    done, failed = update(air_port, keys, firmware(), ["strut00"])
    assert done == [] and "has no update key: flash it over USB" in failed["strut00"] and untouched(board)


def test_the_host_refuses_while_its_daemon_is_armed(running: VirtualBoard, air_port: int, keys: Keys) -> None:
    state = {"state": "active"}
    ready, stop = threading.Event(), threading.Event()

    async def daemon() -> None:
        server = ControlSocket(socket_path("manipulator"), lambda request: {"status": dict(state)})
        await server.start()
        ready.set()
        await asyncio.to_thread(stop.wait)
        await server.close()

    thread = threading.Thread(target=lambda: asyncio.run(daemon()))
    thread.start()
    try:
        assert ready.wait(5.0)
        source = firmware()
        for armed in ("active", "arming", "teaching", "degraded"):
            state["state"] = armed
            with pytest.raises(SafetyError, match=f"manipulator is {armed}: updates are for a disarmed robot only"):
                update(air_port, keys, source, ["strut00"])
        assert untouched(running)
        state["state"] = "disarmed"

        def arm(_: str, text: str, done: int, total: int) -> None:
            if text == "sending":
                state["state"] = "active"

        done, failed = update(air_port, keys, source, ["strut00"], on_progress=arm)
        assert done == [] and "is active" in failed["strut00"]
        assert running.resets == 0 and not (running.jail / "trial").exists()
    finally:
        stop.set()
        thread.join()


def test_two_updates_of_one_robot_do_not_run_at_once(air: Air, air_port: int, keys: Keys) -> None:
    with OneAtATime("manipulator"), pytest.raises(SafetyError, match="another update of manipulator is in progress"):
        update(air_port, keys, firmware_folder(), ["strut00"])


def test_senseless_words_touch_nothing(keys: Keys, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key, broker = ["--key", str(keys.signer.path)], ["--broker", "mqtt://127.0.0.1:9"]
    for words, said in (
        (["manipulator", *key], "update needs the broker"),
        (["manipulator", *key, *broker, "--board", "valve0"], "has no network"),
        (["manipulator", *key, *broker, "--board", "nobody"], "has no strut"),
        (["manipulator", *key, *broker, "--board", "strut00", "strut00"], "named twice"),
        (["manipulator", *key, *broker, "--trial", "1"], "must lie in 10 .. 600"),
        (["manipulator", "--key", str(tmp_path / "none"), *broker], "cannot be read"),
    ):
        assert main(["update", *words]) == 2
        assert said in capsys.readouterr().err


def test_keys_are_private_and_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "update.key"
    assert main(["update", "keygen", "--key", str(key), "--json"]) == 0
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    secret = "".join(line for line in key.read_text().splitlines() if "-" not in line)
    assert secret not in capsys.readouterr().out and secret not in repr(Signer(key))
    with pytest.raises(UsageError, match="is there already"):
        make_keys(key)
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="others can read it"):
        Signer(key)
    key.chmod(0o600)
    with pytest.raises(ConfigError, match="is the private half"):
        read_public(key)


def test_flashing_brings_the_public_half_to_struts_alone(tmp_path: Path) -> None:
    make_keys(tmp_path / "update.key")
    public = read_public(tmp_path / "update.pub").hex()
    secrets = read_secrets(secrets_file(tmp_path, extra='\n[update]\nkey = "update.pub"\n'))
    assert public.encode() in provision(SPEC, "strut07", secrets).identity
    assert b"update" not in provision(SPEC, "valve0", secrets).identity
    shutil.copyfile(tmp_path / "update.key", tmp_path / "update.pub")
    with pytest.raises(ConfigError, match="is the private half"):
        provision(SPEC, "strut07", secrets)


def _until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    end_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end_s
        time.sleep(0.01)
