"""The passes of `newton` over variables that all have a ridge: losses that are smooth as they are.

The answer to a slope s is ``t = clip(-s / ridge, lo, hi)``, the best there is: it lacks nothing, and is free where it
is not clipped. Bounds and ridges are arrays of one entry where all variables have the same, which then stays in a
register. Loops are free of branches and may add up in any order, so that they run on vectors.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# mypy: disable-error-code="no-untyped-def"

_ANY_ORDER = {"reassoc", "contract", "nsz"}
# Variables in a block of a pass that comes back to them: what it keeps of them stays in the first-level cache.
_BLOCK = 512


@nb.njit(cache=True, nogil=True, inline="always")
def _answer(slope, give, lo, hi):
    return min(max(-slope * give, lo), hi)


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def answer(s, lo, hi, ridge, begin, end, t):
    """The answers `t` to slopes; the sum of the minima of ``ridge t^2/2 + s t`` is returned."""
    least = 0.0
    if lo.size == 1:
        low, high, own = lo[0], hi[0], ridge[0]
        give = 1.0 / own
        for i in range(begin, end):
            value = _answer(s[i], give, low, high)
            t[i] = value
            least += value * (s[i] + 0.5 * own * value)
    else:
        for i in range(begin, end):
            value = _answer(s[i], 1.0 / ridge[i], lo[i], hi[i])
            t[i] = value
            least += value * (s[i] + 0.5 * ridge[i] * value)
    return least


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def along(s, move, length, lo, hi, ridge, begin, end, sums):
    """First and second derivative, along `move`, of minus the sum of the minima at this length."""
    first = second = 0.0
    if lo.size == 1:
        low, high = lo[0], hi[0]
        give = 1.0 / ridge[0]
        for i in range(begin, end):
            value = _answer(s[i] + length * move[i], give, low, high)
            first -= value * move[i]
            second += move[i] * move[i] if low < value < high else 0.0
        second *= give
    else:
        for i in range(begin, end):
            give = 1.0 / ridge[i]
            value = _answer(s[i] + length * move[i], give, lo[i], hi[i])
            first -= value * move[i]
            second += give * move[i] * move[i] if lo[i] < value < hi[i] else 0.0
    sums[0], sums[1] = first, second


@nb.njit(cache=True, nogil=True, inline="always")
def _beyond(value, before, change, give, lo, hi, inside):
    """What an answer moved beyond what was expected: nothing where it was free, as `inside` has it, and is."""
    expected = before - give * change if inside else before
    return 0.0 if inside & (lo < value) & (value < hi) else value - expected


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _find_beyond(s, t, inside, move, length, lo, hi, ridge, first, last, beyond):
    if lo.size == 1:
        low, high = lo[0], hi[0]
        give = 1.0 / ridge[0]
        for i in range(first, last):
            value = _answer(s[i], give, low, high)
            beyond[i - first] = _beyond(value, t[i], length * move[i], give, low, high, inside[i])
    else:
        for i in range(first, last):
            give = 1.0 / ridge[i]
            value = _answer(s[i], give, lo[i], hi[i])
            beyond[i - first] = _beyond(value, t[i], length * move[i], give, lo[i], hi[i], inside[i])


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def advance(s, t, inside, move, length, lo, hi, ridge, begin, end, turned, rest, least):
    """Go `length` along `move`: slopes and answers, and the sum of the minima, put into ``least[0]``.

    Answers that are `inside` are expected to move by ``-length move / ridge``, the others to stay. Those that did not
    are listed in ``turned[begin:count]``, what they moved beyond that in ``rest[begin:count]``; count is returned. Each
    loop writes to one array: LLVM gives up vectors where too many might overlap.
    """
    count, total = begin, 0.0
    beyond = np.empty(_BLOCK)
    for first in range(begin, end, _BLOCK):
        last = min(end, first + _BLOCK)
        for i in range(first, last):
            s[i] += length * move[i]
        _find_beyond(s, t, inside, move, length, lo, hi, ridge, first, last, beyond)
        total += answer(s, lo, hi, ridge, first, last, t)
        for i in range(first, last):  # each stays in its list if it belongs there: nobody could predict which do
            turned[count], rest[count] = i, beyond[i - first]
            count += beyond[i - first] != 0.0
    least[0] = total
    return count
