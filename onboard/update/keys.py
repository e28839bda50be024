"""The key pair that signs updates (Ed25519, by the openssl command): the private half signs here, boards hold the public half."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from onboard.errors import ConfigError, PrestressError, UsageError
from onboard.flash.private import check_private

PUBLIC_BYTES = 32
SIGNATURE_BYTES = 64
COMMAND_S = 30
# An Ed25519 public key in DER is this and the key itself (RFC 8410, section 10.1).
DER_HEAD = bytes.fromhex("302a300506032b6570032100")


def make_keys(private: Path) -> Path:
    """Make `private` (mode 0600) and the public half beside it, `.pub`; UsageError when either is there already."""
    public = private.with_suffix(".pub")
    for path in (private, public):
        if path.exists():
            raise UsageError(f"{path} is there already: boards that hold its public half take updates signed with it only")
    private.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    try:
        _openssl("genpkey", "-algorithm", "ed25519", "-out", private)
        public.write_bytes(_openssl("pkey", "-in", private, "-pubout"))
    except PrestressError:
        private.unlink(missing_ok=True)
        raise
    private.chmod(0o600)
    return public


def read_public(path: Path) -> bytes:
    """The 32 bytes of the public half in a `.pub` file; ConfigError for anything else, a private key too."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, ValueError) as error:
        raise ConfigError(str(path), "", "cannot be read as an update key; prestress update keygen makes one") from error
    if "PRIVATE" in text:
        raise ConfigError(str(path), "", "is the private half: name the .pub file, boards get nothing else")
    return _raw(_openssl("pkey", "-pubin", "-in", path, "-outform", "DER", problem=f"{path}: is no update key"), path)


class Signer:
    """Signs with the private key in a file that only its owner can read. Its text form shows the path alone."""

    def __init__(self, path: Path) -> None:
        check_private(path)
        self.path = path
        self.public = _raw(_openssl("pkey", "-in", path, "-pubout", "-outform", "DER", problem=f"{path}: is no update key"), path)

    def __repr__(self) -> str:
        return f"Signer({self.path})"

    def sign(self, message: bytes) -> bytes:
        """Signature (64 bytes) of `message`."""
        with tempfile.NamedTemporaryFile() as file:
            file.write(message)
            file.flush()
            signature = _openssl("pkeyutl", "-sign", "-rawin", "-inkey", self.path, "-in", Path(file.name))
        if len(signature) != SIGNATURE_BYTES:
            raise PrestressError(f"openssl made a signature of {len(signature)} bytes: version 3 or newer is needed")
        return signature


def _raw(der: bytes, path: Path) -> bytes:
    if not der.startswith(DER_HEAD) or len(der) != len(DER_HEAD) + PUBLIC_BYTES:
        raise ConfigError(str(path), "", "is no Ed25519 key; prestress update keygen makes one")
    return der[len(DER_HEAD) :]


def _openssl(*arguments: str | Path, problem: str = "") -> bytes:
    program = shutil.which("openssl")
    if program is None:
        raise PrestressError("signing updates needs the openssl command: install the package openssl of your system")
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=COMMAND_S, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise PrestressError(problem or f"openssl {arguments[0]} failed; version 3 or newer is needed for update keys")
    return done.stdout
