"""Compiled parts of a step of `rosen`: how far it may go, and going there."""

from __future__ import annotations

import numba as nb
import numpy as np

# A variable left this close to a bound, relative to its box and to itself, or beyond it, is put there: it is the
# rounding of one subtraction.
SNAP = 1e-14
# Curvature along a direction d below which it is flat, relative to |d|^2 and the largest diagonal entry of H: the
# rounding of a sum of products. Such a step (duplicate points, the two copies of regression) runs to the bound.
FLAT = 1e-14


@nb.njit(cache=True, nogil=True)
def reach(x, d, lo, hi):  # type: ignore[no-untyped-def]
    """The lengths at which ``x + t d`` meets the first bound and the last finite one."""
    first, last = np.inf, 0.0
    for i in range(x.size):
        if d[i] > 0.0:
            t = (hi[i] - x[i]) / d[i]
        elif d[i] < 0.0:
            t = (lo[i] - x[i]) / d[i]
        else:
            continue
        first = min(first, t)
        if t < np.inf:
            last = max(last, t)
    return first, last


@nb.njit(cache=True, nogil=True)
def advance(x, gradient, d, Hd, lo, hi, t):  # type: ignore[no-untyped-def]
    """``x += t d``, onto the bounds that are met, and ``gradient += t H d``."""
    for i in range(x.size):
        gradient[i] += t * Hd[i]
        if d[i] == 0.0:
            continue
        new = x[i] + t * d[i]
        width = max(hi[i] - lo[i], abs(new))
        if width == np.inf:
            width = max(1.0, abs(new))
        if d[i] > 0.0 and hi[i] - new <= SNAP * width:
            new = hi[i]
        elif d[i] < 0.0 and new - lo[i] <= SNAP * width:
            new = lo[i]
        x[i] = new


@nb.njit(cache=True, nogil=True)
def cone(x, lo, hi, below, above):  # type: ignore[no-untyped-def]
    """The box of directions that stay feasible for a moment: none beyond a bound that is met."""
    for i in range(x.size):
        below[i] = 0.0 if x[i] <= lo[i] else -np.inf
        above[i] = 0.0 if x[i] >= hi[i] else np.inf


@nb.njit(cache=True, nogil=True)
def spread(a, gradient, lo, hi, scale, group, count):  # type: ignore[no-untyped-def]
    """How far the two thresholds of the worst group are apart: a KKT violation, for any multiplier between them.

    With ``v = -gradient / scale``, ``scale a`` would go up where v is above the multiplier and down where it is below.
    """
    up, low, largest = np.full(count, -np.inf), np.full(count, np.inf), np.zeros(count)
    violation = 0.0
    for i in range(a.size):
        can_grow, can_fall = a[i] < hi[i], a[i] > lo[i]
        g = group[i]
        if g < 0:
            if (can_grow and gradient[i] < 0.0) or (can_fall and gradient[i] > 0.0):
                violation = max(violation, abs(gradient[i]))
            continue
        if scale[i] < 0.0:
            can_grow, can_fall = can_fall, can_grow
        v = -gradient[i] / scale[i]
        if can_grow and v > up[g]:
            up[g] = v
        if can_fall and v < low[g]:
            low[g] = v
        largest[g] = max(largest[g], abs(scale[i]))
    for g in range(count):
        violation = max(violation, (up[g] - low[g]) * largest[g])
    return violation
