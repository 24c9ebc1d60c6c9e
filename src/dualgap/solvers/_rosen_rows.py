"""Products with H for `rosen`: through the cached kernel rows where they fit, without storing where they do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.kernels.cache import MISSES, ElementStore
from dualgap.kernels.gram import FOREIGN_BUDGET, FullGram, Store, row_store
from dualgap.kernels.row_cache import add_rows, gather

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP


class Rows:
    """The matrix ``H = diag(sign) K[index, index] diag(sign) + diag(ridge)`` of one run, and what it has cost."""

    def __init__(self, problem: DualQP) -> None:
        self.problem = problem
        self.store: Store = row_store(problem.gram)
        self.store.reset()
        # Single elements are for solvers that read few columns of a row: here whole rows are read.
        self.capacity = 0 if isinstance(self.store, ElementStore) else self.store.values.shape[0]
        self.budget = int(getattr(problem.gram, "budget", FOREIGN_BUDGET))
        self._evaluations_before = problem.gram.evaluations
        self._misses_before = int(self.store.counts[MISSES])
        self._used = 0

    def product(self, variables: NDArray[np.intp], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """``H[:, variables] @ weights``."""
        p = self.problem
        # The variables of one point share its row.
        on_points = np.zeros(p.gram.n)
        np.add.at(on_points, p.index[variables], p.sign[variables] * weights)
        points = np.flatnonzero(on_points)
        sums = np.zeros(p.gram.n)
        if points.size <= self.capacity:
            add_rows(self.store.values, self._slots(points), on_points[points], None, sums)
        else:
            p.gram.accumulate(sums, points, on_points[points])
        out = p.sign * sums[p.index]
        out[variables] += p.ridge[variables] * weights
        return out

    def matrix(self, variables: NDArray[np.intp]) -> NDArray[np.float64] | None:
        """``H[variables, variables]``; None where it is larger than the budget for kernel entries."""
        p = self.problem
        size = variables.size
        if 8 * size * size > self.budget:
            return None
        points = p.index[variables]
        each = np.unique(points)
        if each.size <= self.capacity:
            self._slots(each)
            matrix = np.empty((size, size))
            gather(self.store.values, self.store.slot[points], points.astype(np.int64), matrix)
        else:
            matrix = np.array(p.gram.block(points, points), dtype=np.float64)
        sign = p.sign[variables]
        matrix *= sign
        matrix *= sign[:, None]
        matrix[np.diag_indices(size)] += p.ridge[variables]
        return matrix

    def product_within(
        self, variables: NDArray[np.intp], moving: NDArray[np.intp], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """``H[variables, variables[moving]] @ weights``, nothing stored."""
        p = self.problem
        points, chosen = p.index[variables], variables[moving]
        sums = np.zeros(points.size)
        p.gram.accumulate(sums, p.index[chosen], p.sign[chosen] * weights, points)
        out = p.sign[variables] * sums
        out[moving] += p.ridge[chosen] * weights
        return out

    def _slots(self, points: NDArray[np.intp]) -> NDArray[np.int64]:
        """Where the rows of these points are, all of them present together."""
        store = self.store
        self._used += points.size
        store.clock[0] += 1
        slots = store.slot[points]
        store.stamp[slots[slots >= 0]] = store.clock[0]  # those that are here must not make room for the others
        missing = points[slots < 0]
        if missing.size:
            store.load(missing)
            slots = store.slot[points]
        return slots

    @property
    def evaluations(self) -> int:
        """Kernel values this run asked for; of a stored matrix, those in the rows it has used."""
        gram = self.problem.gram
        if isinstance(gram, FullGram):
            return int(np.count_nonzero(self.store.stamp)) * gram.n
        return gram.evaluations - self._evaluations_before

    @property
    def hits_and_misses(self) -> tuple[int, int]:
        """Rows found and rows computed."""
        misses = int(self.store.counts[MISSES]) - self._misses_before
        return self._used - misses, misses
