"""Rows of a factor A (K = AA') for compiled code: products with one row, and with all of them, without a copy of A.

A factor is dense (C order) or CSR, float32 or float64, with int32 or int64 indices. Compiled functions take its three
arrays ``indptr, indices, values``; of a dense factor the first two are empty and the values are all of it, row after
row, so that the same compiled code serves both. Sums are float64 whatever the values are, and a CSR factor is read at 8
bytes a nonzero where the user gave float32 and int32. Rows of grey levels and the like may be made of blocks of bytes
instead (`level_rows`), whose arrays have the same three names, and text has shorter numbers (`compact_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from dualgap.kernels.block_rows import BLOCK, block_add, block_dot, in_blocks
from dualgap.kernels.dense_rows import dense_add, dense_dot
from dualgap.kernels.prefetch import in_a_line, prefetch
from dualgap.kernels.threads import share

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A product and a sum may be rounded once. Sums must not be reordered: LLVM then gathers the weights of a CSR row in
# vectors, and a gather waits until what was just added to these weights has left for the cache (twice as long on a9a).
FUSED = {"contract", "nsz"}
# Entries of A a compiled call may read before Python is asked again: some 50 milliseconds.
CHUNK = 50_000_000
# Entries of a row that are asked for ahead; further on the processor goes by itself. Nothing beyond the end of a short
# row: a processor can wait for some sixteen lines at a time, and four more made rows of a9a half as slow again.
_AHEAD = 64
# The same of CSR rows in lines of 64 bytes, a fixed number of each: the end of a loop over a row's own lines cannot be
# foretold and costs 15 ns a row. The last line is asked for again where a row has fewer, which is free.
_LINES_OF_COLUMNS, _LINES_OF_VALUES = 4, 8
# What a block of eight bytes costs, in nonzeros of a CSR row.
_BLOCK_COST = 2
# Entries from which a product is worth sharing among threads: a tenth of a millisecond.
_WORTH_THREADS = 200_000


@dataclass(frozen=True)
class Rows:
    """The arrays of a factor.

    Attributes
    ----------
    indptr, indices : ndarray of int32 or int64, columns perhaps uint16
        Of a CSR matrix, or of one of blocks (see `block_rows`); empty for a dense one.
    values : ndarray of float32 or float64, uint8 for blocks
        The nonzeros, or the dense matrix as one vector.
    n, d : int
        Its shape, the columns of blocks rounded up to whole ones.
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    values: NDArray[Any]
    n: int
    d: int

    @property
    def arrays(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """What compiled functions take."""
        return self.indptr, self.indices, self.values

    @property
    def entries(self) -> int:
        """Entries that a product with A reads, or what blocks cost in such."""
        return int(_BLOCK_COST * self.indices.size if self.in_blocks else self.values.size)

    @property
    def in_blocks(self) -> bool:
        """Whether rows are made of blocks."""
        return bool(self.values.dtype == np.uint8)

    def lengths(self, points: NDArray[np.intp]) -> NDArray[np.int64]:
        """Entries of the rows of `points`."""
        if self.indptr.size == 0:
            return np.full(points.shape[0], self.d, dtype=np.int64)
        lengths = (self.indptr[points + 1] - self.indptr[points]).astype(np.int64)
        return _BLOCK_COST * lengths if self.in_blocks else lengths


def rows_of(factor: Any) -> Rows:
    """The rows of a factor; nothing is copied but a dense matrix whose rows do not lie in one piece."""
    n, d = factor.shape
    if not sp.issparse(factor):
        none = np.empty(0, dtype=np.int32)
        return Rows(none, none, np.ascontiguousarray(factor).reshape(-1), int(n), int(d))
    if factor.format != "csr":
        raise ValueError(f"a sparse factor must be CSR; got {factor.format.upper()}.")
    return Rows(factor.indptr, factor.indices, factor.data, int(n), int(d))


def combination(rows: Rows, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """``A' coefficients``; rows with coefficient 0 are not read."""
    w = np.zeros(rows.d)
    for begin, end in _chunks(rows):
        _add_rows(*rows.arrays, coefficients, begin, end, w)
    return w


def margins(rows: Rows, w: NDArray[np.float64], threads: int = 1) -> NDArray[np.float64]:
    """``A w``, shared among threads where that is worth it; every product is the same whoever makes it."""
    out = np.empty(rows.n)
    if threads <= 1 or rows.entries < _WORTH_THREADS:
        for begin, end in _chunks(rows):
            _dot_rows(*rows.arrays, w, begin, end, out)
        return out
    pieces = max(threads, -(-rows.entries // CHUNK))
    bounds = [rows.n * piece // pieces for piece in range(pieces + 1)]
    share(lambda p: _dot_rows(*rows.arrays, w, bounds[p], bounds[p + 1], out), pieces, threads)
    return out


def _chunks(rows: Rows) -> Iterator[tuple[int, int]]:
    pieces = max(1, -(-rows.entries // CHUNK))
    for piece in range(pieces):
        yield rows.n * piece // pieces, rows.n * (piece + 1) // pieces


@nb.njit(cache=True, nogil=True, inline="always")
def dot_row(indptr, indices, values, i, w):  # type: ignore[no-untyped-def]
    """``A[i] @ w``, for compiled code that must not let sums be reordered (see `FUSED`).

    Four sums, because a single one waits four cycles for every entry. Unsigned positions spare the test for negative
    ones.
    """
    if in_blocks(values):
        return block_dot(indices, values, np.int64(indptr[i]), np.int64(indptr[i + 1]), w)
    if indptr.size == 0:
        return dense_dot(values, i * w.size, w)
    k, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
    first = second = third = fourth = 0.0
    while k + np.uint64(3) < end:
        first += np.float64(values[k]) * w[np.uint64(indices[k])]
        second += np.float64(values[k + np.uint64(1)]) * w[np.uint64(indices[k + np.uint64(1)])]
        third += np.float64(values[k + np.uint64(2)]) * w[np.uint64(indices[k + np.uint64(2)])]
        fourth += np.float64(values[k + np.uint64(3)]) * w[np.uint64(indices[k + np.uint64(3)])]
        k += np.uint64(4)
    while k < end:
        first += np.float64(values[k]) * w[np.uint64(indices[k])]
        k += np.uint64(1)
    return (first + second) + (third + fourth)


@nb.njit(cache=True, nogil=True, inline="always")
def add_row(indptr, indices, values, i, scale, w):  # type: ignore[no-untyped-def]
    """``w += scale * A[i]``, for compiled code."""
    if in_blocks(values):
        block_add(indices, values, np.int64(indptr[i]), np.int64(indptr[i + 1]), scale, w)
    elif indptr.size == 0:
        dense_add(values, i * w.size, scale, w)
    else:
        k, end = np.uint64(indptr[i]), np.uint64(indptr[i + 1])
        # Four at a time, all columns and values read before the first weight is written: LLVM, which cannot know that
        # these lie elsewhere, would read each after the write before it.
        while k + np.uint64(3) < end:
            first, second = np.uint64(indices[k]), np.uint64(indices[k + np.uint64(1)])
            third, fourth = np.uint64(indices[k + np.uint64(2)]), np.uint64(indices[k + np.uint64(3)])
            one, two = np.float64(values[k]), np.float64(values[k + np.uint64(1)])
            three, four = np.float64(values[k + np.uint64(2)]), np.float64(values[k + np.uint64(3)])
            w[first] += scale * one
            w[second] += scale * two
            w[third] += scale * three
            w[fourth] += scale * four
            k += np.uint64(4)
        while k < end:
            w[np.uint64(indices[k])] += scale * np.float64(values[k])
            k += np.uint64(1)


@nb.njit(cache=True, nogil=True, inline="always")
def fetch_row(indptr, indices, values, i, d):  # type: ignore[no-untyped-def]
    """Begin to load row i, every line of its first entries."""
    if in_blocks(values):
        first = np.int64(indptr[i])
        end = min(np.int64(indptr[i + 1]), first + _AHEAD)
        for k in range(first, end, 32):
            prefetch(indices, k)
        prefetch(indices, end - 1)
        for k in range(first, end, 8):
            prefetch(values, BLOCK * k)
        prefetch(values, BLOCK * end - 1)
    elif indptr.size == 0:
        first = i * d
        end = first + min(d, _AHEAD)
        for k in range(first, end, 8):
            prefetch(values, k)
        prefetch(values, end - 1)
    else:
        first, last = np.int64(indptr[i]), np.int64(indptr[i + 1]) - 1
        for line in range(_LINES_OF_COLUMNS):
            prefetch(indices, min(first + line * in_a_line(indices), last))
        for line in range(_LINES_OF_VALUES):
            prefetch(values, min(first + line * in_a_line(values), last))


@nb.njit(cache=True, nogil=True, fastmath=FUSED)
def _dot_rows(indptr, indices, values, w, begin, end, out):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        out[i] = dot_row(indptr, indices, values, i, w)


@nb.njit(cache=True, nogil=True, fastmath=FUSED)
def _add_rows(indptr, indices, values, coefficients, begin, end, w):  # type: ignore[no-untyped-def]
    for i in range(begin, end):
        if coefficients[i] != 0.0:
            add_row(indptr, indices, values, i, coefficients[i], w)
