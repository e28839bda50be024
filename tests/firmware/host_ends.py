"""The host's end of a link, as small as tests need it: an MQTT listener and a serial port that speak the wire format."""

from __future__ import annotations

import time
from typing import Any

import paho.mqtt.client as paho
import serial

from onboard.link.board_json import Birth, ConfigAck, Health, decode_birth, decode_config_ack, decode_health
from onboard.link.serial_frame import FrameReader, encode_frame
from onboard.link.wire import decode_imu, decode_sync_response, decode_telemetry, encode_command, encode_sync_request
from onboard.link.wire_types import ImuFrame, MessageType, SyncResponse, TelemetryFrame
from sim.boards.launcher import VirtualBoard


class Listener:
    """Subscribes to everything under a prefix and keeps it by topic leaf."""

    def __init__(self, port: int, prefix: str, name: str) -> None:
        self._base = f"{prefix}/v1/{name}/"
        self.imu: list[ImuFrame] = []
        self.births: list[Birth] = []
        self.acks: list[ConfigAck] = []
        self.healths: list[Health] = []
        self.syncs: list[SyncResponse] = []
        self.retained: list[str] = []
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self._client.on_connect = lambda client, *_: client.subscribe(self._base + "#", 1)
        self._client.on_message = self._take
        self._client.reconnect_delay_set(0.2, 0.5)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()

    def _take(self, _client: object, _user: object, message: Any) -> None:
        leaf = message.topic[len(self._base) :]
        if message.retain:
            self.retained.append(leaf)
        if leaf == "imu":
            self.imu.append(decode_imu(message.payload))
        elif leaf == "state":
            self.births.append(decode_birth(message.payload))
        elif leaf == "cfg/ack":
            self.acks.append(decode_config_ack(message.payload))
        elif leaf == "health":
            self.healths.append(decode_health(message.payload))
        elif leaf == "sync/rsp":
            self.syncs.append(decode_sync_response(message.payload))

    def publish(self, leaf: str, payload: bytes, retain: bool = False) -> None:
        self._client.publish(self._base + leaf, payload, qos=1, retain=retain)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ValveHost:
    """A pyserial port to a valve board; pump() reads what has come."""

    def __init__(self, board: VirtualBoard, hello: bool = True) -> None:
        self.line = serial.Serial(board.port, timeout=0.005)
        self.reader = FrameReader()
        self.births: list[Birth] = []
        self.acks: list[ConfigAck] = []
        self.healths: list[Health] = []
        self.telemetry: list[TelemetryFrame] = []
        self.syncs: list[SyncResponse] = []
        self._base_ticks = 0
        self._base_s = 0.0
        self._sequence = 0
        if hello:
            self.send(MessageType.HELLO, b"")
            self.until(lambda: bool(self.births), "birth")
            self.synchronise()

    def send(self, kind: int, payload: bytes) -> None:
        self.line.write(encode_frame(kind, payload))

    def pump(self, seconds: float = 0.0) -> None:
        """Read for so long, at least once."""
        end_s = time.monotonic() + seconds
        while True:
            for frame in self.reader.feed(self.line.read(4096)):
                self._take(frame.kind, frame.payload)
            if time.monotonic() >= end_s:
                return

    def until(self, condition: Any, what: str, timeout_s: float = 5.0) -> None:
        """Read until the condition holds."""
        end_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < end_s, f"not within {timeout_s} s: {what}"
            self.pump()

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == MessageType.TELEMETRY:
            self.telemetry.append(decode_telemetry(payload))
        elif kind == MessageType.BIRTH:
            self.births.append(decode_birth(payload))
        elif kind == MessageType.CONFIG_ACK:
            self.acks.append(decode_config_ack(payload))
        elif kind == MessageType.HEALTH:
            self.healths.append(decode_health(payload))
        elif kind == MessageType.SYNC_RESPONSE:
            self.syncs.append(decode_sync_response(payload))
        else:
            raise AssertionError(f"unexpected message type {kind}")

    @property
    def boot_id(self) -> int:
        return self.births[-1].boot_id

    @property
    def epoch(self) -> int:
        return self.fresh().epoch

    def fresh(self) -> TelemetryFrame:
        """A telemetry frame that was made after this call."""
        self.pump()
        count = len(self.telemetry)
        self.until(lambda: len(self.telemetry) >= count + 2, "telemetry")
        return self.telemetry[-1]

    def synchronise(self) -> None:
        """Relate board ticks to host time, the best of five round trips."""
        best_s = 1.0
        for _ in range(5):
            self.syncs.clear()
            sent_s = time.monotonic()
            self.send(MessageType.SYNC_REQUEST, encode_sync_request(1))
            self.until(lambda: bool(self.syncs), "sync response")
            round_trip_s = time.monotonic() - sent_s
            if round_trip_s < best_s:
                best_s = round_trip_s
                self._base_ticks = self.syncs[-1].received_ticks_us
                self._base_s = sent_s + round_trip_s / 2

    def ticks(self) -> int:
        """Board time now, estimated."""
        return (self._base_ticks + int((time.monotonic() - self._base_s) * 1e6)) & 0x3FFFFFFF

    def message(self, epoch: int, setpoints: Any = (), **changes: int) -> bytes:
        """A command body that is right unless `changes` (boot_id, sequence, issued, ttl_ms) make it wrong."""
        if "sequence" not in changes:
            self._sequence += 1
        return encode_command(
            changes.get("boot_id", self.boot_id),
            epoch,
            changes.get("sequence", self._sequence),
            changes.get("issued", self.ticks()),
            changes.get("ttl_ms", 2000),
            setpoints,
        )

    def arm(self, epoch: int, **changes: int) -> None:
        self.send(MessageType.ARM, self.message(epoch, **changes))

    def disarm(self, epoch: int, **changes: int) -> None:
        self.send(MessageType.DISARM, self.message(epoch, **changes))

    def command(self, epoch: int, setpoints: Any, **changes: int) -> None:
        self.send(MessageType.COMMAND, self.message(epoch, setpoints, **changes))

    def close(self) -> None:
        self.line.close()

    def __enter__(self) -> ValveHost:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
