"""First code of a virtual board: jail, then shims, then boot.py and main.py as the board's interpreter runs them.

asyncio is imported before the time shim on purpose: its C core compares ticks with the interpreter's own period, which
on a board equals the masked one and here does not.
"""

# ruff: noqa: PTH123 (MicroPython has no pathlib)

import asyncio
import asyncio.core  # noqa: F401
import sys

root = sys.argv[1]
sys.path[:] = [".frozen", root + ("" if root.endswith("/") else "/") + "sim/shims"]

import vfs  # noqa: E402
from jail import JailFs  # noqa: E402

vfs.umount("/")
vfs.mount(JailFs(root), "/")
sys.path[:] = ["/sim/shims", "/", ".frozen"]
sys.modules.pop("time", None)
sys.modules.pop("jail", None)
del root

for _script in ("/boot.py", "/main.py"):
    with open(_script) as _source:
        _code = _source.read()
    exec(_code, {"__name__": "__main__"})
