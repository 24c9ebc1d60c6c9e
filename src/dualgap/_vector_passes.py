"""Compiled passes over the vectors of a problem, imported at first use: `DualQP` must not cost Numba's second."""

from __future__ import annotations

import numba as nb
import numpy as np


@nb.njit(cache=True, nogil=True)
def fault_of(sign, ridge, f0, lo, hi, F, e):  # type: ignore[no-untyped-def]
    """Key of the first of `problem._FAULTS` that is met, 0 if none; one pass, because small fits feel microseconds."""
    for i in range(sign.size):
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
def missed(a, lo, hi, F, residual, terms):  # type: ignore[no-untyped-def]
    """How far `a` is outside the box; ``F'a`` is taken off `residual` and ``|F|'|a|`` added to `terms`."""
    outside = 0.0
    for i in range(a.size):
        outside = max(outside, lo[i] - a[i], a[i] - hi[i])
        for j in range(residual.size):
            residual[j] -= F[i, j] * a[i]
            terms[j] += abs(F[i, j] * a[i])
    return outside
