"""The two vector loops of a pair step: move and find the thresholds, and find the best partner.

Which variables may move is in additive penalties, so that the loops have no branches: ``up`` is 0 where a variable may
grow and huge where not, ``low`` is 0 where it may shrink and hugely negative where not. All arrays are of one dtype,
float32 or float64, and a multiple of `STRIDE` long: four registers are worked on at a time, because one chain of
comparisons waits for itself.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from dualgap.kernels.vectors import INT32, INT64, SINGLE, Vector, beyond, choose, pointer, vector_of

_CHAINS = 4
STRIDE = _CHAINS * SINGLE.lanes  # a multiple of what float64 needs
_HUGE = 3e38
# The bits of a float are near its logarithm: subtracting them from a constant inverts to 12 %, and one step of Newton's
# method leaves 1.5 %.
_INVERSE = {32: 0x7EF311C7, 64: 0x7FDE623822835EEA}


def _indices(v: Vector) -> ir.Type:
    return ir.VectorType(INT32, v.lanes)


def _whole(v: Vector, value: int) -> ir.Constant:
    return ir.Constant(_indices(v), [value] * v.lanes)


class _Extreme:
    """The least (or largest) number seen and where, in four independent chains."""

    def __init__(self, b: Any, v: Vector, larger: bool) -> None:
        self.b, self.v, self.larger = b, v, larger
        worst = v.constant(-_HUGE if larger else _HUGE)
        self.values = [cgutils.alloca_once_value(b, worst) for _ in range(_CHAINS)]
        self.places = [cgutils.alloca_once_value(b, _whole(v, 0)) for _ in range(_CHAINS)]

    def see(self, chain: int, value: Any, place: Any) -> None:
        b = self.b
        better = b.fcmp_ordered(">" if self.larger else "<", value, b.load(self.values[chain]))
        b.store(b.select(better, value, b.load(self.values[chain])), self.values[chain])
        b.store(b.select(better, place, b.load(self.places[chain])), self.places[chain])

    def result(self) -> tuple[Any, Any]:
        """The extreme number and its index; of equal numbers the first."""
        b, v = self.b, self.v
        values, places = [b.load(p) for p in self.values], [b.load(p) for p in self.places]
        best = values[0]
        for value in values[1:]:
            best = choose(b, best, value, self.larger)
        number = v.extreme(b, best, self.larger)
        everywhere = v.splat(b, number)
        first = _whole(v, 2**31 - 1)
        for value, place in zip(values, places, strict=True):
            held = b.select(b.fcmp_ordered("==", value, everywhere), place, _whole(v, 2**31 - 1))
            first = b.select(b.icmp_signed("<", first, held), first, held)
        width = v.lanes
        while width > 1:
            width //= 2
            turned = ir.Constant(_indices(v), [(i + width) % v.lanes for i in range(v.lanes)])
            other = b.shuffle_vector(first, ir.Constant(first.type, ir.Undefined), turned)
            first = b.select(b.icmp_signed("<", first, other), first, other)
        return number, b.sext(b.extract_element(first, ir.Constant(INT32, 0)), INT64)


def _lanes(b: Any, v: Vector, start: Any, at: Any, chain: int) -> Any:
    """The indices of one chain's register at position `at` of an array that begins at index `start`."""
    nothing = ir.Constant(_indices(v), ir.Undefined)
    base = b.trunc(b.add(b.add(start, at), ir.Constant(INT64, chain * v.lanes)), INT32)
    first = b.insert_element(nothing, base, ir.Constant(INT32, 0))
    return b.add(b.shuffle_vector(first, nothing, _whole(v, 0)), ir.Constant(_indices(v), list(range(v.lanes))))


