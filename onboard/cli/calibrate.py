"""`prestress calibrate ROBOT`: sensor errors from a recording of held poses, or guided on a running, disarmed robot."""

from __future__ import annotations

import argparse
from pathlib import Path

import msgspec

from onboard.calibration.file import Calibration, dated, encode
from onboard.calibration.guide import guide
from onboard.calibration.make import make
from onboard.calibration.solve import MIN_POSES
from onboard.calibration.stills import stills_of
from onboard.cli.catalog import Run
from onboard.clock import WallClock
from onboard.errors import CalibrationError, UsageError
from onboard.resources import robot_file
from onboard.robot import RobotSpec, load_robot
from onboard.runtime.control_socket import ask, socket_path
from onboard.telemetry.reader import Recording, open_recording


def add(parser: argparse.ArgumentParser) -> Run:
    """Arguments of the verb."""
    parser.add_argument("robot", help="a robot's name or the path of its TOML file")
    parser.add_argument("--recording", type=Path, metavar="FILE", help="of held poses, disarmed (else: guided, on its daemon)")
    parser.add_argument(
        "--poses", type=int, default=8, help=f"guided: how many poses, {MIN_POSES} .. 50, the upright one included"
    )
    parser.add_argument("--limit", type=float, default=600.0, metavar="S", help="guided: give up after this long")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the calibration (default: ROBOT_DATE.calibration.json)")
    parser.add_argument("--json", action="store_true", help="print one JSON object on the last line")
    return run


def run(args: argparse.Namespace) -> int:
    """Find, write and say it; CalibrationError (exit status 2) when the poses do not suffice or something moved."""
    clock = WallClock()
    spec = load_robot(robot_file(args.robot))
    if not MIN_POSES <= args.poses <= 50:
        raise UsageError(f"--poses {args.poses}: must lie in {MIN_POSES} .. 50")
    if not 1.0 <= args.limit <= 86_400.0:
        raise UsageError(f"--limit {args.limit}: must lie in 1 .. 86400 s")
    made = dated(clock.wall_ns())
    stem = f"{spec.name}_{made.replace(':', '')}"
    out = args.out or Path(f"{stem}.calibration.json")
    if out.exists():
        raise UsageError(f"{out}: exists already; name another file")
    path = args.recording
    if path is None:
        path = Path(f"{stem}.mcap").absolute()
        guide(spec, path, args.poses, args.limit, lambda **fields: ask(socket_path(spec.name), fields), clock)
    calibration = make(spec, stills_of(_of_this_robot(path, spec), spec), made)
    out.write_bytes(encode(calibration))
    _show(args, calibration, out)
    return 0


def _of_this_robot(path: Path, spec: RobotSpec) -> Recording:
    recording = open_recording(path)
    if recording.metadata.get("physics_hash") != spec.physics_hash:
        raise CalibrationError(f"{path}: is a recording of {recording.metadata.get('robot')}, or of this robot before it changed")
    return recording


def _show(args: argparse.Namespace, found: Calibration, out: Path) -> None:
    if args.json:
        fields = {"file": str(out), "poses": found.poses, "made": found.made}
        fields |= {"residual_before_deg": found.residual_before_deg, "residual_after_deg": found.residual_after_deg}
        print(msgspec.json.encode(fields).decode())
        return
    for name, strut in found.struts.items():
        words = "  ".join(
            f"{what} {values[0]:+.4f} {values[1]:+.4f} {values[2]:+.4f}"
            for what, values in (("axis", strut.axis), ("accel", strut.accel_bias_m_s2), ("gyro", strut.gyro_bias_rad_s))
        )
        print(f"{name}  {words}")
    print(f"inclination unexplained: {found.residual_before_deg} -> {found.residual_after_deg} degrees RMS, {found.poses} poses")
    print(f"written to {out}; use it with prestress run {found.robot} --hardware --calibration {out}")
