"""A recording of another make, or a damaged one, is refused in words: replay and pictures never meet what they cannot use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.writer import Writer

from onboard.cli.main import main
from onboard.errors import PrestressError
from onboard.resources import robot_file
from onboard.runtime.replay import recorded_spec, replay
from onboard.telemetry import schemas
from onboard.telemetry.reader import open_recording

META = {"robot_toml": robot_file("module_rig").read_text(), "epoch_start": "7"}
PACKET = {"t_s": 1.0, "strut": 0, "kind": "imu", "data": "AAEC"}
REPORT: dict[str, Any] = {
    "t_s": 1.0, "board": "valve0", "boot_id": 1, "epoch": 1, "armed": False, "latched": False, "stop_input": False,
    "fault": 0, "last_sequence": 0, "measured": [None, 1.0], "refused": {}, "ready": True,
}  # fmt: skip
TICK = {"t_s": 1.0, "loop": "estimator", "skipped": 0}
SUPERVISOR = {**TICK, "loop": "supervisor", "ticks": 1, "overruns": 0, "link_down": False, "recorder_failed": False}
REQUEST = {"t_s": 1.0, "request": "reset"}
ESTIMATE = {"t_s": 1.0, "tip_m": [0.0, 0.0, 1.0], "position_m": [], "rotation": [], "cable_length_m": []}
GOOD = {schemas.PACKET: PACKET, schemas.REPORT: REPORT, schemas.REQUEST: REQUEST, schemas.ESTIMATE: ESTIMATE}


def write(path: Path, messages: list[tuple[str, Any]], metadata: dict[str, str] | None = None) -> Path:
    with path.open("wb") as file:
        writer = Writer(file)
        writer.start()
        writer.add_metadata("prestress", META if metadata is None else metadata)
        for topic, fields in messages:
            channel = writer.register_channel(topic=topic, message_encoding="json", schema_id=0)
            writer.add_message(channel, 0, json.dumps(fields).encode(), 0)
        writer.finish()
    return path


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "does not hold the robot's file"),
        ({**META, "robot_toml": "[["}, "is damaged"),
        ({**META, "robot_toml": "format = 1"}, "structure"),
        ({**META, "epoch_start": "soon"}, "epoch_start"),
    ],
)
def test_wrong_metadata_is_one_line(
    tmp_path: Path, metadata: dict[str, str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", str(write(tmp_path / "a.mcap", [(schemas.TICK, TICK)], metadata))]) in (2, 7)
    said = capsys.readouterr().err
    assert words in said
    assert len(said.strip().splitlines()) == 1


def test_a_recording_of_nothing_is_not_called_identical(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(write(tmp_path / "a.mcap", []))]) == 1
    assert "nothing to compare" in capsys.readouterr().out


def test_good_messages_of_every_kind_are_taken(tmp_path: Path) -> None:
    messages = [*GOOD.items(), (schemas.TICK, TICK), (schemas.TICK, SUPERVISOR)]
    recording = open_recording(write(tmp_path / "a.mcap", messages))
    assert len(list(recording)) == len(messages)
    assert recording.truncated is None


@pytest.mark.parametrize(
    ("topic", "fields"),
    [
        *((topic, {key: value for key, value in good.items() if key != gone}) for topic, good in GOOD.items() for gone in good
          if gone not in ("refused", "ready", "position_m", "rotation", "cable_length_m")),
        (schemas.TICK, {**TICK, "loop": "supervisor"}),
        (schemas.PACKET, {**PACKET, "strut": "first"}),
        (schemas.PACKET, {**PACKET, "data": "x"}),
        (schemas.REPORT, {**REPORT, "measured": [[1.0]]}),
        (schemas.REPORT, {**REPORT, "fault": 0.5}),
        (schemas.REQUEST, {**REQUEST, "request": "explode"}),
        (schemas.REQUEST, {**REQUEST, "posture": {"name": "x"}}),
        ("/of/others", {"value": 1}),
    ],
)  # fmt: skip
def test_damaged_messages_are_refused_by_file_and_field(tmp_path: Path, topic: str, fields: dict[str, Any]) -> None:
    path = write(tmp_path / "a.mcap", [(topic, fields)])
    recording = open_recording(path)
    with pytest.raises(PrestressError):
        replay(recording, recorded_spec(recording))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.sampled_from([*GOOD, schemas.TICK]), min_size=1, max_size=6), st.data())
@settings(max_examples=30, deadline=None)
def test_whatever_is_in_a_message_replay_ends_in_words(
    tmp_path_factory: pytest.TempPathFactory, topics: list[str], data: st.DataObject
) -> None:
    messages = []
    for topic in topics:
        fields = dict(GOOD.get(topic, SUPERVISOR))
        fields[data.draw(st.sampled_from(sorted(fields)))] = data.draw(JSON)
        messages.append((topic, fields))
    recording = open_recording(write(tmp_path_factory.mktemp("fuzz") / "a.mcap", messages))
    try:
        replay(recording, recorded_spec(recording))
    except PrestressError:
        return
