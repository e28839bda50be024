"""A host that arms a valve board and commands 0.4 MPa for ever, until somebody kills it: `python -m ... PORT`."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from tests.firmware.host_ends import ValveHost

host = ValveHost(SimpleNamespace(port=sys.argv[1]))  # type: ignore[arg-type]
host.arm(1)
while True:
    host.command(1, [4000] * 8)
    host.pump(0.01)
