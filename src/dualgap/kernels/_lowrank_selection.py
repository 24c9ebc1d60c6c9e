"""Which basis functions SGMA takes, one after another (lecture, "Sparse Greedy Matrix Approximation").

With n basis functions chosen, L the Cholesky factor of ``K^nn`` and ``g_p = L^-1 K[basis, p]``, the lecture's terms
for a candidate p are

    eta = K_pp - |g_p|^2          (what is left of its diagonal)
    r = K^mn v - k = -(K[:, p] - G g_p)        (minus its residual column)
    Err(n + 1) = Err(n) - |r|^2 / eta

and the column of G that it adds is ``-r / sqrt(eta)``: nothing is inverted.

Up to `MOST_ROWS` points the residual columns are over all points. Beyond, they are over a random sample of so many:
gains are then estimates with a relative error of a few hundredths, and the choice costs the same however many points
there are. Errors that are reported never are estimates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

from dualgap.kernels._lowrank_factor import (
    check_residual,
    double_entries,
    entries_between,
    is_coarse,
    least_residual,
    rounding_of_residual,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# Points that gains are measured on. The greedy choice keeps the kernel matrix over them: 400 MB in float32.
MOST_ROWS = 10_000
# With 59 candidates one is among the best 5 % with probability 0.95: 0.95^59 < 0.05.
CANDIDATES = 59
# Draws of candidates without a single one above rounding, after which nothing is left to approximate.
_DRAWS = 10
# Gains of the greedy choice are updated with float32 products. They are made anew when the error has fallen to a tenth,
# so that rounding stays small beside them.
_FELL = 0.1
# Columns of the residual matrix made at a time when they are: 10 000 x 512 float64 entries are 40 MB.
_COLUMNS = 512

SELECTIONS = ("best of 59", "greedy", "random")


class Selection:
    """Basis points, and the factor's rows at the points that gains are measured on.

    Attributes
    ----------
    rows : ndarray of points
        Where gains are measured; all points where there are at most `MOST_ROWS`.
    whole : bool
        Whether they are all.
    basis : list of int
        The points chosen so far.
    G : ndarray, shape (rows, most)
        The factor at `rows`.
    triangle : ndarray, shape (most, most)
        The Cholesky factor L of K[basis, basis].
    residual, floor : ndarray
        What is left of the diagonal at `rows`, and what of that may be rounding.
    """

    def __init__(self, gram: Gram, most: int, selection: str, rng: np.random.Generator) -> None:
        self.entries = double_entries(gram)
        self.diagonal = gram.diag()
        self.coarse = is_coarse(gram)
        self.least = least_residual(self.diagonal, coarse=self.coarse)
        self.rng, self.selection = rng, selection
        n = gram.n
        self.whole = n <= MOST_ROWS
        self.rows = np.arange(n) if self.whole else np.sort(rng.choice(n, MOST_ROWS, replace=False))
        self.basis: list[int] = []
        self.chosen = np.zeros(n, dtype=bool)
        self.G = np.zeros((self.rows.size, most))
        self.triangle = np.zeros((most, most))
        self.residual = self.diagonal[self.rows].copy()
        self.floor = self.least[self.rows].copy()
        self.ratio = np.zeros(most)
        self._gains = _Gains(self) if selection == "greedy" else None

    @property
    def relative_error(self) -> float:
        """``tr(K - K~) / tr(K)`` over the points that gains are measured on."""
        return float(self.residual.sum() / self.diagonal[self.rows].sum())

    def grow(self, rank: int, trace_tol: float) -> bool:
        """Choose until there are `rank` basis points or the error is small; False where nothing is left to choose."""
        while len(self.basis) < rank and not self.relative_error <= trace_tol:
            point = self._choose()
            if point is None:
                return False
            self._add(*point)
        return True

    def _choose(self) -> tuple[int, NDArray[np.float64], NDArray[np.float64], float] | None:
        """The next point, its residual column, its row of G and its residual; None where all are rounding."""
        if self._gains is not None:
            return self._gains.best()
        count = 1 if self.selection == "random" else CANDIDATES
        for _ in range(_DRAWS):
            pool = self._pool()
            if pool.size == 0:
                return None
            candidates = self.rng.choice(pool, min(count, pool.size), replace=False)
            columns, before, own = self.residual_columns(candidates)
            floor = self.least[candidates]
            floor += rounding_of_residual(before * before, self.ratio[: before.shape[1]], coarse=self.coarse)
            squares = np.einsum("ij,ij->j", columns, columns)
            gains = np.where(own > floor, squares / np.maximum(own, 1e-300), -1.0)
            best = int(np.argmax(gains))
            if gains[best] >= 0.0:
                return int(candidates[best]), columns[:, best], before[best], float(own[best])
        return None

    def _pool(self) -> NDArray[np.intp]:
        """Points that may be chosen."""
        return np.flatnonzero(~self.chosen & (self.residual > self.floor) if self.whole else ~self.chosen)

    def residual_columns(
        self, points: NDArray[np.intp]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Residual columns of some points (one a column), their rows of G, and their residuals."""
        t = len(self.basis)
        columns = entries_between(self.entries, points, self.rows).T
        if self.whole:
            before, own = self.G[points, :t], self.residual[points]
        else:
            between = entries_between(self.entries, np.array(self.basis, dtype=np.intp), points)
            before = sla.solve_triangular(self.triangle[:t, :t], between, lower=True, check_finite=False).T
            own = self.diagonal[points] - np.einsum("ij,ij->i", before, before)
        return columns - self.G[:, :t] @ before.T, before, own

    def _add(self, point: int, column: NDArray[np.float64], before: NDArray[np.float64], own: float) -> None:
        t = len(self.basis)
        g = column / np.sqrt(own)
        if self.whole:
            # The points chosen before have nothing left, and this one's own entry is known.
            g[self.basis], g[point] = 0.0, np.sqrt(own)
        self.G[:, t] = g
        self.triangle[t, :t], self.triangle[t, t] = before, np.sqrt(own)
        self.residual -= g * g
        self.ratio[t] = self.diagonal[point] / own
        self.floor += rounding_of_residual((g * g)[:, None], self.ratio[t : t + 1], coarse=self.coarse)
        check_residual(self.residual, self.diagonal[self.rows], coarse=self.coarse)
        self.basis.append(point)
        self.chosen[point] = True
        if self.whole:
            self.residual[point] = 0.0
        if self._gains is not None:
            self._gains.update(g)


