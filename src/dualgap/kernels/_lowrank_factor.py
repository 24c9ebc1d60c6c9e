"""The factor G of ``K~ = G G'`` over all points, made a few pivots at a time and in blocks of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.linalg as sla

from dualgap.kernels.entries import Entries
from dualgap.kernels.threads import share_parts, thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# Bytes of kernel entries a thread makes at a time: large enough for BLAS, small enough to be nothing beside G.
_BLOCK_BYTES = 8_000_000
# A pivot's residual relative to its own diagonal entry, below which it is rounding. A column is divided by the root of
# the residual, so that errors of the entries (1e-16, or 1e-7 where they or G are float32) grow by 1e6 (300) at most.
_FLOOR, _COARSE_FLOOR = 1e-12, 1e-5
# Rounding of an entry, with some to spare.
_ROUNDING, _COARSE_ROUNDING = 1e-15, 1e-6
# Residuals below minus this, relative to the diagonal, prove the matrix indefinite: the square of what rounding may
# have grown to is far smaller, and so is the sum of a few thousand.
_NEGATIVE, _COARSE_NEGATIVE = 1e-7, 1e-3


def double_entries(gram: Gram) -> Entries:
    """The kernel's entries in float64, nothing kept."""
    return Entries(gram, "double", keep=False)


def is_coarse(gram: Gram) -> bool:
    """Whether entries of `gram` are float32 even where float64 is asked for: no tiles, and float32 data."""
    return getattr(gram, "fused", None) is None and np.dtype(gram.dtype) == np.float32


def least_residual(diagonal: NDArray[np.float64], *, coarse: bool) -> NDArray[np.float64]:
    """What the residual of a point must exceed for it to be a pivot."""
    return (_COARSE_FLOOR if coarse else _FLOOR) * diagonal


def rounding_of_residual(
    squares: NDArray[np.float64], ratio: NDArray[np.float64], *, coarse: bool
) -> NDArray[np.float64]:
    """What rounding may leave of a residual that should be 0.

    The residual d of a pivot is rounded like its diagonal entry, and its column's squares g^2 carry that on to all
    points: by ``g^2 K_pp / d``. Pivots that leave a point of large residual for one of small residual make it matter.

    Parameters
    ----------
    squares : ndarray, shape (..., m)
        Squares of the entries of G in the columns of m pivots.
    ratio : ndarray, shape (m,)
        Diagonal entry of each pivot over its residual when it was chosen.
    """
    return (_COARSE_ROUNDING if coarse else _ROUNDING) * (squares @ ratio)


def check_residual(residual: NDArray[np.float64], diagonal: NDArray[np.float64], *, coarse: bool) -> None:
    """Raise where the residual diagonal has become negative beyond rounding, and set it to 0 within.

    Raises
    ------
    ValueError
        The kernel is not positive semidefinite.
    """
    worst = float(residual.min())
    if worst < -(_COARSE_NEGATIVE if coarse else _NEGATIVE) * float(diagonal.max()):
        raise ValueError(
            f"The kernel matrix is not positive semidefinite (what is left of its diagonal falls to {worst:.3g}), so "
            f"that it has no low-rank factor; use a positive semidefinite kernel such as 'rbf', or no approximation."
        )
    np.maximum(residual, 0.0, out=residual)


