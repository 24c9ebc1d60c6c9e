"""Products with a factor: A (n x d, dense or CSR, float32 or float64) and, where wanted, one more constant column.

Everything a linear method needs of its data, in float64 whatever the data is kept in, on all threads::

    products(p)            A p
    transposed(c, rows)    A[rows]' c
    combined(a, sign, rows)  A[rows]' (sign * a)
    cross(rows, weights)   A[rows]' diag(weights) A[rows]
    inner(rows, columns)   A[rows] A[columns]'

Rows are shared out in parts that do not depend on the number of threads, and partial sums are added in their order:
results are the same bit for bit however many threads there are. The data is read where it lies, never copied as a
whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from dualgap.kernels import level_cross
from dualgap.kernels.cross_tiles import add_cross, padded
from dualgap.kernels.halves import complete
from dualgap.kernels.linear_rows import FUSED, Rows, add_row, dot_row, rows_of
from dualgap.kernels.threads import share_parts, thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Multiplications in a part of the work: some 2 ms, against 50 microseconds to hand one out (more on a busy machine).
_PART = 2_000_000
# Sums of rows are kept once a part: at most this many of them at a time, for they are as long as a row.
_SUMS = 16
# Squares likewise, within these bytes.
_SQUARES, _SQUARE_BYTES = 8, 1 << 27
# Multiplications from which a part of a cross product is worth handing out: a tenth of a millisecond; and for each
# entry of a square those from which it is worth a square of its own, which must be added up.
_WORTH_A_PART, _WORTH_A_SQUARE = 500_000, 8
# Nanoseconds a multiplication takes in a cross product of sparse rows, and in one of BLAS.
SPARSE_COST, DENSE_COST = 1.2, 0.1


class Factor:
    """A matrix of rows, seen through products.

    Parameters
    ----------
    A : ndarray (C order) or CSR matrix, float32 or float64
        The rows.
    constant : float
        Where positive, one more column of this value is meant (a penalised bias).
    n_jobs : int or None
        Threads.
    packed : callable or None
        Makes the same rows for passes over them, maybe blocks of bytes (`level_rows`), of which cross products are
        quicker; called where these would pay.
    """

    def __init__(
        self, A: Any, constant: float = 0.0, n_jobs: int | None = None, packed: Callable[[], Rows] | None = None
    ) -> None:
        self.A, self._packed = A, packed
        self.sparse = sp.issparse(A)
        self.n, self.features = A.shape
        self.constant = float(constant)
        self.d = self.features + (1 if constant > 0.0 else 0)
        self.threads = thread_count(n_jobs)
        self._rows = rows_of(A)
        self.row_length = max(1.0, A.nnz / max(1, self.n)) if self.sparse else float(max(1, self.features))

    def _step(self, count: int) -> int:
        """Rows in a part: enough work, and never more parts than their sums are worth keeping."""
        return max(1, int(_PART / self.row_length), -(-count // (_SUMS * 16)))

    def product_seconds(self) -> float:
        """What a product with the whole matrix takes, roughly: an entry waits for memory, a sparse one for a weight."""
        return 1e-9 * self.n * self.row_length * (1.2 if self.sparse else 0.5) / self.threads

    @cached_property
    def _levels(self) -> Rows | None:
        """The rows as blocks of bytes, where they are levels and cross products of these are the quickest."""
        pays = level_cross.available() and self._own_cross_cost() > level_cross.BYTE_COST * self.features**2
        rows = self._packed() if pays and self._packed is not None else None
        return rows if rows is not None and rows.in_blocks else None

    @property
    def _read(self) -> Rows:
        """The rows that products read: blocks of bytes where there are any, half as long."""
        return self._rows if self._levels is None else self._levels

    def _own_cross_cost(self) -> float:
        """Nanoseconds of the outer product of a row with itself, both halves counted."""
        return self.row_length**2 * (SPARSE_COST if self.sparse else DENSE_COST)

    def cross_cost(self, *, weighted: bool = False) -> float:
        """Nanoseconds that a row takes in a cross product."""
        by_bytes = not weighted and self._levels is not None
        return 0.5 * (level_cross.BYTE_COST * self.features**2 if by_bytes else self._own_cross_cost())

    def products(
        self,
        p: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
        sign: NDArray[np.float64] | None = None,
        out: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float64]:
        """``A[rows] p``, times one `sign` a row where given, written to `out` where given."""
        count = self.n if rows is None else len(rows)
        out = np.empty(count) if out is None else out
        signs = _UNIT if sign is None else sign
        chosen = _ALL if rows is None else rows
        shift = self.constant * float(p[-1]) if self.d > self.features else 0.0
        rows_read = self._read
        weights = np.zeros(rows_read.d)
        weights[: self.features] = p[: self.features]
        arrays = rows_read.arrays

        def part(begin: int, end: int) -> None:
            _products(*arrays, weights, shift, chosen, signs, begin, end, out)

        share_parts(part, count, self._step(count), self.threads)
        return out

    def transposed(self, c: NDArray[np.float64], rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """``A[rows]' c``, with one entry of `c` a row."""
        count = len(rows)
        out = np.zeros(self.d)
        if count == 0:
            return out
        arrays = self._read.arrays
        step = max(self._step(count), -(-count // _SUMS))
        sums = np.zeros((-(-count // step), self._read.d))

        def part(begin: int, end: int) -> None:
            _transposed(*arrays, c, rows, begin, end, sums[begin // step])

        share_parts(part, count, step, self.threads)
        out[: self.features] = sums.sum(axis=0)[: self.features]
        if self.d > self.features:
            out[-1] = self.constant * float(c.sum())
        return out

    def combined(
        self, a: NDArray[np.float64], sign: NDArray[np.float64], rows: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        """``A[rows]' (sign * a)``; rows whose entry of `a` is 0 are not read."""
        count = len(rows)
        out = np.zeros(self.d)
        arrays = self._read.arrays
        step = max(self._step(count), -(-count // _SUMS))
        sums = np.zeros((-(-count // step), self._read.d))
        totals = np.zeros(len(sums))

        def part(begin: int, end: int) -> None:
            number = begin // step
            totals[number] = _combined(*arrays, a, sign, rows, begin, end, sums[number])

        share_parts(part, count, step, self.threads)
        out[: self.features] = sums.sum(axis=0)[: self.features]
        if self.d > self.features:
            out[-1] = self.constant * float(totals.sum())
        return out

    def cross(self, rows: NDArray[np.intp], weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """``A[rows]' diag(weights) A[rows]`` for non-negative weights (ones where None), symmetric."""
        d, f = self.d, self.features
        if weights is None and self._levels is not None:
            square = np.empty((f, f))
            level_cross.level_cross(self._levels, rows, self.threads, square)
        else:
            square = self._own_cross(rows, weights)
        if d == f:
            return square
        each = np.ones(len(rows)) if weights is None else weights
        out = np.empty((d, d))
        out[:f, :f] = square
        out[:f, f] = out[f, :f] = self.constant * self.transposed(each, rows)[:f]
        out[f, f] = self.constant**2 * float(each.sum())
        return out

    def _own_cross(self, rows: NDArray[np.intp], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """The same for the features alone, from the rows as they are."""
        f = self.features
        # Every part has a square of its own: as many as fit, few enough to be long, and worth adding up.
        parts = min(_SQUARES, max(1, _SQUARE_BYTES // (8 * f * f)))
        worth = int(max(_WORTH_A_PART, _WORTH_A_SQUARE * f * f) / self.row_length**2)
        step = max(64, worth, -(-len(rows) // parts))
        tiled = not self.sparse and f <= _TILED
        side = padded(f) if tiled else f
        squares = np.zeros((max(1, -(-len(rows) // step)), side, side))
        work = self._sparse_part if self.sparse else self._tiled_part if tiled else self._dense_part

        def part(begin: int, end: int) -> None:
            work(rows, weights, begin, end, squares[begin // step])

        share_parts(part, len(rows), step, self.threads)
        square = squares.sum(axis=0) if len(squares) > 1 else squares[0]
        square = square[:f, :f]
        if self.sparse or tiled:
            complete(square, 1.0)
        return square

    def _sparse_part(self, rows: Any, weights: Any, begin: int, end: int, square: NDArray[np.float64]) -> None:
        A = self.A
        _sparse_cross(A.data, A.indices, A.indptr, _UNIT if weights is None else weights, rows, begin, end, square)

    def _tiled_part(self, rows: Any, weights: Any, begin: int, end: int, square: NDArray[np.float64]) -> None:
        unit = _UNIT if weights is None else weights
        add_cross(self._rows.values, self.features, rows, unit, begin, end, square.reshape(-1))

    def _dense_part(self, rows: Any, weights: Any, begin: int, end: int, square: NDArray[np.float64]) -> None:
        roots = _UNIT if weights is None else np.sqrt(weights[begin:end])
        scaled = np.empty((min(_TALL, end - begin), self.features))
        for start in range(begin, end, _TALL):
            stop = min(end, start + _TALL)
            block = scaled[: stop - start]
            _scaled_rows(self._rows.values, rows[start:stop], roots[start - begin : stop - begin], block)
            square += block.T @ block

    def inner(self, rows: NDArray[np.intp], columns: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``A[rows] A[columns]'`` as a dense matrix; `columns` are the rows themselves where None."""
        one = self.A[rows].astype(np.float64)
        two = one if columns is None else self.A[columns].astype(np.float64)
        product = one @ two.T
        square = np.asarray(product.todense() if self.sparse else product)
        square += self.constant**2
        return square

    def squared_norms(self) -> NDArray[np.float64]:
        """The squared length of every row."""
        out = np.empty(self.n)
        A = self.A

        def part(begin: int, end: int) -> None:
            if self.sparse:
                _sparse_norms(A.data, A.indptr, begin, end, out)
            else:
                _dense_norms(A, begin, end, out)

        share_parts(part, self.n, self._step(self.n), self.threads)
        return out + self.constant**2


# Features up to which cross products of dense rows are made by our own tiles; beyond them BLAS is quicker.
_TILED = 64
_ALL = np.zeros(0, dtype=np.intp)  # stands for "all rows" in compiled code
_UNIT = np.zeros(0)  # and this for signs or weights that are all 1
# Rows whose scaled copies are multiplied at a time: they stay in cache, and are enough for BLAS to be at its speed.
_TALL = 1024
# Sums may be taken in any order within a row: that is what lets the compiler use vector instructions.
_ANY_ORDER = {"reassoc", "contract", "nsz"}


@nb.njit(cache=True, nogil=True, fastmath=FUSED)
def _products(indptr, indices, values, p, shift, rows, signs, begin, end, out):  # type: ignore[no-untyped-def]
    for r in range(begin, end):
        i = rows[r] if rows.size else r
        value = dot_row(indptr, indices, values, i, p) + shift
        out[r] = signs[r] * value if signs.size else value


@nb.njit(cache=True, nogil=True, fastmath=FUSED)
def _transposed(indptr, indices, values, c, rows, begin, end, out):  # type: ignore[no-untyped-def]
    for r in range(begin, end):
        add_row(indptr, indices, values, rows[r], c[r], out)


@nb.njit(cache=True, nogil=True, fastmath=FUSED)
def _combined(indptr, indices, values, a, sign, rows, begin, end, out):  # type: ignore[no-untyped-def]
    total = 0.0
    for r in range(begin, end):
        if a[r] != 0.0:
            add_row(indptr, indices, values, rows[r], sign[r] * a[r], out)
            total += sign[r] * a[r]
    return total


@nb.njit(cache=True, nogil=True)
def _scaled_rows(values, rows, roots, out):  # type: ignore[no-untyped-def]
    d = out.shape[1]
    for r in range(rows.size):
        first = rows[r] * d
        root = roots[r] if roots.size else 1.0
        for j in range(d):
            out[r, j] = root * np.float64(values[first + j])


@nb.njit(cache=True, nogil=True)
def _sparse_cross(data, indices, indptr, weights, rows, begin, end, square):  # type: ignore[no-untyped-def]
    """Lower triangle of the sum of outer products (the indices of a row are sorted)."""
    flat, d = square.reshape(-1), np.uint64(square.shape[1])
    one = np.uint64(1)
    for r in range(begin, end):
        i = rows[r]
        first, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        weight = weights[r] if weights.size else 1.0
        for q in range(first, last):
            factor = weight * data[q]
            line = np.uint64(indices[q]) * d  # unsigned positions spare the test for negative ones
            for o in range(first, q + one):
                flat[line + np.uint64(indices[o])] += factor * data[o]


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _dense_norms(A, begin, end, out):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        total = 0.0
        for j in range(A.shape[1]):
            total += np.float64(A[i, j]) * A[i, j]
        out[i] = total


@nb.njit(cache=True, nogil=True, fastmath=_ANY_ORDER)
def _sparse_norms(data, indptr, begin, end, out):  # type: ignore[no-untyped-def]
    """Four sums and no more: LLVM would take 32 entries at a time, and most of a short row would be left over."""
    one, two, three, four = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)
    for i in range(begin, end):
        q, last = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        first = second = third = fourth = 0.0
        while q + three < last:
            first += np.float64(data[q]) * data[q]
            second += np.float64(data[q + one]) * data[q + one]
            third += np.float64(data[q + two]) * data[q + two]
            fourth += np.float64(data[q + three]) * data[q + three]
            q += four
        while q < last:
            first += np.float64(data[q]) * data[q]
            q += one
        out[i] = (first + second) + (third + fourth)
