"""First code of a virtual board on USB: jail, shims, the chip it pretends to be, then boot.py, main.py and the prompt.

What real boards do when main.py is missing, ends or is interrupted, this does too: the interpreter's prompt follows.
"""

# ruff: noqa: PTH123 (MicroPython has no pathlib)

import asyncio
import asyncio.core  # noqa: F401
import json
import os
import sys

root = sys.argv[1]
shims = root + ("" if root.endswith("/") else "/") + "sim/shims"
sys.path[:] = [".frozen", shims]

import vfs  # noqa: E402
from quota import QuotaFs  # noqa: E402

with open(shims + "/../chip.json") as _file:
    _chip = json.load(_file)
vfs.umount("/")
vfs.mount(QuotaFs(root, _chip["flash_bytes"]), "/")
sys.path[:] = ["/sim/shims", "/", ".frozen"]
for _name in ("time", "jail", "quota"):
    sys.modules.pop(_name, None)


class _Implementation:
    """sys.implementation of the chip that is pretended."""

    name = "micropython"
    version = tuple(_chip["version"])
    _machine = _chip["machine"]
    _mpy = _chip["mpy"]


class _Sys:
    """`sys` with the chip's name; the rest is the interpreter's own."""

    platform = _chip["platform"]
    implementation = _Implementation

    def __init__(self, real) -> None:
        self._real = real

    def __getattr__(self, name):
        return getattr(self._real, name)


_real = sys
sys.modules["sys"] = _Sys(sys)


def _run() -> None:
    for script in ("/boot.py", "/main.py"):
        try:
            with open(script) as source:
                code = source.read()
        except OSError:
            continue
        exec(code, {"__name__": "__main__"})


os.putenv("MICROPYINSPECT", "1")
try:
    _run()
except SystemExit:
    os.unsetenv("MICROPYINSPECT")
    raise
except (Exception, KeyboardInterrupt) as _error:  # noqa: BLE001 (as the board's own)
    _real.print_exception(_error)
del root, shims
