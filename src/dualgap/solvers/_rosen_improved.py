"""The improved face method of `rosen`: working sets of free variables and of bounds that are released together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dualgap.kernels.gram import entry_cost
from dualgap.kernels.row_cache import add_rows
from dualgap.result import Outcome, Status
from dualgap.solvers._rosen_face import Face
from dualgap.solvers._rosen_step import cone

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.solvers._rosen_run import Run

# A working set is solved until the largest entry of its direction is this share of that over all variables; and no
# further than a little below what `tol` asks for: thresholds tol apart are each tol/2 from the multiplier.
_SHARE, _TOL_SHARE = 0.1, 0.45
# Bounds released together at most, or as many as there are free variables: enough for small problems to take all of
# them, few enough not to fetch the kernel rows of variables that go back to their bounds.
_RELEASED = 1024
# A choice of releases by size whose direction is shorter than this share of that of all of them is out of balance.
_BALANCED = 0.1
# Multiplications between two looks at limits and callbacks, a tenth of a second or so; and steps at most.
_CHUNK_PRODUCTS, _CHUNK_STEPS = 100_000_000, 1000
# Working sets without a decrease beyond rounding after which the arithmetic is exhausted.
_PATIENCE, _ROUNDING = 3, 1e-16


def improved_steps(run: Run, tol: float) -> Outcome:
    """Working set after working set, until the KKT violation is at most `tol`."""
    idle = 0
    while True:
        violation = run.violation()
        if run.tell(violation, complete=True):
            return run.outcome(Status.STOPPED)
        if violation <= tol:
            return run.outcome(Status.CONVERGED)
        if run.remaining == 0:
            return run.outcome(Status.MAX_ITER)
        chosen, longest = _working_set(run)
        before, objective = run.a[chosen], run.objective
        # Coupled constraints, or scales other than one, may ask for a shorter direction than that.
        enough = _TOL_SHARE * tol if longest > _TOL_SHARE * tol else 0.0
        if _solve(run, chosen, max(_SHARE * longest, enough)):
            return run.outcome(Status.STOPPED)
        delta = run.a[chosen] - before
        moved = np.flatnonzero(delta)
        run.gradient += run.rows.product(chosen[moved], delta[moved])
        idle = idle + 1 if objective - run.objective <= _ROUNDING * abs(objective) else 0
        if moved.size == 0 or idle == _PATIENCE:
            # Told, so that the history ends where the run does: a certificate may well bear out what was found.
            return run.outcome(Status.STOPPED if run.tell(run.violation(), complete=True) else Status.STALLED)


def _working_set(run: Run) -> tuple[NDArray[np.intp], float]:
    """The free variables and the bounds to be released; and the largest entry of the direction over all variables."""
    p = run.problem
    below, above = np.empty(p.n), np.empty(p.n)
    cone(run.a, p.lo, p.hi, below, above)
    free = (below < 0.0) & (above > 0.0)
    direction = run.constraints.nearest(-run.gradient, below, above)
    longest = float(np.abs(direction).max())
    released = np.flatnonzero(~free & (direction != 0.0))
    most = max(_RELEASED, int(free.sum()))
    if released.size > most:
        some = np.sort(np.concatenate([np.flatnonzero(free), _largest(p, released, direction, most)]))
        within = run.constraints.take(some).nearest(-run.gradient[some], below[some], above[some])
        if np.abs(within).max() > _BALANCED * longest:
            return some, longest
    return np.flatnonzero(free | (direction != 0.0)), longest


def _largest(
    problem: DualQP, released: NDArray[np.intp], direction: NDArray[np.float64], most: int
) -> NDArray[np.intp]:
    """The variables that would move furthest; of each group as many upwards as downwards, to make up for each other."""
    groups = problem.groups
    scale = problem.sign if groups is None else np.where(groups.group < 0, 1.0, groups.scale)
    side = 2 * (np.zeros(problem.n, dtype=np.int64) if groups is None else groups.group) + (scale * direction > 0.0)
    side = side[released]
    sides = np.unique(side)
    parts = []
    for one in sides:
        members = released[side == one]
        order = np.argsort(-np.abs(direction[members]), kind="stable")
        parts.append(members[order[: most // sides.size]])
    return np.concatenate(parts)


def _solve(run: Run, chosen: NDArray[np.intp], goal: float) -> bool:
    """Solve a working set, chunk by chunk; True when asked to stop. The gradient of all variables stays behind."""
    p = run.problem
    matrix = run.rows.matrix(chosen)
    face = Face(
        _product(run, chosen, matrix), run.curvature, run.a[chosen], run.gradient[chosen], p.lo[chosen], p.hi[chosen],
        run.constraints.take(chosen),
    )  # fmt: skip
    cost = 2.0 * chosen.size**2 * (1.0 if matrix is not None else entry_cost(p.gram))  # two products for a bent step
    most = int(max(1, min(_CHUNK_STEPS, _CHUNK_PRODUCTS / cost)))
    while True:
        steps, decrease = face.steps, face.decrease
        done = face.descend(goal, int(min(most, run.remaining)))
        run.a[chosen] = face.x
        run.absorb(face.steps - steps, face.decrease - decrease)
        if done or run.remaining == 0:
            return False
        if run.tell(np.nan, complete=False):
            return True


def _product(
    run: Run, chosen: NDArray[np.intp], matrix: NDArray[np.float64] | None
) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Products with H over the working set: with its matrix, or with entries that are made when they are needed."""

    def product(d: NDArray[np.float64]) -> NDArray[np.float64]:
        moving = np.flatnonzero(d)
        if matrix is None:
            return run.rows.product_within(chosen, moving, d[moving])
        # H is symmetric: of its rows only those that count are read.
        out = np.zeros(d.size)
        add_rows(matrix, moving, d[moving], None, out)
        return out

    return product
