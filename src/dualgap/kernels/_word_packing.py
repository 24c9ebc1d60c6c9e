"""Rows of levels as words, in the order in which the tiles of `kernels.fused` read them.

A row of words is made of a row of data, or is one that has been kept (`_matrix_unit_levels.Levels.bytes`); rows are
then packed as `packing.pack_dense` does with features, word by word.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.kernels._matrix_unit_levels import SIXTEEN_BITS, keep_levels, levels_of
from dualgap.kernels._matrix_unit_packing import put_level

# Words of all lanes packed at a time: what is written (8 KB of 64 lanes) stays in a first-level cache.
_TOGETHER = 32


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
        for begin in range(0, words, _TOGETHER):
            end = min(words, begin + _TOGETHER)
            for lane in range(present):
                row = points[t * width + lane]
                for k in range(begin, end):
                    packed[(t * words + k) * width + lane] = rows[row, k] ^ flipped
