"""How kernels are compiled: cached, division without exceptions; copies as loops, which compile far faster than slices."""

from __future__ import annotations

from numba import njit

jit = njit(cache=True, error_model="numpy")


@jit
def copy1(source, out):  # type: ignore[no-untyped-def]
    """out[:] = source, one dimension."""
    for i in range(out.shape[0]):
        out[i] = source[i]


@jit
def copy2(source, out):  # type: ignore[no-untyped-def]
    """out[:] = source, two dimensions."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = source[i, j]


@jit
def copy3(source, out):  # type: ignore[no-untyped-def]
    """out[:] = source, three dimensions."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            for k in range(out.shape[2]):
                out[i, j, k] = source[i, j, k]


@jit
def zero2(out):  # type: ignore[no-untyped-def]
    """out[:] = 0, two dimensions."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = 0.0


@jit
def zero1(out):  # type: ignore[no-untyped-def]
    """out[:] = 0, one dimension."""
    for i in range(out.shape[0]):
        out[i] = 0.0
