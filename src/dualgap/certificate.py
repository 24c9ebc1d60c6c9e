"""The only judge: how far a point is from the optimum, in float64, independent of every solver.

For any ``a`` in the box and any multipliers ``eta``, with ``q = a'(H - diag(ridge))a`` and
``s = (H - diag(ridge)) a + f0 + F eta``, weak duality gives::

    D = -(q/2 + f0'a + sum_i ridge_i a_i^2 / 2)                      (needs F'a = e)
    P = q/2 + e'eta - sum_i min_{lo_i <= t <= hi_i} (ridge_i t^2 / 2 + s_i t)
    P - D = sum_i [ (ridge_i a_i^2/2 + s_i a_i) - min_t (ridge_i t^2/2 + s_i t) ]

Each bracket is non-negative, so the gap is summed without cancellation (lecture, P10.1, is the case of the
C-SVC). P is the objective of the support vector machine itself: the minimum over t is minus the loss, and the
multipliers eta are its bias and free coefficients, chosen here to make P least. All of this needs K to be
positive semidefinite; for an indefinite kernel D is no bound and no gap exists.

Where float64 entries are dear, gradients of variables that are 0 come from float32 entries with a bound of their error,
as far as they prove the bracket to be 0 (`dualgap.screening`); all numbers are the same. Such entries may have been
added up while a solver moved the variables, on an account that proves what it holds (`kernels.running_product`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import nan
from typing import TYPE_CHECKING

import numpy as np

from dualgap._vector_passes import certificate_terms, in_box, signed_gradient
from dualgap.constraints import infeasibility, relative_miss
from dualgap.multipliers import best_multipliers
from dualgap.result import Certificate
from dualgap.screening import known_product, proved_gradient

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP

# A principal block with an eigenvalue below -1e-8 of its largest is indefinite beyond the rounding of float64
# and of float32 input that was symmetric to begin with (1e-7 * sqrt(n) spread over the spectrum is below it).
_NEGATIVE = 1e-8
# Points in the principal block examined where nothing is known of the kernel: half a second of eigenvalues at most.
_EXAMINED = 512
# For compiled code: components are those of the variables, in their order.
_IN_ORDER = np.zeros(0, dtype=np.intp)


def certify(
    problem: DualQP,
    a: NDArray[np.float64],
    eta: NDArray[np.float64] | None = None,
    *,
    screen: bool | None = None,
) -> tuple[Certificate, NDArray[np.float64]]:
    """Judge a point.

    Parameters
    ----------
    problem : DualQP
        What is solved.
    a : ndarray, shape (n,)
        The point; clipped to the box first (what was clipped is reported as infeasibility).
    eta : ndarray, shape (k,), optional
        Where the search for the best multipliers starts, when it needs a start (coupled constraints, ridges).
    screen : bool, optional
        Whether gradients that cannot change the certificate may come from float32 entries (see `dualgap.screening`):
        the numbers are the same, up to the order of sums. By default where that is faster.

    Returns
    -------
    certificate : Certificate
        Objectives, gap, violation and infeasibility, recomputed from `a` alone.
    eta : ndarray, shape (k,)
        The multipliers the certificate holds for.
    """
    a = np.asarray(a, dtype=np.float64)
    inside = a if in_box(a, problem.lo, problem.hi) else np.clip(a, problem.lo, problem.hi)
    gradient = None if screen is False else proved_gradient(problem, inside, always=screen is True)
    if gradient is None:
        gradient = exact_gradient(problem, inside)
    certificate, eta = judge(problem, inside, gradient, eta)
    if inside is not a:
        certificate = replace(certificate, infeasibility=infeasibility(problem, a))
    note = "" if problem.gram.psd else indefinite(problem.gram, problem.index[inside != 0.0])
    if note:
        certificate = replace(certificate, primal=nan, dual=nan, gap=nan, relative_gap=nan, note=note)
    return certificate, eta


def exact_gradient(problem: DualQP, a: NDArray[np.float64]) -> NDArray[np.float64]:
    """``H a + f0`` in float64, from the data and not from anything a solver kept."""
    a = np.asarray(a, dtype=np.float64)
    coefficients = problem.on_points(a)
    points = problem.points
    if points.size == problem.gram.n:
        product = problem.gram.exact(coefficients)
        place = _IN_ORDER if problem.whole else problem.index
    else:
        product = problem.gram.exact(coefficients, points)
        place = _IN_ORDER if points is problem.index else np.searchsorted(points, problem.index)
    product = np.ascontiguousarray(product, dtype=np.float64)
    return signed_gradient(product, place, problem.sign, problem.ridge, problem.f0, a)  # type: ignore[no-any-return]


def start_gradient(problem: DualQP, a: NDArray[np.float64]) -> NDArray[np.float64]:
    """``H a + f0`` for a solver whose entries are float32 and whose claims are certified: what the certificate leaves.

    Exact for the variables that are not at a bound of 0 and for those the last certificate was in doubt about; others
    may have the error of float32 entries. Where bounds do not pay (see `dualgap.screening`), `exact_gradient`.
    """
    known = known_product(problem, a, anew=True)
    return exact_gradient(problem, a) if known is None else known[0] + problem.ridge * a + problem.f0


def judge(
    problem: DualQP,
    a: NDArray[np.float64],
    gradient: NDArray[np.float64],
    eta: NDArray[np.float64] | None = None,
    objective: float | None = None,
) -> tuple[Certificate, NDArray[np.float64]]:
    """The arithmetic of the certificate for a given gradient ``H a + f0`` (believed or exact).

    `objective` replaces the value of ``a'Ha/2 + f0'a`` where the gradient is only partly up to date.
    """
    slope = gradient if problem.k == 0 or problem.ridgeless else gradient - problem.ridge * a
    eta = best_multipliers(problem, slope, eta)
    residual, sums = problem.e.copy(), np.zeros(problem.k)
    bracket, violation, energy, outside = certificate_terms(
        a, gradient, problem.f0, problem.ridge, problem.lo, problem.hi, problem.F, eta, residual, sums
    )
    missed = float(eta @ residual) if problem.k else 0.0
    dual = -0.5 * energy if objective is None else -objective
    # Off the constraints the primal objective is exact with e'eta in place of (F'a)'eta; the dual one is a bound to
    # first order when it is lowered by that difference, and never raised by it.
    primal = dual + bracket + missed
    dual = dual + min(missed, 0.0)
    gap = bracket + max(missed, 0.0)
    relative = gap / max(abs(primal), abs(dual), 1e-300)
    return Certificate(primal, dual, gap, relative, violation, relative_miss(outside, residual, sums)), eta


def indefinite(gram: Gram, points: NDArray[np.intp]) -> str:
    """Why no gap exists: empty for a positive semidefinite kernel, else the sentence that says so.

    A kernel that is known to be positive semidefinite is believed. Otherwise a principal block over the
    points in use is examined: a negative eigenvalue there proves the whole matrix indefinite.
    """
    if gram.psd:
        return ""
    pool = np.unique(points)
    if pool.size == 0:
        pool = np.arange(gram.n)
    if pool.size > _EXAMINED:
        pool = pool[np.linspace(0, pool.size - 1, _EXAMINED).astype(np.intp)]
    block = np.asarray(gram.block(pool, pool), dtype=np.float64)
    if not np.allclose(block, block.T, rtol=1e-5, atol=1e-8 * np.abs(block).max(initial=0.0)):
        return "the kernel matrix is not symmetric"
    spectrum = np.linalg.eigvalsh(0.5 * (block + block.T))
    if spectrum[0] < -_NEGATIVE * max(spectrum[-1], 0.0) or spectrum[-1] < 0.0:
        return (
            f"the kernel matrix is indefinite (eigenvalue {spectrum[0]:.3g} beside {spectrum[-1]:.3g} "
            f"on {pool.size} points), so the dual bounds nothing and the solution is a stationary point"
        )
    return ""


def combine(certificates: Sequence[Certificate]) -> Certificate:
    """One certificate for several independent problems: that of their sum."""
    if len(certificates) == 1:
        return certificates[0]
    primal = sum(c.primal for c in certificates)
    dual = sum(c.dual for c in certificates)
    gap = sum(c.gap for c in certificates)
    notes = [c.note for c in certificates if c.note]
    return Certificate(
        primal,
        dual,
        gap,
        gap / max(abs(primal), abs(dual), 1e-300),
        max(c.kkt_violation for c in certificates),
        max(c.infeasibility for c in certificates),
        notes[0] if notes else "",
    )
