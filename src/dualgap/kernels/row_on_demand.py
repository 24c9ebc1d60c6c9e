"""Rows of a block that compiled code makes for itself, at the moment it first needs one.

Pair steps on a block of 2048 variables read the rows of those that move, a quarter or a half of them. A row of entries
that are cheap takes about as long as the step that needs it, and lies in a near cache when that step reads it; the
whole block takes longer, on two threads, than all the steps (letter, a9a), most of it to write entries nobody reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from numba.extending import overload

from dualgap.kernels._register_entries import (
    store_dense_exponents,
    store_dense_twice,
    store_sparse_exponents,
    store_sparse_twice,
)
from dualgap.kernels.fused import EXPONENT, TILE_ROWS, _add_sparse
from dualgap.kernels.memory import aligned, scratch
from dualgap.kernels.packing import FEATURES, SPARSE_ROWS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.tile_source import TileSource
    from dualgap.kernels.word_source import WordSource

# Bytes of packed columns that a row passes over: most of them have to stay in a second-level cache of a megabyte, or
# each row reads them from further away, where the rows of a whole block share them (mnist, 1.6 MB: 0.27 s with whole
# blocks, 0.30 with single rows; usps, up to 1.1 MB: 0.09 and 0.08).
_CACHED = 1_200_000
# Threads from which on making all rows at once should be faster: with two it takes as long or longer (see above), and a
# row in two or three is used.
_MOST_THREADS = 4
# The memory of rows that nothing else is packed into (see `TileSource.rows`).
_PLACE = -1


def most_on_demand(source: TileSource | WordSource, threads: int) -> int:
    """Points of the largest block whose rows are made one by one, where so many threads would share it otherwise."""
    if source.formula.formula != EXPONENT or source.wide or threads > _MOST_THREADS:
        return 0
    return int(_CACHED // (source.column_size * source.column_dtype.itemsize)) * source.width


def row_maker(
    source: TileSource | WordSource, points: NDArray[np.intp], threads: int, *, lasting: bool
) -> tuple[Any, ...] | None:
    """What `need_row` takes to make rows of ``K[points, points]``; None where the whole of it is made sooner.

    Parameters
    ----------
    source : TileSource or WordSource
        The data.
    points : ndarray of intp
        As many as fill whole tiles.
    threads : int
        Those that would share the work otherwise.
    lasting : bool
        Whether it is to outlive the next maker of this thread, and therefore has memory of its own.
    """
    if len(points) > most_on_demand(source, threads):
        return None
    tiles = len(points) // source.width
    size = tiles * source.column_size
    if lasting:
        packed, half = aligned(size, source.column_dtype), aligned(len(points), source.half_dtype)
    else:
        packed = scratch("columns on demand", size, source.column_dtype)
        half = scratch("half on demand", len(points), source.half_dtype)
    source.pack_columns(points, 0, tiles, packed, half)
    operand = source.single_rows(points)
    if operand is None:
        operand = source.rows(points, 1, _PLACE)
        if lasting:
            operand = tuple(part.copy() for part in operand)
    tile = np.zeros(2 * source.width, dtype=source.dtype)  # a row of two tiles
    return source.shape, source.constants, operand, (packed, half), tile, np.zeros(1, dtype=np.int64)


def need_row(maker: Any, i: int, also: int, rows: Any, slot: Any, diagonal: Any) -> None:
    """In compiled code: make row i of a block where it has not been made, into the next of `rows`.

    A row passes over all columns, which lie in a second-level cache; another one that goes along finds each tile of
    them in the first, and takes half the time or less.

    Parameters
    ----------
    maker : tuple
        From `row_maker`; an empty one where all rows that are needed are there.
    i, also : int
        The row, and one that will be needed soon.
    rows : ndarray, shape (most, q)
        Rows made so far.
    slot : ndarray of int64, shape (q,)
        Where in `rows` each row is, -1 where it is not.
    diagonal : ndarray, shape (q,)
        The block's entries of points with themselves.
    """
    raise NotImplementedError("compiled code only")


@overload(need_row)
def _need_row(maker, i, also, rows, slot, diagonal):  # type: ignore[no-untyped-def]
    if len(maker) == 0:
        return lambda maker, i, also, rows, slot, diagonal: None
    make = _make_dense if len(maker[2]) == 2 else _make_sparse

    def implementation(maker, i, also, rows, slot, diagonal):  # type: ignore[no-untyped-def]
        if slot[i] >= 0:
            return
        made = maker[5]
        first = made[0]
        slot[i], count = first, 1
        if slot[also] < 0:
            slot[also], count = first + 1, 2
        made[0] += count
        make(maker[0], maker[1], maker[2], maker[3], maker[4], i, also, rows[first : first + count])
        rows[first, i] = diagonal[i]
        if count == 2:
            rows[first + 1, also] = diagonal[also]

    return implementation


@nb.njit(cache=True, nogil=True)
def _make_dense(shape, constants, operand, columns, tile, i, also, out):  # type: ignore[no-untyped-def]
    """Row i of a block, and the other one where there is room for it; dense rows in groups. Two tiles at a time."""
    measure, _, _, features = shape
    values, row_half = operand
    packed, column_half = columns
    width = tile.size // 2
    flat, q = out.ravel(), out.shape[1]
    tiles = q // width
    for t in range(0, tiles, 2):
        for k in range(out.shape[0]):
            row = also if k else i
            at = row // TILE_ROWS * features * TILE_ROWS + row % TILE_ROWS
            if t + 1 < tiles:
                store_dense_twice(
                    measure, constants, values, at, features, row_half, row, packed, t * features * width,
                    column_half, t * width, flat, k * q + t * width,
                )  # fmt: skip
            else:
                store_dense_exponents(
                    measure, constants, values, at, features, row_half, row, packed, t * features * width,
                    column_half, t * width, flat, k * q + t * width,
                )  # fmt: skip


@nb.njit(cache=True, nogil=True)
def _make_sparse(shape, constants, operand, columns, tile, i, also, out):  # type: ignore[no-untyped-def]
    """As `_make_dense`, of sparse rows: one after another (see `fused.store_sparse`), or where they lie.

    The latter have where each begins and ends side by side (`TileSource.single_rows`), and one block of features.
    """
    measure, _, _, features = shape
    values, which, places, row_half = operand
    packed, column_half = columns
    width = tile.size // 2
    blocks = (features + FEATURES - 1) // FEATURES
    flat, q, starts = out.ravel(), out.shape[1], places.ravel()
    tiles = q // width
    for t in range(0, tiles, 2):
        both = t + 1 < tiles
        for k in range(out.shape[0]):
            row = also if k else i
            # A begin for each, or (two dimensions) a begin and an end.
            first = (row // SPARSE_ROWS * SPARSE_ROWS * blocks + row % SPARSE_ROWS) * places.ndim
            last = first + (blocks - 1) * SPARSE_ROWS
            if blocks > 1:
                tile[:] = 0
            for s in range(first, last, SPARSE_ROWS):
                for e in range(2 if both else 1):
                    _add_sparse(
                        measure, values, which, starts[s], starts[s + 1], packed, (t + e) * features * width,
                        tile, e * width,
                    )  # fmt: skip
            if both:
                store_sparse_twice(
                    measure, constants, values, which, starts, last, tile, 0, row_half, row, packed,
                    t * features * width, column_half, t * width, flat, k * q + t * width, features,
                )  # fmt: skip
            else:
                store_sparse_exponents(
                    measure, constants, values, which, starts, last, tile, 0, row_half, row, packed,
                    t * features * width, column_half, t * width, flat, k * q + t * width, features,
                )  # fmt: skip
