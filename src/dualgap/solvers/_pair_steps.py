"""Compiled SMO steps with second-order working-set selection.

Variables of one constraint group move in pairs: with ``v_t = -G_t / c_t`` (G the gradient, c the variable's
coefficient in its constraint), raising ``c_i a_i`` and lowering ``c_j a_j`` by the same amount descends where
``v_i > v_j``. The first index has the largest v among those that can go up; the second maximises the decrease
``(v_i - v_j)^2 / (2 chi)``, ``chi = H_ii/c_i^2 + H_jj/c_j^2 - 2 H_ij/(c_i c_j)``. Optimal within tol when
``max v over up - min v over low <= tol`` in every group (the lecture's e_lo - e_hi). A variable in no constraint
moves alone, by a clipped Newton step.
"""

from __future__ import annotations

import numba as nb
import numpy as np

# What a chunk returns for.
MORE, CONVERGED, NEED_ROWS, NEED_GRADIENT = 0, 1, 2, 3
# Curvature below which a pair counts as flat (duplicate points, indefinite kernels): the step then runs to a bound.
FLAT = 1e-12
# A variable left this close to a bound, relative to its box, is put there: it is the rounding of one subtraction.
SNAP = 1e-14


@nb.njit(cache=True, inline="always")
def room_up(a, lo, hi, inverse):  # type: ignore[no-untyped-def]
    """How far ``c a`` may rise."""
    return (hi - a) / inverse if inverse > 0 else (lo - a) / inverse


@nb.njit(cache=True, inline="always")
def room_down(a, lo, hi, inverse):  # type: ignore[no-untyped-def]
    """How far ``c a`` may fall."""
    return (a - lo) / inverse if inverse > 0 else (a - hi) / inverse


@nb.njit(cache=True, inline="always")
def snapped(value, lo, hi):  # type: ignore[no-untyped-def]
    """The value, put on a bound it differs from by rounding only."""
    width = hi - lo
    if width == np.inf:
        width = max(1.0, abs(value))
    if value - lo <= SNAP * width:
        return lo
    if hi - value <= SNAP * width:
        return hi
    return value


@nb.njit(cache=True)
def move_pair(i, j, gain, quadratic, a, lo, hi, inverse):  # type: ignore[no-untyped-def]
    """Raise ``c_i a_i`` and lower ``c_j a_j`` by the best clipped amount; return it and the objective's change."""
    up = room_up(a[i], lo[i], hi[i], inverse[i])
    down = room_down(a[j], lo[j], hi[j], inverse[j])
    amount = min(gain / max(quadratic, FLAT), up, down)
    new_i = snapped(a[i] + amount * inverse[i], lo[i], hi[i])
    new_j = snapped(a[j] - amount * inverse[j], lo[j], hi[j])
    if amount == up:
        new_i = hi[i] if inverse[i] > 0 else lo[i]
    if amount == down:
        new_j = lo[j] if inverse[j] > 0 else hi[j]
    change_i, change_j = new_i - a[i], new_j - a[j]
    a[i], a[j] = new_i, new_j
    return change_i, change_j, amount * (0.5 * quadratic * amount - gain)


@nb.njit(cache=True)
def pair_curvature(i, j, row_i, column, sign, inverse, diagonal):  # type: ignore[no-untyped-def]
    """The curvature chi along the pair."""
    cross = sign[i] * sign[j] * row_i[column[j]] * inverse[i] * inverse[j]
    own = diagonal[i] * inverse[i] * inverse[i] + diagonal[j] * inverse[j] * inverse[j]
    return own - 2.0 * cross


