"""Certificates for broker, daemon and boards, made and checked by the openssl command: one authority, one certificate a name.

Elliptic keys on P-256: a board's handshake with them takes a fraction of RSA's time and memory. Keys have mode 0600. The
authority's key is needed only to make more certificates: keep it off the robot.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onboard.errors import ConfigError, PrestressError, UsageError

AUTHORITY = "ca"
BROKER = "broker"
DAEMON = "daemon"  # the robot's computer: the only user who may command boards
WARN_DAYS = 30
COMMAND_S = 30
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.:\-]{0,252}$")
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@dataclass(frozen=True, slots=True)
class Checked:
    """One certificate of a folder. problem: empty when it is good for WARN_DAYS more."""

    name: str
    file: str
    problem: str


def make(folder: Path, boards: Sequence[str], broker_names: Sequence[str], days: int) -> list[str]:
    """Make what the folder lacks: authority, broker, daemon, a certificate for every board; the names of those that were made.

    broker_names: host names and addresses under which boards and host reach the broker.
    """
    for name in (*boards, *broker_names):
        if not NAME.match(name):
            raise UsageError(f"{name!a}: is no name for a certificate (letters, digits and _ . : - only)")
    if not broker_names and not (folder / f"{BROKER}.pem").exists():
        raise UsageError("certs needs --host NAME: the name or address under which boards reach the broker")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = []
    if not (folder / f"{AUTHORITY}.pem").exists():
        _authority(folder, days)
        made.append(AUTHORITY)
    elif not (folder / f"{AUTHORITY}.key").exists():
        raise ConfigError(str(folder), f"{AUTHORITY}.key", "is missing: without it no certificate can be made here")
    if not (folder / f"{BROKER}.pem").exists():
        names = ",".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in broker_names)
        _signed(folder, BROKER, days, f"subjectAltName={names}\nextendedKeyUsage=serverAuth\n")
        made.append(BROKER)
    for board in (DAEMON, *boards):
        if not (folder / f"{board}.pem").exists():
            _signed(folder, board, days, "extendedKeyUsage=clientAuth\n")
            made.append(board)
    return made


def check(folder: Path, boards: Sequence[str], broker_names: Sequence[str] = ()) -> list[Checked]:
    """Look at every certificate: there, by this authority, in time, of the right name, its key private and its own."""
    authority = folder / f"{AUTHORITY}.pem"
    found = [Checked(AUTHORITY, str(authority), _problem(folder, AUTHORITY, [], needs_key=False))]
    found += [Checked(BROKER, str(folder / f"{BROKER}.pem"), _problem(folder, BROKER, broker_names))]
    return found + [Checked(board, str(folder / f"{board}.pem"), _problem(folder, board, [])) for board in (DAEMON, *boards)]


def _problem(folder: Path, name: str, hosts: Sequence[str], needs_key: bool = True) -> str:
    pem, key = folder / f"{name}.pem", folder / f"{name}.key"
    if not pem.exists():
        return "is missing"
    if key.exists():
        mode = stat.S_IMODE(key.stat().st_mode)
        if mode & 0o077:
            return f"its key has mode {mode:04o}: others can read it; run chmod 600 {key}"
        if _openssl("pkey", "-in", key, "-pubout") != _openssl("x509", "-in", pem, "-noout", "-pubkey"):
            return "its key belongs to another certificate"
    elif needs_key:
        return "its key is missing"
    end = _openssl("x509", "-in", pem, "-noout", "-enddate").strip().removeprefix("notAfter=")
    if not _says_yes("x509", "-in", pem, "-noout", "-checkend", "0"):
        return f"has run out: {end}"
    if not _says_yes("verify", "-CAfile", folder / f"{AUTHORITY}.pem", pem):
        return "is not by the authority of this folder"
    if name != AUTHORITY and _common_name(pem) != name:
        return f"bears another name than {name}"
    for host in hosts:
        option = "-checkip" if _is_address(host) else "-checkhost"
        if "does match" not in _openssl("x509", "-in", pem, "-noout", option, host):
            return f"is not for the host {host}"
    if not _says_yes("x509", "-in", pem, "-noout", "-checkend", str(WARN_DAYS * 86_400)):
        return f"runs out soon: {end}"
    return ""


def _common_name(pem: Path) -> str:
    """The subject's CN, empty when the subject has more than this one name or none."""
    lines = _openssl("x509", "-in", pem, "-noout", "-subject", "-nameopt", "multiline,-esc_msb,utf8").splitlines()[1:]
    named = [line.strip().partition("=") for line in lines]
    return named[0][2].strip() if len(named) == 1 and named[0][0].strip() == "commonName" else ""


def _authority(folder: Path, days: int) -> None:
    key, pem = folder / f"{AUTHORITY}.key", folder / f"{AUTHORITY}.pem"
    extensions = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    _make_private(key, "req", "-x509", *CURVE, "-out", pem, "-days", str(days), "-subj", "/CN=prestress authority", *extensions)


def _signed(folder: Path, name: str, days: int, extensions: str) -> None:
    """A key, and a certificate for it by the authority; the certificate appears last, so that it means both are there."""
    key, pem = folder / f"{name}.key", folder / f"{name}.pem"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        request, options, fresh = Path(scratch) / "request", Path(scratch) / "extensions", Path(scratch) / "pem"
        options.write_text(extensions + "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n")
        _make_private(key, "req", *CURVE, "-out", request, "-subj", f"/CN={name}")
        authority = ("-CA", folder / f"{AUTHORITY}.pem", "-CAkey", folder / f"{AUTHORITY}.key")
        serial = ("-set_serial", f"0x{os.urandom(15).hex()}")
        _openssl("x509", "-req", "-in", request, *authority, *serial, "-extfile", options, "-days", str(days), "-out", fresh)
        fresh.chmod(0o644)
        fresh.replace(pem)


def _make_private(key: Path, *arguments: str | Path) -> None:
    """Let openssl write a key into a file that was private before it had content."""
    key.unlink(missing_ok=True)
    os.close(os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    _openssl(*arguments, "-keyout", key)
    if stat.S_IMODE(key.stat().st_mode) & 0o077:
        key.chmod(0o600)


def _openssl(*arguments: str | Path) -> str:
    done = _run(arguments)
    if done.returncode:
        raise PrestressError(
            f"openssl {arguments[0]}: {done.stderr.strip().splitlines()[-1] if done.stderr.strip() else 'failed'}"
        )
    return done.stdout


def _says_yes(*arguments: str | Path) -> bool:
    return _run(arguments).returncode == 0


def _run(arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
    program = shutil.which("openssl")
    if program is None:
        raise PrestressError("certificates need the openssl command: install the package openssl of your system")
    command = [program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_S, stdin=subprocess.DEVNULL)


def _is_address(name: str) -> bool:
    return bool(re.fullmatch(r"[0-9.]+|[0-9A-Fa-f:]*:[0-9A-Fa-f:]*", name))
