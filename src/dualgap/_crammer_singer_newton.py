"""Semismooth Newton method for the machine of Crammer and Singer: where passes over the samples would creep.

In the notation of `dualgap.crammer_singer`, the augmented Lagrangian (the proximal point method on b) rounds off the
largest of the slopes around the present b::

    t_i(g) = the point of sample i's simplex nearest to b_i + g_i / kappa
    w <- argmin 1/2 |w|^2 + sum_i [g_i't_i - kappa/2 |t_i - b_i|^2 - C_i g_i,y_i],    b <- t(g),    kappa <- kappa / 5

Each inner problem is piecewise quadratic and convex with the gradient ``w - w(t)``, and its Hessian adds for every
sample with two or more classes S in play ``x x' (diag(1_S) - 1_S 1_S' / |S|) / kappa`` to the identity. Newton's method
with a search along its direction takes a handful of steps. The system is solved by Cholesky where it is small, else by
conjugate gradients. The gap of w and t is ``1/2 |w - w(t)|^2`` plus the terms that the certificate sums.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator, cg

from dualgap.kernels.factor import Factor

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

# The proximal weight falls by this factor a round.
_FALL = 5.0
# It stays above this share of a sample's squared length (or where it began): a round then leaves little of the error,
# while the rounding of slopes, divided by the weight, moves slopes by no more than 1e-16 / 1e-6 of their size a sample.
_LEAST_SHARE = 1e-6
# An inner problem is solved until what is left of its gradient is this share of the gap.
_INNER_SHARE = 0.1
# A step is long enough where the derivative along it has fallen to this share.
_SEARCH_SHARE, _SEARCH_MOST = 0.1, 40
# Newton steps in one round at most: a round that needs more has a weight that is too small, and is cut short.
_STEPS_MOST = 30
# Unknowns up to which the system is factored: a third of a second, and 70 megabytes.
_FACTORED = 3000
# Conjugate gradients stop at this share of the gradient: the step is Newton's to that accuracy.
_CG_SHARE, _CG_MOST = 0.05, 250


class NewtonSteps:
    """Rounds of the method from a dual point; `look` is asked between steps whether to stop."""

    def __init__(
        self, A: Any, y: NDArray[np.int64], C: NDArray[np.float64], b: NDArray[np.float64], bias: float
    ) -> None:
        self.factor = Factor(A, bias)
        self.y, self.C, self.b = y, C, b.copy()
        self.n, self.k = b.shape
        self.t = b.copy()
        self.everything = np.arange(self.n)
        self.w = self.weights(self.b)
        self.g = self.products(self.w) + 1.0
        self.g[self.everything, y] -= 1.0
        spread = float(np.mean(self.g.max(axis=1) - self.g.min(axis=1)))
        self.kappa = spread / float(np.median(C[C > 0.0]))
        self.least = min(self.kappa, _LEAST_SHARE * float(np.mean(self.factor.squared_norms())))

    def products(self, w: NDArray[np.float64]) -> NDArray[np.float64]:
        """``<w_m, x_i>``, a column a class."""
        return np.column_stack([self.factor.products(row) for row in w])

    def weights(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        """The weights of a dual point, a row a class."""
        signed = -b
        signed[self.everything, self.y] += self.C
        return self.transposed(signed)

    def transposed(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Sums of the samples with the values of each column."""
        rows = []
        for column in values.T:
            used = np.flatnonzero(column)
            rows.append(self.factor.transposed(column[used], used))
        return np.array(rows)

    def round(self, goal: float, look: Callable[[], bool], most: int) -> tuple[int, bool]:
        """One round: the steps it took, and whether it was stopped from outside."""
        steps = 0
        self.settle(0.0, self.g)
        while True:
            v = self.weights(self.t)
            gradient = self.w - v
            left = 0.5 * float(np.vdot(gradient, gradient))
            lack = _lack(self.t, self.g)
            primal = 0.5 * float(np.vdot(self.w, self.w)) + self.loss()
            enough = left + lack <= 0.5 * goal * abs(primal)
            if enough or left <= _INNER_SHARE * lack or steps >= min(_STEPS_MOST, most):
                break
            if look():
                return steps, True
            if not self.step(gradient):
                break
            steps += 1
        self.b[:] = self.t
        self.kappa = max(self.kappa / _FALL, self.least)
        return steps, False

    def settle(self, length: float, direction: NDArray[np.float64]) -> None:
        """The answers t to slopes that have moved so far along a direction."""
        _answers(self.b, self.g, direction, length, 1.0 / self.kappa, self.C, self.t)

    def loss(self) -> float:
        """The sum of the errors' prices."""
        return float(self.C @ (self.g.max(axis=1) - self.g[self.everything, self.y]))

    def step(self, gradient: NDArray[np.float64]) -> bool:
        """One Newton step; False where none is left in this arithmetic."""
        move = -self.solve(gradient)
        along = self.products(move)
        slope = float(np.vdot(gradient, move))
        length = self.search(move, along, slope) if slope < 0.0 else 0.0
        if length == 0.0:
            return False
        self.w = self.w + length * move
        self.g += length * along
        self.settle(0.0, along)
        return True

    def search(self, move: NDArray[np.float64], along: NDArray[np.float64], at_start: float) -> float:
        """A length at which the derivative along the direction is nearly zero: regula falsi within a bracket."""
        straight, curved = float(np.vdot(self.w, move)), float(np.vdot(move, move))
        low, high, at_low, at_high, length = 0.0, np.inf, at_start, np.nan, 1.0
        for turn in range(_SEARCH_MOST):
            self.settle(length, along)
            signed = self.t.copy()
            signed[self.everything, self.y] -= self.C  # before the sum, which would lose what is small
            slope = straight + length * curved + float(np.vdot(signed, along))
            if abs(slope) <= _SEARCH_SHARE * abs(at_start):
                break
            if slope < 0.0:
                low, at_low = length, slope
            else:
                high, at_high = length, slope
            if np.isinf(high):
                length *= 4.0
            else:  # every third turn halves the bracket, which the secant may not
                share = 0.5 if turn % 3 == 2 else at_low / (at_low - at_high)
                length = low + share * (high - low)
        return length

    # -- the system ----------------------------------------------------------------------------------------------

    def solve(self, gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gradient divided by the Hessian."""
        inside = self.t > 0.0
        many = np.flatnonzero(inside.sum(axis=1) > 1)
        inside = inside[many]
        if gradient.size <= _FACTORED:
            factored = scipy.linalg.cho_factor(self.hessian(many, inside), overwrite_a=True, check_finite=False)
            return np.asarray(scipy.linalg.cho_solve(factored, gradient.ravel())).reshape(gradient.shape)
        counts = inside.sum(axis=1, keepdims=True)

        def product(flat: NDArray[np.float64]) -> NDArray[np.float64]:
            p = flat.reshape(gradient.shape)
            values = np.column_stack([self.factor.products(row, many) for row in p]) * inside
            values -= inside * (values.sum(axis=1, keepdims=True) / counts)
            change = np.array([self.factor.transposed(column, many) for column in values.T])
            return (p + change / self.kappa).ravel()

        operator = LinearOperator((gradient.size, gradient.size), matvec=product, dtype=np.float64)
        solution, _ = cg(operator, gradient.ravel(), rtol=_CG_SHARE, maxiter=_CG_MOST)
        return np.asarray(solution).reshape(gradient.shape)

    def hessian(self, many: NDArray[np.intp], inside: NDArray[np.bool_]) -> NDArray[np.float64]:
        """The Hessian, a block a pair of classes, of the samples `many` with the classes `inside` in play."""
        d = self.factor.d
        H = np.eye(self.k * d)
        shares = 1.0 / (inside.sum(axis=1) * self.kappa)
        for m in range(self.k):
            for o in range(m + 1):
                both = inside[:, m] & inside[:, o]
                if not both.any():
                    continue
                weight = 1.0 / self.kappa - shares[both] if m == o else shares[both]
                block = self.factor.cross(many[both], weight)
                H[m * d : (m + 1) * d, o * d : (o + 1) * d] += block if m == o else -block
                if m != o:
                    H[o * d : (o + 1) * d, m * d : (m + 1) * d] -= block.T
        return H


@nb.njit(cache=True, nogil=True)
def project(b, g, scale, C, out):  # type: ignore[no-untyped-def]
    """Put the simplex's point nearest to ``b + scale g`` into `out` (which may be b); g is overwritten.

    The threshold is found by throwing out what lies below the mean excess until nothing does (Michelot 1986).
    """
    k = g.size
    top = g.max()  # steps are long: differences first, so that what they are added to is not lost
    for m in range(k):
        g[m] = b[m] + (g[m] - top) * scale
    level, count = -np.inf, k + 1
    for _ in range(k + 1):  # each turn throws something out
        total, above = -C, 0
        for m in range(k):
            if g[m] > level:
                total += g[m]
                above += 1
        if above >= count or above == 0:  # (more, by rounding)
            break
        level, count = total / above, above
    total = 0.0
    for m in range(k):
        g[m] = max(g[m] - level, 0.0)
        total += g[m]
    for m in range(k):
        out[m] = (C if count == 1 else g[m] * (C / total)) if g[m] > 0.0 else 0.0


@nb.njit(cache=True, nogil=True)
def _answers(b, g, direction, length, scale, C, t):  # type: ignore[no-untyped-def]
    slopes = np.empty(g.shape[1])
    for i in range(g.shape[0]):
        for m in range(g.shape[1]):
            slopes[m] = g[i, m] + length * direction[i, m]
        project(b[i], slopes, scale, C[i], t[i])


@nb.njit(cache=True, nogil=True)
def _lack(t, g):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(g.shape[0]):
        top = g[i].max()
        for m in range(g.shape[1]):
            total += t[i, m] * (top - g[i, m])
    return total
