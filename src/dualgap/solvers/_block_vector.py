"""The two vector loops of a pair step: move and find the thresholds, and find the best partner.

Which variables may move is in the bits of a byte each, `GROWS` and `SHRINKS`: the loops have no branches, and slopes,
two rows and these bytes of a block of 2048 fit in a first-level cache of 32 kB (with numbers to be added in place of
bytes they did not: 0.83 microseconds a step in place of 0.60). All other arrays are of one dtype, float32 or float64,
and a multiple of `STRIDE` long: four registers are worked on at a time, and only the best of them is compared with what
was seen before (with all four, comparing took as long as the arithmetic).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels.vectors import INT8, INT32, INT64, SINGLE, Vector, beyond, choose, pointer, vector_of

# A variable may grow, or shrink.
GROWS, SHRINKS = 1, 2
# Slopes of variables that may not, which are as good as none.
_BARRED = 1e30

_CHAINS = 4
STRIDE = _CHAINS * SINGLE.lanes  # a multiple of what float64 needs
_HUGE = 3e38
# The least curvature: that of a variable whose diagonal is 0 beside itself.
_TINY = 1e-30
# The bits of a float are near its logarithm: subtracting them from a constant inverts to 12 %, and one step of Newton's
# method leaves 1.5 %.
_INVERSE = {32: 0x7EF311C7, 64: 0x7FDE623822835EEA}


def _indices(v: Vector) -> ir.Type:
    return ir.VectorType(INT32, v.lanes)


def _whole(v: Vector, value: int) -> ir.Constant:
    return ir.Constant(_indices(v), [value] * v.lanes)


class _Extreme:
    """The least (or largest) number seen, and the first place that holds it.

    Numbers come by the stride, four registers at a time: only the best of the four is compared with what was seen
    before, and only the stride's number is noted. Which of its lanes it was is looked up at the end.
    """

    def __init__(self, b: Any, v: Vector, larger: bool) -> None:
        self.b, self.v, self.larger = b, v, larger
        self.value = cgutils.alloca_once_value(b, v.constant(-_HUGE if larger else _HUGE))
        self.stride = cgutils.alloca_once_value(b, _whole(v, 0))

    def see(self, values: list[Any], stride: Any) -> None:
        """Look at the registers of a stride."""
        b = self.b
        while len(values) > 1:
            values = [choose(b, x, y, self.larger) for x, y in zip(values[::2], values[1::2], strict=True)]
        before = b.load(self.value)
        better = b.fcmp_ordered(">" if self.larger else "<", values[0], before)
        b.store(b.select(better, values[0], before), self.value)
        b.store(b.select(better, stride, b.load(self.stride)), self.stride)

    def result(self, start: Any, count: Any, again: Callable[[Any, int], Any]) -> tuple[Any, Any]:
        """The extreme number and its index; ``again(at, chain)`` makes a register anew, `at` being where its stride is.

        Without any variables, or where none was comparable, the index is that of the first.
        """
        b, v = self.b, self.v
        number = v.extreme(b, b.load(self.value), self.larger)
        everywhere = v.splat(b, number)
        place = cgutils.alloca_once_value(b, start)
        with b.if_then(b.icmp_signed(">", count, ir.Constant(INT64, 0))):
            same = b.fcmp_ordered("==", b.load(self.value), everywhere)
            first = self._least(b.select(same, b.load(self.stride), _whole(v, 2**31 - 1)))
            at = b.mul(b.sext(first, INT64), ir.Constant(INT64, _CHAINS * v.lanes))
            lanes = ir.IntType(v.lanes)
            found = ir.Constant(INT64, 0)
            for chain in range(_CHAINS):
                bits = b.zext(b.bitcast(b.fcmp_ordered("==", again(at, chain), everywhere), lanes), INT64)
                found = b.or_(found, b.shl(bits, ir.Constant(INT64, chain * v.lanes)))
            lane = b.cttz(found, ir.Constant(ir.IntType(1), 0))
            lane = b.select(b.icmp_unsigned("==", found, ir.Constant(INT64, 0)), ir.Constant(INT64, 0), lane)
            b.store(b.add(start, b.add(at, lane)), place)
        return number, b.load(place)

    def _least(self, numbers: Any) -> Any:
        """The least lane of a vector of integers."""
        b, v = self.b, self.v
        width = v.lanes
        while width > 1:
            width //= 2
            turned = ir.Constant(_indices(v), [(i + width) % v.lanes for i in range(v.lanes)])
            other = b.shuffle_vector(numbers, ir.Constant(numbers.type, ir.Undefined), turned)
            numbers = b.select(b.icmp_signed("<", numbers, other), numbers, other)
        return b.extract_element(numbers, ir.Constant(INT32, 0))


def _splat_index(b: Any, v: Vector, index: Any) -> Any:
    """The number of a stride in every lane."""
    nothing = ir.Constant(_indices(v), ir.Undefined)
    first = b.insert_element(nothing, b.trunc(index, INT32), ir.Constant(INT32, 0))
    return b.shuffle_vector(first, nothing, _whole(v, 0))


def _may(b: Any, v: Vector, ways: Any, way: int) -> Any:
    """Of each lane whether its variable may go that way, its byte being at an address."""
    kind = ir.VectorType(INT8, v.lanes)
    bytes_ = b.load(b.bitcast(ways, kind.as_pointer()))
    bytes_.align = 1
    chosen = b.and_(bytes_, ir.Constant(kind, [way] * v.lanes))
    return b.icmp_unsigned("!=", chosen, ir.Constant(kind, [0] * v.lanes))


@intrinsic
def move(typing, slope, K, i_at, L, j_at, step, ways, start, count, values, places):  # type: ignore[no-untyped-def]
    """``slope += step (K_i - L_j)`` from `start` on for `count` variables, and the thresholds that result.

    ``values[0]`` is the least slope of what may grow, at ``places[0]``, ``values[1]`` the largest of what may shrink,
    at ``places[1]``. `K` and `L` are flat, `i_at` and `j_at` are where the two rows begin.
    """
    v = vector_of(slope)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        begin, count = arguments[7], arguments[8]
        slope_at, ways_at = (pointer(context, b, kind, arguments[k], begin) for k, kind in ((0, slope), (6, ways)))
        row_i = pointer(context, b, K, arguments[1], b.add(arguments[2], begin))
        row_j = pointer(context, b, L, arguments[3], b.add(arguments[4], begin))
        t = v.splat(b, arguments[5])

        def here(at: Any, chain: int) -> Any:
            return b.add(at, ir.Constant(INT64, chain * v.lanes))

        least, most = _Extreme(b, v, larger=False), _Extreme(b, v, larger=True)
        with cgutils.for_range(b, b.sdiv(count, ir.Constant(INT64, _CHAINS * v.lanes))) as loop:
            at = b.mul(loop.index, ir.Constant(INT64, _CHAINS * v.lanes))
            grow, shrink = [], []
            for chain in range(_CHAINS):
                place = here(at, chain)
                apart = b.fsub(v.load(b, b.gep(row_i, [place])), v.load(b, b.gep(row_j, [place])))
                new = v.fma(b, t, apart, v.load(b, b.gep(slope_at, [place])))
                v.store(b, new, b.gep(slope_at, [place]))
                here_ways = b.gep(ways_at, [place])
                grow.append(b.select(_may(b, v, here_ways, GROWS), new, v.constant(_BARRED)))
                shrink.append(b.select(_may(b, v, here_ways, SHRINKS), new, v.constant(-_BARRED)))
            stride = _splat_index(b, v, loop.index)
            least.see(grow, stride)
            most.see(shrink, stride)
        out = pointer(context, b, values, arguments[9], ir.Constant(INT64, 0))
        where = pointer(context, b, places, arguments[10], ir.Constant(INT64, 0))
        for k, (extreme, way, barred) in enumerate(((least, GROWS, _BARRED), (most, SHRINKS, -_BARRED))):

            def again(at: Any, chain: int, way: int = way, barred: float = barred) -> Any:
                place = here(at, chain)
                may = _may(b, v, b.gep(ways_at, [place]), way)
                return b.select(may, v.load(b, b.gep(slope_at, [place])), v.constant(barred))

            number, place = extreme.result(begin, count, again)
            b.store(number, beyond(b, out, k))
            b.store(place, beyond(b, where, k))
        return context.get_dummy_value()

    return types.void(slope, K, i_at, L, j_at, slope.dtype, ways, start, count, values, places), generate


@intrinsic
def partner(typing, slope, K, i_at, diagonal, own, ways, threshold, start, count):  # type: ignore[no-untyped-def]
    """The j that promises most beside i: ``max (slope_j - threshold)^2 / (K_ii + K_jj - 2 K_ij)``, if it may shrink.

    `diagonal` is an array, or one number for all j. The quotient is taken by a reciprocal good to a percent or so: it
    only ranks.
    """
    v = vector_of(slope)
    alike = not isinstance(diagonal, types.Array)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        begin, count = arguments[7], arguments[8]
        slope_at, ways_at = (pointer(context, b, kind, arguments[k], begin) for k, kind in ((0, slope), (5, ways)))
        row_i = pointer(context, b, K, arguments[1], b.add(arguments[2], begin))
        k_ii, m = v.splat(b, arguments[4]), v.splat(b, arguments[6])
        both = b.fadd(k_ii, v.splat(b, arguments[3])) if alike else None
        diagonal_at = None if alike else pointer(context, b, diagonal, arguments[3], begin)
        # Beside j = i it is the share of K_ii + K_jj that counts as flat, and other pairs are not as flat as that
        # unless their diagonal is about the same.
        flat = choose(b, b.fmul(k_ii, v.constant(2.0 * FLAT[v.bits])), v.constant(_TINY), larger=True)

        def gain(at: Any, chain: int) -> Any:
            here = b.add(at, ir.Constant(INT64, chain * v.lanes))
            apart = choose(b, b.fsub(v.load(b, b.gep(slope_at, [here])), m), v.constant(0.0), larger=True)
            apart = b.select(_may(b, v, b.gep(ways_at, [here]), SHRINKS), apart, v.constant(0.0))
            ends = both if alike else b.fadd(k_ii, v.load(b, b.gep(diagonal_at, [here])))
            curvature = v.fma(b, v.constant(-2.0), v.load(b, b.gep(row_i, [here])), ends)
            curvature = choose(b, curvature, flat, larger=True)
            bits = b.sub(v.integer(_INVERSE[v.bits]), b.bitcast(curvature, v.integers))
            inverse = b.bitcast(bits, v.type)
            inverse = b.fmul(inverse, v.fma(b, b.fneg(curvature), inverse, v.constant(2.0)))
            return b.fmul(b.fmul(apart, apart), inverse)

        best = _Extreme(b, v, larger=True)
        with cgutils.for_range(b, b.sdiv(count, ir.Constant(INT64, _CHAINS * v.lanes))) as loop:
            at = b.mul(loop.index, ir.Constant(INT64, _CHAINS * v.lanes))
            best.see([gain(at, chain) for chain in range(_CHAINS)], _splat_index(b, v, loop.index))
        return best.result(begin, count, gain)[1]

    one = slope.dtype
    return types.int64(slope, K, i_at, one if alike else diagonal, one, ways, one, start, count), generate


# A pair whose curvature is below this share of K_ii + K_jj is flat to the entries' precision.
FLAT = {32: 1e-6, 64: 1e-14}
