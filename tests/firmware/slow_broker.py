"""A broker that answers CONNECT and SUBSCRIBE and then reads as slowly as it is told: what congested WiFi looks like."""

from __future__ import annotations

import socket
import ssl
import threading
import time


class SlowBroker:
    """One connection at a time on a loopback port. `publishes` are (topic, payload) as the bytes came, in order.

    With `hang_up_s` each connection ends after so long.
    While `stalled` nothing is read; the receive buffer is small so that the board's writes are cut in the middle.
    """

    def __init__(self, hang_up_s: float | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._hang_up_s = hang_up_s
        self.connected_s: list[float] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.port: int = self._listener.getsockname()[1]
        self.publishes: list[tuple[str, bytes]] = []
        self.connections = 0
        self.broken = ""
        self.tls_error = ""
        self.stalled = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._listener.settimeout(0.1)
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except TimeoutError:
                continue
            self.connections += 1
            self.connected_s.append(time.monotonic())
            if self._tls is not None:
                try:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                except OSError as error:
                    self.tls_error = str(error)
                    connection.close()
                    continue
            with connection:
                connection.settimeout(0.1)
                self._serve(connection)

    def _serve(self, connection: socket.socket) -> None:
        stream = b""
        while not self._closing.is_set():
            if self._hang_up_s is not None and time.monotonic() > self.connected_s[-1] + self._hang_up_s:
                return
            if self.stalled.is_set():
                time.sleep(0.01)
                continue
            try:
                data = connection.recv(700)
            except TimeoutError:
                continue
            except OSError:
                return
            if not data:
                return
            stream += data
            while (cut := self._cut(stream)) is not None:
                kind, flags, body, stream = cut
                self._answer(connection, kind, flags, body)

    @staticmethod
    def _cut(stream: bytes) -> tuple[int, int, bytes, bytes] | None:
        length, shift, at = 0, 0, 1
        while at < len(stream):
            byte = stream[at]
            length |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if not byte & 0x80:
                if len(stream) < at + length:
                    return None
                return stream[0] >> 4, stream[0] & 15, stream[at : at + length], stream[at + length :]
        return None

    def _answer(self, connection: socket.socket, kind: int, flags: int, body: bytes) -> None:
        if kind == 1:
            connection.sendall(b"\x20\x02\x00\x00")
        elif kind == 8:
            connection.sendall(b"\x90" + bytes([2 + 2]) + body[:2] + b"\x01\x01")
        elif kind == 12:
            connection.sendall(b"\xd0\x00")
        elif kind == 3:
            size = int.from_bytes(body[:2], "big")
            at = 2 + size
            if flags & 2:
                connection.sendall(b"\x40\x02" + body[at : at + 2])
                at += 2
            self.publishes.append((body[2 : 2 + size].decode(), body[at:]))
        else:
            self.broken = self.broken or f"packet type {kind} from the board"

    def close(self) -> None:
        self._closing.set()
        self._thread.join()
        self._listener.close()
