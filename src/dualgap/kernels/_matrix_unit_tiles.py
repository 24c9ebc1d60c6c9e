"""Kernel entries by the matrix unit: products of tiles, the formula, rows or sums. Only where `matrix_unit.available`.

Operands are the panels of `_matrix_unit_packing`. The element type says what they hold, and the loops are the same:
levels of one byte (uint8), of two digits and their sum (int8, though all bytes are multiplied as unsigned ones), or
pairs of bf16 pieces (uint16).

The eight registers hold 2 x 2 tiles of sums, two of rows and two of columns, so that every tile that is loaded is used
twice. A thread's registers are configured when a loop is entered and given back before it returns.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels._matrix_unit_packing import DIGIT_BITS, PANEL, STEP, TWO_DIGIT_PLANES, panel_size
from dualgap.kernels._tile_entries import (
    EXPONENT,
    POWER,
    TANH,
    TILE_ROWS,
    add_weighted,
    copy_row,
    each_register,
    exponents,
    power,
    tanh,
    whole,
)
from dualgap.kernels.vectors import DOUBLE, INT32, INT64, SINGLE, Vector, beyond, exp2, pointer

# Bytes of a register's row.
_ROW_BYTES = 64
# Points on each side of what the registers multiply at once.
SIDE = 2 * PANEL
# Columns of a tile of entries: as many as the vector tiles have, whose formulas are used.
WIDTH = 64
# Columns of it that become float64 entries at a time: the vector tiles' number again.
HALF = WIDTH // 2
# Rows of it: 96 x 64 entries are 24 KB, half of a first-level cache; a multiple of both SIDE and TILE_ROWS.
BLOCK_ROWS = 96
# Numbers of it, with rows to spare for sums of digits.
TILE_SIZE = (BLOCK_ROWS + SIDE) * WIDTH
# Bytes of packed columns worked on together: half of a second-level cache of two megabytes, as these CPUs have.
_CACHED = 1_000_000

_FIRST = ir.Constant(INT32, 0)
_BYTE = ir.IntType(8)
_ADDRESS = _BYTE.as_pointer()
# The registers' configuration: palette 1, eight registers of 16 rows (one byte each) of 64 bytes (two bytes each).
_CONFIGURATION = np.zeros(64, dtype=np.uint8)
_CONFIGURATION[0] = 1
_CONFIGURATION[16:32:2] = _ROW_BYTES
_CONFIGURATION[48:56] = PANEL


def _instruction(b: Any, name: str, *arguments: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    b.call(cgutils.get_or_insert_function(b.module, kind, f"llvm.x86.{name}"), arguments)


def _register(number: int) -> ir.Constant:
    return ir.Constant(_BYTE, number)


@intrinsic
def _configure(typing, configuration):  # type: ignore[no-untyped-def]
    """Make this thread's registers ready."""

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        place = pointer(context, b, configuration, arguments[0], ir.Constant(INT64, 0))
        _instruction(b, "ldtilecfg", b.bitcast(place, _ADDRESS))
        return context.get_dummy_value()

    return types.void(configuration), generate


