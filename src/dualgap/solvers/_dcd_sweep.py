"""Compiled passes of coordinate descent over items: one exact step each, with the weights w kept up to date.

Items and state are laid out as `_dcd_layout` says. `extra` holds what the features do not: the weight of the penalised
constant, then for every group of equality constraints its multiplier plus penalty times residual (`_dcd_bias`).
"""

from __future__ import annotations

import numba as nb
import numpy as np

from dualgap.kernels.linear_rows import FUSED, add_row, dot_row, fetch_row
from dualgap.kernels.prefetch import prefetch
from dualgap.solvers._dcd_layout import (
    ACTIVE,
    ASIDE_HIGH,
    ASIDE_LOW,
    BELIEVED,
    CHOSEN,
    CURSOR,
    CURVATURE,
    CYCLIC,
    FALLING,
    GAP,
    KEPT,
    KINK,
    LINEAR,
    LOWER,
    OBJECTIVE,
    PASSES,
    PERMUTED,
    RANDOM,
    RIDGE,
    RISING,
    ROWS,
    SERIES,
    SHOTS,
    SIGN,
    UPPER,
    VALUE,
    WORST,
)
from dualgap.solvers._dcd_leap import direction, leap

# Steps ahead at which an item, and then its row, are asked for.
_FAR, _NEAR = 8, 4
# Share of the active items that a pass must leave for a series to begin: before, the differences would be those of
# items that are about to go.
_SETTLED = 0.99
# Passes before the first series: fresh orders get there much sooner while the way is not flat (reuters, squared hinge,
# C = 0.1: a gap of 7e-7 after 6 passes, 9e-3 with one order for all of them).
_FRESH = 8
# A multiplier moves when the violation is below this share of the move: an inner problem solved further is wasted.
_MULTIPLIER_SHARE = 0.5


