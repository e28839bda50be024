"""Lets the wall clock of a Python process jump: found first on PYTHONPATH, it adds the offset in a file to time.time().

PRESTRESS_TEST_CLOCK names a file of eight bytes, a double [s]. Monotonic clocks are left alone, as an administrator's
`date -s` leaves them.
"""

import mmap
import os
import struct
import time

_file = os.environ.get("PRESTRESS_TEST_CLOCK")
if _file:
    with open(_file, "rb") as _source:  # noqa: PTH123 (pathlib would be loaded into every process)
        _map = mmap.mmap(_source.fileno(), 8, prot=mmap.PROT_READ)
    _true, _true_ns = time.time, time.time_ns

    def _jumped() -> float:
        return _true() + struct.unpack("d", _map)[0]

    def _jumped_ns() -> int:
        return _true_ns() + round(struct.unpack("d", _map)[0] * 1e9)

    time.time, time.time_ns = _jumped, _jumped_ns
