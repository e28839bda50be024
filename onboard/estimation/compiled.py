"""One decorator for compiled kernels: float64, cached on disk, no fast mathematics, so that a recording replays bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """`function` as machine code, built on first call and kept on disk; division by zero gives inf or nan as in numpy."""
    return cast(F, numba.njit(cache=True, error_model="numpy")(function))
