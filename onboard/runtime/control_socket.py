"""The control socket: JSON lines on a local Unix socket that only its owner may use; the way to arm, teach, go and stop."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import socket
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from onboard.errors import LinkError, PrestressError, SafetyError
from onboard.resources import state_dir

MAX_LINE_BYTES = 65_536
MAX_CLIENTS = 16
MAX_PATH_BYTES = 107  # what a Unix socket's address holds
REPLY_TIMEOUT_S = 10.0
IDLE_TIMEOUT_S = 60.0

Request = dict[str, Any]
Reply = dict[str, Any]
Handler = Callable[[Request], Awaitable[Reply] | Reply]


def runtime_dir() -> Path:
    """Where sockets live: the session's runtime folder, or the user's state folder."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return Path(base) / "prestress" if base else state_dir() / "run"


def socket_path(robot: str) -> Path:
    """The control socket of the daemon that runs `robot`."""
    return runtime_dir() / f"{robot}.sock"


class ControlSocket:
    """The server side. `handler` gets each request (a dict with the key "do") and returns the reply's fields.

    What it raises as PrestressError is the client's answer; anything else reaches the event loop's exception handler and
    the client learns of an internal error. Replies are {"ok": true, ...} or {"ok": false, "error": text}.
    """

    def __init__(self, path: Path, handler: Handler) -> None:
        self.path, self._handler = path, handler
        self._server: asyncio.Server | None = None
        self._lock = -1
        self._clients: set[asyncio.Task[None]] = set()
        self.refused = 0

    def claim(self) -> None:
        """Become the one daemon of this robot; before anything is touched that another daemon may be using.

        Raises SafetyError if another holds the claim, LinkError if none can be made. A lock file, not the socket, tells
        whether a daemon lives: the kernel drops the lock of a killed one.
        """
        if len(os.fsencode(self.path)) > MAX_PATH_BYTES:
            raise LinkError(f"{self.path}: too long for a socket ({MAX_PATH_BYTES} bytes); set XDG_RUNTIME_DIR to a shorter path")
        if self._lock >= 0:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._take_lock()
        except OSError as error:
            raise LinkError(f"{self.path}: the control socket cannot be made: {error.strerror}") from error

    async def start(self) -> None:
        """Bind and listen, after `claim`. Raises as that does."""
        self.claim()
        try:
            self.path.unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            before = os.umask(0o177)
            try:
                listener.bind(str(self.path))
            finally:
                os.umask(before)
            self.path.chmod(0o600)
            listener.setblocking(False)
            self._server = await asyncio.start_unix_server(self._connected, sock=listener, limit=MAX_LINE_BYTES)
        except OSError as error:
            self._drop_lock()
            raise LinkError(f"{self.path}: the control socket cannot be made: {error.strerror}") from error

    async def close(self) -> None:
        """Stop listening, end all clients, remove the socket."""
        if self._server is not None:
            self._server.close()
            for task in list(self._clients):
                task.cancel()
            await asyncio.gather(*self._clients, return_exceptions=True)
            self._server = None
            self.path.unlink(missing_ok=True)
        self._drop_lock()

    def _take_lock(self) -> None:
        path = self.path.with_suffix(".lock")
        self._lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._lock, 32, 0).decode(errors="replace").strip()
            self._drop_lock()
            raise SafetyError(_taken(self.path, holder or "unknown")) from None
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, f"{os.getpid()}\n".encode(), 0)

    def _drop_lock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # streams run their callback in a task
        self._clients.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.CancelledError, TimeoutError):
            pass  # the client went, or we close: nothing to tell anyone
        finally:
            self._clients.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        refusal = ""
        if not _same_user(writer):
            refusal = "only the user who runs the daemon, or root, may use this socket"
        elif len(self._clients) > MAX_CLIENTS:
            refusal = f"more than {MAX_CLIENTS} clients at once"
        self.refused += bool(refusal)
        while True:
            try:
                async with asyncio.timeout(REPLY_TIMEOUT_S if refusal else IDLE_TIMEOUT_S):
                    line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError:
                return
            except asyncio.LimitOverrunError:
                refusal = f"a request has at most {MAX_LINE_BYTES} bytes"
            if refusal:
                await _answer(writer, _error(refusal))
                return
            await _answer(writer, await self._reply(line))

    async def _reply(self, line: bytes) -> Reply:
        try:
            request = parse(line)
            result = self._handler(request)
            fields = result if isinstance(result, dict) else await result
        except PrestressError as error:
            return _error(str(error), type(error).__name__)
        except Exception as error:  # noqa: BLE001 - one bad request must not end the daemon; it is reported
            asyncio.get_running_loop().call_exception_handler({"message": "control socket: request failed", "exception": error})
            return _error(f"internal error: {type(error).__name__}: {error}", "InternalError")
        return {"ok": True, **fields}


def refuse_a_second(path: Path) -> None:
    """Raises SafetyError when a daemon has the socket at `path` already: nothing else needs to be started to find that out.

    `ControlSocket.claim` decides; this only tells in good time, and says what to do.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(REPLY_TIMEOUT_S)
        try:
            client.connect(str(path))
        except OSError:
            return
        credentials = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    holder, _, _ = struct.unpack("3i", credentials)
    raise SafetyError(_taken(path, str(holder)))


def parse(line: bytes) -> Request:
    """A request from one line; raises LinkError saying what is wrong with it."""
    try:
        request = json.loads(line.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise LinkError(f"a request is one line of JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("do"), str):
        raise LinkError('a request is a JSON object with the key "do", such as {"do": "status"}')
    return request


def ask(path: Path, request: Request, timeout_s: float = REPLY_TIMEOUT_S) -> Reply:
    """Send one request to the daemon and return its reply's fields; for command lines. Blocks at most `timeout_s` a step.

    Raises LinkError if no daemon answers, SafetyError or PrestressError with the daemon's own words if it refuses.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout_s)
            client.connect(str(path))
            client.sendall(json.dumps(request, allow_nan=False).encode() + b"\n")
            with client.makefile("rb") as stream:
                line = stream.readline(16 * MAX_LINE_BYTES)
    except (FileNotFoundError, ConnectionRefusedError) as error:
        raise LinkError(f"no daemon for {path.stem} is running here: start it with 'prestress run {path.stem}'") from error
    except PermissionError as error:
        raise LinkError(f"{path}: belongs to another user") from error
    except TimeoutError as error:
        raise LinkError(f"the daemon for {path.stem} does not answer within {timeout_s:g} s") from error
    except OSError as error:
        raise LinkError(f"{path}: {error.strerror or error}") from error
    if not line.endswith(b"\n"):
        raise LinkError(f"the daemon for {path.stem} closed the connection before it answered")
    reply = json.loads(line)
    if not isinstance(reply, dict) or reply.pop("ok", False) is not True:
        kind = SafetyError if reply.get("kind") == "SafetyError" else PrestressError
        raise kind(str(reply.get("error", "the daemon's answer makes no sense")))
    return reply


def _same_user(writer: asyncio.StreamWriter) -> bool:
    connection = writer.get_extra_info("socket")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return user in (os.geteuid(), 0)


async def _answer(writer: asyncio.StreamWriter, reply: Reply) -> None:
    writer.write(json.dumps(reply).encode() + b"\n")
    async with asyncio.timeout(REPLY_TIMEOUT_S):
        await writer.drain()


def _taken(path: Path, holder: str) -> str:
    return f"a daemon for {path.stem} runs already (process {holder}): stop it first"


def _error(text: str, kind: str = "LinkError") -> Reply:
    return {"ok": False, "error": text, "kind": kind}


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not a number")
