"""The variables a decomposition looks at: all of them, or those that shrinking has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.constraints import Groups
    from dualgap.problem import DualQP
    from dualgap.solvers._decomposition_rows import WorkingRows
    from dualgap.solvers._violation import Violation


class ActiveVariables:
    """Full vectors, and copies of the active variables side by side.

    Attributes
    ----------
    active : ndarray
        Which variables these are.
    index, column : ndarray
        Their points, and where these are in a kernel row.
    sign, ridge, lo, hi, group, scale, inverse, diagonal, F : ndarray
        As in the problem and its groups (`scale` is 1 and `inverse` 0 for a variable in no constraint).
    a, gradient : ndarray
        What changes.
    """

    def __init__(
        self,
        problem: DualQP,
        groups: Groups,
        rows: WorkingRows,
        a: NDArray[np.float64],
        gradient: NDArray[np.float64],
    ) -> None:
        self.problem, self.groups, self.rows = problem, groups, rows
        self.n_groups = groups.rhs.shape[0]
        self._a, self._gradient = a, gradient
        alone = groups.group < 0
        self._scale = np.where(alone, 1.0, groups.scale)
        self._inverse = np.where(alone, 0.0, 1.0 / self._scale)
        self._diagonal = problem.gram.diag()[problem.index] + problem.ridge
        self._when_whole = a, gradient
        self.activate(np.arange(problem.n))

    @property
    def whole(self) -> bool:
        """Whether all variables are active."""
        return self.active.size == self.problem.n

    def activate(self, active: NDArray[np.intp]) -> None:
        """Copy these variables together and shorten the rows to their points."""
        p = self.problem
        self.active = active
        self.index = p.index[active]
        self.rows.restrict(np.unique(self.index))
        self.column = self.rows.positions(self.index)
        # The whole row in its own order needs no gathering.
        self.in_order = self.column.size == self.rows.width and bool(np.all(np.diff(self.column) == 1))
        self.sign, self.ridge, self.lo, self.hi = p.sign[active], p.ridge[active], p.lo[active], p.hi[active]
        self.F = p.F[active]
        self.group, self.scale, self.inverse = self.groups.group[active], self._scale[active], self._inverse[active]
        self.diagonal = self._diagonal[active]
        self.a, self.gradient = self._a[active], self._gradient[active]

    def full(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The full vectors, brought up to date with the active variables."""
        self._a[self.active], self._gradient[self.active] = self.a, self.gradient
        return self._a, self._gradient

    def spread(self, members: NDArray[np.int64], delta: NDArray[np.float64]) -> None:
        """Add what the change `delta` of a few active variables does to the gradient of all active ones."""
        points, at = np.unique(self.index[members], return_inverse=True)
        weights = np.zeros(points.size)
        np.add.at(weights, at, self.sign[members] * delta)
        used = np.flatnonzero(weights)
        sums = np.zeros(self.rows.width)
        self.rows.add(sums, points[used], weights[used])
        self.gradient += self.sign * (sums if self.in_order else sums[self.column])
        self.gradient[members] += self.ridge[members] * delta

    def shrink(self, violation: Violation) -> None:
        """Set aside variables at a bound that are drawn further into it than any violating one is drawn away."""
        settled = settled_variables(violation, self.group)
        if settled.any():
            a, gradient = self.full()
            if self.whole:
                self._when_whole = a.copy(), gradient.copy()
            self.activate(self.active[~settled])

    def restore(self) -> None:
        """All variables again: the gradient of those set aside catches up with what has changed since."""
        p = self.problem
        a, gradient = self.full()
        # Variables left at different times; what all of them know is the moment when none was aside.
        a_then, gradient_then = self._when_whole
        change = p.on_points(a - a_then)
        moved = np.flatnonzero(change)
        aside = np.ones(p.n, dtype=bool)
        aside[self.active] = False
        points = np.unique(p.index[aside])
        missing = np.zeros(points.size)
        p.gram.accumulate(missing, moved, change[moved], points)
        gradient[aside] = gradient_then[aside] + p.sign[aside] * missing[np.searchsorted(points, p.index[aside])]
        gradient[aside] += p.ridge[aside] * (a - a_then)[aside]
        self.rows.reset()
        self.activate(np.arange(p.n))


def settled_variables(violation: Violation, group: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Variables that can move one way at most, and are drawn the other way beyond the group's last violator."""
    # The thresholds lie half their distance above and below the middle that pulls are measured from.
    reach = np.append(0.5 * np.maximum(violation.up - violation.low, 0.0), violation.worst)[group]
    stuck_low = violation.rises & ~violation.falls & (violation.pull < -reach)
    stuck_high = violation.falls & ~violation.rises & (violation.pull > reach)
    fixed = ~violation.rises & ~violation.falls
    return stuck_low | stuck_high | fixed
