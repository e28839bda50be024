"""Virtual boards as objects: power, reset, watchdog and log of one, and a fleet of many."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import tty
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from sim.boards.jail import UNPRIVILEGED_ID, BoardConfig, prepare, write_boot
from sim.boards.registers import BoardRegisters, ImuRegisterFile, MotorRegisterFile, ValveRegisterFile

POWER_ON, HARD, WATCHDOG, DEEP_SLEEP, SOFT = 1, 2, 3, 4, 5
RESET_EXIT = 82  # machine.reset() of the shim
WATCH_S = 0.1  # how often processes and watchdogs are looked at
_PROCESS = Path(__file__).with_name("process.py")


class VirtualBoard:
    """One board: the real firmware in a jailed process. Power it with start() and stop().

    `registers` is the register file of its application. A valve board's serial line is `port`, a path for
    pyserial that stays the same over resets. `resets` counts watchdog and software resets; `exit_status` is that of the
    last process that ended (negative: killed by that signal).
    """

    def __init__(self, config: BoardConfig, root: Path) -> None:
        self.config = config
        self.jail = root / config.id
        self.log_path = root / f"{config.id}.log"
        file = prepare(self.jail, config)
        self.registers: BoardRegisters
        if config.app == "strut":
            self.registers = ImuRegisterFile(file, config.sensor)
        elif config.app == "motor":
            self.registers = MotorRegisterFile(file, config.sensor)
        else:
            self.registers = ValveRegisterFile(file, config.channels)
        self.port = ""
        self._master = -1
        if config.app == "valve":
            self._master, slave = os.openpty()
            tty.setraw(slave)
            self.port = os.ttyname(slave)
            os.close(slave)
            os.set_blocking(self._master, False)
        self.resets = 0
        self.exit_status: int | None = None
        self.reset_by_watchdog = True  # off: a hung board stays hung, for tests
        self._process: subprocess.Popen[bytes] | None = None
        self._feeds = 0
        self._fed_s = 0.0

    @property
    def imu(self) -> ImuRegisterFile:
        """The register file of a strut."""
        if not isinstance(self.registers, ImuRegisterFile):
            raise TypeError(f"{self.config.id} has no IMU")
        return self.registers

    @property
    def valves(self) -> ValveRegisterFile:
        """The register file of a valve board."""
        if not isinstance(self.registers, ValveRegisterFile):
            raise TypeError(f"{self.config.id} has no valves")
        return self.registers

    @property
    def motors(self) -> MotorRegisterFile:
        """The register file of a motor board."""
        if not isinstance(self.registers, MotorRegisterFile):
            raise TypeError(f"{self.config.id} has no motors")
        return self.registers

    @property
    def pid(self) -> int:
        """Of the running process; 0 when the board is off."""
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Switch the power on."""
        _SUPERVISOR.start(self, POWER_ON)

    def stop(self) -> None:
        """Switch the power off at once; the register file and the port stay."""
        _SUPERVISOR.end(self, signal.SIGKILL)

    def restart(self) -> None:
        """Power off and on."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Stop executing, as a hung processor; the watchdog will notice if the firmware had started it."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGCONT)

    def close(self) -> None:
        """Power off and let go of files and line."""
        self.stop()
        self.registers.close()
        if self._master >= 0:
            os.close(self._master)
            self._master = -1

    def _spawn(self, cause: int) -> None:
        """Start the process; only the supervisor's thread may, since the process dies with the thread it came from."""
        write_boot(self.jail, self.config, cause)
        self.registers.clear_watchdog()
        if isinstance(self.registers, MotorRegisterFile):
            self.registers.power_off()
        self._feeds, self._fed_s = 0, time.monotonic()
        settings = {
            "jail": str(self.jail.resolve()),
            "packages": interpreter_folder(),
            "heap": self.config.heap,
            "parent": os.getpid(),
            "uid": UNPRIVILEGED_ID if os.geteuid() == 0 else 0,
            "gid": UNPRIVILEGED_ID if os.geteuid() == 0 else 0,
        }
        with self.log_path.open("ab") as log:
            line: int | IO[bytes] = self._master if self._master >= 0 else log
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(_PROCESS), json.dumps(settings)],
                stdin=self._master if self._master >= 0 else subprocess.DEVNULL,
                stdout=line,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env={},
            )

    def _watch(self, now_s: float) -> None:
        """Notice an end or a hungry watchdog, and reset as the hardware would."""
        if self._process is None:
            return
        status = self._process.poll()
        if status is not None:
            self._process, self.exit_status = None, status
            if status == RESET_EXIT:
                self.resets += 1
                self._spawn(SOFT)
            return
        timeout_ms, feeds = self.registers.watchdog()
        if feeds != self._feeds:
            self._feeds, self._fed_s = feeds, now_s
        elif self.reset_by_watchdog and timeout_ms and now_s - self._fed_s > timeout_ms / 1000:
            self._kill(signal.SIGKILL)
            self.resets += 1
            self._spawn(WATCHDOG)

    def _kill(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait()
            self.exit_status = self._process.returncode
            self._process = None
            if isinstance(self.registers, MotorRegisterFile):
                self.registers.power_off()


class _Supervisor:
    """One thread that starts, watches and resets all boards of this process; it lives as long as the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._boards: dict[int, VirtualBoard] = {}
        self._wanted: list[tuple[VirtualBoard, int]] = []
        self._spawned = threading.Condition(self._lock)
        self._thread: threading.Thread | None = None

    def start(self, board: VirtualBoard, cause: int) -> None:
        with self._lock:
            if board.running:
                raise RuntimeError(f"board {board.config.id} is already running")
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="boards", daemon=True)
                self._thread.start()
            self._wanted.append((board, cause))
            self._spawned.notify_all()
            while not board.running and any(entry[0] is board for entry in self._wanted):
                self._spawned.wait()
            if not board.running and board.exit_status is None:
                raise RuntimeError(f"board {board.config.id} did not start: see {board.log_path}")

    def end(self, board: VirtualBoard, number: int) -> None:
        with self._lock:
            self._boards.pop(id(board), None)
            board._kill(number)

    def _run(self) -> None:
        with self._lock:
            while True:
                while self._wanted:
                    board, cause = self._wanted[0]
                    try:
                        board.exit_status = None
                        board._spawn(cause)
                        self._boards[id(board)] = board
                    finally:
                        self._wanted.pop(0)
                        self._spawned.notify_all()
                now_s = time.monotonic()
                for board in list(self._boards.values()):
                    board._watch(now_s)
                self._spawned.wait(WATCH_S)


_SUPERVISOR = _Supervisor()


class BoardFleet:
    """Many boards under one directory. Use it as a context manager, or close() it."""

    def __init__(self, configs: Iterable[BoardConfig], root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.boards: dict[str, VirtualBoard] = {}
        for config in configs:
            if config.id in self.boards:
                raise ValueError(f"two boards are called {config.id!r}")
            self.boards[config.id] = VirtualBoard(config, root)

    def __enter__(self) -> BoardFleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, board_id: str) -> VirtualBoard:
        return self.boards[board_id]

    def start(self) -> None:
        """Power on all boards that are off."""
        for board in self.boards.values():
            if not board.running:
                board.start()

    def stop(self) -> None:
        """Power off all boards."""
        for board in self.boards.values():
            board.stop()

    def close(self) -> None:
        """Power off and let go of everything; directories and logs stay."""
        for board in self.boards.values():
            board.close()


def interpreter_folder() -> str:
    """Where the interpreter's extension module lies."""
    import importlib.util

    spec = importlib.util.find_spec("micropython_run")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("virtual boards need the 'sim' extra: pip install 'prestress[sim]'")
    return str(Path(spec.origin).parent)
