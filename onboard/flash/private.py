"""Files with secrets: only their owner may read them."""

from __future__ import annotations

import stat
from pathlib import Path

from onboard.errors import ConfigError


def check_private(path: Path) -> None:
    """ConfigError unless `path` is a file that only its owner can read."""
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError as error:
        raise ConfigError(str(path), "", f"cannot be read: {error.strerror}") from error
    if mode & 0o077:
        raise ConfigError(str(path), "", f"has mode {mode:04o}: others can read it; run chmod 600 {path}")
