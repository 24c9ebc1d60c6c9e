"""Exponential entries that never leave their registers until they are stored or contracted: sparse rows, single rows.

Through a tile in the first-level cache (`_tile_entries`), sums are written, read, written as entries and read again.
A sparse row has few products for each of these, and some CPUs (AMD's Zen 4) write half a vector a cycle: 54 features, a
fifth of them not zero, took 0.62 ns an entry by tiles and take 0.48 without. Dense rows have no such gain: their 24
sums leave no registers for the exponents. A single dense row has four sums, and room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels._tile_entries import REGISTERS, TILE_ROWS, Sums, add_to_doubles, distances_of, exponents_of
from dualgap.kernels._tile_products import PRODUCTS, TERMS, sparse_terms_summed, terms_summed
from dualgap.kernels._word_products import WORDS, sparse_words_summed, words_summed
from dualgap.kernels.vectors import INT64, Vector, beyond, pointer, vector_of


@dataclass(frozen=True)
class SparseEntries:
    """Makes the entries of sparse rows, in code that runs for one measure.

    Attributes
    ----------
    summed : callable
        ``summed(r, beyond)`` adds up the measures of row r with the columns of a tile; `beyond` is how many elements
        the tile's columns lie after those of the first, and how many the row of its scratch does.
    exponents : callable
        ``exponents(sums, rows, columns)`` turns them into entries; columns lie so many elements after the first.
    """

    summed: Callable[..., list[Any]]
    exponents: Callable[..., Sums]

    def of(self, *rows: Any) -> Sums:
        """The entries of rows with the columns of the first tile."""
        return self.exponents([self.summed(r) for r in rows], rows, [0] * len(rows))


def each_measure(context: Any, b: Any, v: Vector, kinds: Any, arguments: Any) -> Iterator[SparseEntries]:
    """In code that runs for one measure each: what makes entries.

    `kinds` and `arguments` are those of the intrinsics up to `column_at`.
    """
    of_levels = kinds[2].dtype == types.int32
    terms, summed = (WORDS, sparse_words_summed) if of_levels else (PRODUCTS, sparse_terms_summed)
    nothing = ir.Constant(INT64, 0)
    x, features = (pointer(context, b, kinds[k], arguments[k], nothing) for k in (2, 3))
    s, before, h_r, z, h_c = (pointer(context, b, kinds[k], arguments[k], arguments[k + 1]) for k in (4, 6, 8, 10, 12))
    factor = [v.splat(b, cgutils.unpack_tuple(b, arguments[1])[1])] if of_levels else []
    exponents_ = distances_of if of_levels else exponents_of

    def exponents(sums: Sums, rows: Iterable[Any], columns: Iterable[int]) -> Sums:
        of_rows, of_columns = [b.gep(h_r, [r]) for r in rows], [beyond(b, h_c, c) for c in columns]
        return exponents_(b, v, sums, of_rows, of_columns, *factor)

    for case, term in terms.items():

        def sums_of(r: Any, columns_after: Any = nothing, scratch_after: int = 0, term: Any = term) -> list[Any]:
            place = b.gep(s, [r])
            so_far = b.gep(before, [b.mul(r, ir.Constant(INT64, REGISTERS * v.lanes))])
            return summed(
                b, v, term, x, features, b.load(place), b.load(beyond(b, place, 1)), b.gep(z, [columns_after]),
                beyond(b, so_far, scratch_after),
            )  # fmt: skip

        with b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, case))):
            yield SparseEntries(sums_of, exponents)


def rows_in_pairs(b: Any) -> Iterator[tuple[Any, Any]]:
    """In code that runs for each of them: two rows of `TILE_ROWS`, one after the other.

    Exponents are long chains of operations that wait for one another: those of two rows side by side keep the
    multipliers busy (Intel, Cascade Lake).
    """
    two = ir.Constant(INT64, 2)
    with cgutils.for_range(b, ir.Constant(INT64, TILE_ROWS // 2)) as loop:
        first = b.mul(loop.index, two)
        yield first, b.add(first, ir.Constant(INT64, 1))


# Arguments of both: nonzeros of rows from ``starts[start_at]`` on, which are added to what the tile holds of the rows'
# measures; what is known of the rows from `row_at` on; the columns of a tile.


def _storing_sparse(tiles: int) -> Any:
    """An intrinsic for so many tiles that follow one another, whose exponents are made side by side."""

    @intrinsic
    def store(  # type: ignore[no-untyped-def]
        typing, measure, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns,
        columns_at, column_half, column_at, out, out_at, features,
    ):  # fmt: skip
        """``out[c] = K[r, c]`` of one sparse row; the scratch of its tiles is side by side, too."""
        v = vector_of(tile)
        kinds = (
            types.int64, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns,
            columns_at, column_half, column_at, out, out_at, types.int64,
        )  # fmt: skip
        width = REGISTERS * v.lanes

        def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
            o, row = pointer(context, b, out, *arguments[14:16]), ir.Constant(INT64, 0)
            apart = [b.mul(arguments[16], ir.Constant(INT64, t * width)) for t in range(tiles)]
            for entries in each_measure(context, b, v, kinds, arguments):
                sums = [entries.summed(row, columns_after, t * width) for t, columns_after in enumerate(apart)]
                made = entries.exponents(sums, [row] * tiles, [t * width for t in range(tiles)])
                for c, entry in enumerate(entry for registers in made for entry in registers):
                    v.store(b, entry, beyond(b, o, c * v.lanes))
            return context.get_dummy_value()

        return types.void(*kinds), generate

    return store


store_sparse_exponents, store_sparse_twice = _storing_sparse(1), _storing_sparse(2)


@intrinsic
def add_sparse_exponents(  # type: ignore[no-untyped-def]
    typing, measure, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
    column_half, column_at, weights, out, out_at,
):  # fmt: skip
    """``out[c] += sum_r weights[r] K[r, c]`` of six sparse rows, summed in their own precision before float64."""
    v = vector_of(weights)
    kinds = (
        types.int64, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
        column_half, column_at, weights, out, out_at,
    )  # fmt: skip

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        w = pointer(context, b, weights, arguments[14], arguments[9])
        o = pointer(context, b, out, *arguments[15:17])
        for entries in each_measure(context, b, v, kinds, arguments):
            totals = [cgutils.alloca_once(b, v.type) for _ in range(REGISTERS)]
            for total in totals:
                b.store(v.constant(0.0), total)
            for rows in rows_in_pairs(b):
                for r, row in zip(rows, entries.of(*rows), strict=True):
                    weight = v.splat(b, b.load(b.gep(w, [r])))
                    for entry, total in zip(row, totals, strict=True):
                        b.store(v.fma(b, entry, weight, b.load(total)), total)
            for c, total in enumerate(totals):
                add_to_doubles(b, v, b.load(total), beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    return types.void(*kinds), generate


def _storing_dense(tiles: int) -> Any:
    """An intrinsic for so many tiles that follow one another; their sums are chains that do not wait for each other."""

    @intrinsic
    def store(  # type: ignore[no-untyped-def]
        typing, measure, constants, values, value_at, features, row_half, row_at, columns, columns_at, column_half,
        column_at, out, out_at,
    ):  # fmt: skip
        """``out[c] = K[r, c]`` of one dense row of a group, whose values begin at `value_at`: the bits of tiles."""
        v = vector_of(out)
        of_levels = values.dtype == types.int32
        terms, summed = (WORDS, words_summed) if of_levels else (TERMS, terms_summed)
        kinds = (
            types.int64, constants, values, value_at, types.int64, row_half, row_at, columns, columns_at, column_half,
            column_at, out, out_at,
        )  # fmt: skip

        def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
            arrays = ((2, values), (5, row_half), (7, columns), (9, column_half), (11, out))
            x, h_r, z, h_c, o = (pointer(context, b, kind, *arguments[k : k + 2]) for k, kind in arrays)
            factor = [v.splat(b, cgutils.unpack_tuple(b, arguments[1])[1])] if of_levels else []
            exponents = distances_of if of_levels else exponents_of
            for case, term in terms.items():
                with b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, case))):
                    sums = summed(b, v, term, x, z, arguments[4], 1, tiles)
                    [row] = exponents(b, v, sums, [h_r], [h_c], *factor)
                    for c, entry in enumerate(row):
                        v.store(b, entry, beyond(b, o, c * v.lanes))
            return context.get_dummy_value()

        return types.void(*kinds), generate

    return store


store_dense_exponents, store_dense_twice = _storing_dense(1), _storing_dense(2)
