"""Choosing working sets: by steepest descent, or by share of the duality gap.

Both take the `Violation` of a point (see `_violation`) and return variables, the most important first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.solvers._violation import Violation


def largest(score: NDArray[np.float64], candidates: NDArray[np.bool_], count: int) -> NDArray[np.int64]:
    """The `count` candidates with the largest scores, in falling order."""
    members = np.flatnonzero(candidates)
    if count <= 0:
        return members[:0].astype(np.int64)
    if members.size > count:
        members = members[np.argpartition(-score[members], count - 1)[:count]]
    return members[np.argsort(-score[members], kind="stable")].astype(np.int64)


def by_gradient(
    violation: Violation, group: NDArray[np.int64], count: int, open_: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The steepest feasible direction with at most `count` nonzeros among the `open_` variables (Joachims).

    In a group as many go up as go down: the r-th most drawn up is paired with the r-th most drawn down, and the pairs
    with the largest differences are taken, whatever their group. A variable in no constraint stands alone. (The
    direction is the minimiser of G'd with entries -1, 0 and 1 in the variables c a.)
    """
    members, gains = [], []
    for g in np.unique(group):
        inside = open_ & (group == g)
        if g < 0:
            strength = np.abs(violation.pull)
            alone = largest(strength, inside & violation.violating, count)
            members.append(alone)
            gains.append(strength[alone])
            continue
        up = largest(violation.pull, inside & violation.rises, count)
        down = largest(-violation.pull, inside & violation.falls, count)
        pairs = min(up.size, down.size)
        gain = violation.pull[up[:pairs]] - violation.pull[down[:pairs]]
        pairs = int(np.count_nonzero(gain > 0.0))
        members.append(np.column_stack([up[:pairs], down[:pairs]]).ravel())
        gains.append(np.repeat(0.5 * gain[:pairs], 2))
    if not members:
        return np.empty(0, dtype=np.int64)
    order = np.argsort(-np.concatenate(gains), kind="stable")[:count]
    return np.concatenate(members)[order].astype(np.int64)


def balanced(
    score: NDArray[np.float64], side: NDArray[np.bool_], count: int, open_: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """The largest positive scores among the `open_` variables, as many of one side as of the other (lecture).

    Where one side has too few, the other takes its places.
    """
    candidates = open_ & (score > 0.0)
    one, other = largest(score, candidates & side, count), largest(score, candidates & ~side, count)
    half = count // 2
    from_one = min(one.size, max(half, count - other.size))
    from_other = min(other.size, count - from_one)
    chosen = np.concatenate([one[:from_one], other[:from_other]])
    return chosen[np.argsort(-score[chosen], kind="stable")]


def gap_shares(
    violation: Violation,
    a: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    scale: NDArray[np.float64],
    ridge: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Each variable's term of the duality gap (lecture, P10.1; `dualgap.certificate` states it for all rows).

    `scale` is c, 1 for a variable in no constraint. Where no bound and no ridge ends the descent, the term is
    infinite; what would be lost on the way to the largest value any variable has stands for it.
    """
    reach = max(1.0, 2.0 * float(np.abs(a).max(initial=0.0)))
    share = np.empty(a.size)
    _gap_shares(violation.pull, a, lo, hi, scale, ridge, reach, share)
    return share


@nb.njit(cache=True, nogil=True)
def _gap_shares(pull, a, lo, hi, scale, ridge, reach, share):  # type: ignore[no-untyped-def]
    for t in range(a.shape[0]):
        slope = -pull[t] * scale[t] - ridge[t] * a[t]
        if ridge[t] > 0.0:
            target = min(max(-slope / ridge[t], lo[t]), hi[t])
        elif slope == 0.0:
            target = a[t]
        else:
            target = min(hi[t], reach) if slope < 0.0 else lo[t]
        move = a[t] - target
        share[t] = max(0.0, move * (slope + ridge[t] * (target + 0.5 * move)))
