"""Strict TOML: every refusal names the file, the key, the value and what would be right."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from onboard.errors import ConfigError

T = TypeVar("T")
MAX_FILE_BYTES = 1_000_000
MAX_KEY_PARTS = 64
_UNITS = (
    "_m",
    "_deg",
    "_rad",
    "_kg",
    "_s",
    "_ms",
    "_hz",
    "_pa",
    "_n",
    "_m2",
    "_pa_per_s",
    "_n_per_m",
    "_n_s_per_m",
    "_n_m_s_per_rad",
)


class Section(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """Base of all configuration sections: unknown keys are errors, values cannot change after loading."""


def read_toml(path: Path) -> dict[str, Any]:
    """The file as nested dicts; refuses what is not UTF-8 TOML, non-finite numbers and oversized files."""
    return parse_toml(str(path), read_text(path))


def read_text(path: Path) -> str:
    """The file's text; refuses what is not UTF-8, starts with a byte order mark or is oversized."""
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(name, "", f"cannot be read: {error.strerror}") from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(name, "", f"has more than {MAX_FILE_BYTES} bytes; no robot's file is that long")
    if data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(name, "", "starts with a byte order mark; save it as plain UTF-8")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(name, "", f"is not UTF-8 (byte {error.start})") from error


def parse_toml(name: str, text: str) -> dict[str, Any]:
    """TOML text as nested dicts; errors name the file `name`."""
    try:
        _refuse_deep_keys(name, text)
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(name, "", f"is not valid TOML: {error}") from error
    except (RecursionError, ValueError) as error:
        raise ConfigError(name, "", f"cannot be parsed: {error}") from error
    _refuse_non_finite(name, "", raw)
    return raw


def convert(file: str, key: str, raw: Any, kind: type[T]) -> T:
    """`raw` as the section type `kind`; `key` is where the section stands in the file."""
    try:
        return msgspec.convert(raw, kind, strict=True)
    except msgspec.ValidationError as error:
        raise _explain(file, key, raw, kind, str(error)) from None


def _refuse_deep_keys(file: str, text: str) -> None:
    """The parser's time grows with the square of a dotted key's parts: a file of 100 kB could hold it up for minutes."""
    for number, line in enumerate(text.splitlines(), start=1):
        key = line.partition("=")[0]
        if key.count(".") > MAX_KEY_PARTS and not {",", "#"} & set(key):
            raise ConfigError(file, f"line {number}", f"a key has more than {MAX_KEY_PARTS} parts")


def _refuse_non_finite(file: str, key: str, value: Any) -> None:
    if isinstance(value, dict):
        for name, item in value.items():
            _refuse_non_finite(file, f"{key}.{name}" if key else name, item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _refuse_non_finite(file, f"{key}[{index}]", item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(file, key, f"is {value}, must be a finite number")


def _explain(file: str, key: str, raw: Any, kind: type[Any], text: str) -> ConfigError:
    problem, _, path = text.partition(" - at `")
    path = path.rstrip("`").removeprefix("$").removeprefix(".")
    full = ".".join(part for part in (key, path) if part).replace(".[", "[")
    value = _lookup(raw, path)
    unknown = re.search(r"unknown field `(.+)`", problem)
    if unknown:
        field = unknown.group(1)
        full = f"{full}.{field}" if full else field
        return ConfigError(file, full, f"unknown key{_suggest(field, _fields_at(kind, path))}")
    missing = re.search(r"missing required field `(.+)`", problem)
    if missing:
        field = missing.group(1)
        full = f"{full}.{field}" if full else field
        given = value.keys() if isinstance(value, dict) else ()
        close = difflib.get_close_matches(field, given, n=1)
        return ConfigError(file, full, f"required key is missing{_unit_hint(field, close)}")
    shown = "" if value is None or isinstance(value, dict) else f"is {value!r}: "
    return ConfigError(file, full, shown + problem[0].lower() + problem[1:])


def _lookup(raw: Any, path: str) -> Any:
    for part in re.findall(r"[^.\[\]]+", path):
        try:
            raw = raw[int(part)] if isinstance(raw, list) else raw[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return raw


def _fields_at(kind: type[Any], path: str) -> list[str]:
    for part in re.findall(r"[^.\[\]]+", path):
        if part.isdigit() or part == "...":
            continue
        fields = {f.encode_name: f.type for f in msgspec.structs.fields(kind)} if _is_struct(kind) else {}
        kind = fields.get(part, object)
        args = [a for a in getattr(kind, "__args__", ()) if _is_struct(a)]
        kind = args[0] if args else kind
    return [f.encode_name for f in msgspec.structs.fields(kind)] if _is_struct(kind) else []


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _suggest(field: str, known: list[str]) -> str:
    close = difflib.get_close_matches(field, known, n=1, cutoff=0.6)
    return _unit_hint(close[0], [field]) if close else ""


def _unit_hint(wanted: str, given: list[str]) -> str:
    if not given:
        return ""
    if any(wanted == given[0] + unit for unit in _UNITS):
        return f" ({given[0]} lacks its unit: write {wanted})"
    return f" (did you mean {wanted}?)" if wanted != given[0] else ""
