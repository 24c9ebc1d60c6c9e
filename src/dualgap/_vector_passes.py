"""Compiled passes over the vectors of a problem, imported at first use: `DualQP` must not cost Numba's second.

Each takes the place of several of NumPy's: small fits feel microseconds, and large ones every vector made in between.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# Terms that are added up by themselves, which rounds less than one long sum.
_TERMS = 512
# A variable this close to a bound, relative to the width of its box, counts as being there: solvers snap at
# a hundredth of this, and a bound met to twelve digits must not turn a satisfied condition into a violated one.
_AT_BOUND = 1e-12
# Sums may be taken in any order within a part: that is what lets the compiler use vector instructions.
_ANY_ORDER = {"reassoc", "contract", "nsz"}
# What `target_fault` answers.
FINE, NOT_FINITE, NOT_A_SIGN = 0, 1, 2


@nb.njit(cache=True, nogil=True)
def fault_of(index, points, sign, ridge, f0, lo, hi, F, e):  # type: ignore[no-untyped-def]
    """Key of the first of `problem._FAULTS` that is met, 0 if none."""
    wrong = 0  # counted without a way out, eight variables at a time; what is wrong is looked for afterwards
    for i in range(sign.size):
        wrong += (index[i] < 0) | (index[i] >= points) | (abs(sign[i]) != 1.0) | (not ridge[i] >= 0.0)
        wrong += (ridge[i] == np.inf) | (not abs(f0[i]) < np.inf) | (not abs(lo[i]) < np.inf) | (not lo[i] <= hi[i])
    for j in range(e.size):
        for i in range(sign.size):
            wrong += not abs(F[i, j]) < np.inf
        if not np.isfinite(e[j]):
            wrong += 1
    return 0 if wrong == 0 else _first_fault(index, points, sign, ridge, f0, lo, hi, F, e)


@nb.njit(cache=True, nogil=True)
def _first_fault(index, points, sign, ridge, f0, lo, hi, F, e):  # type: ignore[no-untyped-def]
    for i in range(sign.size):
        if not 0 <= index[i] < points:
            return 8
        if abs(sign[i]) != 1.0:
            return 1
        if not 0.0 <= ridge[i] < np.inf:
            return 2
        if not np.isfinite(f0[i]):
            return 3
        if not np.isfinite(lo[i]):
            return 4
        if not lo[i] <= hi[i]:
            return 5
        for j in range(e.size):
            if not np.isfinite(F[i, j]):
                return 6
    return 7


@nb.njit(cache=True, nogil=True)
def target_fault(target, signs):  # type: ignore[no-untyped-def]
    """Whether all targets are finite and, where `signs` are wanted, +1 or -1."""
    infinite = other = 0
    for i in range(target.size):
        infinite += not abs(target[i]) < np.inf
        other += abs(target[i]) != 1.0
    if infinite:
        return NOT_FINITE
    return NOT_A_SIGN if signs and other else FINE


@nb.njit(cache=True, nogil=True)
def positive_weights(weight):  # type: ignore[no-untyped-def]
    """How many weights are positive; -1 where one is negative or not finite."""
    wrong = count = 0
    for i in range(weight.size):
        wrong += (not weight[i] >= 0.0) | (weight[i] == np.inf)
        count += weight[i] > 0.0
    return -1 if wrong else count


@nb.njit(cache=True, nogil=True)
def ascending(index):  # type: ignore[no-untyped-def]
    """Whether every entry is larger than the one before it."""
    wrong = 0
    for i in range(1, index.size):
        wrong += index[i] <= index[i - 1]
    return wrong == 0


@nb.njit(cache=True, nogil=True)
def nonzero(values):  # type: ignore[no-untyped-def]
    """Where values are not 0, as `np.flatnonzero`, without a branch that nobody can predict."""
    places = np.empty(values.size, np.intp)
    count = 0
    for i in range(values.size):
        places[count] = i
        count += values[i] != 0.0
    return places[:count]


@nb.njit(cache=True, nogil=True)
def signed_gradient(product, place, sign, ridge, f0, a):  # type: ignore[no-untyped-def]
    """``sign * product[place] + ridge * a + f0``; an empty `place` stands for all components in order."""
    out = np.empty(a.size)
    for i in range(a.size):
        value = product[place[i]] if place.size else product[i]
        out[i] = sign[i] * value + ridge[i] * a[i] + f0[i]
    return out


@nb.njit(cache=True, nogil=True)
def distance_from_doubt(a, gradient, f0, lo, hi, F, low, high, unit):  # type: ignore[no-untyped-def]
    """How far slopes at bounds are from pointing out of them, at both multipliers; less `unit` of their terms."""
    out = np.empty(a.size)
    for i in range(a.size):
        one = other = 0.0
        for j in range(low.size):
            one += F[i, j] * low[j]
            other += F[i, j] * high[j]
        down = gradient[i] + min(one, other) if a[i] == lo[i] else -np.inf
        up = -gradient[i] - max(one, other) if a[i] == hi[i] else -np.inf
        rounding = unit * (abs(gradient[i]) + abs(f0[i]) + max(abs(one), abs(other)))
        # A variable with a single value is at both bounds, whatever its slope.
        out[i] = np.inf if lo[i] == hi[i] else max(down, up) - rounding
    return out


@nb.njit(cache=True, nogil=True)
def in_box(a, lo, hi):  # type: ignore[no-untyped-def]
    """Whether ``lo <= a <= hi``."""
    wrong = 0
    for i in range(a.size):
        wrong += (not lo[i] <= a[i]) | (not a[i] <= hi[i])
    return wrong == 0


@nb.njit(cache=True, nogil=True)
def missed(a, lo, hi, F, residual, terms):  # type: ignore[no-untyped-def]
    """How far `a` is outside the box; ``F'a`` is taken off `residual` and ``|F|'|a|`` added to `terms`."""
    outside = 0.0
    if not in_box(a, lo, hi):
        for i in range(a.size):
            outside = max(outside, lo[i] - a[i], a[i] - hi[i])
    for j in range(residual.size):
        for i in range(a.size):
            residual[j] -= F[i, j] * a[i]
            terms[j] += abs(F[i, j] * a[i])
    return outside


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _flat_part(a, gradient, f0, s, lo, hi):  # type: ignore[no-untyped-def]
    """Brackets and ``a'(gradient + f0)`` of variables without ridges."""
    brackets = energy = 0.0
    for i in range(a.size):
        energy += a[i] * (gradient[i] + f0[i])
        target = hi[i] if s[i] < 0.0 else lo[i]
        brackets += (a[i] - target) * s[i]
    return brackets, energy


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _curved_part(a, gradient, f0, s, ridge, lo, hi):  # type: ignore[no-untyped-def]
    """The same where some have one."""
    brackets = energy = 0.0
    for i in range(a.size):
        energy += a[i] * (gradient[i] + f0[i])
        target = _minimiser(s[i], ridge[i], lo[i], hi[i])
        move = a[i] - target
        brackets += move * (s[i] + ridge[i] * (target + 0.5 * move))
    return brackets, energy


