"""Data that are whole multiples of one step: ``x = low + k step`` with k from 0 to 255, found out and checked.

A few rows tell whether it is worth looking (most data have more than 256 different values in them) and what the step
would be; one pass over all rows then checks every value and adds up ``|k|^2`` on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from dualgap.kernels._matrix_unit_packing import LEVEL_FEATURES
from dualgap.kernels.matrix_unit import LEVEL_ERROR
from dualgap.kernels.threads import share_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The largest level: a byte.
_MOST = 255
# Values looked at before all are: sorting them takes a millisecond or two.
_SAMPLED = 20_000
# Rows checked by a thread at a time.
_ROWS = 512


@dataclass(frozen=True)
class Levels:
    """``x = low + k step``.

    Attributes
    ----------
    low, step : float
        The numbers in it.
    norms : ndarray of int32
        ``|k|^2`` of the rows.
    error : float
        The most that a row is off, as a share of its norm.
    bytes : ndarray of uint8, shape (n, features rounded up to whole steps)
        The k themselves, where they are kept; else without rows.
    """

    low: float
    step: float
    norms: NDArray[np.int32]
    error: float
    bytes: NDArray[np.uint8]


def find_levels(X: Any, *, shifted: bool, threads: int, budget: int = 0) -> Levels | None:
    """The levels of a dense or CSR matrix; None where there are none.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The data.
    shifted : bool
        Whether `low` may be other than 0: distances do not feel it, products do (and CSR matrices have zeros).
    threads : int
        Threads for the pass over all data.
    budget : int
        Bytes that the levels may take; they are not kept where they take more.
    """
    sparse = sp.issparse(X)
    shifted = shifted and not sparse
    seen = np.unique(_sample(X).astype(np.float64))
    if seen.size == 0 or seen.size > _MOST + 1 or not np.all(np.isfinite(seen)):
        return None
    low = float(X.min()) if shifted else 0.0
    if not np.isfinite(low) or seen[0] < low:
        return None
    step = common_step(seen - low)
    if step is None:
        return None
    norms = np.zeros(X.shape[0], dtype=np.int32)
    width = -(-X.shape[1] // LEVEL_FEATURES) * LEVEL_FEATURES
    kept = np.zeros((X.shape[0] if X.shape[0] * width <= budget else 0, width), dtype=np.uint8)
    errors = np.zeros(-(-X.shape[0] // _ROWS))

    def check(begin: int, end: int) -> None:
        # Once one part has failed the others need not be looked at.
        if np.all(errors <= LEVEL_ERROR):
            errors[begin // _ROWS] = (
                _check_sparse(X.data, X.indices, X.indptr, step, begin, end, norms, kept) if sparse
                else _check_dense(X, low, step, begin, end, norms, kept)
            )  # fmt: skip

    share_parts(check, X.shape[0], _ROWS, threads)
    error = float(errors.max(initial=0.0))
    return Levels(low, step, norms, error, kept) if error <= LEVEL_ERROR else None


def _sample(X: Any) -> NDArray[Any]:
    """Values of rows here and there."""
    if sp.issparse(X):
        return np.asarray(X.data[:: max(1, X.nnz // _SAMPLED)])
    rows = max(1, _SAMPLED // X.shape[1])
    return np.asarray(X[:: max(1, X.shape[0] // rows)]).reshape(-1)


def common_step(values: NDArray[np.float64]) -> float | None:
    """The largest step that all values are whole multiples of, nearly; None if more than 255 make the largest one.

    Euclid's algorithm on rounded numbers: what is left over from a division is taken for zero below a quarter of the
    least step that would do. Whether the values really are multiples is for the pass over all data to say.
    """
    largest = float(values.max())
    if not largest > 0.0 or not np.isfinite(largest):
        return None
    nothing = largest / _MOST / 4.0
    step = largest
    for value in values:
        other = float(value)
        while other > nothing:
            step, other = other, abs(step - round(step / other) * other)
    count = round(largest / step)
    return largest / count if count <= _MOST else None


@nb.njit(cache=True, nogil=True)
def _off(value, step, most):  # type: ignore[no-untyped-def]
    """The level of a value and by how much it is off; -1 where there is none."""
    level = np.floor(value / step + 0.5)
    if not (level >= 0.0 and level <= most):
        return -1.0, 0.0
    return level, value - level * step


@nb.njit(cache=True, nogil=True)
def _check_dense(X, low, step, begin, end, norms, kept):  # type: ignore[no-untyped-def]
    """How far rows `begin` to `end` are off their levels, infinity where there are none.

    ``|k|^2`` goes to `norms`, and k to `kept` where that has room.
    """
    worst = 0.0
    for i in range(begin, end):
        total = off = 0.0
        for k in range(X.shape[1]):
            level, apart = _off(np.float64(X[i, k]) - low, step, _MOST)
            if level < 0.0:
                return np.inf
            if kept.shape[0] > 0:
                kept[i, k] = np.uint8(level)
            total += level * level
            off += apart * apart
        if off > 0.0:
            worst = max(worst, np.inf if total == 0.0 else np.sqrt(off / total) / step)
        norms[i] = total
    return worst


@nb.njit(cache=True, nogil=True)
def _check_sparse(data, indices, indptr, step, begin, end, norms, kept):  # type: ignore[no-untyped-def]
    """As `_check_dense`, for rows of a CSR matrix."""
    worst = 0.0
    for i in range(begin, end):
        total = off = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            level, apart = _off(np.float64(data[p]), step, _MOST)
            if level < 0.0:
                return np.inf
            if kept.shape[0] > 0:
                kept[i, indices[p]] = np.uint8(level)
            total += level * level
            off += apart * apart
        if off > 0.0:
            worst = max(worst, np.inf if total == 0.0 else np.sqrt(off / total) / step)
        norms[i] = total
    return worst
