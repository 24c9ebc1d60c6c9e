"""Kernel rows of a working set, through the row cache of the Gram matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.cache import ElementStore
from dualgap.kernels.gram import FullGram, Store, entry_cost, row_store
from dualgap.kernels.row_cache import add_rows, gather
from dualgap.solvers._subproblem import symmetric

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# Rows are moved together only when that shortens them by a fifth: moving costs a pass over the cache.
_WORTH_MOVING = 0.8


class WorkingRows:
    """The rows that working sets need.

    Rows are kept as long as there is room. A working set with more points than the cache holds rows goes past it: its
    block and its product with the change are computed and not kept.
    """

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.store: Store = row_store(gram)
        self.store.reset()
        self._evaluations_before = gram.evaluations
        self._counts_before = self.store.counts.copy()
        self._used = np.zeros(gram.n, dtype=bool)
        self._past = self._stored = 0
        self.cost = entry_cost(gram)

    @property
    def columns(self) -> NDArray[np.intp] | None:
        """The points that rows have entries for; None for all."""
        return self.store.columns

    @property
    def width(self) -> int:
        """Entries of a row."""
        return self.store.width

    @property
    def evaluations(self) -> int:
        """Kernel values asked for; of a stored matrix, those in the rows that were used."""
        if isinstance(self.gram, FullGram):
            return int(np.count_nonzero(self._used)) * self.gram.n
        return self.gram.evaluations - self._evaluations_before

    @property
    def counts(self) -> tuple[int, int]:
        """Rows (elements) that were there, and that were not."""
        hits, misses = (int(count) for count in self.store.counts - self._counts_before)
        return hits + self._stored, misses + self._past

    def restrict(self, points: NDArray[np.intp]) -> None:
        """Shorten the rows to these points (ascending), where it is worth it.

        A cache with room for all rows keeps them whole: shortened ones are lost when all variables come back.
        """
        if self.store.values.shape[0] < self.gram.n and points.size < _WORTH_MOVING * self.store.width:
            self.store.restrict(points)

    def reset(self) -> None:
        """Whole rows again."""
        if self.columns is not None:
            self.store.reset()

    def leave(self) -> None:
        """Leave the store whole for whoever comes next."""
        self.store.reset()

    def positions(self, points: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where the entries of points are in a row."""
        return points if self.columns is None else np.searchsorted(self.columns, points)

    def block(self, points: NDArray[np.intp]) -> NDArray[np.float64]:
        """Kernel entries over the points of a working set."""
        if not self._fits(points):
            self._past += points.size
            return symmetric(self.gram.block(points, points))
        out = np.empty((points.size, points.size), dtype=self.store.values.dtype)
        where = self.positions(points)
        if isinstance(self.gram, FullGram):
            self._stored += points.size  # a stored matrix does not count
        for part, slots in self._loaded(points, points):
            gather(self.store.values, slots, where, out[part])
        return symmetric(out)

    def row(self, point: int) -> NDArray[Any]:
        """One row."""
        wanted = np.array([point])
        _, slots = next(self._loaded(wanted, None))
        return self.store.values[slots[0]]

    def add(self, out: NDArray[np.float64], points: NDArray[np.intp], weights: NDArray[np.float64]) -> None:
        """``out += K[columns, points] @ weights``."""
        if not self._fits(points):
            self.gram.accumulate(out, points, weights, self.columns)
            return
        counted = self.store.counts.copy()
        for part, slots in self._loaded(points, None):
            add_rows(self.store.values, slots, weights[part], None, out)
        if not isinstance(self.store, ElementStore):
            self.store.counts[:] = counted  # the working set's rows have been counted when its block was made

    def _fits(self, points: NDArray[np.intp]) -> bool:
        return isinstance(self.store, ElementStore) or points.size <= self.store.values.shape[0]

    def _loaded(
        self, points: NDArray[np.intp], columns: NDArray[np.intp] | None
    ) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Parts of the points that are there together, and the places of their rows.

        All at once but for a store of elements, which has two rows to work with.
        """
        self._used[points] = True
        room = 2 if isinstance(self.store, ElementStore) else max(1, points.size)
        for begin in range(0, points.size, room):
            part = slice(begin, min(begin + room, points.size))
            self.store.load(points[part], columns)
            yield part, self.store.slot[points[part]]
