"""A vertex of the L1-SVM with hinge, from a point nearby: the linear program over few rows and columns, by HiGHS.

Near the optimum of ``min sum lambda |w| + sum c xi, Z w + xi >= 1`` most samples are decided: those beyond the margin
for sure have ``a = 0`` and drop out; those that miss it for sure have ``a = c``, and ``c (1 - z'w)`` is a linear cost.
What is left are samples near the margin and features with ``|v_j|``, ``v = Z'a``, near lambda. Where the weights that
are not zero are as many as the multipliers inside of ``(0, c)``, two linear systems give the vertex. Otherwise HiGHS
solves what is left. Its answer is one for all samples and columns if none of those left out contradicts it; those that
do are taken in, and the program is solved again. That ends, because sets only grow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lu_solve
from scipy.linalg.lapack import dgetrf
from scipy.optimize import linprog

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap._l1_columns import DenseColumns, SparseColumns

# HiGHS's least feasibility tolerance.
_FEASIBLE = 1e-10
# Weights this small are rounding of a zero: less than what is feasible can tell.
_NOISE = 1e-12
# A row or column outside contradicts by more than this (margins are of the size of 1; v is taken relative to lambda).
_CONTRADICTS = 1e-9
# A pivot this much smaller than the largest is none.
_SINGULAR = 1e-12
# A system solved for more unknowns than this costs more than the program it is to save.
_MOST_UNKNOWNS = 4000
# Columns are undecided this much farther from lambda than samples are from the margin, up to a limit: one too many
# costs less than a program more.
_WIDER, _WIDEST = 2.0, 0.2
# Programs with rows times columns beyond this go to the interior point method (and its crossover to a vertex), which
# is faster by then.
_INTERIOR = 5_000_000
# Programs solved at most.
_TRIES = 40
# How much larger weights may be than at the start; and again, where one gets there.
_ROOM = 10.0


@dataclass(frozen=True, eq=False)
class HingeProblem:
    """The problem over some columns: Z, weights c of the losses, weights lambda of the columns."""

    Z: DenseColumns | SparseColumns
    c: NDArray[np.float64]
    lam: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Vertex:
    """Weights, with exact zeros, and multipliers; how many linear programs it took, and the samples of the last."""

    w: NDArray[np.float64]
    a: NDArray[np.float64]
    programs: int
    rows: NDArray[np.bool_]


def vertex_near(
    problem: HingeProblem,
    w: NDArray[np.float64],
    a: NDArray[np.float64],
    radius: float,
    time_left: float | None = None,
    known: NDArray[np.bool_] | None = None,
) -> Vertex | None:
    """The exact optimum over the problem's columns; None where none is found (in time).

    Parameters
    ----------
    problem : HingeProblem
        What is solved.
    w, a : ndarray
        A point that is nearly optimal, and its multipliers.
    radius : float
        Samples this far from the margin, and columns with ``|v|`` twice as far below lambda, are decided; none are
        where it is infinite.
    time_left : float or None
        Seconds at most for one program.
    known : ndarray or None
        Samples that are taken to be undecided in any case: those of a program over fewer columns.
    """
    at_once = _square_system(problem, w, a)
    if at_once is not None:
        return at_once
    t = 1.0 - problem.Z.times(w)
    v = np.abs(problem.Z.back(a))
    rows = (np.abs(t) <= radius) | ((a > 0.0) & (a < problem.c))
    if known is not None:
        rows |= known
    missed = ~rows & (t > 0.0)
    below = min(_WIDER * radius, _WIDEST) if np.isfinite(radius) else 1.0
    columns = (w != 0.0) | (v >= problem.lam * (1.0 - below))
    most = _ROOM * (1.0 + float(np.abs(w).max(initial=0.0)))
    for programs in range(1, _TRIES + 1):
        found = _program(problem, rows, columns, missed, most, time_left)
        if found is None:
            return None
        wrong_rows, wrong_columns = _contradictions(problem, *found, rows, columns, missed)
        if not wrong_rows.any() and not wrong_columns.any():
            if float(np.abs(found[0]).max(initial=0.0)) < 0.999 * most:  # not at that end, rounding aside
                return Vertex(*found, programs, rows)
            most *= _ROOM
        rows, columns = rows | wrong_rows, columns | wrong_columns
        missed &= ~wrong_rows
    return None


def _contradictions(
    problem: HingeProblem,
    w: NDArray[np.float64],
    a: NDArray[np.float64],
    rows: NDArray[np.bool_],
    columns: NDArray[np.bool_],
    missed: NDArray[np.bool_],
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Samples on the other side of the margin than was thought, and columns with ``|v| > lambda``."""
    t = 1.0 - problem.Z.times(w)
    v = np.abs(problem.Z.back(a))
    return (
        ~rows & np.where(missed, t < -_CONTRADICTS, t > _CONTRADICTS) & (problem.c > 0.0),
        ~columns & (v > problem.lam * (1.0 + _CONTRADICTS)),
    )


