"""Statements about a motor board, real firmware before simulated drives: it winds what it is told, and stops by itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path

import numpy as np
import pytest

from onboard.link.motor_spec import FULL_SCALE
from onboard.link.wire import encode_command
from onboard.link.wire_types import BoardFault, LatchCause, Refusal, TelemetryFrame
from sim.boards.jail import BoardConfig
from sim.boards.registers import MotorRegisterFile
from tests.firmware.board_script import run_script
from tests.firmware.conftest import Broker
from tests.firmware.motor_support import Rig, rig

long = pytest.mark.long


def on_a_rod(broker: Broker, folder: Path, story: Callable[[Rig], Coroutine[None, None, None]]) -> None:
    """Tell `story` of one rod's board."""

    async def told() -> None:
        async with rig(broker, folder) as made:
            await story(made)

    asyncio.run(told())


def frame(made: Rig) -> TelemetryFrame:
    """The first board's newest telemetry."""
    state = made.sink._streams[0]._state
    assert state is not None
    return state


def test_it_winds_as_the_motor_law_says_and_streams_its_imu(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.ready()
        assert made.still()
        assert not made.report.armed
        await made.armed(1, np.array([0.5, -0.25]))
        await asyncio.sleep(0.4)  # lags and the speed loop's start
        begin, begin_s = made.feed.rest_u.copy(), made.clock.now_s()
        await asyncio.sleep(1.0)
        rate = (made.feed.rest_u - begin) / (made.clock.now_s() - begin_s)
        assert rate == pytest.approx([-0.5 * 0.645, 0.25 * 0.645], rel=0.05)
        speed = made.sink.speed_rad_s()
        assert speed == pytest.approx(made.feed.speed_rad_s, abs=0.25 * 18.43)
        # What the host knows is a telemetry period, an encoder count and its latency old.
        assert np.all(np.abs(made.sink.rest_u() - made.feed.rest_u) < 0.06)
        assert len(made.batches) > 30
        made.sink.disarm()
        await made.until(lambda: not made.report.armed, "disarmed")
        await made.until(made.still, "the drives rest")
        await asyncio.sleep(0.1)
        held = made.sink.rest_u()
        assert np.all(np.abs(held - made.feed.rest_u) <= made.robot.rest_u_per_count * 1.01)

    on_a_rod(broker, tmp_path, story)


def test_silence_stops_the_motors_and_latches(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.5, 0.5]))
        made.wanted = None
        await made.until(lambda: made.report.latched, "latched")
        assert frame(made).cause in (LatchCause.SILENCE, LatchCause.EXPIRED)
        await made.until(made.still, "the drives rest")
        made.wanted = np.array([0.5, 0.5])  # commands alone lead nowhere
        await asyncio.sleep(0.3)
        assert made.report.latched
        assert made.still()
        await made.armed(2, np.array([-0.2, -0.2]))  # a disarm and a larger epoch do

    on_a_rod(broker, tmp_path, story)


@long
def test_a_jammed_spool_stops_the_board(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.6, 0.0]))
        await asyncio.sleep(0.3)
        made.feed.lock(0, True)
        await made.until(lambda: made.report.latched, "latched")
        assert frame(made).cause is LatchCause.STALL
        assert made.report.fault & BoardFault.STALL
        assert made.sink.current_a().max() < 3.0
        await made.until(made.still, "the drives rest")
        made.feed.lock(0, False)
        await made.armed(2, np.array([0.6, 0.0]))
        await asyncio.sleep(0.3)
        assert made.report.fault & BoardFault.STALL == 0

    on_a_rod(broker, tmp_path, story)


@long
def test_a_shorted_winding_stops_the_board(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.3, 0.3]))
        made.feed.short(1, True)
        await made.until(lambda: made.report.latched, "latched")
        assert frame(made).cause is LatchCause.OVERCURRENT
        assert made.report.fault & BoardFault.OVERCURRENT
        await made.until(made.still, "the drives rest")

    on_a_rod(broker, tmp_path, story)


@long
def test_the_hard_wired_stop_needs_no_message(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.3, 0.3]))
        made.feed.press_stop(0, True)
        await made.until(lambda: made.report.latched and made.report.stop_input, "latched")
        await made.until(made.still, "the drives rest")

    on_a_rod(broker, tmp_path, story)


@long
def test_a_rebooted_board_is_disarmed_and_its_cables_are_where_they_were(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.5, -0.5]))
        await asyncio.sleep(0.5)
        made.fleet["rod0"].restart()
        await made.until(made.still, "the drives rest", 1.0)
        await made.until(lambda: not made.sink.ready, "the new boot is noticed")
        await made.ready()
        await asyncio.sleep(0.2)  # commands of the old epoch go on and on
        assert not made.report.armed
        assert made.still()
        assert np.all(np.abs(made.sink.rest_u() - made.feed.rest_u) < 0.05)
        await made.armed(2, np.array([-0.5, 0.5]))

    on_a_rod(broker, tmp_path, story)


@long
def test_a_hung_board_is_reset_starts_latched_and_stands_still(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.1, -0.1]))
        made.fleet["rod0"].freeze()
        await made.until(lambda: made.fleet["rod0"].resets == 1, "the watchdog's reset")
        await made.until(made.still, "the drives rest")
        await made.ready()
        assert made.report.latched
        assert frame(made).cause is LatchCause.WATCHDOG

    on_a_rod(broker, tmp_path, story)


@long
def test_a_silent_broker_stops_the_motors(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.4, 0.4]))
        broker.kill()
        await made.until(made.still, "the drives rest", 3.0)
        broker.start()
        await made.until(lambda: made.report.latched, "the latch is told")
        await made.ready()
        assert made.still()

    on_a_rod(broker, tmp_path, story)


