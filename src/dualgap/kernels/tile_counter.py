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


# Arguments: the place of a counter that all threads share, tiles to be taken at a time, and those of the functions of
# `kernels.fused`; `out` has the sums of all tiles.


@nb.njit(cache=True, nogil=True)
def take_dense(counters, place, step, tiles, shape, constants, rows, weights, columns, tile, width, out):  # type: ignore[no-untyped-def]
    """`contract_dense` for tiles taken from a counter, until all are."""
    first = _take(counters, place, step)
    while first < tiles:
        last = min(tiles, first + step)
        contract_dense(shape, constants, rows, weights, columns, first, last, tile, out[first * width : last * width])
        first = _take(counters, place, step)


@nb.njit(cache=True, nogil=True)
def take_sparse(counters, place, step, tiles, shape, constants, rows, weights, columns, tile, width, out):  # type: ignore[no-untyped-def]
    """`contract_sparse` for tiles taken from a counter, until all are."""
    first = _take(counters, place, step)
    while first < tiles:
        last = min(tiles, first + step)
        contract_sparse(shape, constants, rows, weights, columns, first, last, tile, out[first * width : last * width])
        first = _take(counters, place, step)
