"""RBF entries of sparse rows that never leave their registers until they are stored or contracted.

Through a tile in the first-level cache (`_tile_entries`), sums are written, read, written as entries and read again.
A sparse row has few products for each of these, and some CPUs (AMD's Zen 4) write half a vector a cycle: 54 features, a
fifth of them not zero, took 0.62 ns an entry by tiles and take 0.48 without. Dense rows have no such gain: their 24
sums leave no registers for the exponents.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels._tile_entries import REGISTERS, TILE_ROWS, add_to_doubles, distances_of, exponents_of
from dualgap.kernels._tile_products import PRODUCTS, sparse_terms_summed
from dualgap.kernels._word_products import WORDS, sparse_words_summed
from dualgap.kernels.vectors import INT64, Vector, beyond, pointer, vector_of


def _exponents(b: Any, v: Vector, constants: Any, of_levels: bool) -> Callable[..., list[Any]]:
    """What makes entries of a row's sums, given what is known of the row and of its columns."""
    if not of_levels:
        return lambda sums, of_row, of_columns: exponents_of(b, v, sums, of_row, of_columns)
    factor = v.splat(b, cgutils.unpack_tuple(b, constants)[1])
    return lambda sums, of_row, of_columns: distances_of(b, v, sums, of_row, of_columns, factor)


def _summed(values: Any) -> tuple[dict[int, Any], Any]:
    """Terms of each measure, and what adds them up, for values of this type."""
    return (WORDS, sparse_words_summed) if values.dtype == types.int32 else (PRODUCTS, sparse_terms_summed)


# Arguments of both: nonzeros of rows from ``starts[start_at]`` on, which are added to what the tile holds of the rows'
# measures; what is known of the rows from `row_at` on; the columns of a tile.


@intrinsic
def store_sparse_exponents(  # type: ignore[no-untyped-def]
    typing, measure, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
    column_half, column_at, out, out_at,
):  # fmt: skip
    """``out[c] = K[r, c]`` of one sparse row."""
    v = vector_of(tile)
    terms, summed = _summed(values)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(INT64, 0)
        x, features = (pointer(context, b, kind, arguments[k], nothing) for k, kind in ((2, values), (3, which)))
        s = pointer(context, b, starts, arguments[4], arguments[5])
        before = pointer(context, b, tile, arguments[6], arguments[7])
        h_r = pointer(context, b, row_half, arguments[8], arguments[9])
        z = pointer(context, b, columns, arguments[10], arguments[11])
        h_c = pointer(context, b, column_half, arguments[12], arguments[13])
        o = pointer(context, b, out, arguments[14], arguments[15])
        exponents = _exponents(b, v, arguments[1], values.dtype == types.int32)
        for case, term in terms.items():
            with b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, case))):
                sums = summed(b, v, term, x, features, b.load(s), b.load(beyond(b, s, 1)), z, before)
                for c, entry in enumerate(exponents(sums, h_r, h_c)):
                    v.store(b, entry, beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    kinds = (
        types.int64, constants, values, which, starts, start_at, tile, tile_at, row_half, row_at, columns, columns_at,
        column_half, column_at, out, out_at,
    )  # fmt: skip
    return types.void(*kinds), generate


@intrinsic
def add_sparse_exponents(  # type: ignore[no-untyped-def]
    typing, measure, constants, values, which, starts, start_at, tile, tile_at, row_half, weights, row_at, columns,
    columns_at, column_half, column_at, out, out_at,
):  # fmt: skip
    """``out[c] += sum_r weights[r] K[r, c]`` of six sparse rows, summed in their own precision before float64."""
    v = vector_of(weights)
    terms, summed = _summed(values)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        nothing = ir.Constant(INT64, 0)
        x, features = (pointer(context, b, kind, arguments[k], nothing) for k, kind in ((2, values), (3, which)))
        s = pointer(context, b, starts, arguments[4], arguments[5])
        before = pointer(context, b, tile, arguments[6], arguments[7])
        h_r = pointer(context, b, row_half, arguments[8], arguments[10])
        w = pointer(context, b, weights, arguments[9], arguments[10])
        z = pointer(context, b, columns, arguments[11], arguments[12])
        h_c = pointer(context, b, column_half, arguments[13], arguments[14])
        o = pointer(context, b, out, arguments[15], arguments[16])
        exponents = _exponents(b, v, arguments[1], values.dtype == types.int32)
        for case, term in terms.items():
            with b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, case))):
                totals = [cgutils.alloca_once(b, v.type) for _ in range(REGISTERS)]
                for total in totals:
                    b.store(v.constant(0.0), total)
                with cgutils.for_range(b, ir.Constant(INT64, TILE_ROWS)) as loop:
                    r = loop.index
                    place = b.gep(s, [r])
                    so_far = b.gep(before, [b.mul(r, ir.Constant(INT64, REGISTERS * v.lanes))])
                    begin, end = b.load(place), b.load(beyond(b, place, 1))
                    sums = summed(b, v, term, x, features, begin, end, z, so_far)
                    weight = v.splat(b, b.load(b.gep(w, [r])))
                    for e, total in zip(exponents(sums, b.gep(h_r, [r]), h_c), totals, strict=True):
                        b.store(v.fma(b, e, weight, b.load(total)), total)
                for c, total in enumerate(totals):
                    add_to_doubles(b, v, b.load(total), beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    kinds = (
        types.int64, constants, values, which, starts, start_at, tile, tile_at, row_half, weights, row_at, columns,
        columns_at, column_half, column_at, out, out_at,
    )  # fmt: skip
    return types.void(*kinds), generate
