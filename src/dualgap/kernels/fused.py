"""Tiles of kernel entries at the speed of the machine: products, formula and what is done with them, in cache.

A tile is `TILE_ROWS` rows against as many columns as four (AVX-512) or two registers hold. Its products stay in
registers over all features; the formula then turns them into kernel entries in the first-level cache, where they are
stored as part of a row or contracted into a float64 sum, without ever being written to memory.

Columns are packed feature by feature (``columns[tile, feature, lane]``), rows six by six (``rows[group, feature,
row]``), already centred and scaled such that the formulas need no further factor:

=========  =======================================  ==================  ==========================
formula    measure of a pair                        scale of the data   entry
=========  =======================================  ==================  ==========================
EXPONENT   x'z  (rbf), with h = |x|^2 / 2           sqrt(2 gamma log2e) 2^min(0, x'z - h_x - h_z)
EXPONENT   -|x - z|_1  (laplacian)                  gamma log2e         2^min(0, measure)
EXPONENT   -sum (x - z)^2 / (x + z)  (chi2)         gamma log2e         2^min(0, measure)
POWER      x'z  (poly, linear)                      sqrt(gamma)         (x'z + coef0)^degree
TANH       x'z  (sigmoid)                           sqrt(gamma)         tanh(x'z + coef0)
=========  =======================================  ==================  ==========================
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels._register_entries import add_sparse_exponents, store_sparse_exponents
from dualgap.kernels._tile_entries import EXPONENT as EXPONENT
from dualgap.kernels._tile_entries import POWER as POWER
from dualgap.kernels._tile_entries import REGISTERS, add_weighted, apply, copy_row, each_register
from dualgap.kernels._tile_entries import TANH as TANH
from dualgap.kernels._tile_entries import TILE_ROWS as TILE_ROWS
from dualgap.kernels._tile_products import CHI2 as CHI2
from dualgap.kernels._tile_products import DOT as DOT
from dualgap.kernels._tile_products import MANHATTAN as MANHATTAN
from dualgap.kernels._tile_products import PRODUCTS, TERMS, sparse_terms_summed, terms_summed
from dualgap.kernels._word_products import WORDS, sparse_words_summed, words_summed
from dualgap.kernels.packing import FEATURES, SPARSE_ROWS, pack_dense
from dualgap.kernels.vectors import DOUBLE, FMA, INT64, SINGLE, beyond, pointer, vector_of

# Whether the CPU has the registers this is written for; others take the path through BLAS (`kernels.contraction`).
AVAILABLE = FMA
_COLUMNS32, _COLUMNS64 = REGISTERS * SINGLE.lanes, REGISTERS * DOUBLE.lanes

# Bytes of packed columns worked on together: half of a second-level cache of one megabyte.
_CACHED = 500_000

# Inner products of levels, in words of four bytes or of two 16-bit numbers (`_word_products`).
BYTES, PAIRS = WORDS


def tile_columns(dtype: Any) -> int:
    """Columns of a tile of this dtype."""
    return _COLUMNS32 if np.dtype(dtype) == np.float32 else _COLUMNS64


# Cases are told apart inside the intrinsics: a compiled function called for each tile would count references to its
# arrays, which costs as much as the tile itself.


@intrinsic
def _measure(typing, measure, rows, row_at, columns, column_at, features, tile):  # type: ignore[no-untyped-def]
    """Measures of six dense rows against the columns of a tile."""
    v = vector_of(tile)
    terms, summed = (WORDS, words_summed) if rows.dtype == types.int32 else (TERMS, terms_summed)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        x = pointer(context, b, rows, arguments[1], arguments[2])
        z = pointer(context, b, columns, arguments[3], arguments[4])
        out = pointer(context, b, tile, arguments[6], ir.Constant(INT64, 0))
        for case, term in terms.items():
            with b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, case))):
                sums = summed(b, v, term, x, z, arguments[5])
                for r, c, place in each_register(b, v, out):
                    v.store(b, sums[r][c], place)
        return context.get_dummy_value()

    return types.void(types.int64, rows, row_at, columns, column_at, features, tile), generate


@intrinsic
def _add_sparse(  # type: ignore[no-untyped-def]
    typing, measure, values, features, start, stop, columns, column_at, tile, tile_at
):
    """Add a sparse row (`features` and `values` from `start` to `stop`) times the columns of a tile to the tile."""
    v = vector_of(tile)
    terms, summed = (WORDS, sparse_words_summed) if values.dtype == types.int32 else (PRODUCTS, sparse_terms_summed)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        x = pointer(context, b, values, arguments[1], ir.Constant(INT64, 0))
        which = pointer(context, b, features, arguments[2], ir.Constant(INT64, 0))
        z = pointer(context, b, columns, arguments[5], arguments[6])
        out = pointer(context, b, tile, arguments[7], arguments[8])
        for case, term in terms.items():
            with b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, case))):
                sums = summed(b, v, term, x, which, arguments[3], arguments[4], z, out)
                for c, total in enumerate(sums):
                    v.store(b, total, beyond(b, out, c * v.lanes))
        return context.get_dummy_value()

    kinds = (types.int64, values, features, types.int64, types.int64, columns, column_at, tile, tile_at)
    return types.void(*kinds), generate


# -- loops over tiles ------------------------------------------------------------------------------------------------
# All take a range of column tiles, hold no lock, and may run side by side on ranges that do not overlap. Arguments:
#
#   shape      measure, formula, degree, number of features (of words, where these are packed in the place of features)
#   constants  coef0, a number of the tile's dtype; of levels (coef0, factor)
#   rows       dense: (packed values, half), six rows a group. Sparse: (values, features, starts, half), the nonzeros in
#              the order in which they are used: `SPARSE_ROWS` rows together, block by block of `FEATURES` features.
#              ``half = |x|^2 / 2`` is padded to whole groups.
#   columns    (packed values, half), padded to whole tiles
#   tile       scratch: TILE_ROWS rows of a tile for dense rows, SPARSE_ROWS for sparse ones
#   store      into ``out[r n + out_at]`` (flat, n columns, `count` rows), tile `first` at column `out_at`; with `upper`
#              only the upper triangle and the tiles on the diagonal (`kernels.mirror` does the rest)
#   contract   ``out[c] += sum_r weights[r] K[r, c]``; weights padded with zeros to whole groups, `out` (float64, from
#              column ``first * width`` on) to whole tiles


@nb.njit(cache=True, nogil=True)
def store_dense(shape, constants, rows, columns, first, last, tile, upper, count, n, out, out_at):  # type: ignore[no-untyped-def]
    """Write the entries of dense rows."""
    measure, formula, degree, features = shape
    values, row_half = rows
    packed, column_half = columns
    width = tile.size // TILE_ROWS
    # Rows outside, tiles inside: memory is written in longer runs; no more tiles at a time than stay in cache.
    together = max(1, _CACHED // (features * width * packed.itemsize))
    for begin in range(first, last, together):
        for group in range((count + TILE_ROWS - 1) // TILE_ROWS):
            for t in range(begin, min(last, begin + together)):
                if upper and group * TILE_ROWS >= out_at + (t - first + 1) * width:
                    continue
                _measure(measure, values, group * features * TILE_ROWS, packed, t * features * width, features, tile)
                apply(formula, degree, constants, tile, 0, row_half, group * TILE_ROWS, column_half, t * width)
                at = out_at + (t - first) * width
                stop = min(count, at + width) if upper else count
                for r in range(min(TILE_ROWS, stop - group * TILE_ROWS)):
                    place = (group * TILE_ROWS + r) * n + at
                    if at + width <= n:
                        copy_row(tile, r * width, out, place)
                    else:
                        for c in range(n - at):
                            out[place + c] = tile[r * width + c]


@nb.njit(cache=True, nogil=True)
def contract_dense(shape, constants, rows, weights, columns, first, last, tile, out):  # type: ignore[no-untyped-def]
    """Add weighted entries of dense rows."""
    measure, formula, degree, features = shape
    values, row_half = rows
    packed, column_half = columns
    width = tile.size // TILE_ROWS
    for t in range(first, last):
        for group in range(weights.size // TILE_ROWS):
            _measure(measure, values, group * features * TILE_ROWS, packed, t * features * width, features, tile)
            apply(formula, degree, constants, tile, 0, row_half, group * TILE_ROWS, column_half, t * width)
            add_weighted(tile, 0, weights, group * TILE_ROWS, out, (t - first) * width)


# Of sparse rows, exponents are made in registers (`_register_entries`): all blocks of features but the last go to the
# tile, and the last one leaves it as it is, which is zero where there is no other.


@nb.njit(cache=True, nogil=True)
def store_sparse(shape, constants, rows, columns, first, last, tile, upper, count, n, out, out_at):  # type: ignore[no-untyped-def]
    """Write the entries of sparse rows."""
    measure, formula, degree, features = shape
    values, which, starts, row_half = rows
    packed, column_half = columns
    width = tile.size // SPARSE_ROWS
    blocks = (features + FEATURES - 1) // FEATURES
    in_registers = formula == EXPONENT
    to_tile = blocks - 1 if in_registers else blocks
    edge = np.empty(width, dtype=tile.dtype)
    tile[:] = 0
    for t in range(first, last):
        at = out_at + (t - first) * width
        ragged = at + width > n
        target = edge if ragged else out
        stop = min(count, at + width) if upper else count
        for begin in range(0, stop, SPARSE_ROWS):
            if to_tile > 0:
                tile[:] = 0
            for e in range(to_tile * SPARSE_ROWS):
                s = begin * blocks + e
                _add_sparse(
                    measure, values, which, starts[s], starts[s + 1], packed, t * features * width, tile,
                    e % SPARSE_ROWS * width,
                )  # fmt: skip
            for r in range(begin, min(stop, begin + SPARSE_ROWS)):
                held, place = (r - begin) * width, 0 if ragged else r * n + at
                if in_registers:
                    store_sparse_exponents(
                        measure, constants, values, which, starts, (begin * blocks + to_tile * SPARSE_ROWS) + r - begin,
                        tile, held, row_half, r, packed, t * features * width, column_half, t * width,
                        target, place, features,
                    )  # fmt: skip
                else:
                    if r % TILE_ROWS == 0:
                        apply(
                            formula, degree, constants, tile, (r - begin) * width, row_half, r, column_half, t * width
                        )
                    copy_row(tile, held, target, place)
                if ragged:
                    for c in range(n - at):
                        out[r * n + at + c] = edge[c]


@nb.njit(cache=True, nogil=True)
def contract_sparse(shape, constants, rows, weights, columns, first, last, tile, out):  # type: ignore[no-untyped-def]
    """Add weighted entries of sparse rows."""
    measure, formula, degree, features = shape
    values, which, starts, row_half = rows
    packed, column_half = columns
    width = tile.size // SPARSE_ROWS
    blocks = (features + FEATURES - 1) // FEATURES
    in_registers = formula == EXPONENT
    to_tile = blocks - 1 if in_registers else blocks
    tile[:] = 0
    for t in range(first, last):
        for begin in range(0, weights.size, SPARSE_ROWS):
            if to_tile > 0:
                tile[:] = 0
            for e in range(to_tile * SPARSE_ROWS):
                s = begin * blocks + e
                _add_sparse(
                    measure, values, which, starts[s], starts[s + 1], packed, t * features * width, tile,
                    e % SPARSE_ROWS * width,
                )  # fmt: skip
            for r in range(begin, min(weights.size, begin + SPARSE_ROWS), TILE_ROWS):
                if in_registers:
                    add_sparse_exponents(
                        measure, constants, values, which, starts, (begin * blocks + to_tile * SPARSE_ROWS) + r - begin,
                        tile, (r - begin) * width, row_half, r, packed, t * features * width, column_half, t * width,
                        weights, out, (t - first) * width,
                    )  # fmt: skip
                    continue
                apply(formula, degree, constants, tile, (r - begin) * width, row_half, r, column_half, t * width)
                add_weighted(tile, (r - begin) * width, weights, r, out, (t - first) * width)


@intrinsic
def _multiply_add(typing, x, y, z):  # type: ignore[no-untyped-def]
    """``x y + z``, rounded once, as a lane of a tile does it."""

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        function = ir.FunctionType(kind, [kind] * 3)
        name = f"llvm.fma.f{x.bitwidth}"
        return b.call(cgutils.get_or_insert_function(b.module, function, name), arguments)

    return x(x, x, x), generate


@nb.njit(cache=True, nogil=True)
def own_sparse_products(values, starts, blocks, products):  # type: ignore[no-untyped-def]
    """Products x'x of sparse rows (packed as those of `contract_sparse`), added up as the tiles do it."""
    nothing = values.dtype.type(0.0)
    for r in range(products.size):
        products[r] = 0.0
        for block in range(blocks):
            s = (r // SPARSE_ROWS * blocks + block) * SPARSE_ROWS + r % SPARSE_ROWS
            one, other = products[r], nothing
            for p in range(starts[s], starts[s + 1] - 1, 2):
                one = _multiply_add(values[p], values[p], one)
                other = _multiply_add(values[p + 1], values[p + 1], other)
            if (starts[s + 1] - starts[s]) % 2 == 1:
                last = values[starts[s + 1] - 1]
                one = _multiply_add(last, last, one)
            products[r] = one + other


@nb.njit(cache=True, nogil=True)
def own_products(X, centre, scale, first, last, columns, rows, tile, nothing, products):  # type: ignore[no-untyped-def]
    """Products x'x of the points of column tiles `first` to `last`, added up as the tiles do it.

    `columns`, `rows` and `tile` are scratch for a tile, a group of rows and their products, `nothing` for their norms.
    """
    features = X.shape[1]
    width = tile.size // TILE_ROWS
    for t in range(first, last):
        present = min(width, X.shape[0] - t * width)
        points = np.arange(t * width, t * width + present)
        pack_dense(X, points, centre, scale, products, width, 0, 1, columns, nothing)
        for begin in range(0, present, TILE_ROWS):
            some = points[begin : begin + TILE_ROWS]
            pack_dense(X, some, centre, scale, products, TILE_ROWS, 0, 1, rows, nothing)
            _measure(DOT, rows, 0, columns, 0, features, tile)
            for r in range(some.size):
                products[some[r]] = tile[r * width + begin + r]
