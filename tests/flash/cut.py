"""Power that fails at a chosen step: a board's file system that stops for good at its n-th change, over all boots of a run."""

from __future__ import annotations

from pathlib import Path

from sim.boards.launcher import VirtualBoard

# Put at the end of the board's file system (sim/boards/shims/jail.py), on MicroPython. A change is an opening for writing, a
# write (of which half has happened), a rename, a removal, a new folder. /sim/ops has a byte for each change since the start.
SHIM = """

class _Cut:
    def __init__(self, root):
        self.inner = vfs.VfsPosix()
        self.root = root
        self.count = self.inner.stat(root + "/sim/ops")[6]
        with self.inner.open(root + "/sim/cut_after", "r") as file:
            self.limit = int(file.read())

    def step(self, half=None):
        self.count += 1
        with self.inner.open(self.root + "/sim/ops", "ab") as file:
            file.write(b".")
        if self.count >= self.limit:
            if half is not None:
                half()
            with self.inner.open(self.root + "/sim/cut_now", "w") as file:
                file.write("cut")
            import utime
            while True:
                utime.sleep(1)


class _CutFile:
    def __init__(self, file, cut):
        self._file = file
        self._cut = cut

    def write(self, data):
        self._cut.step(lambda: self._file.write(data[: len(data) // 2]))
        return self._file.write(data)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._file.close()

    def close(self):
        self._file.close()


_Jail = JailFs


class JailFs(_Jail):
    def __init__(self, root):
        super().__init__(root)
        self._cut = _Cut(root.rstrip("/"))

    def open(self, path, mode):
        if any(letter in mode for letter in "wax+") and not self._absolute(path).startswith("/sim/"):
            self._cut.step()
            return _CutFile(super().open(path, mode), self._cut)
        return super().open(path, mode)

    def mkdir(self, path):
        try:
            self.stat(path)
        except OSError:
            self._cut.step()
        super().mkdir(path)

    def remove(self, path):
        self.stat(path)  # what is not there is no change
        self._cut.step()
        super().remove(path)

    def rename(self, old, new):
        self._cut.step()
        super().rename(old, new)
"""
NEVER = 10**9


def fit(board: VirtualBoard) -> None:
    """Give the board the file system that can fail."""
    path = board.jail / "sim" / "shims" / "jail.py"
    path.write_text(path.read_text() + SHIM)


def arm(board: VirtualBoard, after: int = NEVER) -> None:
    """Fail at change `after`, counted from now."""
    folder = board.jail / "sim"
    (folder / "cut_now").unlink(missing_ok=True)
    (folder / "cut_after").write_text(str(after))
    (folder / "ops").write_bytes(b"")
    (folder / "ops").chmod(0o666)
    folder.chmod(0o777)


def changes(board: VirtualBoard) -> int:
    """How many changes there were since arm()."""
    return (board.jail / "sim" / "ops").stat().st_size


def happened(board: VirtualBoard) -> bool:
    """Whether the board stands still at its change."""
    return (board.jail / "sim" / "cut_now").exists()


def folder_of(jail: Path) -> Path:
    """The folder of firmware that a boot of this flash would use: of a trial with a try left, else the one in use."""
    trial = jail / "trial"
    words = trial.read_text().split() if trial.exists() else []
    if len(words) == 4 and int(words[1]) > 0:
        return jail / words[0]
    return jail / (jail / "slot").read_text()
