"""Inner products and distances between two sets of rows, dense or CSR, in the rows' own dtype."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Reassociation lets LLVM vectorise the sums over features; NaN and inf never reach here (input is validated).
_SUMS = {"reassoc", "contract", "nnan", "ninf", "nsz", "arcp"}

# Entries of a sparse matrix made dense at a time: 32 MB of float64, whatever the width of the data.
_DENSE_ENTRIES = 4_000_000


def products(rows: Any, columns: Any) -> NDArray[Any]:
    """``rows @ columns.T`` as a fresh dense, C-contiguous block."""
    if sp.issparse(rows) and sp.issparse(columns):
        # One side is made dense, a few rows at a time: a sparse times dense product costs nnz(one) * n(other),
        # where sparse times sparse pays for sorting as well.
        out = np.empty((rows.shape[0], columns.shape[0]), dtype=np.result_type(rows.dtype, columns.dtype))
        step = max(1, _DENSE_ENTRIES // max(1, rows.shape[1]))
        for start in range(0, rows.shape[0], step):
            out[start : start + step] = (columns @ rows[start : start + step].toarray().T).T
        return out
    if sp.issparse(rows):
        return np.ascontiguousarray(rows @ columns.T)
    if sp.issparse(columns):
        return np.ascontiguousarray((columns @ rows.T).T)
    return rows @ columns.T


def manhattan(rows: Any, columns: Any) -> NDArray[Any]:
    """``sum_k |x_k - z_k|`` for every pair."""
    return _pairs(rows, columns, _manhattan_dense, _manhattan_sparse)


def chi_squared(rows: Any, columns: Any) -> NDArray[Any]:
    """``sum_k (x_k - z_k)^2 / (x_k + z_k)`` for every pair of non-negative rows (0/0 counts as 0)."""
    return _pairs(rows, columns, _chi_squared_dense, _chi_squared_sparse)


def _pairs(rows: Any, columns: Any, dense: Any, sparse: Any) -> NDArray[Any]:
    dtype = np.result_type(rows.dtype, columns.dtype)
    out = np.empty((rows.shape[0], columns.shape[0]), dtype=dtype)
    if not sp.issparse(columns):
        dense(_dense(rows, dtype), _dense(columns, dtype), out)
        return out
    # One row at a time is made dense, so that a wide sparse matrix never is.
    for i in range(rows.shape[0]):
        row = _dense(rows[i : i + 1], dtype)[0]
        sparse(row, columns.data.astype(dtype, copy=False), columns.indices, columns.indptr, out[i])
    return out


def _dense(matrix: Any, dtype: Any) -> NDArray[Any]:
    return np.ascontiguousarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=dtype)


@nb.njit(cache=True, fastmath=_SUMS, nogil=True)
def _manhattan_dense(rows, columns, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        x = rows[i]
        for j in range(columns.shape[0]):
            z = columns[j]
            total = x[0] * 0
            for k in range(x.shape[0]):
                total += abs(x[k] - z[k])
            out[i, j] = total


@nb.njit(cache=True, fastmath=_SUMS, nogil=True)
def _chi_squared_dense(rows, columns, out):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        x = rows[i]
        for j in range(columns.shape[0]):
            z = columns[j]
            total = x[0] * 0
            for k in range(x.shape[0]):
                both = x[k] + z[k]
                apart = x[k] - z[k]
                # The select keeps the loop free of branches; the divisor is only 0 where the numerator is.
                total += apart * apart / (both if both > 0 else x[0] * 0 + 1)
            out[i, j] = total


# With z sparse:  sum_k |x_k - z_k|  =  sum_k |x_k|  +  sum over z_k != 0 of (|x_k - z_k| - |x_k|),
# so a row costs the nonzeros of the other side, not its width; likewise for chi-squared, where a missing z_k
# leaves x_k^2 / x_k = x_k.


@nb.njit(cache=True, fastmath=_SUMS, nogil=True)
def _manhattan_sparse(x, data, indices, indptr, out):  # type: ignore[no-untyped-def]
    alone = 0.0
    for k in range(x.shape[0]):
        alone += abs(x[k])
    for j in range(out.shape[0]):
        total = alone
        for p in range(indptr[j], indptr[j + 1]):
            own = x[indices[p]]
            total += abs(own - data[p]) - abs(own)
        out[j] = total


@nb.njit(cache=True, fastmath=_SUMS, nogil=True)
def _chi_squared_sparse(x, data, indices, indptr, out):  # type: ignore[no-untyped-def]
    alone = 0.0
    for k in range(x.shape[0]):
        alone += x[k]
    for j in range(out.shape[0]):
        total = alone
        for p in range(indptr[j], indptr[j + 1]):
            own, other = x[indices[p]], data[p]
            both = own + other
            if both > 0:
                total += (own - other) * (own - other) / both - own
        out[j] = total
