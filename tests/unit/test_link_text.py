"""Texts that reach MQTT: topics, broker URLs, password files: exact or refused, and secrets stay out of sight."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.errors import ConfigError, LinkError, UsageError, WireError
from onboard.link.broker import EmbeddedBroker
from onboard.link.broker_access import may
from onboard.link.endpoint import Endpoint, parse_endpoint
from onboard.link.passwords import create_passwords, read_passwords
from onboard.link.topics import MAX_TOPIC_BYTES, Topics, check_topic

PREFIX = "prestress/manipulator"


@pytest.mark.parametrize("topic", ["a", "grün", "a/b c", "a//b", "🤖", "x" * MAX_TOPIC_BYTES, "ü" * (MAX_TOPIC_BYTES // 2)])
def test_allowed_topics_stay_as_they_are(topic: str) -> None:
    assert check_topic(topic) == topic


@pytest.mark.parametrize("topic", ["", "a+b", "+", "a/#", "a\0b", "a\ud800b", "x" * 65_536, "ü" * 32_768])
def test_forbidden_topics_are_refused_with_the_reason(topic: str) -> None:
    with pytest.raises(WireError, match="topic"):
        check_topic(topic)


def test_a_board_is_one_level_of_a_topic() -> None:
    topics = Topics(PREFIX)
    assert topics.of("strut07", "sync/req") == "prestress/manipulator/v1/strut07/sync/req"
    for board in ("", "a/b", "+", "a#", "\0"):
        with pytest.raises(WireError):
            topics.of(board, "imu")


@given(st.text(min_size=1, max_size=40).filter(lambda text: "/" not in text))
def test_what_is_built_is_taken_apart_again(board: str) -> None:
    topics = Topics(PREFIX)
    try:
        topic = topics.of(board, "cfg/ack")
    except WireError:
        return
    assert topics.parse(topic) == (board, "cfg/ack")


@pytest.mark.parametrize(
    "topic",
    [
        "",
        "imu",
        PREFIX,
        f"{PREFIX}/v1/strut00",
        f"{PREFIX}/v1//imu",
        f"{PREFIX}/v2/strut00/imu",
        f"{PREFIX}/v1/strut00/cmd",
        f"x{PREFIX}/v1/s/imu",
    ],
)
def test_other_topics_are_not_ours(topic: str) -> None:
    assert Topics(PREFIX).parse(topic) is None


def test_urls_are_read() -> None:
    assert parse_endpoint("mqtt://broker.lab") == Endpoint("broker.lab", 1883)
    assert parse_endpoint("mqtt://[::1]:1999/") == Endpoint("::1", 1999)
    assert parse_endpoint("mqtt://gr%C3%BCn:p%40ss%3A@10.0.0.2:42") == Endpoint("10.0.0.2", 42, "grün", "p@ss:")
    assert parse_endpoint("mqtts://h").port == 8883
    assert parse_endpoint("mqtts://h").tls


@pytest.mark.parametrize(
    "url",
    [
        "", "host", "host:1883", "http://h", "mqtt://", "mqtt://:1883", "mqtt://h:0", "mqtt://h:99999", "mqtt://h:x", "mqtt://h/path",
        "mqtt://h?ca=x", "mqtts://h?ca=/nowhere/ca.pem", "mqtts://h?key=x", "mqtt://:topsecret@h", "mqtt://u:topsecret@h/x",
        "mqtt://u:topsecret@[h:1",
    ],
)  # fmt: skip
def test_wrong_urls_are_refused_without_showing_a_password(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_endpoint(url)
    assert "topsecret" not in str(caught.value)


def test_an_endpoint_never_shows_its_password() -> None:
    endpoint = parse_endpoint("mqtt://user:topsecret@h")
    for text in (str(endpoint), repr(endpoint), f"{endpoint}"):
        assert "topsecret" not in text
    assert "user" in str(endpoint)


def test_a_bad_ca_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    endpoint = parse_endpoint(f"mqtts://h?ca={tmp_path / 'ca.pem'}")
    with pytest.raises(UsageError, match=r"ca\.pem"):
        endpoint.tls_context()


def test_passwords_are_made_for_everybody_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "passwords"
    first = create_passwords(path, ["strut00", "strut01"])
    assert path.stat().st_mode & 0o777 == 0o600
    assert set(first) == {"host", "strut00", "strut01"} and len(set(first.values())) == 3
    again = create_passwords(path, ["strut00", "strut01", "strut02"])
    assert {name: again[name] for name in first} == first
    assert read_passwords(path) == again


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_password_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "passwords"
    create_passwords(path, ["strut00"])
    path.chmod(mode)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_passwords(path)


@pytest.mark.parametrize("text", ["host", ":x" * 9, "host:short", "host:0123456789ab\nhost:0123456789ac\n"])
def test_bad_password_lines_are_refused_without_showing_them(tmp_path: Path, text: str) -> None:
    path = tmp_path / "passwords"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match="line") as caught:
        read_passwords(path)
    assert "0123456789" not in str(caught.value)


def test_the_network_needs_a_password_per_board(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LinkError, match="password"):
        EmbeddedBroker(PREFIX, lan=True)
    path = tmp_path / "passwords"
    create_passwords(path, ["strut00"])
    with pytest.raises(ConfigError, match="strut01"):
        EmbeddedBroker(PREFIX, lan=True, passwords=path, boards=["strut00", "strut01"])
    with caplog.at_level(logging.WARNING):
        EmbeddedBroker(PREFIX, lan=True, passwords=path, boards=["strut00"])
    assert "ALL networks" in caplog.text
    assert not any(secret in caplog.text for secret in read_passwords(path).values())


def test_boards_may_use_their_own_topics_only() -> None:
    root = f"{PREFIX}/v1"
    assert may("strut00", PREFIX, f"{root}/strut00/imu", publish=True)
    assert may("strut00", PREFIX, f"{root}/strut00/cfg", publish=False)
    assert may("host", PREFIX, f"{root}/strut00/cfg", publish=True)
    for topic in ("strut00/cfg", "strut00/cmd", "strut00/sync/req", "strut00/ota/offer", "strut01/imu", "strut001/imu"):
        assert not may("strut00", PREFIX, f"{root}/{topic}", publish=True)
    for topic in (f"{root}/+/imu", f"{root}/#", "#", f"{root}/strut01/cfg", "other/v1/strut00/imu"):
        assert not may("strut00", PREFIX, topic, publish=False)
    assert not may(None, PREFIX, f"{root}/None/imu", publish=True)
    assert not may("", PREFIX, f"{root}//imu", publish=True)
