"""The last digits of small problems: an equality-constrained quadratic program on the free variables, solved directly.

A solver that stops at a KKT violation of 1e-3 knows which variables are at bounds, nearly. With these fixed, what is
left is linear: for the free variables J, at the gradient g::

    [ H_JJ  F_J ] [ d   ]     [ -g_J      ]
    [ F_J'   0  ] [ eta ]  =  [ e - F'a   ]

A step d that would leave the box stops at the first bound, which is then one more that is fixed. Where the point at the
end satisfies the optimality conditions to rounding, it is the solution, whatever solver has led there: the function
of the machine is unique, and repeated rows and weights give the same one to the last few digits. Where it does not, the
bounds were not known well enough: pair steps go on to a violation a hundredth as large, and it is tried again.

Cost: a Cholesky factorisation of the free block for every bound that is met; for n up to a few hundred variables
this is below a millisecond each.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import lapack

from dualgap.certificate import certify
from dualgap.kernels.gram import FullGram
from dualgap.multipliers import best_multipliers
from dualgap.result import Certificate, Event, History, Result, Status
from dualgap.run import FEW, solve
from dualgap.solvers import smo

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# What rounding leaves of optimality conditions, relative to the sums that slopes are made of: a few hundred terms.
_EXACT = 1e-14
# Pair steps go on to this fraction of the violation before, this often at most (1e-3 to 1e-11).
_SHARPER, _TIMES = 1e-2, 4
# Steps a variable for all of that: beyond, the problem is ill-conditioned, and milliseconds would be seconds.
_STEPS_EACH = 400
# Added to the diagonal of a block that may be singular (repeated rows), relative to it; refinement takes it out again.
_RIDGE, _REFINEMENTS = 1e-12, 4
# Bounds met on the way to the minimiser of a face, at most: more say that the face was not the right one.
_BOUNDS_MET = 24


def finish(
    problem: DualQP,
    result: Result,
    *,
    max_iter: int = -1,
    callback: Callable[[Event], bool | None] | None = None,
) -> Result:
    """Take the solution of a small problem to the precision of float64.

    Parameters
    ----------
    problem : DualQP
        What was solved.
    result : Result
        How. A run that ended otherwise than converged, a problem of more than `run.FEW` variables, and one without a
        gap (an indefinite kernel) are returned as they are.
    max_iter : int
        Iterations that the run and this may take together; -1 for no limit.
    callback : callable or None
        Called with the event that ends the history; there is nothing left to stop.

    Returns
    -------
    Result
        The same or a better solution, certified anew.
    """
    if problem.n > FEW or result.status is not Status.CONVERGED or result.certificate.note:
        return result
    began = time.perf_counter()
    points = problem.points
    matrix = np.ascontiguousarray(problem.gram.block(points, points), dtype=np.float64)
    matrix = 0.5 * (matrix + matrix.T)
    place = np.searchsorted(points, problem.index)
    H = problem.sign[:, None] * (matrix if points is problem.index else matrix[np.ix_(place, place)]) * problem.sign
    H[np.diag_indices(problem.n)] += problem.ridge
    a, iterations, tol = result.a, result.iterations, result.certificate.kkt_violation
    for _ in range(_TIMES + 1):
        a, exact = _on_face(problem, H, a)
        tol *= _SHARPER
        budget = _budget(problem.n, result.iterations, iterations, max_iter)
        if exact or not tol > 0.0 or budget == 0:
            break
        stored = replace(problem, gram=FullGram(matrix, psd=True), index=place)
        if smo.supports(stored) is not None:
            break
        further = solve(stored, "smo", tol=tol, start=a, max_iter=budget, warn=False)
        a, iterations = further.a, iterations + further.iterations
        if further.status is not Status.CONVERGED:
            break
    certificate, eta = certify(problem, a, result.eta)
    if not certificate.kkt_violation <= result.certificate.kkt_violation:
        return result
    seconds = result.seconds + time.perf_counter() - began
    evaluations = result.kernel_evaluations + points.size**2
    last = _event(result.history, certificate, a, iterations, seconds, evaluations)
    if callback is not None:
        callback(last)
    return replace(
        result,
        a=a,
        eta=eta,
        certificate=certificate,
        history=History([*result.history.events, last]),
        iterations=iterations,
        kernel_evaluations=evaluations,
        seconds=seconds,
    )


def _event(
    history: History,
    certificate: Certificate,
    a: NDArray[np.float64],
    iterations: int,
    seconds: float,
    evaluations: int,
) -> Event:
    """The end of the run, for its history; what caches have done before they have done still."""
    found = (certificate.primal, certificate.dual, certificate.relative_gap, certificate.kkt_violation)
    caches = ("cache_hits", "cache_misses", "function_hits", "function_misses")
    counts = (getattr(history[-1], name) if len(history) else 0 for name in caches)
    return Event(iterations, seconds, *found, int(np.count_nonzero(a)), evaluations, *counts)


def _budget(n: int, first: int, now: int, max_iter: int) -> int:
    """Pair steps that may still be made."""
    left = first + _STEPS_EACH * n - now
    return max(0, left if max_iter < 0 else min(left, max_iter - now))


def _on_face(problem: DualQP, H: NDArray[np.float64], start: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """The minimiser with variables at bounds kept there, and whether it solves the problem; else the start."""
    a = np.clip(start, problem.lo, problem.hi)
    free = (a > problem.lo) & (a < problem.hi)
    for _ in range(_BOUNDS_MET):
        if not free.any():
            break
        J = np.flatnonzero(free)
        d = _newton(problem, H, a, J)
        if d is None:
            return start, False
        with np.errstate(divide="ignore", invalid="ignore"):
            room = np.where(d < 0.0, (problem.lo[J] - a[J]) / d, np.where(d > 0.0, (problem.hi[J] - a[J]) / d, np.inf))
        length = float(min(1.0, room.min()))
        met = room <= length
        a[J] += length * d
        a[J[met]] = np.where(d[met] < 0.0, problem.lo[J[met]], problem.hi[J[met]])
        free[J[met]] = False
        if length == 1.0 and not met.any():
            break
    else:
        return start, False
    return (a, True) if _solves(problem, H, a) else (start, False)


def _newton(
    problem: DualQP, H: NDArray[np.float64], a: NDArray[np.float64], J: NDArray[np.intp]
) -> NDArray[np.float64] | None:
    """The step to the minimiser over the free variables; None where their block is not positive semidefinite."""
    block, F = H[np.ix_(J, J)], problem.F[J]
    damped = block.copy()
    damped[np.diag_indices(J.size)] += _RIDGE * max(float(np.diag(block).max()), np.finfo(float).tiny)
    # LAPACK itself: what surrounds it in scipy.linalg takes longer than a system of a hundred variables.
    factor, failed = lapack.dpotrf(damped, lower=1)
    if failed:
        return None
    through = lapack.dpotrs(factor, F, lower=1)[0]
    coupling = _inverse(F.T @ through)
    slope, missing = H[J] @ a + problem.f0[J], problem.e - problem.F.T @ a
    d, eta = np.zeros(J.size), np.zeros(problem.k)
    for _ in range(_REFINEMENTS):
        off = -(slope + block @ d + F @ eta)
        straight = lapack.dpotrs(factor, off, lower=1)[0]
        shift = coupling @ (F.T @ straight - (missing - F.T @ d))
        eta += shift
        d += straight - through @ shift
    return d if np.all(np.isfinite(d)) else None


def _inverse(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """The inverse of a small semidefinite matrix where it has one.

    Constraints may depend on each other over few free variables; the multipliers are then not unique, the step is.
    """
    if matrix.shape == (1, 1):  # nearly always, and the fit is a millisecond in all
        return np.divide(1.0, matrix, out=np.zeros((1, 1)), where=matrix > 0.0)
    return np.asarray(np.linalg.pinv(matrix, hermitian=True, rcond=_RIDGE), dtype=np.float64)


def _solves(problem: DualQP, H: NDArray[np.float64], a: NDArray[np.float64]) -> bool:
    """Whether the optimality conditions hold to rounding."""
    slope = H @ a + problem.f0 - problem.ridge * a
    s = slope + problem.F @ best_multipliers(problem, slope) + problem.ridge * a
    violation = max(float(s[a > problem.lo].max(initial=0.0)), float(-(s[a < problem.hi].min(initial=0.0))))
    scale = float((np.abs(H) @ np.abs(a) + np.abs(problem.f0)).max())
    sums = float(np.abs(problem.F.T @ a - problem.e).max(initial=0.0))
    size = float((np.abs(problem.F).T @ np.abs(a) + np.abs(problem.e)).max(initial=0.0))
    return violation <= problem.n * _EXACT * scale and sums <= problem.n * _EXACT * size
