"""Rows that are not in memory: a matrix in pieces, of which some are read at a time.

A piece is a run of consecutive rows. A batch is a few pieces that fit into memory together; batches are put together
anew from pieces all over the data in every round, so that data sorted by class is no hindrance. What is read is copied
into memory of its own, in the precision it has; nothing else of the data stays in memory, the pages of a memory map
included.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Pieces in a batch: enough to mix, few enough for each of them to be read in one go.
PIECES = 8
# Bytes that a solver keeps for a row of the batch beside the row itself (a problem over the batch, an item of
# coordinate descent, margins and gradients), roughly.
ROW_STATE = 300
# The usual budget in megabytes.
MEMORY = 200.0
# A piece has one row at least.
_LEAST_MEMORY = 1.0


class RowBlocks:
    """Samples in pieces, with their labels; what `LinearSVC` and `LinearSVR` take in place of a matrix.

    Made by `stream_rows` from an array or a memory map, by `dualgap.datasets.stream_libsvm` from a file, and by
    `dualgap.datasets.stream_blocks` from matrices that come one after the other.

    Parameters
    ----------
    bounds : ndarray of int64
        First row of every piece, and the number of rows.
    n_features : int
        Columns.
    dtype : dtype
        Of the values, float32 or float64.
    entries : ndarray of int64
        Values that each piece has.
    y : ndarray or None
        Labels.
    memory : float
        Megabytes that a batch may take, what a solver keeps for its rows included.

    Attributes
    ----------
    shape : tuple
        Samples and features.
    """

    sparse = False

    def __init__(
        self,
        bounds: NDArray[np.int64],
        n_features: int,
        dtype: Any,
        entries: NDArray[np.int64],
        y: NDArray[Any] | None,
        memory: float = MEMORY,
    ) -> None:
        self.bounds, self.dtype, self.entries, self.y = bounds, np.dtype(dtype), entries, y
        self.shape = (int(bounds[-1]), int(n_features))
        self.memory = memory

    def __len__(self) -> int:
        """Number of pieces."""
        return self.bounds.size - 1

    def __repr__(self) -> str:
        kind = "CSR" if self.sparse else "dense"
        return f"<RowBlocks of shape {self.shape}, {kind} {self.dtype}, {len(self)} pieces, {self.memory:g} MB a batch>"

    def batches(self, order: Sequence[int] | None = None) -> Iterator[tuple[NDArray[np.int64], Any]]:
        """Every row once: the pieces of each batch, and its matrix, in this order of pieces (their own when None)."""
        for pieces in self.grouped(np.arange(len(self)) if order is None else np.asarray(order)):
            yield pieces, self.load(pieces)

    def grouped(self, order: NDArray[Any]) -> list[NDArray[np.int64]]:
        """Pieces in this order, cut into batches within the budget (one piece at least)."""
        sizes = ROW_STATE * np.diff(self.bounds)[order] + self.bytes_an_entry * self.entries[order]
        groups: list[list[int]] = [[]]
        total = 0.0
        for piece, size in zip(order, sizes, strict=True):
            if groups[-1] and total + size > 1e6 * self.memory:
                groups.append([])
                total = 0.0
            groups[-1].append(int(piece))
            total += float(size)
        return [np.sort(np.array(group, dtype=np.int64)) for group in groups]

    @property
    def bytes_an_entry(self) -> int:
        """Bytes that a value takes in memory, its column included."""
        return self.dtype.itemsize + (4 if self.sparse else 0)

    def rows(self, pieces: NDArray[np.int64]) -> NDArray[np.int64]:
        """Numbers of the rows of a batch."""
        return np.concatenate([np.arange(self.bounds[p], self.bounds[p + 1]) for p in pieces])

    def load(self, pieces: NDArray[np.int64]) -> Any:
        """The rows of some pieces, one after the other, as a matrix in memory."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what the pieces are kept in, where that is ours."""

    def __enter__(self) -> RowBlocks:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class DenseRows(RowBlocks):
    """Pieces of a dense array, which may be a memory map."""

    def __init__(self, X: NDArray[Any], y: NDArray[Any] | None, memory: float) -> None:
        n, d = X.shape
        step = rows_in_a_piece(memory, d * X.dtype.itemsize, n)
        bounds = np.append(np.arange(0, n, step), n).astype(np.int64)
        super().__init__(bounds, d, X.dtype, d * np.diff(bounds), y, memory)
        self.X = X

    def load(self, pieces: NDArray[np.int64]) -> NDArray[Any]:
        """Copies of the rows."""
        rows = np.empty((int(np.diff(self.bounds)[pieces].sum()), self.shape[1]), dtype=self.dtype)
        at = 0
        for piece in pieces:
            part = self.X[self.bounds[piece] : self.bounds[piece + 1]]
            rows[at : at + part.shape[0]] = part
            at += part.shape[0]
            _forget_pages(self.X)
        return rows


