"""Storage of kernel entries for compiled solvers: whole rows with LRU replacement, or single elements.

Both stores offer compiled code the same arrays: row ``values[slot[point]]`` holds K(point, columns) where
``slot[point] >= 0``. A compiled chunk that misses a row returns to Python, which calls `load` and re-enters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # compute(point, columns) -> K(point, columns); columns None means all
    RowFunction = Callable[[int, "NDArray[np.intp] | None"], "NDArray[Any]"]

# Positions of the two counters of a store.
HITS, MISSES = 0, 1


class RowStore:
    """Rows of a Gram matrix under a byte budget, least recently used row replaced first.

    The buffer is allocated once. Restricting the columns (shrinking) moves the kept entries together, so that
    the same bytes hold more, shorter rows.

    Attributes
    ----------
    values : ndarray, shape (capacity, width)
        The rows.
    slot : ndarray of int64, shape (n,)
        Where each point's row is, or -1.
    stamp : ndarray of int64, shape (capacity,)
        When each row was last used, by `clock`.
    clock : ndarray of int64, shape (1,)
        Advanced by whoever uses rows.
    counts : ndarray of int64, shape (2,)
        Hits and misses of `load`; rows that compiled code reads by itself are counted by it.
    """

    def __init__(self, compute: RowFunction, n: int, dtype: np.dtype[Any], budget: int) -> None:
        self._compute = compute
        self.n = n
        row_bytes = n * np.dtype(dtype).itemsize
        if budget < 2 * row_bytes and n > 2:
            raise ValueError(
                f"cache_size is too small: {budget / 1e6:.3g} MB cannot hold two rows of the {n} x {n} kernel "
                f"matrix; set cache_size to at least {2 * row_bytes / 1e6:.3g}."
            )
        rows = max(2, min(n, budget // row_bytes))
        self._buffer = np.empty(rows * n, dtype=dtype)
        self.columns: NDArray[np.intp] | None = None
        self.counts = np.zeros(2, dtype=np.int64)
        self.clock = np.zeros(1, dtype=np.int64)
        self.slot = np.full(n, -1, dtype=np.int64)
        self._lay_out(n)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self._buffer.nbytes)

    @property
    def width(self) -> int:
        """Length of a stored row."""
        return int(self.values.shape[1])

    def _lay_out(self, width: int) -> None:
        capacity = min(self.n, self._buffer.size // max(width, 1))
        self.values = self._buffer[: capacity * width].reshape(capacity, width)
        self.owner = np.full(capacity, -1, dtype=np.int64)
        self.stamp = np.zeros(capacity, dtype=np.int64)
        self._used = 0

    def load(self, points: NDArray[np.int64], columns: NDArray[np.intp] | None = None) -> None:
        """Make the rows of `points` present together; they may number at most the capacity.

        `columns` (those the caller will read) is for stores of single elements; a row is stored whole.
        """
        self.clock[0] += 1
        for point in points:
            if self.slot[point] >= 0:
                self.counts[HITS] += 1
                self.stamp[self.slot[point]] = self.clock[0]
        for point in points:
            if self.slot[point] < 0:
                self._store(int(point))

    def _store(self, point: int) -> None:
        self.counts[MISSES] += 1
        # The entries come first: an interrupt while they are computed leaves the store as it was.
        row = self._compute(point, self.columns)
        if self._used < self.owner.shape[0]:
            slot = self._used
            self._used += 1
        else:
            slot = int(np.argmin(self.stamp))
            self.slot[self.owner[slot]] = -1
        self.owner[slot] = -1
        self.values[slot] = row
        self.owner[slot] = point
        self.slot[point] = slot
        self.stamp[slot] = self.clock[0]

    def restrict(self, columns: NDArray[np.intp]) -> None:
        """Keep only the entries in `columns` (points, ascending) of the rows held."""
        if self.columns is None:
            positions = columns
        else:
            positions = np.searchsorted(self.columns, columns)
        held, owners, stamps = self._used, self.owner[: self._used].copy(), self.stamp[: self._used].copy()
        _move_together(self._buffer, held, self.width, positions)
        self._lay_out(columns.shape[0])
        self.columns = columns
        self._used = held
        self.owner[:held] = owners
        self.stamp[:held] = stamps

    def reset(self) -> None:
        """Whole rows again, none held."""
        self.slot[:] = -1
        self.columns = None
        self._lay_out(self.n)


@nb.njit(cache=True)
def _move_together(buffer, rows, width, positions):  # type: ignore[no-untyped-def]
    """Compact ``rows`` rows to the given ascending positions in place (targets never overtake their sources)."""
    narrow = positions.shape[0]
    for r in range(rows):
        for c in range(narrow):
            buffer[r * narrow + c] = buffer[r * width + positions[c]]


class ElementStore:
    """Single kernel values in a direct-mapped table: the element cache of the lecture.

    Two scratch rows are filled on demand with the columns a step needs; each value comes from the table or is
    computed and put there, a value in its place being dropped. Pays where few columns are needed, that is, with
    ``function_cache="free"``; the look-up costs more than an entry of a cheap kernel.
    """

    def __init__(self, compute: RowFunction, n: int, dtype: np.dtype[Any], budget: int) -> None:
        self._compute = compute
        self.n = n
        self.values = np.zeros((2, n), dtype=dtype)
        self.slot = np.full(n, -1, dtype=np.int64)
        self.stamp = np.zeros(2, dtype=np.int64)
        self.clock = np.zeros(1, dtype=np.int64)
        self.counts = np.zeros(2, dtype=np.int64)
        self.columns: NDArray[np.intp] | None = None
        room = (budget - self.values.nbytes) // (8 + np.dtype(dtype).itemsize)
        if room < 2:
            raise ValueError(
                f"cache_size is too small: {budget / 1e6:.3g} MB leaves no room for single elements beside two "
                f"rows; set cache_size to at least {2 * self.values.nbytes / 1e6:.3g}."
            )
        # A power of two makes the slot of a key a mask; no more places than pairs.
        size = 1 << int(np.log2(min(room, n * (n + 1))))
        self._keys = np.full(size, -1, dtype=np.int64)
        self._table = np.empty(size, dtype=dtype)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.values.nbytes + self._keys.nbytes + self._table.nbytes)

    @property
    def width(self) -> int:
        """Length of a scratch row."""
        return self.n

    def load(self, points: NDArray[np.int64], columns: NDArray[np.intp] | None = None) -> None:
        """Fill a scratch row for each of at most two points, at `columns` (all when None)."""
        needed = np.arange(self.n) if columns is None else columns
        self.slot[:] = -1
        for row, point in enumerate(dict.fromkeys(int(p) for p in points)):
            missing = _look_up(self._keys, self._table, point, self.n, needed, self.values[row])
            self.counts[HITS] += needed.size - missing.size
            self.counts[MISSES] += missing.size
            if missing.size:
                self.values[row, missing] = self._compute(point, missing)
                _put(self._keys, self._table, point, self.n, missing, self.values[row])
            self.slot[point] = row

    def restrict(self, columns: NDArray[np.intp]) -> None:
        """Nothing moves: columns are chosen at every load."""

    def reset(self) -> None:
        """Forget which rows the scratch holds; the table stays valid."""
        self.slot[:] = -1


@nb.njit(cache=True)
def _place(point, column, n, size):  # type: ignore[no-untyped-def]
    """Key of the unordered pair and its place: Fibonacci hashing spreads neighbouring keys over the table."""
    key = min(point, column) * n + max(point, column)
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio
    return key, np.int64((mixed >> np.uint64(20)) & np.uint64(size - 1))


@nb.njit(cache=True)
def _look_up(keys, table, point, n, columns, out):  # type: ignore[no-untyped-def]
    missing = np.empty(columns.shape[0], dtype=np.int64)
    count = 0
    for c in columns:
        key, place = _place(point, c, n, keys.shape[0])
        if keys[place] == key:
            out[c] = table[place]
        else:
            missing[count] = c
            count += 1
    return missing[:count]


@nb.njit(cache=True)
def _put(keys, table, point, n, columns, row):  # type: ignore[no-untyped-def]
    for c in columns:
        key, place = _place(point, c, n, keys.shape[0])
        keys[place] = key
        table[place] = row[c]
