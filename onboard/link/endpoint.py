"""Where the broker is: `mqtt://[user:password@]host[:port]` or `mqtts://...?ca=FILE&cert=FILE`, the secret kept out of sight."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from onboard.errors import UsageError

FILES = {"ca": "CA file", "cert": "certificate", "key": "key"}  # in the order of Endpoint's fields
PORTS = {"mqtt": 1883, "mqtts": 8883}
EXAMPLE = "write mqtt://[user:password@]host[:port], or mqtts://host?ca=FILE[&cert=FILE&key=FILE] with TLS"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A broker's address and how to sign in there. `str()` of it never shows the password."""

    host: str
    port: int
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None

    def __str__(self) -> str:
        user = f"{self.username}@" if self.username else ""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"mqtt{'s' if self.tls else ''}://{user}{host}:{self.port}"

    def tls_context(self) -> ssl.SSLContext | None:
        """TLS 1.2 or newer with the host name checked; None without TLS. Raises UsageError for a bad CA file."""
        if not self.tls:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(f"broker {self}: the CA file {self.ca_file} cannot be used: {error}") from error
        if self.cert_file is not None:
            try:
                context.load_cert_chain(self.cert_file, self.key_file)
            except (OSError, ssl.SSLError) as error:
                text = f"broker {self}: certificate {self.cert_file} with key {self.key_file} cannot be used: {error}"
                raise UsageError(text) from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context


def parse_endpoint(url: str) -> Endpoint:
    """The endpoint that `url` names; UsageError says what is wrong, never quoting the part that holds the password."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise UsageError(f"broker URL: {EXAMPLE}") from error
    shown = f"broker URL {parts.scheme}://{host or ''}"
    if parts.scheme not in PORTS:
        raise UsageError(f"{shown}: the scheme must be mqtt or mqtts; {EXAMPLE}")
    if not host or parts.path not in ("", "/") or parts.fragment:
        raise UsageError(f"{shown}: needs a host and no path; {EXAMPLE}")
    if port == 0:
        raise UsageError(f"{shown}: port 0 cannot be connected to")
    query = parse_qs(parts.query, keep_blank_values=True)
    if set(query) - set(FILES) or any(len(values) > 1 for values in query.values()):
        raise UsageError(f"{shown}: knows the options ca=FILE, cert=FILE and key=FILE, each once")
    tls, files = parts.scheme == "mqtts", {name: query.get(name, [None])[0] for name in FILES}
    for name, file in files.items():
        if file is not None and not tls:
            raise UsageError(f"{shown}: {name}=FILE needs mqtts")
        if file is not None and not Path(file).is_file():
            raise UsageError(f"{shown}: there is no {FILES[name]} {file}")
    if files["key"] is not None and files["cert"] is None:
        raise UsageError(f"{shown}: key=FILE needs cert=FILE")
    if files["cert"] is not None and files["key"] is None:
        files["key"] = str(Path(files["cert"]).with_suffix(".key"))  # where prestress certs puts it
    username = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    if password is not None and not username:
        raise UsageError(f"{shown}: a password needs a user name")
    return Endpoint(host, port or PORTS[parts.scheme], username or None, password, tls, *files.values())
