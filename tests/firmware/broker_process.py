"""A broker of our own on a given loopback port, as a process that tests may stop, kill and start again.

`python broker_process.py PORT` prints "ready" when it listens.
"""

from __future__ import annotations

import asyncio
import logging
import sys

from amqtt.broker import Broker


async def main(port: int) -> None:
    logging.disable(logging.CRITICAL)
    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
    )
    await broker.start()
    print("ready", flush=True)
    await asyncio.Event().wait()


asyncio.run(main(int(sys.argv[1])))
