"""Leaps: the best combination of what the last passes have moved, which costs no pass over the data.

Where more variables are free than features can tell apart, the objective is flat in some directions and linear in
others: passes then creep along them at a constant pace, thousands of times, until a variable meets its bound. A few
passes in one and the same order show these directions (their differences d_1, ..., d_m of values, and those of w,
their images), and over their span the objective is a quadratic in m numbers::

    min over c of  f(v + sum c_j d_j),    Hessian dw_i'dw_j + ridge d_i'd_j + ...,  gradient w'dw_j + linear'd_j + ...

as in the extrapolation of coordinate descent by Anderson's method (Bertrand, Massias 2021), but with the true
objective. A leap goes along the minimiser's direction to the minimum, bending at the first bounds it meets: there the
item's part is taken out of the direction. It never raises the objective.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.kernels.linear_rows import add_row
from dualgap.solvers._dcd_layout import KINK, LINEAR, LOWER, RIDGE, SIGN, UPPER, VALUE

_SUMS = {"reassoc", "contract", "nsz"}
# Bounds at which a leap may bend: each costs about as much as it does to begin one.
_BENDS = 8
# Added to the small Hessian, relative to its largest entry: differences of successive passes are nearly parallel.
_RIDGE = 1e-12


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def direction(items, group, scale, w, extra, constant, rho, chosen, count, shots, v_shots, w_shots, dv):  # type: ignore[no-untyped-def]
    """The best combination of the differences between successive shots, into `dv`."""
    m = shots - 1
    g_count = extra.size
    # Row j: what the j-th difference adds to the constant's sum and to those of the groups.
    sums = np.zeros((m, g_count))
    gradient = np.zeros(m)
    hessian = np.zeros((m, m))
    for k in range(count):
        i = chosen[k]
        value, ridge, sign = items[i, VALUE], items[i, RIDGE], items[i, SIGN]
        slope = items[i, LINEAR] + ridge * value + (items[i, KINK] if value > 0.0 else 0.0)
        for p in range(m):
            d = v_shots[p + 1, k] - v_shots[p, k]
            if d != 0.0:
                gradient[p] += slope * d
                sums[p, 0] += sign * d
                if group.size > 0 and group[i] >= 0:
                    sums[p, 1 + group[i]] += scale[i] * d
                if ridge > 0.0:
                    for q in range(p + 1):
                        hessian[p, q] += ridge * d * (v_shots[q + 1, k] - v_shots[q, k])
    for p in range(m):
        for j in range(w.size):
            gradient[p] += w[j] * (w_shots[p + 1, j] - w_shots[p, j])
        for q in range(p + 1):
            total = 0.0
            for j in range(w.size):
                total += (w_shots[p + 1, j] - w_shots[p, j]) * (w_shots[q + 1, j] - w_shots[q, j])
            hessian[p, q] += total
    for p in range(m):
        for g in range(g_count):
            gradient[p] += extra[g] * sums[p, g]
            weight = constant if g == 0 else rho[g - 1]
            for q in range(p + 1):
                hessian[p, q] += weight * sums[p, g] * sums[q, g]
    largest = 0.0
    for p in range(m):
        largest = max(largest, hessian[p, p])
        for q in range(p):
            hessian[q, p] = hessian[p, q]
    dv[:count] = 0.0
    if not (largest > 0.0 and largest < np.inf):
        return
    for p in range(m):
        hessian[p, p] += _RIDGE * largest
    c = np.linalg.solve(hessian, -gradient)
    for p in range(m):
        for k in range(count):
            dv[k] += c[p] * (v_shots[p + 1, k] - v_shots[p, k])


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def leap(  # type: ignore[no-untyped-def]
    indptr, indices, values, point, items, group, scale, w, extra, constant, rho,
    chosen, count, dv, dw,
):  # fmt: skip
    """Go along `dv` as far as it pays; returns what the objective falls by."""
    grouped = group.size > 0
    # The image of the direction is made anew: a difference of two w carries their rounding, and where the objective is
    # flat a leap is millions of times as long.
    dw[:] = 0.0
    for k in range(count):
        i = chosen[k]
        value = items[i, VALUE]
        outward = (dv[k] > 0.0 and value >= items[i, UPPER]) or (dv[k] < 0.0 and value <= items[i, LOWER])
        if outward or (value == 0.0 and items[i, KINK] > 0.0):
            dv[k] = 0.0
        elif dv[k] != 0.0:
            add_row(indptr, indices, values, point[i], items[i, SIGN] * dv[k], dw)
    sums = np.zeros(extra.size)
    fall = 0.0
    for _ in range(_BENDS):
        slope = curvature = 0.0
        for j in range(w.size):
            slope += w[j] * dw[j]
            curvature += dw[j] * dw[j]
        sums[:] = 0.0
        for k in range(count):
            if dv[k] != 0.0:
                i = chosen[k]
                value = items[i, VALUE]
                above = items[i, KINK] if value > 0.0 else 0.0
                slope += (items[i, LINEAR] + above + items[i, RIDGE] * value) * dv[k]
                curvature += items[i, RIDGE] * dv[k] * dv[k]
                sums[0] += items[i, SIGN] * dv[k]
                if grouped and group[i] >= 0:
                    sums[1 + group[i]] += scale[i] * dv[k]
        slope += extra[0] * sums[0]
        curvature += constant * sums[0] * sums[0]
        for g in range(1, extra.size):
            slope += extra[g] * sums[g]
            curvature += rho[g - 1] * sums[g] * sums[g]
        if not slope < 0.0:
            return fall
        best = -slope / curvature if curvature > 0.0 else np.inf
        most, first, met = np.inf, -1, 0.0
        for k in range(count):
            if dv[k] != 0.0:
                i = chosen[k]
                value = items[i, VALUE]
                bound = items[i, UPPER] if dv[k] > 0.0 else items[i, LOWER]
                if items[i, KINK] > 0.0 and value * dv[k] < 0.0:
                    bound = 0.0
                room = (bound - value) / dv[k]
                if room < most:
                    most, first, met = room, k, bound
        step = min(best, most)
        if step == np.inf:
            return fall
        for k in range(count):
            if dv[k] != 0.0:
                i = chosen[k]
                items[i, VALUE] = min(max(items[i, VALUE] + step * dv[k], items[i, LOWER]), items[i, UPPER])
        for j in range(w.size):
            w[j] += step * dw[j]
        extra[0] += constant * step * sums[0]
        for g in range(1, extra.size):
            extra[g] += rho[g - 1] * step * sums[g]
        fall -= step * (slope + 0.5 * curvature * step)
        if best <= most:
            return fall
        i = chosen[first]
        items[i, VALUE] = met
        add_row(indptr, indices, values, point[i], -items[i, SIGN] * dv[first], dw)
        dv[first] = 0.0
    return fall
