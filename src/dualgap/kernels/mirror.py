"""The other triangle of a symmetric matrix, copied by squares that are turned in registers.

A square of as many rows as a register has lanes is read line by line, turned by exchanging its quarters, then theirs,
and written line by line. Every line of memory is touched once each way, where a loop over single numbers walks down
columns whose lines, often a power of two apart, push each other out of the first-level cache (half of 2048 x 2048
float32 numbers: 4.2 ms by such a loop over squares of 32, 0.6 by this one).
"""

from __future__ import annotations

from typing import Any

import numba as nb
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from dualgap.kernels.transposition import transposed
from dualgap.kernels.vectors import DOUBLE, INT64, SINGLE, pointer, vector_of

_SINGLE_LANES, _DOUBLE_LANES = SINGLE.lanes, DOUBLE.lanes


@nb.njit(cache=True, nogil=True)
def mirror(square, first, last):  # type: ignore[no-untyped-def]
    """Copy columns `first` to `last` of the upper triangle into the rows of the lower one.

    Whoever has just made these columns finds them in a cache; what is written lies side by side.
    """
    flat, n = square.ravel(), square.shape[1]
    lanes = _SINGLE_LANES if square.itemsize == 4 else _DOUBLE_LANES
    for left in range(first, last, lanes):
        beyond = min(last, left + lanes)
        above = left - left % lanes if beyond == left + lanes else 0  # rows in whole squares end here
        for top in range(0, above, lanes):
            _turn(flat, top * n + left, left * n + top, n)
        for j in range(left, beyond):
            for i in range(above, j):
                square[j, i] = square[i, j]


@intrinsic
def _turn(typing, flat, source, target, width):  # type: ignore[no-untyped-def]
    """Write a square of a matrix, turned, to another place; `source` and `target` are where its corners are."""
    v = vector_of(flat)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        begin, end = (pointer(context, b, flat, arguments[0], arguments[k]) for k in (1, 2))

        def line(corner: Any, number: int) -> Any:
            return b.gep(corner, [b.mul(arguments[3], ir.Constant(INT64, number))])

        rows = [v.load(b, line(begin, i)) for i in range(v.lanes)]
        for i, row in enumerate(transposed(b, rows)):
            v.store(b, row, line(end, i))
        return context.get_dummy_value()

    return types.void(flat, types.int64, types.int64, types.int64), generate
