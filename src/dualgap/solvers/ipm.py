"""Primal-dual interior point method, predictor-corrector, for any number of equality constraints.

Problem (see `dualgap.problem`)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

Steps (lecture, "Interior Point Methods", with a_i xi_i = mu for each i; Mehrotra's choice of mu). With multipliers
z of ``a >= lo`` and v of ``a <= hi`` each iteration solves, twice with one factorisation,

    (H + Z/X + V/T) da + F deta = -r_d + ...,    F'da = -r_p,    X = a - lo,  T = hi - a

first for mu = 0 (predictor), then for mu = (mu_predicted / mu)^3 mu with the second-order term (corrector).

The system is reduced from variables to points, solved by a Cholesky factorisation and the Schur complement of F, and
refined against the residual of the whole.

Cost of an iteration: m^3/3 for m points; memory two dense m x m matrices. Use it for small problems to high accuracy
and for coupled constraints (semi-parametric models). It starts from the middle of the box, so a starting point is used
only to correct rounded kernel entries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

from dualgap.certificate import exact_gradient, indefinite, judge
from dualgap.constraints import FEASIBLE, feasible_start
from dualgap.result import Outcome, Snapshot, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP

# Two dense matrices of 5000 points are 0.4 GB, and a fit takes some twenty factorisations of a second each.
_MOST_POINTS = 5000
# Columns of the factorisation done at a time: a tenth of a second at most between two, and BLAS at full speed.
_BLOCK = 512
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
    max_iter : int
        Iterations at most; -1 for no limit (it ends by itself within some 100).
    """

    tol: float = 1e-3
    max_iter: int = -1


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    points = int(np.unique(problem.index).size)
    if points > _MOST_POINTS:
        return f"ipm factorises a dense matrix over the points, and {points} are more than the {_MOST_POINTS} it takes"
    if indefinite(problem.gram, problem.index):
        return "ipm needs a convex problem, and the kernel matrix is indefinite"
    return None


def _dense_kernel(gram: Gram, points: NDArray[np.intp]) -> NDArray[np.float64]:
    block = np.asarray(gram.block(points, points), dtype=np.float64)
    return 0.5 * (block + block.T)


def _factorise_in_blocks(M: NDArray[np.float64]) -> None:
    """Cholesky factor of M into its lower triangle, block by block, so that an interrupt is answered in between."""
    n = M.shape[0]
    for start in range(0, n, _BLOCK):
        stop = min(start + _BLOCK, n)
        M[start:stop, start:stop] = sla.cholesky(M[start:stop, start:stop], lower=True, check_finite=False)
        if stop < n:
            corner, panel = M[start:stop, start:stop], M[stop:, start:stop]
            panel[...] = sla.solve_triangular(corner, panel.T, lower=True, check_finite=False).T
            for begin in range(stop, n, _BLOCK):
                end = min(begin + _BLOCK, n)
                M[begin:, begin:end] -= M[begin:, start:stop] @ M[begin:end, start:stop].T


class _System:
    """Solves ``(S K S' + diag(theta)) x = r``, S the signed map from points to variables.

    With ``b = S'x`` (the change of the kernel coefficients) and ``E = S' diag(1/theta) S`` it reduces to the points:
    ``(K + 1/E) b = S'(r/theta) / E``, and ``x = (r - S K b) / theta``. The variable of a point with the smallest theta,
    for which that quotient would magnify rounding, is read off b instead.
    """

    def __init__(self, problem: DualQP) -> None:
        points, self.at = np.unique(problem.index, return_inverse=True)
        self.sign, self.ridge = problem.sign, problem.ridge
        self.K = _dense_kernel(problem.gram, points)

    def onto_points(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.bincount(self.at, self.sign * x, self.K.shape[0]).astype(np.float64, copy=False)

    def onto_variables(self, b: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.sign * b[self.at]

    def hessian(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``H x``."""
        return self.onto_variables(self.K @ self.onto_points(x)) + self.ridge * x

    def factorise(self, theta: NDArray[np.float64]) -> None:
        """Prepare for the diagonal theta (the ridge included)."""
        self.theta = theta
        self.E = np.bincount(self.at, weights=1.0 / theta, minlength=self.K.shape[0])
        order = np.argsort(theta, kind="stable")
        self.pivot = order[np.unique(self.at[order], return_index=True)[1]]
        M = self.K.copy()
        # Beside the largest entries a smaller diagonal than this is lost anyway; it keeps M definite in float64.
        M[np.diag_indices_from(M)] += 1.0 / self.E + 1e-15 * float(np.abs(np.diag(self.K)).max(initial=1.0))
        _factorise_in_blocks(M)
        self.cholesky = (M, True)

    def solve(self, r: NDArray[np.float64]) -> NDArray[np.float64]:
        """One right-hand side."""
        b = sla.cho_solve(self.cholesky, self.onto_points(r / self.theta) / self.E, check_finite=False)
        x = (r - self.onto_variables(self.K @ b)) / self.theta
        x[self.pivot] = 0.0
        x[self.pivot] = self.sign[self.pivot] * (b - self.onto_points(x))
        return x


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
        f0 = exact_gradient(problem, start) - system.hessian(start)
    free = problem.hi > problem.lo
    finite = np.isfinite(problem.hi) & free
    state = _start(problem, f0, free, finite)
    best, best_gap, best_violation, waited = fallback, np.inf, np.inf, 0
    iteration = 0
    while True:
        point = _settled(problem, state, free, finite)
        gradient = system.hessian(point) + f0
        certificate, _ = judge(problem, point, gradient, state.eta)
        if certificate.gap < best_gap or certificate.kkt_violation < best_violation:
            waited = 0 if certificate.gap < 0.99 * best_gap else waited + 1
            best = point
            best_gap, best_violation = min(best_gap, certificate.gap), min(best_violation, certificate.kkt_violation)
        else:
            waited += 1
        stop = callback(Snapshot(iteration, point, gradient, None, certificate.kkt_violation, system.K.size))
        if stop:
            return Outcome(point, iteration, Status.STOPPED)
        if certificate.kkt_violation <= options.tol and certificate.infeasibility <= FEASIBLE:
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


def _start(problem: DualQP, f0: NDArray[np.float64], free: NDArray[np.bool_], finite: NDArray[np.bool_]) -> _State:
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
    theta = np.where(free, s.z / x + s.v / t, 1e16) + problem.ridge
    count = max(1, int(free.sum() + finite.sum()))
    mu = float((s.z * x)[free].sum() + (s.v * t)[finite].sum()) / count
    r_dual = np.where(free, system.hessian(s.a) + f0 + problem.F @ s.eta - s.z + s.v, 0.0)
    r_primal = problem.F.T @ s.a - problem.e
    try:
        system.factorise(theta)
        solved = np.array([system.solve(column) for column in problem.F.T]).reshape(problem.k, problem.n).T
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
        # theta holds the ridge already, which the Hessian's product adds once more.
        left = system.hessian(da) + (theta - problem.ridge) * da + problem.F @ deta
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


def _settled(problem: DualQP, s: _State, free: NDArray[np.bool_], finite: NDArray[np.bool_]) -> NDArray[np.float64]:
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
