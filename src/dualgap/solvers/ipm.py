"""Primal-dual interior point method, predictor-corrector, for any number of equality constraints.

Problem (see `dualgap.problem`)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

Steps (lecture, "Interior Point Methods", with a_i xi_i = mu for each i; Mehrotra's choice of mu). With multipliers
z of ``a >= lo`` and v of ``a <= hi`` each iteration solves, twice with one factorisation,

    (H + Z/X + V/T) da + F deta = -r_d + ...,    F'da = -r_p,    X = a - lo,  T = hi - a

first for mu = 0 (predictor), then for mu = (mu_predicted / mu)^3 mu with the second-order term (corrector).

The system is solved by a Cholesky factorisation of ``H + Z/X + V/T`` and the Schur complement of F, refined against
the residual of the whole.

Cost of an iteration: n^3/3; memory two dense n x n matrices. Use it for small problems to high accuracy and for coupled
constraints (semi-parametric models). It starts from the middle of the box, so a starting point is used only to correct
rounded kernel entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

from dualgap.certificate import exact_gradient, judge
from dualgap.constraints import feasible_start
from dualgap.result import Outcome, Snapshot, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP

# Two dense matrices of 6000 variables are 0.6 GB and a factorisation takes a second: a fit of half a minute.
_MOST_VARIABLES = 6000
# An eigenvalue below this fraction of the largest is negative beyond rounding.
_NEGATIVE = 1e-8
# A point further from its constraints than this, relative to the sums they are made of, is not a solution.
_FEASIBLE = 1e-9
# Fraction of the way to the boundary a step may go.
_TO_BOUNDARY = 0.995
# Iterations without a hundredth less gap after which the arithmetic is exhausted.
_PATIENCE = 15


@dataclass(frozen=True)
class Options:
    """Settings of `ipm`.

    Attributes
    ----------
    tol : float
        KKT violation to reach.
    first_tol : float
        Not used: every iteration is looked at anyway.
    max_iter : int
        Iterations at most; -1 for no limit (it ends by itself within some 100).
    shrinking : bool
        Not used: accepted so that estimators can pass it to any solver.
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    shrinking: bool = True


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    if problem.n > _MOST_VARIABLES:
        return (
            f"ipm factorises a dense matrix over the variables, and {problem.n} of them are more than the "
            f"{_MOST_VARIABLES} it takes"
        )
    if not problem.gram.psd:
        K = _dense_kernel(problem.gram, np.unique(problem.index))
        spectrum = np.linalg.eigvalsh(K)
        if spectrum[0] < -_NEGATIVE * max(float(spectrum[-1]), 0.0):
            return "ipm needs a convex problem, and the kernel matrix is indefinite"
    return None


def _dense_kernel(gram: Gram, points: NDArray[np.intp]) -> NDArray[np.float64]:
    block = np.asarray(gram.block(points, points), dtype=np.float64)
    return 0.5 * (block + block.T)


