"""Choosing a working set in O(n): the variables that violate their group's threshold most, both sides represented."""

from __future__ import annotations

import numba as nb
import numpy as np

# Bins of the histogram by which the most violating are found without sorting; within the last bin any will do.
_BINS = 512
# Groups of which each is worth a pass of its own, without branches: 1 ns a variable in place of 5.
_FEW_GROUPS = 3


@nb.njit(cache=True, nogil=True)
def thresholds(gradient, u, lo, hi, group, n_groups):  # type: ignore[no-untyped-def]
    """For each group the least slope of what may grow and the largest of what may shrink, and the worst violation.

    Entry ``g + 1`` belongs to group g. Variables of group -1 have the fixed threshold 0, entry 0 stays 0.
    """
    least, most = np.full(n_groups + 1, np.inf), np.full(n_groups + 1, -np.inf)
    if n_groups <= _FEW_GROUPS:
        for g in range(n_groups + 1):
            least[g], most[g] = _ends(gradient, u, lo, hi, group, g - 1)
    else:
        for i in range(u.size):
            g, v = group[i] + 1, gradient[i]
            if u[i] < hi[i] and v < least[g]:
                least[g] = v
            if u[i] > lo[i] and v > most[g]:
                most[g] = v
    worst = max(-least[0], most[0], 0.0)
    least[0], most[0] = 0.0, 0.0
    for g in range(1, n_groups + 1):
        # A group all of whose variables are at one bound has one threshold, and it is met.
        if least[g] == np.inf:
            least[g] = most[g] if most[g] > -np.inf else 0.0
        if most[g] == -np.inf:
            most[g] = least[g]
        worst = max(worst, most[g] - least[g])
    return least, most, worst


# That no slope is NaN lets LLVM take vectors; where one is, the objective is NaN and the run has ended.
@nb.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def _ends(gradient, u, lo, hi, group, wanted):  # type: ignore[no-untyped-def]
    """The least slope of what may grow and the largest of what may shrink in one group."""
    least, most = np.inf, -np.inf
    for i in range(u.size):
        v, ours = gradient[i], group[i] == wanted
        grows = v if ours & (u[i] < hi[i]) else np.inf
        shrinks = v if ours & (u[i] > lo[i]) else -np.inf
        least = grows if grows < least else least
        most = shrinks if shrinks > most else most
    return least, most


# That no score is NaN lets LLVM take vectors, as in `_ends`, and so do loops that are short: 0.8 ns a variable in place
# of 4 for all in one.
@nb.njit(cache=True, nogil=True, fastmath={"nnan", "nsz"})
def eagerness(gradient, u, lo, hi, group, middle, aside, least):  # type: ignore[no-untyped-def]
    """How much each variable violates its group's threshold, and what is missing below 0; infinite where it is free.

    Those below `least` join those that are `aside`, who are infinitely far from moving, as is what cannot move at all.
    Returns how many are not aside and how many violate as well.
    """
    eager, near, violating = np.empty(u.size), 0, 0
    for i in range(u.size):
        eager[i] = gradient[i] - middle[group[i] + 1]
    for i in range(u.size):
        slope = eager[i]
        grows = -slope if u[i] < hi[i] else -np.inf
        shrinks = slope if u[i] > lo[i] else -np.inf
        larger = grows if grows > shrinks else shrinks
        eager[i] = np.inf if (u[i] < hi[i]) & (u[i] > lo[i]) else larger
    for i in range(u.size):
        aside[i] |= eager[i] < least
        near += not aside[i]
    for i in range(u.size):
        score = -np.inf if aside[i] else eager[i]
        eager[i] = score
        violating += score > 0.0
    return eager, near, violating


# Bits by which scores are told apart at a time.
_BITS = 16


