"""What a board does not know yet cannot harm: right after it has joined, it has not heard whether its robot is armed."""

from __future__ import annotations

import time
from collections.abc import Callable

from onboard.update.manifest import permit_digest
from sim.boards.launcher import VirtualBoard
from tests.flash.air import Keys, Talk, firmware, offer_of, says, start_anew

Air = Callable[..., VirtualBoard]


def test_a_board_that_has_just_joined_starts_nothing_before_it_has_heard_whether_its_robot_is_armed(
    air: Air, air_port: int, keys: Keys
) -> None:
    board = air("strut00", keys.public)
    board.start()
    says(board, "link: online")
    with Talk(air_port, "strut00") as talk:
        talk.send("ota/offer", b"")
        offer = offer_of(keys, firmware(), talk.until("idle").mpy)
        assert talk.stage(offer).state == "staged"  # the whole update is on its flash
        start_anew(board)
        talk.reports.clear()
        talk.send("ota/offer", offer.offer)
        end_s = time.monotonic() + 1.0  # within which a daemon that has armed the robot says it again
        while time.monotonic() < end_s:
            for report in list(talk.reports):
                if report.state == "staged" and report.nonce:
                    permit = permit_digest("strut00", report.boot_id, bytes.fromhex(report.nonce), offer.digest)
                    talk.reports.clear()
                    talk.send("ota/permit", keys.signer.sign(permit))
            time.sleep(0.01)
        talk.send("armed", b"1")
        assert talk.until("refused").error == "the robot is armed"
    assert not (board.jail / "trial").exists() and (board.jail / "slot").read_text() == "a"