class _Gains:
    """The gains of all candidates of the greedy choice: the points that gains are measured on.

    With ``R = K - G G'``, adding g changes ``|R_j|^2`` by ``-2 g_j (R g)_j + g_j^2 |g|^2``: a product with the stored
    kernel matrix a step, in place of all residual columns.
    """

    def __init__(self, selection: Selection) -> None:
        self.of = selection
        rows = selection.rows
        self.K = np.empty((rows.size, rows.size), dtype=np.float32)
        for start in range(0, rows.size, _COLUMNS):
            self.K[start : start + _COLUMNS] = entries_between(selection.entries, rows[start : start + _COLUMNS], rows)
        self._renew()

    def _renew(self) -> None:
        """Squared norms of all residual columns."""
        s, t = self.of, len(self.of.basis)
        self.squares = np.empty(s.rows.size)
        for start in range(0, s.rows.size, _COLUMNS):
            part = slice(start, start + _COLUMNS)
            block = self.K[part] - s.G[part, :t] @ s.G[:, :t].T
            self.squares[part] = np.einsum("ij,ij->i", block, block)
        self.error = s.residual.sum()

    def best(self) -> tuple[int, NDArray[np.float64], NDArray[np.float64], float] | None:
        s = self.of
        allowed = ~s.chosen[s.rows] & (s.residual > s.floor)
        if not allowed.any():
            return None
        gains = np.where(allowed, self.squares / np.maximum(s.residual, 1e-300), -1.0)
        at = int(np.argmax(gains))
        columns, _, _ = s.residual_columns(s.rows[at : at + 1])
        return int(s.rows[at]), columns[:, 0], s.G[at, : len(s.basis)].copy(), float(s.residual[at])

    def update(self, g: NDArray[np.float64]) -> None:
        """After g has become the last column of G."""
        s = self.of
        if s.residual.sum() < _FELL * self.error:
            self._renew()
            return
        earlier = s.G[:, : len(s.basis) - 1]
        product = self.K @ g.astype(np.float32) - earlier @ (earlier.T @ g)
        self.squares -= 2.0 * g * product - g * g * float(g @ g)