@intrinsic
def _release(typing):  # type: ignore[no-untyped-def]
    """Give them back: the system need not save them any more."""

    def generate(context: Any, b: Any, _signature: Any, _arguments: Any) -> Any:
        _instruction(b, "tilerelease")
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic
def _multiply(typing, rows, row_at, columns, column_at, steps, panel, tile, tile_at):  # type: ignore[no-untyped-def]
    """Products of two panels of rows with two of columns, into 32 x 32 places of a tile."""
    # For each sum: which of a step's tiles of rows meets which of columns. What two of them share is loaded once.
    of_a_step, passes, product = {
        types.uint8: (1, [[(0, 0)]], "tdpbuud"),
        types.int8: (TWO_DIGIT_PLANES, [[(0, 0)], [(1, 1)], [(2, 2)]], "tdpbuud"),
        types.uint16: (2, [[(1, 1), (1, 0), (0, 0), (0, 1)]], "tdpbf16ps"),
    }[rows.dtype]
    elements = PANEL * _ROW_BYTES // (rows.dtype.bitwidth // 8)
    stride = ir.Constant(INT64, _ROW_BYTES)
    tile_stride = ir.Constant(INT64, WIDTH * 4)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        x = pointer(context, b, rows, arguments[0], arguments[1])
        z = pointer(context, b, columns, arguments[2], arguments[3])
        # Steps are counted in STEP elements, of which a step of three planes has three times as many.
        count, panel = b.udiv(arguments[4], ir.Constant(INT64, of_a_step * elements // STEP)), arguments[5]
        out = pointer(context, b, tile, arguments[6], arguments[7])
        spare = pointer(context, b, tile, arguments[6], ir.Constant(INT64, BLOCK_ROWS * WIDTH))

        def load(number: int, place: Any) -> None:
            _instruction(b, "tileloadd64", _register(number), b.bitcast(place, _ADDRESS), stride)

        def add_up(pairs: list[tuple[int, int]], place: Any) -> None:
            for number in range(4):
                _instruction(b, "tilezero", _register(number))
            with cgutils.for_range(b, count) as loop:
                step = b.mul(loop.index, ir.Constant(INT64, of_a_step * elements))
                x_k, z_k = b.gep(x, [step]), b.gep(z, [step])
                both_x, both_z = (x_k, b.gep(x_k, [panel])), (z_k, b.gep(z_k, [panel]))
                tile_x = tile_z = -1
                for i, j in pairs:
                    if i != tile_x:
                        load(4, beyond(b, both_x[0], i * elements))
                        load(5, beyond(b, both_x[1], i * elements))
                    if j != tile_z:
                        load(6, beyond(b, both_z[0], j * elements))
                        load(7, beyond(b, both_z[1], j * elements))
                    tile_x, tile_z = i, j
                    for r in range(2):
                        for c in range(2):
                            _instruction(b, product, _register(2 * r + c), _register(4 + r), _register(6 + c))
            for r in range(2):
                for c in range(2):
                    corner = b.bitcast(beyond(b, place, PANEL * (r * WIDTH + c)), _ADDRESS)
                    _instruction(b, "tilestored64", _register(2 * r + c), corner, tile_stride)

        # The last sum goes to its place, those before it to the spare rows.
        for number, pairs in enumerate(passes[:-1]):
            add_up(pairs, beyond(b, spare, number * SIDE))
        add_up(passes[-1], out)
        if len(passes) > 1:
            _join_digits(b, spare, out)
        return context.get_dummy_value()

    return types.void(rows, row_at, columns, column_at, types.int64, types.int64, tile, tile_at), generate


def _join_digits(b: Any, spare: Any, out: Any) -> None:
    """Sums of products of high digits, of low ones (side by side in `spare`) and of their sums (in `out`), made one.

    ``2^14 h + 2^7 (s - h - l) + l`` in whole numbers modulo 2^32, of which the true one is below 2^31.
    """
    v = SINGLE
    with cgutils.for_range(b, ir.Constant(INT64, SIDE)) as loop:
        row = b.mul(loop.index, ir.Constant(INT64, WIDTH))
        digits, place = b.gep(spare, [row]), b.gep(out, [row])
        for c in range(0, SIDE, v.lanes):
            high, low = whole(b, v, beyond(b, digits, c)), whole(b, v, beyond(b, digits, SIDE + c))
            both = b.sub(b.sub(whole(b, v, beyond(b, place, c)), high), low)
            total = b.add(b.shl(high, v.integer(DIGIT_BITS)), both)
            total = b.add(b.shl(total, v.integer(DIGIT_BITS)), low)
            v.store(b, b.bitcast(total, v.type), beyond(b, place, c))


def _scale(b: Any, v: Vector, tile: Any, factor: Any) -> None:
    """Whole sums to float32 ones, times a factor."""
    for _r, _c, place in each_register(b, v, tile):
        v.store(b, b.fmul(factor, b.sitofp(whole(b, v, place), v.type)), place)


@intrinsic
def _finish(  # type: ignore[no-untyped-def]
    typing, formula, degree, coef0, factor, tile, tile_at, row_half, row_at, column_half, column_at
):
    """Turn sums into kernel entries; `factor` is what sums of levels are multiplied by."""
    v = SINGLE
    levels = row_half.dtype == types.int32

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        t = pointer(context, b, tile, arguments[4], arguments[5])
        of_rows = pointer(context, b, row_half, arguments[6], arguments[7])
        of_columns = pointer(context, b, column_half, arguments[8], arguments[9])
        shift, times = v.splat(b, arguments[2]), v.splat(b, arguments[3])

        def case(number: int) -> Any:
            return b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, number)))

        with case(EXPONENT):
            exponents(b, v, t, of_rows, of_columns, *([times] if levels else []))
        with case(POWER):
            if levels:
                _scale(b, v, t, times)
            power(b, v, t, shift, arguments[1])
        with case(TANH):
            if levels:
                _scale(b, v, t, times)
            tanh(b, v, t, shift)
        return context.get_dummy_value()

    kinds = (
        types.int64, types.int64, types.float32, types.float32, tile, tile_at, row_half, row_at, column_half, column_at,
    )  # fmt: skip
    return types.void(*kinds), generate


