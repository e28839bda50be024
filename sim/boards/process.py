"""The process that becomes a virtual board: confine itself, then hand over to the MicroPython interpreter.

Run as `python -I -S process.py JSON`. The JSON object: jail (directory), packages (where the interpreter's extension module
lies), heap (text), parent (pid that must be alive), uid and gid (0: stay who we are), repl (bool).

Confinement, strongest first: as root a chroot into the jail and an unprivileged user; otherwise a user namespace of its own
and a chroot in it, where the kernel allows that; in every case the interpreter sees a file system rooted at the jail that
refuses `..`.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def confine(jail: str, uid: int, gid: int) -> str:
    """Enter the jail; returns the board's root as this process now sees it."""
    os.chdir(jail)
    libc = ctypes.CDLL(None, use_errno=True)
    root = jail
    if os.geteuid() == 0 or libc.unshare(CLONE_NEWUSER) == 0:
        try:
            os.chroot(jail)
            os.chdir("/")
            root = "/"
        except OSError:
            root = jail
    if uid and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # after setuid, which clears it
    return root


def main() -> None:
    settings = json.loads(sys.argv[1])
    sys.path.append(settings["packages"])
    import micropython_run  # before the chroot hides it

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    root = confine(settings["jail"], settings["uid"], settings["gid"])
    if os.getppid() != settings["parent"]:
        sys.exit(1)  # the launcher died while we started
    start = root.rstrip("/") + "/sim/start.py"
    sys.stdout.flush()
    code = micropython_run.run_main(["micropython", "-X", "heapsize=" + settings["heap"], start, root])
    os._exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
