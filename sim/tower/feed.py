"""The plant's truth on a local socket, and requests to the virtual hand: JSON lines, for evaluation and display only."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from onboard.errors import LinkError
from onboard.messages import Floats

MAX_CLIENTS = 8
MAX_LINE_BYTES = 65_536
MAX_BACKLOG_BYTES = 1 << 20  # a client that reads nothing for seconds is let go
KEPT_REPORTS = 4096


class Report(msgspec.Struct, frozen=True):
    """The plant at one moment. All lists are as in TowerTruth and TowerPlant, row by row.

    t_s: host monotonic time at which this state holds. plant_s: simulated time. setpoint_pa: what the boards ask for, and
    violation_pa how far that lies outside the robot's range. force_n: of the hand. hand_error_rad: to where it leads; holding:
    whether it leads. lag_s: how late the plant is; slips: how often it gave up catching up. failed: why the plant has ended;
    refused: what was wrong with a request.
    """

    t_s: float = 0.0
    plant_s: float = 0.0
    position_m: list[list[float]] = []
    rotation: list[list[list[float]]] = []
    cable_length_m: list[float] = []
    pressure_pa: list[float] = []
    setpoint_pa: list[float] = []
    violation_pa: float = 0.0
    force_n: list[float] = []
    hand_error_rad: float = 0.0
    holding: bool = False
    warp_m: float = 0.0
    lag_s: float = 0.0
    slips: int = 0
    failed: str = ""
    refused: str = ""

    @property
    def tip_m(self) -> Floats:
        """Position of the last disc (3,) [m]."""
        return np.array(self.position_m[-1])


class PlantFeed:
    """The plant's side: never blocks, drops reports for clients that do not read. Only its owner may connect."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        mask = os.umask(0o177)
        try:
            self._server.bind(str(path))
        except OSError as error:
            raise LinkError(f"{path}: cannot listen: {error}") from error
        finally:
            os.umask(mask)
        self._server.listen(MAX_CLIENTS)
        self._server.setblocking(False)
        self._clients: dict[socket.socket, tuple[bytearray, bytearray]] = {}
        self.dropped = 0

    @property
    def clients(self) -> int:
        """How many are connected."""
        return len(self._clients)

    def publish(self, report: msgspec.Struct) -> None:
        """Send to all clients."""
        line = msgspec.json.encode(report) + b"\n"
        for client in list(self._clients):
            self._send(client, line)

    def requests(self) -> list[dict[str, Any]]:
        """What clients asked for since the last call; a line that is no JSON object is answered with `refused`."""
        with contextlib.suppress(BlockingIOError):
            while len(self._clients) < MAX_CLIENTS:
                client, _ = self._server.accept()
                client.setblocking(False)
                self._clients[client] = (bytearray(), bytearray())
        found: list[dict[str, Any]] = []
        for client, (inbox, outbox) in list(self._clients.items()):
            if outbox:
                self._send(client, b"")
            try:
                data = client.recv(MAX_LINE_BYTES)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                self._let_go(client)
                continue
            inbox += data
            *lines, rest = bytes(inbox).split(b"\n")
            inbox[:] = rest
            if len(rest) > MAX_LINE_BYTES:
                self._let_go(client)
            for line in lines:
                try:
                    found.append(msgspec.json.decode(line, type=dict[str, Any]))
                except msgspec.DecodeError as error:
                    self._send(client, msgspec.json.encode(Report(refused=str(error))) + b"\n")
        return found

    def close(self) -> None:
        """Let all clients go and remove the socket."""
        for client in list(self._clients):
            self._let_go(client)
        self._server.close()
        self.path.unlink(missing_ok=True)

    def _send(self, client: socket.socket, line: bytes) -> None:
        _, outbox = self._clients[client]
        if len(outbox) > MAX_BACKLOG_BYTES // 2:
            self.dropped += 1
            line = b""
        outbox += line
        try:
            # What the socket did not take is kept: half a line would spoil all that follow.
            del outbox[: client.send(outbox)]
        except BlockingIOError:
            return
        except OSError:
            self._let_go(client)

    def _let_go(self, client: socket.socket) -> None:
        self._clients.pop(client, None)
        client.close()


class PlantClient:
    """The other side, for evaluation and display: `reports` collects what came, `latest` is the newest report."""

    def __init__(self, path: Path, kind: type[Any] = Report) -> None:
        self._kind = kind  # what the plant publishes
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise LinkError(f"{path}: no plant answers: {error}") from error
        self._socket.setblocking(False)
        self._inbox = bytearray()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._socket, selectors.EVENT_READ)
        self.reports: deque[Any] = deque(maxlen=KEPT_REPORTS)
        self.latest: Any = None
        self.closed = False

    def fileno(self) -> int:
        """For an event loop's add_reader."""
        return self._socket.fileno()

    def ask(self, do: str, **fields: Any) -> None:
        """Send a request: see sim.realtime for what the plant understands."""
        self._socket.setblocking(True)
        try:
            self._socket.sendall(msgspec.json.encode({"do": do, **fields}) + b"\n")
        except OSError as error:
            self.closed = True
            raise LinkError(f"the plant has gone: {error}") from error
        finally:
            self._socket.setblocking(False)

    def poll(self, timeout_s: float = 0.0) -> list[Any]:
        """New reports, oldest first, waiting up to `timeout_s` for the first."""
        if not self._selector.select(timeout_s):
            return []
        try:
            data = self._socket.recv(1 << 20)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
        if not data:
            self.closed = True
            return []
        self._inbox += data
        *lines, rest = bytes(self._inbox).split(b"\n")
        self._inbox[:] = rest
        new = [msgspec.json.decode(line, type=self._kind) for line in lines]
        self.reports.extend(new)
        if new:
            self.latest = new[-1]
        return new

    def close(self) -> None:
        """Hang up."""
        self._selector.close()
        self._socket.close()
        self.closed = True
