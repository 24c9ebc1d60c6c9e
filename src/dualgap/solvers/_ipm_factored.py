"""Shifted systems with a kernel matrix ``K = AA'`` of rank r, in O(n r^2).

The formula of Sherman, Morrison and Woodbury, ``(D + BB')^-1 = D^-1 - D^-1 B (1 + B'D^-1 B)^-1 B'D^-1``, loses digits
where D is small: it is the small difference of two large terms. D is small for the free variables only, and near the
solution there are no more of them than the rank. So the points fall into two parts: those of the smallest D are kept,
the others eliminated by that formula, whose terms are harmless there::

    N = 1 + B_e' D_e^-1 B_e = LL'                     (r x r)
    (D_k + CC') b_k = c_k - B_k N^-1 h,               C = B_k L^-T,  h = B_e' D_e^-1 c_e      (by Cholesky, kept x kept)
    N w = h + B_k' b_k,    b_e = D_e^-1 (c_e - B_e w)

``D_k + CC'`` is a positive definite matrix with a small diagonal, like the dense K + D: its Cholesky factorisation is
stable whatever D is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from dualgap.kernels.threads import share
from dualgap.solvers import _ipm_cholesky as cholesky
from dualgap.solvers._interior import jitters

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rows of the factor handled at a time: 2048 rows of rank 500 are 8 MB of float64, and some 20 ms of BLAS.
_ROWS = 2048
# Columns of a tile of the r x r matrix.
_TILE = 256
# Points kept, for each column of the factor: near the solution there are at most r + k free ones. And at least.
_KEPT_EACH, _KEPT_LEAST = 1.5, 64
# D of a point below which, relative to its diagonal entry of K, elimination would cost digits.
_SMALL = 1e-2
# Share of non-zeros below which the products of a sparse row's pairs are fewer steps than BLAS takes for all.
_SPARSE = 0.05


class FactoredKernel:
    """``K = AA'`` over chosen rows of a factor, dense or CSR, in float64 a block of rows at a time."""

    def __init__(self, A: Any, points: NDArray[np.intp], threads: int) -> None:
        self.threads, self.evaluations, self.between = threads, 0, cholesky.nothing
        self.m, self.rank = points.size, int(A.shape[1])
        self.points = None if points.size == A.shape[0] else points
        self.sparse = sp.issparse(A)
        if self.sparse:  # cutting rows out takes longer than multiplying with them, and a copy is small
            A = (A if self.points is None else A[self.points]).astype(np.float64, copy=False)
            self.points = None
        self.A = A
        # As for a stored matrix; rows of the factor are taken for dense.
        self.step_work = float(self.m) * self.rank**2 + self.rank**3 / 3.0
        self.thin = self.sparse and A.nnz <= _SPARSE * A.shape[0] * A.shape[1]
        self.diagonal = np.empty(self.m)
        for part in self._parts():
            rows = self._rows(part)
            squares = rows.multiply(rows).sum(axis=1) if self.sparse else np.einsum("ij,ij->i", rows, rows)
            self.diagonal[part] = np.asarray(squares).ravel()
        self.mean, self.largest = float(self.diagonal.mean()), max(float(self.diagonal.max()), 1e-300)

    def _parts(self) -> list[slice]:
        return [slice(start, min(start + _ROWS, self.m)) for start in range(0, self.m, _ROWS)]

    def _rows(self, part: Any) -> Any:
        """Some rows of A in float64."""
        rows = self.A[part if self.points is None else self.points[part]]
        return rows.astype(np.float64, copy=False)

    def _dense(self, part: Any) -> NDArray[np.float64]:
        rows = self._rows(part)
        return np.ascontiguousarray(rows.toarray() if self.sparse else rows)

    def product(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A (A'b)``."""
        return self._times(self._transposed_times(b))

    def _times(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.sparse:
            return np.asarray(self.A @ w)
        out = np.empty((self.m, *w.shape[1:]))
        parts = self._parts()

        def multiply(piece: int) -> None:
            out[parts[piece]] = self._rows(parts[piece]) @ w

        share(multiply, len(parts), self.threads)
        return out

    def _transposed_times(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.sparse:
            return np.asarray(self.A.T @ b)
        parts = self._parts()
        sums: list[Any] = [None] * len(parts)

        def multiply(piece: int) -> None:
            sums[piece] = self._rows(parts[piece]).T @ b[parts[piece]]

        share(multiply, len(parts), self.threads)
        total: NDArray[np.float64] = np.sum(sums, axis=0)
        return total

    def factorise(self, d: NDArray[np.float64], G: NDArray[np.float64]) -> None:
        """Prepare for ``AA' + GG' + diag(d)``: G is further columns of the factor."""
        self.d, self.G = d, G
        self._choose(d)
        N = self._normal_matrix()
        N.ravel()[:: N.shape[0] + 1] += 1.0
        for jitter in jitters():
            self.N = N.copy()
            self.N.ravel()[:: N.shape[0] + 1] += jitter * float(np.diagonal(N).max())
            if cholesky.factorise(self.N, self.threads, self.between):
                break
        B = np.hstack([self._dense(self.kept), G[self.kept]])
        self.B_kept = B
        self.C = blas.dtrsm(1.0, self.N.T, B.T, lower=0, trans_a=1).T if self.kept.size else B
        for jitter in jitters():
            M = self.C @ self.C.T
            M.ravel()[:: M.shape[0] + 1] += d[self.kept] + jitter * self.largest
            if cholesky.factorise(M, self.threads, self.between):
                break
        self.M = M

    def _choose(self, d: NDArray[np.float64]) -> None:
        """Which points are kept: the smallest d, relative to K's diagonal, as many as there are small ones."""
        ratio = d / np.maximum(self.diagonal, 1e-3 * self.mean + 1e-300)
        most = min(self.m, max(_KEPT_LEAST, int(_KEPT_EACH * (self.rank + self.G.shape[1]))))
        small = np.flatnonzero(ratio < _SMALL)
        if small.size > most:
            small = np.sort(small[np.argpartition(ratio[small], most - 1)[:most]])
        self.kept = small
        self.inverse = 1.0 / d
        self.inverse[small] = 0.0  # those eliminated only

    def _normal_matrix(self) -> NDArray[np.float64]:
        """``B' D^-1 B`` over the points eliminated, its lower triangle."""
        size = self.rank + self.G.shape[1]
        N = np.zeros((size, size))
        W = np.empty((min(_ROWS, self.m), size))
        for part in self._parts():
            root = np.sqrt(self.inverse[part])
            if self.thin:
                rows = self._rows(part)
                _add_pairs(N, rows.indptr, rows.indices, rows.data, root)
                if self.G.shape[1]:
                    scaled = self.G[part] * (root * root)[:, None]
                    N[self.rank :, : self.rank] += (rows.T @ scaled).T
                    N[self.rank :, self.rank :] += self.G[part].T @ scaled
            else:
                rows = W[: root.size]
                np.multiply(self._dense(part), root[:, None], out=rows[:, : self.rank])
                np.multiply(self.G[part], root[:, None], out=rows[:, self.rank :])
                self._add_tiles(N, rows)
        return N

    def _add_tiles(self, N: NDArray[np.float64], W: NDArray[np.float64]) -> None:
        """``N += W'W``, the lower triangle by tiles."""
        edges = range(0, N.shape[0], _TILE)
        tiles = [(i, j) for i in edges for j in edges if j <= i]

        def add(piece: int) -> None:
            i, j = tiles[piece]
            N[i : i + _TILE, j : j + _TILE] += W[:, i : i + _TILE].T @ W[:, j : j + _TILE]

        share(add, len(tiles), self.threads)

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """One right-hand side."""
        eliminated = self.inverse * right
        h = np.concatenate([self._transposed_times(eliminated), self.G.T @ eliminated])
        kept = np.zeros(0)
        if self.kept.size:
            kept = cholesky.solve(self.M, right[self.kept] - self.B_kept @ cholesky.solve(self.N, h))
            h = h + self.B_kept.T @ kept
        w = cholesky.solve(self.N, h)
        b = self.inverse * (right - self._times(w[: self.rank]) - self.G @ w[self.rank :])
        b[self.kept] = kept
        return b


@nb.njit(cache=True, nogil=True)
def _add_pairs(N, indptr, indices, data, root):  # type: ignore[no-untyped-def]
    """``N += W'W`` for sparse rows W scaled by `root`, the lower triangle."""
    for i in range(root.size):
        weight = root[i] * root[i]
        if weight == 0.0:
            continue
        for p in range(indptr[i], indptr[i + 1]):
            row, value = indices[p], weight * data[p]
            for q in range(indptr[i], indptr[i + 1]):
                if indices[q] <= row:
                    N[row, indices[q]] += value * data[q]
