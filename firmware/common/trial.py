"""The two folders of firmware and the trial of a new one: begun before a restart, kept once the broker is reached, else ended."""

import os

SLOT = "/slot"
TRIAL = "/trial"  # main.py counts the tries in it
ROLLED_BACK = "/rolled_back"
TRIES = 3


def read(path: str) -> str:
    """The start of a small file, empty without one."""
    try:
        with open(path) as file:
            return str(file.read(200))
    except (OSError, ValueError):
        return ""


def write(path: str, text: str) -> None:
    """Replace a small file: its name has the old or the new content at any moment."""
    with open(path + ".new", "w") as file:
        file.write(text)
    if hasattr(os, "sync"):
        os.sync()
    os.rename(path + ".new", path)


def remove(path: str) -> None:
    """Remove a file that may not be there."""
    try:
        os.remove(path)
    except OSError:
        pass


def in_use() -> str:
    """The folder of the confirmed firmware, a or b; empty when it lies beside main.py."""
    slot = read(SLOT)[:1]
    return slot if slot in ("a", "b") else ""


def other() -> str:
    """The folder that an update may fill."""
    return "b" if in_use() == "a" else "a"


def loader() -> int:
    """What main.py on this board can do; 0 for one that knows no trials."""
    try:
        with open("/main.py") as file:
            for line in file:
                if line.startswith("LOADER = "):
                    return int(line[9:].split("#")[0])
    except (OSError, ValueError):
        pass
    return 0


class Trial:
    """The trial that this boot belongs to, if any: `limit_s` to reach the broker, `version` of the firmware on trial."""

    def __init__(self) -> None:
        words = read(TRIAL).split()
        self.running = len(words) == 4 and words[0] in ("a", "b")
        self.slot = words[0] if self.running else ""
        self.limit_s = int(words[2]) if self.running else 0
        self.version = words[3] if self.running else ""

    def keep(self) -> None:
        """The firmware on trial is the one in use from now on."""
        write(SLOT, self.slot)  # first: an end between the two lines boots the same firmware either way
        remove(TRIAL)
        remove(ROLLED_BACK)
        self.running = False

    def give_up(self, reason: str) -> None:
        """The next boot is of the firmware before."""
        write(ROLLED_BACK, reason[:200])
        remove(TRIAL)


def begin(slot: str, limit_s: int, version: str) -> None:
    """The next boots try the firmware in `slot`."""
    remove(ROLLED_BACK)
    write(TRIAL, "%s %d %d %s" % (slot, TRIES, limit_s, version))
