"""JSON in a file on the board's flash that survives power loss at any moment: written beside, then renamed."""

import json
import os


def load(path: str) -> object:
    """The stored object; None when there is no file; ValueError when it cannot be read as JSON."""
    try:
        with open(path) as file:
            return json.load(file)
    except OSError:
        return None


def save(path: str, value: object) -> None:
    """Replace the stored object; unchanged content is not written again, to spare the flash."""
    try:
        if load(path) == value:
            return
    except ValueError:
        pass  # unreadable: written anew below
    beside = path + ".new"
    with open(beside, "w") as file:
        json.dump(value, file)
    if hasattr(os, "sync"):
        os.sync()
    os.rename(beside, path)
