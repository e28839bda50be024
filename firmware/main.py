"""Starts the application that the board was provisioned for; an error is kept for the next birth and resets."""

import asyncio
import sys
import time  # noqa: TID251 (the board's own clock)

import machine
from boards.board import Board
from common.identity import CRASH, Identity

RESTART_DELAY_MS = 1000  # so that a board that always fails can still be reached by a flasher


def keep_crash(error: BaseException) -> None:
    """Write the error's name and text where the next boot finds it."""
    try:
        with open(CRASH, "w") as file:
            file.write("%s: %s" % (type(error).__name__, error))
    except OSError:
        pass  # a full flash must not keep the board from restarting


def open_board(name: str) -> Board:
    """The board by its name in the identity file; only its own driver is loaded."""
    if name == "nano_rp2040":
        from boards.nano_rp2040 import NanoRp2040

        return NanoRp2040()
    if name == "m5stickc_plus":
        from boards.m5stickc_plus import M5StickCPlus

        return M5StickCPlus()
    raise ValueError("unknown board %s" % name)


def start() -> None:
    """Run the application for ever."""
    identity = Identity()
    board = open_board(identity.board)
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
        sys.print_exception(error, sys.stderr)  # type: ignore[arg-type]  # the stubs know no text stream
        keep_crash(error)
        time.sleep_ms(RESTART_DELAY_MS)
        machine.reset()