@nb.njit(cache=True, nogil=True, inline="always")
def _minimiser(s, ridge, lo, hi):  # type: ignore[no-untyped-def]
    """Where ``ridge t^2 / 2 + s t`` is least within the box."""
    if ridge > 0.0:
        return min(max(-s / ridge, lo), hi)
    return hi if s < 0.0 else lo


@nb.njit(cache=True, nogil=True)
def _broken(s, ridge, lo, hi):  # type: ignore[no-untyped-def]
    """Why a sum of brackets is not finite: NaN for a slope that is none, infinity for a minimiser; 0 for neither."""
    for i in range(s.size):
        if np.isnan(s[i]):
            return np.nan  # arithmetic has overflowed: nothing is proved
        if np.isinf(_minimiser(s[i], ridge[i], lo[i], hi[i])):
            return np.inf  # only where the bracket is infinite
    return 0.0


@nb.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _worst(a, s, ridge, lo, hi):  # type: ignore[no-untyped-def]
    """The worst violation of the optimality conditions, and of the box."""
    violation = outside = 0.0
    for i in range(a.size):
        full = s[i] + ridge[i] * a[i]
        width = hi[i] - lo[i] if hi[i] < np.inf else max(1.0, abs(a[i]))
        least = _AT_BOUND * width
        down = full if a[i] - lo[i] > least else 0.0
        up = -full if hi[i] - a[i] > least else 0.0
        more = down if down > up else up
        violation = more if more > violation else violation
        beyond = lo[i] - a[i] if lo[i] > a[i] else a[i] - hi[i]
        outside = beyond if beyond > outside else outside
    return violation, outside


@nb.njit(cache=True, nogil=True)
def certificate_terms(a, gradient, f0, ridge, lo, hi, F, eta, residual, terms):  # type: ignore[no-untyped-def]
    """What `certificate.judge` needs of a point: sum of brackets, worst violation, ``a'(gradient + f0)``, and `missed`.

    The slopes are ``gradient - ridge * a + F eta``. Brackets and violation are both NaN where arithmetic has
    overflowed, both infinite where an infinite bound is the minimiser.
    """
    brackets = violation = energy = outside = broken = 0.0
    slopes = np.empty(min(_TERMS, a.size))
    for begin in range(0, a.size, _TERMS):
        end = min(begin + _TERMS, a.size)
        x, g, f, r, low, high = (
            a[begin:end], gradient[begin:end], f0[begin:end], ridge[begin:end], lo[begin:end], hi[begin:end]
        )  # fmt: skip
        s = slopes[: end - begin]
        curved = False
        for i in range(s.size):
            s[i] = g[i] - r[i] * x[i]
            curved |= r[i] > 0.0
        for j in range(eta.size):
            moved = size = 0.0
            for i in range(s.size):
                product = F[begin + i, j] * x[i]
                moved += product
                size += abs(product)
                s[i] += F[begin + i, j] * eta[j]
            residual[j] -= moved
            terms[j] += size
        if curved:
            bracket, share = _curved_part(x, g, f, s, r, low, high)
        else:
            bracket, share = _flat_part(x, g, f, s, low, high)
        if not np.isfinite(bracket) and broken == 0.0:
            broken = _broken(s, r, low, high)
        brackets += bracket
        energy += share
        worst, beyond = _worst(x, s, r, low, high)
        violation, outside = max(violation, worst), max(outside, beyond)
    if np.isnan(brackets) and broken == 0.0:
        broken = np.nan
    if broken != 0.0:
        return broken, broken, energy, outside
    return max(brackets, 0.0), violation, energy, outside
