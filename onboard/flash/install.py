"""Bring a board's files to what they should be, in an order in which an end at any step leaves a board that boots.

Two folders take turns: everything new goes into the one not in use, is checked by hash there, and becomes the firmware by the
renaming of one small file. What the other folder already has is copied on the board, not sent. main.py comes last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onboard.errors import LinkError
from onboard.flash.board_files import STAGED, BoardFiles, digest
from onboard.flash.image import Image

SLOT = "/slot"
TRIAL = "/trial"  # of a firmware that came over the air and has not proved itself
SLOTS = ("a", "b")
IDENTITY = "/identity.json"
TLS_FOLDER = "/tls"
RESERVE_BYTES = 32_768  # of flash left free: configuration, crash text, the file system itself
BLOCK = 4096  # of the boards' file systems: a file takes whole ones


@dataclass(frozen=True, slots=True)
class Provision:
    """The settings of one board: identity.json, and files below /tls that it names. Secret: never shown or logged."""

    identity: bytes
    tls: dict[str, bytes]

    def __repr__(self) -> str:
        return "Provision(...)"


@dataclass(frozen=True, slots=True)
class Installed:
    """What an installation did. sent: bytes over the line; files: how many were written or copied; slot: in use now; before:
    in use until now, empty when there was none."""

    changed: bool
    sent: int
    files: int
    slot: str
    before: str


def install(
    files: BoardFiles, image: Image, provision: Provision, free: int, port: str, on_step: Callable[[str], None]
) -> Installed:
    """Make the board's files those of `image` and `provision`; LinkError leaves the old or the new firmware in use."""
    slot = files.read_text(SLOT)
    before = active = slot if slot in SLOTS else ""
    on_step("looking")
    files.remove([TRIAL])  # first: it could name the folder that is filled below
    root = {f"/{name}": data for name, data in image.root.items()}
    wanted_root = {IDENTITY: provision.identity, **root}
    have = files.hashes([*(f"/{name}" for name in SLOTS), TLS_FOLDER], [*wanted_root, *(p + STAGED for p in wanted_root)])
    modules = image.hashes
    count = 0
    if not active or _tree(have, active) != modules:
        active, written = _fill(files, image, modules, have, active, free, port, on_step)
        count += written
    switch = active != slot
    on_step("provisioning")
    for path, data in provision.tls.items():
        count += _replace(files, have, path, data)
    count += _replace(files, have, IDENTITY, provision.identity)
    count += _replace(files, have, "/boot.py", root["/boot.py"])
    if switch:
        files.put(SLOT, active.encode())  # the change of firmware, at once and whole
        count += 1
    count += _replace(files, have, "/main.py", root["/main.py"])
    on_step("checking")
    _check(files, modules, active, provision, wanted_root, port)
    files.remove(path for path in have if path.endswith(STAGED) or (path.startswith(TLS_FOLDER) and path not in provision.tls))
    return Installed(count > 0, files.sent, count, active, before)


def take_back(files: BoardFiles, done: Installed) -> bool:
    """Put the firmware of before in use again; False when there is none."""
    if not done.before or done.before == done.slot:
        return False
    files.put(SLOT, done.before.encode())
    return True


def _fill(
    files: BoardFiles,
    image: Image,
    modules: dict[str, str],
    have: dict[str, str],
    active: str,
    free: int,
    port: str,
    on_step: Callable[[str], None],
) -> tuple[str, int]:
    """Make the folder that is not in use hold the image; its name, and the number of files written."""
    target = "b" if active == "a" else "a"
    there = {path: value for path, value in have.items() if path.startswith(f"/{target}/")}
    unwanted = [path for path in there if path.split("/", 2)[2] not in modules]
    missing = [path for path, value in modules.items() if there.get(f"/{target}/{path}") != value]
    need = sum(-(-len(image.modules[path]) // BLOCK) * BLOCK for path in missing) + RESERVE_BYTES
    if free < need:
        raise LinkError(f"{port}: the board's flash has {free} bytes free, {need} are needed; nothing was changed")
    files.remove(unwanted)
    by_hash = {value: path for path, value in have.items() if path.startswith(f"/{active}/")} if active else {}
    on_step("writing")
    for path in missing:
        source = by_hash.get(modules[path])
        if source is not None:
            files.copy(source, f"/{target}/{path}", modules[path])
        else:
            files.put(f"/{target}/{path}", image.modules[path])
    if _tree(files.hashes([f"/{target}"], []), target) != modules:
        raise LinkError(f"{port}: the files on the board are not those that were sent; the firmware in use is unchanged")
    return target, len(missing)


def _tree(have: dict[str, str], slot: str) -> dict[str, str]:
    head = f"/{slot}/"
    return {path[len(head) :]: value for path, value in have.items() if path.startswith(head)}


def _replace(files: BoardFiles, have: dict[str, str], path: str, data: bytes) -> int:
    if have.get(path) == digest(data):
        return 0
    files.put(path, data)
    return 1


def _check(
    files: BoardFiles, modules: dict[str, str], active: str, provision: Provision, root: dict[str, bytes], port: str
) -> None:
    wanted = {path: digest(data) for path, data in {**root, **provision.tls}.items()}
    wanted |= {f"/{active}/{path}": value for path, value in modules.items()}
    have = files.hashes([f"/{active}"], [*root, *provision.tls])
    wrong = sorted(path for path, value in wanted.items() if have.get(path) != value)
    if wrong or files.read_text(SLOT) != active:
        raise LinkError(f"{port}: after writing, {wrong[0] if wrong else SLOT} is not what was sent")
