"""Which variables form the next working set of a decomposition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap.solvers._pair_steps import FLAT
from dualgap.solvers._working_set import balanced, by_gradient, gap_shares, largest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.solvers._decomposition_active import ActiveVariables
    from dualgap.solvers._violation import Violation


class Chooser:
    """Chooses one working set after the other.

    "paper" takes the lecture's rule as it is: the steepest feasible direction, or the largest shares of the gap with as
    many variables of each label. The latter may choose a set in which nothing can move (all of it drawn the same way);
    then, and only then, the maximal violating pair takes the last two places.

    "improved" begins with the maximal violating pair and its second-order partner, keeps up to half of the last set
    (free variables first), goes on by the rule, and fills up with violators and free variables.
    """

    def __init__(self, size: int, selection: str, paper: bool) -> None:
        self.size, self.selection, self.paper = size, selection, paper
        self.last = np.empty(0, dtype=np.intp)

    def choose(self, violation: Violation, v: ActiveVariables) -> NDArray[np.int64]:
        """Positions among the active variables."""
        if self.paper:
            chosen = self.by_rule(violation, v, self.size, np.ones(v.a.size, dtype=bool))
            if not _can_move(violation, v.group, chosen):
                rest = np.setdiff1d(chosen, violation.steepest, assume_unique=True)
                chosen = np.concatenate([violation.steepest, rest[: max(0, self.size - violation.steepest.size)]])
            return np.sort(chosen)
        first = violation.steepest
        if first.size == 2 and violation.worst > 0.0 and v.group[first[0]] >= 0:
            first = self.with_partner(violation, v, first)
        chosen = np.concatenate([first, self.kept(violation, v, first)])
        for more in (self.by_rule, self.fill):
            open_ = np.ones(v.a.size, dtype=bool)
            open_[chosen] = False
            room = self.size - chosen.size
            if room > 0:
                chosen = np.concatenate([chosen, more(violation, v, room, open_)])
        self.last = v.active[chosen]
        return np.sort(chosen)

    def by_rule(
        self, violation: Violation, v: ActiveVariables, count: int, open_: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """The rule of the lecture or that of SVM-light."""
        if self.selection == "gradient":
            return by_gradient(violation, v.group, count, open_)
        share = gap_shares(violation, v.a, v.lo, v.hi, v.scale, v.ridge)
        # Labels are what the lecture balances; what has to be balanced is how variables are drawn.
        side = v.sign > 0.0 if self.paper else violation.pull > 0.0
        return balanced(share, side, count, open_ & violation.violating)

    def with_partner(self, violation: Violation, v: ActiveVariables, pair: NDArray[np.int64]) -> NDArray[np.int64]:
        """The pair, and the partner that promises its first the largest decrease (in its second's place if q is 2)."""
        i = int(pair[0])
        row = v.rows.row(int(v.index[i]))
        j = _partner(i, row, v.column, violation.pull, violation.falls, v.group, v.sign, v.inverse, v.diagonal)
        if j < 0 or j == pair[1]:
            return pair
        return np.array([i, j] if self.size == 2 else [i, pair[1], j], dtype=np.int64)

    def kept(self, violation: Violation, v: ActiveVariables, taken: NDArray[np.int64]) -> NDArray[np.int64]:
        """Up to half of the last working set: free variables, then others that violate."""
        where = np.full(v.problem.n, -1, dtype=np.int64)
        where[v.active] = np.arange(v.active.size)
        last = where[self.last]
        candidates = np.zeros(v.a.size, dtype=bool)
        candidates[last[last >= 0]] = True
        candidates[taken] = False
        strength = np.abs(violation.pull)
        free = violation.rises & violation.falls
        strength = np.where(free, strength + violation.worst, strength)
        room = min(self.size // 2, self.size - taken.size)
        return largest(strength, candidates & (free | violation.violating), room)

    def fill(self, violation: Violation, v: ActiveVariables, count: int, open_: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Whoever violates or is free, the most strongly drawn first."""
        useful = violation.violating | (violation.rises & violation.falls)
        return largest(np.abs(violation.pull), open_ & useful, count)


def _can_move(violation: Violation, group: NDArray[np.int64], chosen: NDArray[np.int64]) -> bool:
    """Whether the chosen variables hold one that can move alone, or a pair with some of the worst violation."""
    if chosen.size == 0 or (violation.up.size == 0 and np.all(group < 0) and violation.steepest.size > 1):
        return bool(np.all(np.isin(violation.steepest, chosen))) and chosen.size > 0
    for g in np.unique(group[chosen]):
        members = chosen[group[chosen] == g]
        if g < 0:
            if violation.violating[members].any():
                return True
            continue
        up, down = members[violation.rises[members]], members[violation.falls[members]]
        if up.size and down.size and violation.pull[up].max() - violation.pull[down].min() > 1e-3 * violation.worst:
            return True
    return False


@nb.njit(cache=True, nogil=True)
def _partner(i, row, column, pull, falls, group, sign, inverse, diagonal):  # type: ignore[no-untyped-def]
    """The variable that, falling while i rises, promises the largest decrease; -1 for none."""
    best, found = 0.0, -1
    own = diagonal[i] * inverse[i] * inverse[i]
    for t in range(pull.shape[0]):
        if group[t] == group[i] and falls[t]:
            apart = pull[i] - pull[t]
            if apart > 0.0:
                cross = sign[i] * sign[t] * row[column[t]] * inverse[i] * inverse[t]
                curvature = own + diagonal[t] * inverse[t] * inverse[t] - 2.0 * cross
                gain = apart * apart / max(curvature, FLAT)
                if gain > best:
                    best, found = gain, t
    return found
