"""Starts the application that the board was provisioned for."""

import asyncio

from boards.board import Board
from common.identity import VERSION, Identity


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
    elif identity.app == "motor":
        from motor.app import main
    else:
        raise ValueError("unknown application %s" % identity.app)
    if identity.app != "valve":  # its USB line is for people and the flasher; a valve board speaks frames there
        print("prestress: %s runs %s %s" % (identity.name, identity.app, VERSION))
    try:
        asyncio.run(main(identity, board))
    finally:  # a crash, or somebody's interrupt on the console
        board.at_end()
