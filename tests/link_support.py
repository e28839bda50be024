"""A robot's specification, boards' packets and an MQTT client for tests of the link."""

from __future__ import annotations

import asyncio
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from onboard.clock import WallClock
from onboard.config import convert
from onboard.link.board_json import Birth
from onboard.link.wire import encode_imu, encode_sync_response
from onboard.link.wire_types import TICKS_MASK, ImuFlag, ImuFrame, SyncResponse
from onboard.robot import Identity, Imu, Link, Rates, RobotSpec, Safety, Simulation, Valves
from onboard.tower import StrutTower

ROBOT = Path(__file__).parents[1] / "robots" / "manipulator.toml"
ACCEL_SCALE = 4.0 * 9.80665 / 32768
GYRO_SCALE = float(np.radians(0.0175))


def robot(struts: int = 20, **link: object) -> RobotSpec:
    """The manipulator as far as the link needs it (no estimator, no controller), with `link` keys replaced."""
    raw = tomllib.loads(ROBOT.read_text())
    raw["structure"].pop("type")
    raw["link"].update(link)
    file = str(ROBOT)
    return RobotSpec(
        file=file,
        format=1,
        robot=convert(file, "robot", raw["robot"], Identity),
        structure=convert(file, "structure", raw["structure"], StrutTower),
        struts=raw["struts"][:struts],
        imu=convert(file, "imu", raw["imu"], Imu),
        link=convert(file, "link", raw["link"], Link),
        rates=convert(file, "rates", raw["rates"], Rates),
        safety=convert(file, "safety", raw["safety"], Safety),
        orientation=None,
        estimator=None,
        simulation=convert(file, "simulation", raw["simulation"], Simulation),
        physics_hash="",
        actuators=convert(file, "actuators", raw["actuators"], Valves),
    )


def birth(strut: int = 0, boot_id: int = 7, **changes: object) -> bytes:
    """A strut's birth message; `changes` replace fields."""
    fields: dict[str, object] = {
        "v": 1,
        "online": True,
        "boot_id": boot_id,
        "name": f"strut{strut:02d}",
        "app": "strut",
        "board": "nano_rp2040",
        "sensor": "lsm6dsox",
        "rate_hz": 104.0,
        "batch": 2,
        "accel_scale": ACCEL_SCALE,
        "gyro_scale": GYRO_SCALE,
        "temp_scale": 1 / 256,
        "temp_offset": 25.0,
    }
    return msgspec.json.encode(convert("birth", "", fields | changes, Birth))


class Board:
    """A strut's board as the link sees it: a clock with an offset and a drift, and a sequence."""

    def __init__(self, boot_id: int = 7, started_s: float = 0.0, drift: float = 0.0, ticks0: int = 0) -> None:
        self.boot_id, self.started_s, self.drift, self.ticks0 = boot_id, started_s, drift, ticks0
        self.sequence = 0

    def ticks(self, host_s: float) -> int:
        """The board's ticks at host time `host_s`, not wrapped."""
        return self.ticks0 + round((host_s - self.started_s) * 1e6 / (1.0 + self.drift))

    def imu(self, t_s: float, count: int = 2, raw: np.ndarray | None = None, flags: ImuFlag = ImuFlag.OVERFLOW & 0) -> bytes:
        """A frame whose first sample was taken at host time `t_s`; samples 9.6 ms apart. Advances the sequence."""
        if raw is None:
            raw = np.tile(np.array([0, 0, 8192, 10, -20, 30, 256], dtype=np.int16), (count, 1))
        frame = ImuFrame(
            self.boot_id, self.sequence, self.ticks(t_s) & TICKS_MASK, ImuFlag(flags), 0, np.arange(count) * 9600, raw
        )
        self.sequence += count
        return encode_imu(frame)

    def sync(self, asked_s: float, heard_s: float, answered_s: float) -> bytes:
        """The answer to a clock request stamped `asked_s`, heard and answered at these host times."""
        return encode_sync_response(
            SyncResponse(
                round(asked_s * 1e9), self.boot_id, self.ticks(heard_s) & TICKS_MASK, self.ticks(answered_s) & TICKS_MASK
            )
        )


class NoWallClock(WallClock):
    """The computer's monotonic clock; whoever looks at the wall clock, which people and daylight saving set, fails."""

    def wall_ns(self) -> int:
        raise AssertionError("the link must not look at the wall clock")


class Client:
    """A plain MQTT client in a thread of its own: stands for boards, strangers and intruders."""

    def __init__(self, port: int, username: str | None = None, password: str | None = None, client_id: str = "") -> None:
        self.received: list[tuple[str, bytes, bool]] = []
        self._mqtt = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=client_id)
        if username is not None:
            self._mqtt.username_pw_set(username, password)
        self._connected = threading.Event()
        self.refused = ""
        self._mqtt.on_connect = self._on_connect
        self._mqtt.on_message = lambda _client, _data, m: self.received.append((m.topic, m.payload, m.retain))
        self._mqtt.connect("127.0.0.1", port, keepalive=30)
        self._mqtt.loop_start()
        if not self._connected.wait(10.0):
            raise TimeoutError("the broker does not answer")

    def _on_connect(self, _client: object, _data: object, _flags: object, code: Any, _properties: object = None) -> None:
        self.refused = str(code) if code.is_failure else ""
        self._connected.set()

    def publish(self, topic: str, payload: bytes, qos: int = 0, retain: bool = False) -> None:
        self._mqtt.publish(topic, payload, qos, retain)

    def subscribe(self, topic: str) -> None:
        self._mqtt.subscribe(topic, 1)

    def close(self) -> None:
        self._mqtt.disconnect()
        self._mqtt.loop_stop()


async def until(condition: Callable[[], bool], timeout_s: float = 15.0) -> None:
    """Wait on the event loop until `condition` holds; TimeoutError when it does not in time."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (what is waited for lies in threads and other processes)
            await asyncio.sleep(0.01)
