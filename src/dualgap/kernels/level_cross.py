"""Cross products ``sum of x_i x_i'`` of rows of grey levels, by instructions that multiply bytes (AVX-512 VNNI).

With ``x = step k`` and levels k from 0 to 255 (see `level_rows`) the sum is ``step^2`` times one of whole numbers. An
instruction adds four products of bytes to each of sixteen int32 sums; the four are four rows here. One of its sides
is signed, so that 128 is taken off there and put back afterwards::

    sum_i k_ij (k_il - 128) = sum_i k_ij k_il - 128 sum_i k_ij

Nothing is rounded but the last product with ``step^2``: results do not depend on how rows are shared out. Dense tiles
take 64 products at a time, where a sparse outer product adds one by one to a square that is not in cache. Four rows
that have nothing in the eight columns of a tile's lines are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels.block_rows import BLOCK
from dualgap.kernels.halves import complete
from dualgap.kernels.memory import scratch
from dualgap.kernels.threads import share
from dualgap.kernels.vectors import INT64, WORD_PRODUCTS, Words, pointer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.linear_rows import Rows

# Nanoseconds that a product takes, all of the lower half counted: 1.4 microseconds a row of 780 columns.
BYTE_COST = 0.005
# A tile: so many lines, each a word of four rows that is multiplied with so many vectors of sixteen columns. Its sums
# fill 24 of 32 registers.
_LINES, _VECTORS, _LANES = BLOCK, 3, Words.lanes
_COLUMNS = _VECTORS * _LANES
# Rows of one word, and rows that are taken at a time: both forms of 800 columns are 400 kB, which stay in cache.
_WORD, _ROWS = 4, 256
# Rows of one int32 sum: |k (k' - 128)| is at most 255 * 128, and 65 536 of them stay below 2^31.
_SUMMED = 1 << 16
# Rows from which a thread of its own is worth its square.
_WORTH_A_SQUARE = 4 * _ROWS
_TURN = np.uint32(0x80808080)  # takes 128 off each of four bytes
_BACK = 128.0

# mypy: disable-error-code="no-untyped-def"


def available() -> bool:
    """Whether the CPU has the instructions (and Numba compiles for them)."""
    return WORD_PRODUCTS


def level_cross(rows: Rows, chosen: NDArray[np.intp], threads: int, out: NDArray[np.float64]) -> None:
    """Write ``A[chosen]' A[chosen]`` to a square `out` of as many columns as are wanted of A, whose rows are blocks."""
    side = -(-rows.d // _COLUMNS) * _COLUMNS
    stride = _stride(side)
    words = rows.values.view(np.uint64)
    out[:] = 0.0
    for begin in range(0, len(chosen), threads * _SUMMED):
        portion = chosen[begin : begin + threads * _SUMMED]
        parts = max(1, min(threads, len(portion) // _WORTH_A_SQUARE))
        bounds = [len(portion) * number // parts for number in range(parts + 1)]
        squares, counts = _squares(parts, side)

        def part(
            number: int,
            portion: NDArray[np.intp] = portion,
            bounds: list[int] = bounds,
            squares: NDArray[np.int32] = squares,
            counts: NDArray[np.int64] = counts,
        ) -> None:
            room = _ROWS // _WORD * stride
            plain, turned = scratch("plain levels", room, np.uint32), scratch("turned levels", room, np.uint32)
            arrays = rows.indptr, rows.indices, words, portion, bounds[number], bounds[number + 1]
            _add_cross(*arrays, side, stride, plain, turned, counts[number], squares[number])

        share(part, parts, threads)
        for number in range(parts):
            _fold(squares[number], side, counts[number], out)
    step = float(rows.values[:8].view(np.float64)[0])
    complete(out, step * step)


def _squares(parts: int, side: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Sums of each part that are 0: of products and of levels."""
    squares = scratch("squares of levels", parts * side * side, np.int32).reshape(parts, -1)
    squares[:] = 0
    return squares, np.zeros((parts, side), dtype=np.int64)


def _stride(side: int) -> int:
    """Words from one group of four rows to the next: an odd number of lines, so that they use the whole cache."""
    return side if side // _LANES % 2 else side + _LANES


@intrinsic
def _add_tile(typing_context, plain, turned, at, count, j, k, side, square):
    """Add ``plain[at[r] + j + l] * turned[at[r] + k + m]`` over r < count to ``square[j + l, k + m]``; all are flat."""

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        left, right, offsets, groups, line, column, width, out = arguments
        places, sums = [], []
        for i in range(_LINES):
            start = b.add(b.mul(b.add(line, INT64(i)), width), column)
            for v in range(_VECTORS):
                places.append(pointer(context, b, square, out, b.add(start, INT64(v * _LANES))))
                sums.append(cgutils.alloca_once_value(b, Words.load(b, places[-1])))
        with cgutils.for_range(b, groups, intp=INT64) as loop:
            offset = b.load(pointer(context, b, at, offsets, loop.index))
            first = pointer(context, b, turned, right, b.add(offset, column))
            columns = [Words.load(b, b.gep(first, [INT64(v * _LANES)])) for v in range(_VECTORS)]
            word = pointer(context, b, plain, left, b.add(offset, line))
            for i in range(_LINES):
                splat = Words.splat(b, b.load(b.gep(word, [INT64(i)])))
                for v in range(_VECTORS):
                    place = sums[i * _VECTORS + v]
                    b.store(Words.add_products(b, "vpdpbusd", splat, columns[v], b.load(place)), place)
        for place, total in zip(places, sums, strict=True):
            Words.store(b, b.load(total), place)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(plain, turned, at, whole, whole, whole, whole, square), codegen


@nb.njit(cache=True, nogil=True)
def _add_cross(starts, columns, words, rows, begin, end, side, stride, plain, turned, counts, square):
    """Add turned products of rows ``rows[begin:end]`` to the lower half of a square, and their levels to `counts`."""
    at = np.empty(_ROWS // _WORD, dtype=np.int64)
    for first in range(begin, end, _ROWS):
        groups = _spread(
            starts, columns, words, rows, first, min(end, first + _ROWS), side, stride, plain, turned, counts
        )
        for j in range(0, side, _LINES):
            used = 0
            for group in range(groups):
                any_level = np.uint32(0)
                for line in range(_LINES):
                    any_level |= plain[group * stride + j + line]
                at[used] = group * stride
                used += any_level != 0
            for k in range(0, j + _LINES, _COLUMNS):
                _add_tile(plain, turned, at, used, j, k, side, square)


@nb.njit(cache=True, nogil=True)
def _spread(starts, columns, words, rows, begin, end, side, stride, plain, turned, counts):
    """Put rows side by side, four in a word, as they are and with 128 taken off; returns the words of a column."""
    blocks = side // BLOCK
    line = np.empty(_WORD * blocks, dtype=np.uint64)
    levels = line.view(np.uint8)
    groups = -(-(end - begin) // _WORD)
    for group in range(groups):
        line[:] = 0
        for r in range(min(_WORD, end - begin - group * _WORD)):
            i = rows[begin + group * _WORD + r]
            for block in range(starts[i], starts[i + 1]):
                line[r * blocks + columns[block]] = words[block]
        place = group * stride
        for c in range(side):
            one, two = np.uint32(levels[c]), np.uint32(levels[side + c])
            three, four = np.uint32(levels[2 * side + c]), np.uint32(levels[3 * side + c])
            plain[place + c] = one | (two << np.uint32(8)) | (three << np.uint32(16)) | (four << np.uint32(24))
        for c in range(side):
            turned[place + c] = plain[place + c] ^ _TURN
        for c in range(side):
            counts[c] += np.int64(levels[c]) + levels[side + c] + levels[2 * side + c] + levels[3 * side + c]
    return groups


@nb.njit(cache=True, nogil=True)
def _fold(square, side, counts, out):
    """Add whole sums to the lower half of `out`, with what was taken off put back."""
    for j in range(out.shape[0]):
        back = _BACK * counts[j]
        for k in range(j + 1):
            out[j, k] += square[j * side + k] + back
