"""One-point steps of MPD on a dense matrix: the clipped Newton step of the variable that gains most.

For ``min 1/2 a'Aa + b'a`` on a box, with slopes ``s = Aa + b``: variable i moves by ``-s_i / A_ii``, clipped (MPD
paper, section 5.2, "Hessian and Primal Updates"). The paper takes the largest violation; here the largest decrease is
taken, the box included, which is what counts where boxes are narrow.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# Curvature below which a variable counts as flat, relative to the largest: it then runs to a bound.
FLAT = 1e-14
# A variable this close to a bound, relative to its box, is put there: it is the rounding of one subtraction.
SNAP = 1e-14


@nb.njit(cache=True, inline="always")
def snapped(value, lo, hi):  # type: ignore[no-untyped-def]
    """The value within the box, put on a bound it differs from by rounding only."""
    width = hi - lo
    if width == np.inf:
        width = max(1.0, abs(value))
    if value - lo <= SNAP * width:
        return lo
    if hi - value <= SNAP * width:
        return hi
    return value


@nb.njit(cache=True, nogil=True)
def one_point_steps(matrix, slope, a, lo, hi, tol, max_steps):  # type: ignore[no-untyped-def]
    """Take at most `max_steps` steps until no slope violates by more than `tol`; `slope` and `a` are changed.

    Returns the number of steps and the violation left.
    """
    m = a.size
    inverse = np.empty(m)
    largest = 1e-300
    for t in range(m):
        largest = max(largest, matrix[t, t])
    for t in range(m):
        inverse[t] = 1.0 / max(matrix[t, t], FLAT * largest)
    steps, last, change = 0, 0, 0.0
    while True:
        row = matrix[last]
        best, gain, violation = -1, 0.0, 0.0
        for t in range(m):
            s = slope[t] + change * row[t]
            slope[t] = s
            room = hi[t] - a[t] if s < 0.0 else a[t] - lo[t]
            if room > 0.0:
                size = abs(s)
                violation = max(violation, size)
                move = min(size * inverse[t], room)
                decrease = move * (size - 0.5 * move / inverse[t])
                if decrease > gain:
                    gain = decrease
                    best = t
        if violation <= tol or best < 0 or steps >= max_steps:
            return steps, violation
        new = snapped(a[best] - slope[best] * inverse[best], lo[best], hi[best])
        change = new - a[best]
        if change == 0.0:  # the step is below the rounding of the variable: nothing left to do here
            return steps, violation
        a[best] = new
        last = best
        steps += 1


@nb.njit(cache=True, nogil=True)
def worst_slope(slope, a, lo, hi):  # type: ignore[no-untyped-def]
    """Largest violation of the conditions on slopes (MPD paper, eq. 2, iii-v)."""
    worst = 0.0
    for t in range(a.size):
        if a[t] < hi[t] and -slope[t] > worst:
            worst = -slope[t]
        if a[t] > lo[t] and slope[t] > worst:
            worst = slope[t]
    return worst
