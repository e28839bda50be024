"""The board's MQTT parser: packets come out whole wherever the stream was cut, and what is too long is let pass."""

from __future__ import annotations

from pathlib import Path

from tests.firmware.board_script import run_script

PROGRAM = """
from common import mqtt_packets as mqtt

def publication(size, packet_id):
    return mqtt.publish(b"robot/v1/strut00/cfg", bytes([size % 251]) * size, False, packet_id)

sizes = (0, 1, 126, 127, 128, 129, 4000, 8160, 8192, 20000, 65000)
stream = b"".join(publication(size, size + 1) + mqtt.PINGREQ_PACKET for size in sizes[:-3])
for step in (1, 7, 512, 100000):
    parser, found = mqtt.Parser(), []
    for at in range(0, len(stream), step):
        found += parser.feed(stream[at : at + step])
    assert len(found) == 2 * (len(sizes) - 3)
    for size, packet in zip(sizes, found[::2]):
        one = mqtt.Publication(packet)
        assert not packet.cut and one.packet_id == size + 1
        assert one.payload == bytes([size % 251]) * size

parser = mqtt.Parser()
for size in sizes[-3:]:
    got = parser.feed(publication(size, 77) + mqtt.PINGREQ_PACKET)
    assert [packet.cut for packet in got] == [True, False], got
    one = mqtt.Publication(got[0])
    assert one.topic == b"robot/v1/strut00/cfg" and one.packet_id == 77

for bad in (b"\\x20\\xff\\xff\\x7f", b"\\x30\\xff\\xff\\xff\\xff\\x01"):
    try:
        mqtt.Parser().feed(bad)
        raise AssertionError("taken")
    except mqtt.ProtocolError:
        pass
print("good")
"""


def test_packets_survive_any_cut_and_too_long_ones_are_let_pass(tmp_path: Path) -> None:
    assert run_script(tmp_path, PROGRAM).strip().endswith("good")
