"""Whole rows of a kernel matrix in float32, kept where computing an entry costs more than reading it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from dualgap.kernels.threads import share_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rows computed together where they do not lie side by side: enough to share the packed columns among them.
_TOGETHER = 384
# Columns a thread adds up at a time: 4096 float64 sums stay in the first-level cache while rows stream by.
_PIECE = 4096
# Whole rows are added up four at a time, side by side, seven times as fast as numbers here and there.
_WHOLE_PAYS = 4


class RowCache:
    """As many rows of n entries as fit; those not used for longest make room.

    Parameters
    ----------
    n : int
        Entries of a row.
    capacity : int
        Rows.
    """

    def __init__(self, n: int, capacity: int) -> None:
        self.values = np.empty((capacity, n), dtype=np.float32)
        self.slot = np.full(n, -1, dtype=np.int64)
        self._owner = np.full(capacity, -1, dtype=np.int64)
        self._used_at = np.zeros(capacity, dtype=np.int64)
        self._clock = 0
        self._filled = 0

    @property
    def complete(self) -> bool:
        """Whether every row is here, to stay."""
        return self._filled == self.slot.size

    def load(self, points: NDArray[np.intp], compute: Callable[[NDArray[np.intp], NDArray[np.float32]], None]) -> None:
        """Have the rows of these points, as far as they fit; ``compute(points, out)`` makes those that are missing."""
        if self.complete:
            return
        self._clock += 1
        present = self.slot[points]
        self._used_at[present[present >= 0]] = self._clock
        missing = points[present < 0]
        missing = missing[np.sort(np.unique(missing, return_index=True)[1])]  # each once, in the order asked for
        slots = self._room(missing.size)
        missing = missing[: slots.size]
        for start in range(0, missing.size, _TOGETHER):
            some, places = missing[start : start + _TOGETHER], slots[start : start + _TOGETHER]
            side_by_side = places[-1] - places[0] == places.size - 1
            rows = (
                self.values[places[0] : places[-1] + 1] if side_by_side else np.empty_like(self.values[: places.size])
            )
            compute(some, rows)
            if not side_by_side:
                self.values[places] = rows
            self.slot[some], self._owner[places], self._used_at[places] = places, some, self._clock
            self._filled = max(self._filled, int(places.max()) + 1)

    def _room(self, wanted: int) -> NDArray[np.int64]:
        """Slots for that many rows: unused ones, then those used longest ago, none of this moment's."""
        fresh = np.arange(self._filled, min(self._filled + wanted, self._owner.size))
        if fresh.size == wanted:
            return fresh
        old = np.flatnonzero(self._used_at[: self._filled] < self._clock)
        old = np.sort(old[np.argsort(self._used_at[old], kind="stable")[: wanted - fresh.size]])
        owners = self._owner[old]
        self.slot[owners[owners >= 0]] = -1
        self._owner[old] = -1
        return np.concatenate([fresh, old])

    def add(
        self,
        out: NDArray[np.float64],
        slots: NDArray[np.int64],
        delta: NDArray[np.float64],
        columns: NDArray[np.intp] | None,
        threads: int,
    ) -> None:
        """``out += delta @ values[slots][:, columns]``, summed in float64."""

        def piece(begin: int, end: int) -> None:
            part = slice(begin, end)
            chosen = None if columns is None else columns[part]
            add_rows(self.values, slots, delta, chosen, out[part], begin)

        share_parts(piece, out.size, _PIECE, threads)


def add_rows(
    values: NDArray[Any],
    which: NDArray[np.intp],
    weights: NDArray[np.float64],
    columns: NDArray[np.intp] | None,
    out: NDArray[np.float64],
    begin: int = 0,
) -> None:
    """``out += weights @ values[which][:, columns]`` (as many as `out` has from `begin` on when None), in float64."""
    if columns is None:
        _add_whole(values, which, weights, begin, out)
    elif _WHOLE_PAYS * len(columns) >= values.shape[1] and len(which) > 1:
        sums = np.zeros(values.shape[1])
        _add_whole(values, which, weights, 0, sums)
        out += sums[columns]
    else:
        _add_chosen(values, which, weights, columns, out)


@nb.njit(cache=True, nogil=True)
def _add_whole(values, which, weights, begin, out):  # type: ignore[no-untyped-def]
    last, end = which.size - 1, begin + out.size
    for k in range(0, which.size, 4):
        # Past the end the weight is zero, whatever row is read. Parts of rows are cut here, where their numbers are
        # known to lie side by side: as rows of a part of the matrix they take three times as long.
        a, b = values[which[k], begin:end], values[which[min(k + 1, last)], begin:end]
        c, d = values[which[min(k + 2, last)], begin:end], values[which[min(k + 3, last)], begin:end]
        wa, wb = weights[k], weights[k + 1] if k + 1 <= last else 0.0
        wc, wd = weights[k + 2] if k + 2 <= last else 0.0, weights[k + 3] if k + 3 <= last else 0.0
        for t in range(out.size):
            out[t] += (wa * a[t] + wb * b[t]) + (wc * c[t] + wd * d[t])


@nb.njit(cache=True, nogil=True)
def _add_chosen(values, which, weights, columns, out):  # type: ignore[no-untyped-def]
    for k in range(which.size):
        row, weight = values[which[k]], weights[k]
        for t in range(out.size):
            out[t] += weight * row[columns[t]]


@nb.njit(cache=True, nogil=True)
def gather(values, which, columns, out):  # type: ignore[no-untyped-def]
    """``out[...] = values[which][:, columns]``."""
    for r in range(which.size):
        row, place = values[which[r]], out[r]
        for t in range(columns.size):
            place[t] = row[columns[t]]