@intrinsic
def _finish_exactly(  # type: ignore[no-untyped-def]
    typing, formula, degree, coef0, factor, tile, tile_at, row_half, row_at, column_half, column_at, entries
):
    """As `_finish`, from sums of levels to float64 `entries`, for half a tile's columns: whole numbers lose nothing."""
    v = DOUBLE
    whole = ir.VectorType(INT32, v.lanes)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        sums = b.bitcast(pointer(context, b, tile, arguments[4], arguments[5]), INT32.as_pointer())
        of_rows = pointer(context, b, row_half, arguments[6], arguments[7])
        of_columns = pointer(context, b, column_half, arguments[8], arguments[9])
        out = pointer(context, b, entries, arguments[10], ir.Constant(INT64, 0))
        shift, times = v.splat(b, arguments[2]), v.splat(b, arguments[3])

        def load(place: Any) -> Any:
            value = b.load(b.bitcast(place, whole.as_pointer()))
            value.align = 4
            return value

        def case(number: int) -> Any:
            return b.if_then(b.icmp_signed("==", arguments[0], ir.Constant(INT64, number)))

        def scale() -> None:
            for r, c, place in each_register(b, v, out):
                total = load(beyond(b, sums, r * WIDTH + c * v.lanes))
                v.store(b, b.fmul(times, b.sitofp(total, v.type)), place)

        with case(EXPONENT):
            for r, c, place in each_register(b, v, out):
                ours = b.insert_element(ir.Constant(whole, ir.Undefined), b.load(beyond(b, of_rows, r)), _FIRST)
                ours = b.shuffle_vector(ours, ours, ir.Constant(whole, [0] * v.lanes))
                both = b.add(ours, load(beyond(b, of_columns, c * v.lanes)))
                twice = b.shl(load(beyond(b, sums, r * WIDTH + c * v.lanes)), ir.Constant(whole, [1] * v.lanes))
                apart = b.sitofp(b.sub(both, twice), v.type)
                v.store(b, exp2(b, v, [b.fmul(times, apart)])[0], place)
        with case(POWER):
            scale()
            power(b, v, out, shift, arguments[1])
        with case(TANH):
            scale()
            tanh(b, v, out, shift)
        return context.get_dummy_value()

    kinds = (
        types.int64, types.int64, types.float64, types.float64, tile, tile_at, row_half, row_at, column_half, column_at,
        entries,
    )  # fmt: skip
    return types.void(*kinds), generate


# -- loops over tiles ------------------------------------------------------------------------------------------------
# As those of `kernels.fused`, with these differences:
#
#   shape      its last number is that of steps, not of features
#   constants  coef0 and `factor`
#   rows       (panels, half): float32 ``|x|^2 / 2`` for pieces, int32 ``|k|^2`` for levels; padded to pairs of panels
#              that hold whole groups of TILE_ROWS
#   tile       scratch of `TILE_SIZE` numbers; of `contract_exactly` (sums, float64 scratch of TILE_ROWS x HALF)


