"""Coordinate descent for the L1-SVM with squared hinge: a start that has nearly the right features.

Over the columns z of ``diag(y sqrt(c)) X``, one weight after the other, with ``t = sqrt(c) (1 - y f)`` up to date::

    g = -2 sum z max(0, t),   h = 2 sum over t > 0 of z^2,   d = argmin g d + h d^2 / 2 + lambda |w + d|

A step is taken where the bound ``g d + L d^2 / 2``, ``L = 2 sum z^2``, says that it falls enough, or where the
objective itself does; otherwise that of the bound is taken, which falls always. A first pass goes over all columns.
Those that count (a weight, or ``|v_j|`` not far below lambda) are gone over again, in an order drawn anew for each pass
and fewer each time; then one product ``X't``, cheaper than a pass, finds those that count for the next round.

The first digits are cheap this way, and the others dear where columns resemble each other: `_l1_newton` finds them.
A pass costs the entries of its columns. The entries are copied once, in their own precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A step must bring this share of what its quadratic model promises (Armijo's rule).
_ENOUGH = 0.01
# Passes of a round at most.
_PASSES = 10
# Columns without a weight and |v| below this share of lambda do not count.
_NEAR = 0.9
# A round ends when the largest violation is this share of the largest met in it.
_SHARE = 0.1
# A round that lowers the objective by less than this share ends the descent, and so do so many rounds.
_SLOW, _ROUNDS = 5e-3, 30


@nb.njit(cache=True, nogil=True)
def _one_step(indices, data, begin, end, most, lam, w, t):  # type: ignore[no-untyped-def]
    """The change of one weight, with t brought up to date, how far it was from its optimum, and ``|v|``."""
    g, h = 0.0, 0.0
    for at in range(begin, end):
        z = np.float64(data[at])
        missed = t[indices[at]]
        # Without branches: whether a sample misses its margin is what a processor cannot foresee.
        g -= z * max(missed, 0.0)
        h += z * z if missed > 0.0 else 0.0
    g *= 2.0
    h *= 2.0
    if w > 0.0:
        off = abs(g + lam)
    elif w < 0.0:
        off = abs(g - lam)
    else:
        off = max(abs(g) - lam, 0.0)
    if off == 0.0 or most == 0.0:
        return 0.0, off, abs(g)
    curvature = h if h > 1e-12 * most else most
    d = _shrunk(w * curvature - g, lam) / curvature - w
    rise = lam * (abs(w + d) - abs(w))
    wanted = _ENOUGH * (g * d + rise)
    if g * d + 0.5 * most * d * d + rise > wanted:
        change = rise
        for at in range(begin, end):
            missed = t[indices[at]]
            before = max(missed, 0.0)
            after = max(missed - np.float64(data[at]) * d, 0.0)
            change += (after - before) * (after + before)
        if change > wanted:
            d = _shrunk(w * most - g, lam) / most - w
    for at in range(begin, end):
        t[indices[at]] -= np.float64(data[at]) * d
    return d, off, abs(g)


@nb.njit(cache=True, nogil=True)
def _shrunk(value, by):  # type: ignore[no-untyped-def]
    if value > by:
        return value - by
    if value < -by:
        return value + by
    return 0.0


@nb.njit(cache=True, nogil=True)
def _pass(indptr, indices, data, most, lam, w, t, active, count, seed):  # type: ignore[no-untyped-def]
    """One pass over ``active[:count]``, in a drawn order; the largest violation, and how many of them count."""
    state = np.uint64(seed)
    for k in range(count - 1, 0, -1):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        other = np.int64(state % np.uint64(k + 1))
        active[k], active[other] = active[other], active[k]
    worst = 0.0
    kept = 0
    for k in range(count):
        j = active[k]
        d, off, size = _one_step(indices, data, indptr[j], indptr[j + 1], most[j], lam[j], w[j], t)
        w[j] += d
        worst = max(worst, off)
        if w[j] != 0.0 or size >= _NEAR * lam[j]:
            active[k], active[kept] = active[kept], active[k]
            kept += 1
    return worst, kept


@nb.njit(cache=True, nogil=True)
def _signed(indptr, indices, data, factors):  # type: ignore[no-untyped-def]
    """The entries times the factors of their rows, and the largest curvature of each weight."""
    signed = np.empty_like(data)
    most = np.zeros(indptr.size - 1)
    for j in range(most.size):
        for at in range(indptr[j], indptr[j + 1]):
            signed[at] = data[at] * factors[indices[at]]
            most[j] += 2.0 * np.float64(signed[at]) ** 2
    return signed, most


@nb.njit(cache=True, nogil=True)
def _that_count(indptr, indices, data, lam, w, t, active):  # type: ignore[no-untyped-def]
    """Write down the columns with a weight, or with ``|v|`` not far below lambda; how many they are."""
    kept = 0
    for j in range(indptr.size - 1):
        v = 0.0
        for at in range(indptr[j], indptr[j + 1]):
            v += np.float64(data[at]) * max(t[indices[at]], 0.0)
        if w[j] != 0.0 or 2.0 * abs(v) >= _NEAR * lam[j]:
            active[kept] = j
            kept += 1
    return kept


def descend(
    X: Any,
    y: NDArray[np.float64],
    c: NDArray[np.float64],
    lam: NDArray[np.float64],
    x: NDArray[np.float64],
    bias: bool,
    stop: Callable[[], bool],
) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    """Weights with the first digits right, and the features that count.

    Parameters
    ----------
    X : CSC matrix
        Samples, one a row.
    y, c, lam : ndarray
        Labels, weights of the losses, weights of the columns (the bias last).
    x : ndarray
        Where to start.
    bias : bool
        Whether there is one, the last variable.
    stop : callable
        Asked once a round.
    """
    n, d = X.shape
    factors = y * np.sqrt(c)
    Z, most = _signed(X.indptr, X.indices, X.data, factors)
    most_bias, rows = 2.0 * float(c.sum()), np.arange(n, dtype=X.indices.dtype)
    w = x.copy()
    b = float(w[d]) if bias else 0.0
    t = factors * (y - np.asarray(X @ w[:d] + b) if np.any(w) else y)
    last = np.inf
    active, kept = np.arange(d), d
    for rounds in range(_ROUNDS):
        worst = 0.0
        for passes in range(_PASSES):
            off, kept = _pass(X.indptr, X.indices, Z, most, lam, w, t, active, kept, 1 + passes + rounds * _PASSES)
            if bias:
                change, off_bias, _ = _one_step(rows, factors, 0, n, most_bias, lam[d], b, t)
                b += change
                off = max(off, off_bias)
            worst = max(worst, off)
            if off <= _SHARE * worst:
                break
        kept = _that_count(X.indptr, X.indices, Z, lam, w, t, active)
        value = float(np.dot(lam[:d], np.abs(w[:d])) + np.sum(np.maximum(t, 0.0) ** 2))
        if value > (1.0 - _SLOW) * last or stop():
            break
        last = value
    if bias:
        w[d] = b
    return w, active[:kept].copy()
