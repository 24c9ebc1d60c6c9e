"""Products with a dense row as vector instructions, the last few entries under a mask.

A loop that LLVM turns into vectors by itself takes 32 entries at a time and the rest one by one: rows of 22 features
were all rest. `linear_rows` chooses between these and the loops for CSR rows.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels.vectors import DOUBLE, INT32, INT64, pointer

# Independent sums: an fma takes four cycles, and the next one to the same sum waits for it.
_CHAINS = 4


def narrow(array: types.Array) -> Any:
    """The vector type of so many values as there are lanes for float64."""
    return ir.VectorType(ir.FloatType() if array.dtype == types.float32 else ir.DoubleType(), DOUBLE.lanes)


def _bytes(kind: Any) -> int:
    return 4 if kind.element == ir.FloatType() else 8


def load(b: Any, kind: Any, start: Any, mask: Any = None) -> Any:
    """Values as float64: all lanes, or those of the mask and 0 elsewhere."""
    at = b.bitcast(start, kind.as_pointer())
    if mask is None:
        value = b.load(at)
        value.align = _bytes(kind)
    else:
        function = _masked(b, "load", kind, kind, [at.type, INT32, mask.type, kind])
        value = b.call(function, [at, INT32(_bytes(kind)), mask, ir.Constant(kind, [0.0] * DOUBLE.lanes)])
    return value if kind == DOUBLE.type else b.fpext(value, DOUBLE.type)


def store(b: Any, value: Any, start: Any, mask: Any = None) -> None:
    """Write a register of doubles, or those lanes of it that the mask selects."""
    if mask is None:
        DOUBLE.store(b, value, start)
        return
    at = b.bitcast(start, DOUBLE.type.as_pointer())
    function = _masked(b, "store", DOUBLE.type, ir.VoidType(), [DOUBLE.type, at.type, INT32, mask.type])
    b.call(function, [value, at, INT32(8), mask])


def _masked(b: Any, verb: str, kind: Any, result: Any, arguments: list[Any]) -> Any:
    name = f"llvm.masked.{verb}.v{DOUBLE.lanes}f{8 * _bytes(kind)}.p0"
    return cgutils.get_or_insert_function(b.module, ir.FunctionType(result, arguments), name)


def _rest(b: Any, count: Any) -> Any:
    """The mask of the first `count` lanes."""
    wide = ir.VectorType(INT64, DOUBLE.lanes)
    nothing = ir.Constant(wide, ir.Undefined)
    first = b.insert_element(nothing, count, INT32(0))
    every = b.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(INT32, DOUBLE.lanes), [0] * DOUBLE.lanes))
    return b.icmp_unsigned("<", ir.Constant(wide, list(range(DOUBLE.lanes))), every)


def _fits(values: Any, w: Any) -> bool:
    return all(isinstance(array, types.Array) and array.ndim == 1 for array in (values, w)) and w.dtype == types.float64


@intrinsic  # type: ignore[misc]
def dense_dot(typing_context: Any, values: Any, first: Any, w: Any) -> Any:
    """``values[first : first + w.size] @ w`` in float64, for values of either precision."""
    if not _fits(values, w):
        return None

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        kind = narrow(values)
        row = pointer(context, b, values, arguments[0], arguments[1])
        weights = pointer(context, b, w, arguments[2], INT64(0))
        size = cgutils.unpack_tuple(b, context.make_array(w)(context, b, arguments[2]).shape, 1)[0]
        sums = [cgutils.alloca_once(b, DOUBLE.type) for _ in range(_CHAINS)]
        for place in sums:
            b.store(DOUBLE.constant(0.0), place)

        def add(place: Any, at: Any, mask: Any = None) -> None:
            x = load(b, kind, b.gep(row, [at]), mask)
            y = load(b, DOUBLE.type, b.gep(weights, [at]), mask)
            b.store(DOUBLE.fma(b, x, y, b.load(place)), place)

        over(b, size, lambda at, chain, mask: add(sums[chain], at, mask))
        first_pair, second_pair = (b.fadd(b.load(sums[k]), b.load(sums[k + 1])) for k in (0, 2))
        total = b.fadd(first_pair, second_pair)
        return _across(b, total)

    return types.float64(values, types.int64, w), codegen


@intrinsic  # type: ignore[misc]
def dense_add(typing_context: Any, values: Any, first: Any, scale: Any, w: Any) -> Any:
    """``w += scale * values[first : first + w.size]`` in float64, for values of either precision."""
    if not _fits(values, w):
        return None

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        kind = narrow(values)
        row = pointer(context, b, values, arguments[0], arguments[1])
        factor = DOUBLE.splat(b, arguments[2])
        weights = pointer(context, b, w, arguments[3], INT64(0))
        size = cgutils.unpack_tuple(b, context.make_array(w)(context, b, arguments[3]).shape, 1)[0]

        def add(at: Any, chain: int, mask: Any) -> None:
            x = load(b, kind, b.gep(row, [at]), mask)
            place = b.gep(weights, [at])
            store(b, DOUBLE.fma(b, x, factor, load(b, DOUBLE.type, place, mask)), place, mask)

        over(b, size, add)
        return context.get_dummy_value()

    return types.void(values, types.int64, types.float64, w), codegen


def over(b: Any, size: Any, work: Any) -> None:
    """``work(position, chain, mask)`` for vectors of `size` entries: by fours, one by one, then what is left."""
    lanes = DOUBLE.lanes
    long = b.mul(b.udiv(size, INT64(_CHAINS * lanes)), INT64(_CHAINS * lanes))
    whole = b.mul(b.udiv(size, INT64(lanes)), INT64(lanes))
    with cgutils.for_range_slice(b, INT64(0), long, INT64(_CHAINS * lanes), INT64) as (at, _):
        for chain in range(_CHAINS):
            work(b.add(at, INT64(chain * lanes)), chain, None)
    with cgutils.for_range_slice(b, long, whole, INT64(lanes), INT64) as (at, _):
        work(at, 0, None)
    left = b.sub(size, whole)
    with b.if_then(b.icmp_unsigned(">", left, INT64(0))):
        work(whole, 0, _rest(b, left))


def _across(b: Any, total: Any) -> Any:
    """The sum of all lanes, by halving."""
    width = DOUBLE.lanes
    while width > 1:
        width //= 2
        turned = [(lane + width) % DOUBLE.lanes for lane in range(DOUBLE.lanes)]
        other = b.shuffle_vector(
            total, ir.Constant(total.type, ir.Undefined), ir.Constant(ir.VectorType(INT32, DOUBLE.lanes), turned)
        )
        total = b.fadd(total, other)
    return b.extract_element(total, INT32(0))
