"""Many virtual struts in one process, each with an MQTT connection of its own: a load for broker and daemon beyond what
real firmware on this computer could make. They speak the firmware's protocol (frames, births, clock answers), not its code.

python -m sim.link_crowd JSON
"""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from typing import Any

import aiomqtt
import msgspec
import numpy as np

from onboard.clock import WallClock, wait_s
from onboard.config import convert
from onboard.errors import WireError
from onboard.link.board_json import Birth
from onboard.link.topics import Topics
from onboard.link.wire import decode_sync_request, encode_imu, encode_sync_response
from onboard.link.wire_types import TICKS_MASK, ImuFlag, ImuFrame, SyncResponse
from onboard.robot import RobotSpec, load_robot
from sim.boards.registers import G

FULL_SCALE = 32768  # counts
AT_THE_DOOR = 8  # connections being made at once: a crowd that is switched on together is another benchmark


def crowd_spec(spec: RobotSpec, struts: int, batch: int) -> RobotSpec:
    """The robot's link and sensors with `struts` struts. Its structure stays that of the file: for the link alone."""
    names = [f"strut{k:03d}" for k in range(struts)]
    link = msgspec.structs.replace(spec.link, queue=min(10_000, max(spec.link.queue, 20 * struts)))
    return msgspec.structs.replace(spec, struts=names, link=link, imu=msgspec.structs.replace(spec.imu, batch=batch))


class VirtualStrut:
    """One strut: `run` until cancelled."""

    def __init__(self, spec: RobotSpec, index: int, host: str, port: int, seed: int) -> None:
        rng = np.random.default_rng([seed, index])
        self._spec, self._name, self._host, self._port = spec, spec.struts[index], host, port
        self._topics, self._clock = Topics(spec.link.prefix), WallClock()
        self._boot_id, self._offset_us = int(rng.integers(1, 2**32)), int(rng.integers(0, 2**30))
        self._drift = float(rng.uniform(-1.0, 1.0)) * spec.simulation.imu.clock_drift_ppm * 1e-6
        self._phase_s = float(rng.uniform(0.0, spec.imu.batch / spec.imu.rate_hz))
        self._sequence = 0
        gravity = FULL_SCALE // spec.imu.accel_range_g
        self._raw = np.tile(np.array([0, 0, gravity, 10, -20, 30, 256], dtype=np.int16), (spec.imu.batch, 1))
        self._elapsed_us = np.round(np.arange(spec.imu.batch) * 1e6 / spec.imu.rate_hz).astype(np.int64)

    async def run(self, door: asyncio.Semaphore, all_in: asyncio.Barrier) -> None:
        """Connect (as many at a time as `door` lets in), be born, answer the clock; frames, on an absolute schedule, once all
        are in."""
        async with AsyncExitStack() as stack:
            async with door:
                client = aiomqtt.Client(self._host, self._port, identifier=f"crowd-{self._name}", timeout=30.0)
                await stack.enter_async_context(client)
                await client.subscribe(self._topics.of(self._name, "sync/req"))
                await client.publish(self._topics.of(self._name, "state"), self._birth(), qos=1, retain=True)
            await asyncio.gather(self._answer(client), self._send(client, all_in))

    async def _answer(self, client: aiomqtt.Client) -> None:
        async for message in client.messages:
            heard = self._ticks()
            try:
                asked_ns = decode_sync_request(bytes(message.payload))  # type: ignore[arg-type]
            except WireError:
                continue
            answer = SyncResponse(asked_ns, self._boot_id, heard, self._ticks())
            await client.publish(self._topics.of(self._name, "sync/rsp"), encode_sync_response(answer))

    async def _send(self, client: aiomqtt.Client, all_in: asyncio.Barrier) -> None:
        await all_in.wait()
        topic, period_s = self._topics.of(self._name, "imu"), self._spec.imu.batch / self._spec.imu.rate_hz
        due_s = self._clock.now_s() + self._phase_s
        while True:
            await wait_s(max(0.0, due_s - self._clock.now_s()))
            first = self._ticks(due_s - period_s)  # a batch goes out when its last sample has been taken
            frame = ImuFrame(self._boot_id, self._sequence, first, ImuFlag(0), 0, self._elapsed_us, self._raw)
            await client.publish(topic, encode_imu(frame))
            self._sequence = (self._sequence + self._spec.imu.batch) & 0xFFFFFFFF
            due_s += period_s

    def _ticks(self, host_s: float | None = None) -> int:
        seconds = self._clock.now_s() if host_s is None else host_s
        return (self._offset_us + round(1e6 * seconds * (1.0 + self._drift))) & TICKS_MASK

    def _birth(self) -> bytes:
        imu = self._spec.imu
        fields: dict[str, Any] = {
            "v": 1,
            "online": True,
            "boot_id": self._boot_id,
            "name": self._name,
            "app": "strut",
            "board": imu.board,
            "sensor": imu.sensor,
            "rate_hz": imu.rate_hz,
            "batch": imu.batch,
            "accel_scale": imu.accel_range_g * G / FULL_SCALE,
            "gyro_scale": float(np.radians(imu.gyro_range_dps / FULL_SCALE)),
            "temp_scale": 1 / 256,
            "temp_offset": 25.0,
        }
        return msgspec.json.encode(convert("birth", "", fields, Birth))


async def crowd(settings: dict[str, Any]) -> None:
    """All struts of `settings`, until killed."""
    spec = crowd_spec(load_robot(settings["robot"]), settings["struts"], settings["batch"])
    struts = [VirtualStrut(spec, k, settings["host"], settings["port"], settings["seed"]) for k in range(len(spec.struts))]
    door, all_in = asyncio.Semaphore(AT_THE_DOOR), asyncio.Barrier(len(struts))
    await asyncio.gather(*(strut.run(door, all_in) for strut in struts))


if __name__ == "__main__":
    asyncio.run(crowd(json.loads(sys.argv[1])))
