"""Products with a row of blocks: eight neighbouring columns at a time, a byte each, all of them multiples of one step.

The arrays are those of a CSR matrix of blocks: block k holds bytes ``8k ... 8k + 7`` of `values` and stands at columns
``8 indices[k] ...``. Block 0 belongs to no row: its eight bytes are the step, as float64. Weights are read and written
as whole blocks, so that their number must be a multiple of eight. `level_rows` makes such rows, `linear_rows` chooses.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels.vectors import FMA, INT32, INT64, pointer

# Columns of a block; LLVM splits the vector where the CPU has shorter ones.
BLOCK = 8
_BYTES = ir.VectorType(ir.IntType(8), BLOCK)
_DOUBLES = ir.VectorType(ir.DoubleType(), BLOCK)
# Independent sums: an fma takes four cycles, and the next one to the same sum waits for it.
_CHAINS = 4


def _in_blocks(values: Any) -> bool:
    """Whether rows are made of blocks: nothing else has bytes for values."""
    return isinstance(values, types.Array) and values.dtype == types.uint8


@intrinsic  # type: ignore[misc]
def in_blocks(typing_context: Any, values: Any) -> Any:
    """Whether rows with these values are made of blocks, known when the code is compiled."""

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(ir.IntType(1), int(_in_blocks(values)))

    return types.boolean(values), codegen


@intrinsic  # type: ignore[misc]
def block_dot(typing_context: Any, indices: Any, values: Any, begin: Any, end: Any, w: Any) -> Any:
    """The product of blocks `begin` to `end` with the weights (0 where rows are not made of blocks)."""

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        if not _in_blocks(values):
            return ir.Constant(ir.DoubleType(), 0.0)
        _, _, first, last, _ = arguments
        sums = [cgutils.alloca_once_value(b, ir.Constant(_DOUBLES, [0.0] * BLOCK)) for _ in range(_CHAINS)]

        def add(at: Any, place: Any) -> None:
            x, weights = _block(context, b, signature.args, arguments, at)
            y = b.load(weights)
            y.align = 8
            b.store(_fma(b, x, y, b.load(place)), place)

        long = b.mul(b.udiv(b.sub(last, first), INT64(_CHAINS)), INT64(_CHAINS))
        with cgutils.for_range_slice(b, first, b.add(first, long), INT64(_CHAINS), INT64) as (at, _):
            for chain in range(_CHAINS):
                add(b.add(at, INT64(chain)), sums[chain])
        with cgutils.for_range_slice(b, b.add(first, long), last, INT64(1), INT64) as (at, _):
            add(at, sums[0])
        first_pair, second_pair = (b.fadd(b.load(sums[k]), b.load(sums[k + 1])) for k in (0, 2))
        return b.fmul(_step(context, b, values, arguments[1]), _across(b, b.fadd(first_pair, second_pair)))

    return types.float64(indices, values, types.int64, types.int64, w), codegen


@intrinsic  # type: ignore[misc]
def block_add(typing_context: Any, indices: Any, values: Any, begin: Any, end: Any, scale: Any, w: Any) -> Any:
    """Add `scale` times blocks `begin` to `end` to the weights (nothing where rows are not made of blocks)."""

    def codegen(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        if not _in_blocks(values):
            return context.get_dummy_value()
        _, _, first, last, scale, _ = arguments
        factor = _splat(b, b.fmul(scale, _step(context, b, values, arguments[1])))
        with cgutils.for_range_slice(b, first, last, INT64(1), INT64) as (at, _):
            x, weights = _block(context, b, signature.args, arguments, at)
            y = b.load(weights)
            y.align = 8
            b.store(_fma(b, x, factor, y), weights).align = 8
        return context.get_dummy_value()

    return types.void(indices, values, types.int64, types.int64, types.float64, w), codegen


def _block(context: Any, b: Any, kinds: Any, arguments: Any, at: Any) -> tuple[Any, Any]:
    """The bytes of a block as float64, and the address of its weights."""
    place = pointer(context, b, kinds[1], arguments[1], b.mul(at, INT64(BLOCK)))
    levels = b.load(b.bitcast(place, _BYTES.as_pointer()))
    levels.align = 1
    column = b.zext(b.load(pointer(context, b, kinds[0], arguments[0], at)), INT64)
    weights = pointer(context, b, kinds[-1], arguments[-1], b.mul(column, INT64(BLOCK)))
    return b.uitofp(levels, _DOUBLES), b.bitcast(weights, _DOUBLES.as_pointer())


def _step(context: Any, b: Any, kind: Any, values: Any) -> Any:
    step = b.load(b.bitcast(pointer(context, b, kind, values, INT64(0)), ir.DoubleType().as_pointer()))
    step.align = 1
    return step


def _fma(b: Any, x: Any, y: Any, z: Any) -> Any:
    name = f"llvm.{'fma' if FMA else 'fmuladd'}.v{BLOCK}f64"
    return b.call(cgutils.get_or_insert_function(b.module, ir.FunctionType(_DOUBLES, [_DOUBLES] * 3), name), [x, y, z])


def _splat(b: Any, value: Any) -> Any:
    nothing = ir.Constant(_DOUBLES, ir.Undefined)
    first = b.insert_element(nothing, value, INT32(0))
    return b.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(INT32, BLOCK), [0] * BLOCK))


def _across(b: Any, total: Any) -> Any:
    """The sum of all lanes, by halving."""
    width = BLOCK
    while width > 1:
        width //= 2
        turned = ir.Constant(ir.VectorType(INT32, BLOCK), [(lane + width) % BLOCK for lane in range(BLOCK)])
        total = b.fadd(total, b.shuffle_vector(total, ir.Constant(_DOUBLES, ir.Undefined), turned))
    return b.extract_element(total, INT32(0))
