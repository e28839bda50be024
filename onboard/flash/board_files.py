"""Files on a board through its prompt: looked at by hash, and replaced so that a name always has the old or the new content."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from onboard.errors import LinkError
from onboard.flash.board_code import HELPERS, SURVEY
from onboard.flash.raw_repl import BoardError, RawRepl

CHUNK = 1536  # bytes of a file in one piece of code: two kilobytes of text
STAGED = ".new"  # suffix of a file that is not whole yet
NO_SPACE = 28  # errno on every port
HASH_S = 60.0  # for all files of a board
# sys.implementation._mpy >> 10, as MicroPython numbers them.
ARCHITECTURES = (
    "none",
    "x86",
    "x64",
    "armv6",
    "armv6m",
    "armv7m",
    "armv7em",
    "armv7emsp",
    "armv7emdp",
    "xtensa",
    "xtensawin",
    "rv32imc",
    "rv64imc",
)


class BoardFacts(msgspec.Struct, frozen=True):
    """What a board says of itself. mpy: sys.implementation._mpy. free: bytes of flash. running: an application ran until now."""

    platform: str
    machine: str
    version: tuple[int, int, int]
    mpy: int
    chip_id: str
    free: int
    running: bool

    @property
    def bytecode(self) -> int:
        """Version of compiled files that the interpreter loads."""
        return self.mpy & 0xFF

    @property
    def architecture(self) -> str:
        """Of machine code that the interpreter loads."""
        number = self.mpy >> 10
        return ARCHITECTURES[number] if number < len(ARCHITECTURES) else f"number {number}"


def survey(repl: RawRepl) -> BoardFacts:
    """Ask who the board is; LinkError for an answer that no board gives."""
    try:
        return msgspec.convert(repl.ask(SURVEY), BoardFacts)
    except msgspec.ValidationError as error:
        raise LinkError(f"{repl.port}: is no board that can be flashed: {error}") from error


def digest(data: bytes) -> str:
    """sha256 in hexadecimal, as boards tell it."""
    return hashlib.sha256(data).hexdigest()


class BoardFiles:
    """One board's flash. `sent` counts bytes of files that went over the line; on_bytes is told of each piece."""

    def __init__(self, repl: RawRepl, on_bytes: Callable[[int], None] | None = None) -> None:
        self._repl = repl
        self._on_bytes = on_bytes or (lambda count: None)
        self.sent = 0
        repl.run(HELPERS)

    def hashes(self, folders: Iterable[str], files: Iterable[str]) -> dict[str, str]:
        """sha256 of every file below `folders`, and of those of `files` that exist."""
        found: dict[str, Any] = self._repl.ask(f"_look({list(folders)!r}, {list(files)!r})", HASH_S)
        return {str(path): str(value) for path, value in found.items()}

    def read_text(self, path: str) -> str | None:
        """The content of a small file, None without one."""
        code = f"try:\n    print(json.dumps(open({path!r}).read()))\nexcept OSError:\n    print('null')\n"
        value = self._repl.ask(code)
        return value if isinstance(value, str) else None

    def put(self, path: str, data: bytes) -> None:
        """Write `data` beside `path`, check its hash on the board, and rename; LinkError says what stopped it."""
        staged = path + STAGED
        self._run(f"_begin({staged!r})")
        for at in range(0, len(data), CHUNK):
            piece = data[at : at + CHUNK]
            self._run(f"_more({base64.b64encode(piece).decode()!r})")
            self.sent += len(piece)
            self._on_bytes(len(piece))
        self._run(f"_end({staged!r}, {path!r}, {digest(data)!r})")

    def copy(self, source: str, path: str, expected: str) -> None:
        """Like put, from another file of the board."""
        staged = path + STAGED
        self._run(f"_copy({source!r}, {staged!r})\n_end({staged!r}, {path!r}, {expected!r})")

    def remove(self, paths: Iterable[str]) -> None:
        """Remove files that exist."""
        if names := list(paths):
            self._run(f"_drop({names!r})")

    def _run(self, code: str) -> None:
        try:
            self._repl.run(code)
        except BoardError as error:
            if error.number == NO_SPACE:
                raise LinkError(f"{self._repl.port}: the board's flash is full; the firmware on it is unchanged") from error
            if error.kind == "ValueError":
                raise LinkError(f"{self._repl.port}: a file arrived damaged; the firmware on it is unchanged") from error
            raise