@nb.njit(cache=True, nogil=True)
def largest(scores, count):  # type: ignore[no-untyped-def]
    """The places of the `count` largest scores in order, and of those as large as the last of them up to 2^-20.

    The bits of a number, with the sign turned round, are in the order of the numbers: the least that is taken is found
    by its first bits and then by the next, without sorting.
    """
    keys = (scores + 0.0).view(np.uint64)  # of one zero
    sign, rest = np.uint64(1 << 63), np.uint64(64 - _BITS)
    for i in range(keys.size):
        keys[i] = ~keys[i] if keys[i] & sign else keys[i] | sign
    found, wanted = np.uint64(0), count
    for level in range(2):
        shift = np.uint64(64 - _BITS * (level + 1))
        bins = np.zeros(1 << _BITS, dtype=np.int64)
        for i in range(keys.size):
            bins[(keys[i] >> shift) & np.uint64((1 << _BITS) - 1)] += level == 0 or keys[i] >> rest == found
        at = bins.size - 1
        while at > 0 and bins[at] < wanted:
            wanted -= bins[at]
            at -= 1
        found = (found << np.uint64(_BITS)) | np.uint64(at)
    shift = np.uint64(64 - 2 * _BITS)
    places, taken = np.empty(keys.size + 1, dtype=np.int64), 0
    for i in range(keys.size):
        places[taken] = i  # to be written over if it is not wanted
        taken += keys[i] >> shift >= found
    return places[:taken].copy()


@nb.njit(cache=True, nogil=True)
def select(gradient, u, lo, hi, group, middle, kept, want, chosen, mask):  # type: ignore[no-untyped-def]
    """Write at most `want` variables to `chosen`: the `kept` ones, then the worst violators of each group and side.

    Every group and side gets an equal share (what one does not need goes to the others), because a pair needs both.
    `mask` is scratch, zero before and after. Returns how many were chosen.
    """
    # Who violates, and which way, is as good as random: the loops have no branches that depend on it. What is not to be
    # chosen has a bucket of its own, the last.
    n_buckets = 2 * middle.size
    for k in range(kept.size):
        mask[kept[k]] = 1
        chosen[k] = kept[k]
    largest, counts = np.zeros(n_buckets + 1), np.zeros(n_buckets + 1, dtype=np.int64)
    bucket, score = np.empty(u.size, dtype=np.int64), np.empty(u.size)
    for i in range(u.size):
        v = gradient[i] - middle[group[i] + 1]
        grows, shrinks = (v < 0.0) & (u[i] < hi[i]), (v > 0.0) & (u[i] > lo[i])
        wanted = (grows | shrinks) & (mask[i] == 0)
        bucket[i] = 2 * (group[i] + 1) + shrinks if wanted else n_buckets
        score[i] = abs(v) if wanted else 0.0
    for i in range(u.size):
        counts[bucket[i]] += 1
        largest[bucket[i]] = max(largest[bucket[i]], score[i])
    quota = _quotas(counts[:n_buckets], largest[:n_buckets], want - kept.size)
    bins = np.zeros((n_buckets + 1, _BINS), dtype=np.int64)
    factor = np.zeros(n_buckets + 1)
    for c in range(n_buckets):
        factor[c] = _BINS / np.sqrt(largest[c]) if largest[c] > 0.0 else 0.0
    at_bin = np.empty(u.size, dtype=np.int64)
    for i in range(u.size):
        at_bin[i] = min(_BINS - 1, int(factor[bucket[i]] * np.sqrt(score[i])))
    for i in range(u.size):
        bins[bucket[i], at_bin[i]] += 1
    # Bins from `whole` on are taken, and so many of the one below.
    whole, rest = np.full(n_buckets + 1, _BINS), np.zeros(n_buckets + 1, dtype=np.int64)
    for c in range(n_buckets):
        at, taken = _BINS, 0
        while at > 0 and taken + bins[c, at - 1] <= quota[c]:
            at -= 1
            taken += bins[c, at]
        whole[c], rest[c] = at, quota[c] - taken
    picked, count = np.empty(want - kept.size + 1, dtype=np.int64), 0
    for i in range(u.size):
        c = bucket[i]
        part = (at_bin[i] == whole[c] - 1) & (rest[c] > 0)
        rest[c] -= part
        picked[count] = i  # to be written over if it is not wanted
        count += part | (at_bin[i] >= whole[c])
    chosen[kept.size : kept.size + count] = picked[:count]
    for k in range(kept.size):
        mask[kept[k]] = 0
    return kept.size + count


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
