"""Where MPD starts on large problems: the solution of a random part tells which bound most variables belong to.

The part's box is widened (its ridge lowered) so that the part stands for all. Its model gives slopes for all
variables; the best multipliers for these slopes, and each variable at the bound its slope asks for, are a vertex of
the constraints that is all but optimal where few variables are free.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dualgap.constraints import InfeasibleProblemError
from dualgap.multipliers import best_multipliers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.result import Outcome


def coarse_start(
    problem: DualQP, seed: int, size: int, solve: Callable[[DualQP], Outcome]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]] | None:
    """A point, its slopes as far as the part knows them, and multipliers; None where the part has no solution."""
    part = random_part(problem, seed, size)
    try:
        solution = solve(part)
    except InfeasibleProblemError:
        return None  # a part may contradict constraints that the whole can meet
    coefficients = part.on_points(solution.a)
    used = np.flatnonzero(coefficients)
    sums = np.zeros(problem.gram.n)
    problem.gram.accumulate(sums, used, coefficients[used])
    slope = problem.sign * sums[problem.index] + problem.f0
    eta = best_multipliers(problem, slope)
    slope = slope + problem.F @ eta
    curved = problem.ridge > 0.0
    inner = np.clip(-slope / np.where(curved, problem.ridge, 1.0), problem.lo, problem.hi)
    bound = np.where(slope < 0.0, problem.hi, problem.lo)
    return np.where(curved | ~np.isfinite(bound), inner, bound), slope, eta


def random_part(problem: DualQP, seed: int, size: int) -> DualQP:
    """A problem over about `size` of the variables that stands for all of them."""
    points = problem.points
    count = max(1, int(size * points.size / problem.n))
    chosen = np.zeros(problem.gram.n, dtype=bool)
    chosen[np.random.default_rng(seed).choice(points, size=min(count, points.size), replace=False)] = True
    part = np.flatnonzero(chosen[problem.index])
    scale = problem.n / part.size
    return replace(
        problem,
        index=problem.index[part],
        sign=problem.sign[part],
        ridge=problem.ridge[part] / scale,
        f0=problem.f0[part],
        lo=problem.lo[part] * scale,
        hi=problem.hi[part] * scale,
        F=problem.F[part],
    )
