"""Pair steps on a dense block, on slopes measured from their group's threshold (small near the solution).

The block's variables u obey ``lo <= u <= hi`` and a constant sum within each group. They lie in segments, one a group,
each on whole strides of vectors: segment 0 holds the variables without a constraint, which move alone. Places that
only fill a stride up have ``lo = hi`` and are never chosen.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.kernels.borrowed import borrowed
from dualgap.kernels.row_on_demand import need_row
from dualgap.solvers._block_vector import FLAT, GROWS, SHRINKS, move, partner

# A variable this close to a bound, relative to the bound, is put there: float64 sums do not land on it exactly, and a
# larger share would add up to a violated constraint over a million steps.
_SNAP = 1e-15
_FLAT_SINGLE, _FLAT_DOUBLE = FLAT[32], FLAT[64]


@nb.njit(cache=True, nogil=True)
def steps(matrix, slope, u, lo, hi, segments, tol, most):  # type: ignore[no-untyped-def]
    """Second-order pair steps until no violation is above `tol` or `most` are done; returns how many were.

    `matrix` is (rows, slot, diagonal, maker): the row of variable i is ``rows[slot[i]]`` (C-contiguous, float32 or
    float64). Those without one (-1) get one from the `maker` (`kernels.row_on_demand`), or do not move where that is
    empty. `slope`, of the dtype of the rows, and `u` (float64) are changed in place.
    """
    rows, slot, diagonal, maker = borrowed(matrix)
    flat, width = rows.ravel(), rows.shape[1]
    level = _FLAT_SINGLE if rows.itemsize == 4 else _FLAT_DOUBLE
    ways, nothing = np.empty(width, dtype=np.uint8), np.zeros(width, dtype=rows.dtype)
    alike = True
    for p in range(width):
        ways[p] = _open(u[p], lo[p], hi[p]) if slot[p] >= 0 or len(maker) > 0 else 0
        alike &= diagonal[p] == diagonal[0]
    n_segments = segments.size - 1
    values = np.empty((n_segments, 2), dtype=rows.dtype)
    places = np.zeros((n_segments, 2), dtype=np.int64)
    for s in range(n_segments):
        move(slope, nothing, 0, nothing, 0, 0.0, ways, segments[s], segments[s + 1] - segments[s],
             values[s], places[s])  # fmt: skip
    done = 0
    while done < most:
        worst, at = -1.0, -1
        for s in range(n_segments):
            if segments[s + 1] == segments[s]:
                continue
            violation = max(-values[s, 0], values[s, 1]) if s == 0 else values[s, 1] - values[s, 0]
            if violation > worst:
                worst, at = np.float64(violation), s
        if worst <= tol:
            break
        if at == 0:
            i, other = places[0, 0], places[0, 1]
            if -values[0, 0] < values[0, 1]:
                i, other = other, i
            need_row(maker, i, other, rows, slot, diagonal)
            step = _single(slope, diagonal, u, lo, hi, ways, i)
            for s in range(n_segments):
                move(slope, flat, slot[i] * width, nothing, 0, step, ways, segments[s],
                     segments[s + 1] - segments[s], values[s], places[s])  # fmt: skip
        else:
            # The worst on the other side is soon to move, if not at once.
            i, other = places[at, 0], places[at, 1]
            need_row(maker, i, other, rows, slot, diagonal)
            first, count = segments[at], segments[at + 1] - segments[at]
            if alike:
                j = partner(slope, flat, slot[i] * width, diagonal[i], diagonal[i], ways, values[at, 0], first, count)
            else:
                j = partner(slope, flat, slot[i] * width, diagonal, diagonal[i], ways, values[at, 0], first, count)
            need_row(maker, j, other, rows, slot, diagonal)
            step = _pair(slope, rows[slot[i], j], diagonal, level, u, lo, hi, ways, i, j)
            for s in range(n_segments):
                if segments[s + 1] > segments[s]:
                    move(slope, flat, slot[i] * width, flat, slot[j] * width, step, ways, segments[s],
                         segments[s + 1] - segments[s], values[s], places[s])  # fmt: skip
        done += 1
    return done


@nb.njit(cache=True, nogil=True)
def _open(value, lo, hi):  # type: ignore[no-untyped-def]
    """The ways that a variable may go, as bits."""
    return np.uint8((GROWS if value < hi else 0) | (SHRINKS if value > lo else 0))


@nb.njit(cache=True, nogil=True)
def _set(u, value, lo, hi, ways, i):  # type: ignore[no-untyped-def]
    """Give a variable its new value, on a bound where it is as good as there, and say which ways are open."""
    if lo[i] > -np.inf and value - lo[i] <= _SNAP * abs(lo[i]):
        value = lo[i]
    elif hi[i] < np.inf and hi[i] - value <= _SNAP * abs(hi[i]):
        value = hi[i]
    u[i] = value
    ways[i] = _open(value, lo[i], hi[i])


@nb.njit(cache=True, nogil=True)
def _single(slope, diagonal, u, lo, hi, ways, i):  # type: ignore[no-untyped-def]
    """Minimise over one variable alone; returns how far it moved."""
    curvature, before = np.float64(diagonal[i]), u[i]
    if curvature > 0.0:
        value = before - np.float64(slope[i]) / curvature
    else:
        value = hi[i] if slope[i] < 0.0 else lo[i]
    _set(u, min(max(value, lo[i]), hi[i]), lo, hi, ways, i)
    return u[i] - before


@nb.njit(cache=True, nogil=True)
def _pair(slope, k_ij, diagonal, level, u, lo, hi, ways, i, j):  # type: ignore[no-untyped-def]
    """Minimise along ``u_i + t, u_j - t``; a flat pair runs to its bound. Returns t."""
    room = min(hi[i] - u[i], u[j] - lo[j])
    ends = np.float64(diagonal[i]) + np.float64(diagonal[j])
    curvature = max(ends - 2.0 * np.float64(k_ij), level * ends)
    step = min(np.float64(slope[j] - slope[i]) / curvature, room) if curvature > 0.0 else room
    _set(u, u[i] + step, lo, hi, ways, i)
    _set(u, u[j] - step, lo, hi, ways, j)
    return step
