"""Compiled SMO steps by Platt's heuristics with Keerthi's two thresholds (Modifications 1 and 2).

Notation as in `_pair_steps`. In every group ``up`` is the largest v known among variables that can go up and ``low``
the smallest among those that can go down (Keerthi's b_up and b_low are their negatives); a variable violates where
it lies more than tol beyond the other side's threshold. A pass over all variables examines each against the
thresholds; between such passes Modification 1 loops over the free variables, Modification 2 steps on the worst
violating pair of free variables until none is left. After a step the thresholds are taken anew from the free
variables and the two that moved.

The function cache holds the gradient: of all variables, or, as Platt and Keerthi have it, of the free ones only;
then a bounded variable's gradient is asked for when it is examined.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.solvers._pair_steps import (
    CONVERGED,
    MORE,
    NEED_GRADIENT,
    NEED_ROWS,
    move_pair,
    pair_curvature,
)

# Positions in the resumable state.
EXAMINE_ALL, CURSOR, CHANGED, FUNCTION_HITS = 0, 1, 2, 3
# Verdicts of one examination.
_IDLE, _STEPPED = 10, 11


@nb.njit(cache=True, inline="always")
def _can_rise(t, a, lo, hi, inverse):  # type: ignore[no-untyped-def]
    return a[t] < hi[t] if inverse[t] > 0 else a[t] > lo[t]


@nb.njit(cache=True, inline="always")
def _can_fall(t, a, lo, hi, inverse):  # type: ignore[no-untyped-def]
    return a[t] > lo[t] if inverse[t] > 0 else a[t] < hi[t]


@nb.njit(cache=True)
def _offer(t, a, gradient, lo, hi, inverse, group, up_value, low_value, up_index, low_index):  # type: ignore[no-untyped-def]
    """Let a variable with a known gradient set the thresholds of its group."""
    g = group[t]
    v = -gradient[t] * inverse[t]
    if _can_rise(t, a, lo, hi, inverse) and v > up_value[g]:
        up_value[g], up_index[g] = v, t
    if _can_fall(t, a, lo, hi, inverse) and v < low_value[g]:
        low_value[g], low_index[g] = v, t


@nb.njit(cache=True)
def reset_thresholds(  # type: ignore[no-untyped-def]
    a, gradient, known, lo, hi, inverse, group, up_value, low_value, up_index, low_index
):
    """Thresholds from every variable whose gradient is known (at the start: all of them)."""
    up_value[:], low_value[:], up_index[:], low_index[:] = -np.inf, np.inf, -1, -1
    for t in range(a.shape[0]):
        if known[t]:
            _offer(t, a, gradient, lo, hi, inverse, group, up_value, low_value, up_index, low_index)


@nb.njit(cache=True)
def _step(  # type: ignore[no-untyped-def]
    i,
    j,
    keep_all,
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
    known,
    lo,
    hi,
    up_value,
    low_value,
    up_index,
    low_index,
    needed,
    report,
):
    """Move the pair (i up, j down), refresh the function cache and the thresholds."""
    needed[0], needed[1] = point[i], point[j]
    if slot[point[i]] < 0 or slot[point[j]] < 0:
        return NEED_ROWS
    row_i, row_j = values[slot[point[i]]], values[slot[point[j]]]
    clock[0] += 1
    stamp[slot[point[i]]] = clock[0]
    stamp[slot[point[j]]] = clock[0]
    report[2] += 2.0
    apart = gradient[j] * inverse[j] - gradient[i] * inverse[i]
    quadratic = pair_curvature(i, j, row_i, column, sign, inverse, diagonal)
    change_i, change_j, decrease = move_pair(i, j, apart, quadratic, a, lo, hi, inverse)
    if change_i == 0.0 and change_j == 0.0:
        return _IDLE
    report[1] += decrease
    weight_i, weight_j = change_i * sign[i], change_j * sign[j]
    up_value[:], low_value[:], up_index[:], low_index[:] = -np.inf, np.inf, -1, -1
    for t in range(a.shape[0]):
        free = lo[t] < a[t] < hi[t] or t == i or t == j
        if known[t] and (keep_all or free):
            gradient[t] += sign[t] * (weight_i * row_i[column[t]] + weight_j * row_j[column[t]])
        else:
            known[t] = False
    gradient[i] += ridge[i] * change_i
    gradient[j] += ridge[j] * change_j
    for t in range(a.shape[0]):
        if lo[t] < a[t] < hi[t] or t == i or t == j:
            _offer(t, a, gradient, lo, hi, inverse, group, up_value, low_value, up_index, low_index)
    return _STEPPED


@nb.njit(cache=True, nogil=True)
def keerthi_chunk(  # type: ignore[no-untyped-def]
    modification,
    keep_all,
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
    known,
    lo,
    hi,
    up_value,
    low_value,
    up_index,
    low_index,
    tol,
    max_steps,
    needed,
    report,
    state,
):
    """Run at most `max_steps` steps (or as many examinations of the whole set); resumable through `state`."""
    m = a.shape[0]
    steps = 0
    examined = 0
    report[1], report[2] = 0.0, 0.0
    while steps < max_steps and examined < m + max_steps:
        worst, violation = 0, -np.inf
        for g in range(up_value.shape[0]):
            if up_value[g] - low_value[g] > violation:
                worst, violation = g, up_value[g] - low_value[g]
        report[0] = max(violation, 0.0)
        if state[EXAMINE_ALL] == 0:
            if violation <= tol:
                state[EXAMINE_ALL], state[CURSOR], state[CHANGED] = 1, 0, 0
                continue
            if modification == 2:
                i, j = up_index[worst], low_index[worst]
                verdict = _step(
                    i, j, keep_all, values, slot, stamp, clock, point, column, sign, group, inverse, ridge,
                    diagonal, a, gradient, known, lo, hi, up_value, low_value, up_index, low_index, needed, report,
                )  # fmt: skip
                if verdict == NEED_ROWS:
                    return NEED_ROWS, steps
                if verdict == _IDLE:
                    state[EXAMINE_ALL], state[CURSOR], state[CHANGED] = 1, 0, 0
                else:
                    steps += 1
                continue
        if state[CURSOR] == m:
            if state[CHANGED] == 0:
                if state[EXAMINE_ALL] == 1:
                    return CONVERGED, steps
                state[EXAMINE_ALL] = 1
            else:
                state[EXAMINE_ALL] = 0
            state[CURSOR], state[CHANGED] = 0, 0
            continue
        t = state[CURSOR]
        free = lo[t] < a[t] < hi[t]
        if state[EXAMINE_ALL] == 0 and not free:
            state[CURSOR] += 1
            continue
        examined += 1
        if not known[t]:
            needed[0] = t
            return NEED_GRADIENT, steps
        _offer(t, a, gradient, lo, hi, inverse, group, up_value, low_value, up_index, low_index)
        g = group[t]
        v = -gradient[t] * inverse[t]
        above = v - low_value[g] if _can_rise(t, a, lo, hi, inverse) else -np.inf
        below = up_value[g] - v if _can_fall(t, a, lo, hi, inverse) else -np.inf
        if max(above, below) > tol:
            i, j = (t, low_index[g]) if above > below else (up_index[g], t)
            verdict = _step(
                i, j, keep_all, values, slot, stamp, clock, point, column, sign, group, inverse, ridge,
                diagonal, a, gradient, known, lo, hi, up_value, low_value, up_index, low_index, needed, report,
            )  # fmt: skip
            if verdict == NEED_ROWS:
                return NEED_ROWS, steps
            if verdict == _STEPPED:
                steps += 1
                state[CHANGED] += 1
        state[FUNCTION_HITS] += 1
        state[CURSOR] += 1
    return MORE, steps
