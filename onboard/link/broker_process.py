"""The embedded broker's own process: `python -m onboard.link.broker_process`, configuration on standard input.

It says "ready" or the reason why not on its first line of output, and ends when standard input closes: a daemon that is
killed takes its broker along.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import warnings
from typing import Any

import msgspec

END_S = 3.0
_ACCESS = "onboard.link.broker_access"


class BrokerSettings(msgspec.Struct, frozen=True):
    """What the process is told. passwords empty: anyone who can reach the address may do anything."""

    host: str
    port: int
    prefix: str
    passwords: dict[str, str] = {}


def plugins(settings: BrokerSettings) -> dict[str, Any]:
    """amqtt's plugins for these settings."""
    if not settings.passwords:
        return {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
    return {
        f"{_ACCESS}.BoardPasswords": {"passwords": settings.passwords},
        f"{_ACCESS}.BoardTopics": {"prefix": settings.prefix},
    }


async def serve(settings: BrokerSettings) -> int:
    """Run the broker until standard input closes or a signal comes."""
    from amqtt.errors import BrokerError

    from onboard.link.robot_broker import RobotBroker

    config = {
        "listeners": {"default": {"type": "tcp", "bind": f"{settings.host}:{settings.port}", "max_connections": 256}},
        "timeout_disconnect_delay": 1,
        "plugins": plugins(settings),
    }
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, done.set)
    broker = RobotBroker(config)
    try:
        await broker.start()
    except BrokerError as error:
        print(str(error.__cause__ or error).replace("\n", " "), flush=True)
        return 1
    print("ready", flush=True)
    loop.add_reader(sys.stdin.fileno(), done.set)
    await done.wait()
    loop.remove_reader(sys.stdin.fileno())
    try:
        await asyncio.wait_for(broker.shutdown(), END_S)
    except TimeoutError:
        os._exit(0)  # a client that does not let go must not keep the port
    return 0


def main() -> int:
    """Entry point."""
    logging.basicConfig(level=logging.ERROR, format="broker: %(message)s")
    logging.getLogger("amqtt").setLevel(logging.CRITICAL)
    logging.getLogger("transitions").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    settings = msgspec.json.decode(sys.stdin.readline(), type=BrokerSettings)
    return asyncio.run(serve(settings))


if __name__ == "__main__":
    sys.exit(main())
