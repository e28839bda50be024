"""From the secrets file to the settings of one board: WiFi, broker, password and TLS. Nothing of it is ever printed.

    [wifi]
    ssid = "lab"
    password = "..."

    [broker]
    host = "192.168.1.10"
    port = 8883                 # 1883 without TLS
    passwords = "passwords"     # lines of board:password; optional
    certificates = "certs"      # folder made by `prestress certs`; optional
    name = "robot-host"         # what the broker's certificate bears, the host's name by default

    [update]                    # optional: without it boards take no updates over the air
    key = "update.pub"          # public half of the key that signs them, made by `prestress update keygen`

Paths are relative to the file. The file, the passwords and the keys must be readable by their owner alone.
"""

from __future__ import annotations

import base64
import re
import ssl
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from onboard.config import Section, convert, parse_toml, read_text
from onboard.errors import ConfigError
from onboard.flash.board_files import digest
from onboard.flash.install import TLS_FOLDER, Provision
from onboard.flash.private import check_private
from onboard.flash.robot_boards import BoardRobot, app_of
from onboard.link.passwords import read_passwords
from onboard.update.keys import read_public


class WiFi(Section, frozen=True):
    """[wifi]: the network that boards join."""

    ssid: Annotated[str, Meta(min_length=1, max_length=32, description="name of the network")]
    password: Annotated[str, Meta(max_length=63, description="its password; empty for an open network")]


class Broker(Section, frozen=True):
    """[broker]: where boards find it, and how they sign in."""

    host: Annotated[str, Meta(min_length=1, max_length=255, description="name or address on the boards' network")]
    port: Annotated[int, Meta(ge=1, le=65535, description="1883, or 8883 with TLS")] = 1883
    passwords: Annotated[str, Meta(max_length=4096, description="file of board:password lines; empty: none")] = ""
    certificates: Annotated[str, Meta(max_length=4096, description="folder of certificates; empty: no TLS")] = ""
    name: Annotated[str, Meta(max_length=255, description="name in the broker's certificate; empty: the host")] = ""


class UpdateKey(Section, frozen=True):
    """[update]: whose updates boards take over the air."""

    key: Annotated[str, Meta(min_length=1, max_length=4096, description="public half of the key that signs updates")]


class Secrets(msgspec.Struct, frozen=True):
    """The checked secrets file; its text form shows nothing of the content."""

    file: Path
    wifi: WiFi
    broker: Broker
    update: UpdateKey | None = None

    def __repr__(self) -> str:
        return f"Secrets({self.file})"


def read_secrets(path: Path) -> Secrets:
    """Read and check the file; ConfigError when others can read it, without showing any value of it."""
    check_private(path)
    raw = _parse(path)
    for key in raw:
        if key not in ("wifi", "broker", "update"):
            # Not quoted: a password may have got to where a name belongs.
            raise ConfigError(str(path), "", "has an unknown section or key at its top; known are broker, update, wifi")
    for key in ("wifi", "broker"):
        if key not in raw:
            raise ConfigError(str(path), key, "required section is missing")
    update = _section(path, "update", raw["update"], UpdateKey) if "update" in raw else None
    return Secrets(path, _section(path, "wifi", raw["wifi"], WiFi), _section(path, "broker", raw["broker"], Broker), update)


def _parse(path: Path) -> dict[str, Any]:
    """Like read_toml, but the message tells the line alone: the usual one quotes names, and one of them may be a password."""
    text = read_text(path)
    try:
        return parse_toml(str(path), text)
    except ConfigError as error:
        line = re.search(r"\(at line (\d+), column \d+\)$", str(error))
        where = f" (line {line.group(1)})" if line else ""
        raise ConfigError(str(path), "", f"is not valid TOML, or holds a number that is none{where}") from None


def _section(path: Path, key: str, value: Any, kind: type[Any]) -> Any:
    """Like convert, but the message names the key alone: the usual one quotes the value, which is secret here."""
    try:
        return convert(str(path), key, value, kind)
    except ConfigError as error:
        known = ", ".join(kind.__struct_fields__)
        # A name that is none of these is not shown either.
        shown = error.key if error.key.removeprefix(f"{key}.") in kind.__struct_fields__ else key
        raise ConfigError(str(path), shown, f"is missing, unknown or not what it must be; {key} has {known}") from None


def provision(spec: BoardRobot, board_id: str, secrets: Secrets) -> Provision:
    """The settings of the robot's board `board_id`; ConfigError names what is missing."""
    valves = {board.id: board for board in spec.actuators.boards} if spec.actuators else {}
    if board_id not in valves and board_id not in spec.struts:
        known = f"{spec.struts[0]} .. {spec.struts[-1]}" + (f", {', '.join(valves)}" if valves else "")
        raise ConfigError(spec.file, "struts", f"has no {board_id!a}; it has {known}")
    broker: dict[str, Any] = {
        "host": secrets.broker.host,
        "port": secrets.broker.port,
        "keepalive_s": spec.link.keepalive_s,
    }
    base = secrets.file.parent
    if secrets.broker.passwords and board_id in spec.struts:
        file = base / secrets.broker.passwords
        if not file.is_file():  # not named: it may be the password itself
            raise ConfigError(str(secrets.file), "broker.passwords", "is no path of a file with board:password lines")
        passwords = read_passwords(file)
        if board_id not in passwords:
            raise ConfigError(str(file), "", f"has no password for {board_id}")
        broker |= {"user": board_id, "password": passwords[board_id]}
    tls: dict[str, bytes] = {}
    if secrets.broker.certificates and board_id in spec.struts:
        names, tls = _tls(base / secrets.broker.certificates, board_id)
        broker["tls"] = names | {"name": secrets.broker.name or secrets.broker.host}
    table: dict[str, Any] = {
        "name": board_id,
        "prefix": spec.link.prefix,
        "app": app_of(spec, board_id),
        "board": spec.imu.board if board_id in spec.struts else "nano_rp2040",
    }
    if board_id in spec.struts:
        imu = {"batch": spec.imu.batch, "accel_range_g": spec.imu.accel_range_g, "gyro_range_dps": spec.imu.gyro_range_dps}
        table |= {"wifi": {"ssid": secrets.wifi.ssid, "password": secrets.wifi.password}, "broker": broker, "imu": imu}
        if secrets.update is not None:
            table |= {"update": {"key": read_public(base / secrets.update.key).hex()}}
    else:
        table |= {"channels": 8}  # of the board; the robot may use fewer
    return Provision(msgspec.json.encode(table, order="sorted"), tls)


def _tls(folder: Path, board_id: str) -> tuple[dict[str, str], dict[str, bytes]]:
    """Names for identity.json, and the files they mean: each name holds a part of the content's hash, so that settings and
    files change together."""
    key = folder / f"{board_id}.key"
    check_private(key)
    names: dict[str, str] = {}
    files: dict[str, bytes] = {}
    for role, path in (("ca", folder / "ca.pem"), ("cert", folder / f"{board_id}.pem"), ("key", key)):
        data = _der(path)
        name = f"{TLS_FOLDER}/{role}-{digest(data)[:12]}.der"
        names[role], files[name] = name, data
    return names, files


def _der(path: Path) -> bytes:
    """PEM to the DER that boards read."""
    try:
        text = path.read_text(encoding="ascii")
        if "PRIVATE KEY" not in text:
            return ssl.PEM_cert_to_DER_cert(text)
        return base64.b64decode("".join(line for line in text.splitlines() if not line.startswith("-----")))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "is no PEM file"
        raise ConfigError(str(path), "", f"cannot be used: {reason}; prestress certs makes it") from error