@nb.njit(cache=True, nogil=True)
def store(shape, constants, rows, columns, first, last, tile, upper, count, n, out, out_at):  # type: ignore[no-untyped-def]
    """Write the entries of rows."""
    _, formula, degree, steps = shape
    coef0, factor = constants
    values, row_half = rows
    packed, column_half = columns
    panel = panel_size(steps)
    together = max(1, _CACHED // (WIDTH // PANEL * panel * packed.itemsize))
    _configure(_CONFIGURATION)
    for begin in range(first, last, together):
        for top in range(0, count, BLOCK_ROWS):
            end = min(count, top + BLOCK_ROWS)
            for t in range(begin, min(last, begin + together)):
                at = out_at + (t - first) * WIDTH
                if upper and top >= at + WIDTH:
                    continue
                for r in range(top, (end + TILE_ROWS - 1) // TILE_ROWS * TILE_ROWS, SIDE):
                    for c in range(0, WIDTH, SIDE):
                        _multiply(
                            values, r // PANEL * panel, packed, (t * WIDTH + c) // PANEL * panel, steps, panel, tile,
                            (r - top) * WIDTH + c,
                        )  # fmt: skip
                for r in range(top, end, TILE_ROWS):
                    place = (r - top) * WIDTH
                    _finish(formula, degree, coef0, factor, tile, place, row_half, r, column_half, t * WIDTH)
                for r in range(top, min(end, at + WIDTH) if upper else end):
                    if at + WIDTH <= n:
                        copy_row(tile, (r - top) * WIDTH, out, r * n + at)
                    else:
                        for c in range(n - at):
                            out[r * n + at + c] = tile[(r - top) * WIDTH + c]
    _release()


@nb.njit(cache=True, nogil=True)
def contract(shape, constants, rows, weights, columns, first, last, tile, out):  # type: ignore[no-untyped-def]
    """Add weighted entries of rows."""
    _, formula, degree, steps = shape
    coef0, factor = constants
    values, row_half = rows
    packed, column_half = columns
    panel = panel_size(steps)
    together = max(1, _CACHED // (WIDTH // PANEL * panel * packed.itemsize))
    _configure(_CONFIGURATION)
    for begin in range(first, last, together):
        for top in range(0, weights.size, BLOCK_ROWS):
            end = min(weights.size, top + BLOCK_ROWS)
            for t in range(begin, min(last, begin + together)):
                for r in range(top, end, SIDE):
                    for c in range(0, WIDTH, SIDE):
                        _multiply(
                            values, r // PANEL * panel, packed, (t * WIDTH + c) // PANEL * panel, steps, panel, tile,
                            (r - top) * WIDTH + c,
                        )  # fmt: skip
                for r in range(top, end, TILE_ROWS):
                    place = (r - top) * WIDTH
                    _finish(formula, degree, coef0, factor, tile, place, row_half, r, column_half, t * WIDTH)
                    add_weighted(tile, place, weights, r, out, (t - first) * WIDTH)
    _release()


@nb.njit(cache=True, nogil=True)
def contract_exactly(shape, constants, rows, weights, columns, first, last, tile, out):  # type: ignore[no-untyped-def]
    """Add weighted float64 entries of rows of levels."""
    _, formula, degree, steps = shape
    coef0, factor = constants
    sums, entries = tile
    values, row_half = rows
    packed, column_half = columns
    panel = panel_size(steps)
    together = max(1, _CACHED // (WIDTH // PANEL * panel * packed.itemsize))
    _configure(_CONFIGURATION)
    for begin in range(first, last, together):
        for top in range(0, weights.size, BLOCK_ROWS):
            end = min(weights.size, top + BLOCK_ROWS)
            for t in range(begin, min(last, begin + together)):
                for r in range(top, end, SIDE):
                    for c in range(0, WIDTH, SIDE):
                        _multiply(
                            values, r // PANEL * panel, packed, (t * WIDTH + c) // PANEL * panel, steps, panel, sums,
                            (r - top) * WIDTH + c,
                        )  # fmt: skip
                for r in range(top, end, TILE_ROWS):
                    for c in range(0, WIDTH, HALF):
                        _finish_exactly(
                            formula, degree, coef0, factor, sums, (r - top) * WIDTH + c, row_half, r, column_half,
                            t * WIDTH + c, entries,
                        )  # fmt: skip
                        add_weighted(entries, 0, weights, r, out, (t - first) * WIDTH + c)
    _release()
