"""Products with a symmetric block of a kernel matrix: every entry is made once and used for its row and its column.

Half of the entries of ``K[S, S] @ w`` are mirror images. Column tile by column tile, the rows of earlier points meet
the tile's columns; each tile is contracted with the rows' weights into the columns' sums, and with the columns' weights
into the rows' sums. Squares on the diagonal, as wide as a tile, are made whole. With 54 features or more that takes a
little over half the time, with 22 about 70 %. Entries of sparse rows stay in registers, as those of `_register_entries`
(covtype 0.76 to 0.62 ns an entry made, a9a 0.68 to 0.60).

Weights may come in groups, each with sums of its own; rows and columns of a tile are then each of one group.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels._register_entries import each_measure, rows_in_pairs
from dualgap.kernels._tile_entries import REGISTERS, TILE_ROWS, add_to_doubles, add_weighted, apply, each_register
from dualgap.kernels.fused import EXPONENT, _add_sparse, _measure
from dualgap.kernels.packing import FEATURES, SPARSE_ROWS
from dualgap.kernels.threads import share_in_order
from dualgap.kernels.tile_source import pack_columns
from dualgap.kernels.vectors import INT32, Vector, beyond, pointer, vector_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dualgap.kernels.tile_source import TileSource
    from dualgap.kernels.word_source import WordSource

# Pieces of equal work, whatever the number of threads.
_PIECES = 32
# Bytes of columns packed at a time: half a second-level cache.
_PACKED = 1_000_000


def symmetric_products(
    source: TileSource | WordSource,
    groups: Sequence[tuple[NDArray[np.intp], NDArray[np.float64]]],
    threads: int,
) -> NDArray[np.float64]:
    """``K[all, points] @ weights`` for each group (points, weights), all being the points of all groups in their order.

    A sum takes up to six products in the precision of the entries before float64.
    """
    width, dtype = source.width, source.dtype
    # Groups begin on whole tiles and chunks of rows: the last point is there several times, and weighs nothing.
    whole = math.lcm(width, SPARSE_ROWS)
    sizes = [-(-len(points) // whole) * whole for points, _ in groups]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    parts = [slice(*ends) for ends in pairwise(starts)]
    padded, factors = np.empty(starts[-1], dtype=np.int64), np.zeros(starts[-1], dtype=dtype)
    for part, (points, weights) in zip(parts, groups, strict=True):
        padded[part] = np.pad(points, (0, part.stop - part.start - len(points)), "edge")
        factors[part][: len(points)] = weights
    operands = [source.rows(padded[part], threads, place) for place, part in enumerate(parts)]
    multiply = _contract_sparse if source.sparse else _contract_dense
    step = max(1, _PACKED // (source.column_size * source.column_dtype.itemsize))
    tiles = int(starts[-1]) // width
    # Later tiles meet more rows.
    ends = np.round(np.sqrt(np.linspace(0.0, 1.0, _PIECES + 1)) * tiles).astype(np.int64)
    of_columns, of_rows = np.zeros((2, len(groups), starts[-1]))

    def piece(number: int) -> list[tuple[int, NDArray[np.float64]]]:
        """Write the sums of a piece's columns; returns those of the rows, for each group of columns."""
        sums = []
        for group, part in enumerate(parts):
            first, last = max(ends[number], part.start // width), min(ends[number + 1], part.stop // width)
            if first >= last:
                continue
            mirrored = np.zeros(last * width)
            for begin in range(first, last, step):
                end = min(begin + step, last)
                here = slice(begin * width, end * width)
                columns = pack_columns(source, padded[here], end - begin)
                for other, rows in zip(range(group + 1), parts, strict=False):
                    before = rows.start // width
                    multiply(
                        source.shape, source.constants, operands[other], factors[rows], columns, factors[here],
                        begin - before, end - before, source.tile(), of_columns[other, here], mirrored[rows.start :],
                    )  # fmt: skip
            sums.append((group, mirrored))
        return sums

    def add(sums: list[tuple[int, NDArray[np.float64]]]) -> None:
        for group, mirrored in sums:
            of_rows[group, : mirrored.size] += mirrored

    share_in_order(piece, add, _PIECES, threads)
    found = of_columns + of_rows
    present = [found[:, part][:, : len(points)] for part, (points, _) in zip(parts, groups, strict=True)]
    return np.concatenate(present, axis=1)


def _add_sum(b: Any, v: Vector, total: Any, place: Any) -> None:
    """Add the lanes of a vector to a float64 number."""
    width = v.lanes
    total = b.fpext(total, ir.VectorType(ir.DoubleType(), width)) if v.bits == 32 else total
    while width > 1:
        width //= 2
        nothing = ir.Constant(total.type, ir.Undefined)
        low, high = (
            b.shuffle_vector(total, nothing, ir.Constant(ir.VectorType(INT32, width), [i + k for i in range(width)]))
            for k in (0, width)
        )
        total = b.fadd(low, high)
    number = b.extract_element(total, ir.Constant(INT32, 0))
    b.store(b.fadd(b.load(place), number), place)


@intrinsic
def _add_mirrored(typing, tile, tile_at, weights, weight_at, out, out_at):  # type: ignore[no-untyped-def]
    """``out[r] += sum_c weights[c] tile[r, c]`` over the columns c."""
    v = vector_of(tile)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        t = pointer(context, b, tile, arguments[0], arguments[1])
        w = pointer(context, b, weights, arguments[2], arguments[3])
        o = pointer(context, b, out, arguments[4], arguments[5])
        factors = [v.load(b, beyond(b, w, c * v.lanes)) for c in range(REGISTERS)]
        totals = [v.constant(0.0)] * TILE_ROWS
        for r, c, place in each_register(b, v, t):
            totals[r] = v.fma(b, v.load(b, place), factors[c], totals[r])
        for r in range(TILE_ROWS):
            _add_sum(b, v, totals[r], beyond(b, o, r))
        return context.get_dummy_value()

    return types.void(tile, tile_at, weights, weight_at, out, out_at), generate


@intrinsic
def _add_sparse_exponents(  # type: ignore[no-untyped-def]
    typing, measure, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
    column_half, column_at, row_weights, weights, weight_at, out, out_at, mirrored, mirrored_at,
):  # fmt: skip
    """`add_weighted` and `_add_mirrored` of six sparse rows whose entries stay in registers."""
    v = vector_of(weights)
    kinds = (
        types.int64, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
        column_half, column_at, row_weights, weights, weight_at, out, out_at, mirrored, mirrored_at,
    )  # fmt: skip

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        of_rows = pointer(context, b, row_weights, arguments[14], arguments[9])
        of_columns = pointer(context, b, weights, *arguments[15:17])
        o = pointer(context, b, out, *arguments[17:19])
        m = pointer(context, b, mirrored, *arguments[19:21])
        for entries in each_measure(context, b, v, kinds, arguments):
            factors = [v.load(b, beyond(b, of_columns, c * v.lanes)) for c in range(REGISTERS)]
            totals = [cgutils.alloca_once(b, v.type) for _ in range(REGISTERS)]
            for total in totals:
                b.store(v.constant(0.0), total)
            for rows in rows_in_pairs(b):
                for r, row in zip(rows, entries.of(*rows), strict=True):
                    weight = v.splat(b, b.load(b.gep(of_rows, [r])))
                    mirror = v.constant(0.0)
                    for entry, total, factor in zip(row, totals, factors, strict=True):
                        b.store(v.fma(b, entry, weight, b.load(total)), total)
                        mirror = v.fma(b, entry, factor, mirror)
                    _add_sum(b, v, mirror, b.gep(m, [r]))
            for c, total in enumerate(totals):
                add_to_doubles(b, v, b.load(total), beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    return types.void(*kinds), generate


# Arguments as in `kernels.fused`: column tiles `first` to `last`, packed from the first on and counted from the first
# row (there may be fewer rows than columns before them); `out` begins with the first tile's columns, and so do
# `column_weights`; `mirrored` has a sum for every row.


@nb.njit(cache=True, nogil=True)
def _contract_dense(  # type: ignore[no-untyped-def]
    shape, constants, rows, row_weights, columns, column_weights, first, last, tile, out, mirrored
):
    """Add weighted entries of dense rows."""
    measure, formula, degree, features = shape
    values, row_half = rows
    packed, column_half = columns
    width = tile.size // TILE_ROWS
    some = np.empty(TILE_ROWS, dtype=row_weights.dtype)
    for t in range(first, last):
        left, at = t * width, t - first
        for r in range(0, min(row_half.size, left + width), TILE_ROWS):
            _measure(measure, values, r * features, packed, at * features * width, features, tile)
            apply(formula, degree, constants, tile, 0, row_half, r, column_half, at * width)
            if r + TILE_ROWS <= left:
                add_weighted(tile, 0, row_weights, r, out, at * width)
                _add_mirrored(tile, 0, column_weights, at * width, mirrored, r)
                continue
            # On the diagonal: rows beyond the tile's columns have their turn later.
            for i in range(TILE_ROWS):
                some[i] = row_weights[r + i] if r + i < left + width else 0.0
            add_weighted(tile, 0, some, 0, out, at * width)
            for i in range(min(TILE_ROWS, left - r)):
                for c in range(width):
                    mirrored[r + i] += column_weights[at * width + c] * tile[i * width + c]


@nb.njit(cache=True, nogil=True)
def _contract_sparse(  # type: ignore[no-untyped-def]
    shape, constants, rows, row_weights, columns, column_weights, first, last, tile, out, mirrored
):
    """Add weighted entries of sparse rows."""
    measure, formula, degree, features = shape
    values, which, starts, row_half = rows
    packed, column_half = columns
    width = tile.size // SPARSE_ROWS
    blocks = (features + FEATURES - 1) // FEATURES
    some = np.empty(TILE_ROWS, dtype=row_weights.dtype)
    for t in range(first, last):
        left, at = t * width, t - first
        most = min(row_half.size, left + width)
        for begin in range(0, most, SPARSE_ROWS):
            in_registers = formula == EXPONENT and begin + SPARSE_ROWS <= left
            to_tile = blocks - 1 if in_registers else blocks
            tile[:] = 0
            for e in range(to_tile * SPARSE_ROWS):
                s = begin * blocks + e
                _add_sparse(
                    measure, values, which, starts[s], starts[s + 1], packed, at * features * width, tile,
                    e % SPARSE_ROWS * width,
                )  # fmt: skip
            for r in range(begin, min(most, begin + SPARSE_ROWS), TILE_ROWS):
                place = (r - begin) * width
                if in_registers:
                    _add_sparse_exponents(
                        measure, constants, values, which, starts, (begin * blocks + to_tile * SPARSE_ROWS) + r - begin,
                        tile, place, row_half, r, packed, at * features * width, column_half, at * width,
                        row_weights, column_weights, at * width, out, at * width, mirrored, r,
                    )  # fmt: skip
                    continue
                apply(formula, degree, constants, tile, place, row_half, r, column_half, at * width)
                if r + TILE_ROWS <= left:
                    add_weighted(tile, place, row_weights, r, out, at * width)
                    _add_mirrored(tile, place, column_weights, at * width, mirrored, r)
                    continue
                for i in range(TILE_ROWS):
                    some[i] = row_weights[r + i] if r + i < left + width else 0.0
                add_weighted(tile, place, some, 0, out, at * width)
                for i in range(min(TILE_ROWS, left - r)):
                    for c in range(width):
                        mirrored[r + i] += column_weights[at * width + c] * tile[place + i * width + c]