class _System:
    """The matrix ``M = H + diag(theta)`` and its factorisation."""

    def __init__(self, problem: DualQP) -> None:
        points, at = np.unique(problem.index, return_inverse=True)
        signed = problem.sign[:, None] * _dense_kernel(problem.gram, points)[np.ix_(at, at)]
        signed *= problem.sign[None, :]
        signed[np.diag_indices_from(signed)] += problem.ridge
        self.H = signed

    def factorise(self, theta: NDArray[np.float64]) -> None:
        M = self.H.copy()
        # Beside the largest entries a smaller diagonal than this is lost anyway; it keeps M definite in float64.
        M[np.diag_indices_from(M)] += theta + 1e-15 * float(np.abs(np.diag(self.H)).max(initial=1.0))
        self.cholesky = sla.cho_factor(M, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        return sla.cho_solve(self.cholesky, r, check_finite=False)


def solve(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        x = self.inverse * r
        q = self.onto_points(x) / self.D
        if self.A is None:
            y = sla.cho_solve(self.cholesky, q, check_finite=False)
        else:
            scaled = self.D[:, None] * self.A
            y = q - scaled @ sla.cho_solve(self.cholesky, scaled.T @ q, check_finite=False)
        return x - self.inverse * self.onto_variables(self.kernel(self.D * y))


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise; `start` is where the exact gradient corrects that of rounded kernel entries."""
    fallback = feasible_start(problem)  # raises where there is no feasible point at all
    system = _System(problem)
    f0 = problem.f0
    if start is not None:
        f0 = exact_gradient(problem, start) - system.H @ start
    free = problem.hi > problem.lo
    finite = np.isfinite(problem.hi) & free
    state = _start(problem, f0, free, finite)
    best, best_gap, best_violation, waited = fallback, np.inf, np.inf, 0
    iteration = 0
    while True:
        point = _settled(problem, state, free, finite)
        gradient = system.H @ point + f0
        certificate, _ = judge(problem, point, gradient, state.eta)
        if certificate.gap < best_gap or certificate.kkt_violation < best_violation:
            waited = 0 if certificate.gap < 0.99 * best_gap else waited + 1
            best = point
            best_gap, best_violation = min(best_gap, certificate.gap), min(best_violation, certificate.kkt_violation)
        else:
            waited += 1
        stop = callback(
            Snapshot(iteration, point, gradient, None, certificate.kkt_violation, problem.gram.evaluations)
        )
        if stop:
            return Outcome(point, iteration, Status.STOPPED)
        if certificate.kkt_violation <= options.tol and certificate.infeasibility <= _FEASIBLE:
            return Outcome(point, iteration, Status.CONVERGED)
        if 0 <= options.max_iter <= iteration:
            return Outcome(best, iteration, Status.MAX_ITER)
        if waited >= _PATIENCE or not _step(problem, system, state, f0, free, finite):
            return Outcome(best, iteration, Status.STALLED)
        iteration += 1


@dataclass
class _State:
    """The iterate: variables, multipliers of the constraints and of both bounds."""

    a: NDArray[np.float64]
    eta: NDArray[np.float64]
    z: NDArray[np.float64]
    v: NDArray[np.float64]


def _start(
    problem: DualQP, f0: NDArray[np.float64], free: NDArray[np.bool_], finite: NDArray[np.bool_]
) -> _State:
    """The middle of the box (1 above lo where there is no upper bound), multipliers of the size of the slopes."""
    a = np.where(finite, 0.5 * (problem.lo + np.where(finite, problem.hi, 0.0)), problem.lo + 1.0)
    a = np.where(free, a, problem.lo)
    size = max(1.0, float(np.abs(f0).max()))
    return _State(a, np.zeros(problem.k), np.where(free, size, 0.0), np.where(finite, size, 0.0))


def _step(
    problem: DualQP,
    system: _System,
    s: _State,
    f0: NDArray[np.float64],
    free: NDArray[np.bool_],
    finite: NDArray[np.bool_],
) -> bool:
    """One predictor-corrector step; False where the arithmetic fails."""
    x = np.where(free, s.a - problem.lo, 1.0)
    t = np.where(finite, problem.hi - s.a, 1.0)
    # A fixed variable (lo = hi) is held by a huge diagonal, so that all vectors keep their length.
    theta = np.where(free, s.z / x + s.v / t, 1e16)
    count = max(1, int(free.sum() + finite.sum()))
    mu = float((s.z * x)[free].sum() + (s.v * t)[finite].sum()) / count
    r_dual = np.where(free, system.H @ s.a + f0 + problem.F @ s.eta - s.z + s.v, 0.0)
    r_primal = problem.F.T @ s.a - problem.e
    try:
        system.factorise(theta)
        solved = system.solve(problem.F) if problem.k else np.zeros((problem.n, 0))
        schur = problem.F.T @ solved

        def direction(
            low: NDArray[np.float64], high: NDArray[np.float64]
        ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
            """Solve with complementarity targets ``x z -> low`` and ``t v -> high`` (changes of the products)."""
            right = -r_dual + np.where(free, low / x, 0.0) - np.where(finite, high / t, 0.0)
            da, deta = _saddle(problem, system, solved, schur, theta, right, -r_primal)
            da = np.where(free, da, 0.0)
            dz = np.where(free, (low - s.z * da) / x, 0.0)
            dv = np.where(finite, (high + s.v * da) / t, 0.0)
            return da, deta, dz, dv

        da, _, dz, dv = direction(-s.z * x, -s.v * t)
        length = _length(s, x, t, da, dz, dv, free, finite, 1.0)
        after = ((s.z + length * dz) * (x + length * da))[free].sum()
        after += ((s.v + length * dv) * (t - length * da))[finite].sum()
        target = (max(float(after), 0.0) / count / mu) ** 3 * mu
        da, deta, dz, dv = direction(target - s.z * x - dz * da, target - s.v * t + dv * da)
    except (np.linalg.LinAlgError, FloatingPointError):
        return False
    if not (np.all(np.isfinite(da)) and np.all(np.isfinite(deta))):
        return False
    length = _length(s, x, t, da, dz, dv, free, finite, _TO_BOUNDARY)
    if length < 1e-12:  # a step that moves nothing
        return False
    s.a = s.a + length * da
    s.eta = s.eta + length * deta
    s.z, s.v = s.z + length * dz, s.v + length * dv
    return True


def _saddle(
    problem: DualQP,
    system: _System,
    solved: NDArray[np.float64],
    schur: NDArray[np.float64],
    theta: NDArray[np.float64],
    right: NDArray[np.float64],
    below: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``M da + F deta = right, F'da = below`` by the Schur complement, refined twice against the system itself."""
    da, deta = np.zeros(problem.n), np.zeros(problem.k)
    for _ in range(3):
        left = system.H @ da + theta * da + problem.F @ deta
        first = system.solve(right - left)
        if problem.k:
            more = np.linalg.lstsq(schur, problem.F.T @ first - (below - problem.F.T @ da), rcond=None)[0]
            da, deta = da + first - solved @ more, deta + more
        else:
            da = da + first
    return da, deta


def _length(
    s: _State,
    x: NDArray[np.float64],
    t: NDArray[np.float64],
    da: NDArray[np.float64],
    dz: NDArray[np.float64],
    dv: NDArray[np.float64],
    free: NDArray[np.bool_],
    finite: NDArray[np.bool_],
    fraction: float,
) -> float:
    """The longest common step, at most 1, that keeps everything positive."""
    most = 1.0
    for value, change, where in ((x, da, free), (s.z, dz, free), (t, -da, finite), (s.v, dv, finite)):
        falling = where & (change < 0.0)
        if falling.any():
            most = min(most, fraction * float(np.min(-value[falling] / change[falling])))
    return most


def _settled(
    problem: DualQP, s: _State, free: NDArray[np.bool_], finite: NDArray[np.bool_]
) -> NDArray[np.float64]:
    """The iterate with clearly bounded variables put on their bounds and ``F'a = e`` restored by the others.

    Of ``x z = mu`` the smaller factor tends to zero: a variable closer to its bound, relative to its box, than its
    multiplier is to zero, relative to the slopes, belongs there.
    """
    width = np.where(finite, problem.hi - problem.lo, np.maximum(1.0, np.abs(s.a)))
    size = max(float(np.abs(s.z).max(initial=0.0)), float(np.abs(s.v).max(initial=0.0)), 1e-300)
    down = free & ((s.a - problem.lo) / width < s.z / size)
    up = finite & ((problem.hi - s.a) / width < s.v / size) & ~down
    a = np.where(down, problem.lo, np.where(up, problem.hi, s.a))
    between = free & ~down & ~up
    if problem.k and between.any():
        room = np.where(between, np.minimum(s.a - problem.lo, np.where(finite, problem.hi - s.a, np.inf)), 0.0)
        missing = problem.e - problem.F.T @ a
        weighted = (room * room)[:, None] * problem.F
        move = weighted @ np.linalg.lstsq(problem.F.T @ weighted, missing, rcond=None)[0]
        if np.all(np.abs(move) <= room):
            return a + move
    # Too few variables are free to restore the constraints: the iterate itself is as feasible as it gets.
    return np.clip(s.a, problem.lo, problem.hi) if problem.k else a
