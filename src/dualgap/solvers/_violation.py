"""How far a point is from optimal, variable by variable, for solvers that choose working sets.

Constraints that fall apart into groups: with ``v_t = -G_t / c_t`` (G the gradient, c the coefficient in the group's
constraint) the group's multiplier lies between ``low = min v over those that can fall`` and ``up = max v over those
that can rise`` (of ``c_t a_t``), and the point is optimal within tol where ``up - low <= tol`` (the lecture's
``e_lo - e_hi``). A variable's pull is its v measured from the middle of the two: the lecture's choice of b. A variable
in no constraint is pulled by ``-G_t``.

Coupled constraints have no such thresholds. A variable is pulled by ``-(G + F eta)_t``, eta the multipliers of the
certificate. What takes the place of the pair with the largest ``up - low`` is the steepest feasible direction of unit
length in the 1-norm, a linear program::

    min_d  G'd    subject to    F'd = 0,    |d|_1 <= 1,    d_t >= 0 at lo_t,    d_t <= 0 at hi_t

It has k + 1 rows, so that a vertex has at most k + 1 nonzeros (for k = 1: the maximal violating pair), and its value is
0 only at the optimum. A working set that holds its support can always descend (Tseng and Yun, 2010).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap.certificate import judge
from dualgap.constraints import Groups

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Of a direction of unit length, what HiGHS leaves beside zero.
_NO_MOVE = 1e-9


@dataclass(frozen=True)
class Violation:
    """Where a point is pulled.

    Attributes
    ----------
    worst : float
        The KKT violation: largest ``up - low`` of a group, largest slope of a variable alone.
    pull : ndarray, shape (n,)
        How strongly ``c_t a_t`` is drawn upwards (downwards where negative).
    rises, falls : ndarray of bool, shape (n,)
        Whether ``c_t a_t`` can go up, can go down.
    steepest : ndarray of int64
        The variables of the worst violation: a pair, one alone, or the support of the steepest direction.
    direction : ndarray
        That direction, where constraints are coupled.
    up, low : ndarray, shape (G,)
        Thresholds of the groups.
    """

    worst: float
    pull: NDArray[np.float64]
    rises: NDArray[np.bool_]
    falls: NDArray[np.bool_]
    steepest: NDArray[np.int64]
    direction: NDArray[np.float64]
    up: NDArray[np.float64]
    low: NDArray[np.float64]

    @property
    def violating(self) -> NDArray[np.bool_]:
        """Variables that can go where they are drawn."""
        return np.where(self.pull > 0.0, self.rises, self.falls & (self.pull < 0.0))


def ungrouped(problem: DualQP) -> Groups:
    """Coupled constraints, as groups: none, every variable by itself."""
    n, k = problem.n, problem.k
    return Groups(np.full(n, -1, dtype=np.int64), np.zeros(n), np.zeros(0), np.zeros((0, k)))


def grouped_violation(
    gradient: NDArray[np.float64],
    a: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    inverse: NDArray[np.float64],
    group: NDArray[np.int64],
    n_groups: int,
) -> Violation:
    """The violation where constraints fall apart into groups; `inverse` is 1/c, 0 for a variable in no constraint."""
    pull, rises, falls = np.empty(a.size), np.empty(a.size, np.bool_), np.empty(a.size, np.bool_)
    up, low = np.empty(n_groups), np.empty(n_groups)
    first, second, worst = _thresholds(gradient, a, lo, hi, inverse, group, pull, rises, falls, up, low)
    steepest = np.array([first, second] if second >= 0 else [first], dtype=np.int64)
    return Violation(worst, pull, rises, falls, steepest[steepest >= 0], np.empty(0), up, low)


@nb.njit(cache=True, nogil=True)
def _thresholds(gradient, a, lo, hi, inverse, group, pull, rises, falls, up, low):  # type: ignore[no-untyped-def]
    """Fill the arrays of a `Violation`; return its steepest variables (-1 for none) and its worst value."""
    n_groups = up.shape[0]
    up_index, low_index = np.full(n_groups, -1, np.int64), np.full(n_groups, -1, np.int64)
    up[:], low[:] = -np.inf, np.inf
    first, second, worst = -1, -1, 0.0
    for t in range(a.shape[0]):
        below, above = a[t] < hi[t], a[t] > lo[t]
        g = group[t]
        if g < 0:
            rises[t], falls[t], pull[t] = below, above, -gradient[t]
            if ((pull[t] > 0.0 and below) or (pull[t] < 0.0 and above)) and abs(pull[t]) > worst:
                first, worst = t, abs(pull[t])
            continue
        rises[t], falls[t] = (below, above) if inverse[t] > 0.0 else (above, below)
        pull[t] = v = -gradient[t] * inverse[t]
        if np.isnan(v):
            worst = np.nan
        if rises[t] and v > up[g]:
            up[g], up_index[g] = v, t
        if falls[t] and v < low[g]:
            low[g], low_index[g] = v, t
    middle = np.zeros(n_groups)
    for g in range(n_groups):
        if up[g] - low[g] > worst:
            first, second, worst = up_index[g], low_index[g], up[g] - low[g]
        # A group all of whose variables are at one end has one threshold, and it is met.
        if up_index[g] >= 0 and low_index[g] >= 0:
            middle[g] = 0.5 * (up[g] + low[g])
        elif up_index[g] >= 0:
            middle[g] = up[g]
        elif low_index[g] >= 0:
            middle[g] = low[g]
    for t in range(a.shape[0]):
        if group[t] >= 0:
            pull[t] -= middle[group[t]]
    return first, second, worst


def coupled_violation(
    problem: DualQP, a: NDArray[np.float64], gradient: NDArray[np.float64], eta: NDArray[np.float64] | None
) -> tuple[Violation, NDArray[np.float64]]:
    """The violation where constraints are coupled, and the multipliers it is measured with."""
    certificate, eta = judge(problem, a, gradient, eta)
    pull = -(gradient + problem.F @ eta)
    rises, falls = a < problem.hi, a > problem.lo
    steepest, direction = _steepest_direction(pull, rises, falls, problem.F)
    none = np.empty(0)
    return Violation(certificate.kkt_violation, pull, rises, falls, steepest, direction, none, none), eta


def _steepest_direction(
    pull: NDArray[np.float64], rises: NDArray[np.bool_], falls: NDArray[np.bool_], F: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The steepest feasible direction: its support and its values there; empty where none descends.

    F'd = 0, so the slopes may be taken from any multipliers; near the optimum those of the certificate leave them
    small, and scaled to one they are far above HiGHS's tolerances.
    """
    nothing = np.empty(0, dtype=np.int64), np.empty(0)
    up, down = np.flatnonzero(rises), np.flatnonzero(falls)
    strongest = max(np.max(pull[up], initial=0.0), np.max(-pull[down], initial=0.0))
    if not strongest > 0.0:
        return nothing
    members = np.concatenate([up, down])
    towards = np.concatenate([np.ones(up.size), -np.ones(down.size)])
    scale = np.maximum(np.abs(F).max(axis=0, initial=0.0), 1e-300)
    from scipy.optimize import linprog  # a quarter of a second that most runs never need

    answer = linprog(
        -towards * pull[members] / strongest,
        A_ub=np.ones((1, members.size)),
        b_ub=np.ones(1),
        A_eq=(towards[:, None] * F[members] / scale).T,
        b_eq=np.zeros(F.shape[1]),
        method="highs-ds",
    )
    if answer.x is None:
        return nothing
    d = np.zeros(pull.size)
    np.add.at(d, members, towards * answer.x)
    support = np.flatnonzero(np.abs(d) > _NO_MOVE).astype(np.int64)
    return support, _into_null_space(d[support], F[support] / scale)


def _into_null_space(d: NDArray[np.float64], F: NDArray[np.float64]) -> NDArray[np.float64]:
    """The part of d with ``F'd = 0`` to rounding: HiGHS meets constraints to seven digits only."""
    left, values, _ = np.linalg.svd(F, full_matrices=False)
    basis = left[:, values > 1e-10 * values.max(initial=0.0)]
    for _ in range(2):  # the second time removes what the first left by rounding
        d = d - basis @ (basis.T @ d)
    return d
