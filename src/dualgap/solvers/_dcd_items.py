"""The items of coordinate descent: the variables of a problem, those of a regression point as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
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
    count : int
        Number of items.
    paired : bool
        Whether they are pairs: variable i and variable count + i.
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
        self.paired = _in_pairs(problem)
        self.count = m = problem.n // 2 if self.paired else problem.n
        self.table = t = aligned(8 * m, np.float64).reshape(m, 8)
        self.point = problem.index[:m].astype(np.int64)
        p = problem
        _fill(t, self.point, p.sign, p.ridge, p.lo, p.hi, p.f0, p.gram.diag(), self.paired)
        self.group = groups.group[:m] if problem.k else np.empty(0, dtype=np.int64)
        self.scale = groups.scale[:m] if problem.k else np.empty(0)
        if problem.k:
            tied = self.group >= 0
            t[tied, CURVATURE] += rho[self.group[tied]] * self.scale[tied] ** 2

    def put(self, a: NDArray[np.float64]) -> None:
        """Set the values from a point of the box."""
        self.table[:, VALUE] = a[: self.count] - a[self.count :] if self.paired else a

    def point_of_box(self) -> NDArray[np.float64]:
        """The variables."""
        value = self.table[:, VALUE].copy()
        return np.concatenate([np.maximum(value, 0.0), np.maximum(-value, 0.0)]) if self.paired else value

    def on_points(self) -> NDArray[np.float64]:
        """The coefficients of the rows."""
        weights = self.table[:, SIGN] * self.table[:, VALUE]
        return np.bincount(self.point, weights=weights, minlength=self.problem.gram.n).astype(np.float64, copy=False)


@nb.njit(cache=True, nogil=True)
def _fill(table, point, sign, ridge, lo, hi, f0, diagonal, paired):  # type: ignore[no-untyped-def]
    """The columns but for VALUE, line by line: column by column every line is fetched seven times."""
    m = point.size
    for i in range(m):
        table[i, SIGN], table[i, RIDGE] = sign[i], ridge[i]
        table[i, LOWER], table[i, UPPER] = lo[i], hi[i]
        table[i, LINEAR], table[i, KINK] = f0[i], 0.0
        if paired:
            table[i, LOWER] = -hi[m + i]
            table[i, LINEAR] = -f0[m + i]
            table[i, KINK] = f0[i] + f0[m + i]
        table[i, CURVATURE] = diagonal[point[i]] + ridge[i]


def _in_pairs(problem: DualQP) -> bool:
    """Whether the second half of the variables are the opposites of the first half."""
    n = problem.n
    half = n // 2
    # The table's regression rows have all first copies before all second ones; anything else is left as it is.
    if n % 2 or not np.array_equal(problem.index[:half], problem.index[half:]):
        return False
    one, two = slice(0, half), slice(half, n)
    groups = problem.groups
    assert groups is not None
    return bool(
        np.all(problem.sign[one] == 1.0)
        and np.all(problem.sign[two] == -1.0)
        and not problem.lo.any()
        and np.array_equal(problem.ridge[one], problem.ridge[two])
        and np.all(problem.f0[one] + problem.f0[two] >= 0.0)
        and np.array_equal(groups.group[one], groups.group[two])
        and np.array_equal(groups.scale[one], -groups.scale[two])
    )
