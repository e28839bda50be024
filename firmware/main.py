"""Chooses the firmware to start and starts it; stays on the board when the firmware changes, so it knows little of it.

The file `/slot` names the folder of the firmware in use, `/a` or `/b`; without it the firmware lies beside this file. An
update fills the other folder and then replaces `/slot`: that one rename is the whole change. An update over the air first
writes `/trial`, the other folder and how often it may be tried; the firmware that is on trial makes itself the one in use.
"""

import os
import sys
import time  # noqa: TID251 (the board's own clock)

import machine

LOADER = 2  # what this file can do, asked before an update over the air: 2 knows trials
SLOT = "/slot"
TRIAL = "/trial"  # "slot tries seconds version"
ROLLED_BACK = "/rolled_back"  # why the last trial ended
HOLD = "/hold"  # written by a flasher before it resets the board: wait for it, once
CRASH = "/crash.txt"
HOLD_MS = 8000
RESTART_DELAY_MS = 1000  # so that a board that always fails can still be reached by a flasher
WATCHDOG_MS = 8000


def hold() -> None:
    """Wait for a flasher's interrupt, if one has asked for it: here no watchdog runs and the memory is empty."""
    try:
        os.remove(HOLD)
    except OSError:
        return
    print("prestress: holding")
    for _ in range(HOLD_MS // 50):
        time.sleep_ms(50)


def read(path: str) -> str:
    """The start of a small file, empty without one."""
    try:
        with open(path) as file:
            return str(file.read(200))
    except (OSError, ValueError):  # ValueError: no text
        return ""


def write(path: str, text: str) -> None:
    """Replace a small file: its name has the old or the new content at any moment."""
    with open(path + ".new", "w") as file:
        file.write(text)
    if hasattr(os, "sync"):
        os.sync()
    os.rename(path + ".new", path)


def on_trial() -> str:
    """The folder of a firmware on trial that has a try left; the try is counted before anything of it runs."""
    words = read(TRIAL).split()
    if not words:
        return ""
    reason = "the record of the trial is damaged"
    try:
        if words[0] in ("a", "b") and len(words) == 4:
            left = int(words[1])
            if left > 0:
                words[1] = str(left - 1)
                write(TRIAL, " ".join(words))
                return words[0]
            reason = "%s did not come up; %s" % (words[3], read(CRASH) or "it said nothing")
    except (OSError, ValueError) as error:
        reason = str(error)
    try:
        write(ROLLED_BACK, reason)
    except OSError:
        pass  # a full flash must not keep the old firmware from running
    os.remove(TRIAL)
    return ""


def choose() -> None:
    """Put the folder of the firmware in use, or on trial, before everything else that is imported."""
    slot = on_trial()
    if slot:
        machine.WDT(timeout=WATCHDOG_MS)  # before the first line of a firmware that nobody has seen running
    else:
        slot = read(SLOT)[:1]
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
