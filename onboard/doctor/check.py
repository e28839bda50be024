"""One line of `prestress doctor`: what was looked at, whether it is good, and what was seen or is to be done."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from onboard.errors import PrestressError


class Check(msgspec.Struct, frozen=True):
    """A finding. needed: a robot cannot run, or not safely, unless this is good."""

    name: str
    ok: bool
    message: str
    needed: bool = True


def good(name: str, message: str) -> Check:
    """Nothing to do."""
    return Check(name, True, message)


def bad(name: str, message: str) -> Check:
    """Must be mended before a robot runs."""
    return Check(name, False, message)


def advice(name: str, message: str) -> Check:
    """A robot runs, but less well."""
    return Check(name, False, message, needed=False)


def tried(name: str, look: Callable[[], Check]) -> Check:
    """What `look` finds; an error of this product becomes a finding that says the same."""
    try:
        return look()
    except PrestressError as error:
        return bad(name, str(error))
    except OSError as error:
        return bad(name, f"{error.filename or name}: {error.strerror or error}")
