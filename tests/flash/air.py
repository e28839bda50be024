"""Struts with firmware in folders, a broker, and `update` as its command does it: what every test of updates needs."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
import time
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import paho.mqtt.client as paho

from onboard.flash.flasher import image_for
from onboard.flash.image import firmware_folder
from onboard.link.board_json import ConfigAck, decode_config_ack
from onboard.link.endpoint import Endpoint
from onboard.resources import robot_file
from onboard.robot import load_robot
from onboard.update.board import Outcome, Report, decode_report
from onboard.update.fleet import FleetUpdate
from onboard.update.keys import Signer, make_keys, read_public
from onboard.update.manifest import Update, make_update, manifest_digest
from sim.boards.jail import BoardConfig
from sim.boards.launcher import VirtualBoard
from sim.flash.installed import PROCESSOR
from sim.flash.installed import install as install_image

SPEC = load_robot(robot_file("manipulator"))
OLD, NEW = "0.1.0", "0.9.9"
_SCRATCH = tempfile.TemporaryDirectory(prefix="prestress-air-")


@dataclass(frozen=True)
class Keys:
    """A signer and its public half."""

    signer: Signer
    public: bytes


def new_keys(folder: Path, name: str = "update.key") -> Keys:
    """A fresh key pair."""
    public = make_keys(folder / name)
    return Keys(Signer(folder / name), read_public(public))


def strut_config(name: str, port: int) -> BoardConfig:
    """A strut of the manipulator at the broker on `port`."""
    return BoardConfig(name, board=SPEC.imu.board, prefix=SPEC.link.prefix, broker_port=port, keepalive_s=2)


def install(board: VirtualBoard, public: bytes | None) -> None:
    """Make the board's flash what `prestress flash` leaves, with the firmware of now."""
    install_image(board, image_for(snapshot(), PROCESSOR), public)


@cache
def snapshot() -> Path:
    """The firmware as it is when the tests begin."""
    target = Path(_SCRATCH.name) / "firmware"
    shutil.copytree(firmware_folder(), target, ignore=shutil.ignore_patterns(".*", "__pycache__"))
    return target


@cache
def firmware(version: str = NEW, file: str = "strut/sensor.py", more: str = "NOTE = 1\n") -> Path:
    """The firmware with another version, and `more` at the end of one file; made once, so that it is compiled once."""
    target = Path(_SCRATCH.name) / f"{version}-{file.replace('/', '-')}-{zlib.crc32(more.encode())}"
    shutil.copytree(snapshot(), target)
    identity = target / "common" / "identity.py"
    text = identity.read_text()
    start = text.index('VERSION = "')
    identity.write_text(f'{text[:start]}VERSION = "{version}"{text[text.index(chr(10), start) :]}')
    (target / file).write_text((target / file).read_text() + "\n" + more)
    return target


def fleet(port: int, keys: Keys, source: Path, trial_s: int = 10, **options: object) -> FleetUpdate:
    """What `prestress update manipulator` makes."""
    return FleetUpdate(SPEC, Endpoint("127.0.0.1", port), keys.signer, source, trial_s, **options)  # type: ignore[arg-type]


def update(
    port: int, keys: Keys, source: Path, boards: list[str], trial_s: int = 10, **options: object
) -> tuple[list[Outcome], dict[str, str]]:
    """Update `boards`, as the command does."""
    return asyncio.run(fleet(port, keys, source, trial_s, **options).run(boards))


def in_use(jail: Path) -> dict[str, bytes]:
    """The firmware that /slot names: path to content."""
    folder = jail / (jail / "slot").read_text()
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.mpy")}


def says(board: VirtualBoard, words: str, limit_s: float = 15.0) -> None:
    """Wait until the board's console has these words."""
    end_s = time.monotonic() + limit_s
    while words not in board.log_path.read_text(errors="replace"):
        assert time.monotonic() < end_s, f"{board.config.id} does not say {words!r}: {board.log_path.read_text()[-500:]}"
        time.sleep(0.01)


def start_anew(board: VirtualBoard) -> None:
    """Power off and on, and wait until it is at the broker again."""
    board.stop()
    board.log_path.write_text("")
    board.start()
    says(board, "link: online")


class Talk:
    """The host's end of one board's update topics, for messages that the product would never send."""

    def __init__(self, port: int, name: str, prefix: str = SPEC.link.prefix) -> None:
        base = f"{prefix}/v1/{name}/"
        self._base = base
        self.reports: list[Report] = []
        self.acks: list[ConfigAck] = []
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self._client.on_message = self._take
        ready = threading.Event()
        self._client.on_subscribe = lambda *_: ready.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        self._client.subscribe([(base + "ota/ack", 1), (base + "cfg/ack", 1)])
        assert ready.wait(5.0)

    def _take(self, _client: object, _user: object, message: Any) -> None:
        if message.topic.endswith("ota/ack"):
            self.reports.append(decode_report(message.payload))
        elif message.topic.endswith("cfg/ack"):
            self.acks.append(decode_config_ack(message.payload))

    def send(self, leaf: str, payload: bytes, retain: bool = False) -> None:
        """Publish to the board."""
        self._client.publish(self._base + leaf, payload, qos=1, retain=retain).wait_for_publish(5.0)

    def until(self, *states: str, limit_s: float = 15.0) -> Report:
        """The next report in one of `states`."""
        end_s = time.monotonic() + limit_s
        while True:
            while self.reports:
                report = self.reports.pop(0)
                if report.state in states:
                    return report
            assert time.monotonic() < end_s, f"no report of {states}"
            time.sleep(0.005)

    def answer(self, payload: bytes) -> Report:
        """Offer `payload`; how the board ends it when it gets no chunk."""
        self.reports.clear()
        self.send("ota/offer", payload)
        return self.until("refused", "failed", "staging")

    def stage(self, offer: Update) -> Report:
        """Offer and hand out chunks until the board waits for its permit."""
        self.reports.clear()
        self.send("ota/offer", offer.offer)
        while (report := self.until("staging", "staged", "refused", "failed")).state == "staging":
            self.send("ota/chunk", offer.chunk(report.file, report.offset))
        return report

    def close(self) -> None:
        """Leave the broker."""
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self) -> Talk:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def offer_of(keys: Keys, source: Path, runs_mpy: int, **changes: object) -> Update:
    """A signed update from `source`; `changes` alter its header before it is signed."""
    made = make_update(image_for(source, PROCESSOR), SPEC.imu.board, "strut", runs_mpy, keys.signer, 10)
    if not changes:
        return made
    body = msgspec.json.encode(msgspec.structs.replace(made.header, **changes))
    return Update(made.header, body, keys.signer.sign(manifest_digest(body)), made.contents)
