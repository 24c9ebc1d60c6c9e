"""Rows of dense and CSR matrices in the panels that `_matrix_unit_tiles` reads.

Points are packed in panels of 16, step by step of features: 64 of them as bytes (levels), or 32 as two bf16 numbers
each, first all the larger ones and then all the smaller (pieces, kept as uint16). Either is 1024 elements. Levels of
two digits take three steps of bytes for 64 features: the high digits, the low ones, and their sums (`put_level`).
`kernels.word_source` takes its rows of levels from here as well, and has an order of its own for them.

A register's tile is 16 x 16 words of four bytes (four levels, or two bf16 numbers): ``[point, word]`` for rows and
``[word, point]`` for columns. Every row of data is first made a run of words, tile after tile, and then put in place.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# Points of a panel, and elements of each of its steps.
PANEL, STEP = 16, 1024
# Elements between panels: panels whose length is a power of two would share the same few places of a first-level cache
# (512 features: 5.2 ns a value without, 3.0 with; 64 to 512 tried).
_GAP = 256
_TILE_WORDS = PANEL * PANEL
# Features of a step.
PIECE_FEATURES, LEVEL_FEATURES = 32, 64
# Bytes of a level of two digits, to a base of two to this power; and of one that is a 16-bit number.
TWO_DIGIT_PLANES, DIGIT_BITS, PAIR_PLANES = 3, 7, 2


@nb.njit(cache=True, nogil=True)
def panel_size(steps):  # type: ignore[no-untyped-def]
    """Elements from one panel to the next."""
    return steps * STEP + _GAP


@nb.njit(cache=True, nogil=True)
def put_level(row, k, level, planes):  # type: ignore[no-untyped-def]
    """Feature `k` of a row of levels; of two digits the high one, the low one and their sum are 64 bytes apart."""
    if planes == TWO_DIGIT_PLANES:
        at = k // LEVEL_FEATURES * (TWO_DIGIT_PLANES * LEVEL_FEATURES) + k % LEVEL_FEATURES
        high, low = level >> DIGIT_BITS, level & ((1 << DIGIT_BITS) - 1)
        row[at] = np.uint8(high)
        row[at + LEVEL_FEATURES] = np.uint8(low)
        row[at + 2 * LEVEL_FEATURES] = np.uint8(high + low)
    elif planes == PAIR_PLANES:
        row[2 * k] = np.uint8(level & 255)
        row[2 * k + 1] = np.uint8(level >> 8)
    else:
        row[k] = np.uint8(level)


@nb.njit(cache=True, nogil=True)
def _put(words, lane, transposed, packed, at):  # type: ignore[no-untyped-def]
    """The words of one point into its panel, which starts at `at`."""
    for tile in range(words.size // PANEL):
        start = at + tile * _TILE_WORDS
        if transposed:
            for word in range(PANEL):
                packed[start + word * PANEL + lane] = words[tile * PANEL + word]
        else:
            for word in range(PANEL):
                packed[start + lane * PANEL + word] = words[tile * PANEL + word]


@nb.njit(cache=True, nogil=True)
def _split(values, bits, rest, rest_bits, pieces):  # type: ignore[no-untyped-def]
    """Two bf16 numbers (rounded to nearest, ties to even) of each value; `bits` are those of `values`."""
    half, one, sixteen = np.uint32(0x7FFF), np.uint32(1), np.uint32(16)
    for begin in range(0, values.size, PIECE_FEATURES):
        at = 2 * begin
        for k in range(PIECE_FEATURES):
            u = bits[begin + k]
            large = np.uint32(np.uint32(u + half + ((u >> sixteen) & one)) >> sixteen)
            pieces[at + k] = large
            rest_bits[k] = large << sixteen
        for k in range(PIECE_FEATURES):
            rest[k] = values[begin + k] - rest[k]
        for k in range(PIECE_FEATURES):
            u = rest_bits[k]
            pieces[at + PIECE_FEATURES + k] = np.uint32(u + half + ((u >> sixteen) & one)) >> sixteen


@nb.njit(cache=True, nogil=True)
def pack_pieces(X, points, centre, scale, transposed, steps, first, last, packed):  # type: ignore[no-untyped-def]
    """Panels `first` to `last` of points of a dense matrix in pieces; missing points and features are zero."""
    values, rest = np.zeros(steps * PIECE_FEATURES, dtype=np.float32), np.empty(PIECE_FEATURES, dtype=np.float32)
    bits, rest_bits = values.view(np.uint32), rest.view(np.uint32)
    pieces = np.empty(2 * values.size, dtype=np.uint16)
    words = pieces.view(np.uint32)
    for panel in range(first, last):
        for lane in range(PANEL):
            at = panel * PANEL + lane
            if at < points.size:
                row = points[at]
                for k in range(X.shape[1]):
                    values[k] = (X[row, k] - centre[k]) * scale
                _split(values, bits, rest, rest_bits, pieces)
            else:
                pieces[:] = 0
            _put(words, lane, transposed, packed, panel * panel_size(steps) // 2)


@nb.njit(cache=True, nogil=True)
def keep_pieces(X, centre, scale, begin, end, kept):  # type: ignore[no-untyped-def]
    """The words of rows `begin` to `end` of a dense matrix, in pieces, to `kept`."""
    values, rest = np.zeros(kept.shape[1], dtype=np.float32), np.empty(PIECE_FEATURES, dtype=np.float32)
    bits, rest_bits = values.view(np.uint32), rest.view(np.uint32)
    pieces = np.empty(2 * values.size, dtype=np.uint16)
    words = pieces.view(np.uint32)
    for row in range(begin, end):
        for k in range(X.shape[1]):
            values[k] = (X[row, k] - centre[k]) * scale
        _split(values, bits, rest, rest_bits, pieces)
        kept[row] = words


@nb.njit(cache=True, nogil=True)
def pack_sparse_pieces(data, indices, indptr, points, scale, transposed, steps, first, last, packed):  # type: ignore[no-untyped-def]
    """As `pack_pieces`, from a CSR matrix."""
    values, rest = np.zeros(steps * PIECE_FEATURES, dtype=np.float32), np.empty(PIECE_FEATURES, dtype=np.float32)
    bits, rest_bits = values.view(np.uint32), rest.view(np.uint32)
    pieces = np.empty(2 * values.size, dtype=np.uint16)
    words = pieces.view(np.uint32)
    for panel in range(first, last):
        for lane in range(PANEL):
            at = panel * PANEL + lane
            values[:] = 0
            if at < points.size:
                for p in range(indptr[points[at]], indptr[points[at] + 1]):
                    values[indices[p]] = data[p] * scale
            _split(values, bits, rest, rest_bits, pieces)
            _put(words, lane, transposed, packed, panel * panel_size(steps) // 2)


@nb.njit(cache=True, nogil=True)
def pack_levels(X, points, low, step, planes, transposed, steps, first, last, packed):  # type: ignore[no-untyped-def]
    """Panels `first` to `last` of points of a dense matrix as levels; missing points and features are zero."""
    levels = np.zeros(steps * LEVEL_FEATURES, dtype=np.uint8)
    words = levels.view(np.uint32)
    inverse = 1.0 / step
    for panel in range(first, last):
        for lane in range(PANEL):
            at = panel * PANEL + lane
            if at < points.size:
                row = points[at]
                for k in range(X.shape[1]):
                    put_level(levels, k, np.int32((X[row, k] - low) * inverse + 0.5), planes)
            else:
                levels[:] = 0
            _put(words, lane, transposed, packed, panel * panel_size(steps) // 4)


@nb.njit(cache=True, nogil=True)
def pack_kept(words, points, transposed, panel_words, first, last, packed):  # type: ignore[no-untyped-def]
    """As `pack_levels` and `pack_pieces`, from words that have been kept."""
    nothing = np.zeros(words.shape[1], dtype=np.uint32)
    for panel in range(first, last):
        for lane in range(PANEL):
            at = panel * PANEL + lane
            row = words[points[at]] if at < points.size else nothing
            _put(row, lane, transposed, packed, panel * panel_words)


@nb.njit(cache=True, nogil=True)
def pack_sparse_levels(  # type: ignore[no-untyped-def]
    data, indices, indptr, points, step, planes, transposed, steps, first, last, packed
):
    """As `pack_levels`, from a CSR matrix, whose low is 0."""
    levels = np.zeros(steps * LEVEL_FEATURES, dtype=np.uint8)
    words = levels.view(np.uint32)
    inverse = 1.0 / step
    for panel in range(first, last):
        for lane in range(PANEL):
            at = panel * PANEL + lane
            levels[:] = 0
            if at < points.size:
                for p in range(indptr[points[at]], indptr[points[at] + 1]):
                    put_level(levels, indices[p], np.int32(data[p] * inverse + 0.5), planes)
            _put(words, lane, transposed, packed, panel * panel_size(steps) // 4)
