"""The control socket serves its owner, answers bad input with a clear error, and outlives killed daemons."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.errors import LinkError, PrestressError, SafetyError, UsageError
from onboard.runtime.control_socket import MAX_CLIENTS, MAX_LINE_BYTES, ControlSocket, ask, parse, socket_path

ROOT = Path(__file__).resolve().parents[2]


class Daemon:
    """A control socket in a thread of its own, as the daemon has it."""

    def __init__(self, path, handler):
        self.path, self.handler = path, handler
        self.errors = []

    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(lambda loop, context: self.errors.append(context))
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = ControlSocket(self.path, self.handler)
        try:
            self._do(self.server.start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._do(self.server.close())
        self._end()

    def _end(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(5.0)


def raw(path, data, expect_lines=1):
    """What comes back for raw bytes."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(5.0)
        client.connect(str(path))
        client.sendall(data)
        stream = client.makefile("rb")
        return [json.loads(stream.readline()) for _ in range(expect_lines)]


def echo(request):
    return {"echo": request}


def test_a_request_gets_its_reply_and_several_on_one_connection_keep_their_order(tmp_path):
    with Daemon(tmp_path / "robot.sock", echo):
        assert ask(tmp_path / "robot.sock", {"do": "go", "name": "grün"}) == {"echo": {"do": "go", "name": "grün"}}
        replies = raw(tmp_path / "robot.sock", b'{"do":"a"}\n{"do":"b"}\n{"do":"c"}\n', 3)
        assert [reply["echo"]["do"] for reply in replies] == ["a", "b", "c"]


def test_handlers_may_be_coroutines(tmp_path):
    async def handler(request):
        return {"did": request["do"]}

    with Daemon(tmp_path / "robot.sock", handler):
        assert ask(tmp_path / "robot.sock", {"do": "stop"}) == {"did": "stop"}


def test_only_its_owner_may_open_it(tmp_path):
    with Daemon(tmp_path / "run" / "robot.sock", echo):
        assert stat.S_IMODE((tmp_path / "run" / "robot.sock").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_user_is_refused_even_if_the_file_modes_let_him_in(tmp_path):
    path = tmp_path / "robot.sock"
    with Daemon(path, echo):
        for part in (path, *path.parents[:3]):
            part.chmod(0o777)
        code = (
            "import os, socket, sys; os.setgid(65534); os.setuid(65534); s = socket.socket(socket.AF_UNIX); "
            's.connect(sys.argv[1]); s.sendall(b\'{"do": "arm"}\\n\'); sys.stdout.write(s.makefile().readline())'
        )
        out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, timeout=20, check=False)
    if "PermissionError" in out.stderr:
        pytest.skip("the temporary folder is closed to other users")
    reply = json.loads(out.stdout)
    assert reply["ok"] is False and "only the user" in reply["error"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (b"\n", "one line of JSON"),
        (b"arm\n", "one line of JSON"),
        (b'{"do": "arm"\n', "one line of JSON"),
        (b"\xff\xfe\n", "one line of JSON"),
        (b"[1, 2]\n", 'the key "do"'),
        (b'{"go": "arm"}\n', 'the key "do"'),
        (b'{"do": 7}\n', 'the key "do"'),
        (b'{"do": "goal", "x": NaN}\n', "not a number"),
        (b'{"do": "goal", "x": -Infinity}\n', "not a number"),
        (b"[" * 60000 + b"\n", "one line of JSON"),
    ],
)
def test_bad_input_is_answered_with_what_is_wrong_and_the_connection_lives_on(tmp_path, line, what):
    with Daemon(tmp_path / "robot.sock", echo) as daemon:
        bad, good = raw(tmp_path / "robot.sock", line + b'{"do": "status"}\n', 2)
        assert bad["ok"] is False and what in bad["error"]
        assert good["ok"] is True
        assert daemon.errors == []


def test_an_oversized_request_is_refused_and_costs_no_memory(tmp_path):
    with Daemon(tmp_path / "robot.sock", echo):
        (reply,) = raw(tmp_path / "robot.sock", b'{"do": "' + b"x" * (MAX_LINE_BYTES + 10))
        assert reply["ok"] is False and str(MAX_LINE_BYTES) in reply["error"]
        assert ask(tmp_path / "robot.sock", {"do": "status"})["echo"]


