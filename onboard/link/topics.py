"""Topics on the broker: `<prefix>/v1/<board>/<kind>`, built and taken apart in one place, with MQTT's rules on text."""

from __future__ import annotations

from collections.abc import Sequence

from onboard.errors import WireError

LEVEL = "v1"
INCOMING = ("imu", "state", "health", "cfg/ack", "sync/rsp")  # what the daemon subscribes to, for every board
MOTOR_INCOMING = (*INCOMING, "tlm", "motor/ack")
MAX_TOPIC_BYTES = 65_535  # MQTT 3.1.1, section 4.7.3


def check_topic(topic: str) -> str:
    """`topic` itself when it may be published to (MQTT 3.1.1, 4.7); WireError says why not."""
    try:
        size = len(topic.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise WireError(f"topic {topic!a}: not valid Unicode (lone surrogate at {error.start})") from error
    if not topic:
        raise WireError("topic: empty")
    if size > MAX_TOPIC_BYTES:
        raise WireError(f"topic: {size} bytes, at most {MAX_TOPIC_BYTES}")
    for bad, name in (("\0", "NUL"), ("+", "the wildcard +"), ("#", "the wildcard #")):
        if bad in topic:
            raise WireError(f"topic {topic[:80]!a}: contains {name}")
    return topic


class Topics:
    """All topics below one prefix; `incoming` are the kinds of messages that its boards send."""

    def __init__(self, prefix: str, incoming: Sequence[str] = INCOMING) -> None:
        self._incoming = incoming
        self._root = check_topic(f"{prefix}/{LEVEL}") + "/"

    def of(self, board: str, kind: str) -> str:
        """The topic of one kind of message of one board; raises WireError for text that MQTT does not allow."""
        if not board or "/" in board:
            raise WireError(f"board {board!a}: must be one level of a topic")
        return check_topic(f"{self._root}{board}/{kind}")

    def filters(self) -> list[str]:
        """Subscription filters for everything that boards send."""
        return [f"{self._root}+/{kind}" for kind in self._incoming]

    def parse(self, topic: str) -> tuple[str, str] | None:
        """(board, kind) of an incoming topic, or None when it is not one of ours."""
        if not topic.startswith(self._root):
            return None
        board, _, kind = topic[len(self._root) :].partition("/")
        return (board, kind) if board and kind in self._incoming else None
