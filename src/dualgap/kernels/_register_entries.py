"""Exponential entries that never leave their registers until they are stored or contracted: sparse rows, single rows.

Through a tile in the first-level cache (`_tile_entries`), sums are written, read, written as entries and read again.
A sparse row has few products for each of these, and some CPUs (AMD's Zen 4) write half a vector a cycle: 54 features, a
fifth of them not zero, took 0.62 ns an entry by tiles and take 0.48 without. Dense rows have no such gain: their 24
sums leave no registers for the exponents. A single dense row has four sums, and room for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels._tile_entries import REGISTERS, TILE_ROWS, add_to_doubles, distances_of, exponents_of
from dualgap.kernels._tile_products import PRODUCTS, TERMS, sparse_terms_summed, terms_summed
from dualgap.kernels._word_products import WORDS, sparse_words_summed, words_summed
from dualgap.kernels.vectors import INT64, Vector, beyond, pointer, vector_of


def each_measure(context: Any, b: Any, v: Vector, kinds: Any, arguments: Any) -> Iterator[Callable[[Any], list[Any]]]:
    """In code that runs for one measure each: what makes the entries of row r.

    `kinds` and `arguments` are those of the intrinsics up to `column_at`.
    """
    of_levels = kinds[2].dtype == types.int32
    terms, summed = (WORDS, sparse_words_summed) if of_levels else (PRODUCTS, sparse_terms_summed)
    nothing = ir.Constant(INT64, 0)
    x, features = (pointer(context, b, kinds[k], arguments[k], nothing) for k in (2, 3))
    s, before, h_r, z, h_c = (pointer(context, b, kinds[k], arguments[k], arguments[k + 1]) for k in (4, 6, 8, 10, 12))
    factor = [v.splat(b, cgutils.unpack_tuple(b, arguments[1])[1])] if of_levels else []
    exponents = distances_of if of_levels else exponents_of

    for case, term in terms.items():

        def entries(r: Any, term: Any = term) -> list[Any]:
            place = b.gep(s, [r])
            so_far = b.gep(before, [b.mul(r, ir.Constant(INT64, REGISTERS * v.lanes))])
            sums = summed(b, v, term, x, features, b.load(place), b.load(beyond(b, place, 1)), z, so_far)
            return exponents(b, v, sums, b.gep(h_r, [r]), h_c, *factor)

        with b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, case))):
            yield entries


# Arguments of both: nonzeros of rows from ``starts[start_at]`` on, which are added to what the tile holds of the rows'
# measures; what is known of the rows from `row_at` on; the columns of a tile.


@intrinsic
def store_sparse_exponents(  # type: ignore[no-untyped-def]
    typing, measure, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
    column_half, column_at, out, out_at,
):  # fmt: skip
    """``out[c] = K[r, c]`` of one sparse row."""
    v = vector_of(tile)
    kinds = (
        types.int64, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
        column_half, column_at, out, out_at,
    )  # fmt: skip

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        o = pointer(context, b, out, *arguments[14:16])
        for entries in each_measure(context, b, v, kinds, arguments):
            for c, entry in enumerate(entries(ir.Constant(INT64, 0))):
                v.store(b, entry, beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    return types.void(*kinds), generate


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
            with cgutils.for_range(b, ir.Constant(INT64, TILE_ROWS)) as loop:
                weight = v.splat(b, b.load(b.gep(w, [loop.index])))
                for entry, total in zip(entries(loop.index), totals, strict=True):
                    b.store(v.fma(b, entry, weight, b.load(total)), total)
            for c, total in enumerate(totals):
                add_to_doubles(b, v, b.load(total), beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    return types.void(*kinds), generate


@intrinsic
def store_dense_exponents(  # type: ignore[no-untyped-def]
    typing, measure, constants, values, value_at, features, row_half, row_at, columns, columns_at, column_half,
    column_at, out, out_at,
):  # fmt: skip
    """``out[c] = K[r, c]`` of one dense row of a group, whose values begin at `value_at`: the same bits as by tiles."""
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
                [sums] = summed(b, v, term, x, z, arguments[4], 1)
                for c, entry in enumerate(exponents(b, v, sums, h_r, h_c, *factor)):
                    v.store(b, entry, beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    return types.void(*kinds), generate
