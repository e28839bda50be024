"""The jail's file system with the size of a board's flash: statvfs tells it, writing beyond it fails. Runs on MicroPython."""

from jail import JailFs

BLOCK = 4096
NO_SPACE = 28  # this interpreter's errno module has no name for it


class _Counted:
    """A file open for writing that takes from the free space."""

    def __init__(self, file, fs) -> None:
        self._file = file
        self._fs = fs

    def write(self, data) -> int:
        if self._fs.free() < len(data):
            raise OSError(NO_SPACE)
        self._fs.written += len(data)
        return self._file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def flush(self) -> None:
        self._file.flush()


class QuotaFs(JailFs):
    """`size` bytes less what the files outside /sim take; 0 means without end."""

    def __init__(self, root: str, size: int) -> None:
        super().__init__(root)
        self._size = size
        self.written = 0  # since the space was last counted

    def open(self, path, mode):
        if self._size and any(letter in mode for letter in "wax+") and not self._absolute(path).startswith("/sim/"):
            self._count()
            return _Counted(super().open(path, mode), self)
        return super().open(path, mode)

    def free(self) -> int:
        return self._size - self._used - self.written

    def statvfs(self, path):
        if not self._size:
            return super().statvfs(path)
        self._count()
        free = max(0, self.free()) // BLOCK
        return (BLOCK, BLOCK, self._size // BLOCK, free, free, 0, 0, 0, 0, 255)

    def _count(self) -> None:
        self._used = self._folder("/")
        self.written = 0

    def _folder(self, path: str) -> int:
        total = 0
        for entry in self.ilistdir(path):
            full = path.rstrip("/") + "/" + entry[0]
            if full == "/sim":
                continue
            if entry[1] & 0x4000:
                total += self._folder(full)
            else:
                total += (self.stat(full)[6] + BLOCK - 1) // BLOCK * BLOCK
        return total
