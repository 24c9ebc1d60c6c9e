"""Data points prepared for a kernel: the rows, their squared norms, and a centre to measure from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.functions import Kernel

# Rows handled at a time where a float64 copy is needed: 1024 rows of 1000 features are 8 MB.
_ROWS = 1024


@dataclass(frozen=True)
class _Ready:
    """What `Points` are made of beside the user's rows."""

    data: Any
    norms: NDArray[np.float64]
    centre: NDArray[np.float64] | None


class Points:
    """Rows ready for `functions.tile`.

    Parameters
    ----------
    original : ndarray or CSR matrix
        The user's rows.
    ready : _Ready or callable
        The attributes below, or what makes them when one is first asked for: solvers whose entries are made of tiles
        (`kernels.fused`) never ask, and it takes passes over all data.

    Attributes
    ----------
    data : ndarray or CSR matrix
        The rows the formulas multiply: the user's own, or a centred copy where the squared distance of an
        RBF kernel would otherwise be lost to cancellation. Never upcast as a whole.
    norms : ndarray of float64
        Squared norms of `data`'s rows before rounding to their dtype (empty for callables).
    centre : ndarray of float64 or None
        What was subtracted.
    """

    def __init__(self, original: Any, ready: _Ready | Callable[[], _Ready]) -> None:
        self.original = original
        self._make = ready

    @cached_property
    def _ready(self) -> _Ready:
        return self._make if isinstance(self._make, _Ready) else self._make()

    @property
    def data(self) -> Any:
        """The rows the formulas multiply."""
        return self._ready.data

    @property
    def norms(self) -> NDArray[np.float64]:
        """Squared norms."""
        return self._ready.norms

    @property
    def centre(self) -> NDArray[np.float64] | None:
        """What was subtracted."""
        return self._ready.centre

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.original.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries a tile of these rows has."""
        return np.dtype(self.original.dtype)

    def take(self, rows: NDArray[np.intp] | slice) -> Points:
        """The chosen rows."""
        original = self.original[rows]
        data = original if self.data is self.original else self.data[rows]
        return Points(original, _Ready(data, self.norms[rows] if self.norms.size else self.norms, self.centre))

    def exact(self, rows: NDArray[np.intp] | slice) -> Points:
        """The chosen rows in float64, centred from the user's own values and not from a rounded copy."""
        if self.norms.size == 0:
            return self.take(rows)
        data = self.original[rows].astype(np.float64)
        if self.centre is not None:
            data -= self.centre
        return Points(data, _Ready(data, self.norms[rows], self.centre))


def prepare(X: Any, kernel: Kernel, like: Points | None = None, *, centred: bool = True) -> Points:
    """Make rows ready for `kernel`; with `like`, measured from the same centre (for prediction).

    Sparse rows cannot be centred without filling up: points to be met by them are prepared with ``centred=False``.
    """
    if kernel.name == "callable":
        return Points(X, _Ready(X, np.empty(0), None))
    if like is not None:
        if like.centre is not None and sp.issparse(X):
            raise ValueError("sparse rows cannot be centred; prepare the others with centred=False.")
        return Points(X, _centred(X, like.centre))
    if centred and kernel.name == "rbf" and not sp.issparse(X):
        return Points(X, partial(_centred_at_mean, X))
    return Points(X, partial(_centred, X, None))


def _centred(X: Any, centre: NDArray[np.float64] | None) -> _Ready:
    """Rows measured from a centre."""
    if centre is None:
        return _Ready(X, _squared_norms(X, None), None)
    data = np.empty(X.shape, dtype=X.dtype)
    for start in range(0, X.shape[0], _ROWS):
        data[start : start + _ROWS] = X[start : start + _ROWS] - centre
    return _Ready(data, _squared_norms(X, centre), centre)


def _centred_at_mean(X: NDArray[Any]) -> _Ready:
    """Rows measured from their mean, where it is far enough from the origin to matter.

    |x - z|^2 = |x|^2 + |z|^2 - 2 x'z loses digits in proportion to |mean|^2 / spread^2. Up to a ratio of 1 that is
    at most one bit, and the copy is saved.
    """
    mean = X.mean(axis=0, dtype=np.float64)
    offset, norms = float(mean @ mean), _squared_norms(X, None)
    if offset > float(np.mean(norms)) - offset:
        return _centred(X, mean)
    return _Ready(X, norms, None)


def _squared_norms(X: Any, centre: NDArray[np.float64] | None) -> NDArray[np.float64]:
    if sp.issparse(X):
        squares = X.astype(np.float64).power(2) if X.dtype != np.float64 else X.power(2)
        return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
    norms = np.empty(X.shape[0])
    for start in range(0, X.shape[0], _ROWS):
        part = X[start : start + _ROWS].astype(np.float64)
        if centre is not None:
            part -= centre
        norms[start : start + _ROWS] = np.einsum("ij,ij->i", part, part)
    return norms
