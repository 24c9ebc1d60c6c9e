"""Newton's system of `newton` over the free variables J, solved over features, over J, or by conjugate gradients.

In formulas::

    [ I + B'DB    B'DF      ] [ p   ]     [ g     ]
    [ F'DB        F'DF + dI ] [ eta ] = - [ g_eta ],      B = S_J A_J (signed rows), D diagonal, d a tiny damping

With ``q = D (B p + F eta)`` the same is a system over J: ``(BB' + 1/D) q - F eta = -B g,  F'q + d eta = -g_eta`` and
``p = -g - B'q``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.factor import Factor

    Pair = tuple[NDArray[np.float64], NDArray[np.float64]]

# Nanoseconds a multiplication takes in a sparse product, in one of BLAS, in a matrix times a vector (which waits for
# memory), and in a factorisation.
_SPARSE, _DENSE, _STREAMED, _FACTORISE = 1.2, 0.1, 0.3, 0.07
# Above this size a square is not stored: 6000 are 0.3 GB.
_SQUARE_MOST = 6000
# Conjugate gradients: steps at most, and the largest eigenvalue of BB' as a share of its trace, estimated by this many
# steps of the power method on this many rows.
_CG_MOST, _POWER_STEPS, _POWER_ROWS = 2000, 4, 512
# Damping of the multipliers' block, relative to what one free variable would give: it decides only where none is free.
_DAMPING = 1e-4


@dataclass(frozen=True)
class System:
    """The system of one step.

    Attributes
    ----------
    factor : Factor
        A.
    points, sign, F, D
        Row of A, sign, row of F and weight of each free variable.
    scale : float
        What D usually is, for the damping.
    """

    factor: Factor
    points: NDArray[np.intp]
    sign: NDArray[np.float64]
    F: NDArray[np.float64]
    D: NDArray[np.float64]
    scale: float

    def solve(self, g: NDArray[np.float64], g_eta: NDArray[np.float64]) -> Pair:
        """The step ``(p, eta)``, by whichever way is expected to be the quickest."""
        if self.points.size == 0:
            return -g, -g_eta / self._damping
        costs = {
            self._cost_of_features(): self._by_features,
            self._cost_of_rows(): self._by_rows,
            self._cost_of_steps(): self._by_steps,
        }
        return costs[min(costs)](g, g_eta)

    def seconds(self) -> float:
        """What a solution is expected to take, conjugate gradients left out of account."""
        return 1e-9 * min(self._cost_of_features(), self._cost_of_rows())

    @property
    def _damping(self) -> float:
        return _DAMPING * self.scale

    # -- costs, in nanoseconds -----------------------------------------------------------------------------------

    def _cost_of_features(self) -> float:
        d, j, length = self.factor.d, self.points.size, self.factor.row_length
        each = _SPARSE if self.factor.sparse else _DENSE
        return 0.5 * length * length * j * each + _FACTORISE * d**3 / 3 if d <= _SQUARE_MOST else np.inf

    def _cost_of_rows(self) -> float:
        j, length = self.points.size, self.factor.row_length
        # A product of two sparse matrices costs some three times as much as one with a vector.
        each = 3 * _SPARSE if self.factor.sparse else _DENSE
        return length * j * j * each + _FACTORISE * j**3 / 3 if j <= _SQUARE_MOST else np.inf

    def _cost_of_steps(self) -> float:
        """Steps of conjugate gradients grow with the root of the condition number."""
        j, length = self.points.size, self.factor.row_length
        least = min(self._cost_of_features(), self._cost_of_rows())
        each = 2.0 * length * j * (_SPARSE if self.factor.sparse else _STREAMED)
        if 10 * each > least:
            return np.inf  # not even ten steps would pay
        steps = min(float(_CG_MOST), 3.0 * np.sqrt(1.0 + self._largest_eigenvalue() * float(self.D.max())))
        return each * max(steps, 10.0)

    def _largest_eigenvalue(self) -> float:
        """Of BB', from some of its rows."""
        step = -(-self.points.size // _POWER_ROWS)
        some = self.points[::step]
        x, value = np.ones(some.size), 0.0
        for _ in range(_POWER_STEPS):
            size = float(np.sqrt(x @ x))
            if size == 0.0:
                return 0.0
            x = x / size
            w = self.factor.transposed(x, some)
            value = float(w @ w)
            x = self.factor.products(w, some)
        return value * self.points.size / some.size

    # -- three ways ----------------------------------------------------------------------------------------------

    def _by_features(self, g: NDArray[np.float64], g_eta: NDArray[np.float64]) -> Pair:
        d, k = self.factor.d, self.F.shape[1]
        M = np.empty((d + k, d + k))
        M[:d, :d] = self.factor.cross(self.points, self.D)
        M[np.arange(d), np.arange(d)] += 1.0
        for c in range(k):
            M[:d, d + c] = M[d + c, :d] = self.factor.transposed(self.sign * self.D * self.F[:, c], self.points)
        M[d:, d:] = self.F.T @ (self.D[:, None] * self.F) + self._damping * np.eye(k)
        cholesky = sla.cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
        solved = sla.cho_solve(cholesky, np.concatenate([g, g_eta]), check_finite=False)
        return -solved[:d], -solved[d:]

    def _by_rows(self, g: NDArray[np.float64], g_eta: NDArray[np.float64]) -> Pair:
        k = self.F.shape[1]
        M = self.factor.inner(self.points)
        M *= self.sign[:, None] * self.sign[None, :]
        M[np.diag_indices_from(M)] += 1.0 / self.D
        cholesky = sla.cho_factor(M, lower=True, overwrite_a=True, check_finite=False)
        q = sla.cho_solve(cholesky, -self.sign * self.factor.products(g, self.points), check_finite=False)
        eta = np.zeros(k)
        if k:
            solved = sla.cho_solve(cholesky, self.F, check_finite=False)
            eta = np.linalg.solve(self.F.T @ solved + self._damping * np.eye(k), -g_eta - self.F.T @ q)
            q = q + solved @ eta
        return -g - self.factor.transposed(self.sign * q, self.points), eta

    def _by_steps(self, g: NDArray[np.float64], g_eta: NDArray[np.float64]) -> Pair:
        """Conjugate gradients, to a residual that keeps Newton's method quadratic."""
        d = self.factor.d
        x = np.zeros(d + self.F.shape[1])
        r = -np.concatenate([g, g_eta])
        p, rr = r.copy(), float(r @ r)
        size = float(np.sqrt(rr))
        goal = (min(0.01, size) * size) ** 2
        for _ in range(_CG_MOST):
            if rr <= goal:
                break
            inner = self.D * (self.sign * self.factor.products(p[:d], self.points) + self.F @ p[d:])
            bent = self.factor.transposed(self.sign * inner, self.points)
            Hp = p + np.concatenate([bent, self.F.T @ inner + (self._damping - 1.0) * p[d:]])
            step = rr / float(p @ Hp)
            x += step * p
            r -= step * Hp
            new = float(r @ r)
            p = r + (new / rr) * p
            rr = new
        return x[:d], x[d:]
