"""Asking memory for what will be read soon: rows in random order wait for memory longer than they are multiplied."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

# Bytes that memory is read in, on nearly every processor; with longer lines some are asked for twice, which is free.
_LINE = 64


@intrinsic  # type: ignore[misc]
def in_a_line(typing_context: Any, array: Any) -> Any:
    """How many entries of an array fill a cache line, known when the code is compiled."""
    if not isinstance(array, types.Array):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        size = context.get_abi_sizeof(context.get_data_type(array.dtype))
        return ir.Constant(ir.IntType(64), _LINE // size)

    return types.int64(array), codegen


@intrinsic  # type: ignore[misc]
def prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Begin to load the cache line of ``array[index]`` of a one-dimensional array; any index does no harm."""
    if not (isinstance(array, types.Array) and array.ndim == 1 and isinstance(index, types.Integer)):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        pointer = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        # To read, to be kept in all caches, data.
        builder.call(function, [pointer, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return types.void(array, index), codegen
