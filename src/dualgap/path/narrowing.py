"""A step of a path within few variables: what a neighbouring solution leaves to do, and no gradient but theirs.

Between two values of C most samples stay where they are, and most of those that are no support vectors stay far from
becoming one. From the start ``a`` of a step, at which the gradient ``g`` of all n variables is known (`steps`), the
variables A that are free, that are expected to violate their conditions if they stay, or that are nearest to it are
solved for alone::

    min_d  1/2 d'H_AA d + g_A'd    subject to    lo <= a_A + d <= hi,    F_A'd = 0

Their gradient takes |A| kernel entries for a variable that moves, where that of all variables takes n. What has moved
in the end, m variables, is then added to the product of all n in exact arithmetic, once: ``m n`` entries that the
certificate asks for in any case. Where the variables outside A object to the result, a run over all variables goes on
from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import judge
from dualgap.path.grams import KeptGram
from dualgap.result import Snapshot
from dualgap.solvers import block

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Variables beside those that are free or expected to move, as a part of all: a sixth where slopes are expected to stay
# as they are at the start, a twelfth where they are expected to go on as they went (20 values of C on ijcnn1: these
# are 0.04 to 0.19 off near the margin, those 0.18 to 0.37). Where others object later steps have more.
NEAREST, NEAREST_EXPECTED, MORE = 1 / 6, 1 / 12, 2.0
# Above this part of all variables nothing is gained.
_MOST = 0.6
# The part of the goal that the variables of A may use up; the rest is for the others and for rounding, and so is what
# the dual objective rises by on the way, to which the goal is relative in the end.
_OWN_SHARE = 0.85
# Variables of a block. Those near a solution are fewer than those of a cold start: a smaller matrix is made for them,
# and steps pass by fewer (20 values of C on ijcnn1, counted: 1.50 s of entries and steps, 1.52 with 2048).
_BLOCK = 1536
# Where the gap is the goal, the violation is not: float64 has nothing left to give below this.
_LAST_TOL = 1e-13
# Variables from which on it is worth it: below, all of a problem is a matter of milliseconds.
LEAST = 4096


@dataclass(frozen=True)
class Aim:
    """When all is solved: by the gap, in the units of the objective, or by the KKT violation where that is None."""

    gap: float | None
    violation: float


def worth_narrowing(problem: DualQP) -> bool:
    """Whether a step may be taken within few variables: entries are made when asked for, and groups are sums."""
    gram = problem.gram
    return (
        problem.n >= LEAST
        and isinstance(gram, KeptGram)
        and gram.fused is not None
        and gram.kept_rows is None
        and problem.groups is not None
    )


def narrowed(
    problem: DualQP,
    a: NDArray[np.float64],
    gradient: NDArray[np.float64],
    expected: NDArray[np.float64],
    aim: Aim,
    asked: Callable[[Snapshot], bool],
    nearest: float = NEAREST,
) -> tuple[NDArray[np.float64], int] | None:
    """The best point that differs from `a` in few variables, and the pair steps it took.

    Parameters
    ----------
    problem : DualQP
        One that is `worth_narrowing`.
    a, gradient : ndarray, shape (problem.n,)
        A feasible point and ``H a + f0`` there.
    expected : ndarray, shape (problem.n,)
        ``H a + f0 + F eta`` as it is expected to be at the solution: it decides which variables are taken.
    aim : Aim
        What all variables together have to reach.
    asked : callable
        Called with each snapshot of the solver, over the few variables; True stops.
    nearest : float
        The share of all variables that is taken beside those that are free or expected to move.

    Returns
    -------
    point, iterations
        Or None where the variables are not few.
    """
    active = _active(problem, a, expected, nearest)
    if active.size > _MOST * problem.n:
        return None
    outside = a.copy()
    outside[active] = 0.0
    gram = problem.gram
    assert isinstance(gram, KeptGram)
    gram = gram.beside(problem.on_points(outside))
    part = _part(problem, gram, a, active)

    def enough(snapshot: Snapshot) -> bool:
        if asked(snapshot):
            return True
        if aim.gap is None or snapshot.gradient is None:
            return False
        return judge(part, snapshot.a, snapshot.gradient)[0].gap <= _OWN_SHARE * aim.gap

    options = block.Options(tol=_OWN_SHARE * aim.violation, block_size=_BLOCK)
    if aim.gap is not None:
        relative = _OWN_SHARE * aim.gap / _size(part, a[active], gradient[active])
        options = block.Options(tol=_LAST_TOL, gap_tol=relative, block_size=_BLOCK)
    # The solver asks for the product of its own variables at the start, and is told that of all of them.
    rows = None if part.points.size == gram.n else part.points
    product = np.zeros(gram.n)
    product[part.index] = part.sign * (gradient - problem.f0 - problem.ridge * a)[active]
    with gram.believing(part.on_points(a[active]), rows, product[part.points]):
        outcome = block.solve(part, options, enough, a[active])
    point = a.copy()
    point[active] = outcome.a
    return point, outcome.iterations


def _active(problem: DualQP, a: NDArray[np.float64], slope: NDArray[np.float64], nearest: float) -> NDArray[np.intp]:
    """Free variables, those that violate at these slopes and those nearest to it."""
    may_grow, may_shrink = a < problem.hi, a > problem.lo
    score = np.maximum(np.where(may_grow, -slope, -np.inf), np.where(may_shrink, slope, -np.inf))
    score[may_grow & may_shrink] = np.inf
    size = int(np.count_nonzero(score > 0.0)) + int(nearest * problem.n)
    if size >= problem.n:
        return np.arange(problem.n)
    return np.sort(np.argpartition(-score, size - 1)[:size])


def _size(part: DualQP, a: NDArray[np.float64], gradient: NDArray[np.float64]) -> float:
    """The objective as the solver sees it, to which its gap is relative."""
    return max(abs(0.5 * float(a @ (gradient + part.f0))), 1e-300)


def _part(problem: DualQP, gram: KeptGram, a: NDArray[np.float64], active: NDArray[np.intp]) -> DualQP:
    """The problem in these variables, the others staying where they are (which the products of `gram` have in them)."""
    return replace(
        problem,
        gram=gram,
        index=problem.index[active],
        sign=problem.sign[active],
        ridge=problem.ridge[active],
        f0=problem.f0[active],
        lo=problem.lo[active],
        hi=problem.hi[active],
        F=problem.F[active],
        e=problem.F[active].T @ a[active],
    )