@long
def test_the_cable_ends_where_the_file_says_whatever_is_commanded(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([1.0, -1.0]))
        await asyncio.sleep(3.0)
        overrun = 0.645 * 0.05  # a tick and the lag at full speed
        assert made.sink.rest_u() == pytest.approx([0.4, 2.7], abs=overrun)
        assert made.still()
        assert made.report.armed

    on_a_rod(broker, tmp_path, story)


@long
def test_commands_of_another_time_boot_or_epoch_are_refused(broker: Broker, tmp_path: Path) -> None:
    async def story(made: Rig) -> None:
        await made.armed(1, np.array([0.1, 0.1]))
        stream = made.sink._streams[0]
        boot_id = made.report.boot_id
        loud, topic = [FULL_SCALE, FULL_SCALE], f"{made.robot.link.prefix}/v1/rod0/cmd"

        def ticks(shift_s: float = 0.0) -> int:
            return stream.time.sync.to_ticks(made.clock.now_s() + shift_s)

        cases = {
            Refusal.BOOT_ID: lambda number: encode_command(boot_id ^ 1, 1, number, ticks(), 300, loud),
            Refusal.EPOCH: lambda number: encode_command(boot_id, 2, number, ticks(), 300, loud),
            Refusal.SEQUENCE: lambda _: encode_command(boot_id, 1, 1, ticks(), 300, loud),
            Refusal.AGE: lambda number: encode_command(boot_id, 1, number, ticks(-1.0), 300, loud),
            Refusal.FUTURE: lambda number: encode_command(boot_id, 1, number, ticks(1.0), 300, loud),
            Refusal.COUNT: lambda number: encode_command(boot_id, 1, number, ticks(), 300, loud[:1]),
            Refusal.VERSION: lambda number: b"\x02" + encode_command(boot_id, 1, number, ticks(), 300, loud)[1:],
        }
        for expected, make in cases.items():
            before = frame(made).refused
            stream._sequence += 1
            made.sink.session._orders.append((topic, make(stream._sequence)))  # beside the loop's own commands
            made.sink.session._waiting.set()
            await made.until(lambda before=before: frame(made).refused != before, f"refusal by {expected.name}")
            assert frame(made).last_refusal is expected
            assert made.report.armed
            assert np.all(made.feed.speed_rad_s < 0.2 * 18.43)

    on_a_rod(broker, tmp_path, story)


REGULATOR = """
import json
from motor.config import MotorConfig
from motor.regulator import Regulator
table = {"generation": 1, "boot_id": 5, "deadline_ms": 150,
    "channels": [{"safe": 0, "min": -10000, "max": 10000, "slew": 1000000}],
    "travel": [[-100, 100]], "full_counts_s": 4107, "full_duty": 800, "current_ma": 1200, "overcurrent_ms": 150, "stall_ms": 400}
def wrong(**change):
    try:
        MotorConfig(dict(table, **change), 1, 5)
    except ValueError as error:
        return str(error)
    return ""
config = MotorConfig(table, 1, 5)
motor = Regulator()
motor.measure(100, 0, 10000)
end = [motor.duty(config, 0, 10000, 10000), motor.duty(config, 0, -10000, 10000)]
motor = Regulator()
limited = []
for _ in range(14):
    motor.measure(0, 2400, 10000)
    limited.append(motor.duty(config, 0, 10000, 10000))
before = motor.overcurrent
for _ in range(3):
    motor.measure(0, 2400, 10000)
    motor.duty(config, 0, 10000, 10000)
still = Regulator()
ticks = 0
while not still.stalled and ticks < 1000:
    still.measure(0, 500, 10000)
    still.duty(config, 0, 5000, 10000)
    ticks += 1
print(json.dumps({"end": end, "limited": limited, "over": [before, motor.overcurrent], "stall_ticks": ticks,
    "wrong": [wrong(boot_id=6), wrong(travel=[[3, 2]]), wrong(stall_ms=1), wrong(extra=1), wrong(current_ma=5000),
        wrong(channels=[{"safe": 5, "min": 0, "max": 10, "slew": 1}])]}))
"""


def test_the_regulator_on_the_boards_interpreter(tmp_path: Path) -> None:
    said = json.loads(run_script(tmp_path, REGULATOR))
    assert said["end"][0] == 0.0  # at the end of its travel only the way back is open
    assert said["end"][1] < -0.7
    assert said["limited"][0] < 0.5 * 0.85  # twice the current that is allowed: half the duty at most
    assert max(said["limited"][4:]) <= 0.11
    assert said["over"] == [False, True]  # 150 ms of too much current, held back or not
    assert 40 <= said["stall_ticks"] <= 42
    for text, word in zip(said["wrong"], ("boot_id", "travel", "stall_ms", "extra", "current_ma", "safe"), strict=True):
        assert word in text


CRASH = """
import application
import motor.app as app

async def main(identity, board):
    rod = app.MotorBoard(identity, board)
    rod.bridges[0].drive(0.5)
    rod.bridges[1].drive(-0.5)
    print("drives")
    raise RuntimeError("boom")

app.main = main
try:
    application.start()
except RuntimeError:
    print("ended")
"""


def test_an_application_that_crashes_leaves_its_motors_braked(tmp_path: Path) -> None:
    said = run_script(tmp_path, CRASH, config=BoardConfig("rod0", app="motor"))
    assert "drives" in said
    assert "ended" in said
    with MotorRegisterFile(tmp_path / "jail" / "sim" / "registers.bin", "lsm6dsox") as file:
        assert file.bridge_writes() >= 4  # both ways, and back
        assert file.bridges() == ([0.0, 0.0], [True, True])
