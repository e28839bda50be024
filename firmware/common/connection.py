"""A TCP (or TLS) connection that never blocks the board: bounded connect, unsent remainders kept in order."""

import asyncio
import errno
import select
import socket

from common import ticks

MAX_PENDING = 4096  # bytes that wait for a slow network; more is refused, not queued
STALL_MS = 5000  # no progress on a remainder for this long: the connection is dead
_IPPROTO_TCP = 6
_TCP_NODELAY = 1


class ConnectionLost(Exception):
    """The connection cannot be made or used any more; close it."""


class Connection:
    """One connection; make a new one to reconnect. `nodelay` is off where the network chip mistakes the option."""

    def __init__(self, nodelay: bool, tls: dict[str, object] | None) -> None:
        self._nodelay = nodelay
        self._tls = tls
        self._raw = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._stream: object = self._raw
        self._pending = bytearray()
        self._progress = ticks.now()

    async def open(self, host: str, port: int, timeout_ms: int) -> None:
        """Connect within `timeout_ms`; raises ConnectionLost."""
        try:
            address = socket.getaddrinfo(host, port)[0][-1]
            self._raw.setblocking(False)
            try:
                self._raw.connect(address)
            except OSError as error:
                if error.errno != errno.EINPROGRESS:
                    raise
                await self._connected(timeout_ms)
            if self._nodelay:
                self._raw.setsockopt(_IPPROTO_TCP, _TCP_NODELAY, 1)
            if self._tls is not None:
                self._stream = wrap_tls(self._raw, self._tls, host)
        except (OSError, ValueError) as error:  # ValueError: an unusable certificate
            raise ConnectionLost("connect: %s" % str(error).strip()) from None

    async def _connected(self, timeout_ms: int) -> None:
        poller = select.poll()
        poller.register(self._raw, select.POLLOUT)
        for _ in range(timeout_ms // 10):
            for event in poller.poll(0):
                if event[1] & (select.POLLERR | select.POLLHUP):
                    raise ConnectionLost("connect: refused")
                return
            await asyncio.sleep_ms(10)
        raise ConnectionLost("connect: no answer")

    @property
    def pending(self) -> int:
        """Bytes accepted by send() that the network has not taken yet."""
        return len(self._pending)

    def send(self, packet: bytes) -> bool:
        """One write for the whole packet; what the network does not take now follows in order. False when there is
        no room: nothing of the packet is sent then."""
        if self._pending:
            if len(self._pending) + len(packet) > MAX_PENDING:
                return False
            self._pending.extend(packet)
            return True
        taken = self._write(packet)
        if taken < len(packet):
            self._progress = ticks.now()
            self._pending.extend(packet[taken:])
        return True

    def flush(self) -> None:
        """Try the remainder again; raises ConnectionLost when nothing moved for too long."""
        if not self._pending:
            return
        now = ticks.now()
        taken = self._write(self._pending)
        if taken:
            self._pending = self._pending[taken:]
            self._progress = now
        elif ticks.diff(now, self._progress) > STALL_MS * 1000:
            raise ConnectionLost("write: stalled")

    def _write(self, data: bytes | bytearray) -> int:
        try:
            return self._stream.write(data) or 0  # type: ignore[attr-defined]  # socket and TLS stream have no base
        except OSError as error:
            if error.errno == errno.EAGAIN:
                return 0
            raise ConnectionLost("write: %s" % error) from None
        except ValueError as error:  # the TLS handshake goes on while writing
            raise ConnectionLost(str(error).strip()) from None

    def reader(self) -> asyncio.StreamReader:
        """For one task to await bytes on."""
        return asyncio.StreamReader(self._stream)

    def close(self) -> None:
        """Let go of the socket; never raises."""
        try:
            self._stream.close()  # type: ignore[attr-defined]
            self._raw.close()
        except OSError:
            pass


def wrap_tls(raw: socket.socket, settings: dict[str, object], host: str) -> object:
    """TLS over a connected socket. settings: `ca` (required), `cert` and `key` (both or none): DER files on the board;
    `name`: what the broker's certificate must bear, the host's name by default."""
    import ssl  # costs memory: only boards that use it load it

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.verify_mode = ssl.CERT_REQUIRED  # type: ignore[attr-defined]  # missing in the stubs
    with open(str(settings["ca"]), "rb") as file:
        context.load_verify_locations(cadata=file.read())
    if "cert" in settings:
        with open(str(settings["cert"]), "rb") as cert, open(str(settings["key"]), "rb") as key:
            context.load_cert_chain(cert.read(), key.read())
    return context.wrap_socket(raw, server_hostname=str(settings.get("name", host)), do_handshake_on_connect=False)
