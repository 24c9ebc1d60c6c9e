"""How far a point of a composite problem is from the optimum of the problem without smoothing.

For any u at which the conjugates are finite, with ``v = -A'u`` and ``v_j = 0`` for every coordinate free of penalty,
weak duality (Fenchel) gives::

    P(x) = phi(Ax) + psi(x) + energy x'Qx   >=   D(u) = -phi*(u) - psi*(v) - u'Ku / (4 energy)

    P - D = sum_i [phi_i(z_i) + phi_i*(u_i) - u_i z_i] + sum_j [psi_j(x_j) + psi_j*(v_j) - v_j x_j]
            + energy |w - v/2|^2 in feature space

Each bracket is non-negative, so the gap is summed without cancellation. For the support vector machine with
``u = -y a`` this is ``D = sum a`` subject to ``0 <= a <= C``, ``y'a = 0`` and ``|X'(y a)|_inf <= 1`` (p = q = 1);
``a >= 0`` and ``- a^2/(4C)`` for q = 2; ``- |X'(y a)|^2 / 4`` in place of the last constraint for p = 2.

A solver's u (the slopes of the smoothed loss) need not be feasible. It is projected onto the box and the constraints of
the free coordinates, and then scaled: 0 is feasible always, so some multiple is, and of those the one with the largest
D is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.operators import exact
from dualgap.result import Certificate

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite, LinearMap

# Newton steps of the projection: it is piecewise linear, so a few do, and bisection comes after them.
_NEWTON_STEPS = 50
# Halvings of such a step; where nothing moves at some t, it is longer by 1e12 than it should be.
_HALVINGS = 80
# Entries at a flat part of the loss move as well, but only if the others cannot do it alone.
_LEAST_MOBILITY = 1e-8
# A residual of the free coordinates' constraints this small against the sums it is made of is rounding.
_MET = 1e-12
# A residual above this means that the projection was not found.
_FEASIBLE = 1e-10
# A feasible multiple keeps this distance from the edge, so that rounding does not carry it over.
_EDGE = 1e-15
# Where the bound is looked at before its end: rounding of the bound is far less than what this changes.
_BEFORE = 1e-6
_GOLDEN = 0.6180339887498949


def certify_composite(
    problem: Composite, x: NDArray[np.float64], dual: NDArray[np.float64] | None = None
) -> tuple[Certificate, NDArray[np.float64]]:
    """Judge a point on the problem without smoothing.

    Parameters
    ----------
    problem : Composite
        What is solved; its loss and regulariser must be those of `dualgap.losses` and `dualgap.regularisers`, or have
        ``exact``, ``conjugate``, ``excess``, ``bounds`` and ``reach`` as these do.
    x : ndarray
        The point.
    dual : ndarray, optional
        u, one an entry of ``Ax``, to bound the optimum from below; it is made feasible first. The slopes of the
        (smoothed) loss at ``Ax`` when None. Of a support vector machine ``u = -y a``.

    Returns
    -------
    certificate : Certificate
        Objectives, gap (never below the true one) and infeasibility of u, which is of the size of rounding;
        ``kkt_violation`` is the largest of the terms the gap is a sum of.
    dual : ndarray
        The feasible u that the bound holds for.
    """
    for name in ("exact", "conjugate", "excess", "bounds"):
        if not hasattr(problem.loss, name):
            raise TypeError(f"A certificate needs a loss with {name}(...); {type(problem.loss).__name__} has none.")
    if not hasattr(problem.regulariser, "reach"):
        raise TypeError(f"A certificate needs the conjugate of psi; {type(problem.regulariser).__name__} has none.")
    if problem.energy and (np.any(problem.regulariser.l1) or np.any(problem.regulariser.l2)):  # type: ignore[attr-defined]
        raise TypeError(
            "There is no certificate for an energy and a penalty together: their conjugate is not separable."
        )
    operator = exact(problem.operator)
    x = np.asarray(x, dtype=np.float64)
    z = np.asarray(operator.matvec(x), dtype=np.float64)
    start = problem.loss.gradient(z) if dual is None else np.asarray(dual, dtype=np.float64)
    if start.shape != (problem.m,) or not np.all(np.isfinite(start)):
        raise ValueError(f"dual must be {problem.m} finite numbers; its shape is {start.shape}.")
    u, back = _feasible(problem, operator, start, _mobility(problem, z))
    return _judge(problem, x, z, u, back), u


def _feasible(
    problem: Composite, operator: LinearMap, u: NDArray[np.float64], mobility: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A feasible multiple of the projection of u, the best one, and its product with A'."""
    loss: Any = problem.loss
    low, high = loss.bounds()
    u = _onto_constraints(np.clip(u, low, high), low, high, _free_columns(problem, operator), mobility)
    back = np.asarray(operator.rmatvec(u), dtype=np.float64)
    factor = _best_multiple(_Bound(problem, u, back), _reach(problem, u, back, low, high))
    return factor * u, factor * back


