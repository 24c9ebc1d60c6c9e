"""Arrays that compiled code reads and writes without counting who else does.

Numba counts references to an array with an atomic instruction wherever one is unpacked from a tuple or handed to
another function: some thirty of them whenever pair steps made a row of a block, or looked whether there was one.
(Microseconds a step among 512 and 2048 variables: 0.15 and 0.34 in place of 0.32 and 0.48; 4 % of all processor time of
fits.) Whoever calls holds the arrays for as long as the call lasts, which is all that is needed.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


@intrinsic
def borrowed(typing, value):  # type: ignore[no-untyped-def]
    """The same arrays, alone or in tuples of tuples, with nothing to count; not to be returned, nor kept by anyone."""

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        return _uncounted(context, b, value, arguments[0])

    return value(value), generate


def _uncounted(context: Any, b: Any, kind: types.Type, value: Any) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, b, value)
        for name in ("meminfo", "parent"):
            field = getattr(array, name)
            setattr(array, name, ir.Constant(field.type, None))
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):  # type: ignore[attr-defined]
        for place, part in enumerate(kind):
            value = b.insert_value(value, _uncounted(context, b, part, b.extract_value(value, place)), place)
    return value
