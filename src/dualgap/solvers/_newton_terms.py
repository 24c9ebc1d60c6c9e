"""The smoothed losses of `newton`, one variable at a time, in compiled passes over parts of the variables.

With the proximal weight kappa_i (0 where the variable has a ridge, which is smooth enough by itself) variable i answers
a slope s with::

    t_i(s) = argmin over lo <= t <= hi of  ridge t^2 / 2 + s t + kappa_i (t - a_i)^2 / 2
           = clip((kappa_i a_i - s) / (ridge + kappa_i), lo, hi)

and is free where it is not clipped; there ``dt/ds = -give_i`` with ``give_i = 1 / (ridge + kappa_i)``. The passes see
``raw``, the answer before it is clipped; a step of length l along the slopes' `move` makes it ``raw - l give move``.
Loops are free of branches and may add up in any order, so that they run on vectors.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# mypy: disable-error-code="no-untyped-def"


_ANY_ORDER = {"reassoc", "contract", "nsz"}
# Variables in a block of a pass that comes back to them: their vectors together stay in the first-level cache.
_BLOCK = 512


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def settle(raw, s, lo, hi, ridge, begin, end, t, sums):
    """Clip the answers `t`; add up how good they are.

    ``sums[0]`` is the sum of ``(ridge t^2/2 + s t) - min over the box of the same``: what the answers lack of being
    best for their slopes. ``sums[1]`` is the sum of the minima, ``sums[2]`` the largest KKT violation of the answers.
    """
    lack = least = violation = 0.0
    for i in range(begin, end):
        value = min(max(raw[i], lo[i]), hi[i])
        t[i] = value
        flat = ridge[i] == 0.0
        smooth = min(max(-s[i] / (1.0 if flat else ridge[i]), lo[i]), hi[i])
        corner = hi[i] if s[i] < 0.0 else lo[i]
        best = corner if flat else smooth
        move = value - best
        lack += move * (s[i] + ridge[i] * (best + 0.5 * move))
        least += best * (s[i] + 0.5 * ridge[i] * best)
        full = s[i] + ridge[i] * value
        violation = max(violation, full if value > lo[i] else 0.0, -full if value < hi[i] else 0.0)
    sums[0], sums[1], sums[2] = lack, least, violation


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def along(raw, give, move, length, lo, hi, begin, end, sums):
    """First and second derivative, along `move`, of minus the sum of the smoothed minima at this length."""
    first = second = 0.0
    for i in range(begin, end):
        change = give[i] * move[i]
        value = raw[i] - length * change
        first -= min(max(value, lo[i]), hi[i]) * move[i]
        second += move[i] * change if lo[i] < value < hi[i] else 0.0
    sums[0], sums[1] = first, second


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def advance(raw, s, t, give, move, length, lo, hi, ridge, begin, end, turned, rest, sums):
    """Go `length` along `move`: slopes, answers before and after they are clipped, and `sums` as `settle` has them.

    Answers that moved are listed in ``turned[begin:count]``, by how much in ``rest[begin:count]``; count is returned.
    Blocks stay in the first-level cache; each loop writes to one array, because LLVM gives up vectors where too many
    might overlap.
    """
    count = begin
    part = np.zeros(3)
    sums[:] = 0.0
    for first in range(begin, end, _BLOCK):
        last = min(end, first + _BLOCK)
        for i in range(first, last):
            s[i] += length * move[i]
        for i in range(first, last):
            raw[i] -= give[i] * (length * move[i])
        for i in range(first, last):
            rest[i] = min(max(raw[i], lo[i]), hi[i]) - t[i]
        settle(raw, s, lo, hi, ridge, first, last, t, part)
        sums[0] += part[0]
        sums[1] += part[1]
        sums[2] = max(sums[2], part[2])
        for i in range(first, last):  # each stays in its list if it belongs there: nobody could predict which do
            rest[count], turned[count] = rest[i], i
            count += rest[i] != 0.0
    return count


@nb.njit(cache=True, nogil=True)
def changes(t, lo, hi, inside, begin, end, entering, leaving, counts):
    """List the variables that have become free since `inside` was true (``entering[begin:]``), or have ceased to be.

    `counts` is how many these are, either way, and how many are free in all.
    """
    came = went = free = 0
    for i in range(begin, end):
        now, was = (lo[i] < t[i]) & (t[i] < hi[i]), inside[i]
        free += now
        # Each stays in its list if it belongs there.
        entering[begin + came] = leaving[begin + went] = i
        came += now & (not was)
        went += was & (not now)
    counts[0], counts[1], counts[2] = came, went, free
