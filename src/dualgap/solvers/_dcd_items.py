"""The items of coordinate descent: the variables of a problem, those of a regression point as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.kernels.memory import aligned
from dualgap.solvers._dcd_layout import CURVATURE, KINK, LINEAR, LOWER, RIDGE, SIGN, UPPER, VALUE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP


class Items:
    """Variables as compiled passes want them, and the way back.

    Two variables of one point are one item where they have opposite signs, start at 0, share ridge and constraint, and
    where it never pays to have both (f0 of the two sums to 0 or more): the rows of regression but nu_svr.

    Attributes
    ----------
    table : ndarray, shape (m, 8)
        One cache line an item, see `_dcd_sweep`.
    point : ndarray of int64, shape (m,)
        Row of the factor.
    group, scale : ndarray
        Equality constraint of an item (-1: none) and its coefficient there; empty without constraints.
    """

    def __init__(self, problem: DualQP, rho: NDArray[np.float64]) -> None:
        groups = problem.groups
        assert groups is not None  # supports() has said so
        self.problem = problem
        self.first, self.second = _pairs(problem)
        first, second = self.first, self.second
        paired = second >= 0
        m = first.size
        self.table = aligned(8 * m, np.float64).reshape(m, 8)
        t = self.table
        t[:, SIGN], t[:, RIDGE] = problem.sign[first], problem.ridge[first]
        t[:, LOWER], t[:, UPPER] = problem.lo[first], problem.hi[first]
        t[:, LINEAR], t[:, KINK] = problem.f0[first], 0.0
        other = second[paired]
        t[paired, LOWER] = -problem.hi[other]
        t[paired, LINEAR] = -problem.f0[other]
        t[paired, KINK] = problem.f0[first[paired]] + problem.f0[other]
        self.point = problem.index[first].astype(np.int64)
        t[:, CURVATURE] = problem.gram.diag()[self.point] + t[:, RIDGE]
        self.group = groups.group[first] if problem.k else np.empty(0, dtype=np.int64)
        self.scale = groups.scale[first] if problem.k else np.empty(0)
        if problem.k:
            tied = self.group >= 0
            t[tied, CURVATURE] += rho[self.group[tied]] * self.scale[tied] ** 2

    @property
    def count(self) -> int:
        """Number of items."""
        return int(self.first.size)

    def put(self, a: NDArray[np.float64]) -> None:
        """Set the values from a point of the box."""
        paired = self.second >= 0
        self.table[:, VALUE] = a[self.first]
        self.table[paired, VALUE] -= a[self.second[paired]]

    def point_of_box(self) -> NDArray[np.float64]:
        """The variables."""
        a = np.empty(self.problem.n)
        value, paired = self.table[:, VALUE], self.second >= 0
        if not paired.any():
            a[self.first] = value
            return a
        a[self.first] = np.where(paired, np.maximum(value, 0.0), value)
        a[self.second[paired]] = np.maximum(-value[paired], 0.0)
        return a

    def on_points(self) -> NDArray[np.float64]:
        """The coefficients of the rows."""
        weights = self.table[:, SIGN] * self.table[:, VALUE]
        return np.bincount(self.point, weights=weights, minlength=self.problem.gram.n).astype(np.float64, copy=False)


def _pairs(problem: DualQP) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """First variable of each item, and the second one or -1."""
    n = problem.n
    half = n // 2
    alone = np.arange(n), np.full(n, -1, dtype=np.intp)
    # The table's regression rows have all first copies before all second ones; anything else is left as it is.
    if n % 2 or not np.array_equal(problem.index[:half], problem.index[half:]):
        return alone
    one, two = slice(0, half), slice(half, n)
    groups = problem.groups
    assert groups is not None
    fits = (
        np.all(problem.sign[one] == 1.0)
        and np.all(problem.sign[two] == -1.0)
        and not problem.lo.any()
        and np.array_equal(problem.ridge[one], problem.ridge[two])
        and np.all(problem.f0[one] + problem.f0[two] >= 0.0)
        and np.array_equal(groups.group[one], groups.group[two])
        and np.array_equal(groups.scale[one], -groups.scale[two])
    )
    return (np.arange(half), np.arange(half, n)) if fits else alone
