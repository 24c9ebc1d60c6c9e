"""The passes of `_newton_terms` where no variable has a ridge and all have the box [0, top]: hinge without weights.

What is the same for all stays in a register, and passes read three arrays in place of seven. Choices are written as
arithmetic, because LLVM leaves them as jumps otherwise.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# mypy: disable-error-code="no-untyped-def"

_ANY_ORDER = {"reassoc", "contract", "nsz"}
# A largest value is searched in vectors only where none can be NaN. One would be ignored here, and be seen in the sums.
_NO_NAN = {"reassoc", "contract", "nsz", "nnan"}
# Variables in a block of a pass that comes back to them: what it reads of them stays in the first-level cache.
_BLOCK = 512


@nb.njit(cache=True, nogil=True, fastmath=_NO_NAN)
def _violation(s, t, top, begin, end):
    worst = 0.0
    for i in range(begin, end):
        down, up = s[i] * (t[i] > 0.0), -s[i] * (t[i] < top)
        worst = max(worst, max(down, up))
    return worst


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def settle(raw, s, top, begin, end, t, sums):
    """Clip the answers `t`; `sums` as in `_newton_terms.settle`."""
    lack = least = 0.0
    for i in range(begin, end):
        value = min(max(raw[i], 0.0), top)
        t[i] = value
        best = top * (s[i] < 0.0)
        lack += (value - best) * s[i]
        least += best * s[i]
    sums[0], sums[1], sums[2] = lack, least, _violation(s, t, top, begin, end)


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def along(raw, give, move, length, top, begin, end, sums):
    """First and second derivative, along `move`, of minus the sum of the smoothed minima at this length."""
    first = second = 0.0
    far = length * give
    for i in range(begin, end):
        value = raw[i] - far * move[i]
        first -= min(max(value, 0.0), top) * move[i]
        second += move[i] * move[i] if (value > 0.0) & (value < top) else 0.0
    sums[0], sums[1] = first, give * second


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def advance(raw, s, t, give, move, length, top, begin, end, turned, rest, sums):
    """Go `length` along `move`, as `_newton_terms.advance` does; count is returned."""
    count = begin
    part = np.zeros(3)
    sums[:] = 0.0
    far = length * give
    for first in range(begin, end, _BLOCK):
        last = min(end, first + _BLOCK)
        for i in range(first, last):
            s[i] += length * move[i]
        for i in range(first, last):
            raw[i] -= far * move[i]
        for i in range(first, last):
            rest[i] = min(max(raw[i], 0.0), top) - t[i]
        settle(raw, s, top, first, last, t, part)
        sums[0] += part[0]
        sums[1] += part[1]
        sums[2] = max(sums[2], part[2])
        for i in range(first, last):  # each stays in its list if it belongs there: nobody could predict which do
            rest[count], turned[count] = rest[i], i
            count += rest[i] != 0.0
    return count
