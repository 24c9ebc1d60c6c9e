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

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from scipy.linalg import blas, lapack

from dualgap.constraints import InfeasibleProblemError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Fraction of the way to the boundary a step may go: far from the solution, and at most.
TO_BOUNDARY, _CLOSEST = 0.995, 1.0 - 1e-8
# Further correctors (Gondzio) a step may take, each for a longer step: how much longer it is tried for, the share of
# that which it must bring, the step that is long enough, and how far products may stray from their target, either way.
_CORRECTORS, _LONGER, _WORTH, _LONG, _STRAY = 2, 0.3, 0.1, 0.9, 10.0
# Slacks and prices below this are about to vanish from float64: there is nothing left to gain.
_VANISHING = 1e-150
# A smaller diagonal than this, beside the largest entries of H, is lost in float64; it keeps the matrix definite.
_JITTER = 1e-15
# Where a factorisation fails nevertheless the jitter grows by this, until it would spoil the direction.
_MORE_JITTER, _MOST_JITTER = 100.0, 1e-6
# A direction whose residual is this small, relative to its right-hand side, is as good as an exact one.
_EXACT = 1e-12
# Refinements of a direction at most, each a product with H and a solve, and what each may leave of the residual.
_REFINEMENTS, _HELPED = 4, 0.5
# Eigenvalues of a few constraints' Schur complement below this share of the largest mean that they repeat each other.
_RANK = 1e-15
# A step shorter than this moves nothing.
_SHORTEST = 1e-12
# Iterations without a tenth less of complementarity or residual after which the arithmetic is exhausted.
_PATIENCE = 12
# Ratio of relative distance to relative price that leaves no doubt which of the two vanishes.
CLEARLY = 1e-4
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
        for jitter in jitters():
            self.factor[...] = self.H
            if self.rho.size:
                blas.dgemm(1.0, self.F, self.F, beta=1.0, c=self.factor, trans_b=1, overwrite_c=1)
            self.factor.ravel(order="K")[:: self.n + 1] += theta + jitter * self.size
            failed = lapack.dpotrf(self.factor, lower=1, clean=0, overwrite_a=1)[1]
            if not failed:
                return

    def solve(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """By the Cholesky factor."""
        solved: NDArray[np.float64] = lapack.dpotrs(self.factor, right, lower=1)[0]
        return solved


def jitters() -> Iterator[float]:
    """What to add to the diagonal, relative to the largest entry, until a factorisation succeeds."""
    jitter = _JITTER
    while jitter <= _MOST_JITTER:
        yield jitter
        jitter *= _MORE_JITTER
    raise np.linalg.LinAlgError("the matrix of a Newton step is not positive definite")


def weights(F: NDArray[np.float64], curvature: float) -> NDArray[np.float64]:
    """A weight for each constraint that makes it as steep as H is on average."""
    squares = np.einsum("ij,ij->j", F, F) / max(1, F.shape[0])
    return np.where(squares > 0.0, max(curvature, 1e-300) / np.maximum(squares, 1e-300), 0.0)


# Changes of a and of eta.
Pair = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


class Move(NamedTuple):
    """Changes of a, eta, slacks and prices, and the longest common step, at most 1, that keeps everything positive."""

    a: NDArray[np.float64]
    eta: NDArray[np.float64]
    slack: NDArray[np.float64]
    price: NDArray[np.float64]
    length: float


class Iterate:
    """Where the method stands: slacks and multipliers of all bounds, multipliers of the constraints.

    Bounds are stacked, all lower ones before those upper ones that are finite. Every variable needs ``lo < hi``.

    Parameters
    ----------
    system : System
        H and what solves with it.
    f0, lo, hi, F, e : ndarray
        The rest of the problem.
    size : float
        Of the slopes at the solution, roughly; 0 where nobody knows.

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
        size: float,
    ) -> None:
        self.size = size
        self.system, self.f0, self.lo, self.hi, self.F, self.e = system, f0, lo, hi, F, e
        self.n, self.k = F.shape
        finite = np.isfinite(hi)
        self.finite = finite
        self.upper: Any = slice(None) if finite.all() else np.flatnonzero(finite)
        self._begin()

    def _begin(self) -> None:
        """The middle of the box (1 above lo where there is no upper bound), multipliers of the size of the slopes."""
        x = np.ones(self.n)
        x[self.upper] = 0.5 * (self.hi - self.lo)[self.upper]
        self.place(x, np.ones(self.n))
        self.place(x, np.full(self.n, self.size or float(np.abs(self.gradient).mean()) or 1.0))

    def place(self, x: NDArray[np.float64], price: NDArray[np.float64], eta: NDArray[np.float64] | None = None) -> None:
        """Stand at ``a = lo + x`` with the same `price` for both bounds of a variable."""
        self.slack = np.concatenate([x, (self.hi - self.lo - x)[self.upper]])
        self.x = self.slack[: self.n]
        self.price = np.concatenate([price, price[self.upper]])
        self.eta = np.zeros(self.k) if eta is None else eta
        self.length = 0.0
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
        if not min(float(self.slack.min()), float(self.price.min())) > _VANISHING:
            return False
        quotient = self.price / self.slack
        theta = quotient[: self.n].copy()
        theta[self.upper] += quotient[self.n :]
        try:
            self.system.factorise(theta)
            newton = Newton(self, theta)
            move = self._move(newton)
        except np.linalg.LinAlgError:
            return False
        if not move.length > _SHORTEST or not np.isfinite(move.a).all():
            return False
        self.slack = self.slack + move.length * move.slack
        self.price = self.price + move.length * move.price
        self.x = self.slack[: self.n]
        self.eta = self.eta + move.length * move.eta
        self.length = move.length
        self._look()
        return True

    def _move(self, newton: Newton) -> Move:
        """Mehrotra's predictor and corrector, and correctors for longer steps.

        The predictor aims at zero. What it would leave of the complementarity, cubed, says how much to aim at; the
        products of its changes are the error of linearising.
        """
        product = self.slack * self.price
        predicted = self._toward(newton, -product, 1.0)
        after = (self.slack + predicted.length * predicted.slack) @ (self.price + predicted.length * predicted.price)
        share = (max(float(after), 0.0) / self.slack.size / self.mu) ** 3
        target = share * self.mu
        # Near the solution, where the targets fall fast, steps may go as far as they are good.
        fraction = min(max(TO_BOUNDARY, 1.0 - share), _CLOSEST)
        wanted = target - product - predicted.slack * predicted.price
        move = self._toward(newton, wanted, fraction)
        for _ in range(_CORRECTORS):
            if move.length >= _LONG:
                break
            reach = min(1.0, move.length + _LONGER)
            trial = (self.slack + reach * move.slack) * (self.price + reach * move.price)
            back = np.clip(trial, target / _STRAY, target * _STRAY) - trial
            other = wanted + np.maximum(back, -target * _STRAY)
            longer = self._toward(newton, other, fraction)
            if longer.length < move.length + _WORTH * _LONGER:
                break
            move, wanted = longer, other
        return self._toward(newton, wanted, fraction, move)

    def _toward(self, newton: Newton, wanted: NDArray[np.float64], fraction: float, rough: Move | None = None) -> Move:
        """The move that changes slack times price by `wanted`, to first order, and its length; refined from `rough`."""
        da, deta = newton.direction(wanted) if rough is None else newton.direction(wanted, (rough.a, rough.eta))
        ds = np.concatenate([da, -da[self.upper]])
        dp = (wanted - self.price * ds) / self.slack
        fastest = min(float((ds / self.slack).min()), float((dp / self.price).min()))
        return Move(da, deta, ds, dp, 1.0 if -fastest <= fraction else -fraction / fastest)

    def settled(self, snap: float = 1.0) -> NDArray[np.float64]:
        """The iterate with clearly bounded variables put on their bounds and ``F'a = e`` restored by the others.

        Of a slack and its price, whose product tends to zero, the smaller one does: a variable closer to its bound,
        relative to its box, than its price is to zero, relative to the terms that slopes are made of, belongs there.
        `snap` is how much closer: 1 decides for every variable, `CLEARLY` leaves those alone for which both vanish, and
        0 restores the constraints alone.
        """
        # Beyond the upper bound the sum of lo and x may lie by rounding.
        inside = np.minimum(self.a, self.hi)
        if snap == 0.0:
            restore(inside, np.ones(self.n, dtype=bool), self.lo, self.hi, self.F, self.e)
            return inside
        width = np.maximum(1.0, np.abs(self.a))
        width[self.upper] = (self.hi - self.lo)[self.upper]
        size = max(float(self.price.max()), float(np.abs(self.gradient).max()), float(np.abs(self.f0).max()), 1e-300)
        price = snap / size * self.price
        down = self.x < price[: self.n] * width
        up = np.zeros(self.n, dtype=bool)
        up[self.upper] = self.slack[self.n :] < price[self.n :] * width[self.upper]
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


class Newton:
    """Directions from one factorisation, which may be refined against the equations themselves."""

    def __init__(self, iterate: Iterate, theta: NDArray[np.float64]) -> None:
        self.at, self.theta = iterate, theta
        self.system, self.F, self.rho = iterate.system, iterate.F, iterate.system.rho
        if iterate.k:
            self.across = self.system.solve(self.F)
            self.inverse = small_inverse(self.F.T @ self.across)

    def direction(self, wanted: NDArray[np.float64], rough: Pair | None = None) -> Pair:
        """Changes of a and eta that change slack times price by `wanted` and remove all residuals."""
        at, n = self.at, self.at.n
        pull = wanted / at.slack
        right = pull[:n] - at.off
        right[at.upper] -= pull[n:]
        return self.solve(right, at.missing) if rough is None else self.refine(right, at.missing, rough)

    def solve(self, right: NDArray[np.float64], below: NDArray[np.float64]) -> Pair:
        """``(H + theta) da + F deta = right, F'da = below`` by the Schur complement of F."""
        if not self.at.k:
            return self.system.solve(right), below
        first = self.system.solve(right + self.F @ (self.rho * below))
        deta = self.inverse @ (self.F.T @ first - below)
        return first - self.across @ deta, deta

    def refine(self, right: NDArray[np.float64], below: NDArray[np.float64], rough: Pair) -> Pair:
        """The same, from a solution that rounding has blurred."""
        size = max(float(np.abs(right).max(initial=0.0)), 1e-300)
        best, least = rough, np.inf
        for _ in range(_REFINEMENTS):
            da, deta = rough
            left = right - self.system.product(da) - self.theta * da
            if self.at.k:
                left -= self.F @ deta
            off = float(np.abs(left).max(initial=0.0)) / size
            if not off < _HELPED * least:
                break
            best, least = rough, off
            if off <= _EXACT:
                break
            more_a, more_eta = self.solve(left, below - self.F.T @ da)
            rough = da + more_a, deta + more_eta
        return best


def small_inverse(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Inverse of a small semidefinite matrix; the least one where constraints repeat each other."""
    if S.size == 1:
        return 1.0 / S if S[0, 0] > 0.0 else np.zeros((1, 1))
    scale = 1.0 / np.sqrt(np.maximum(np.diagonal(S), 1e-300))
    spectrum, vectors = np.linalg.eigh(S * np.outer(scale, scale))
    kept = spectrum > _RANK * spectrum[-1]
    scaled = (vectors[:, kept] / spectrum[kept]) @ vectors[:, kept].T
    return np.asarray(scaled * np.outer(scale, scale), dtype=np.float64)


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
        move = weighted @ (small_inverse(F.T @ weighted) @ missing)
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
    iterate = Iterate(DenseSystem(H, F), f0, lo, hi, F, e, float(np.abs(f0).max()))
    best, best_eta, least, waited = None, iterate.eta, np.inf, 0
    lowest = np.inf
    for iteration in range(max_iter + 1):
        progress = iterate.mu + float(np.abs(iterate.off).max()) + float(np.abs(iterate.missing).max(initial=0.0))
        waited = 0 if progress < 0.9 * lowest else waited + 1
        lowest = min(lowest, progress)
        last = iteration == max_iter or waited > _PATIENCE
        if last or float(np.abs(iterate.off).max()) <= max(tol, 1e-3 * float(np.abs(iterate.slope).max())):
            for snap in (1.0, CLEARLY):
                a = iterate.settled(snap)
                violation = iterate.violation(a, H @ a + f0)
                if violation < least:
                    best, best_eta, least = a, iterate.eta, violation
                if violation <= tol:
                    break
            if least <= tol or last:
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
