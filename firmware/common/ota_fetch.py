"""Bring an update's files into the folder that is not in use: what is there already stays, what the other folder has is
copied, the rest is asked for in chunks. No file is held in memory, none gets its name before its hash is right."""

import asyncio
import os

from common import ota_files, trial
from common.ota_files import Index

INDEX = "/update.index"
STAGED = ".new"
CHUNK = 960  # payload of a chunk; with its header of 6 bytes it stays below 1 kB
HEADER = 6  # file u16, offset u32
RESERVE = 16_384  # bytes of flash left free
RETRY_MS = 2000
SILENT_MS = 20_000
AGAIN = 2  # times that a file with a wrong hash is fetched


class Fetch:
    """One update's files. Override `next_chunk` and `ask`. header: the checked manifest; slot: the folder to fill."""

    def __init__(self, header: dict[str, object], slot: str) -> None:
        self._root = "/%s/" % slot
        self._active = trial.in_use()
        self._index_size = int(str(header["index_size"]))
        self._index_hash = str(header["index_sha256"])
        self._total = 0
        self._done = 0

    async def next_chunk(self, timeout_ms: int) -> "bytes | None":
        """The next chunk that arrives, empty for another message, None after `timeout_ms`."""
        raise NotImplementedError

    def ask(self, file: int, offset: int, done: int, total: int) -> None:
        """Want the chunk of file number `file`, 0 the index, at `offset`; `done` of `total` bytes are here."""
        raise NotImplementedError

    async def run(self) -> None:
        """Fetch all; OSError and ValueError leave what is whole for the next try."""
        try:
            await self._run()
        finally:
            trial.remove(INDEX)

    async def _run(self) -> None:
        if ota_files.free_bytes() < ota_files.blocks(self._index_size) + RESERVE:
            raise ValueError("the board's flash is full: %d bytes free" % ota_files.free_bytes())
        await self._file(0, INDEX, self._index_size, self._index_hash)
        index = Index(INDEX)
        files = index.lines()
        missing = await self._missing(index, files)
        self._refuse_full(files, missing)
        for path in ota_files.below(self._root[:-1], []):
            if not self._wanted(path, files):
                os.remove(path)
        self._total = sum([files[number][1] for number in missing])
        for number in missing:
            await self._bring(number, files[number], index.hash_of(number))
        if await self._missing(index, files):
            raise ValueError("the files on flash are not those that were sent")

    def _wanted(self, path: str, files: "list[tuple[str, int]]") -> bool:
        for name, _ in files:
            if path == self._root + name or path == self._root + name + STAGED:
                return True
        return False

    async def _missing(self, index: Index, files: "list[tuple[str, int]]") -> list[int]:
        """Numbers of the files that the folder does not have as they should be."""
        found = []
        for number, (path, size) in enumerate(files):
            place = self._root + path
            if ota_files.size(place) != size or await ota_files.digest(place) != index.hash_of(number):
                found.append(number)
        return found

    def _refuse_full(self, files: "list[tuple[str, int]]", missing: list[int]) -> None:
        """Look at the space before anything is removed or written."""
        need = RESERVE
        for number in missing:
            need += ota_files.blocks(files[number][1])
        free = ota_files.free_bytes()
        for path in ota_files.below(self._root[:-1], []):
            whole = any([path == self._root + files[k][0] for k in range(len(files)) if k not in missing])
            if not whole:
                free += ota_files.blocks(ota_files.size(path))
        if free < need:
            raise ValueError("the board's flash is full: %d bytes free, %d are needed" % (free, need))

    async def _bring(self, number: int, file: "tuple[str, int]", wanted: str) -> None:
        path, size = file
        place = self._root + path
        ota_files.make_parents(place)
        if ota_files.size(place) >= 0:
            os.remove(place)  # room for the new one
        source = "/%s/%s" % (self._active, path) if self._active else "/" + path
        if ota_files.size(source) == size and await ota_files.digest(source) == wanted:
            await ota_files.copy(source, place + STAGED)
            if await ota_files.digest(place + STAGED) == wanted:
                os.rename(place + STAGED, place)
                self._done += size
                return
        await self._file(number + 1, place, size, wanted)

    async def _file(self, number: int, path: str, size: int, wanted: str) -> None:
        """File `number` of the update, 0 the index: chunks appended to a staged file, hashed as flash has it, renamed."""
        for _ in range(AGAIN):
            done = self._done
            await self._chunks(number, path + STAGED, size)
            if await ota_files.digest(path + STAGED) == wanted:
                if hasattr(os, "sync"):
                    os.sync()
                os.rename(path + STAGED, path)
                return
            os.remove(path + STAGED)
            self._done = done
        raise ValueError("file %d arrived damaged, twice" % number)

    async def _chunks(self, number: int, path: str, size: int) -> None:
        at = ota_files.size(path)
        if at < 0 or at > size:
            trial.remove(path)
            at = 0
        self._done += at
        silent_ms = 0
        with open(path, "ab") as file:
            if at < size:
                self.ask(number, at, self._done, self._total)
            while at < size:
                data = await self.next_chunk(RETRY_MS)
                if data is None:
                    silent_ms += RETRY_MS
                    if silent_ms >= SILENT_MS:
                        raise ValueError("nothing came for %d s" % (SILENT_MS // 1000))
                    self.ask(number, at, self._done, self._total)
                    continue
                if not HEADER < len(data) <= HEADER + CHUNK:
                    continue
                if int.from_bytes(data[:2], "little") != number or int.from_bytes(data[2:HEADER], "little") != at:
                    continue  # an answer that came twice: asking again would double all that follow
                silent_ms = 0
                content = memoryview(data)[HEADER : HEADER + size - at]
                file.write(content)
                at += len(content)
                self._done += len(content)
                if at < size:
                    self.ask(number, at, self._done, self._total)
                await asyncio.sleep_ms(0)
