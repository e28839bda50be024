"""The page's server: static files over HTTP and frames over a WebSocket, for this computer's browser unless told otherwise."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection, broadcast, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from onboard.clock import Clock, wait_s
from onboard.errors import LinkError, PrestressError
from onboard.view.source import DaemonLine, Truth

PAGE = Path(__file__).resolve().parent / "page"
FILES = {"/": ("index.html", "text/html"), "/view.js": ("view.js", "text/javascript"), "/style.css": ("style.css", "text/css")}
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
COMMANDS = ("arm", "disarm", "reset")  # with the token; stop needs none
STATUS_PERIOD_S = 0.5
MAX_MESSAGE_BYTES = 1000
MAX_VIEWERS = 16


class ViewServer:
    """Serves one robot's page. names: what a browser may call this host. token: what arming needs; stopping needs none."""

    def __init__(
        self, scene: dict[str, Any], daemon: DaemonLine, truth: Truth, clock: Clock, names: list[str], token: str, rate_hz: float
    ) -> None:
        self._scene, self._daemon, self._truth, self._clock = scene, daemon, truth, clock
        self._names, self._token, self._period_s = names, token, 1.0 / rate_hz
        self._viewers: set[ServerConnection] = set()
        self._hosts: set[str] = set()
        self.frames = 0

    @asynccontextmanager
    async def serving(self, address: str, port: int) -> AsyncIterator[int]:
        """Listen; gives the port (useful when `port` is 0). Raises LinkError when the port is taken."""
        try:
            server = await serve(
                self._viewer,
                address,
                port,
                process_request=self._page,
                max_size=MAX_MESSAGE_BYTES,
                compression=None,
                server_header=None,
            )
        except OSError as error:
            raise LinkError(f"the view cannot listen on {address} port {port}: {error.strerror or error}") from error
        async with server:
            bound = int(next(iter(server.sockets)).getsockname()[1])
            self._hosts = {f"{name}:{bound}" for name in self._names}
            tasks = [asyncio.create_task(self._truth.run()), asyncio.create_task(self._feed())]
            try:
                yield bound
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def _page(self, _: ServerConnection, request: Request) -> Response | None:
        """Refuse foreign hosts and origins (a page elsewhere must not reach a robot through somebody's browser), serve files."""
        host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
        if host not in self._hosts:
            return _response(HTTPStatus.FORBIDDEN, b"this host name is not the view's\n")
        path = request.path.partition("?")[0]
        if path == "/live":
            if origin not in {f"http://{name}" for name in self._hosts}:
                return _response(HTTPStatus.FORBIDDEN, b"another page may not use this robot\n")
            return None if len(self._viewers) < MAX_VIEWERS else _response(HTTPStatus.SERVICE_UNAVAILABLE, b"too many viewers\n")
        if path not in FILES:
            return _response(HTTPStatus.NOT_FOUND, b"no such page\n")
        name, kind = FILES[path]
        return _response(HTTPStatus.OK, (PAGE / name).read_bytes(), kind)

    async def _viewer(self, connection: ServerConnection) -> None:
        self._viewers.add(connection)
        try:
            await connection.send(_text(self._scene))
            async for message in connection:
                await connection.send(_text(await self._command(message)))
        except ConnectionClosed:
            pass
        finally:
            self._viewers.discard(connection)

    async def _command(self, message: str | bytes) -> dict[str, Any]:
        try:
            asked = json.loads(message)
            what, token = asked["do"], str(asked.get("token", ""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return _answer("not understood", refused=True)
        if what != "stop":
            if what not in COMMANDS:
                return _answer("not understood", refused=True)
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                return _answer(f"{what} needs the token: open the address that prestress view printed", refused=True)
        try:
            reply = await self._daemon.ask(do=what)
        except PrestressError as error:
            return _answer(str(error), refused=True)
        return _answer(str(reply.get("line", what)), refused=False)

    async def _feed(self) -> None:
        status_at_s, next_s = float("-inf"), self._clock.now_s()
        while True:
            next_s = max(next_s + self._period_s, self._clock.now_s() - self._period_s)
            if self._viewers:
                now_s = self._clock.now_s()
                try:
                    fields = await self._daemon.ask(do="frame") | self._truth.fields
                    if now_s - status_at_s >= STATUS_PERIOD_S:
                        status_at_s = now_s
                        fields["status"] = (await self._daemon.ask(do="status"))["status"]
                except PrestressError as error:
                    fields = {"kind": "gone", "error": str(error), **self._truth.fields}
                with contextlib.suppress(ConnectionClosed):
                    broadcast(self._viewers, _text(fields))
                self.frames += 1
            await wait_s(max(0.0, next_s - self._clock.now_s()))


def _text(fields: dict[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()  # what is not finite becomes null, which a browser can read


def _answer(line: str, *, refused: bool) -> dict[str, Any]:
    return {"kind": "answer", "line": line, "refused": refused}


def _response(status: HTTPStatus, body: bytes, kind: str = "text/plain") -> Response:
    headers = Headers()
    headers["Content-Type"] = f"{kind}; charset=utf-8"
    headers["Content-Length"] = str(len(body))
    headers["Connection"] = "close"
    headers["Cache-Control"] = "no-store"
    headers["X-Content-Type-Options"] = "nosniff"
    headers["X-Frame-Options"] = "DENY"
    headers["Referrer-Policy"] = "no-referrer"
    headers["Content-Security-Policy"] = "default-src 'self'; connect-src 'self'; frame-ancestors 'none'"
    return Response(status.value, status.phrase, headers, body)
