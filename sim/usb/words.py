"""Which strut is which port: `--board STRUT=PORT` words, checked against the robot's file before anything starts."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from onboard.errors import UsageError
from onboard.link.broker import EmbeddedBroker
from onboard.link.endpoint import Endpoint
from onboard.robot import RobotSpec

EXAMPLE = "write STRUT=PORT, such as strut07=/dev/ttyACM0"


def add_board_option(parser: argparse.ArgumentParser) -> None:
    """Declare --board."""
    parser.add_argument(
        "--board",
        action="append",
        default=[],
        metavar="STRUT=PORT",
        help="simulation only: a flashed board on USB that is fed by the plant; may be repeated",
    )


def board_ports(spec: RobotSpec, words: Sequence[str]) -> dict[str, str]:
    """Strut -> port; UsageError for a stranger, and for a strut or port that is named twice."""
    ports: dict[str, str] = {}
    for word in words:
        strut, sign, port = word.partition("=")
        if not sign or not strut or not port:
            raise UsageError(f"--board {word}: {EXAMPLE}")
        if spec.actuators and strut in [board.id for board in spec.actuators.boards]:
            raise UsageError(f"--board {word}: {strut} is an actuator board; only struts can be fed by a simulation")
        if strut not in spec.struts:
            known = f"{spec.struts[0]} .. {spec.struts[-1]}" if spec.struts else "none"
            raise UsageError(f"--board {word}: {spec.file} has no strut {strut!a}; it has {known}")
        if strut in ports:
            raise UsageError(f"--board {word}: {strut} is given twice")
        if port in ports.values():
            raise UsageError(f"--board {word}: {port} is given twice")
        ports[strut] = port
    return ports


def require_broker(ports: Mapping[str, str], url: str | None, how: str = "--broker URL") -> None:
    """UsageError for real boards without a broker that they can reach."""
    if ports and not url:
        raise UsageError(f"--board needs the broker that the board was flashed for: {how}")


@contextmanager
def broker_for(
    spec: RobotSpec, url: str | None, lan: bool, passwords: Path | None, ports: Mapping[str, str]
) -> Iterator[str | None]:
    """The URL of the broker that a simulated robot is to use; None for an embedded one of its own.

    A real board reaches no broker on this computer's loopback: with boards there must be a URL or --lan.
    """
    if not lan:
        require_broker(ports, url, "--broker URL, or --lan --passwords FILE to run it here")
        yield url
        return
    if url:
        raise UsageError("--lan runs a broker here, --broker names another: give one of them")
    with EmbeddedBroker(spec.link.prefix, lan=True, passwords=passwords, boards=spec.struts) as broker:
        yield _url(broker.endpoint)


def _url(endpoint: Endpoint) -> str:
    from urllib.parse import quote

    secret = f"{quote(endpoint.username)}:{quote(endpoint.password or '', safe='')}@" if endpoint.username else ""
    return f"mqtt://{secret}{endpoint.host}:{endpoint.port}"
