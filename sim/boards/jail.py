"""A board's flash as a directory: firmware, shims, identity and register file, owned by an unprivileged user."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onboard.errors import LinkError
from sim.boards import registers

SIM = Path(__file__).resolve().parent
REPOSITORY = SIM.parent.parent
FIRMWARE = REPOSITORY / "firmware"
UNPRIVILEGED_ID = 65534  # nobody and nogroup, on every Linux
SENSORS = {"nano_rp2040": "lsm6dsox", "m5stickc_plus": "mpu6886"}


@dataclass(frozen=True, slots=True)
class BoardConfig:
    """What makes one virtual board.

    id: its name in topics. app: strut, valve or motor. board: nano_rp2040 or m5stickc_plus. prefix: of topics. channels: of a
    valve board. imu: the strut's start configuration (batch, accel_range_g, gyro_range_dps). tick_offset_us: board time
    at boot. drift_ppm: how much faster its clock runs. unique_id: hexadecimal; made from prefix and id when empty.
    """

    id: str
    app: str = "strut"
    board: str = "nano_rp2040"
    prefix: str = "prestress"
    broker_host: str = "127.0.0.1"
    broker_port: int = 1883
    broker_user: str = ""
    broker_password: str = ""
    broker_tls: dict[str, str] = field(default_factory=dict)
    keepalive_s: int = 5
    wifi_password: str = "simulated"
    channels: int = 8
    imu: dict[str, int] = field(default_factory=dict)
    tick_offset_us: int = 0
    drift_ppm: int = 0
    unique_id: str = ""
    heap: str = "256K"  # twice the smaller board's: words here are twice as wide

    def __post_init__(self) -> None:
        if self.app not in ("strut", "valve", "motor"):
            raise ValueError(f"board {self.id}: app is {self.app!r}, not strut, valve or motor")
        if self.board not in SENSORS:
            raise ValueError(f"board {self.id}: board is {self.board!r}, not one of {', '.join(SENSORS)}")

    @property
    def sensor(self) -> str:
        return SENSORS[self.board]

    @property
    def chip_id(self) -> str:
        """The unique id, 8 bytes in hexadecimal."""
        return self.unique_id or hashlib.sha256(f"{self.prefix}/{self.id}".encode()).hexdigest()[:16]

    def identity(self) -> dict[str, Any]:
        """The provisioned settings file of the board."""
        try:
            host = socket.gethostbyname(self.broker_host)  # a jailed board has no resolver
        except OSError as error:
            raise LinkError(f"broker {self.broker_host}: {error.strerror}") from error
        broker = {"host": host, "port": self.broker_port, "keepalive_s": self.keepalive_s}
        if self.broker_user:
            broker |= {"user": self.broker_user, "password": self.broker_password}
        if self.broker_tls:
            broker |= {"tls": self.broker_tls}
        table = {
            "name": self.id,
            "prefix": self.prefix,
            "app": self.app,
            "board": self.board,
            "wifi": {"ssid": "simulated", "password": self.wifi_password},
            "broker": broker,
        }
        return table | ({"channels": self.channels} if self.app == "valve" else {"imu": self.imu})

    def parts(self) -> list[str]:
        """What sits on the board's I2C bus."""
        return ["valves"] if self.app == "valve" else [self.sensor]


def firmware_root() -> Path:
    """The firmware's source: beside this package in a checkout, inside the installed product otherwise."""
    if FIRMWARE.is_dir():
        return FIRMWARE
    import onboard

    return Path(onboard.__file__).parent / "_data" / "firmware"


def prepare(jail: Path, config: BoardConfig) -> Path:
    """Make or renew the board's directory; its own files (configuration, crash) stay. Returns the register file."""
    if jail.resolve() in (Path("/"), Path.home().resolve()):
        raise ValueError(f"{jail} cannot be a board's directory")
    jail.mkdir(parents=True, exist_ok=True)
    for source in sorted(firmware_root().rglob("*.py")):
        _copy(source, jail / source.relative_to(firmware_root()))
    for source in sorted((SIM / "shims").glob("*.py")):
        _copy(source, jail / "sim" / "shims" / source.name)
    _copy(SIM / "start.py", jail / "sim" / "start.py")
    (jail / "identity.json").write_text(json.dumps(config.identity()), encoding="utf-8")
    (jail / "identity.json").chmod(0o600)
    file = jail / "sim" / "registers.bin"
    if not file.exists():
        registers.create(file)
    own(jail)
    return file


def write_boot(jail: Path, config: BoardConfig, reset_cause: int) -> None:
    """What the chip knows at this reset: cause, unique id, and its clock."""
    table = {
        "reset_cause": reset_cause,
        "unique_id": config.chip_id,
        "drift_ppm": config.drift_ppm,
        "tick_offset_us": config.tick_offset_us,
        "parts": config.parts(),
    }
    (jail / "sim" / "boot.json").write_text(json.dumps(table), encoding="utf-8")


def own(jail: Path) -> None:
    """Give the directory to the unprivileged user that the board will run as; nothing to do unless we are root."""
    if os.geteuid() != 0:
        return
    for path in [jail, *jail.rglob("*")]:
        os.chown(path, UNPRIVILEGED_ID, UNPRIVILEGED_ID, follow_symlinks=False)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
