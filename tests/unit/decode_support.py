"""A decoder that knows one board and its clock, and packets for it: for tests of what the link makes of packets."""

from __future__ import annotations

from onboard.link.decode import Decoder
from onboard.messages import ImuBatch
from tests.link_support import Board, birth, robot

LATENCY_S = 0.003


def synchronise(decoder: Decoder, board: Board, at_s: float, strut: int = 0) -> None:
    for k in range(8):
        t = at_s + 0.1 * k
        decoder.packet(strut, "sync/rsp", board.sync(t, t + 0.001, t + 0.0015), t + 0.0025)


def started(boot_id: int = 7, at_s: float = 10.0, **board: float) -> tuple[Decoder, Board]:
    """A decoder that knows strut 0's board and its clock; the next packets should come from `at_s` + 1 on."""
    decoder, source = Decoder(robot()), Board(boot_id, **board)  # type: ignore[arg-type]
    decoder.packet(0, "state", birth(boot_id=boot_id), at_s)
    synchronise(decoder, source, at_s)
    return decoder, source


def feed(decoder: Decoder, board: Board, t_s: float, latency_s: float = LATENCY_S) -> ImuBatch | None:
    """Two samples, the newest acquired at `t_s`, through the decoder."""
    return decoder.packet(0, "imu", board.imu(t_s - 0.0096), t_s + latency_s)
