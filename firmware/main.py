"""Chooses the firmware to start and starts it; stays on the board when the firmware changes, so it knows little of it.

The file `/slot` names the folder of the firmware in use, `/a` or `/b`; without it the firmware lies beside this file. An
update fills the other folder and then replaces `/slot`: that one rename is the whole change.
"""

import os
import sys
import time  # noqa: TID251 (the board's own clock)

import machine

SLOT = "/slot"
HOLD = "/hold"  # written by a flasher before it resets the board: wait for it, once
CRASH = "/crash.txt"
HOLD_MS = 8000
RESTART_DELAY_MS = 1000  # so that a board that always fails can still be reached by a flasher


def hold() -> None:
    """Wait for a flasher's interrupt, if one has asked for it: here no watchdog runs and the memory is empty."""
    try:
        os.remove(HOLD)
    except OSError:
        return
    print("prestress: holding")
    for _ in range(HOLD_MS // 50):
        time.sleep_ms(50)


def choose() -> None:
    """Put the folder of the firmware in use before everything else that is imported."""
    try:
        with open(SLOT) as file:
            slot = file.read(1)
    except OSError:
        return
    if slot in ("a", "b"):
        sys.path.insert(0, "/" + slot)


def keep_crash(error: BaseException) -> None:
    """Write the error's name and text where the next boot finds it."""
    try:
        with open(CRASH, "w") as file:
            file.write("%s: %s" % (type(error).__name__, error))
    except OSError:
        pass  # a full flash must not keep the board from restarting


if __name__ == "__main__":
    hold()
    try:
        choose()
        from application import start

        start()
    except Exception as error:
        sys.print_exception(error, sys.stderr)  # type: ignore[arg-type]  # the stubs know no text stream
        keep_crash(error)
        time.sleep_ms(RESTART_DELAY_MS)
        machine.reset()
