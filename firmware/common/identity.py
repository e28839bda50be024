"""Who this board is: provisioned settings from a file, the chip's unique id, a random boot id, the reset cause."""

import json
import os

import machine

VERSION = "0.1.0"  # of the firmware; the wire format has its own
SETTINGS = "/identity.json"
CRASH = "/crash.txt"


class Identity:
    """Read once at boot. `settings` is the provisioned file; missing keys raise KeyError where they are used."""

    def __init__(self) -> None:
        with open(SETTINGS) as file:
            self.settings: dict[str, object] = json.load(file)
        self.name = text(self.settings, "name")
        self.prefix = text(self.settings, "prefix")
        self.app = text(self.settings, "app")
        self.board = text(self.settings, "board")
        self.unique_id = "".join("%02x" % byte for byte in machine.unique_id())
        self.boot_id = int.from_bytes(os.urandom(4), "little")
        self.reset_cause = reset_cause()
        self.crash = take_crash()

    def topic(self, leaf: str) -> str:
        """The full MQTT topic of `leaf`."""
        return "%s/v1/%s/%s" % (self.prefix, self.name, leaf)

    def birth(self) -> dict[str, object]:
        """The part of the birth message that every board has."""
        version = os.uname().release if hasattr(os, "uname") else "unix"
        return {
            "v": 1,
            "online": True,
            "boot_id": self.boot_id,
            "name": self.name,
            "board_id": self.unique_id,
            "app": self.app,
            "board": self.board,
            "firmware": VERSION,
            "interpreter": version,
            "reset_cause": self.reset_cause,
            "crash": self.crash,
        }


def text(table: dict[str, object], key: str) -> str:
    """A string from a settings table; ValueError names the key."""
    value = table.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError("%s: %s must be a text" % (SETTINGS, key))
    return value


def section(table: dict[str, object], key: str) -> dict[str, object]:
    """A table inside a settings table, empty when absent."""
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise ValueError("%s: %s must be an object" % (SETTINGS, key))
    return value


def reset_cause() -> str:
    """Why the board started, in words."""
    cause = machine.reset_cause()
    for name, word in (
        ("PWRON_RESET", "power_on"),
        ("WDT_RESET", "watchdog"),
        ("HARD_RESET", "hard"),
        ("DEEPSLEEP_RESET", "deep_sleep"),
        ("SOFT_RESET", "soft"),
    ):
        if cause == getattr(machine, name, None):  # not every port has every cause
            return word
    return "unknown"


def take_crash() -> str:
    """The last line of the error that ended the previous run, once; empty when it ended otherwise."""
    try:
        with open(CRASH) as file:
            line: str = file.read(200)
        os.remove(CRASH)
        return line
    except OSError:
        return ""
