"""Newton's system of `newton` over the free variables J, solved over features, over J, or by conjugate gradients.

In formulas::

    [ I + B'DB    B'DF      ] [ p   ]     [ g     ]
    [ F'DB        F'DF + dI ] [ eta ] = - [ g_eta ],      B = S_J A_J (signed rows), D diagonal, d a tiny damping

With ``q = D (B p + F eta)`` the same is a system over J: ``(BB' + 1/D) q - F eta = -B g,  F'q + d eta = -g_eta`` and
``p = -g - B'q``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla
from scipy.linalg import lapack

from dualgap.kernels.factor import DENSE_COST, SPARSE_COST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.factor import Factor

    Pair = tuple[NDArray[np.float64], NDArray[np.float64]]

# Nanoseconds a multiplication takes in a matrix times a vector (which waits for memory), and in a factorisation.
_STREAMED, _FACTORISE = 0.3, 0.07
# Above this size a square is not stored: 6000 are 0.3 GB.
_SQUARE_MOST = 6000
# Conjugate gradients: steps at most, and the largest eigenvalue of BB' as a share of its trace, estimated by this many
# steps of the power method on this many rows.
_CG_MOST, _POWER_STEPS, _POWER_ROWS = 2000, 4, 512
# Fewer steps than these are never enough.
_FEW_STEPS = 10
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
            self._cost_of_steps: self._by_steps,
        }
        return costs[min(costs)](g, g_eta)

    def seconds(self) -> float:
        """What a solution is expected to take, conjugate gradients left out of account."""
        return 1e-9 * min(self._cost_of_features(), self._cost_of_rows())

    @property
    def _damping(self) -> float:
        return damping(self.scale)

    @cached_property
    def _even(self) -> bool:
        """Whether all free variables have the same weight, which then is left out of the cross product."""
        return bool(np.all(self.D[:1] == self.D))

    # -- costs, in nanoseconds -----------------------------------------------------------------------------------

    def _cost_of_features(self) -> float:
        return cost_of_features(self.factor, self.points.size, weighted=not self._even)

    def _cost_of_rows(self) -> float:
        return cost_of_rows(self.factor, self.points.size)

    @cached_property
    def _cost_of_steps(self) -> float:
        """Steps of conjugate gradients grow with the root of the condition number."""
        least = min(self._cost_of_features(), self._cost_of_rows())
        each = cost_of_a_step(self.factor, self.points.size)
        if _FEW_STEPS * each > least:
            return np.inf  # not even that few would pay
        steps = min(float(_CG_MOST), 3.0 * np.sqrt(1.0 + self._largest_eigenvalue() * float(self.D.max())))
        return each * max(steps, float(_FEW_STEPS))

    def cost_of_others(self) -> float:
        """Of whichever way is the quickest that does without a matrix over the features."""
        return min(self._cost_of_rows(), self._cost_of_steps)

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
        scale = float(self.D[0]) if self._even else 1.0
        G = weighted_cross(self.factor, self.points, self.sign, self.F, None if self._even else self.D)
        return solve_by_features(G, scale, self._damping, g, g_eta)

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


def cost_of_features(factor: Factor, rows: int, *, weighted: bool = False) -> float:
    """Nanoseconds of a system over the features, of whose matrix so many rows of A must be added up."""
    d = factor.d
    return factor.cross_cost(weighted=weighted) * rows + _FACTORISE * d**3 / 3 if d <= _SQUARE_MOST else np.inf


def cost_of_rows(factor: Factor, free: int) -> float:
    """Nanoseconds of a system over so many free variables."""
    # A product of two sparse matrices costs some three times as much as one with a vector.
    each = 3 * SPARSE_COST if factor.sparse else DENSE_COST
    return factor.row_length * free * free * each + _FACTORISE * free**3 / 3 if free <= _SQUARE_MOST else np.inf


def cost_of_a_step(factor: Factor, free: int) -> float:
    """Nanoseconds of one step of conjugate gradients."""
    return 2.0 * factor.row_length * free * (SPARSE_COST if factor.sparse else _STREAMED)


def least_cost(factor: Factor, free: int) -> float:
    """Nanoseconds that so many free variables take at least where there is no matrix over the features."""
    return min(cost_of_rows(factor, free), _FEW_STEPS * cost_of_a_step(factor, free))


def weighted_cross(
    factor: Factor,
    points: NDArray[np.intp],
    sign: NDArray[np.float64],
    F: NDArray[np.float64],
    weights: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """``Z' diag(weights) Z``, ``Z = [B F]``, for variables of these points, signs and constraints; None: weights 1."""
    d, k = factor.d, F.shape[1]
    cross = factor.cross(points, weights)
    if k == 0:
        return cross
    out = np.empty((d + k, d + k))
    out[:d, :d] = cross
    weighted = F if weights is None else weights[:, None] * F
    for c in range(k):
        out[:d, d + c] = out[d + c, :d] = factor.transposed(sign * weighted[:, c], points)
    out[d:, d:] = F.T @ weighted
    return out


def solve_by_features(
    G: NDArray[np.float64], scale: float, damping: float, g: NDArray[np.float64], g_eta: NDArray[np.float64]
) -> Pair:
    """The step where ``scale * G`` is the weighted cross product of the free rows."""
    d = g.size
    M = scale * G
    diagonal = M.ravel()[:: len(M) + 1]
    diagonal[:d] += 1.0
    diagonal[d:] += damping
    # The transpose is what LAPACK takes without a copy; M is symmetric.
    _, solved, failed = lapack.dposv(M.T, np.concatenate([g, g_eta]), lower=1, overwrite_a=1, overwrite_b=1)
    if failed:
        raise np.linalg.LinAlgError(f"the matrix of a Newton step is not positive definite (pivot {failed})")
    return -solved[:d], -solved[d:]


def damping(scale: float) -> float:
    """Of the multipliers' block, where `scale` is what one free variable gives."""
    return _DAMPING * scale
