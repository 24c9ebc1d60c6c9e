"""A block whose rows are made when they are needed, most of them never.

Where all variables fit into one block, as those of a pair of classes do, a tenth of them become support vectors, and
pair steps read the rows of few more: making the whole matrix would be most of the work. Rows are made in batches, those
of the worst violators first. They are as long as the block, so that the slopes of all its variables are known at all
times; steps are taken among the variables whose rows are there, until these violate much less than the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import numba as nb
import numpy as np

from dualgap.solvers._block_pairs import steps
from dualgap.solvers._block_select import select, thresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    MakeRows: TypeAlias = Callable[[NDArray[np.intp], NDArray[Any]], None]

# Rows of a batch, at least: more share what a round costs, fewer are made in vain.
_BATCH = 96
# Variables with rows are led to this share of the violation of all before others join them.
_SHARE = 0.1


class GrowingBlock:
    """All variables of an active set, and the rows of H made so far.

    Parameters
    ----------
    places, filling, segments : ndarray
        As those of `_block_layout.Block`.
    diagonal : ndarray, shape (q,)
        Of H, for every place.
    memory : ndarray, shape (q, q)
        For rows, filled from the first on.
    make : callable
        ``make(which, out)`` writes the rows of some places.
    """

    def __init__(
        self,
        places: NDArray[np.intp],
        filling: NDArray[np.bool_],
        segments: NDArray[np.int64],
        diagonal: NDArray[np.float64],
        memory: NDArray[Any],
        make: MakeRows,
    ) -> None:
        self.places, self.filling, self.segments = places, filling, segments
        self.matrix, self._make = memory, make
        self.diagonal = diagonal.astype(memory.dtype)
        self.group = np.repeat(np.arange(-1, segments.size - 2), np.diff(segments))
        self.slot = np.full(places.size, -1, dtype=np.int64)
        self.made = 0

    def rows(self, which: NDArray[np.intp]) -> NDArray[np.int64]:
        """Where in `matrix` the rows of places are that have moved."""
        return self.slot[which]

    def steps(
        self,
        slope: NDArray[Any],
        u: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        goal: float,
        most: int,
    ) -> int:
        """Pair steps until no violation is above `goal` or `most` are done; `slope` and `u` are changed in place."""
        done, n_groups = 0, self.segments.size - 2
        rows = self.matrix, self.slot, self.diagonal, ()
        while True:
            # Half as many again, so that blocks in which most variables move take few rounds.
            chosen = np.empty(max(_BATCH, self.made // 2), dtype=np.int64)
            violation, count = _violators(slope, u, lo, hi, self.group, n_groups, self.slot, goal, chosen)
            if violation <= goal or done >= most:
                return done
            if count:
                self._add_rows(chosen[:count])
            share = max(goal, _SHARE * violation) if count else goal
            took = steps(rows, slope, u, lo, hi, self.segments, share, most - done)
            done += int(took)
            if took == 0 and count == 0:
                return done  # what violates does so by rounding alone

    def _add_rows(self, which: NDArray[np.intp]) -> None:
        rows = self.matrix[self.made : self.made + which.size]
        self._make(which, rows)
        rows[np.arange(which.size), which] = self.diagonal[which]
        self.slot[which] = np.arange(self.made, self.made + which.size)
        self.made += which.size


@nb.njit(cache=True, nogil=True)
def _violators(slope, u, lo, hi, group, n_groups, slot, goal, chosen):  # type: ignore[no-untyped-def]
    """The worst violation, and how many of the worst violators without rows were written to `chosen`."""
    slopes = slope.astype(np.float64)
    least, most, violation = thresholds(slopes, u, lo, hi, group, n_groups)
    if violation <= goal:
        return violation, 0
    low, high = lo.copy(), hi.copy()
    for p in range(u.size):
        if slot[p] >= 0:
            low[p] = high[p] = u[p]
    none, mask = np.empty(0, dtype=np.int64), np.zeros(u.size, dtype=np.uint8)
    count = select(slopes, u, low, high, group, 0.5 * (least + most), none, chosen.size, chosen, mask)
    return violation, count
