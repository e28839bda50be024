"""A network between broker and daemon that loses, holds and releases packets: MQTT packets are taken apart, never half lost."""

from __future__ import annotations

import random
import socket
import threading
from contextlib import suppress

PUBLISH = 3


class BadNetwork:
    """Listens on `port` and carries every connection on to the broker's port; whole until told otherwise.

    loss: share of the samples (QoS 0) towards the daemon that get lost. lost: how many did. hold: keep everything towards
    the daemon back; it comes all at once when `hold` ends.
    """

    def __init__(self, broker_port: int, seed: int = 1) -> None:
        self.loss, self.lost, self.hold = 0.0, 0, False
        self._broker_port, self._rng = broker_port, random.Random(seed)
        self._open: list[socket.socket] = []
        self._released = threading.Condition()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def heal(self) -> None:
        """Lose and hold nothing from now on."""
        self.loss = 0.0
        with self._released:
            self.hold = False
            self._released.notify_all()

    def close(self) -> None:
        """Cut all connections and take no more."""
        self.heal()
        for one in [self._server, *self._open]:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                daemon, _ = self._server.accept()
                try:
                    broker = socket.create_connection(("127.0.0.1", self._broker_port), 2.0)
                except OSError:
                    daemon.close()
                    continue
                broker.settimeout(None)
                for one in (daemon, broker):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._open = [one for one in self._open if one.fileno() >= 0] + [daemon, broker]
                threading.Thread(target=self._carry, args=(daemon, broker, False), daemon=True).start()
                threading.Thread(target=self._carry, args=(broker, daemon, True), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, towards_daemon: bool) -> None:
        waiting = bytearray()
        try:
            while data := source.recv(65_536):
                if towards_daemon:
                    waiting += data
                    data = self._let_through(waiting)
                    with self._released:
                        self._released.wait_for(lambda: not self.hold)
                target.sendall(data)
        except OSError:
            pass
        for one in (source, target):  # one end has gone: so does the other
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _let_through(self, waiting: bytearray) -> bytes:
        """Take whole packets off `waiting`; returns those that are not lost."""
        out, at = bytearray(), 0
        while (end := packet_end(waiting, at)) is not None:
            if waiting[at] >> 4 == PUBLISH and not waiting[at] & 0x06 and self.loss and self._rng.random() < self.loss:
                self.lost += 1
            else:
                out += waiting[at:end]
            at = end
        del waiting[:at]
        return bytes(out)


def packet_end(data: bytearray, at: int) -> int | None:
    """Where the MQTT packet that begins at `at` ends; None when it is not complete (MQTT 3.1.1, 2.2.3)."""
    length, shift = 0, 0
    for index in range(at + 1, min(at + 5, len(data))):
        length |= (data[index] & 0x7F) << shift
        shift += 7
        if not data[index] & 0x80:
            end = index + 1 + length
            return end if end <= len(data) else None
    return None
