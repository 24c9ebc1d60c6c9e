"""The best multipliers eta for a fixed point: the bias and all free coefficients, chosen to make P least.

For slopes ``s0 = (H - diag(ridge)) a + f0`` the primal objective depends on eta by::

    p(eta) = e'eta - sum_i min_{lo_i <= t <= hi_i} (ridge_i t^2/2 + (s0 + F eta)_i t)

convex, piecewise linear where ridge is 0 and piecewise quadratic elsewhere, in k variables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.constraints import Groups
    from dualgap.problem import DualQP

# The smoothing starts at the scale of the slopes and ends where its error is below the rounding of P.
_SMOOTHEST, _SHARPEST, _SHARPEN = 1e0, 1e-13, 1e-2
_NEWTON_STEPS = 60  # per level; a piecewise quadratic in few variables ends long before
_SUFFICIENT = 1e-4  # Armijo fraction
_HALVINGS = 40  # a step of 1e-12 of Newton's moves nothing


def best_multipliers(
    problem: DualQP, slope: NDArray[np.float64], start: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Minimise the primal objective over eta at slopes `slope` (without the multipliers' part)."""
    if problem.k == 0:
        return np.zeros(0)
    groups = problem.groups
    if groups is not None and not problem.ridge.any() and np.all(np.isfinite(problem.hi)):
        theta = [
            _quantile(problem, slope, groups, np.flatnonzero(groups.group == g), float(groups.rhs[g]))
            for g in range(groups.rhs.shape[0])
        ]
        return groups.eta(np.array(theta))
    return _smoothed_newton(problem, slope, np.zeros(problem.k) if start is None else start)


def _quantile(
    problem: DualQP, slope: NDArray[np.float64], groups: Groups, members: NDArray[np.intp], rhs: float
) -> float:
    """Exact minimiser for one group without ridge; the midpoint where an interval is optimal.

    The derivative in theta is ``rhs - sum_i c_i t_i``; every t_i jumps between its bounds where
    ``s0_i + c_i theta`` changes sign, which raises the derivative by ``|c_i| (hi_i - lo_i)``.
    """
    c, s0 = groups.scale[members], slope[members]
    lo, hi = problem.lo[members], problem.hi[members]
    kinks = -s0 / c
    order = np.argsort(kinks, kind="stable")
    kinks = kinks[order]
    least = np.where(c > 0, c * hi, c * lo).sum()
    jumps = (np.abs(c) * (hi - lo))[order]
    derivative = rhs - least + np.cumsum(jumps)
    rounding = 1e-13 * max(abs(rhs), float(jumps.sum()), 1e-300)  # of a sum of that size
    first = int(np.searchsorted(derivative, -rounding))
    if first >= kinks.size:
        return float(kinks[-1])
    last = int(np.searchsorted(derivative, rounding, side="right"))
    return float(0.5 * (kinks[first] + kinks[min(last, kinks.size - 1)]))


def _smoothed_newton(
    problem: DualQP, slope: NDArray[np.float64], eta: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Newton's method on p with a small ridge in place of the kinks, the ridge sharpened in stages.

    A ridge of mu changes p by at most ``mu sum t^2/2``, so the last stage is exact to rounding. Variables with
    a ridge of their own keep it.
    """
    reach = np.where(np.isfinite(problem.hi), np.maximum(np.abs(problem.lo), np.abs(problem.hi)), 1.0)
    scale = max(float(np.abs(slope).max()), 1e-300) / np.maximum(reach, 1e-300)
    level = _SMOOTHEST
    best, best_value = eta, _objective(problem, slope, eta, problem.ridge)
    while level >= _SHARPEST:
        ridge = np.where(problem.ridge > 0.0, problem.ridge, level * scale)
        eta = _newton(problem, slope, eta, ridge)
        value = _objective(problem, slope, eta, problem.ridge)
        if value <= best_value:
            best, best_value = eta, value
        if np.all(problem.ridge > 0.0):
            break
        level *= _SHARPEN
    return best


def _newton(
    problem: DualQP, slope: NDArray[np.float64], eta: NDArray[np.float64], ridge: NDArray[np.float64]
) -> NDArray[np.float64]:
    F, e = problem.F, problem.e
    value = _objective(problem, slope, eta, ridge)
    for _ in range(_NEWTON_STEPS):
        s = slope + F @ eta
        t = np.clip(-s / ridge, problem.lo, problem.hi)
        gradient = e - F.T @ t
        moving = (t > problem.lo) & (t < problem.hi)
        hessian = (F[moving] / ridge[moving, None]).T @ F[moving]
        # A face without moving variables has no curvature: a ridge far below the usual curvature turns the step
        # into a long gradient step, which the line search cuts.
        hessian[np.diag_indices_from(hessian)] += 1e-12 * (F * F / ridge[:, None]).sum(axis=0) + 1e-300
        step = -np.linalg.lstsq(hessian, gradient, rcond=None)[0]
        slope_along = float(gradient @ step)
        if not slope_along < 0.0:
            break
        length, found = 1.0, False
        for _ in range(_HALVINGS):
            trial = _objective(problem, slope, eta + length * step, ridge)
            if trial <= value + _SUFFICIENT * length * slope_along and trial < value:
                found = True
                break
            length *= 0.5
        if not found:
            break
        eta, value = eta + length * step, trial
    return eta


def _objective(
    problem: DualQP, slope: NDArray[np.float64], eta: NDArray[np.float64], ridge: NDArray[np.float64]
) -> float:
    s = slope + problem.F @ eta
    curved = ridge > 0.0
    t = np.clip(-s / np.where(curved, ridge, 1.0), problem.lo, problem.hi)
    with np.errstate(invalid="ignore"):
        flat = np.minimum(
            np.where(s == 0.0, 0.0, s * problem.lo), np.where(s == 0.0, 0.0, s * problem.hi)
        )
    return float(problem.e @ eta - np.where(curved, t * (0.5 * ridge * t + s), flat).sum())
