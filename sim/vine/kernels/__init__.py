"""Compiled inner loops of the vine simulator: plain functions on arrays, one robot at a time, double precision.

Only the entry points in `entry.py` are cached on disk; their cache key holds a digest of every file here, because numba
does not notice by itself that a called function of another file has changed.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numba
from numba.core import types
from numba.extending import intrinsic

#: Decorator of every inner function: floating-point contraction is allowed, nothing else that changes a result.
inner = numba.njit(error_model="numpy", fastmath={"contract"})


def source_digest(*without: str) -> str:
    """Digest of the kernel sources (hex) save those named, part of an entry point's cache key."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if path.name not in without:
            digest.update(path.read_bytes())
    return digest.hexdigest()


@intrinsic
def apart(typing_context):  # type: ignore[no-untyped-def]
    """Keeps the function it is called in from being inlined: the large ones would be optimised again in every caller."""

    def codegen(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), codegen
