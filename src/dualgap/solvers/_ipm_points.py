"""The Newton matrix of a support vector machine, reduced from variables to points."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from dualgap.solvers import _ipm_cholesky as cholesky
from dualgap.solvers._interior import jitters, weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# Rows of the kernel matrix fetched at a time: a tenth of a second of work between two looks at interrupts.
_ROWS = 512
# Rows of a matrix added to or multiplied at a time: 16 MB of a matrix of 5000 columns.
_STRIPE = 400
# Diagonal, relative to K's, beside which K is rounding.
_HELD = 1e30


class Kernel(Protocol):
    """A positive semidefinite matrix K over m points, seen through products and solutions of shifted systems."""

    m: int
    mean: float
    evaluations: int
    threads: int
    step_work: float
    # Called between pieces of a factorisation; what it raises breaks that off.
    between: Callable[[], None]

    def product(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """``K b`` (b may have several columns)."""

    def factorise(self, d: NDArray[np.float64], G: NDArray[np.float64]) -> None:
        """Prepare for ``K + GG' + diag(d)``."""

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """One right-hand side, or the columns of several."""


class DenseKernel:
    """A stored kernel matrix, factorised by tiles."""

    def __init__(self, gram: Gram, points: NDArray[np.intp], threads: int) -> None:
        self.m, self.threads, self.between = points.size, threads, cholesky.nothing
        self.K = np.empty((self.m, self.m))
        for start in range(0, self.m, _ROWS):
            self.K[start : start + _ROWS] = gram.block(points[start : start + _ROWS], points)
        _symmetrise(self.K)
        self.evaluations = self.K.size
        diagonal = np.diagonal(self.K)
        self.mean, self.largest = float(diagonal.mean()), max(float(np.abs(diagonal).max()), 1e-300)
        self.L = np.empty_like(self.K)
        # Multiplications and additions of a factorisation, beside which nothing of a step counts.
        self.step_work = self.m**3 / 3.0

    def product(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """``K b``."""
        return self.K @ b

    def factorise(self, d: NDArray[np.float64], G: NDArray[np.float64]) -> None:
        """Cholesky factor of ``K + GG' + diag(d)``."""
        for jitter in jitters():
            np.copyto(self.L, self.K)
            if G.shape[1]:
                for start in range(0, self.m, _STRIPE):
                    self.L[start : start + _STRIPE] += G[start : start + _STRIPE] @ G.T
            self.L.ravel()[:: self.m + 1] += d + jitter * self.largest
            if cholesky.factorise(self.L, self.threads, self.between):
                return

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """By the Cholesky factor."""
        return cholesky.solve(self.L, right)


def _symmetrise(K: NDArray[np.float64]) -> None:
    """Replace entries that rounding has made different by their mean, a stripe at a time."""
    for start in range(0, K.shape[0], _STRIPE):
        stop = start + _STRIPE
        mean = 0.5 * (K[start:stop, start:] + K[start:, start:stop].T)
        K[start:stop, start:], K[start:, start:stop] = mean, mean.T


class Variables:
    """Variables over points: ``H = S K S' + diag(ridge)``, S the signed map from points to variables."""

    def __init__(
        self, kernel: Kernel, at: NDArray[np.intp], sign: NDArray[np.float64], ridge: NDArray[np.float64]
    ) -> None:
        self.kernel, self.at, self.sign, self.ridge = kernel, at, sign, ridge
        # Where every point has one variable, in order, sums over points are nothing but signs.
        self.single = at.size == kernel.m and bool(np.array_equal(at, np.arange(kernel.m)))

    def onto_points(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``S'x``."""
        if self.single:
            return self.sign * x
        return np.bincount(self.at, self.sign * x, self.kernel.m).astype(np.float64, copy=False)

    def onto_variables(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """``S b``."""
        return self.sign * (b if self.single else b[self.at])

    def product(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``H x``."""
        return self.onto_variables(self.kernel.product(self.onto_points(x))) + self.ridge * x


class PointSystem(Variables):
    """Solves ``(H + diag(theta) + F diag(rho) F') x = r`` over the points; theta includes the ridge from here on.

    With ``b = S'x`` (the change of the kernel coefficients) and ``E = S' diag(1/theta) S`` it reduces to the points:
    ``(K + 1/E) b = S'(r/theta) / E``, and ``x = (r - S K b) / theta``. The variable of a point with the smallest theta,
    for which that quotient would magnify rounding, is read off b instead. Where every point has one variable this is
    ``x = S (K + theta)^-1 S'r``.

    Constraints that act on the coefficients alone, ``F_j = S g_j``, are added to K with weights rho (see
    `_interior.DenseSystem`); others have weight 0.
    """

    def __init__(
        self,
        kernel: Kernel,
        at: NDArray[np.intp],
        sign: NDArray[np.float64],
        ridge: NDArray[np.float64],
        F: NDArray[np.float64],
    ) -> None:
        super().__init__(kernel, at, sign, ridge)
        G, own = self._on_coefficients(F)
        self.rho = np.where(own, weights(F, kernel.mean), 0.0)
        self.G = (G * np.sqrt(self.rho))[:, own]

    def _on_coefficients(self, F: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The columns g_j with ``F_j = S g_j``, and which columns of F are such."""
        signed = self.sign[:, None] * F
        if self.single:
            return signed, np.ones(F.shape[1], dtype=bool)
        G = np.zeros((self.kernel.m, F.shape[1]))
        G[self.at] = signed
        return G, np.all(G[self.at] == signed, axis=0)

    def factorise(self, theta: NDArray[np.float64]) -> None:
        """Prepare for the diagonal theta beside the ridge."""
        self.theta = theta + self.ridge
        if self.single:
            self.kernel.factorise(self.theta, self.G)
            return
        E = np.bincount(self.at, weights=1.0 / self.theta, minlength=self.kernel.m)
        # A point without a variable has nothing to move; a diagonal far beyond K's own holds it.
        self.shift = np.divide(1.0, E, out=np.full(E.size, _HELD * max(self.kernel.mean, 1e-300)), where=E > 0.0)
        order = np.argsort(self.theta, kind="stable")
        self.pivot = order[np.unique(self.at[order], return_index=True)[1]]
        self.kernel.factorise(self.shift, self.G)

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """One right-hand side, or the columns of several."""
        if right.ndim == 2:
            return np.column_stack([self.solve(column) for column in right.T])
        if self.single:
            return self.sign * self.kernel.solve(self.sign * right)
        b = self.kernel.solve(self.onto_points(right / self.theta) * self.shift)
        pull = self.kernel.product(b) + self.G @ (self.G.T @ b)
        x = (right - self.onto_variables(pull)) / self.theta
        x[self.pivot] = 0.0
        rest = self.onto_points(x)
        here = self.at[self.pivot]
        x[self.pivot] = self.sign[self.pivot] * (b[here] - rest[here])
        return x
