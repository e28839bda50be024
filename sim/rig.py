"""A whole simulated robot on this computer: broker, virtual boards, plant in real time, and the real daemon."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any

from onboard.cli.run import BROKER_VARIABLE
from onboard.errors import LinkError, PrestressError
from onboard.link.broker import EmbeddedBroker
from onboard.link.endpoint import Endpoint, parse_endpoint
from onboard.robot import RobotSpec
from onboard.runtime.control_socket import ask, refuse_a_second, socket_path
from sim.boards.commission import board_configs, commission
from sim.boards.launcher import BoardFleet
from sim.tower.feed import PlantClient, Report
from sim.usb.in_loop import BoardsInTheLoop, create_unread

READY_TIMEOUT_S = 120.0  # a first start compiles, maybe on a slow or busy computer
END_TIMEOUT_S = 10.0

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)  # loaded here: after a fork nothing may be


def _end_with_parent(parent: int) -> None:
    """In a child, before its program: a run that is killed takes daemon and plant along."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


class SimulatedRobot:
    """Starts and ends everything around one robot; use as a context manager.

    folder: logs, jails, recording. broker: a URL, or None for the embedded one. runtime: folder of the daemon's control
    socket (None: the user's own, so that `prestress status` finds it). daemon_options: more words for `prestress run`.
    boards: strut -> port of flashed boards that the plant feeds over USB in place of virtual ones.
    """

    report_kind: type[Any] = Report  # what its plant publishes

    def __init__(
        self,
        path: Path,
        spec: RobotSpec,
        folder: Path,
        *,
        seed: int = 0,
        broker: str | None = None,
        runtime: Path | None = None,
        daemon_options: tuple[str, ...] = (),
        boards: Mapping[str, str] | None = None,
    ) -> None:
        self.path, self.spec, self.folder, self.seed = path.resolve(), spec, folder.resolve(), seed
        self.recording = self.folder / "recording.mcap"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PrestressError(f"{self.folder}: cannot be made: {error.strerror}") from error
        self._given_url = broker
        self._url = parse_endpoint(broker) if broker else None
        self._broker: EmbeddedBroker | None = None
        self._runtime, self._daemon_options = runtime, daemon_options
        self.in_loop = BoardsInTheLoop(self.path, spec.struts, boards, seed, self.folder) if boards else None
        self.fleet: BoardFleet | None = None
        self.plant: PlantClient | None = None
        self.daemon: subprocess.Popen[bytes] | None = None
        self.plant_process: subprocess.Popen[bytes] | None = None
        self.daemon_ready_s = float("nan")  # from the daemon's start until it answers, kernels compiled and warm
        self._logs: list[IO[bytes]] = []
        self._claim = -1

    # --- life -------------------------------------------------------------------------------------------------------------

    def __enter__(self) -> SimulatedRobot:
        refuse_a_second(self._control_socket())
        try:
            self._claim_folder()
            if self.recording.exists():
                raise PrestressError(f"{self.folder}: holds the recording of another run; name a new folder")
            self.start_world()
            self.start_daemon()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_world(self) -> None:
        """Everything but the daemon."""
        self._claim_folder()
        if self.in_loop is not None:
            self.in_loop.find()  # before anything else is started
        if self._url is None:
            self._broker = EmbeddedBroker(self.spec.link.prefix, port=0)
            self._broker.start()
        real = self.in_loop.ports if self.in_loop is not None else ()
        self.fleet = BoardFleet(board_configs(self.spec, self.endpoint, self.seed, real), self.folder / "boards")
        if self.in_loop is not None:
            for name in self.in_loop.ports:
                create_unread(self.folder / "boards" / name)
        commission(self.spec, self.fleet)
        self.fleet.start()
        socket = self._short_socket()
        words = ["-m", "sim.realtime", str(self.path), "--boards", str(self.folder / "boards")]
        words += ["--socket", str(socket), "--seed", str(self.seed)]
        if self.in_loop is not None:
            words += self.in_loop.plant_words()
            self.in_loop.begin(self.endpoint)
        self.plant_process = self._spawn(words, "plant.log")
        self.plant = self._connect_plant(socket)

    def start_daemon(self, *, record: bool = True) -> None:
        """Start the daemon and wait until it answers."""
        words = self._daemon_words()
        if record:
            words += ["--record", str(self.recording)]
        self.daemon = self._spawn([*words, *self._daemon_options], "daemon.log")
        started = time.monotonic()
        deadline = started + READY_TIMEOUT_S
        while True:
            if self.daemon.poll() is not None:
                raise PrestressError(
                    f"the daemon ended at once (exit status {self.daemon.returncode}): {self.last_line('daemon.log')}"
                )
            # Another daemon of this robot, maybe the one that drives the real one, must not be taken for ours.
            if self._answering_process() == self.daemon.pid:
                self.daemon_ready_s = time.monotonic() - started
                return
            if time.monotonic() > deadline:
                raise PrestressError(
                    f"the daemon did not become ready within {READY_TIMEOUT_S:.0f} s; see {self.folder}/daemon.log"
                )
            time.sleep(0.05)

    def stop_daemon(self, number: int = signal.SIGTERM) -> int | None:
        """End the daemon by a signal and return its exit status."""
        if self.daemon is None:
            return None
        if self.daemon.poll() is None:
            self.daemon.send_signal(number)
        try:
            status = self.daemon.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.daemon.kill()
            status = self.daemon.wait()
        self.daemon = None
        return status

    def close(self) -> None:
        """End everything, daemon first."""
        self.stop_daemon()
        if self.plant is not None:
            self.plant.close()
        if self.plant_process is not None:
            self.plant_process.terminate()
            try:
                self.plant_process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.plant_process.kill()
                self.plant_process.wait()
        if self.in_loop is not None:
            self.in_loop.close()
        if self.fleet is not None:
            self.fleet.close()
        if self._broker is not None:
            self._broker.stop()
        for log in self._logs:
            log.close()
        if self._claim >= 0:
            os.close(self._claim)
            self._claim = -1

    # --- use --------------------------------------------------------------------------------------------------------------

    def ask(self, do: str, **fields: Any) -> dict[str, Any]:
        """A request to the daemon; raises what the daemon answers with."""
        return ask(self._control_socket(), {"do": do, **fields})

    def status(self) -> dict[str, Any]:
        """The daemon's status."""
        status: dict[str, Any] = self.ask("status")["status"]
        return status

    @property
    def endpoint(self) -> Endpoint:
        """The broker's address."""
        if self._url is not None:
            return self._url
        assert self._broker is not None
        return self._broker.endpoint

    @property
    def broker(self) -> EmbeddedBroker:
        """The embedded broker; raises PrestressError when another one is used."""
        if self._broker is None:
            raise PrestressError("this robot uses a broker of its own")
        return self._broker

    def ports(self) -> dict[str, str]:
        """Actuator board -> path of its serial line."""
        assert self.fleet is not None
        boards = self.spec.actuators.boards if self.spec.actuators else []
        return {board.id: self.fleet[board.id].port for board in boards}

    def last_line(self, log: str, about: str = "") -> str:
        """The last line of a log file that holds `about`, for messages."""
        path = self.folder / log
        text = path.read_text(errors="replace").strip() if path.exists() else ""
        lines = [line for line in text.splitlines() if about in line]
        return lines[-1] if lines else "nothing was logged"

    # --- inside -----------------------------------------------------------------------------------------------------------

    def _daemon_words(self) -> list[str]:
        """The daemon's command line, but for the recording."""
        words = ["-m", "onboard.cli.main", "run", str(self.path), "--hardware"]
        words += [word for board, port in self.ports().items() for word in ("--port", f"{board}={port}")]
        words += ["--postures", str(self.folder / "postures")]
        if self.in_loop is not None:
            words += [word for name in self.in_loop.ports for word in ("--fed", name)]
        return words

    def _spawn(self, words: list[str], log: str) -> subprocess.Popen[bytes]:
        file = (self.folder / log).open("ab")
        self._logs.append(file)
        # The URL is no word of the command line: others could read its password there.
        environment = {"OPENBLAS_NUM_THREADS": "1", **os.environ, BROKER_VARIABLE: self._daemon_url()}
        if self._runtime is not None:
            environment["XDG_RUNTIME_DIR"] = str(self._runtime)
        return subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # Ctrl-C reaches this process, which ends the others in order
            preexec_fn=partial(_end_with_parent, os.getpid()),
            env=environment,
        )

    def _claim_folder(self) -> None:
        """One run a folder: another one's boards would find their files exchanged."""
        if self._claim >= 0:
            return
        self._claim = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(self._claim, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PrestressError(f"{self.folder}: another run is using it; name a new folder") from None

    def _answering_process(self) -> int | None:
        """Which daemon answers at the control socket."""
        try:
            return int(self.status()["process"]["pid"])
        except LinkError:
            return None

    def _control_socket(self) -> Path:
        if self._runtime is None:
            return socket_path(self.spec.name)
        return self._runtime / "prestress" / f"{self.spec.name}.sock"

    def _short_socket(self) -> Path:
        """A path for the plant's socket that fits into a socket's address."""
        path = self.folder / "plant.sock"
        return path if len(os.fsencode(path)) < 100 else Path(f"/tmp/prestress-plant-{os.getpid()}-{id(self) % 10000}.sock")

    def _daemon_url(self) -> str:
        if self._given_url is not None:
            return self._given_url
        endpoint = self.endpoint
        secret = f"{endpoint.username}:{endpoint.password}@" if endpoint.username else ""
        return f"mqtt{'s' if endpoint.tls else ''}://{secret}{endpoint.host}:{endpoint.port}"

    def _connect_plant(self, socket: Path) -> PlantClient:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while True:
            assert self.plant_process is not None
            if self.plant_process.poll() is not None:
                raise PrestressError(f"the plant ended at once: {self.last_line('plant.log')}")
            if socket.exists():
                with contextlib.suppress(LinkError):
                    return PlantClient(socket, self.report_kind)
            if time.monotonic() > deadline:
                raise PrestressError(f"the plant did not start within {READY_TIMEOUT_S:.0f} s; see {self.folder}/plant.log")
            time.sleep(0.05)
