"""Leaps between pair steps: the way of the last few hundred steps, gone further at once.

Pair steps that go on for long walk along a valley: where they have come from u0 to u, and the slopes from g0 to g, the
product ``H d = g - g0`` of the way ``d = u - u0`` is known without a kernel entry, and so is the least point of the
objective in the plane of two ways, the last one and the one before it (which the last leap is a part of)::

    min_c  g'(D c) + 1/2 c' D'HD c        D = [d, d before]

as in conjugate gradients, with pair steps in the place of the gradient. Variables that are at a bound by now take no
part, and those that would leave the box stop there; what the sums of groups then miss is spread over others. Each of
these corrections is a row of H. A leap that does not lower the objective is not taken.

Cost: up to some hundred rows of the block, about a quarter of the steps in between; up to two and a half times fewer
steps where many variables are free and C is large.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.kernels.borrowed import borrowed
from dualgap.kernels.row_on_demand import need_row
from dualgap.solvers._block_pairs import steps

# Steps between two looks at limits and callbacks: so many a variable of a block of 2048 are some 10 milliseconds.
STEPS_EACH = 20
# Steps between two leaps: a quarter of the variables, half of which have then moved; fewer than the least are no way.
# The first is after twice as many: up to then variables go to their bounds, and there is no valley.
_EVERY, _EVERY_LEAST = 4, 64
# Variables that may stop at bounds, as a share of the block: each costs a row.
_STOPPED = 0.1
# Variables that take what sums miss: the more, the less each one's slope is changed by it.
_BEARERS = 32
# Two ways that are the same but for this share of their square are one.
_SAME = 1e-5
# What is beyond a bound by less, relative to the largest variable, is rounding.
_BEYOND = 1e-12


@nb.njit(cache=True, nogil=True)
def leaping_steps(matrix, slope, u, lo, hi, segments, tol, most):  # type: ignore[no-untyped-def]
    """As `_block_pairs.steps`, with leaps in between; returns the number of steps."""
    q = u.size
    every = max(q // _EVERY, _EVERY_LEAST)
    ways, images = np.zeros((2, q)), np.zeros((2, q), dtype=slope.dtype)
    first = min(max(q // 2, _EVERY_LEAST), most)
    count, done = 1, steps(matrix, slope, u, lo, hi, segments, tol, first)
    if done < first:
        return done
    while True:
        u_before, slope_before = u.copy(), slope.copy()
        some = min(every, most - done)
        took = steps(matrix, slope, u, lo, hi, segments, tol, some)
        done += took
        if took < every or done >= most:
            return done
        for i in range(q):
            ways[0, i] = u[i] - u_before[i]
            images[0, i] = slope[i] - slope_before[i]
        taken = leap(matrix, slope, u, lo, hi, segments, ways, images, count)
        count = 2 if taken else 1
        if taken:
            for i in range(q):
                ways[1, i] = u[i] - u_before[i]
                images[1, i] = slope[i] - slope_before[i]


@nb.njit(cache=True, nogil=True)
def leap(matrix, slope, u, lo, hi, segments, ways, images, count):  # type: ignore[no-untyped-def]
    """Go to the least point along the first `count` ways, whose images under H are given; whether that was worth it.

    `slope` and `u` are changed in place, `ways` and `images` are lost.
    """
    q = u.size
    fix = np.zeros((2, q))
    free = np.empty(q, dtype=np.bool_)
    for i in range(q):
        free[i] = lo[i] < u[i] < hi[i]
    for k in range(count):
        stopped = 0
        for i in range(q):
            if not free[i] and ways[k, i] != 0.0:
                fix[k, i] = -ways[k, i]
                stopped += 1
        if stopped > _STOPPED * q or not _balance(ways[k], fix[k], free, segments):
            if k == 0:
                return False
            fix[k] = 0.0
            count = 1
    _correct(matrix, images, fix, count)
    ways[:count] += fix[:count]
    if not _least(slope, ways, images, count):
        return False
    # The first way and image are the leap's now.
    way, image = ways[0], images[0]
    largest, stopped = 0.0, 0
    for i in range(q):
        largest = max(largest, abs(u[i]))
    fix[0] = 0.0
    for i in range(q):
        beyond = min(max(u[i] + way[i], lo[i]), hi[i]) - (u[i] + way[i])
        if abs(beyond) > _BEYOND * largest:
            fix[0, i] = beyond
            free[i] = False
            stopped += 1
    if stopped > _STOPPED * q or (stopped and not _balance(way, fix[0], free, segments)):
        return False
    _correct(matrix, images, fix, 1)
    end = np.empty(q)
    fall = 0.0
    for i in range(q):
        value = u[i] + way[i] + fix[0, i]
        end[i] = min(max(value, lo[i]), hi[i])
        if abs(end[i] - value) > _BEYOND * largest:
            return False  # one of those that bear the rest has no room for it
        fall += (end[i] - u[i]) * (np.float64(slope[i]) + 0.5 * np.float64(image[i]))
    if not fall < 0.0 or not _kept_sums(matrix, end, u, lo, hi, segments):
        return False
    for i in range(q):
        u[i] = end[i]
        slope[i] += image[i]
    return True


@nb.njit(cache=True, nogil=True)
def _least(slope, ways, images, count):  # type: ignore[no-untyped-def]
    """The least point in the plane of the ways, written to the first one; False where nothing falls."""
    a, r = 0.0, 0.0
    b, c, s = 0.0, 0.0, 0.0
    for i in range(slope.size):
        g = np.float64(slope[i])
        image = np.float64(images[0, i])
        a += ways[0, i] * image
        r -= ways[0, i] * g
        if count == 2:
            other = np.float64(images[1, i])
            b += 0.5 * (ways[0, i] * other + ways[1, i] * image)
            c += ways[1, i] * other
            s -= ways[1, i] * g
    if not a > 0.0:
        return False
    first, second = r / a, 0.0
    if count == 2 and c > 0.0 and a * c - b * b > _SAME * a * c:
        first, second = (c * r - b * s) / (a * c - b * b), (a * s - b * r) / (a * c - b * b)
    for i in range(slope.size):
        ways[0, i] = first * ways[0, i] + second * ways[1, i]
        images[0, i] = first * images[0, i] + second * images[1, i]
    return True


@nb.njit(cache=True, nogil=True)
def _balance(way, fix, free, segments):  # type: ignore[no-untyped-def]
    """Spread what the sums of ``way + fix`` miss over some of the free variables of each group, in `fix`."""
    for s in range(1, segments.size - 1):
        missing, able = 0.0, 0
        for i in range(segments[s], segments[s + 1]):
            missing -= way[i] + fix[i]
            able += free[i]
        if missing == 0.0:
            continue
        if able == 0:
            return False
        apart = max(able // _BEARERS, 1)
        bearers = -(-able // apart)
        seen = 0
        for i in range(segments[s], segments[s + 1]):
            if free[i]:
                if seen % apart == 0:
                    fix[i] += missing / bearers
                seen += 1
    return True


@nb.njit(cache=True, nogil=True)
def _correct(matrix, images, fix, count):  # type: ignore[no-untyped-def]
    """``images += H fix``, row by row."""
    rows, slot, diagonal, maker = borrowed(matrix)
    q = fix.shape[1]
    for i in range(q):
        first, second = rows.dtype.type(fix[0, i]), rows.dtype.type(fix[1, i])
        if fix[0, i] == 0.0 and (count == 1 or fix[1, i] == 0.0):
            continue
        # Whoever moves has a row, were it by less than float32 can tell.
        need_row(maker, i, i, rows, slot, diagonal)
        row = rows[slot[i]]
        if count == 1 or second == 0.0:
            for j in range(q):
                images[0, j] += first * row[j]
        else:
            for j in range(q):
                images[0, j] += first * row[j]
                images[1, j] += second * row[j]


@nb.njit(cache=True, nogil=True)
def _kept_sums(matrix, end, u, lo, hi, segments):  # type: ignore[no-untyped-def]
    """Take what rounding has left of each group's sum from the variable with most room; False where it has none.

    Thousands of leaps would add it up to a violated constraint. Sums carry their rounding along (Neumaier).
    """
    rows, slot, diagonal, maker = borrowed(matrix)
    for s in range(1, segments.size - 1):
        total, lost = 0.0, 0.0
        most, at = 0.0, -1
        for i in range(segments[s], segments[s + 1]):
            term = end[i] - u[i]
            new = total + term
            lost += (total - new) + term if abs(total) >= abs(term) else (term - new) + total
            total = new
            room = min(end[i] - lo[i], hi[i] - end[i])
            if room > most:
                most, at = room, i
        off = total + lost
        if off == 0.0:
            continue
        if not most > abs(off):
            return False
        end[at] -= off
        need_row(maker, at, at, rows, slot, diagonal)
    return True
