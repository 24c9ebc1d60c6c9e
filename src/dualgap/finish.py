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

from dualgap._finish_face import minimise_on_face, miss, signed_matrix, slopes
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
    stored = isinstance(problem.gram, FullGram)
    matrix = problem.gram.matrix if stored else np.asarray(problem.gram.block(points, points))  # type: ignore[attr-defined]
    place = problem.index if stored else np.searchsorted(points, problem.index)
    H = signed_matrix(matrix, place, problem.sign, problem.ridge)
    a, iterations, tol = result.a, result.iterations, result.certificate.kkt_violation
    for _ in range(_TIMES + 1):
        a, exact = _on_face(problem, H, a)
        tol *= _SHARPER
        budget = _budget(problem.n, result.iterations, iterations, max_iter)
        if exact or not tol > 0.0 or budget == 0:
            break
        if smo.supports(problem) is not None:
            break
        further = solve(_stored(problem, points), "smo", tol=tol, start=a, max_iter=budget, warn=False)
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


def _stored(problem: DualQP, points: NDArray[np.intp]) -> DualQP:
    """The same problem over its own points, with their entries in float64."""
    matrix = np.asarray(problem.gram.block(points, points), dtype=np.float64)
    gram = FullGram(0.5 * (matrix + matrix.T), psd=True)
    return replace(problem, gram=gram, index=np.searchsorted(points, problem.index))


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
    p = problem
    a = np.clip(start, p.lo, p.hi)
    if not minimise_on_face(H, p.f0, p.F, p.e, p.lo, p.hi, a):
        return start, False
    return (a, True) if _solves(problem, H, a) else (start, False)


def _solves(problem: DualQP, H: NDArray[np.float64], a: NDArray[np.float64]) -> bool:
    """Whether the optimality conditions hold to rounding."""
    p, slope = problem, np.empty(problem.n)
    slopes(H, p.f0, p.ridge, a, slope)
    eta = best_multipliers(problem, slope)
    violation, scale, sums, size = miss(H, p.f0, p.F, p.e, p.lo, p.hi, p.ridge, a, slope, eta)
    return bool(violation <= p.n * _EXACT * scale and sums <= p.n * _EXACT * size)
