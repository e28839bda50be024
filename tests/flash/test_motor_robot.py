"""A robot whose boards wind motors is certified, listed and updated like one of struts; a board that may turn is left alone."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest

from onboard.cli.main import main
from onboard.doctor import robot as doctor
from onboard.flash.robot_boards import load_boards
from onboard.link.broker import EmbeddedBroker
from onboard.link.endpoint import Endpoint
from onboard.resources import robot_file
from onboard.runtime.control_socket import ControlSocket, socket_path
from onboard.update.fleet import FleetUpdate
from sim.boards.launcher import VirtualBoard
from sim.boards.motor_rig import motor_board_configs
from tests.firmware.conftest import Broker, broker
from tests.firmware.motor_support import one_rod, rig
from tests.flash.air import NEW, Keys, Talk, firmware, install, says

__all__ = ["broker"]
ROBOT = load_boards(robot_file("three_bar"))
Rods = Callable[[str, bytes | None], VirtualBoard]


@pytest.fixture(scope="module")
def three_bar_port() -> Iterator[int]:
    with EmbeddedBroker(ROBOT.link.prefix, port=0) as embedded:
        yield embedded.port


@pytest.fixture
def rod(tmp_path: Path, three_bar_port: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rods]:
    """rod(name, public) makes a rod's board as `prestress flash` leaves it, switched off; no daemon of this computer is asked."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    for parent in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        parent.chmod(parent.stat().st_mode | 0o711)
    made: list[VirtualBoard] = []

    def make(name: str, public: bytes | None) -> VirtualBoard:
        configs = motor_board_configs(ROBOT, Endpoint("127.0.0.1", three_bar_port), heap="384K")  # type: ignore[arg-type]
        made.append(VirtualBoard(next(one for one in configs if one.id == name), tmp_path / "boards"))
        install(made[-1], public)
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_rods_get_certificates_which_the_doctor_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "certs"
    assert main(["certs", "three_bar", "--out", str(folder), "--host", "127.0.0.1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["made"] == ["ca", "broker", "daemon", "rod0", "rod1", "rod2"]
    assert doctor.certificates(folder, ROBOT, ["127.0.0.1"]).ok
    (folder / "rod1.key").unlink()
    said = doctor.certificates(folder, ROBOT, ["127.0.0.1"])
    assert not said.ok and "rod1: its key is missing" in said.message


def test_the_doctor_tells_the_state_of_its_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))

    async def story() -> str:
        server = ControlSocket(socket_path("three_bar"), lambda request: {"status": {"state": "disarmed"}})
        await server.start()
        try:
            return (await asyncio.to_thread(doctor.daemon, ROBOT)).message
        finally:
            await server.close()

    assert asyncio.run(story()) == "three_bar runs, disarmed"


def test_robots_without_boards_are_refused_by_every_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for verb in (["certs"], ["struts", "--broker", "mqtt://127.0.0.1:9"], ["update", "--broker", "mqtt://127.0.0.1:9"]):
        assert main([verb[0], "vine", *verb[1:]]) == 2
        assert "robots of this kind have no boards" in capsys.readouterr().err


def test_rods_are_listed_and_updated_over_the_air(
    rod: Rods, three_bar_port: int, keys: Keys, capsys: pytest.CaptureFixture[str]
) -> None:
    board = rod("rod1", keys.public)
    board.start()
    says(board, "link: online")
    url = f"mqtt://127.0.0.1:{three_bar_port}"
    assert main(["struts", "three_bar", "--broker", url, "--seconds", "1", "--json"]) == 1
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = {row["id"]: row for row in told["struts"]}
    assert list(rows) == ["rod0", "rod1", "rod2"] and told["missing"] == ["rod0", "rod2"] and told["strangers"] == []
    assert rows["rod1"]["online"] and rows["rod1"]["firmware"] == "0.1.0" and "app" not in rows["rod1"]["fault"]
    fleet = FleetUpdate(ROBOT, Endpoint("127.0.0.1", three_bar_port), keys.signer, firmware(), 10)
    done, failed = asyncio.run(fleet.run(["rod1"]))
    assert failed == {} and [one.version for one in done] == [NEW]
    says(board, f"prestress: rod1 runs motor {NEW}")


def test_a_board_whose_motors_may_turn_takes_no_new_configuration_whoever_says_that_it_is_disarmed(
    broker: Broker, tmp_path: Path
) -> None:
    short = one_rod(ROBOT)  # type: ignore[arg-type]
    patient = msgspec.structs.replace(short.motors, deadline_ms=10_000, command_ttl_ms=10_000)  # on a busy machine too

    async def story() -> None:
        async with rig(broker, tmp_path, dataclasses.replace(short, motors=patient)) as one:
            await one.armed(1, np.zeros(2))
            one.sink.armed = False  # the daemon's word alone
            with Talk(broker.port, one.robot.struts[0], one.robot.link.prefix) as talk:
                for generation in (5, 6):
                    talk.send("armed", b"0")
                    talk.send("cfg", b'{"generation": %d, "batch": %d}' % (generation, generation - 2))
                await one.until(lambda: len(talk.acks) >= 2, "answers")
                assert talk.acks[-1].error == "refused while the robot is armed"
                assert one.report.armed

    asyncio.run(story())
