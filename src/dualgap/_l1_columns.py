"""Chosen columns of the samples, signed by the labels: ``Z = diag(y) [X_W, 1]``, with what a Newton system needs of it.

Only these columns are copied to float64. They are kept dense, or as CSR rows, by what ``Z' diag(e) Z`` would cost: it
is made anew at every Newton step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

# One scattered addition takes as long as so many multiply-adds of a BLAS product (measured: 15 to 30).
_SCATTER = 20
# Side of the squares a matrix is transposed by: two of them fit into the first-level cache.
_TILE = 32
# A dense copy never takes more than this.
_DENSE_BYTES = 2**31


@dataclass(frozen=True, eq=False)
class DenseColumns:
    """Z as one array, a column after the other."""

    array: NDArray[np.float64]

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and columns, that of the bias included."""
        return self.array.shape[0], self.array.shape[1]

    @property
    def entries(self) -> int:
        """Numbers stored."""
        return int(self.array.size)

    def times(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Z w``."""
        return np.asarray(self.array @ w)

    def back(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Z'a``."""
        return np.asarray(a @ self.array)

    def squares(self, e: NDArray[np.float64]) -> NDArray[np.float64]:
        """The diagonal of ``Z' diag(e) Z``."""
        return np.asarray(np.einsum("ij,ij,i->j", self.array, self.array, e))

    def weighted_gram(self, e: NDArray[np.float64], added_to: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """``Z' diag(e) Z``, e non-negative; or that added to a matrix, which is overwritten, with e of any signs.

        Rows of weight 0 cost nothing where they are many.
        """
        if added_to is not None:
            used = np.flatnonzero(e)
            part = self.array[used]
            added_to += part.T @ (part * e[used, None])
            return added_to
        used = np.flatnonzero(e)
        part = self.array if 2 * used.size > e.size else self.array[used]
        root = np.sqrt(e if part is self.array else e[used])[:, None]
        scaled = part * root
        return np.asarray(scaled.T @ scaled)

    def part(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> sp.csc_array:
        """Some rows of some columns."""
        return sp.csc_array(self.array[np.ix_(rows, columns)])


@dataclass(frozen=True, eq=False)
class SparseColumns:
    """Z as CSR rows."""

    matrix: sp.csr_array

    @property
    def shape(self) -> tuple[int, int]:
        """Samples and columns, that of the bias included."""
        return self.matrix.shape

    @property
    def entries(self) -> int:
        """Numbers stored."""
        return int(self.matrix.nnz)

    def times(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Z w``."""
        return np.asarray(self.matrix @ w)

    def back(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Z'a``."""
        return np.asarray(self.matrix.T @ a)

    def squares(self, e: NDArray[np.float64]) -> NDArray[np.float64]:
        """The diagonal of ``Z' diag(e) Z``."""
        return np.asarray(self.matrix.power(2).T @ e)

    def weighted_gram(self, e: NDArray[np.float64], added_to: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """``Z' diag(e) Z``, or that added to a matrix, which is overwritten."""
        m = self.matrix
        out = np.zeros((m.shape[1], m.shape[1])) if added_to is None else added_to
        _add_outer_products(m.indptr, m.indices, m.data, e, out)
        return out

    def part(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> sp.csc_array:
        """Some rows of some columns."""
        return sp.csc_array(self.matrix[rows][:, columns])


# Indices of a row ascend, so that the sums are those of the lower triangle; the upper is its copy.
@nb.njit(cache=True, nogil=True)
def _add_outer_products(indptr, indices, data, e, out):  # type: ignore[no-untyped-def]
    for i in range(e.size):
        if e[i] != 0.0:
            for s in range(indptr[i], indptr[i + 1]):
                row = out[indices[s]]
                factor = e[i] * data[s]
                for t in range(indptr[i], s + 1):
                    row[indices[t]] += factor * data[t]
    size = out.shape[0]
    for top in range(0, size, _TILE):
        for left in range(0, top + 1, _TILE):
            for j in range(top, min(top + _TILE, size)):
                for k in range(left, min(left + _TILE, j)):
                    out[k, j] = out[j, k]


def signed_columns(
    X: Any, y: NDArray[np.float64], chosen: NDArray[np.intp], bias: bool, sparse: bool = False
) -> DenseColumns | SparseColumns:
    """``diag(y) [X_W, 1]`` in float64, without the 1 where there is no bias; `sparse` where X is, whatever H costs.

    A sparse X is CSC.
    """
    n, k = y.size, chosen.size + bias
    if not sp.issparse(X):
        array = np.empty((n, k), order="F")
        np.multiply(X[:, chosen], y[:, None], out=array[:, : chosen.size])
        if bias:
            array[:, -1] = y
        return DenseColumns(array)
    counts = _row_counts(X.indptr, X.indices, chosen, n, bias)
    scattered = _SCATTER * 0.5 * float(np.dot(counts.astype(np.float64), counts))
    if not sparse and scattered > 0.5 * n * k * k and 8 * n * k <= _DENSE_BYTES:
        return DenseColumns(_dense(X.indptr, X.indices, X.data, chosen, y, bias).T)
    small = counts.sum() <= np.iinfo(np.int32).max
    indptr = np.zeros(n + 1, dtype=np.int32 if small else np.int64)
    np.cumsum(counts, out=indptr[1:])
    columns, entries = _by_rows(X.indptr, X.indices, X.data, chosen, y, bias, indptr)
    return SparseColumns(sp.csr_array((entries, columns, indptr), shape=(n, k)))


@nb.njit(cache=True, nogil=True)
def _row_counts(indptr, indices, chosen, n, bias):  # type: ignore[no-untyped-def]
    """How many entries each row has in the chosen columns."""
    counts = np.full(n, 1 if bias else 0, dtype=np.int64)
    for j in chosen:
        for at in range(indptr[j], indptr[j + 1]):
            counts[indices[at]] += 1
    return counts


@nb.njit(cache=True, nogil=True)
def _dense(indptr, indices, data, chosen, y, bias):  # type: ignore[no-untyped-def]
    """The transpose of the chosen columns, signed."""
    out = np.zeros((chosen.size + bias, y.size))
    for k in range(chosen.size):
        row = out[k]
        for at in range(indptr[chosen[k]], indptr[chosen[k] + 1]):
            i = indices[at]
            row[i] += y[i] * np.float64(data[at])
    if bias:
        out[-1] = y
    return out


@nb.njit(cache=True, nogil=True)
def _by_rows(indptr, indices, data, chosen, y, bias, starts):  # type: ignore[no-untyped-def]
    """The chosen columns, signed, as CSR rows whose indices ascend."""
    free = starts[:-1].copy()
    columns = np.empty(starts[-1], dtype=starts.dtype)
    entries = np.empty(starts[-1])
    for k in range(chosen.size):
        for at in range(indptr[chosen[k]], indptr[chosen[k] + 1]):
            i = indices[at]
            columns[free[i]] = k
            entries[free[i]] = y[i] * np.float64(data[at])
            free[i] += 1
    if bias:
        for i in range(y.size):
            columns[free[i]] = chosen.size
            entries[free[i]] = y[i]
    return columns, entries
