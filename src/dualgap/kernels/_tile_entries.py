"""From measures to kernel entries, and from entries to rows and sums: what all tiles have in common.

A tile lies in the first-level cache, `TILE_ROWS` of its rows at a time: the formula turns measures into entries in
place, which are then copied to memory or added to float64 sums. Formulas are those of the table in `kernels.fused`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels.vectors import AVX512, INT64, Vector, beyond, choose, exp2, pointer, vector_of

# Six rows times four registers are 24 sums, four columns and a row's value: 29 of AVX-512's 32 registers. AVX2 has 16:
# six times two are 12 sums (6 x 4 spilled and was 2 to 3 times slower).
TILE_ROWS = 6
REGISTERS = 4 if AVX512 else 2

EXPONENT, POWER, TANH = 0, 1, 2

# Registers of some rows.
Sums: TypeAlias = list[list[Any]]

# tanh(x) = 1 - 2 / (2^(2 x log2e) + 1) is 1 to the last bit of float64 beyond x = 20.
_TWICE_LOG2E, _SATURATED = 2.0 / np.log(2.0), 40.0 / np.log(2.0)


def each_register(b: Any, v: Vector, tile: Any) -> Iterator[tuple[int, int, Any]]:
    """Row, register and address of what `TILE_ROWS` rows of a tile hold."""
    for r in range(TILE_ROWS):
        for c in range(REGISTERS):
            yield r, c, beyond(b, tile, (r * REGISTERS + c) * v.lanes)


# -- formulas: a tile of measures becomes kernel entries, in place ---------------------------------------------------


def exponents_of(b: Any, v: Vector, sums: Sums, of_rows: list[Any], of_columns: list[Any]) -> Sums:
    """``2^min(0, t - h_r - h_c)`` of rows' sums t: a rounded distance below zero would make an entry above 1.

    Each row has an address in `of_rows`, where its h_r is, and one in `of_columns`, where those of its columns begin.
    """
    apart = []
    for row, of_row, of_column in zip(sums, of_rows, of_columns, strict=True):
        h_r = v.splat(b, b.load(of_row))
        halves = [b.fadd(h_r, v.load(b, beyond(b, of_column, c * v.lanes))) for c in range(len(row))]
        apart += [b.fsub(t, h) for t, h in zip(row, halves, strict=True)]
    return _by_rows(exp2(b, v, [choose(b, x, v.constant(0.0), larger=False) for x in apart]), len(sums))


def _by_rows(registers: list[Any], rows: int) -> Sums:
    each = len(registers) // rows
    return [registers[r * each : (r + 1) * each] for r in range(rows)]


def power(b: Any, v: Vector, tile: Any, shift: Any, degree: Any) -> None:
    """``(t + coef0)^degree`` by repeated multiplication."""
    for _r, _c, place in each_register(b, v, tile):
        base = b.fadd(v.load(b, place), shift)
        value = cgutils.alloca_once(b, v.type)
        b.store(v.constant(1.0), value)
        with cgutils.for_range(b, degree):
            b.store(b.fmul(b.load(value), base), value)
        v.store(b, b.load(value), place)


def tanh(b: Any, v: Vector, tile: Any, shift: Any) -> None:
    """``tanh(t + coef0)``."""
    one, two = v.constant(1.0), v.constant(2.0)
    for _r, _c, place in each_register(b, v, tile):
        x = b.fmul(b.fadd(v.load(b, place), shift), v.constant(_TWICE_LOG2E))
        x = choose(b, x, v.constant(_SATURATED), larger=False)
        v.store(b, b.fsub(one, b.fdiv(two, b.fadd(exp2(b, v, [x])[0], one))), place)


def whole(b: Any, v: Vector, place: Any) -> Any:
    """The whole numbers that a register's worth of a tile holds."""
    return b.bitcast(v.load(b, place), v.integers)


def distances_of(b: Any, v: Vector, sums: Sums, of_rows: list[Any], of_columns: list[Any], factor: Any) -> Sums:
    """``2^(factor (n_r + n_c - 2 t))`` of rows' sums t and squared norms n, all whole numbers below 2^31 until here.

    For float32 entries t and n are int32 numbers, for float64 ones they are float64.
    """
    apart = []
    for row, of_row, of_column in zip(sums, of_rows, of_columns, strict=True):
        norm, places = b.load(of_row), [beyond(b, of_column, c * v.lanes) for c in range(len(row))]
        if v.bits == 32:
            norms = b.bitcast(v.splat(b, b.bitcast(norm, v.element)), v.integers)
            both = [b.add(norms, whole(b, v, place)) for place in places]
            wholes = [b.sub(n, b.shl(t, v.integer(1))) for n, t in zip(both, row, strict=True)]
            apart += [b.sitofp(x, v.type) for x in wholes]
        else:
            norms = v.splat(b, norm)
            both = [b.fadd(norms, v.load(b, place)) for place in places]
            apart += [v.fma(b, v.constant(-2.0), t, n) for n, t in zip(both, row, strict=True)]
    return _by_rows(exp2(b, v, [b.fmul(factor, x) for x in apart]), len(sums))


