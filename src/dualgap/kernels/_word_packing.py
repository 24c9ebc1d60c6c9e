"""Rows of levels as words, in the order in which the tiles of `kernels.fused` read them.

A row of words is made of a row of data, or is one that has been kept (`_matrix_unit_levels.Levels.bytes`); rows are
then packed as `packing.pack_dense` does with features, word by word.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.kernels._matrix_unit_levels import SIXTEEN_BITS, keep_levels, levels_of
from dualgap.kernels._matrix_unit_packing import put_level
from dualgap.kernels._tile_entries import TILE_ROWS
from dualgap.kernels.transposition import WORD_SIDE, turn_rows_of_words, turn_square_of_words


@nb.njit(cache=True, nogil=True)
def dense_levels(X, points, low, step, planes, rows):  # type: ignore[no-untyped-def]
    """The levels of points of a dense matrix as rows of bytes, which have been zero."""
    levels = np.empty(X.shape[1], dtype=np.int32)
    for i in range(points.size):
        levels_of(X[points[i]], low, step, SIXTEEN_BITS, levels)
        keep_levels(levels, planes, rows[i])


@nb.njit(cache=True, nogil=True)
def sparse_levels(data, indices, indptr, points, step, planes, rows):  # type: ignore[no-untyped-def]
    """As `dense_levels`, from a CSR matrix, whose low is 0."""
    for i in range(points.size):
        for p in range(indptr[points[i]], indptr[points[i] + 1]):
            put_level(rows[i], indices[p], np.int32(np.floor(data[p] / step + 0.5)), planes)


@nb.njit(cache=True, nogil=True)
def pack_words(rows, points, words, flipped, width, first, last, packed):  # type: ignore[no-untyped-def]
    """Groups `first` to `last` of `width` points, word by word, the bits of `flipped` turned; missing ones are zero."""
    for t in range(first, last):
        present = min(width, points.size - t * width)
        if present < width:
            packed[t * words * width : (t + 1) * words * width] = flipped
        turned = _turn_lanes(rows, points, words, flipped, width, t, present, packed)
        for lane in range(turned, present):
            row = points[t * width + lane]
            for k in range(words):
                packed[(t * words + k) * width + lane] = rows[row, k] ^ flipped


@nb.njit(cache=True, nogil=True)
def _turn_lanes(rows, points, words, flipped, width, t, present, packed):  # type: ignore[no-untyped-def]
    """Pack as many of the `present` lanes of group `t` as fill whole squares; returns how many."""
    first = t * width
    straight = rows.strides[1] == rows.itemsize and points.strides[0] == points.itemsize
    if words < WORD_SIDE or not straight:
        return 0
    # The last square of a row may begin within the one before: the same words are then written twice.
    if width == TILE_ROWS and present == width:
        for begin in range(0, words, WORD_SIDE):
            k = min(begin, words - WORD_SIDE)
            turn_rows_of_words(rows, points, first, k, flipped, packed, (t * words + k) * width, width)
        return width
    whole = present // WORD_SIDE * WORD_SIDE
    for lane in range(0, whole, WORD_SIDE):
        for begin in range(0, words, WORD_SIDE):
            k = min(begin, words - WORD_SIDE)
            place = (t * words + k) * width + lane
            turn_square_of_words(rows, points, first + lane, k, flipped, packed, place, width)
    return whole
