"""The configuration page, written from the sections themselves, so that it cannot say anything else than the loader does."""

from __future__ import annotations

import inspect
import types
import typing
from typing import Any

import msgspec

from onboard.components import component, known
from onboard.config import Section
from onboard.robot import PLAIN_SECTIONS, TYPED_SECTIONS

HEADER = """# Configuration

One TOML file describes one robot; the daemon reads nothing else. Lengths are in metres, pressures in pascals, times in the
unit that the key ends with. Loading is strict: an unknown key, a missing one, a wrong type, a value out of range, `nan`,
`inf`, a duplicate key or a byte order mark is refused with the file, the key, the value and what would be right, and
nothing starts. `prestress config check ROBOT` does just that; `prestress config reference` prints this page.

`format` is the version of this page (1). `struts` lists the ids of all struts, module by module from the base; each is also
the name of the strut's board on the link. All other keys stand in sections.
"""


def reference() -> str:
    """The whole page as Markdown."""
    parts = [HEADER]
    for key, section in PLAIN_SECTIONS.items():
        parts += _table(f"[{key}]", section)
    for slot in TYPED_SECTIONS:
        for kind in known(slot):
            parts += _table(f'[{slot}] with type = "{kind}"', component(slot, kind))
    return "\n".join(parts).rstrip() + "\n"


def _table(title: str, section: type[Section], depth: int = 2) -> list[str]:
    rows = [f"{'#' * depth} {title}", "", inspect.cleandoc(section.__doc__ or "").replace("\n", " "), ""]
    rows += ["| key | type and range | default | meaning |", "| --- | --- | --- | --- |"]
    inner: list[type[Section]] = []
    hints = typing.get_type_hints(section, include_extras=True)
    for field in msgspec.structs.fields(section):
        before = len(inner)
        kind, limits, text = _describe(hints[field.name], inner)
        if not text and len(inner) > before:
            text = "see its own table below"
        rows.append(
            f"| `{field.encode_name}` | {' '.join(part for part in (kind, limits) if part)} | {_default(field)} | {text} |"
        )
    rows.append("")
    for part in inner:
        rows += _table(f"`{part.__name__}` in {title}", part, depth + 1)
    return rows


def _describe(hint: Any, inner: list[type[Section]]) -> tuple[str, str, str]:
    metas: list[msgspec.Meta] = []
    if typing.get_origin(hint) is typing.Annotated:
        metas = [item for item in hint.__metadata__ if isinstance(item, msgspec.Meta)]
        hint = hint.__origin__
    text = next((meta.description for meta in metas if meta.description), "")
    return _kind(hint, inner), ", ".join(filter(None, map(_limits, metas))), text


def _kind(hint: Any, inner: list[type[Section]]) -> str:
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _kind(hint.__origin__, inner)
    if origin is typing.Literal:
        return "one of " + ", ".join(f"`{value}`" for value in typing.get_args(hint))
    if origin is list:
        return "list of " + _kind(typing.get_args(hint)[0], inner)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_kind(part, inner) for part in typing.get_args(hint) if part is not type(None))
    if isinstance(hint, type) and issubclass(hint, Section):
        inner.append(hint)
        return f"table `{hint.__name__}`"
    names = {str: "text", int: "whole number", float: "number", bool: "true or false"}
    return names.get(hint, str(hint))


def _limits(meta: msgspec.Meta) -> str:
    parts = [
        f"{sign} {value:g}"
        for sign, value in ((">", meta.gt), ("≥", meta.ge), ("<", meta.lt), ("≤", meta.le))
        if value is not None
    ]
    return " and ".join(parts)


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
    if isinstance(default, Section):
        return "its own defaults"
    if field.default_factory is not msgspec.NODEFAULT:
        return f"`{default}`"
    return f"`{field.default}`" if field.default != "" else "empty"