def entries_between(entries: Entries, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
    """A block of kernel entries in float64."""
    out = np.empty((len(rows), len(columns)))
    entries.block(rows, columns, out, keep=False)
    return out


def _entries_for_threads(gram: Gram) -> tuple[Entries, int]:
    """Entries that may be asked for by several threads at once, and how many threads."""
    source = getattr(gram, "source", None) or gram
    kernel = getattr(source, "kernel", None)
    if not hasattr(gram, "separate") or kernel is None or kernel.name == "callable":
        return double_entries(gram), 1  # a user's own matrix or function may not expect several
    return double_entries(gram.separate()), thread_count(getattr(source, "n_jobs", None))


class Factor:
    """The factor over all points, what is left of the diagonal, and what of that may be rounding (`floor`).

    Parameters
    ----------
    gram : Gram
        The kernel matrix K.
    most : int
        Columns at most; G is allocated for so many.
    dtype : numpy dtype
        Of G. All arithmetic is float64.
    """

    def __init__(self, gram: Gram, most: int, dtype: np.dtype[Any]) -> None:
        self._entries, self._threads = _entries_for_threads(gram)
        self.kernel_values = 0
        self.diagonal = gram.diag()
        self.residual = self.diagonal.copy()
        self.G: NDArray[Any] = np.empty((gram.n, most), dtype=dtype)
        self.triangle = np.zeros((most, most))
        self.basis = np.empty(0, dtype=np.intp)
        self.coarse = is_coarse(gram) or dtype == np.float32
        self.floor = least_residual(self.diagonal, coarse=self.coarse)

    @property
    def rank(self) -> int:
        """Columns so far."""
        return len(self.basis)

    @property
    def error(self) -> float:
        """``tr(K - K~)``."""
        return float(self.residual.sum())

    def between(self, points: NDArray[np.intp]) -> NDArray[np.float64]:
        """The entries of K between some points."""
        self.kernel_values += len(points) ** 2
        return entries_between(self._entries, points, points)

    def rows(self, points: NDArray[np.intp]) -> NDArray[np.float64]:
        """The rows of some points, as far as there are columns."""
        return self.G[points, : self.rank].astype(np.float64)

    def extend(self, pivots: NDArray[np.intp], triangle: NDArray[np.float64]) -> None:
        """Add the columns of new pivots.

        With L the Cholesky factor of K[basis, basis] and ``G L' = K[:, basis]``, the last rows ``[B, C]`` of L give the
        last columns of G as ``(K[:, pivots] - G B') C^-T``.

        Parameters
        ----------
        pivots : ndarray of m points
            None of them a pivot already.
        triangle : ndarray, shape (m, rank + m)
            The rows of L that belong to them.
        """
        t, m = self.rank, len(pivots)
        before, corner = triangle[:, :t], triangle[:, t:]
        ratio = self.diagonal[pivots] / np.diag(corner) ** 2

        def piece(start: int, stop: int) -> None:
            block = np.ascontiguousarray(entries_between(self._entries, pivots, np.arange(start, stop)).T)
            if t:
                block -= self.G[start:stop, :t] @ before.T
            # The transposed view is what LAPACK wants in place.
            block = sla.solve_triangular(corner, block.T, lower=True, overwrite_b=True, check_finite=False).T
            self.G[start:stop, t : t + m] = block
            block *= block
            self.residual[start:stop] -= block.sum(axis=1)
            self.floor[start:stop] += rounding_of_residual(block, ratio, coarse=self.coarse)

        n = len(self.diagonal)
        share_parts(piece, n, max(64, _BLOCK_BYTES // (8 * m)), self._threads)
        self.kernel_values += m * n
        self.triangle[t : t + m, : t + m] = triangle
        self.basis = np.concatenate([self.basis, pivots])
        self._settle(t)

    def _settle(self, first: int) -> None:
        """The rows of the new pivots are known exactly: they are those of L."""
        new = self.basis[first:]
        self.G[new, first : self.rank] = self.triangle[first : self.rank, first : self.rank]
        self.G[self.basis[:first], first : self.rank] = 0.0
        self.residual[self.basis] = 0.0
        check_residual(self.residual, self.diagonal, coarse=self.coarse)

    def take(self, basis: NDArray[np.intp], rows: NDArray[np.float64], residual: NDArray[np.float64]) -> None:
        """Take over columns that were made elsewhere."""
        self.basis = basis
        self.G[:, : self.rank] = rows
        self.triangle[: self.rank, : self.rank] = np.tril(rows[basis])
        self.residual = residual

    def renew(self) -> None:
        """Make all columns anew from the basis alone, so that each is rounded once; for a factor in float32."""
        basis = self.basis
        K = self.between(basis)
        self.basis, self.residual = np.empty(0, dtype=np.intp), self.diagonal.copy()
        self.triangle[...] = 0.0
        self.extend(basis, sla.cholesky(0.5 * (K + K.T), lower=True))

    def errors(self) -> NDArray[np.float64]:
        """``tr(K - K~)`` after 0, 1, ..., rank columns: summed from the last, so that nothing cancels."""
        gains = np.zeros(self.rank)
        for start in range(0, len(self.diagonal), step := max(64, _BLOCK_BYTES // (8 * max(1, self.rank)))):
            part = self.G[start : start + step, : self.rank].astype(np.float64)
            gains += np.einsum("ij,ij->j", part, part)
        errors = np.concatenate([[0.0], np.cumsum(gains[::-1])])[::-1] + self.error
        errors[0] = self.diagonal.sum()  # a factor in float32 adds up to it with seven digits
        return np.asarray(errors)

    def cut(self, rank: int) -> None:
        """Leave the first columns only."""
        for start in range(0, len(self.diagonal), step := max(64, _BLOCK_BYTES // (8 * max(1, self.rank)))):
            part = self.G[start : start + step, rank : self.rank].astype(np.float64)
            self.residual[start : start + step] += np.einsum("ij,ij->i", part, part)
        self.basis = self.basis[:rank]