class SparseRows(RowBlocks):
    """Pieces of a CSR matrix, whose arrays may be memory maps."""

    sparse = True

    def __init__(self, X: Any, y: NDArray[Any] | None, memory: float) -> None:
        n, d = X.shape
        step = rows_in_a_piece(memory, (X.dtype.itemsize + 4) * X.nnz / max(1, n), n)
        bounds = np.append(np.arange(0, n, step), n).astype(np.int64)
        super().__init__(bounds, d, X.dtype, np.diff(np.asarray(X.indptr)[bounds]).astype(np.int64), y, memory)
        self.X = X

    def load(self, pieces: NDArray[np.int64]) -> Any:
        """Copies of the rows."""
        total = int(self.entries[pieces].sum())
        values, indices = np.empty(total, self.dtype), np.empty(total, self.X.indices.dtype)
        lengths = []
        at = 0
        for piece in pieces:
            first, last = self.bounds[piece], self.bounds[piece + 1]
            span = slice(int(self.X.indptr[first]), int(self.X.indptr[last]))
            count = span.stop - span.start
            values[at : at + count], indices[at : at + count] = self.X.data[span], self.X.indices[span]
            lengths.append(np.diff(self.X.indptr[first : last + 1]))
            at += count
            _forget_pages(self.X.data)
            _forget_pages(self.X.indices)
        return csr_rows(np.concatenate(lengths), indices, values, self.shape[1])


def stream_rows(X: Any, y: ArrayLike | None = None, *, memory: float = MEMORY) -> RowBlocks:
    """An array, memory map or CSR matrix of samples, to be trained on some rows at a time.

    Parameters
    ----------
    X : ndarray, memmap or CSR matrix, float32 or float64
        Samples, one a row; never copied or upcast as a whole.
    y : array-like, optional
        Labels; may be given to ``fit`` as well.
    memory : float
        Megabytes for the rows that are in memory at a time, with what a solver keeps for them.

    Returns
    -------
    RowBlocks

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap import LinearSVC, stream_rows
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 20)).astype(np.float32)
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> model = LinearSVC().fit(stream_rows(X, y, memory=1))
    >>> bool(model.certificate_.relative_gap <= 1e-4)
    True
    """
    check_memory(memory)
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise ValueError(f"X must have rows and columns; its shape is {X.shape}.")
    if X.dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"X must be float32 or float64; it is {X.dtype}, and converting it here would copy all of it.")
    labels = None if y is None else np.asarray(y)
    if labels is not None and labels.shape != (X.shape[0],):
        raise ValueError(f"y must have one label a row: shape ({X.shape[0]},); it is {labels.shape}.")
    if not sp.issparse(X):
        return DenseRows(X, labels, memory)
    if X.format != "csr":
        raise ValueError(f"a sparse X must be CSR; it is {X.format.upper()}.")
    return SparseRows(X, labels, memory)


def check_memory(memory: float) -> None:
    """Raise where a budget holds nothing."""
    if not memory >= _LEAST_MEMORY:
        raise ValueError(f"memory must be at least {_LEAST_MEMORY:g} (megabytes); got {memory!r}.")


def rows_in_a_piece(memory: float, row_bytes: float, n: int) -> int:
    """Rows of a piece, for `PIECES` of them in a batch."""
    return max(1, min(n, int(1e6 * memory / PIECES / (row_bytes + ROW_STATE))))


def csr_rows(lengths: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], d: int) -> Any:
    """A CSR matrix of rows so long, whose indices grow."""
    indptr = np.zeros(lengths.size + 1, dtype=np.int32 if values.size < 2**31 else np.int64)
    np.cumsum(lengths, out=indptr[1:])
    matrix = sp.csr_matrix((values, indices.astype(indptr.dtype, copy=False), indptr), shape=(lengths.size, d))
    matrix.has_canonical_format = True
    return matrix


def _forget_pages(array: Any) -> None:
    """Let go of the pages of a memory map: they have been copied, and would count as this process's memory."""
    mapped = getattr(array, "_mmap", None)
    # Pages of a copy-on-write map hold changes that are nowhere else.
    if isinstance(mapped, mmap.mmap) and array.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