def exponents(b: Any, v: Vector, tile: Any, of_rows: Any, of_columns: Any, *factor: Any) -> None:
    """`exponents_of` the rows of a tile, or `distances_of` them where whole sums have a factor."""
    for r in range(TILE_ROWS):
        places = [beyond(b, tile, (r * REGISTERS + c) * v.lanes) for c in range(REGISTERS)]
        sums = [whole(b, v, place) if factor and v.bits == 32 else v.load(b, place) for place in places]
        of_row = beyond(b, of_rows, r)
        [entries] = (distances_of if factor else exponents_of)(b, v, [sums], [of_row], [of_columns], *factor)
        for entry, place in zip(entries, places, strict=True):
            v.store(b, entry, place)


def products(b: Any, v: Vector, tile: Any, of_rows: Any, factor: Any) -> None:
    """``factor (t + h_r)`` of whole sums t and what they lack, given as for `distances_of`."""
    for r, _c, place in each_register(b, v, tile):
        lacking = b.load(beyond(b, of_rows, r))
        if v.bits == 32:
            ours = b.bitcast(v.splat(b, b.bitcast(lacking, v.element)), v.integers)
            total = b.sitofp(b.add(whole(b, v, place), ours), v.type)
        else:
            total = b.fadd(v.load(b, place), v.splat(b, lacking))
        v.store(b, b.fmul(factor, total), place)


@intrinsic
def apply(typing, formula, degree, constants, tile, tile_at, row_half, row_at, column_half, column_at):  # type: ignore[no-untyped-def]
    """Turn the measures of a tile into kernel entries.

    `constants` is coef0, or of whole sums coef0 and the factor they are multiplied by.
    """
    v = vector_of(tile)
    of_levels = constants != tile.dtype

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        t = pointer(context, b, tile, arguments[3], arguments[4])
        of_rows = pointer(context, b, row_half, arguments[5], arguments[6])
        of_columns = pointer(context, b, column_half, arguments[7], arguments[8])
        numbers = cgutils.unpack_tuple(b, arguments[2]) if of_levels else [arguments[2]]
        shift, *factor = (v.splat(b, number) for number in numbers)

        def case(number: int) -> Any:
            return b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, number)))

        with case(EXPONENT):
            exponents(b, v, t, of_rows, of_columns, *factor)
        with case(POWER):
            if of_levels:
                products(b, v, t, of_rows, *factor)
            power(b, v, t, shift, arguments[1])
        with case(TANH):
            if of_levels:
                products(b, v, t, of_rows, *factor)
            tanh(b, v, t, shift)
        return context.get_dummy_value()

    kinds = (types.int64, types.int64, constants, tile, tile_at, row_half, row_at, column_half, column_at)
    return types.void(*kinds), generate


# -- what is done with the entries -----------------------------------------------------------------------------------


def add_to_doubles(b: Any, v: Vector, total: Any, out: Any) -> None:
    """Add a vector to float64 sums."""
    wide = ir.VectorType(ir.DoubleType(), v.lanes)
    place = b.bitcast(out, wide.as_pointer())
    before = b.load(place)
    before.align = 8
    b.store(b.fadd(before, b.fpext(total, wide) if v.bits == 32 else total), place).align = 8


@intrinsic
def add_weighted(typing, tile, tile_at, weights, weight_at, out, out_at):  # type: ignore[no-untyped-def]
    """``out[c] += sum_r weights[r] tile[r, c]``: six entries are summed in the tile's dtype, the rest in float64."""
    v = vector_of(tile)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        t = pointer(context, b, tile, arguments[0], arguments[1])
        w = pointer(context, b, weights, arguments[2], arguments[3])
        o = pointer(context, b, out, arguments[4], arguments[5])
        factors = [v.splat(b, b.load(beyond(b, w, r))) for r in range(TILE_ROWS)]
        for c in range(REGISTERS):
            total = b.fmul(v.load(b, beyond(b, t, c * v.lanes)), factors[0])
            for r in range(1, TILE_ROWS):
                total = v.fma(b, v.load(b, beyond(b, t, (r * REGISTERS + c) * v.lanes)), factors[r], total)
            add_to_doubles(b, v, total, beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    return types.void(tile, tile_at, weights, weight_at, out, out_at), generate


@intrinsic
def copy_row(typing, tile, tile_at, out, out_at):  # type: ignore[no-untyped-def]
    """One row of a tile to memory."""
    v = vector_of(tile)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        t, o = pointer(context, b, tile, *arguments[:2]), pointer(context, b, out, *arguments[2:])
        for c in range(REGISTERS):
            v.store(b, v.load(b, beyond(b, t, c * v.lanes)), beyond(b, o, c * v.lanes))
        return context.get_dummy_value()

    return types.void(tile, tile_at, out, out_at), generate
