"""Asking memory for what will be read soon: rows in random order wait for memory longer than they are multiplied."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


@intrinsic  # type: ignore[misc]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Begin to load the cache line of ``array[index]`` of a one-dimensional array; any index does no harm."""
    if not (isinstance(array, types.Array) and array.ndim == 1 and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        _load_soon(builder, builder.gep(data, [arguments[1]]))
        return context.get_dummy_value()

    return types.void(array, index), codegen


@intrinsic  # type: ignore[misc]
def prefetch_entry(typing_context: Any, matrix: Any, row: Any, column: Any) -> Any:
    """The same for ``matrix[row, column]``, however the matrix lies in memory."""
    if not (isinstance(matrix, types.Array) and matrix.ndim == 2):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        proxy = cgutils.create_struct_proxy(matrix)(context, builder, arguments[0])
        at = [context.cast(builder, arguments[k], signature.args[k], types.intp) for k in (1, 2)]
        strides = cgutils.unpack_tuple(builder, proxy.strides, 2)
        offset = builder.add(builder.mul(at[0], strides[0]), builder.mul(at[1], strides[1]))
        _load_soon(builder, builder.gep(builder.bitcast(proxy.data, ir.IntType(8).as_pointer()), [offset]))
        return context.get_dummy_value()

    return types.void(matrix, row, column), codegen


def _load_soon(builder: Any, place: Any) -> None:
    pointer = builder.bitcast(place, ir.IntType(8).as_pointer())
    word = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
    # To read, to be kept in all caches, data.
    builder.call(function, [pointer, word(0), word(3), word(1)])
