"""Coordinate descent for the L1-SVM with squared hinge: a start that has nearly the right features.

Over the columns z of ``diag(y sqrt(c)) X``, one weight after the other, with ``t = sqrt(c) (1 - y f)`` up to date::

    g = -2 sum z max(0, t),   h = 2 sum over t > 0 of z^2,   d = argmin g d + h d^2 / 2 + lambda |w + d|

A step is taken where the objective falls enough; otherwise the one for ``L = 2 sum z^2`` in place of h is, which lowers
it always.

The bias comes first, alone: without it the columns of the larger class would seem to count. Then a round is one product
``X't`` over all columns, which says those that count (a weight, or ``|v_j|`` not far below lambda), and passes over a
copy of those, side by side in memory, in an order drawn anew for each pass and fewer each time. Columns without a
weight come in by the largest ``|v_j|``, and not more than there are weights, since most of them count no more once the
first have their weights.

The first digits are cheap this way, and the others dear where columns resemble each other: `_l1_newton` finds them.
A pass costs the entries of its columns.
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
# Steps of the bias alone: Newton's method in one variable, on a function that is quadratic in pieces.
_BIAS_STEPS = 5
# Passes of a round: as many as take as long as a Newton step, within these ends. Nanoseconds that an entry of a pass
# takes; that a factorisation takes, a cubed weight; a product of two entries of a row; and the rest of a step.
_LEAST_PASSES, _PASSES = 6, 50
_PER_ENTRY, _PER_CUBE, _PER_PRODUCT, _PER_STEP = 4.0, 0.1, 0.5, 5e5
# Columns without a weight and |v| below this share of lambda do not count.
_NEAR = 0.9
# So many columns without a weight may come in at a time, or as many as have one.
_FIRST = 300
# A round ends when the largest violation is this share of the largest outside, or this small (lambda is 1); not before
# that where only some columns are to come in.
_SHARE, _FINE = 0.3, 0.05
# The descent ends when no more columns than this share of the weights are to come in; or than some, where a round
# lowers the objective by less than a share and Newton steps are not dear; and after so many rounds.
_FEW, _SOME, _SLOW, _ROUNDS = 0.02, 0.3, 5e-3, 30


# Sums may be reordered, so that they run in vector registers; the order is fixed by the compiled code all the same.
@nb.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
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
    change = rise
    for at in range(begin, end):
        i = indices[at]
        before = max(t[i], 0.0)
        t[i] -= np.float64(data[at]) * d
        after = max(t[i], 0.0)
        change += (after - before) * (after + before)
    if change > _ENOUGH * (g * d + rise):
        taken = d
        d = _shrunk(w * most - g, lam) / most - w
        for at in range(begin, end):
            t[indices[at]] -= np.float64(data[at]) * (d - taken)
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
def _round(indptr, indices, data, most, lam, w, t, bias, b, seed, limit, tol):  # type: ignore[no-untyped-def]
    """Passes over copied columns, and after each a step of the bias: its lambda, curvature, column and rows."""
    lam_bias, most_bias, factors, rows = bias
    order, kept = np.arange(w.size), w.size
    for passes in range(limit):
        off, kept = _pass(indptr, indices, data, most, lam, w, t, order, kept, seed + passes)
        if most_bias > 0.0:
            change, off_bias, _ = _one_step(rows, factors, 0, rows.size, most_bias, lam_bias, b, t)
            b += change
            off = max(off, off_bias)
        if off <= tol:
            break
    return b


@nb.njit(cache=True, nogil=True)
def _copied(indptr, indices, data, factors, active):  # type: ignore[no-untyped-def]
    """The active columns side by side, times the factors of their rows; and the largest curvature of each weight."""
    starts = np.zeros(active.size + 1, dtype=np.int64)
    for k in range(active.size):
        starts[k + 1] = starts[k] + indptr[active[k] + 1] - indptr[active[k]]
    rows, signed = np.empty(starts[-1], dtype=indices.dtype), np.empty(starts[-1], dtype=data.dtype)
    most = np.zeros(active.size)
    for k in range(active.size):
        shift = starts[k] - indptr[active[k]]
        for at in range(indptr[active[k]], indptr[active[k] + 1]):
            i = indices[at]
            z = data[at] * factors[i]
            rows[at + shift] = i
            signed[at + shift] = z
            most[k] += 2.0 * z * z
    return starts, rows, signed, most


# Sums may be reordered, so that they run in vector registers; the order is fixed by the compiled code all the same.
@nb.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _that_pull(indptr, indices, data, factors, t, lam, w):  # type: ignore[no-untyped-def]
    """The columns without a weight and with ``|v| / lambda`` near 1 or beyond, and this number."""
    missed = 2.0 * factors * np.maximum(t, 0.0)
    found, pulls = np.empty(w.size, dtype=np.int64), np.empty(w.size)
    count = 0
    for j in range(w.size):
        v = 0.0
        for at in range(indptr[j], indptr[j + 1]):
            v += np.float64(data[at]) * missed[indices[at]]
        if abs(v) >= _NEAR * lam[j] and w[j] == 0.0:
            found[count] = j
            pulls[count] = abs(v) / lam[j]
            count += 1
    return found[:count].copy(), pulls[:count].copy()


def _passes(entries: int, n: int, weights: int) -> int:
    """Passes over so many entries that take as long as a Newton step with so many weights."""
    newton = _PER_CUBE * weights**3 + _PER_PRODUCT * entries * (entries / n) + _PER_STEP
    return int(np.clip(newton / (_PER_ENTRY * (entries + n)), _LEAST_PASSES, _PASSES))


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
    rows = np.arange(n, dtype=X.indices.dtype)
    of_bias = (lam[d], 2.0 * float(c.sum()), factors, rows) if bias else (0.0, 0.0, factors, rows)
    w, b = x[:d].copy(), float(x[d]) if bias else 0.0
    t = factors * (y - (np.asarray(X @ w) + b if np.any(x) else 0.0))
    for _ in range(_BIAS_STEPS if bias else 0):
        b += _one_step(rows, factors, 0, n, of_bias[1], of_bias[0], b, t)[0]
    last, limit = np.inf, _PASSES
    for rounds in range(_ROUNDS):
        others, pulls = _that_pull(X.indptr, X.indices, X.data, factors, t, lam, w)
        held = np.flatnonzero(w)
        weights, coming, room = held.size, np.count_nonzero(pulls > 1.0), max(_FIRST, held.size)
        if others.size > room:
            others = others[np.argpartition(-pulls, room - 1)[:room]]
        active = np.sort(np.concatenate([held, others]))
        value = float(np.dot(lam[:d], np.abs(w)) + np.sum(np.maximum(t, 0.0) ** 2))
        slow = coming <= _SOME * weights and limit < _PASSES and value > (1.0 - _SLOW) * last
        if slow or coming <= _FEW * weights or value >= last or stop():
            break
        last = value
        starts, at, Z, most = _copied(X.indptr, X.indices, X.data, factors, active)
        part = w[active]
        tol = max(_SHARE * (pulls.max(initial=1.0) - 1.0), _FINE) if coming > _SOME * weights else _FINE
        limit = _passes(Z.size, n, weights or active.size)
        b = _round(starts, at, Z, most, lam[active], part, t, of_bias, b, 1 + rounds * _PASSES, limit, tol)
        w[active] = part
    return np.append(w, b) if bias else w, active
