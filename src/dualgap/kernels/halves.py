"""Symmetric squares of which the lower half has been made."""

from __future__ import annotations

import numba as nb

# Lines that are gone through together: what they give to the upper half then lies side by side, a cache line of it.
_LINES = 8


@nb.njit(cache=True, nogil=True)
def complete(square, scale):  # type: ignore[no-untyped-def]
    """Multiply the lower half of a square with `scale`, in place, and write it to the upper half as well."""
    n = square.shape[0]
    for first in range(0, n, _LINES):
        last = min(first + _LINES, n)
        for k in range(last):
            for j in range(max(first, k), last):
                value = scale * square[j, k]
                square[j, k] = value
                square[k, j] = value
