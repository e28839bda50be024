"""Passwords of boards and host for a broker on the network: one line each, in a file that only its owner can read."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path

from onboard.errors import ConfigError

HOST = "host"  # the daemon's own user name
MIN_LENGTH = 12


def create_passwords(path: Path, boards: Sequence[str]) -> dict[str, str]:
    """Add a random password for the host and every board that has none yet; the file is made with mode 0600."""
    known = read_passwords(path) if path.exists() else {}
    for name in (HOST, *boards):
        known.setdefault(name, secrets.token_urlsafe(18))
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.writelines(f"{name}:{password}\n" for name, password in sorted(known.items()))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    return known


def read_passwords(path: Path) -> dict[str, str]:
    """Name to password; ConfigError for a file that others can read, or a line that is none (its content is not shown)."""
    try:
        mode = path.stat().st_mode
        if stat.S_IMODE(mode) & 0o077:
            raise ConfigError(str(path), "", f"has mode {stat.S_IMODE(mode):04o}: others can read it; run chmod 600 {path}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(str(path), "", f"cannot be read: {error}") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name or name in found:
            raise ConfigError(str(path), f"line {number}", "must be a new name, a colon and a password")
        if len(password) < MIN_LENGTH:
            raise ConfigError(str(path), f"line {number}", f"the password has fewer than {MIN_LENGTH} characters")
        found[name] = password
    return found


def check_complete(path: Path, known: dict[str, str], boards: Sequence[str]) -> None:
    """ConfigError when the host or a board has no password, or two share one."""
    missing = [name for name in (HOST, *boards) if name not in known]
    if missing:
        raise ConfigError(str(path), "", f"has no password for {', '.join(missing)}: every board needs its own")
    if len(set(known.values())) != len(known):
        raise ConfigError(str(path), "", "gives two names one password: every board needs its own")