def _square_system(problem: HingeProblem, w: NDArray[np.float64], a: NDArray[np.float64]) -> Vertex | None:
    """The vertex with these weights other than zero and these samples at the margin, if it is one and optimal."""
    rows, columns = (a > 0.0) & (a < problem.c), (w != 0.0) | (problem.lam == 0.0)
    R, J = np.flatnonzero(rows), np.flatnonzero(columns)
    if not 0 < R.size == J.size <= _MOST_UNKNOWNS:
        return None
    missed = ~rows & (a > 0.0)
    full = np.where(missed, problem.c, 0.0)
    lu, order, _ = dgetrf(problem.Z.part(R, J).toarray())
    pivots = np.abs(np.diag(lu))
    if pivots.min() <= _SINGULAR * pivots.max():
        return None
    factor = (lu, order)
    exact = np.zeros_like(w)
    exact[J] = lu_solve(factor, np.ones(R.size), check_finite=False)
    signs = np.sign(w[J])
    full[R] = lu_solve(factor, problem.lam[J] * signs - problem.Z.back(full)[J], trans=1, check_finite=False)
    same_signs = np.all((exact[J] * signs > 0.0) | (problem.lam[J] == 0.0))
    if not same_signs or np.any(full[R] < 0.0) or np.any(full[R] > problem.c[R]):
        return None
    wrong_rows, wrong_columns = _contradictions(problem, exact, full, rows, columns, missed)
    return None if wrong_rows.any() or wrong_columns.any() else Vertex(exact, full, 0, rows)


def _program(
    problem: HingeProblem,
    rows: NDArray[np.bool_],
    columns: NDArray[np.bool_],
    missed: NDArray[np.bool_],
    most: float,
    time_left: float | None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Solve over these rows and columns, weights up to `most`, by the dual program.

    ::

        max sum a - most sum s,   |Z'a + pull| <= lambda + s,   0 <= a <= c,   s >= 0

    Its multipliers are the weights, and those of constraints that are not tight are 0 exactly. The pull is that of the
    samples that miss the margin. Without s a program with too few rows would have no solution.
    """
    R, J = np.flatnonzero(rows), np.flatnonzero(columns)
    a = np.where(missed, problem.c, 0.0)
    pull, lam = problem.Z.back(a)[J], problem.lam[J]
    back = problem.Z.part(R, J).T
    excess = sp.eye_array(J.size)
    A = sp.vstack([sp.hstack([back, -excess]), sp.hstack([-back, -excess])], format="csc")
    cost = np.concatenate([-np.ones(R.size), np.full(J.size, most)])
    high = np.concatenate([problem.c[R], np.full(J.size, np.inf)])
    options: dict[str, float] = {
        "primal_feasibility_tolerance": _FEASIBLE,
        "dual_feasibility_tolerance": _FEASIBLE,
    }
    if time_left is not None:
        options["time_limit"] = max(time_left, 1e-3)
    answer = linprog(
        cost,
        A_ub=A,
        b_ub=np.concatenate([lam - pull, lam + pull]),
        bounds=np.column_stack([np.zeros_like(high), high]),
        method="highs-ipm" if R.size * J.size > _INTERIOR else "highs-ds",
        options=options,
    )
    if answer.status != 0:
        return None
    weights = answer.ineqlin.marginals[J.size :] - answer.ineqlin.marginals[: J.size]
    weights[np.abs(weights) <= _NOISE * (1.0 + np.abs(weights).max(initial=0.0))] = 0.0
    w = np.zeros(problem.lam.size)
    w[J] = weights
    a[R] = np.clip(answer.x[: R.size], 0.0, problem.c[R])
    return w, a
