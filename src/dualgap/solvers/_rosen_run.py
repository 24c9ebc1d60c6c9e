"""The state of a run of `rosen`: the point, its gradient, the counts, and what is told of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import exact_gradient, judge
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers._rosen_projection import constraints
from dualgap.solvers._rosen_rows import Rows
from dualgap.solvers._rosen_step import spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP


class Run:
    """One run, from a point of the box."""

    def __init__(
        self, problem: DualQP, callback: Callable[[Snapshot], bool], a: NDArray[np.float64], max_iter: int
    ) -> None:
        self.problem, self.callback, self.max_iter = problem, callback, max_iter
        self.constraints = constraints(problem)
        self.a = self._onto_constraints(a)
        self.gradient = exact_gradient(problem, self.a) if np.any(self.a) else problem.f0.copy()
        self.objective = 0.5 * float(self.a @ (self.gradient + problem.f0))
        self.rows = Rows(problem)
        self.curvature = float((problem.gram.diag()[problem.index] + problem.ridge).max())
        self.iterations = 0
        self._eta: NDArray[np.float64] | None = None

    @property
    def remaining(self) -> float:
        """Steps that may still be taken."""
        return np.inf if self.max_iter < 0 else max(0, self.max_iter - self.iterations)

    def violation(self) -> float:
        """The KKT violation of the point: between the thresholds of groups, or for the best multipliers."""
        p, groups = self.problem, self.problem.groups
        if groups is None:
            judged, self._eta = judge(p, self.a, self.gradient, self._eta)
            return judged.kkt_violation
        count = groups.rhs.size
        return float(spread(self.a, self.gradient, p.lo, p.hi, groups.scale, groups.group, count))

    def absorb(self, steps: int, decrease: float) -> None:
        """Count steps and follow the objective."""
        self.iterations += steps
        self.objective -= decrease
        check_objective(self.objective)

    def tell(self, violation: float, *, complete: bool) -> bool:
        """Report to the callback, the gradient only where it is complete; True when it asks to stop."""
        hits, misses = self.rows.hits_and_misses
        return self.callback(
            Snapshot(
                iteration=self.iterations,
                a=self.a,
                gradient=self.gradient if complete else None,
                objective=self.objective,
                violation=violation if complete else float("nan"),
                kernel_evaluations=self.rows.evaluations,
                cache_hits=hits,
                cache_misses=misses,
            )
        )

    def outcome(self, status: Status) -> Outcome:
        """The point, what rounding has added to its sums taken off; the store is left whole for whoever comes next."""
        self.rows.store.reset()
        return Outcome(self._onto_constraints(self.a), self.iterations, status)

    def _onto_constraints(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """The point with ``F'a = e`` to rounding; free variables make up for what is missing."""
        p = self.problem
        free = (a > p.lo) & (a < p.hi)
        groups = p.groups
        sums = p.e if groups is None else groups.rhs
        return self.constraints.nearest(a, np.where(free, p.lo, a), np.where(free, p.hi, a), sums)