@intrinsic
def move(typing, slope, K, i_at, L, j_at, step, up, low, start, count, values, places):  # type: ignore[no-untyped-def]
    """``slope += step (K_i - L_j)`` from `start` on for `count` variables, and the thresholds that result.

    ``values[0] = min(slope + up)`` at ``places[0]``, ``values[1] = max(slope + low)`` at ``places[1]``. `K` and `L` are
    flat, `i_at` and `j_at` are where the two rows begin.
    """
    v = vector_of(slope)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        begin = arguments[8]
        slope_at, up_at, low_at = (pointer(context, b, slope, arguments[k], begin) for k in (0, 6, 7))
        row_i = pointer(context, b, K, arguments[1], b.add(arguments[2], begin))
        row_j = pointer(context, b, L, arguments[3], b.add(arguments[4], begin))
        t = v.splat(b, arguments[5])
        least, most = _Extreme(b, v, larger=False), _Extreme(b, v, larger=True)
        groups = b.sdiv(arguments[9], ir.Constant(INT64, _CHAINS * v.lanes))
        with cgutils.for_range(b, groups) as loop:
            at = b.mul(loop.index, ir.Constant(INT64, _CHAINS * v.lanes))
            for chain in range(_CHAINS):
                here = b.add(at, ir.Constant(INT64, chain * v.lanes))
                apart = b.fsub(v.load(b, b.gep(row_i, [here])), v.load(b, b.gep(row_j, [here])))
                new = v.fma(b, t, apart, v.load(b, b.gep(slope_at, [here])))
                v.store(b, new, b.gep(slope_at, [here]))
                which = _lanes(b, v, begin, at, chain)
                least.see(chain, b.fadd(new, v.load(b, b.gep(up_at, [here]))), which)
                most.see(chain, b.fadd(new, v.load(b, b.gep(low_at, [here]))), which)
        out = pointer(context, b, values, arguments[10], ir.Constant(INT64, 0))
        where = pointer(context, b, places, arguments[11], ir.Constant(INT64, 0))
        for k, extreme in enumerate((least, most)):
            number, place = extreme.result()
            b.store(number, beyond(b, out, k))
            b.store(place, beyond(b, where, k))
        return context.get_dummy_value()

    return types.void(slope, K, i_at, L, j_at, slope.dtype, up, low, start, count, values, places), generate


@intrinsic
def partner(typing, slope, K, i_at, diagonal, own, low, threshold, start, count):  # type: ignore[no-untyped-def]
    """The j that promises most beside i: ``max (slope_j - threshold)^2 / (K_ii + K_jj - 2 K_ij)``, if it may shrink.

    The quotient is taken by a reciprocal good to a percent or so: it only ranks.
    """
    v = vector_of(slope)

    def generate(context: Any, b: Any, _signature: Any, arguments: Any) -> Any:
        begin = arguments[7]
        slope_at, low_at, diagonal_at = (
            pointer(context, b, kind, arguments[k], begin) for k, kind in ((0, slope), (5, low), (3, diagonal))
        )
        row_i = pointer(context, b, K, arguments[1], b.add(arguments[2], begin))
        k_ii, m = v.splat(b, arguments[4]), v.splat(b, arguments[6])
        best = _Extreme(b, v, larger=True)
        groups = b.sdiv(arguments[8], ir.Constant(INT64, _CHAINS * v.lanes))
        with cgutils.for_range(b, groups) as loop:
            at = b.mul(loop.index, ir.Constant(INT64, _CHAINS * v.lanes))
            for chain in range(_CHAINS):
                here = b.add(at, ir.Constant(INT64, chain * v.lanes))
                apart = b.fsub(b.fadd(v.load(b, b.gep(slope_at, [here])), v.load(b, b.gep(low_at, [here]))), m)
                apart = choose(b, apart, v.constant(0.0), larger=True)
                ends = b.fadd(k_ii, v.load(b, b.gep(diagonal_at, [here])))
                curvature = v.fma(b, v.constant(-2.0), v.load(b, b.gep(row_i, [here])), ends)
                curvature = choose(b, curvature, b.fmul(ends, v.constant(FLAT[v.bits])), larger=True)
                bits = b.sub(v.integer(_INVERSE[v.bits]), b.bitcast(curvature, v.integers))
                inverse = b.bitcast(bits, v.type)
                inverse = b.fmul(inverse, b.fsub(v.constant(2.0), b.fmul(curvature, inverse)))
                best.see(chain, b.fmul(b.fmul(apart, apart), inverse), _lanes(b, v, begin, at, chain))
        return best.result()[1]

    one = slope.dtype
    return types.int64(slope, K, i_at, diagonal, one, low, one, start, count), generate


# A pair whose curvature is below this share of K_ii + K_jj is flat to the entries' precision.
FLAT = {32: 1e-6, 64: 1e-14}
