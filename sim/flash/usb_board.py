"""A virtual board on USB: the real MicroPython prompt, jailed, behind a pseudo terminal that can be unplugged at any byte."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import threading
import time
import tty
from dataclasses import dataclass
from pathlib import Path

from sim.boards import registers
from sim.boards.jail import SIM, UNPRIVILEGED_ID, BoardConfig, own, write_boot
from sim.boards.launcher import POWER_ON, RESET_EXIT, SOFT, interpreter_folder

PROCESS = SIM / "process.py"
HERE = Path(__file__).resolve().parent
INTERRUPT = b"\x03"
SIGINT_BIT = 1 << 1


@dataclass(frozen=True, slots=True)
class Chip:
    """What the interpreter on a board says of itself. mpy: sys.implementation._mpy (version, sub version, architecture)."""

    platform: str
    machine: str
    mpy: int
    version: tuple[int, int, int, str] = (1, 28, 0, "")
    flash_bytes: int = 0  # 0: as large as the host's disk


HOST_MPY = 6 | 3 << 8 | 2 << 10  # compiled files run on this computer's processor, x64
RP2040 = Chip("rp2", "Arduino Nano RP2040 Connect with RP2040", HOST_MPY)
ESP32 = Chip("esp32", "M5Stack StickC Plus with ESP32", HOST_MPY)


class UsbBoard:
    """`port` is what a flasher opens. cut_after: bytes from the host after which board and cable vanish (None: never).

    native_usb_s: after a hard reset nothing that the board says is heard for so long, as when USB has to find it again.
    Its flash is `jail`; a new board has nothing on it. `received` counts bytes from the host since power on.
    """

    def __init__(self, directory: Path, chip: Chip = RP2040, config: BoardConfig | None = None) -> None:
        self.chip = chip
        self.config = config or BoardConfig("usb")
        self.jail = directory / "flash"
        self.cut_after: int | None = None
        self.native_usb_s = 0.0
        self._silent_until_s = 0.0
        self.received = 0
        self.resets = 0
        self.output = bytearray()
        self._prepare()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._outer = self._inner = -1
        self.port = ""

    def _prepare(self) -> None:
        shims = self.jail / "sim" / "shims"
        shims.mkdir(parents=True)
        for source in [*sorted((SIM / "shims").glob("*.py")), HERE / "quota.py"]:
            shutil.copyfile(source, shims / source.name)
        shutil.copyfile(HERE / "usb_start.py", self.jail / "sim" / "start.py")
        chip = {
            "platform": self.chip.platform,
            "machine": self.chip.machine,
            "mpy": self.chip.mpy,
            "version": self.chip.version,
            "flash_bytes": self.chip.flash_bytes,
        }
        (self.jail / "sim" / "chip.json").write_text(json.dumps(chip))
        self.register_path = self.jail / "sim" / "registers.bin"
        registers.create(self.register_path)
        own(self.jail)

    def plug_in(self) -> None:
        """Power on, and a new port."""
        self._outer, slave = os.openpty()
        tty.setraw(slave)
        self.port = os.ttyname(slave)
        os.close(slave)
        self.received = 0
        self._stop.clear()
        self.output.clear()
        self._thread = threading.Thread(target=self._relay, daemon=True)
        self._thread.start()

    def unplug(self) -> None:
        """Power off and the port gone, at once."""
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
            self._thread = None

    def watchdog(self) -> tuple[int, int]:
        """(time-out [ms], feeds) of the hardware watchdog: feeds above 0 prove a running application."""
        with registers.ImuRegisterFile(self.register_path, self.config.sensor) as file:
            return file.watchdog()

    def _spawn(self, cause: int) -> None:
        self._inner, slave = os.openpty()
        tty.setraw(slave)
        write_boot(self.jail, self.config, cause)
        user = UNPRIVILEGED_ID if os.geteuid() == 0 else 0
        settings = {
            "jail": str(self.jail.resolve()),
            "packages": interpreter_folder(),
            "heap": "384K",  # twice the smaller board's: words here are twice as wide
            "parent": os.getpid(),
            "uid": user,
            "gid": user,
        }
        command = [sys.executable, "-I", "-S", str(PROCESS), json.dumps(settings)]
        # The shell makes the interrupt ignored until MicroPython takes it: before that it would end the process.
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh", *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            cwd="/",
            env={},
        )
        os.close(slave)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._inner >= 0:
            os.close(self._inner)
            self._inner = -1

    def _relay(self) -> None:
        """Bytes both ways; the interrupt byte as the board's driver takes it; resets; the cut."""
        self._spawn(POWER_ON)
        try:
            while not self._stop.is_set():
                readable, _, _ = select.select([self._outer, self._inner], [], [], 0.05)
                if self._inner in readable and not self._from_board():
                    continue
                if self._outer in readable and not self._from_host():
                    return
        finally:
            self._end()
            os.close(self._outer)

    def _from_board(self) -> bool:
        try:
            data = os.read(self._inner, 4096)
        except OSError:
            data = b""
        if data:
            self.output += data
            self._pass_on(data)
            return True
        assert self._process is not None
        status = self._process.wait()
        self._end()
        self.resets += 1
        if status == RESET_EXIT:
            self._silent_until_s = time.monotonic() + self.native_usb_s
        else:
            self._pass_on(b"MPY: soft reboot\r\n")
        self._spawn(SOFT)
        return False

    def _pass_on(self, data: bytes) -> None:
        if time.monotonic() < self._silent_until_s:
            return
        with contextlib.suppress(OSError):
            os.write(self._outer, data)

    def _from_host(self) -> bool:
        try:
            data = os.read(self._outer, 4096)
        except OSError:  # nobody has the other end open
            time.sleep(0.01)
            return True
        if self.cut_after is not None and self.received + len(data) >= self.cut_after:
            data = data[: self.cut_after - self.received]
            self._to_board(data)
            self.received += len(data)
            return False
        self.received += len(data)
        self._to_board(data)
        return True

    def _to_board(self, data: bytes) -> None:
        if INTERRUPT in data and self._takes_interrupts():
            assert self._process is not None
            self._process.send_signal(2)
            data = data.replace(INTERRUPT, b"")
        with contextlib.suppress(OSError):
            os.write(self._inner, data)

    def _takes_interrupts(self) -> bool:
        """Whether MicroPython runs code that the interrupt byte ends; at the prompt the byte is read like any other."""
        assert self._process is not None
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
                if line.startswith("SigCgt:"):
                    return bool(int(line.split()[1], 16) & SIGINT_BIT)
        return False
