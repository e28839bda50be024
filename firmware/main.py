"""Starts the application that the board was provisioned for; an error is kept for the next birth and resets."""

import asyncio
import sys
import time

import machine

from common.identity import CRASH, Identity

RESTART_DELAY_MS = 1000  # so that a board that always fails can still be reached by a flasher


def keep_crash(error: BaseException) -> None:
    """Write the error's name and text where the next boot finds it."""
    try:
        with open(CRASH, "w") as file:
            file.write("%s: %s" % (type(error).__name__, error))
    except OSError:
        pass  # a full flash must not keep the board from restarting


def start() -> None:
    """Run the application for ever."""
    identity = Identity()
    if identity.board == "nano_rp2040":
        from boards import nano_rp2040 as board
    elif identity.board == "m5stickc_plus":
        from boards import m5stickc_plus as board
    else:
        raise ValueError("unknown board %s" % identity.board)
    if identity.app == "strut":
        from strut.app import main
    elif identity.app == "valve":
        from valve.app import main
    else:
        raise ValueError("unknown application %s" % identity.app)
    asyncio.run(main(identity, board))


if __name__ == "__main__":
    try:
        start()
    except Exception as error:
        sys.print_exception(error, sys.stderr)
        keep_crash(error)
        time.sleep_ms(RESTART_DELAY_MS)
        machine.reset()
