"""Squares of a matrix, turned around in registers: what is read along rows is written along columns.

A number at a time, that takes 1.2 ns a number or so, whatever the order of the loops. 64 of them in eight registers
take three rounds of exchanges between pairs of registers, and whole registers are read and written: 0.25 ns. Numbers
are centred and scaled on the way; words of levels (`_word_packing`) have some of their bits turned.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from dualgap.kernels._tile_entries import TILE_ROWS
from dualgap.kernels.vectors import INT32, INT64, beyond, pointer

# Rows and columns of a square: eight float64 numbers fill a register of AVX-512, and more rows would not fit.
SIDE = 8
# The same for words of 32 bits.
WORD_SIDE = 16


def transposed(b: Any, rows: list[Any]) -> list[Any]:
    """The columns of a square that is given by its rows, as many vectors as each has lanes: a power of two.

    In the round of ``span``, rows i and i + span exchange the numbers whose places differ in that bit.
    """
    rows, side = list(rows), len(rows)
    places = ir.VectorType(INT32, side)
    span = 1
    while span < side:
        upper = ir.Constant(places, [lane if not lane & span else side + lane - span for lane in range(side)])
        lower = ir.Constant(places, [lane + span if not lane & span else side + lane for lane in range(side)])
        for i in range(side):
            if not i & span:
                pair = rows[i], rows[i + span]
                rows[i], rows[i + span] = b.shuffle_vector(*pair, upper), b.shuffle_vector(*pair, lower)
        span *= 2
    return rows


def _as_double(b: Any, value: Any, kind: Any, wide: ir.Type) -> Any:
    if kind in types.signed_domain:
        return b.sitofp(value, wide)
    if kind in types.unsigned_domain:
        return b.uitofp(value, wide)
    return value if kind == types.float64 else b.fpext(value, wide)


def _turned(lanes: int) -> Any:
    """The intrinsic for `lanes` rows, at most `SIDE` of them."""

    @intrinsic
    def turn(typing, X, points, first, column, centre, scale, packed, place, width):  # type: ignore[no-untyped-def]
        if centre.dtype != types.float64:
            return None  # not a function of such arguments

        def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(X)(context, b, arguments[0])
            step = b.extract_value(data.strides, 0)
            which = pointer(context, b, points, arguments[1], arguments[2])
            wide = ir.VectorType(ir.DoubleType(), SIDE)
            middle = _load(b, wide, pointer(context, b, centre, arguments[4], arguments[3]))
            scalar = b.insert_element(ir.Constant(wide, ir.Undefined), arguments[5], ir.Constant(INT32, 0))
            same = ir.Constant(ir.VectorType(INT32, SIDE), [0] * SIDE)
            factor = b.shuffle_vector(scalar, ir.Constant(wide, ir.Undefined), same)
            source, target = (ir.VectorType(context.get_data_type(kind.dtype), SIDE) for kind in (X, packed))
            start = b.ptrtoint(data.data, INT64)
            rows = []
            for i in range(lanes):
                number = context.cast(b, b.load(beyond(b, which, i)), points.dtype, types.int64)
                at = b.add(start, b.mul(number, step))
                value = _load(b, source, b.gep(b.inttoptr(at, source.element.as_pointer()), [arguments[3]]))
                value = _as_double(b, value, X.dtype, wide)
                value = b.fmul(b.fsub(value, middle), factor)
                rows.append(value if packed.dtype == types.float64 else b.fptrunc(value, target))
            rows += [ir.Constant(target, ir.Undefined)] * (SIDE - lanes)
            out = pointer(context, b, packed, arguments[6], arguments[7])
            for k, values in enumerate(transposed(b, rows)):
                _store(b, values, lanes, b.gep(out, [b.mul(ir.Constant(INT64, k), arguments[8])]))
            return context.get_dummy_value()

        kinds = (X, points, types.int64, types.int64, centre, types.float64, packed, types.int64, types.int64)
        return types.void(*kinds), generate

    return turn


def _words_turned(lanes: int) -> Any:
    """The intrinsic for `lanes` rows of words, at most `WORD_SIDE` of them."""

    @intrinsic
    def turn(typing, words, points, first, column, flipped, packed, place, width):  # type: ignore[no-untyped-def]
        if words.dtype != types.int32 or packed.dtype != types.int32:
            return None  # not a function of such arguments

        def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
            data = context.make_array(words)(context, b, arguments[0])
            step = b.extract_value(data.strides, 0)
            which = pointer(context, b, points, arguments[1], arguments[2])
            kind = ir.VectorType(INT32, WORD_SIDE)
            scalar = b.insert_element(ir.Constant(kind, ir.Undefined), arguments[4], ir.Constant(INT32, 0))
            bits = b.shuffle_vector(scalar, ir.Constant(kind, ir.Undefined), ir.Constant(kind, [0] * WORD_SIDE))
            start = b.ptrtoint(data.data, INT64)
            rows = []
            for i in range(lanes):
                number = context.cast(b, b.load(beyond(b, which, i)), points.dtype, types.int64)
                at = b.add(start, b.mul(number, step))
                value = _load(b, kind, b.gep(b.inttoptr(at, INT32.as_pointer()), [arguments[3]]))
                rows.append(b.xor(value, bits))
            rows += [ir.Constant(kind, ir.Undefined)] * (WORD_SIDE - lanes)
            out = pointer(context, b, packed, arguments[5], arguments[6])
            for k, values in enumerate(transposed(b, rows)):
                _store(b, values, lanes, b.gep(out, [b.mul(ir.Constant(INT64, k), arguments[7])]))
            return context.get_dummy_value()

        kinds = (words, points, types.int64, types.int64, types.int32, packed, types.int64, types.int64)
        return types.void(*kinds), generate

    return turn


def _load(b: Any, kind: ir.Type, place: Any) -> Any:
    """A vector from memory, aligned like any element."""
    value = b.load(b.bitcast(place, kind.as_pointer()))
    value.align = 1
    return value


def _store(b: Any, values: Any, lanes: int, place: Any) -> None:
    """The first lanes of a vector to memory, in pieces that are powers of two."""
    begin = 0
    while begin < lanes:
        size = 1 << ((lanes - begin).bit_length() - 1)
        some = ir.Constant(ir.VectorType(INT32, size), list(range(begin, begin + size)))
        part = b.shuffle_vector(values, ir.Constant(values.type, ir.Undefined), some)
        target = b.bitcast(beyond(b, place, begin), part.type.as_pointer())
        b.store(part, target).align = 1
        begin += size


# turn(X, points, first, column, centre, scale, packed, place, width):
#     packed[place + k * width + i] = (X[points[first + i], column + k] - centre[column + k]) * scale
# for k below SIDE and i below the number of rows; the numbers of a row of X lie side by side.
turn_square = _turned(SIDE)
turn_rows = _turned(TILE_ROWS)

# turn(words, points, first, column, flipped, packed, place, width):
#     packed[place + k * width + i] = words[points[first + i], column + k] ^ flipped
# for k below WORD_SIDE and i below the number of rows.
turn_square_of_words = _words_turned(WORD_SIDE)
turn_rows_of_words = _words_turned(TILE_ROWS)