@nb.njit(cache=True, nogil=True, inline="always")
def _drawn(state, count):  # type: ignore[no-untyped-def]
    """A number in [0, count) from a xorshift generator (Marsaglia's 64-bit one); count is below 2^32."""
    x = state[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    state[0] = x
    return np.int64(((x >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))


@nb.njit(cache=True, nogil=True, inline="always")
def _stepped(value, low, high, curvature):  # type: ignore[no-untyped-def]
    """The minimiser along one item, before clipping; `low` and `high` are its slopes below and above the kink."""
    if curvature > 0.0:
        target = value - high / curvature
        # Without a kink that is all. On which side of 0 the target lies is a matter of chance, and a wrong guess at the
        # end of a row undoes what has been begun of the next one: 7 ns a row.
        if low != high and target <= 0.0:
            target = min(value - low / curvature, 0.0)
        return target
    # A zero row without ridge: nothing but the slope decides (the report divides by zero here).
    if high < 0.0:
        return np.inf
    if low > 0.0:
        return -np.inf
    return 0.0 if (value > 0.0 and high > 0.0) or (value < 0.0 and low < 0.0) else value


@nb.njit(cache=True, nogil=True, inline="always")
def _least_part(linear, ridge, lower, upper):  # type: ignore[no-untyped-def]
    """The least of ``linear v + ridge / 2 v^2`` within bounds, one of which may be infinite."""
    if ridge > 0.0:
        v = min(max(-linear / ridge, lower), upper)
        return v * (linear + 0.5 * ridge * v)
    if linear == 0.0:
        return 0.0
    return linear * (lower if linear > 0.0 else upper)


@nb.njit(cache=True, nogil=True, inline="always")
def _bracket(value, low, ridge, kink, lower, upper):  # type: ignore[no-untyped-def]
    """What an item adds to the duality gap at the slope `low`: its part of the objective less the least it could be."""
    if kink == 0.0:
        if ridge > 0.0:
            move = min(max(low / ridge, value - upper), value - lower)
            return move * (low - 0.5 * ridge * move)
        if low == 0.0:
            return 0.0
        return low * (value - (lower if low > 0.0 else upper))
    linear = low - ridge * value
    own = linear * value + 0.5 * ridge * value * value + kink * max(value, 0.0)
    return own - min(_least_part(linear, ridge, lower, 0.0), _least_part(linear + kink, ridge, 0.0, upper))


@nb.njit(cache=True, nogil=True, fastmath=FUSED)
def part_of_pass(  # type: ignore[no-untyped-def]
    indptr, indices, values, point, items, group, scale, w, extra, constant, rho,
    order, end, most, kind, shrinking, least, whole, real, random,
):  # fmt: skip
    """Steps for the items at ``order[CURSOR:end]``, at most `most` of them; those that stay are moved to the front.

    `least` is the projected gradient below which a step is not worth its row (0: the report's test).
    """
    cursor, kept = whole[CURSOR], whole[KEPT]
    rising, falling = real[RISING], real[FALLING]
    gap, objective = real[GAP], real[OBJECTIVE]
    aside_low, aside_high = real[ASIDE_LOW], real[ASIDE_HIGH]
    grouped = group.size > 0
    stop = min(end, cursor + most)
    if kind == PERMUTED and cursor == 0:
        for s in range(end - 1):
            other = s + _drawn(random, end - s)
            order[s], order[other] = order[other], order[s]
    flat = items.reshape(-1)
    for s in range(cursor, stop):
        if kind == RANDOM:
            i = order[_drawn(random, end)]
        else:
            i = order[s]
            # Two steps: what says where the row is, then the row.
            if s + _FAR < end:
                prefetch(flat, 8 * order[s + _FAR])
                prefetch(point, order[s + _FAR])
                prefetch(indptr, point[order[s + _FAR]])
            if s + _NEAR < end:
                fetch_row(indptr, indices, values, point[order[s + _NEAR]], w.size)
        value, sign, lower, upper = items[i, VALUE], items[i, SIGN], items[i, LOWER], items[i, UPPER]
        ridge, kink = items[i, RIDGE], items[i, KINK]
        low = sign * (dot_row(indptr, indices, values, point[i], w) + extra[0])
        low += items[i, LINEAR] + ridge * value
        if grouped and group[i] >= 0:
            low += scale[i] * extra[1 + group[i]]
        gap += _bracket(value, low, ridge, kink, lower, upper)
        high = low + kink
        up = high if value >= 0.0 else low
        down = high if value > 0.0 else low
        # Chosen without branches: which of these hold is a matter of chance, and a wrong guess costs half a row.
        may_rise, may_fall = value < upper, value > lower
        rise, fall = (-up if may_rise else 0.0), (down if may_fall else 0.0)
        rising, falling = max(rising, rise), max(falling, fall)
        if shrinking:
            held_low, held_high = up > aside_low, -down > aside_high
            settled = (may_fall | held_low) & (may_rise | held_high) & (not (may_rise & may_fall))
            if kink > 0.0:
                settled |= (value == 0.0) & held_low & held_high
            if settled:
                continue
        if kind != RANDOM:
            order[kept] = i
            kept += 1
        if max(rise, fall) <= least:
            continue
        target = _stepped(value, low, high, items[i, CURVATURE])
        target = min(max(target, lower), upper)
        step = target - value
        if step == 0.0:
            continue
        items[i, VALUE] = target
        objective += step * (low + 0.5 * items[i, CURVATURE] * step)
        if kink > 0.0:
            objective += kink * (max(target, 0.0) - max(value, 0.0))
        add_row(indptr, indices, values, point[i], sign * step, w)
        extra[0] += constant * sign * step
        if grouped and group[i] >= 0:
            extra[1 + group[i]] += rho[group[i]] * scale[i] * step
    whole[CURSOR], whole[KEPT] = stop, kept
    whole[ROWS] += stop - cursor
    real[RISING], real[FALLING] = rising, falling
    real[GAP], real[OBJECTIVE] = gap, objective


@nb.njit(cache=True, nogil=True)
def end_pass(extra, multiplier, kind, shrinking, whole, real):  # type: ignore[no-untyped-def]
    """Close a pass: active list, what it takes to be set aside, multipliers; returns its worst violation."""
    if kind != RANDOM:
        whole[ACTIVE] = whole[KEPT]
    whole[CURSOR] = whole[KEPT] = 0
    whole[PASSES] += 1
    rising, falling = max(real[RISING], 0.0), max(real[FALLING], 0.0)
    if shrinking:
        # As LIBLINEAR has it: who lies further inside than the strongest pull in that direction is set aside.
        real[ASIDE_LOW] = falling if falling > 0.0 else np.inf
        real[ASIDE_HIGH] = rising if rising > 0.0 else np.inf
    real[RISING] = real[FALLING] = 0.0
    # Seen by each item before later steps moved the others, and nothing of those aside: a guess, for a look to confirm.
    real[BELIEVED] = real[GAP] / max(abs(real[GAP] - real[OBJECTIVE]), abs(real[OBJECTIVE]), 1e-300)
    real[GAP] = 0.0
    violation, missed = max(rising, falling), 0.0
    for g in range(multiplier.size):
        missed = max(missed, abs(extra[1 + g] - multiplier[g]))
    if missed > 0.0 and violation <= _MULTIPLIER_SHARE * missed:
        for g in range(multiplier.size):
            move = extra[1 + g] - multiplier[g]
            multiplier[g] += move
            extra[1 + g] += move
    real[WORST] = max(violation, missed)
    return real[WORST]


@nb.njit(cache=True, nogil=True)
def _shoot(items, w, order, whole, chosen, v_shots, w_shots):  # type: ignore[no-untyped-def]
    """Remember where the items of a series and the weights are; the first shot says which items these are."""
    shot = whole[SHOTS]
    if shot == 0:
        whole[CHOSEN] = whole[ACTIVE]
        chosen[: whole[ACTIVE]] = order[: whole[ACTIVE]]
    for k in range(whole[CHOSEN]):
        v_shots[shot, k] = items[chosen[k], VALUE]
    w_shots[shot] = w
    whole[SHOTS] += 1


@nb.njit(cache=True, nogil=True)
def sweep(  # type: ignore[no-untyped-def]
    indptr, indices, values, point, items, group, scale, w, extra, multiplier, constant, rho,
    order, most, passes, rows, series, tol, near, kind, shrinking, least, whole, real, random,
    chosen, v_shots, w_shots, dv, dw,
):  # fmt: skip
    """Passes until one is within `tol`, `passes` are done or `rows` rows are read; at most `most` rows in this call.

    A pass that has seen a relative gap of no more than `near` ends them as well (-1: none does).

    After every `series` passes comes a leap; 0 means none. A series keeps its order: only then do the differences
    between its passes tell where they lead. Returns whether it ended with a pass that is finished.
    """
    begun = whole[ROWS]
    shots = v_shots.shape[0]
    while True:
        if series > 0 and whole[CURSOR] == 0 and whole[SERIES] > series - shots:
            _shoot(items, w, order, whole, chosen, v_shots, w_shots)
        this = CYCLIC if kind == PERMUTED and whole[SERIES] > 0 else kind
        part_of_pass(
            indptr, indices, values, point, items, group, scale, w, extra, constant, rho,
            order, whole[ACTIVE], most - (whole[ROWS] - begun), this, shrinking, least, whole, real, random,
        )  # fmt: skip
        if whole[CURSOR] < whole[ACTIVE]:
            return False
        before = whole[ACTIVE]
        worst = end_pass(extra, multiplier, kind, shrinking, whole, real)
        if worst <= tol or real[BELIEVED] <= near or whole[ACTIVE] == 0:
            return True
        if whole[PASSES] >= passes or whole[ROWS] >= rows:
            return True
        if series > 0 and (whole[SERIES] > 0 or (whole[ACTIVE] >= _SETTLED * before and whole[PASSES] >= _FRESH)):
            whole[SERIES] += 1
            if whole[SERIES] == series:
                _shoot(items, w, order, whole, chosen, v_shots, w_shots)
                direction(
                    items, group, scale, w, extra, constant, rho,
                    chosen, whole[CHOSEN], whole[SHOTS], v_shots, w_shots, dv,
                )  # fmt: skip
                real[OBJECTIVE] -= leap(
                    indptr, indices, values, point, items, group, scale, w, extra, constant, rho,
                    chosen, whole[CHOSEN], dv, dw,
                )  # fmt: skip
                whole[SERIES] = whole[SHOTS] = 0
        if whole[ROWS] - begun >= most:
            return True


@nb.njit(cache=True, nogil=True)
def survey(margin, point, items, group, scale, multiplier, slack):  # type: ignore[no-untyped-def]
    """Worst violations (rising, falling) and duality gap at the exact margins, and how far inside each item lies.

    ``slack[0]`` is the slope that holds an item at its lower bound, ``slack[1]`` at its upper one; both at a kink,
    and -inf says that the item is free.
    """
    rising = falling = gap = 0.0
    for i in range(items.shape[0]):
        value = items[i, VALUE]
        low = items[i, SIGN] * margin[point[i]] + items[i, LINEAR] + items[i, RIDGE] * value
        if group.size > 0 and group[i] >= 0:
            low += scale[i] * multiplier[group[i]]
        gap += _bracket(value, low, items[i, RIDGE], items[i, KINK], items[i, LOWER], items[i, UPPER])
        high = low + items[i, KINK]
        up = high if value >= 0.0 else low
        down = high if value > 0.0 else low
        if value < items[i, UPPER]:
            rising = max(rising, -up)
        if value > items[i, LOWER]:
            falling = max(falling, down)
        at_low, at_high = value <= items[i, LOWER], value >= items[i, UPPER]
        kink = value == 0.0 and items[i, KINK] > 0.0
        slack[0, i] = up if at_low or kink else (np.inf if at_high else -np.inf)
        slack[1, i] = -down if at_high or kink else (np.inf if at_low else -np.inf)
    return rising, falling, gap
