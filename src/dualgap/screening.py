"""Gradients that are exact where the certificate reads them, and proved to be on the right side elsewhere.

Most variables of a solution are 0 and stay there: their slope only has to be known to point into the bound. For such a
variable, at the bound ``lo_i`` (or ``hi_i``) with ``a_i = 0`` and ``full_i = (H a + f0 + F eta)_i``,

* the dual objective, ``-(a'(H a + f0) + f0'a) / 2``, does not read its gradient;
* its bracket in ``P - D`` and its KKT violation are exactly 0 for every ``full_i >= 0`` (``<= 0`` at ``hi_i``);
* the best eta are the same for all gradients with the same signs: ``full_i`` decides which bound minimises
  ``ridge_i t^2/2 + s_i t``, and eta is best where these minimisers satisfy ``F't = e``.

So a gradient from float32 entries with a bound of its error (`kernels.error_bound`) proves as much as an exact one
wherever it is further from 0 than the bound, at both ends of the interval of the best eta. Where it is not, the entries
of that row are made in float64. Every number of the certificate is then the one that float64 entries throughout would
have given, at the price of float64 entries for the points with ``a_i != 0`` and for those near the margin.

Coupled constraints, and ridges of only some variables, have their eta found by iterations whose end may depend on more
than signs: all their gradients are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dualgap._vector_passes import distance_from_doubt
from dualgap.multipliers import multiplier_ends, separable

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.last_product import LastProduct
    from dualgap.problem import DualQP

# Rows within this many times their bound are made exact together: exact rows move eta a little (by far less than a
# bound, which is for the worst case), which would bring others into question one after another.
_WIDER = 1.1
# Rounds after which all that is left in question is made exact.
_ROUNDS = 20
# Roundings of float64 in a slope, relative to its terms, with room for the sums they come from.
_ROUNDING = 1e-14


def proved_gradient(problem: DualQP, a: NDArray[np.float64], *, always: bool = False) -> NDArray[np.float64] | None:
    """``H a + f0`` as far as a certificate needs it, or None where exact entries throughout are the better way.

    Parameters
    ----------
    problem : DualQP
        What is solved.
    a : ndarray, shape (n,)
        A point of the box.
    always : bool
        Whether to do it where it does not pay.
    """
    last = _bounded(problem, a, always=always)
    if last is None or last.error is None:
        return None
    place = _places(problem)

    def sharpen(doubtful: NDArray[np.intp]) -> NDArray[np.float64]:
        problem.gram.sharpen(np.unique(place[doubtful]))  # type: ignore[attr-defined]
        return problem.sign[doubtful] * last.product[place[doubtful]]

    product, error = problem.sign * last.product[place], last.error[place]
    settle(problem, a, product, error, sharpen)
    return product + problem.ridge * a + problem.f0


def settle(
    problem: DualQP,
    a: NDArray[np.float64],
    product: NDArray[np.float64],
    error: NDArray[np.float64],
    sharpen: Callable[[NDArray[np.intp]], NDArray[np.float64]],
) -> None:
    """Make components of ``sign * (K a)`` exact until a certificate can rely on it.

    Parameters
    ----------
    problem : DualQP
        A `separable` one.
    a : ndarray, shape (n,)
        A point of the box.
    product, error : ndarray, shape (n,)
        ``sign * (K a)`` and how far it may be off, 0 where ``a != 0``; changed in place.
    sharpen : callable
        Exact components for the variables it is given.
    """
    for round_ in range(_ROUNDS + 1):
        gradient = product + problem.ridge * a + problem.f0
        distance = _distance(problem, a, gradient)
        if not np.any((error > 0.0) & ~(distance > error)):
            return
        doubtful = (
            np.flatnonzero((error > 0.0) & ~(distance > _WIDER * error)) if round_ < _ROUNDS else error.nonzero()[0]
        )
        product[doubtful], error[doubtful] = sharpen(doubtful), 0.0


def _distance(problem: DualQP, a: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far gradients may be off, each for itself, without a certificate's noticing it.

    Negative for a variable that is not pushed into its bound.
    """
    low, high = multiplier_ends(problem, gradient - problem.ridge * a)
    distance: NDArray[np.float64] = distance_from_doubt(
        a, gradient, problem.f0, problem.lo, problem.hi, problem.F, low, high, _ROUNDING
    )
    return distance


def known_product(
    problem: DualQP, a: NDArray[np.float64], *, anew: bool = False
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """``sign * (K a)`` and how far it may be off, where the last certificate has left that; else None.

    Exact for all variables that are not at a bound of 0. With `anew` it is also made where that pays.
    """
    last = _bounded(problem, a, known=not anew)
    if last is None or last.error is None:
        return None
    place = _places(problem)
    return problem.sign * last.product[place], last.error[place]


def _bounded(
    problem: DualQP, a: NDArray[np.float64], *, always: bool = False, known: bool = False
) -> LastProduct | None:
    """The product ``K a`` with bounds of its error, exact for the points of all variables that are not at a bound of 0.

    None where the Gram matrix has no bounds, or they would not pay; its last product is the answer otherwise.
    """
    find = getattr(problem.gram, "bounded", None)
    if find is None or not problem.gram.psd or not separable(problem):
        return None
    points = problem.points
    whole = points.size == problem.gram.n
    inside = (a != 0.0) | ((a != problem.lo) & (a != problem.hi))
    needed = np.zeros(problem.gram.n, dtype=bool)
    needed[problem.index[np.flatnonzero(inside)]] = True
    found: LastProduct | None = find(
        problem.on_points(a), None if whole else points, needed if whole else needed[points], always=always, known=known
    )
    return found


def _places(problem: DualQP) -> NDArray[np.intp]:
    """Where the point of each variable is among the points of the problem."""
    if problem.points.size == problem.gram.n:
        return problem.index
    return np.searchsorted(problem.points, problem.index)
