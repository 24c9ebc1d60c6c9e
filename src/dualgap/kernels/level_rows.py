"""Rows whose values are whole multiples of one step, as blocks of eight bytes (see `block_rows`).

Pictures are such data: grey levels from 0 to 255, whatever they were divided by, and nonzeros that stand side by side.
A nonzero takes 12 bytes in CSR (float64) and eight in a dense matrix, a block of eight columns takes 10, and its eight
products are one instruction. A few values tell whether it is worth looking; one pass then checks every value and makes
the blocks.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from dualgap.kernels._matrix_unit_levels import common_step
from dualgap.kernels.block_rows import BLOCK
from dualgap.kernels.linear_rows import CHUNK, Rows, rows_of
from dualgap.kernels.memory import aligned

# Entries below which packing would take a good part of the time that it saves: a pass is a millisecond then.
_WORTH_PACKING = 1_000_000
# Values that are looked at first, and the largest level: a byte.
_SAMPLED, _MOST = 4_000, 255
# Nonzeros of a CSR row that a block must have on average: with fewer, such rows are as quick.
_FILLED = 2
# The most that a value is off its level, relative to it: three roundings, with room for one more.
_OFF = 2.0**-50
# Blocks that rows may have beyond their share before they are given up: the first few rows need not be typical.
_SLACK = 4096
# Eight columns a block, eight bits a column; no block has this number.
_SHIFT, _PLACE, _BITS, _NO_COLUMN = np.uint64(3), np.uint64(7), np.uint64(3), np.uint64(1 << 63)
# Levels that are found before they are put into blocks.
_AT_A_TIME = 512


def level_rows(factor: Any) -> Rows | None:
    """The rows of a matrix in blocks; None where they are not of that kind, or not worth it.

    float32 values are left alone: they are off their levels by more than the rounding of products.
    """
    sparse = sp.issparse(factor)
    if factor.dtype != np.float64 or (sparse and not (factor.format == "csr" and factor.has_sorted_indices)):
        return None
    rows, wide = rows_of(factor), -(-factor.shape[1] // BLOCK)
    if rows.entries < _WORTH_PACKING or wide > np.iinfo(np.uint16).max:
        return None
    step = _step_of(rows.values)
    if step is None:
        return None
    room = rows.entries // _FILLED + _SLACK + 2 if sparse else rows.n * wide + 2
    starts, columns, words = np.empty(rows.n + 1, dtype=np.int64), np.empty(room, dtype=np.uint16), _words(room, step)
    columns[0], used = 0, 1
    pieces = max(1, -(-rows.entries // CHUNK))
    for piece in range(pieces):
        begin, end = rows.n * piece // pieces, rows.n * (piece + 1) // pieces
        used = (
            _pack(*rows.arrays, step, begin, end, used, starts, columns, words) if sparse
            else _pack_dense(rows.values, rows.d, step, begin, end, used, starts, columns, words)
        )  # fmt: skip
        if used < 0:
            return None
    return Rows(starts, columns[:used], words[:used].view(np.uint8), rows.n, BLOCK * wide)


def _step_of(values: Any) -> float | None:
    """The step that values here and there are multiples of."""
    seen = np.unique(values[:: max(1, values.size // _SAMPLED)])
    if not 0 < seen.size <= _MOST + 1 or not np.all(np.isfinite(seen)) or seen[0] < 0.0:
        return None
    return common_step(seen)


def _words(room: int, step: float) -> Any:
    """Memory for so many blocks, the first of them being the step."""
    words = aligned(room, np.uint64)
    words[:1] = np.array([step]).view(np.uint64)
    return words


@nb.njit(cache=True, nogil=True, inline="always")
def _find_levels(data, first, count, step, inverse, levels):  # type: ignore[no-untyped-def]
    """The levels of so many values, by vector instructions; returns how many values are none."""
    off = 0
    for q in range(count):
        value = data[first + q]
        # Rounded to the nearest: levels are not negative.
        level = int(min(max(value * inverse + 0.5, 0.0), _MOST + 1.0))
        off += (not abs(value - level * step) <= _OFF * value) | (level > _MOST)
        levels[q] = np.uint64(level)
    return off


@nb.njit(cache=True, nogil=True)
def _pack(indptr, indices, data, step, begin, end, used, starts, columns, words):  # type: ignore[no-untyped-def]
    """Make the blocks of CSR rows `begin` to `end`, the first of them number `used`; returns the next number.

    -1 where a value is no level, or where blocks hold too little. Blocks are put together without branches, their first
    column in the lowest byte: where one begins is a matter of chance.
    """
    inverse = 1.0 / step
    levels = np.empty(_AT_A_TIME, dtype=np.uint64)
    block = used - 1
    for i in range(begin, end):
        first, last = indptr[i], indptr[i + 1]
        starts[i] = block + 1
        # With room for the whole row, nothing is left to be checked on the way.
        if block > first // _FILLED + _SLACK or block + (last - first) >= columns.size:
            return -1
        column, word = _NO_COLUMN, np.uint64(0)
        while first < last:
            count = min(last - first, _AT_A_TIME)
            if _find_levels(data, first, count, step, inverse, levels) > 0:
                return -1
            for q in range(count):
                at = np.uint64(indices[first + q])
                begun = at >> _SHIFT != column
                column = at >> _SHIFT
                block += begun
                word = (np.uint64(0) if begun else word) | levels[q] << ((at & _PLACE) << _BITS)
                columns[block], words[block] = column, word
            first += count
    starts[end] = block + 1
    return block + 1


@nb.njit(cache=True, nogil=True)
def _pack_dense(data, d, step, begin, end, used, starts, columns, words):  # type: ignore[no-untyped-def]
    """The same for rows of a dense matrix, blocks of zeros being left out; -1 where a value is no level."""
    inverse = 1.0 / step
    levels = np.empty(_AT_A_TIME, dtype=np.uint64)
    block = used
    for i in range(begin, end):
        starts[i] = block
        for first in range(0, d, _AT_A_TIME):
            count = min(d - first, _AT_A_TIME)
            if _find_levels(data, i * d + first, count, step, inverse, levels) > 0:
                return -1
            for q in range(0, count, BLOCK):
                word = np.uint64(0)
                for k in range(min(BLOCK, count - q)):
                    word |= levels[q + k] << (np.uint64(k) << _BITS)
                columns[block], words[block] = (first + q) // BLOCK, word
                block += word != 0
    starts[end] = block
    return block
