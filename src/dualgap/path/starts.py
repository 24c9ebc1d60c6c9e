"""From the solution of one problem to a start for the next, and what is proved of the next before it is solved.

The lecture's restart rules for ``R[f, C] = C sum_i c_i + Omega[f]`` and a solution a at C:

* ``a C'/C`` is feasible at C', and so is every multiple ``t a`` with ``0 <= t <= C'/C``;
* for ``C' > C`` the optimum rises, but by no more than C does: ``R*(C) <= R*(C') <= (C'/C) R*(C)``.

Along the ray the dual objective is a parabola in t whose coefficients the last certificate has already paid for, so
that the best multiple costs O(n). The same product K a gives the certificate of the start: where that meets the goal,
nothing is left to solve.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.constraints import FEASIBLE, feasible_start, infeasibility

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.constraints import Groups
    from dualgap.problem import DualQP
    from dualgap.result import Certificate

# A variable this close to its bound after scaling was at the old bound, and C (C'/C) has rounded.
_AT_BOUND = 1e-12
# Rows whose objective is a regulariser plus C times losses, neither of them negative.
_CHAINED = ("c_svc", "squared_hinge", "eps_svr", "squared_eps_svr", "nu_svr")


def scaled_start(
    problem: DualQP, a: NDArray[np.float64], product: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """A feasible start from the solution of a problem that differs in C, nu, epsilon or the kernel.

    Parameters
    ----------
    problem : DualQP
        The new problem.
    a : ndarray, shape (problem.n,)
        Solution of the old one, over the same samples.
    product : ndarray, shape (problem.n,), optional
        ``sign * (K a)`` of the new kernel, where it is known: the best multiple of `a` is then taken, and room in the
        sums is given to the variables that want it most.

    Returns
    -------
    ndarray, shape (problem.n,)
        A point of the box with ``F'a = e``.

    Examples
    --------
    >>> import numpy as np, dualgap
    >>> X = np.array([[0.0], [1.0], [3.0], [4.0], [1.5]]); y = np.array([-1, -1, 1, 1, 1])
    >>> gram = dualgap.make_gram(X, dualgap.Kernel("linear"))
    >>> old = dualgap.solve(dualgap.build("c_svc", gram, y, C=1.0))
    >>> new = dualgap.build("c_svc", gram, y, C=3.0)
    >>> result = dualgap.solve(new, start=dualgap.scaled_start(new, old.a))
    >>> result.status.name
    'CONVERGED'
    """
    a = np.asarray(a, dtype=np.float64)
    if a.shape != (problem.n,):
        raise ValueError(f"a must have one entry for each of the {problem.n} variables; got shape {a.shape}.")
    if not np.any(problem.e) and not np.any(problem.lo):
        point = _snapped(problem, multiple(problem, a, product) * a)
        return point if infeasibility(problem, point) <= FEASIBLE else feasible_start(problem)
    if infeasibility(problem, a) <= FEASIBLE:
        return np.clip(a, problem.lo, problem.hi)
    groups = problem.groups
    return feasible_start(problem) if groups is None else _to_sums(problem, groups, a, product)


def multiple(problem: DualQP, a: NDArray[np.float64], product: NDArray[np.float64] | None = None) -> float:
    """The t for which ``t a`` is feasible and, where `product` is known, the dual objective highest."""
    used = a > 0.0
    largest = float(np.min(problem.hi[used] / a[used], initial=np.inf))
    if product is None:
        return min(1.0, largest)
    curvature = float(a @ product) + float(problem.ridge @ a**2)
    slope = -float(problem.f0 @ a)
    if curvature <= 0.0:
        return largest if slope > 0.0 and np.isfinite(largest) else min(1.0, largest)
    return min(max(slope / curvature, 0.0), largest)


def restart_bounds(problem: DualQP, certificate: Certificate, ratio: float) -> tuple[float, float]:
    """Between which values the optimum lies when C is multiplied by `ratio`, from the certificate before.

    Parameters
    ----------
    problem : DualQP
        Either of the two problems; its row says whether the chain holds.
    certificate : Certificate
        Of the solution at C.
    ratio : float
        ``C'/C``.

    Returns
    -------
    lower, upper : float
        For ``ratio >= 1`` they are ``D`` and ``ratio P``, else ``ratio D`` and ``P``; NaN for machines whose objective
        is not a regulariser plus C times losses, and where there is no gap.
    """
    if problem.formulation not in _CHAINED or certificate.note:
        return np.nan, np.nan
    return min(1.0, ratio) * certificate.dual, max(1.0, ratio) * certificate.primal


def _snapped(problem: DualQP, a: NDArray[np.float64]) -> NDArray[np.float64]:
    """Within the box, and at the bounds where rounding alone keeps a variable from them."""
    a = np.clip(a, problem.lo, problem.hi)
    near = np.isfinite(problem.hi) & (a >= problem.hi * (1.0 - _AT_BOUND))
    return np.where(near, problem.hi, a)


def _to_sums(
    problem: DualQP, groups: Groups, a: NDArray[np.float64], product: NDArray[np.float64] | None
) -> NDArray[np.float64]:
    """Scale each group of variables to its new sum; what the box cuts off goes to others of the group."""
    a = np.clip(a, problem.lo, problem.hi)
    slope = np.zeros(problem.n) if product is None else product + problem.f0
    for g in range(groups.rhs.size):
        members = np.flatnonzero(groups.group == g)
        scale, rhs = groups.scale[members], float(groups.rhs[g])
        old = float(scale @ a[members])
        if old != 0.0 and rhs / old > 0.0:
            a[members] = np.clip(a[members] * (rhs / old), problem.lo[members], problem.hi[members])
        missing = rhs - float(scale @ a[members])
        direction = np.sign(missing * scale)
        reach = np.where(direction > 0, problem.hi[members], problem.lo[members])
        room = np.abs(scale * (reach - a[members]))
        # Support vectors first, and among them (and then among the rest) those whose slope falls most.
        order = np.lexsort((direction * slope[members], a[members] == 0.0))
        used = np.empty(members.size)
        before = np.cumsum(room[order]) - room[order]
        used[order] = np.clip(abs(missing) - before, 0.0, room[order])
        moved = a[members] + direction * used / np.abs(scale)
        a[members] = np.where(used >= room, reach, moved)
    return a if infeasibility(problem, a) <= FEASIBLE else feasible_start(problem)
