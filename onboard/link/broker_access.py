"""Who may do what at the embedded broker when it listens on a network: a plugin for amqtt, one password per board.

A board signs in under its own name. It may publish and subscribe below its own topics only, and may not write what the
host writes (commands, configuration, clock requests, updates): one stolen board cannot speak for another or for the host.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Any

from amqtt.contexts import Action
from amqtt.plugins.base import BaseAuthPlugin, BaseTopicPlugin

from onboard.link.passwords import HOST
from onboard.link.topics import LEVEL

HOST_WRITES = (
    "cmd",
    "arm",
    "disarm",
    "stop",
    "motor/cfg",
    "cfg",
    "armed",
    "hello",
    "sync/req",
    "ota/offer",
    "ota/chunk",
    "ota/permit",
)


def may(user: str | None, prefix: str, topic: str, *, publish: bool) -> bool:
    """Whether `user` may publish to `topic`, or subscribe to and receive from it."""
    root = f"{prefix}/{LEVEL}/"
    if user == HOST:
        return topic.startswith(root)
    own = f"{root}{user}/"
    if not user or not topic.startswith(own):
        return False
    return not publish or topic[len(own) :] not in HOST_WRITES


class BoardPasswords(BaseAuthPlugin):  # type: ignore[misc]
    """Admits only names and passwords of the file."""

    async def authenticate(self, *, session: Any) -> bool:
        """True for a known name with its password; comparison in constant time."""
        expected = self.config.passwords.get(session.username or "")
        given = session.password or ""
        given = given.decode("utf-8", "replace") if isinstance(given, bytes) else given
        return expected is not None and hmac.compare_digest(expected.encode(), given.encode("utf-8", "replace"))

    @dataclass
    class Config:
        """passwords: name to password."""

        passwords: dict[str, str] = field(default_factory=dict)


class BoardTopics(BaseTopicPlugin):  # type: ignore[misc]
    """Keeps every user on its own topics."""

    async def topic_filtering(self, *, session: Any = None, topic: str | None = None, action: Any = None) -> bool:
        """True when the session's user may do `action` on `topic`."""
        user = None if session is None else session.username
        return may(user, self.config.prefix, topic or "", publish=action == Action.PUBLISH)

    @dataclass
    class Config:
        """prefix: of the robot's topics."""

        prefix: str = ""
