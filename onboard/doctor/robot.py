"""What `prestress doctor` checks for one robot: its file, kernels, models, serial ports, certificates, broker, daemon."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Any

import aiomqtt

from onboard.clock import WallClock
from onboard.doctor.check import Check, advice, bad, good
from onboard.errors import LinkError, MissingExtraError, PrestressError
from onboard.flash.certs import check as check_certificates
from onboard.flash.found import find_boards
from onboard.flash.robot_boards import BoardRobot
from onboard.link.endpoint import Endpoint
from onboard.resources import root
from onboard.robot import RobotSpec
from onboard.robot_kinds import DescribedRobot, load_any
from onboard.runtime.control_socket import ask, socket_path
from onboard.runtime.warmup import warm_up

COLD_S, WARM_S = 20.0, 4.0
BROKER_TIMEOUT_S = 5.0


def robot_files(path: Path | None) -> tuple[Check, RobotSpec | DescribedRobot | None]:
    """The robot's file, or all that come with the product."""
    paths = [path] if path else sorted((root() / "robots").glob("*.toml"))
    problems, left_out, robot = [], [], None
    for one in paths:
        try:
            robot = load_any(one)
        except MissingExtraError as error:
            left_out.append(f"{one.stem} ({error})")
        except PrestressError as error:
            problems.append(str(error))
    if problems:
        return bad("robot file", "; ".join(problems)), None
    names = ", ".join(one.stem for one in paths)
    return good("robot file", f"{names}: good" + "".join(f"; not read: {text}" for text in left_out)), robot if path else None


def kernels(spec: RobotSpec) -> Check:
    """Compiles what the control path runs, so that the robot's next start is a warm one."""
    clock = WallClock()
    start_s = clock.now_s()
    warm_up(spec)
    took_s = clock.now_s() - start_s
    if took_s > COLD_S:
        return advice("kernels", f"took {took_s:.1f} s to compile: more than {COLD_S:.0f} s; a slow or busy computer")
    return good(
        "kernels", f"ready in {took_s:.1f} s" + (" (compiled anew; the next start is quicker)" if took_s > WARM_S else "")
    )


def models(folder: Path | None = None) -> Check:
    """The bytes of every learned model are those that its manifest vouches for."""
    problems, count = [], 0
    for path in sorted((folder or root() / "models_onnx").rglob("*.json")):
        try:
            manifest: Any = json.loads(path.read_bytes())
        except ValueError as error:
            problems.append(f"{path}: is not JSON: {error}")
            continue
        if not isinstance(manifest, dict) or not {"file", "onnx_sha256"} <= set(manifest):
            continue  # a primitive library or a report
        count += 1
        model = path.with_name(Path(str(manifest["file"])).name)
        if not model.is_file():
            problems.append(f"{model}: is missing")
        elif hashlib.sha256(model.read_bytes()).hexdigest() != manifest["onnx_sha256"]:
            problems.append(f"{model}: is not the file that {path.name} vouches for: damaged or changed")
    if problems:
        return bad("models", "; ".join(problems))
    return good("models", f"{count} with the bytes of their manifests")


def serial_ports(spec: BoardRobot | None) -> Check:
    """The actuator boards' ports, or whatever boards are on USB."""
    found = [str(board) for board in find_boards()]
    boards = spec.actuators.boards if spec is not None and spec.actuators else []
    wanted = {board.id: board.port for board in boards if board.port}
    for board, port in wanted.items():
        if not Path(port).exists():
            return bad("serial ports", f"{board}: there is no {port}; on USB now: {', '.join(found) or 'no board'}")
        if not os.access(port, os.R_OK | os.W_OK):
            return bad("serial ports", f"{board}: no permission for {port}; add yourself to the group dialout, then log in anew")
    if boards and not wanted:
        return advice(
            "serial ports", f"the file names none for {len(boards)} boards; on USB now: {', '.join(found) or 'no board'}"
        )
    return good("serial ports", f"{', '.join(wanted.values()) or 'none needed'}; on USB now: {', '.join(found) or 'no board'}")


def certificates(folder: Path, spec: BoardRobot, hosts: list[str]) -> Check:
    """Dates, names, keys and modes of a folder that `prestress certs` made."""
    problems = [f"{one.name}: {one.problem}" for one in check_certificates(folder, spec.struts, hosts) if one.problem]
    if problems:
        return bad("certificates", f"{'; '.join(problems)} -> prestress certs")
    return good("certificates", f"{folder}: authority, broker and {len(spec.struts)} boards")


def broker(endpoint: Endpoint) -> Check:
    """Signing in at the broker works."""
    asyncio.run(_sign_in(endpoint))
    return good("broker", f"{endpoint}: signed in")


async def _sign_in(endpoint: Endpoint) -> None:
    client = aiomqtt.Client(
        endpoint.host,
        endpoint.port,
        username=endpoint.username,
        password=endpoint.password,
        tls_context=endpoint.tls_context(),
        timeout=BROKER_TIMEOUT_S,
    )
    try:
        async with asyncio.timeout(BROKER_TIMEOUT_S + 1.0), client:
            pass
    except (aiomqtt.MqttError, OSError, TimeoutError) as error:
        raise LinkError(f"{endpoint}: {error or 'no answer'}: is it running, are address, user and password right?") from error


def daemon(spec: BoardRobot) -> Check:
    """Whether this robot's daemon runs already, and who may talk to it."""
    path = socket_path(spec.name)
    try:
        state = ask(path, {"do": "status"})["status"]["state"]
    except LinkError:
        return good("daemon", f"{spec.name} is not running; its socket will be {path}")
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        return bad("daemon", f"{path} has mode {mode:04o}: others may arm the robot; chmod 600 {path}")
    return good("daemon", f"{spec.name} runs, {state}")
