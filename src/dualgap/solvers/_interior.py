"""A primal-dual interior point method on plain arrays, for whoever has a convex quadratic program to solve.

Problem::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

With slacks ``x = a - lo``, ``t = hi - a`` and multipliers z of ``x >= 0`` and v of ``t >= 0`` a step solves, twice with
one factorisation,

    (H + Z/X + V/T) da + F deta = right,    F'da = e - F'a

first for complementarity 0 (predictor), then for Mehrotra's mu with the second-order term (corrector). What solves with
``H + diag(theta)`` is a `System`; `DenseSystem` factorises a stored H, others exploit what H is made of.

Cost of `interior_point`: n^3/3 an iteration, some 10 to 20 iterations, two n x n matrices. Below 100 variables an
iteration takes about 0.1 ms, which is the overhead of its array operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.linalg import blas, lapack

from dualgap.constraints import InfeasibleProblemError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fraction of the way to the boundary a step may go: far from the solution, and at most.
TO_BOUNDARY, _CLOSEST = 0.995, 1.0 - 1e-8
# A smaller diagonal than this, beside the largest entries of H, is lost in float64; it keeps the matrix definite.
_JITTER = 1e-15
# Where a factorisation fails nevertheless the jitter grows by this, until it would spoil the direction.
_MORE_JITTER, _MOST_JITTER = 100.0, 1e-6
# A direction whose residual is this small, relative to its right-hand side, is as good as an exact one.
_EXACT = 1e-10
# Refinements of a direction at most; each costs a product with H and a solve.
_REFINEMENTS = 3
# A step shorter than this moves nothing.
_SHORTEST = 1e-12
# Iterations without a tenth less of complementarity or residual after which the arithmetic is exhausted.
_PATIENCE = 12
# Rounds of moving variables within their room until F'a = e; each removes nearly all of what can be removed.
_RESTORATIONS = 20
# What may be missing of F'a = e, relative to the terms of the sum: their rounding.
_MISSING = 1e-14


class System(Protocol):
    """What can multiply with H and solve with ``H + diag(theta) + F diag(rho) F'``."""

    rho: NDArray[np.float64]

    def product(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``H x``."""

    def factorise(self, theta: NDArray[np.float64]) -> None:
        """Prepare for the diagonal theta."""

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """For one right-hand side, or for each column of several."""


class DenseSystem:
    """A stored H.

    F is added to the matrix with weights rho, which changes no solution of ``F'da = ...`` and makes the matrix definite
    where H and theta vanish in directions that only the constraints hold (a linear kernel with few features).
    """

    def __init__(self, H: NDArray[np.float64], F: NDArray[np.float64]) -> None:
        self.H, self.n = H, H.shape[0]
        diagonal = H.ravel()[:: self.n + 1]
        self.size = max(float(diagonal.max()), 1e-300)
        self.rho = weights(F, float(diagonal.sum()) / self.n)
        self.F = np.asfortranarray(F * np.sqrt(self.rho))
        self.factor = np.empty((self.n, self.n), order="F")

    def product(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``H x``."""
        return self.H @ x

    def factorise(self, theta: NDArray[np.float64]) -> None:
        """Cholesky factor of ``H + diag(theta) + F diag(rho) F'``."""
        jitter = _JITTER
        while True:
            self.factor[...] = self.H
            if self.rho.size:
                blas.dgemm(1.0, self.F, self.F, beta=1.0, c=self.factor, trans_b=1, overwrite_c=1)
            self.factor.ravel(order="K")[:: self.n + 1] += theta + jitter * self.size
            failed = lapack.dpotrf(self.factor, lower=1, clean=0, overwrite_a=1)[1]
            if not failed:
                return
            jitter *= _MORE_JITTER
            if jitter > _MOST_JITTER:
                raise np.linalg.LinAlgError("the matrix of a Newton step is not positive definite")

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """By the Cholesky factor."""
        solved: NDArray[np.float64] = lapack.dpotrs(self.factor, right, lower=1)[0]
        return solved


def weights(F: NDArray[np.float64], curvature: float) -> NDArray[np.float64]:
    """A weight for each constraint that makes it as steep as H is on average."""
    squares = np.einsum("ij,ij->j", F, F) / max(1, F.shape[0])
    return np.where(squares > 0.0, max(curvature, 1e-300) / np.maximum(squares, 1e-300), 0.0)


class Iterate:
    """Where the method stands: slacks and multipliers of all bounds, multipliers of the constraints.

    Bounds are stacked, all lower ones before those upper ones that are finite. Every variable needs ``lo < hi``.

    Attributes
    ----------
    x : ndarray, shape (n,)
        ``a - lo``.
    slack, price : ndarray, shape (n + number of finite upper bounds,)
        Distances to the bounds and their multipliers, positive throughout.
    eta : ndarray, shape (k,)
        Multipliers of ``F'a = e``.
    """

    def __init__(
        self,
        system: System,
        f0: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        F: NDArray[np.float64],
        e: NDArray[np.float64],
    ) -> None:
        self.system, self.f0, self.lo, self.hi, self.F, self.e = system, f0, lo, hi, F, e
        self.n, self.k = F.shape
        finite = np.isfinite(hi)
        self.finite = finite
        self.upper: Any = slice(None) if finite.all() else np.flatnonzero(finite)
        width = (hi - lo)[self.upper]
        self.x = np.ones(self.n)
        self.x[self.upper] = 0.5 * width
        self.slack = np.concatenate([self.x, 0.5 * width])
        self.price = np.full(self.slack.size, max(1.0, float(np.abs(f0).max(initial=0.0))))
        self.eta = np.zeros(self.k)
        self._look()

    def _look(self) -> None:
        """Gradient, residuals and complementarity of where it stands."""
        self.a = self.lo + self.x
        self.gradient = self.system.product(self.a) + self.f0
        self.slope = self.gradient + self.F @ self.eta if self.k else self.gradient
        self.off = self.slope - self.price[: self.n]
        self.off[self.upper] += self.price[self.n :]
        self.missing = self.e - self.F.T @ self.a
        self.mu = float(self.slack @ self.price) / max(1, self.slack.size)

    def step(self) -> bool:
        """One predictor-corrector step; False where the arithmetic fails."""
        n, slack, price = self.n, self.slack, self.price
        quotient = price / slack
        theta = quotient[:n].copy()
        theta[self.upper] += quotient[n:]
        product = slack * price
        try:
            self.system.factorise(theta)
            newton = _Newton(self, theta)
            da, _ = newton.direction(-product)
            ds, dp = self._changes(da, -product)
            length = self._length(ds, dp, 1.0)
            after = float((slack + length * ds) @ (price + length * dp)) / slack.size
            target = (max(after, 0.0) / self.mu) ** 3 * self.mu
            wanted = target - product - ds * dp
            da, deta = newton.direction(wanted)
        except np.linalg.LinAlgError:
            return False
        ds, dp = self._changes(da, wanted)
        # Near the solution, where the targets fall fast, steps may go as far as they are good.
        length = self._length(ds, dp, min(max(TO_BOUNDARY, 1.0 - target / self.mu), _CLOSEST))
        if not length > _SHORTEST or not np.isfinite(da).all():
            return False
        self.slack = slack + length * ds
        self.price = price + length * dp
        self.x = self.slack[:n]
        self.eta = self.eta + length * deta
        self._look()
        return True

    def _changes(
        self, da: NDArray[np.float64], wanted: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Changes of slacks and prices that go with `da` and change their products by `wanted` to first order."""
        ds = np.concatenate([da, -da[self.upper]])
        return ds, (wanted - self.price * ds) / self.slack

    def _length(self, ds: NDArray[np.float64], dp: NDArray[np.float64], fraction: float) -> float:
        """The longest common step, at most 1, that keeps everything positive."""
        fastest = min(float((ds / self.slack).min()), float((dp / self.price).min()))
        return 1.0 if -fastest <= fraction else -fraction / fastest

    def settled(self) -> NDArray[np.float64]:
        """The iterate with clearly bounded variables put on their bounds and ``F'a = e`` restored by the others.

        Of a slack and its price, whose product tends to zero, the smaller one does: a variable closer to its bound,
        relative to its box, than its price is to zero, relative to the terms that slopes are made of, belongs there.
        """
        width = np.maximum(1.0, np.abs(self.a))
        width[self.upper] = (self.hi - self.lo)[self.upper]
        size = max(float(self.price.max()), float(np.abs(self.gradient).max()), float(np.abs(self.f0).max()), 1e-300)
        price = self.price / size
        down = self.x < price[: self.n] * width
        up = np.zeros(self.n, dtype=bool)
        up[self.upper] = self.slack[self.n :] < price[self.n :] * width[self.upper]
        # Beyond the upper bound the sum of lo and x may lie by rounding.
        inside = np.minimum(self.a, self.hi)
        a = np.where(down, self.lo, np.where(up, self.hi, inside))
        if self.k:
            if not restore(a, ~(down | up), self.lo, self.hi, self.F, self.e):
                a = inside
                restore(a, np.ones(self.n, dtype=bool), self.lo, self.hi, self.F, self.e)
        return a

    def violation(self, a: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
        """The worst slope that a variable of this point could still follow, with the iterate's multipliers."""
        slope = gradient + self.F @ self.eta
        worst = max(float(slope.max(initial=0.0, where=a > self.lo)), -float(slope.min(initial=0.0, where=a < self.hi)))
        return worst


class _Newton:
    """Directions from one factorisation, refined against the equations themselves."""

    def __init__(self, iterate: Iterate, theta: NDArray[np.float64]) -> None:
        self.at, self.theta = iterate, theta
        self.system, self.F, self.rho = iterate.system, iterate.F, iterate.system.rho
        if iterate.k:
            self.across = self.system.solve(self.F)
            self.schur = self.F.T @ self.across

    def direction(self, wanted: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Changes of a and eta that change slack times price by `wanted` and remove all residuals."""
        at, n = self.at, self.at.n
        pull = wanted / at.slack
        right = pull[:n] - at.off
        right[at.upper] -= pull[n:]
        return self._refined(right, at.missing)

    def _refined(
        self, right: NDArray[np.float64], below: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Solution of ``M da + F deta = right, F'da = below``."""
        da, deta = self._saddle(right, below)
        size = max(float(np.abs(right).max(initial=0.0)), 1e-300)
        best = np.inf
        for _ in range(_REFINEMENTS):
            left = right - self.system.product(da) - self.theta * da
            if self.at.k:
                left -= self.F @ deta
            missed = below - self.F.T @ da
            off = float(np.abs(left).max(initial=0.0)) / size
            if off <= _EXACT or not off < 0.5 * best:
                break
            best = off
            more_a, more_eta = self._saddle(left, missed)
            da, deta = da + more_a, deta + more_eta
        return da, deta

    def _saddle(
        self, right: NDArray[np.float64], below: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """By the Schur complement of F."""
        if not self.at.k:
            return self.system.solve(right), below
        first = self.system.solve(right + self.F @ (self.rho * below))
        deta = small_solve(self.schur, self.F.T @ first - below)
        return first - self.across @ deta, deta


def small_solve(S: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve with a small semidefinite matrix; the least solution where constraints repeat each other."""
    if right.size == 1:
        return right / S[0, 0] if S[0, 0] > 0.0 else np.zeros(1)
    scale = np.sqrt(np.maximum(np.diagonal(S), 1e-300))
    scaled = np.linalg.lstsq(S / np.outer(scale, scale), right / scale, rcond=None)[0]
    return np.asarray(scaled / scale, dtype=np.float64)


def restore(
    a: NDArray[np.float64],
    movable: NDArray[np.bool_],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    F: NDArray[np.float64],
    e: NDArray[np.float64],
) -> bool:
    """Move the movable variables, in place and by their room, until ``F'a = e``; whether that succeeded."""
    allowed = _MISSING * np.maximum(np.abs(F).T @ np.abs(a), np.abs(e))
    for _ in range(_RESTORATIONS):
        missing = e - F.T @ a
        if np.all(np.abs(missing) <= allowed):
            return True
        room = np.where(movable, np.minimum(a - lo, hi - a), 0.0)
        room = np.where(np.isfinite(room), room, 1.0 + np.abs(a))
        weighted = (room * room)[:, None] * F
        move = weighted @ small_solve(F.T @ weighted, missing)
        over = np.abs(move) > room
        if over.any():
            if not room.any():
                return False
            move *= 0.9 * float((room[over] / np.abs(move[over])).min())
        a += move
        np.clip(a, lo, hi, out=a)
    return bool(np.all(np.abs(e - F.T @ a) <= 10.0 * allowed))


def interior_point(
    H: NDArray[np.float64],
    f0: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    F: NDArray[np.float64],
    e: NDArray[np.float64],
    tol: float = 1e-8,
    max_iter: int = 60,
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """Minimise ``1/2 a'Ha + f0'a`` over the box ``[lo, hi]`` with ``F'a = e``.

    Parameters
    ----------
    H : ndarray, shape (n, n), float64
        Symmetric and positive semidefinite; may be singular.
    f0, lo, hi : ndarray, shape (n,)
        Linear term and box; ``lo = hi`` and infinite ``hi`` are allowed.
    F, e : ndarray, shapes (n, k) and (k,)
        Equality constraints; k may be 0.
    tol : float
        KKT violation to reach: the largest slope that a variable could still follow.
    max_iter : int
        Iterations at most.

    Returns
    -------
    a : ndarray, shape (n,)
        In the box exactly, on ``F'a = e`` to rounding.
    eta : ndarray, shape (k,)
        Multipliers of the constraints.
    converged : bool
        Whether `tol` was reached; otherwise `a` is the best point found.

    Raises
    ------
    InfeasibleProblemError
        When no point of the box satisfies the constraints.
    """
    free = hi > lo
    if not free.all():
        return _among_free(H, f0, lo, hi, F, e, tol, max_iter, free)
    iterate = Iterate(DenseSystem(H, F), f0, lo, hi, F, e)
    best, best_eta, least, waited = None, iterate.eta, np.inf, 0
    lowest = np.inf
    for iteration in range(max_iter + 1):
        progress = iterate.mu + float(np.abs(iterate.off).max()) + float(np.abs(iterate.missing).max(initial=0.0))
        waited = 0 if progress < 0.9 * lowest else waited + 1
        lowest = min(lowest, progress)
        last = iteration == max_iter or waited > _PATIENCE
        if last or float(np.abs(iterate.off).max()) <= max(tol, 1e-3 * float(np.abs(iterate.slope).max())):
            a = iterate.settled()
            violation = iterate.violation(a, H @ a + f0)
            if violation < least:
                best, best_eta, least = a, iterate.eta, violation
            if violation <= tol or last:
                break
        if not iterate.step():
            break
    return _feasible(best if best is not None else iterate.settled(), lo, hi, F, e), best_eta, least <= tol


def _among_free(
    H: NDArray[np.float64],
    f0: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    F: NDArray[np.float64],
    e: NDArray[np.float64],
    tol: float,
    max_iter: int,
    free: NDArray[np.bool_],
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    """The same with the fixed variables taken out."""
    a = lo.astype(np.float64)
    if not free.any():
        return _feasible(a, lo, hi, F, e), np.zeros(e.size), True
    at, fixed = np.flatnonzero(free), np.flatnonzero(~free)
    linear = f0[at] + H[np.ix_(at, fixed)] @ a[fixed]
    left = e - F[fixed].T @ a[fixed]
    a[at], eta, converged = interior_point(H[np.ix_(at, at)], linear, lo[at], hi[at], F[at], left, tol, max_iter)
    return a, eta, converged


def _feasible(
    a: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    F: NDArray[np.float64],
    e: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The point itself, or one on the constraints."""
    if e.size == 0 or np.all(np.abs(F.T @ a - e) <= 1e-12 * np.maximum(np.abs(F).T @ np.abs(a), np.abs(e) + 1e-300)):
        return a
    from scipy.optimize import linprog

    answer = linprog(np.zeros(a.size), A_eq=F.T, b_eq=e, bounds=np.column_stack([lo, hi]), method="highs")
    if answer.x is None:
        raise InfeasibleProblemError(f"The {e.size} equality constraints F'a = e cannot be met within the box.")
    a = np.clip(answer.x, lo, hi)
    restore(a, (a > lo) & (a < hi), lo, hi, F, e)
    return a
