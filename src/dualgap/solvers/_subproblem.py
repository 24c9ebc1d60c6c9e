"""The quadratic program over a few variables, all others fixed (lecture, "Working Set Algorithms").

Problem::

    min over a_W  1/2 a_W'H_WW a_W + (G - H_WW a)_W' a_W    subject to    lo <= a_W <= hi,    F_W'a_W unchanged

G being the gradient of the whole problem at the present point. It is solved by pair steps or by an interior point
method, from the present point on, and always ends in a feasible point that is at least as good.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.certificate import indefinite
from dualgap.kernels.threads import one_blas_thread
from dualgap.solvers import _pair_steps as pairs
from dualgap.solvers._interior import interior_point

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Store
    from dualgap.problem import DualQP


# Iterations of the interior point method at most; it is done in 10 to 20, or not at all.
_MOST_INTERIOR = 60
# It is not asked for less than this share of the slopes it begins with.
_FINEST = 1e-9
# Variables from which on a factorisation is worth more than one thread of BLAS; below, threads that wait for each other
# cost more than they do (beside other work, a hundred times more).
_WORTH_SHARING = 2000
# Singular values of F over the working set below this share of the largest are constraints that repeat others.
_REPEATED = 1e-10


def refusal(problem: DualQP, inner: str) -> str | None:
    """None, or why the programs of this problem cannot be solved by `inner` ("smo", "ipm" or "auto")."""
    if problem.groups is None and inner == "smo":
        return (
            f"inner='smo' moves pairs along one constraint, and the {problem.k} equality constraints of this problem "
            f"are coupled (as in semi-parametric models); inner='ipm' takes them"
        )
    if (problem.groups is None or inner == "ipm") and indefinite(problem.gram, problem.index):
        return "the interior point method needs a convex problem, and the kernel matrix is indefinite"
    return None


@dataclass
class Subproblem:
    """The program over the variables of a working set; `a` and `gradient` change as it is solved.

    Attributes
    ----------
    kernel : ndarray, shape (m, m), or RowStore
        Kernel entries over the points of the working set, float64 and symmetric; or a store of rows, where pair steps
        load what they need.
    at, column : ndarray of int64, shape (q,)
        Row of the kernel that each variable belongs to (of a store: its point), and place in a row.
    sign, ridge, diagonal, lo, hi, a, gradient : ndarray, shape (q,)
        As in the problem; `gradient` is that of the whole problem.
    group, inverse : ndarray, shape (q,)
        Group of each variable and the inverse of its coefficient there (-1 and 0: in no constraint).
    F : ndarray, shape (q, k)
        The rows of F, for the interior point method.
    n_groups : int
        Groups of the whole problem.
    """

    kernel: NDArray[np.float64] | Store
    at: NDArray[np.int64]
    column: NDArray[np.int64]
    sign: NDArray[np.float64]
    ridge: NDArray[np.float64]
    diagonal: NDArray[np.float64]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    a: NDArray[np.float64]
    gradient: NDArray[np.float64]
    group: NDArray[np.int64]
    inverse: NDArray[np.float64]
    F: NDArray[np.float64]
    n_groups: int

    def __post_init__(self) -> None:
        self._report, self._needed = np.zeros(3), np.zeros(2, np.int64)
        self._thresholds = np.empty(self.n_groups), np.empty(self.n_groups), np.empty(self.n_groups, np.int64)
        self._all_rows: tuple[Any, ...] | None = None
        if isinstance(self.kernel, np.ndarray):  # a store that holds every row, as compiled code reads them
            m = self.kernel.shape[0]
            self._all_rows = self.kernel, np.arange(m), np.zeros(m, np.int64), np.zeros(1, np.int64)

    def pair_steps(self, tol: float, most: int, loads: int = 1) -> tuple[bool, int]:
        """At most `most` pair steps, fetching rows at most `loads` times.

        Returns whether the violation within the set is down to `tol`, and how many steps were taken.
        """
        done = 0
        while True:
            code, steps = pairs.pair_chunk(
                *self._rows(), self.at, self.column, self.sign, self.group, self.inverse, self.ridge, self.diagonal,
                self.a, self.gradient, self.lo, self.hi, *self._thresholds, tol, most - done, self._needed,
                self._report,
            )  # fmt: skip
            done += int(steps)
            if code == pairs.NEED_ROWS and loads > 0:
                loads -= 1
                assert not isinstance(self.kernel, np.ndarray)
                self.kernel.load(self._needed, None)
                continue
            return code == pairs.CONVERGED, done

    def _rows(self) -> tuple[Any, ...]:
        if self._all_rows is not None:
            return self._all_rows
        store: Any = self.kernel
        return store.values, store.slot, store.stamp, store.clock

    def interior(self, tol: float) -> bool:
        """Solve by the interior point method; False where it moved nothing or missed `tol`, the violation in the set.

        The program is put to it for the change ``d = a - a_now``, whose linear term is the gradient, without the part
        that lies in the span of the constraints (F'd = 0). So both tend to zero, and rounding with them.
        """
        if self.at.size == 0:
            return True
        H = self.hessian()
        F = _independent(self.F)
        slope = self.gradient - F @ (F.T @ self.gradient)
        low, high = self.lo - self.a, self.hi - self.a
        # Thresholds that are tol apart leave slopes of half of it.
        half = max(0.5 * tol if F.shape[1] else tol, _FINEST * float(np.abs(slope).max(initial=0.0)))
        with one_blas_thread() if self.a.size < _WORTH_SHARING else nullcontext():
            d, _, converged = interior_point(H, slope, low, high, F, np.zeros(F.shape[1]), half, _MOST_INTERIOR)
        fall, curvature = float(slope @ d), float(d @ (H @ d))
        if not fall < 0.0:
            return False
        length = 1.0
        if fall + curvature > 0.0:  # further than the best along the way: the method has not converged
            length = -fall / curvature
            d *= length
        self.gradient += H @ d
        after = np.clip(self.a + d, self.lo, self.hi)
        if length == 1.0:
            after = np.where(d == low, self.lo, np.where(d == high, self.hi, after))
        still = np.array_equal(after, self.a)
        self.a[:] = after
        return bool(converged and length == 1.0 and not still)

    def follow(self, members: NDArray[np.int64], direction: NDArray[np.float64]) -> None:
        """Go along a feasible direction of a few variables as far as the objective falls and the box allows."""
        assert isinstance(self.kernel, np.ndarray)
        d = np.zeros(self.a.size)
        d[members] = direction
        H_d = self.sign * (self.kernel @ np.bincount(self.at, self.sign * d, self.kernel.shape[0]))[self.at]
        H_d += self.ridge * d
        fall, curvature = float(self.gradient @ d), float(d @ H_d)
        if not fall < 0.0:
            return
        room = np.where(d > 0.0, self.hi - self.a, self.a - self.lo)[members] / np.maximum(np.abs(direction), 1e-300)
        length = min(-fall / curvature if curvature > 0.0 else np.inf, float(room.min(initial=np.inf)))
        self.a[:] = np.clip(self.a + length * d, self.lo, self.hi)
        self.gradient += length * H_d

    def hessian(self) -> NDArray[np.float64]:
        """H over the working set."""
        assert isinstance(self.kernel, np.ndarray)
        H = self.kernel[np.ix_(self.at, self.at)] * self.sign * self.sign[:, None]
        H[np.diag_indices_from(H)] += self.ridge
        return H


def _independent(F: NDArray[np.float64]) -> NDArray[np.float64]:
    """An orthonormal basis of the constraints: within a few variables some may repeat others, or be empty."""
    if F.shape[1] == 0:
        return F
    left, values, _ = np.linalg.svd(F, full_matrices=False)
    return left[:, values > _REPEATED * max(float(values[0]), 1e-300)]


def symmetric(block: NDArray[Any]) -> NDArray[np.float64]:
    """A principal block in float64, the rounding of its two halves made the same."""
    block = np.asarray(block, dtype=np.float64)
    return 0.5 * (block + block.T)