def test_refusals_come_back_as_what_they_are(tmp_path):
    def handler(request):
        raise {"arm": SafetyError("arm is refused: stop is pressed"), "go": UsageError("no posture")}[request["do"]]

    with Daemon(tmp_path / "robot.sock", handler):
        with pytest.raises(SafetyError, match="stop is pressed"):
            ask(tmp_path / "robot.sock", {"do": "arm"})
        with pytest.raises(PrestressError, match="no posture"):
            ask(tmp_path / "robot.sock", {"do": "go"})


def test_an_error_in_the_handler_is_reported_and_the_daemon_lives_on(tmp_path):
    def handler(request):
        return {"value": 1 // request["by"]}

    with Daemon(tmp_path / "robot.sock", handler) as daemon:
        with pytest.raises(PrestressError, match="ZeroDivisionError"):
            ask(tmp_path / "robot.sock", {"do": "divide", "by": 0})
        assert ask(tmp_path / "robot.sock", {"do": "divide", "by": 1}) == {"value": 1}
        assert len(daemon.errors) == 1


def test_too_many_clients_are_turned_away_and_places_come_back(tmp_path):
    path = tmp_path / "robot.sock"
    with Daemon(path, echo):
        idle = []
        for _ in range(MAX_CLIENTS):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(path))
            client.sendall(b'{"do": "status"}\n')
            client.recv(1000)
            idle.append(client)
        with pytest.raises(PrestressError, match="clients"):
            ask(path, {"do": "status"})
        for client in idle:
            client.close()
        for _ in range(100):
            try:
                assert ask(path, {"do": "status"})["echo"]
                break
            except PrestressError:
                continue
        else:
            pytest.fail("places never came back")


def test_without_a_daemon_the_client_says_how_to_start_one(tmp_path):
    with pytest.raises(LinkError, match="prestress run manipulator"):
        ask(tmp_path / "manipulator.sock", {"do": "status"})


def test_a_daemon_that_hangs_is_given_up_on(tmp_path):
    async def handler(request):
        await asyncio.sleep(30.0)
        return {}

    with Daemon(tmp_path / "robot.sock", handler), pytest.raises(LinkError, match="does not answer"):
        ask(tmp_path / "robot.sock", {"do": "status"}, timeout_s=0.2)


def test_a_second_daemon_for_the_same_robot_is_refused_and_the_first_goes_on(tmp_path):
    path = tmp_path / "robot.sock"
    with Daemon(path, echo):
        with pytest.raises(SafetyError, match=f"runs already \\(process {os.getpid()}\\)"), Daemon(path, echo):
            pass
        assert ask(path, {"do": "status"})["echo"]


def test_the_socket_of_a_killed_daemon_is_replaced(tmp_path):
    path = tmp_path / "robot.sock"
    code = (
        "import asyncio, sys, pathlib\n"
        "from onboard.runtime.control_socket import ControlSocket\n"
        "async def main():\n"
        "    await ControlSocket(pathlib.Path(sys.argv[1]), lambda r: {}).start()\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    victim = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, cwd=ROOT)
    assert victim.stdout.readline() == b"up\n"
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    victim.stdout.close()
    assert path.exists()
    with pytest.raises(LinkError, match="no daemon"):
        ask(path, {"do": "status"})
    with Daemon(path, echo):
        assert ask(path, {"do": "status"})["echo"]
    assert not path.exists()


def test_a_path_too_long_for_a_socket_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(LinkError, match="XDG_RUNTIME_DIR"), Daemon(tmp_path / ("x" * 120) / "robot.sock", echo):
        pass


def test_sockets_live_in_the_sessions_runtime_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert socket_path("worm") == tmp_path / "prestress" / "worm.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert socket_path("worm") == tmp_path / "state" / "prestress" / "run" / "worm.sock"


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data):
    try:
        request = parse(data)
    except LinkError:
        return
    assert isinstance(request["do"], str)
