"""Files of an update on the board's flash: read, hashed and copied in small pieces, other tasks running in between."""

import asyncio
import binascii
import hashlib
import os

PIECE = 512
BLOCK = 4096  # of the file system: a file takes whole ones
FOLDER = 0x4000


def size(path: str) -> int:
    """Bytes of a file, -1 without one."""
    try:
        return int(os.stat(path)[6])
    except OSError:
        return -1


async def digest(path: str) -> str:
    """sha256 of a file in hexadecimal, empty without one."""
    state = hashlib.sha256()
    piece = bytearray(PIECE)
    view = memoryview(piece)
    try:
        file = open(path, "rb")
    except OSError:
        return ""
    with file:
        while True:
            count = file.readinto(piece)
            if not count:
                return binascii.hexlify(state.digest()).decode()
            state.update(view[:count])
            await asyncio.sleep_ms(0)


async def copy(source: str, path: str) -> None:
    """Copy a file over another."""
    piece = bytearray(PIECE)
    view = memoryview(piece)
    with open(source, "rb") as file, open(path, "wb") as target:
        while True:
            count = file.readinto(piece)
            if not count:
                return
            target.write(view[:count])
            await asyncio.sleep_ms(0)


def make_parents(path: str) -> None:
    """The folders above a file."""
    at = path.find("/", 1)
    while at > 0:
        try:
            os.mkdir(path[:at])
        except OSError:
            pass  # it is there; what else is wrong shows when the file is opened
        at = path.find("/", at + 1)


def below(folder: str, found: list[str]) -> list[str]:
    """Every file below a folder, added to `found`."""
    try:
        entries = list(os.ilistdir(folder))
    except OSError:
        return found
    for entry in entries:
        path = folder + "/" + str(entry[0])
        if entry[1] & FOLDER:
            below(path, found)
        else:
            found.append(path)
    return found


def free_bytes() -> int:
    """What the file system has left."""
    table = os.statvfs("/")
    return int(table[1] * table[3])


def blocks(count: int) -> int:
    """Bytes of flash that a file of `count` bytes takes."""
    return (count + BLOCK - 1) // BLOCK * BLOCK


class Index:
    """The list of files of an update as it lies on flash: lines "path size sha256", read one at a time."""

    def __init__(self, path: str) -> None:
        self.path = path

    def lines(self) -> "list[tuple[str, int]]":
        """(path, size) of every file; ValueError for a line that is no file of a firmware."""
        found = []
        with open(self.path) as file:
            for line in file:
                words = line.split()
                if len(words) != 3 or not words[0].endswith(".mpy") or ".." in words[0] or words[0][0] == "/":
                    raise ValueError("the list of files is not understood")
                found.append((words[0], int(words[1])))
        return found

    def hash_of(self, number: int) -> str:
        """sha256 of file `number`, counted from 0."""
        with open(self.path) as file:
            for at, line in enumerate(file):
                if at == number:
                    return str(line.split()[2])
        raise ValueError("the list of files is short")
