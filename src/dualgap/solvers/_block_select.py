"""Choosing a working set in O(n): the variables that violate their group's threshold most, both sides represented."""

from __future__ import annotations

import numba as nb
import numpy as np

# Bins of the histogram by which the most violating are found without sorting; within the last bin any will do.
_BINS = 512


@nb.njit(cache=True, nogil=True)
def thresholds(gradient, u, lo, hi, group, n_groups):  # type: ignore[no-untyped-def]
    """For each group the least slope of what may grow and the largest of what may shrink, and the worst violation.

    Entry ``g + 1`` belongs to group g. Variables of group -1 have the fixed threshold 0, entry 0 stays 0.
    """
    least, most = np.full(n_groups + 1, np.inf), np.full(n_groups + 1, -np.inf)
    alone = 0.0
    for i in range(u.size):
        g, v = group[i], gradient[i]
        if g < 0:
            if u[i] < hi[i] and -v > alone:
                alone = -v
            if u[i] > lo[i] and v > alone:
                alone = v
            continue
        if u[i] < hi[i] and v < least[g + 1]:
            least[g + 1] = v
        if u[i] > lo[i] and v > most[g + 1]:
            most[g + 1] = v
    least[0], most[0] = 0.0, 0.0
    worst = alone
    for g in range(1, n_groups + 1):
        # A group all of whose variables are at one bound has one threshold, and it is met.
        if least[g] == np.inf:
            least[g] = most[g] if most[g] > -np.inf else 0.0
        if most[g] == -np.inf:
            most[g] = least[g]
        worst = max(worst, most[g] - least[g])
    return least, most, worst


@nb.njit(cache=True, nogil=True)
def select(gradient, u, lo, hi, group, middle, kept, want, chosen, mask):  # type: ignore[no-untyped-def]
    """Write at most `want` variables to `chosen`: the `kept` ones, then the worst violators of each group and side.

    Every group and side gets an equal share (what one does not need goes to the others), because a pair needs both.
    `mask` is scratch, zero before and after. Returns how many were chosen.
    """
    n_buckets = 2 * middle.size
    for k in range(kept.size):
        mask[kept[k]] = 1
        chosen[k] = kept[k]
    largest, counts = np.zeros(n_buckets), np.zeros(n_buckets, dtype=np.int64)
    for i in range(u.size):
        bucket, score = _bucket(gradient[i] - middle[group[i] + 1], u[i], lo[i], hi[i], group[i])
        if bucket >= 0 and not mask[i]:
            counts[bucket] += 1
            largest[bucket] = max(largest[bucket], score)
    quota = _quotas(counts, largest, want - kept.size)
    bins = np.zeros((n_buckets, _BINS), dtype=np.int64)
    factor = np.empty(n_buckets)
    for c in range(n_buckets):
        factor[c] = _BINS / np.sqrt(largest[c]) if largest[c] > 0.0 else 0.0
    at_bin = np.full(u.size, -1)  # bucket and bin in one number; -1 for what is not to be chosen
    for i in range(u.size):
        bucket, score = _bucket(gradient[i] - middle[group[i] + 1], u[i], lo[i], hi[i], group[i])
        if bucket >= 0 and not mask[i]:
            place = min(_BINS - 1, int(factor[bucket] * np.sqrt(score)))
            bins[bucket, place] += 1
            at_bin[i] = bucket * _BINS + place
    last, rest = np.empty(n_buckets, dtype=np.int64), np.empty(n_buckets, dtype=np.int64)
    for c in range(n_buckets):
        at, taken = _BINS, 0
        while at > 0 and taken + bins[c, at - 1] <= quota[c]:
            at -= 1
            taken += bins[c, at]
        last[c], rest[c] = at, quota[c] - taken
    count = kept.size
    for i in range(u.size):
        if at_bin[i] < 0:
            continue
        bucket, place = at_bin[i] // _BINS, at_bin[i] % _BINS
        if place < last[bucket]:
            if place < last[bucket] - 1 or rest[bucket] == 0:
                continue
            rest[bucket] -= 1
        chosen[count] = i
        count += 1
    for k in range(kept.size):
        mask[kept[k]] = 0
    return count


@nb.njit(cache=True, nogil=True, inline="always")
def _bucket(v, u, lo, hi, group):  # type: ignore[no-untyped-def]
    """Which group and side a violator belongs to and by how much it violates; (-1, 0) for others."""
    if v < 0.0 and u < hi:
        return 2 * (group + 1), -v
    if v > 0.0 and u > lo:
        return 2 * (group + 1) + 1, v
    return -1, 0.0


@nb.njit(cache=True, nogil=True)
def _quotas(counts, largest, room):  # type: ignore[no-untyped-def]
    """How many of each bucket: equal shares, the worst violators' first where there is not even one for each."""
    order = np.argsort(-largest, kind="mergesort")
    quota = np.zeros(counts.size, dtype=np.int64)
    while room > 0:
        hungry = 0
        for c in range(counts.size):
            hungry += quota[c] < counts[c]
        if hungry == 0:
            break
        each = max(1, room // hungry)
        for c in order:
            more = min(each, counts[c] - quota[c], room)
            quota[c] += more
            room -= more
    return quota


@nb.njit(cache=True, nogil=True)
def gap_terms(gradient, u, lo, hi, ridge, group, middle):  # type: ignore[no-untyped-def]
    """The duality gap with the thresholds `middle` as multipliers (`dualgap.certificate` states the formula)."""
    total = 0.0
    for i in range(u.size):
        slope = gradient[i] - middle[group[i] + 1] - ridge[i] * u[i]
        if ridge[i] > 0.0:
            target = min(max(-slope / ridge[i], lo[i]), hi[i])
        elif slope == 0.0:
            continue
        else:
            target = lo[i] if slope > 0.0 else hi[i]
        move = u[i] - target
        total += move * (slope + ridge[i] * (target + 0.5 * move))
    return total
