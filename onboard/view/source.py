"""Where the page's frames come from: the daemon's control socket and, in simulation, the plant's own socket."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from onboard.clock import wait_s
from onboard.errors import LinkError, PrestressError, SafetyError

TIMEOUT_S = 2.0
RETRY_S = 1.0
MAX_LINE_BYTES = 1 << 20


class DaemonLine:
    """One connection to a daemon's control socket that is kept open; a lost one is opened anew by the next question."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, **request: Any) -> dict[str, Any]:
        """The daemon's reply. Raises LinkError when none answers, SafetyError or PrestressError when it refuses."""
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    line = await self._exchange(json.dumps(request).encode() + b"\n")
            except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError) as error:
                self.close()
                raise LinkError(
                    f"no daemon for {self.path.stem} is running here: start it with 'prestress run {self.path.stem}'"
                ) from error
        reply: dict[str, Any] = json.loads(line)
        if not reply.pop("ok", False):
            kind = SafetyError if reply.get("kind") == "SafetyError" else PrestressError
            raise kind(str(reply.get("error", "refused")))
        return reply

    async def _exchange(self, request: bytes) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(str(self.path), limit=MAX_LINE_BYTES)
        reader, writer = self._streams
        writer.write(request)
        await writer.drain()
        line = await reader.readuntil(b"\n")
        return line

    def close(self) -> None:
        """Let the connection go."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Truth:
    """The newest true shape of a simulated robot, read from the plant's socket; `fields` is empty while there is none."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.fields: dict[str, Any] = {}

    async def run(self) -> None:
        """Keep reading until cancelled; comes back to a plant that was started anew."""
        if self._path is None:
            return
        while True:
            try:
                reader, writer = await asyncio.open_unix_connection(str(self._path), limit=MAX_LINE_BYTES)
                try:
                    while line := await reader.readline():
                        report = json.loads(line)
                        self.fields = {"true_position_m": report["position_m"], "true_rotation": report["rotation"]}
                finally:
                    writer.close()
            except (OSError, ValueError, KeyError):
                pass
            self.fields = {}
            await wait_s(RETRY_S)
