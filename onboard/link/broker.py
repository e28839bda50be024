"""The embedded broker: amqtt in a process of its own, on loopback unless asked otherwise, for robots without another broker."""

from __future__ import annotations

import logging
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from onboard.errors import LinkError
from onboard.link.broker_process import BrokerSettings
from onboard.link.endpoint import Endpoint
from onboard.link.passwords import HOST, check_complete, read_passwords

log = logging.getLogger("prestress.broker")

LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 5.0


class EmbeddedBroker:
    """A broker that lives as long as this object's process, at most. Use as a context manager or start() and stop().

    lan: listen on every interface instead of loopback only; then `passwords` must name a file (mode 0600) with one line
    `name:password` for the host and for each of `boards`, and each may use its own topics only. Traffic is not encrypted:
    a network that others share wants a broker with TLS instead (deploy/). port 0 takes a free one.
    """

    def __init__(
        self,
        prefix: str,
        port: int = 1883,
        *,
        lan: bool = False,
        passwords: Path | None = None,
        boards: Sequence[str] = (),
    ) -> None:
        known: dict[str, str] = {}
        if lan:
            if passwords is None:
                raise LinkError("--lan opens the broker to the network: it needs a file with a password per board")
            known = read_passwords(passwords)
            check_complete(passwords, known, boards)
            log.warning("the broker listens on ALL networks of this computer, with a password per board and no encryption")
        self._lan, self._prefix, self._known = lan, prefix, known
        self._wanted_port = port
        self._process: subprocess.Popen[str] | None = None
        self.port = port

    @property
    def endpoint(self) -> Endpoint:
        """Where this computer's own clients find it."""
        return Endpoint(LOOPBACK, self.port, HOST if self._known else None, self._known.get(HOST))

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> None:
        """Start and wait until clients can connect; raises LinkError when the port is taken or the process fails."""
        if self.pid is not None:
            raise LinkError(f"the embedded broker is already running (process {self.pid})")
        host = "0.0.0.0" if self._lan else LOOPBACK
        self.port = self._free_port(host)
        settings = BrokerSettings(host, self.port, self._prefix, self._known)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "onboard.link.broker_process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C reaches the daemon, which stops the broker last
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(settings).decode() + "\n")
        self._process.stdin.flush()
        readable, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        answer = self._process.stdout.readline().strip() if readable else f"no sign of life within {START_TIMEOUT_S:.0f} s"
        if answer != "ready":
            self.stop()
            raise LinkError(f"the embedded broker did not start on {host}:{self.port}: {answer or 'it ended at once'}")

    def _free_port(self, host: str) -> int:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, self._wanted_port))
            except OSError as error:
                raise LinkError(
                    f"port {self._wanted_port} on {host} cannot be used for the embedded broker ({error.strerror}). If a broker"
                    f" runs there, name it: --broker mqtt://{LOOPBACK}:{self._wanted_port}"
                ) from error
            port: int = probe.getsockname()[1]
        return port

    def stop(self) -> None:
        """End the process and wait for it; a broker that does not end is killed."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def __enter__(self) -> EmbeddedBroker:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
