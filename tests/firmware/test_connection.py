"""The board's TCP connection: partial writes keep the stream intact, and no wait is without end."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path

from tests.firmware.board_script import run_script

FLOOD = """
import asyncio, json, struct
from common.connection import Connection, ConnectionLost

async def run():
    connection = Connection(True, None)
    await connection.open("127.0.0.1", PORT, 5000)
    pieces = refused = 0
    try:
        for number in range(COUNT):
            packet = struct.pack("<I", number) * 250
            while not connection.send(packet):
                refused += 1
                await asyncio.sleep_ms(2)
                connection.flush()
            pieces += connection.pending % 1000 != 0
        while connection.pending:
            await asyncio.sleep_ms(2)
            connection.flush()
        connection.close()
        lost = ""
    except ConnectionLost as error:
        lost = str(error)
    print(json.dumps([pieces, refused, lost]))

asyncio.run(run())
"""


def listen() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    server.settimeout(20.0)
    return server


def test_a_stream_sent_in_pieces_arrives_whole_and_in_order(tmp_path: Path) -> None:
    count = 6000
    received = bytearray()
    with listen() as server:

        def read() -> None:
            connection, _ = server.accept()
            with connection:
                time.sleep(0.5)  # until the board's kernel takes no more
                while data := connection.recv(30_001):
                    received.extend(data)

        reader = threading.Thread(target=read)
        reader.start()
        source = FLOOD.replace("PORT", str(server.getsockname()[1])).replace("COUNT", str(count))
        pieces, refused, lost = json.loads(run_script(tmp_path, source))
        reader.join()
    assert lost == ""
    assert pieces > 0  # otherwise nothing was tested
    assert refused > 0
    assert bytes(received) == b"".join(number.to_bytes(4, "little") * 250 for number in range(count))


def test_a_stall_ends_the_connection_instead_of_waiting_for_ever(tmp_path: Path) -> None:
    with listen() as server:
        source = FLOOD.replace("PORT", str(server.getsockname()[1])).replace("COUNT", "20000")
        start_s = time.monotonic()
        _, refused, lost = json.loads(run_script(tmp_path, source))  # nobody reads
    assert lost == "write: stalled"
    assert refused > 0
    assert time.monotonic() - start_s < 25.0


def test_a_refused_connection_is_said(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    source = """
import asyncio
from common.connection import Connection, ConnectionLost

async def run():
    try:
        await Connection(True, None).open("127.0.0.1", %d, 1000)
    except ConnectionLost as error:
        print(error)

asyncio.run(run())
"""
    assert "refused" in run_script(tmp_path, source % port).lower()
