"""Tiles that threads take from a common counter, within compiled code.

Handing out a piece of work from Python takes some 15 microseconds under a lock that all threads want; a product of 750
rows with 10 000 columns takes 700 on two threads. Here a thread calls once and takes tiles until none is left.
"""

from __future__ import annotations

from typing import Any

import numba as nb
from numba.core import types
from numba.extending import intrinsic

from dualgap.kernels.fused import contract_dense, contract_sparse
from dualgap.kernels.vectors import INT64, pointer

# Numbers between two counters: whoever takes from one does not hold up who takes from the next.
APART = 16


@intrinsic
def _take(typing, counters, place, count):  # type: ignore[no-untyped-def]
    """Add `count` to a counter, at once whatever other threads do; returns what it was."""

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        at = pointer(context, b, counters, arguments[0], arguments[1])
        return b.atomic_rmw("add", at, b.sext(arguments[2], INT64), "monotonic")

    return types.int64(counters, types.int64, types.int64), generate


@nb.njit(cache=True, nogil=True)
def _next(counters, place, most, shares, tiles):  # type: ignore[no-untyped-def]
    """The next tiles: at most so many, and fewer towards the end, so that all threads end at about the same time."""
    some = max(1, min(most, (tiles - counters[place]) // shares))
    first = _take(counters, place, some)
    return first, min(tiles, first + some)


# Arguments: the place of a counter that all threads share, tiles to be taken at a time at most and the part of those
# that are left, all tiles, and arguments of the functions of `kernels.fused`; `out` has the sums of all tiles.


@nb.njit(cache=True, nogil=True)
def take_dense(  # type: ignore[no-untyped-def]
    counters, place, most, shares, tiles, shape, constants, rows, weights, columns, tile, width, out
):
    """`contract_dense` for tiles taken from a counter, until all are."""
    first, last = _next(counters, place, most, shares, tiles)
    while first < tiles:
        contract_dense(shape, constants, rows, weights, columns, first, last, tile, out[first * width : last * width])
        first, last = _next(counters, place, most, shares, tiles)


@nb.njit(cache=True, nogil=True)
def take_sparse(  # type: ignore[no-untyped-def]
    counters, place, most, shares, tiles, shape, constants, rows, weights, columns, tile, width, out
):
    """`contract_sparse` for tiles taken from a counter, until all are."""
    first, last = _next(counters, place, most, shares, tiles)
    while first < tiles:
        contract_sparse(shape, constants, rows, weights, columns, first, last, tile, out[first * width : last * width])
        first, last = _next(counters, place, most, shares, tiles)
