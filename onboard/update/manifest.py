"""What an update is: compiled files, a list of them with hashes, and a signed header that names board, version and list."""

from __future__ import annotations

import hashlib
import re
import struct
from dataclasses import dataclass

import msgspec

from onboard.errors import UsageError
from onboard.flash.image import Image
from onboard.update.keys import Signer

MANIFEST_TAG = b"prestress manifest 1\0"
PERMIT_TAG = b"prestress permit 1\0"
LOADER = 2  # of main.py on the board: the first that knows trials
MAX_HEADER = 900
CHUNK = 960  # bytes of a file in one message
MAX_CHUNK = 1024
TRIAL_S = 60
VERSION = re.compile(r"^\d{1,6}(\.\d{1,6}){0,3}$")


class Header(msgspec.Struct, frozen=True):
    """The signed part. mpy: interpreter and processor as sys.implementation._mpy tells them; trial_s: to reach the broker."""

    board: str
    app: str
    version: str
    mpy: int
    loader: int
    size: int
    files: int
    index_size: int
    index_sha256: str
    trial_s: int


@dataclass(frozen=True, slots=True)
class Update:
    """One firmware for one kind of board. contents[0] is the index, then the files in its order."""

    header: Header
    body: bytes
    signature: bytes
    contents: tuple[bytes, ...]

    @property
    def offer(self) -> bytes:
        """What is published to a board."""
        return self.signature + self.body

    @property
    def digest(self) -> bytes:
        """sha256 that stands for the manifest wherever it is signed."""
        return manifest_digest(self.body)

    def chunk(self, file: int, offset: int) -> bytes:
        """The message that brings the bytes of `file` from `offset` on; UsageError for what is not in the update."""
        if not 0 <= file < len(self.contents) or not 0 <= offset < len(self.contents[file]):
            raise UsageError(f"the update has no byte {offset} of file {file}")
        return struct.pack("<HI", file, offset) + self.contents[file][offset : offset + CHUNK]


def manifest_digest(body: bytes) -> bytes:
    """What the signature of a header is made of."""
    return hashlib.sha256(MANIFEST_TAG + body).digest()


def permit_digest(board_id: str, boot_id: int, nonce: bytes, manifest: bytes) -> bytes:
    """What a permit signs: one board, one boot, one moment, one manifest."""
    head = PERMIT_TAG + board_id.encode() + b"\0" + struct.pack("<I", boot_id)
    return hashlib.sha256(head + nonce + manifest).digest()


def make_update(image: Image, board: str, app: str, mpy: int, signer: Signer, trial_s: int = TRIAL_S) -> Update:
    """Sign `image` for one kind of board; UsageError for a version that boards cannot compare."""
    if not VERSION.match(image.version):
        raise UsageError(f"the firmware's version {image.version!a} cannot be compared: write numbers, such as 1.4.0")
    paths = sorted(image.modules)
    hashes = image.hashes
    index = "".join(f"{path} {len(image.modules[path])} {hashes[path]}\n" for path in paths).encode()
    header = Header(
        board=board,
        app=app,
        version=image.version,
        mpy=mpy,
        loader=LOADER,
        size=image.size,
        files=len(paths),
        index_size=len(index),
        index_sha256=hashlib.sha256(index).hexdigest(),
        trial_s=trial_s,
    )
    body = msgspec.json.encode(header)
    if len(body) > MAX_HEADER:
        raise UsageError(f"the manifest has {len(body)} bytes, boards take {MAX_HEADER}")
    signature = signer.sign(manifest_digest(body))
    return Update(header, body, signature, (index, *(image.modules[path] for path in paths)))
