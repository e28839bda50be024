"""The live view shows what a real daemon says, to this computer's browser only; arming needs the token, stopping does not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from onboard.cli.main import main
from onboard.errors import LinkError
from onboard.resources import root
from onboard.robot import load_robot
from onboard.runtime.control_socket import ask, socket_path
from onboard.view.geometry import scene

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
RIG = load_robot(root() / "robots" / "module_rig.toml")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """(host:port, token) of the view of a real daemon, whose struts are all missing."""
    folder = tmp_path_factory.mktemp("view")
    before = os.environ.get("XDG_RUNTIME_DIR")
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    words = ["run", "module_rig", "--hardware", "--postures", str(folder / "postures")]
    daemon = subprocess.Popen([sys.executable, "-m", "onboard.cli.main", *words], stderr=subprocess.DEVNULL)
    view = subprocess.Popen(
        [sys.executable, "-m", "onboard.cli.main", "view", "module_rig", "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert view.stdout is not None
        address = view.stdout.readline().strip()
        host, _, token = address.removeprefix("http://").partition("/#token=")
        deadline = time.monotonic() + 60.0
        while True:
            try:
                ask(socket_path("module_rig"), {"do": "status"})
                break
            except LinkError:
                assert time.monotonic() < deadline and daemon.poll() is None
                time.sleep(0.1)
        yield host, token
        view.terminate()
        assert view.wait(10.0) == 0
    finally:
        for process in (view, daemon):
            process.kill()
            process.wait()
        if before is None:
            del os.environ["XDG_RUNTIME_DIR"]
        else:
            os.environ["XDG_RUNTIME_DIR"] = before


def get(host: str, path: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{host}{path}", headers=headers), timeout=10.0) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def talk(host: str, *messages: str, frames: int = 0) -> list[dict[str, Any]]:
    """The scene, then `frames` frames, then the answers to `messages`."""
    found: list[dict[str, Any]] = []
    async with connect(f"ws://{host}/live", origin=f"http://{host}", open_timeout=10.0) as line, asyncio.timeout(30.0):
        found.append(json.loads(await line.recv()))
        while sum(one["kind"] == "frame" for one in found) < frames:
            found.append(json.loads(await line.recv()))
        for message in messages:
            await line.send(message)
            while (answer := json.loads(await line.recv()))["kind"] != "answer":
                pass
            found.append(answer)
    return found


def test_the_page_its_script_and_style_are_served_and_nothing_else(page: tuple[str, str]) -> None:
    host, _ = page
    for path, text in (("/", "<canvas"), ("/view.js", "WebSocket"), ("/style.css", "--estimate")):
        status, body = get(host, path)
        assert status == 200 and text in body
    for path in ("/../cli/view.py", "/view.py", "/page/view.js", "//etc/passwd"):
        assert get(host, path)[0] == 404


def test_a_foreign_host_name_or_page_is_refused(page: tuple[str, str]) -> None:
    host, _ = page
    assert get(host, "/", Host="robots.example.com")[0] == 403  # a name somebody pointed at this computer

    async def from_elsewhere(origin: str | None) -> None:
        async with connect(f"ws://{host}/live", origin=origin):  # type: ignore[arg-type]
            pass

    for origin in ("http://robots.example.com", f"https://{host}", None):
        with pytest.raises(InvalidStatus, match="403"):
            asyncio.run(from_elsewhere(origin))


def test_frames_tell_the_daemons_state(page: tuple[str, str]) -> None:
    first, *rest = asyncio.run(talk(page[0], frames=30))
    assert first["kind"] == "scene" and first["robot"] == "module_rig"
    assert {one["state"] for one in rest} == {"disarmed"}
    times = [one["t_s"] for one in rest]
    assert times == sorted(times)
    statuses = [one["status"] for one in rest if "status" in one]
    assert statuses and statuses[0]["struts"]["online"] == 0


def test_only_stop_works_without_the_token(page: tuple[str, str]) -> None:
    host, token = page
    say = [json.dumps({"do": what, "token": "guess"}) for what in ("arm", "disarm", "reset")]
    for answer in asyncio.run(talk(host, *say))[1:]:
        assert answer["refused"] and "needs the token" in answer["line"]
    with_token = asyncio.run(talk(host, json.dumps({"do": "arm", "token": token})))[-1]
    assert "needs the token" not in with_token["line"]  # it reached the daemon, which has its own say
    stopped = asyncio.run(talk(host, json.dumps({"do": "stop"})))[-1]
    assert not stopped["refused"], stopped
    asyncio.run(talk(host, json.dumps({"do": "reset", "token": token})))


@pytest.mark.parametrize("message", ["", "{", "[]", "7", "{}", '{"do": "quit"}', '{"do": ["arm"]}', '{"do": null, "token": 1}'])
def test_messages_without_sense_are_answered_and_change_nothing(page: tuple[str, str], message: str) -> None:
    answer = asyncio.run(talk(page[0], message))[-1]
    assert answer == {"kind": "answer", "line": "not understood", "refused": True}


async def browse(debugger: str, url: str) -> tuple[str, bytes]:
    """What a headless browser shows of `url` once frames have come: its text, and a screenshot."""
    async with connect(debugger, max_size=None) as line, asyncio.timeout(40.0):

        async def call(method: str, **params: Any) -> dict[str, Any]:
            await line.send(json.dumps({"id": 1, "method": method, "params": params}))
            while (answer := json.loads(await line.recv())).get("id") != 1:
                pass
            return dict(answer["result"])

        await call("Page.navigate", url=url)
        text = ""
        while "online" not in text or "frames/s" not in text:
            await asyncio.sleep(0.2)
            text = str((await call("Runtime.evaluate", expression="document.body.innerText"))["result"].get("value", ""))
        return text, base64.b64decode((await call("Page.captureScreenshot"))["data"])


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
def test_a_browser_draws_it(page: tuple[str, str], tmp_path: Path) -> None:
    host, token = page
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,800", f"--user-data-dir={tmp_path / 'profile'}"]
    browser = subprocess.Popen(
        [str(CHROMIUM), *words, "--remote-debugging-port=0", "about:blank"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert browser.stderr is not None
        line = next(line for line in browser.stderr if "DevTools listening on" in line)
        port = line.split("ws://127.0.0.1:")[1].split("/")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=10.0) as answer:
            tab = next(one for one in json.load(answer) if one["type"] == "page")
        text, picture = asyncio.run(browse(tab["webSocketDebuggerUrl"], f"http://{host}/#token={token}"))
    finally:
        browser.terminate()
        browser.wait(10.0)
    assert RIG.robot.title in text and "disarmed" in text and "0 of 4 online" in text
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000


def test_the_scene_draws_struts_and_cables_at_their_lengths() -> None:
    for name in ("manipulator", "module_rig"):
        spec = load_robot(root() / "robots" / f"{name}.toml")
        found, tower = scene(spec), spec.structure
        place = np.array([[x, y, z + disc * tower.module_height_m] for disc, x, y, z in found["joints"]])
        strut = np.array(found["struts"])
        assert np.linalg.norm(place[strut[:, 1]] - place[strut[:, 0]], axis=1) == pytest.approx(tower.strut_length_m, abs=1e-5)
        assert len(found["cables"]) == tower.cable_count
        assert all(len({round(place[j][2], 6) for j in ring}) == 1 for ring in found["rings"])


@pytest.mark.parametrize(
    "words", [["--rate", "0"], ["--rate", "nan"], ["--port", "70000"], ["--address", "robot"], ["--address", "0.0.0.0"]]
)
def test_wrong_words_are_refused(words: list[str]) -> None:
    assert main(["view", "module_rig", *words]) == 2


def test_a_port_that_is_taken_is_named(page: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    port = page[0].rpartition(":")[2]
    assert main(["view", "module_rig", "--port", port]) == LinkError.exit_code
    assert f"port {port}" in capsys.readouterr().err


def test_the_terminal_view_says_the_same(page: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["view", "module_rig", "--terminal"]) == 0
    assert "0 of 4 online" in capsys.readouterr().out
