"""A file system that ends at the board's directory: every path is made absolute and stripped of `..` before use."""

import errno

import vfs


class JailFs:
    """Delegates to the interpreter's POSIX file system below `root`; nothing outside can be named."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")
        self._inner = vfs.VfsPosix()  # its own root argument breaks rename: both names share one buffer
        self._cwd = "/"

    def _path(self, path: str) -> str:
        return (self._root + self._absolute(path)) or "/"

    def _absolute(self, path: str) -> str:
        parts = []
        if not path.startswith("/"):
            path = self._cwd + "/" + path
        for part in path.split("/"):
            if part == "..":
                raise OSError(errno.EPERM)
            if part and part != ".":
                parts.append(part)
        return "/" + "/".join(parts)

    def mount(self, readonly, mkfs) -> None:
        self._inner.mount(readonly, mkfs)

    def umount(self) -> None:
        raise OSError(errno.EPERM)

    def open(self, path, mode):
        return self._inner.open(self._path(path), mode)

    def chdir(self, path) -> None:
        if not self._inner.stat(self._path(path))[0] & 0x4000:
            raise OSError(errno.ENOENT)
        self._cwd = self._absolute(path)

    def getcwd(self) -> str:
        return self._cwd

    def ilistdir(self, path):
        return self._inner.ilistdir(self._path(path or "."))

    def mkdir(self, path) -> None:
        self._inner.mkdir(self._path(path))

    def remove(self, path) -> None:
        self._inner.remove(self._path(path))

    def rename(self, old, new) -> None:
        self._inner.rename(self._path(old), self._path(new))

    def rmdir(self, path) -> None:
        if self._absolute(path) == "/":
            raise OSError(errno.EPERM)
        self._inner.rmdir(self._path(path))

    def stat(self, path):
        return self._inner.stat(self._path(path))

    def statvfs(self, path):
        return self._inner.statvfs(self._path(path))
