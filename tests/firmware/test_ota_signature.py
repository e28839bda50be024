"""Ed25519 on the board, against openssl's signatures and RFC 8032's rules; SHA-512 against its published value."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np

from onboard.update.keys import Signer, make_keys, read_public
from tests.firmware.board_script import run_script

ORDER = 2**252 + 27742317777372353535851937790883648493
PRIME = 2**255 - 19

SCRIPT = """
import asyncio, json, binascii
from common import ed25519
cases = json.loads(CASES)
async def main():
    for case in cases["verify"]:
        print(int(await ed25519.verify(*[binascii.unhexlify(part) for part in case])))
    for message in cases["sha512"]:
        print(binascii.hexlify(await ed25519.sha512(binascii.unhexlify(message))).decode())
asyncio.run(main())
"""


def on_board(directory: Path, verify: list[tuple[bytes, bytes, bytes]], sha512: list[bytes]) -> tuple[list[bool], list[str]]:
    """Verdicts on (public, message, signature), and hashes, as the board computes them."""
    cases = {"verify": [[part.hex() for part in case] for case in verify], "sha512": [m.hex() for m in sha512]}
    script = SCRIPT.replace("CASES", repr(json.dumps(cases)))
    lines = run_script(directory, script).split()
    return [line == "1" for line in lines[: len(verify)]], lines[len(verify) :]


def test_signatures_of_openssl_hold_and_nothing_near_them_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(8032)
    make_keys(tmp_path / "a.key")
    make_keys(tmp_path / "b.key")
    signer, public, other = Signer(tmp_path / "a.key"), read_public(tmp_path / "a.pub"), read_public(tmp_path / "b.pub")
    good = [(public, message, signer.sign(message)) for message in (rng.bytes(32) for _ in range(8))]
    bad: list[tuple[bytes, bytes, bytes]] = []
    for number, (_, message, signature) in enumerate(good):
        for part in range(3):
            spoilt = [bytearray(public), bytearray(message), bytearray(signature)]
            spoilt[part][int(rng.integers(len(spoilt[part])))] ^= 1 << int(rng.integers(8))
            bad.append((bytes(spoilt[0]), bytes(spoilt[1]), bytes(spoilt[2])))
        bad.append((other, message, signature))
        bad.append((public, good[number - 1][1], signature))
    _, message, signature = good[0]
    s = int.from_bytes(signature[32:], "little")
    bad += [
        (public, message, signature[:32] + (s + ORDER).to_bytes(32, "little")),  # section 5.1.7: S < L
        (public, message, signature[:32] + bytes(32)),
        (public, message, bytes(64)),
        (public, message, signature[:63]),
        (public, message + b"\0", signature),
        (PRIME.to_bytes(32, "little"), message, signature),  # section 5.1.3: y < p
        ((2).to_bytes(32, "little"), message, signature),  # no point has this y
        ((1 | 1 << 255).to_bytes(32, "little"), message, signature),  # x = 0 has no sign
        (b"", message, signature),
    ]
    verdicts, _ = on_board(tmp_path, good + bad, [])
    assert verdicts == [True] * len(good) + [False] * len(bad)


def test_sha512_of_one_block(tmp_path: Path) -> None:
    rng = np.random.default_rng(180)
    messages = [b"abc", b"", rng.bytes(96), rng.bytes(111)]
    _, hashes = on_board(tmp_path, [], messages)
    assert hashes[0].startswith("ddaf35a193617abacc417349ae204131")  # FIPS 180-4's example
    assert hashes == [hashlib.sha512(message).hexdigest() for message in messages]