@nb.njit(cache=True, nogil=True)
def pair_chunk(  # type: ignore[no-untyped-def]
    values,
    slot,
    stamp,
    clock,
    point,
    column,
    sign,
    group,
    inverse,
    ridge,
    diagonal,
    a,
    gradient,
    lo,
    hi,
    up_value,
    low_value,
    up_index,
    tol,
    max_steps,
    needed,
    report,
):
    """Run at most `max_steps` steps; `report` gets violation, change of the objective and rows used,
    `needed` the rows missed.
    """
    m = a.shape[0]
    steps = 0
    report[1], report[2] = 0.0, 0.0
    while True:
        for g in range(up_value.shape[0]):
            up_value[g], low_value[g], up_index[g] = -np.inf, np.inf, -1
        alone, alone_gain, violation = -1, 0.0, 0.0
        for t in range(m):
            g = group[t]
            if g >= 0:
                v = -gradient[t] * inverse[t]
                rising = inverse[t] > 0
                if (a[t] < hi[t]) if rising else (a[t] > lo[t]):
                    if v > up_value[g]:
                        up_value[g] = v
                        up_index[g] = t
                if (a[t] > lo[t]) if rising else (a[t] < hi[t]):
                    if v < low_value[g]:
                        low_value[g] = v
            else:
                slope = gradient[t]
                if (slope < 0.0 and a[t] < hi[t]) or (slope > 0.0 and a[t] > lo[t]):
                    violation = max(violation, abs(slope))
                    gain = slope * slope / max(diagonal[t], FLAT)
                    if gain > alone_gain:
                        alone_gain = gain
                        alone = t
        worst = -1
        for g in range(up_value.shape[0]):
            apart = up_value[g] - low_value[g]
            if apart >= violation and apart > 0.0:
                violation = apart
                worst = g
        report[0] = violation
        if violation <= tol:
            return CONVERGED, steps
        if steps >= max_steps:
            return MORE, steps

        i = alone if worst < 0 else up_index[worst]
        if slot[point[i]] < 0:
            needed[0] = point[i]
            needed[1] = point[i]
            return NEED_ROWS, steps
        row_i = values[slot[point[i]]]
        clock[0] += 1
        stamp[slot[point[i]]] = clock[0]

        if worst < 0:
            report[2] += 1.0
            step = -gradient[i] / max(diagonal[i], FLAT)
            new = min(max(a[i] + step, lo[i]), hi[i])
            change = snapped(new, lo[i], hi[i]) - a[i]
            report[1] += change * (gradient[i] + 0.5 * diagonal[i] * change)
            a[i] = snapped(new, lo[i], hi[i])
            weight = change * sign[i]
            for t in range(m):
                gradient[t] += sign[t] * weight * row_i[column[t]]
            gradient[i] += ridge[i] * change
            steps += 1
            continue

        j, best = -1, -1.0
        own = diagonal[i] * inverse[i] * inverse[i]
        for t in range(m):
            if group[t] == worst:
                rising = inverse[t] > 0
                if (a[t] > lo[t]) if rising else (a[t] < hi[t]):
                    apart = up_value[worst] + gradient[t] * inverse[t]
                    if apart > 0.0:
                        cross = sign[i] * sign[t] * row_i[column[t]] * inverse[i] * inverse[t]
                        curvature = own + diagonal[t] * inverse[t] * inverse[t] - 2.0 * cross
                        gain = apart * apart / max(curvature, FLAT)
                        if gain > best:
                            best = gain
                            j = t
        if slot[point[j]] < 0:
            needed[0] = point[i]
            needed[1] = point[j]
            return NEED_ROWS, steps
        row_j = values[slot[point[j]]]
        stamp[slot[point[j]]] = clock[0]
        report[2] += 2.0
        quadratic = pair_curvature(i, j, row_i, column, sign, inverse, diagonal)
        apart = up_value[worst] + gradient[j] * inverse[j]
        change_i, change_j, decrease = move_pair(i, j, apart, quadratic, a, lo, hi, inverse)
        report[1] += decrease
        weight_i, weight_j = change_i * sign[i], change_j * sign[j]
        for t in range(m):
            gradient[t] += sign[t] * (weight_i * row_i[column[t]] + weight_j * row_j[column[t]])
        gradient[i] += ridge[i] * change_i
        gradient[j] += ridge[j] * change_j
        steps += 1