def _mobility(problem: Composite, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """How cheaply each entry of u moves: by the curvature of the loss, which is large where its slope is undecided."""
    curvature = np.asarray(problem.loss.curvature(z), dtype=np.float64)
    top = float(curvature.max())
    return curvature / top + _LEAST_MOBILITY if top > 0.0 else np.ones_like(z)


def _free_columns(problem: Composite, operator: LinearMap) -> NDArray[np.float64]:
    """The columns of A that belong to coordinates free of penalty, one a row."""
    columns = np.zeros((len(problem.free), problem.m))
    for row, j in enumerate(problem.free):
        unit = np.zeros(problem.n)
        unit[j] = 1.0
        columns[row] = operator.matvec(unit)
    return columns


def _onto_constraints(
    u: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    G: NDArray[np.float64],
    mobility: NDArray[np.float64],
) -> NDArray[np.float64]:
    """A point of the box with ``G u = 0`` near u, moved mostly where moving costs little.

    It is the projection in the metric ``1 / mobility``. The box holds 0, so there is such a point; where none is found,
    0 itself bounds less, but it bounds.
    """
    if not G.size:
        return u
    for weights in (mobility, np.ones_like(u)):
        point = _touch_up(_projected(u, low, high, G, weights), low, high, G)
        if np.all(np.abs(G @ point) <= _FEASIBLE * np.maximum(np.abs(G) @ np.abs(point), 1.0)):
            return point
    return np.zeros_like(u)


def _projected(
    u: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    G: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """``clip(u - weights G't)`` with t by Newton's method on the projection's dual, concave and piecewise quadratic."""
    t = np.zeros(G.shape[0])

    def at(t: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
        moved = u - weights * (t @ G)
        point = np.clip(moved, low, high)
        height = 0.5 * float((((moved - point) ** 2 - moved**2) / weights).sum())
        return point, G @ point, height

    point, residual, height = at(t)
    for _ in range(_NEWTON_STEPS):
        if np.all(np.abs(residual) <= _MET * (np.abs(G) @ np.abs(point))):
            break
        moved = u - weights * (t @ G)
        moving = (moved > low) & (moved < high)
        hessian = (G[:, moving] * weights[moving]) @ G[:, moving].T
        hessian += 1e-12 * float(np.trace((G * weights) @ G.T)) * np.eye(t.size)  # where nothing moves at this t
        step = np.linalg.solve(hessian, residual)
        length = 1.0
        for _ in range(_HALVINGS):
            found = at(t + length * step)
            smaller = float(np.abs(found[1]).max()) < 0.5 * float(np.abs(residual).max())
            if smaller or found[2] > height + 1e-4 * length * float(residual @ step):
                break
            length *= 0.5
        t = t + length * step
        point, residual, height = found
    return point


def _touch_up(
    u: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64], G: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Remove what is left of ``G u``: a least-squares correction of the variables inside, scaled to stay inside."""
    for _ in range(3):
        residual = G @ u
        inside = (u > low) & (u < high)
        if not np.any(residual) or not np.any(inside):
            break
        correction = np.linalg.lstsq(G[:, inside], residual, rcond=None)[0]
        u = u.copy()
        u[inside] = np.clip(u[inside] - correction, low[inside], high[inside])
    return u


def _reach(
    problem: Composite,
    u: NDArray[np.float64],
    back: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> float:
    """The largest multiple of u that is feasible."""
    regulariser: Any = problem.regulariser
    largest = np.inf
    up, down = u > 0.0, u < 0.0
    if np.any(up):
        largest = min(largest, float(np.min(high[up] / u[up])))
    if np.any(down):
        largest = min(largest, float(np.min(low[down] / u[down])))
    if problem.energy:
        return largest * (1.0 - _EDGE)
    return min(largest, regulariser.reach(-back[problem.penalised])) * (1.0 - _EDGE)


class _Bound:
    """``D(factor u)`` as a concave function of the factor, without products."""

    def __init__(self, problem: Composite, u: NDArray[np.float64], back: NDArray[np.float64]) -> None:
        self.problem, self.u, self.back = problem, u, back

    def __call__(self, factor: float) -> float:
        problem = self.problem
        loss: Any = problem.loss
        return -loss.conjugate(factor * self.u) - conjugate_of_rest(problem, factor * self.u, factor * self.back)


def conjugate_of_rest(problem: Composite, u: NDArray[np.float64], back: NDArray[np.float64]) -> float:
    """The conjugate of psi and the energy at ``-A'u``."""
    regulariser: Any = problem.regulariser
    if not problem.energy:
        return float(regulariser.conjugate(-back[problem.penalised]))
    # A is the kernel matrix, symmetric, and A'u (without the bias) is Ku.
    return float(u @ back[: u.size]) / (4.0 * problem.energy)


def _best_multiple(bound: _Bound, reach: float) -> float:
    """The factor of the largest bound: the largest that is feasible, or golden section between 0 and it."""
    if reach <= 0.0 or not np.any(bound.u):
        return 0.0
    high = reach
    # Concave, and not falling at the end: then the end is best, as it is near the optimum of an L1 problem.
    if np.isfinite(high) and bound(high) >= bound((1.0 - _BEFORE) * high):
        return high
    if not np.isfinite(high):
        high = 1.0
        while bound(2.0 * high) > bound(high) and high < 1e12:
            high *= 2.0
        high *= 2.0
    best = max((0.0, min(1.0, high), high), key=bound)
    a, b = 0.0, high
    c, d = b - _GOLDEN * (b - a), a + _GOLDEN * (b - a)
    at_c, at_d = bound(c), bound(d)
    while b - a > 1e-12 * high:
        if at_c >= at_d:
            b, d, at_d = d, c, at_c
            c = b - _GOLDEN * (b - a)
            at_c = bound(c)
        else:
            a, c, at_c = c, d, at_d
            d = a + _GOLDEN * (b - a)
            at_d = bound(d)
    return float(max((best, 0.5 * (a + b)), key=bound))


def _judge(
    problem: Composite,
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    u: NDArray[np.float64],
    back: NDArray[np.float64],
) -> Certificate:
    loss: Any = problem.loss
    regulariser: Any = problem.regulariser
    terms = [loss.excess(z, u)]
    inner = x[problem.penalised]
    primal = loss.exact(z) + regulariser.exact(inner)
    if problem.energy:
        # |w - v/2|^2 in feature space, from K times the coefficients (Kx from z, Ku from A'u).
        e, m = problem.energy, problem.m
        Kx = problem.quadratic(x, z)
        primal += e * float(x @ Kx)
        off, K_off = x[:m] + u / (2.0 * e), Kx[:m] + back[:m] / (2.0 * e)
        terms.append(np.array([e * max(float(off @ K_off), 0.0)]))
    else:
        terms.append(regulariser.excess(inner, -back[problem.penalised]))
    free = np.asarray(problem.free, dtype=np.intp)
    missed = float(np.sum(np.abs(back[free] * x[free]))) if free.size else 0.0
    off_by = float(np.abs(back[free]).max(initial=0.0)) / max(1.0, float(np.abs(u).sum())) if free.size else 0.0
    gap = float(sum(float(t.sum()) for t in terms)) + missed
    dual = -loss.conjugate(u) - conjugate_of_rest(problem, u, back) - missed
    # Two ways to the same number: the sum of the terms is the more accurate one, the difference must not be larger.
    gap = max(gap, primal - dual if primal - dual > gap * (1.0 + 1e-9) + 1e-12 * abs(primal) else 0.0)
    relative = gap / max(abs(primal), abs(dual), 1e-300)
    return Certificate(primal, dual, gap, relative, max(float(t.max(initial=0.0)) for t in terms), off_by)
