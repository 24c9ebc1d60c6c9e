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
# What `target_fault` answers.
FINE, NOT_FINITE, NOT_A_SIGN = 0, 1, 2


@nb.njit(cache=True, nogil=True)
def fault_of(index, points, sign, ridge, f0, lo, hi, F, e):  # type: ignore[no-untyped-def]
    """Key of the first of `problem._FAULTS` that is met, 0 if none."""
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
    for j in range(e.size):
        if not np.isfinite(e[j]):
            return 7
    return 0


@nb.njit(cache=True, nogil=True)
def target_fault(target, signs):  # type: ignore[no-untyped-def]
    """Whether all targets are finite and, where `signs` are wanted, +1 or -1."""
    fault = FINE
    for i in range(target.size):
        if not np.isfinite(target[i]):
            return NOT_FINITE
        if signs and abs(target[i]) != 1.0:
            fault = NOT_A_SIGN
    return fault


@nb.njit(cache=True, nogil=True)
def positive_weights(weight):  # type: ignore[no-untyped-def]
    """How many weights are positive; -1 where one is negative or not finite."""
    count = 0
    for i in range(weight.size):
        if not 0.0 <= weight[i] < np.inf:
            return -1
        count += weight[i] > 0.0
    return count


@nb.njit(cache=True, nogil=True)
def ascending(index):  # type: ignore[no-untyped-def]
    """Whether every entry is larger than the one before it."""
    i = 1
    while i < index.size and index[i] > index[i - 1]:
        i += 1
    return i >= index.size


@nb.njit(cache=True, nogil=True)
def in_box(a, lo, hi):  # type: ignore[no-untyped-def]
    """Whether ``lo <= a <= hi``."""
    i = 0
    while i < a.size and lo[i] <= a[i] <= hi[i]:
        i += 1
    return i == a.size


@nb.njit(cache=True, nogil=True)
def missed(a, lo, hi, F, residual, terms):  # type: ignore[no-untyped-def]
    """How far `a` is outside the box; ``F'a`` is taken off `residual` and ``|F|'|a|`` added to `terms`."""
    outside = 0.0
    for i in range(a.size):
        outside = max(outside, lo[i] - a[i], a[i] - hi[i])
        for j in range(residual.size):
            residual[j] -= F[i, j] * a[i]
            terms[j] += abs(F[i, j] * a[i])
    return outside


@nb.njit(cache=True, nogil=True)
def certificate_terms(a, gradient, f0, ridge, lo, hi, F, eta, residual, terms):  # type: ignore[no-untyped-def]
    """What `certificate.judge` needs of a point: sum of brackets, worst violation, ``a'(gradient + f0)``, and `missed`.

    The slopes are ``gradient - ridge * a + F eta``. Brackets and violation are both NaN where arithmetic has
    overflowed, both infinite where an infinite bound is the minimiser.
    """
    brackets = violation = energy = outside = broken = 0.0
    for begin in range(0, a.size, _TERMS):
        end = min(begin + _TERMS, a.size)
        for j in range(eta.size):
            moved = size = 0.0
            for i in range(begin, end):
                moved += F[i, j] * a[i]
                size += abs(F[i, j] * a[i])
            residual[j] -= moved
            terms[j] += size
        part = energy_part = 0.0
        for i in range(begin, end):
            outside = max(outside, lo[i] - a[i], a[i] - hi[i])
            energy_part += a[i] * (gradient[i] + f0[i])
            s = gradient[i] - ridge[i] * a[i]
            pull = 0.0
            for j in range(eta.size):
                pull += F[i, j] * eta[j]
            s += pull
            if ridge[i] > 0.0:
                target = min(max(-s / ridge[i], lo[i]), hi[i])
            else:
                target = hi[i] if s < 0.0 else lo[i]
            if broken == 0.0 and np.isnan(s):
                broken = np.nan  # nothing is proved
            if broken == 0.0 and np.isinf(target):
                broken = np.inf  # only where the bracket is infinite
            move = a[i] - target
            part += move * (s + ridge[i] * (target + 0.5 * move))
            full = s + ridge[i] * a[i]
            width = hi[i] - lo[i] if hi[i] < np.inf else max(1.0, abs(a[i]))
            if full > violation and a[i] - lo[i] > _AT_BOUND * width:
                violation = full
            if -full > violation and hi[i] - a[i] > _AT_BOUND * width:
                violation = -full
        brackets += part
        energy += energy_part
    if broken != 0.0:
        return broken, broken, energy, outside
    return max(brackets, 0.0), violation, energy, outside
