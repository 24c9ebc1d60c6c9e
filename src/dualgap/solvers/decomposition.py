"""Decomposition: a small working set at a time, all other variables fixed (lecture; SVM-light).

Problem (see `dualgap.problem`)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

Steps (lecture, "Working Set Algorithms"):

1. Choose a working set W of q variables that violate the optimality conditions, both sides balanced:
   ``selection="gradient"`` takes the steepest feasible direction with q nonzeros (SVM-light), ``selection="gap"`` the
   largest terms of the duality gap (P10.1).
2. Solve the program over W with everything else fixed, by pair steps (``inner="smo"``) or by an interior point method
   (``inner="ipm"``).
3. Add to the gradient what the changed variables did, with their kernel rows from the cache.

``variant="paper"`` is that recipe: fewer than 100 variables, each program solved to the end. ``variant="improved"``
mends what makes it slow. Half of W may stay from the last set, so that it does not zigzag between sets; programs are
solved to a tenth of the violation outside; settled variables are set aside (shrinking); the maximal violating pair and
the partner that promises it the largest decrease are always in W, hence it converges for any q (Lin, 2002).

Coupled constraints (k >= 3, semi-parametric models) need ``inner="ipm"``, and W holds the support of the steepest
feasible direction, at most k + 1 variables (see `_violation`).

Cost of an iteration (one working set): q kernel rows (cached), O(n) for the selection, O(n) for each changed variable,
and the inner program: O(q) a pair step, or some 15 factorisations of q^3/3. Use it where kernel rows are dear and
memory is short, to compare with SVM-light, and as the method between `smo` (q = 2) and `chunking`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import exact_gradient
from dualgap.constraints import feasible_start
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers._decomposition_active import ActiveVariables
from dualgap.solvers._decomposition_rows import WorkingRows
from dualgap.solvers._decomposition_select import Chooser
from dualgap.solvers._subproblem import Subproblem, refusal
from dualgap.solvers._violation import Violation, coupled_violation, grouped_violation, ungrouped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# `run` keeps BLAS to one thread meanwhile: kernel rows and working sets are too small to share.
OWN_THREADS = True
# Sizes of the working set where none is given: the lecture's "< 100", and what was found fastest.
_PAPER_SIZE, _IMPROVED_SIZE = 64, 400
# A working set is solved to this share of the violation outside it: to the end, and as far as it is worth. Never
# further than half the goal: what lies outside will object first.
_TO_THE_END, _SHARE, _GOAL_SHARE = 1e-3, 0.1, 0.5
# A violation outside that is at most this many times what the last set was solved to is no objection.
_HELD = 1.2
# Pair steps on a working set at most, for each of its variables, before another one is chosen; "paper" has a limit only
# because rounding may keep its goal out of reach.
_STEPS_EACH, _PAPER_STEPS_EACH = 50, 1000
# Entry updates between two looks at limits and callbacks: a tenth of a second or so.
_LOOK_UPDATES, _LOOK_PRODUCTS = 20_000_000, 50_000_000
# Otherwise a look for every 1000 variables (every n, but not less than 100) that have been in a working set, or an
# eighth of the iterations done so far.
_LOOK_LEAST, _LOOK_MOST, _LOOK_SHARE = 100, 1000, 8
# Shrinking is tried each time 1000 variables have been in a working set.
_SHRINK_EVERY = 1000
# A run is looked at in exact arithmetic when its violation has not fallen by a tenth while every variable could have
# been in twenty working sets, or 20 000 variables (small problems are cheap), and in 100 sets at least.
_FELL, _PATIENCE_EACH, _PATIENCE_VARIABLES, _PATIENCE_SETS = 0.9, 20, 20_000, 100
# Coupled constraints leave the sets little freedom: they hold at least this many variables for each constraint.
_COUPLED_EACH = 5


@dataclass(frozen=True)
class Options:
    """Settings of `decomposition`.

    Attributes
    ----------
    tol : float
        Stop when the two thresholds of every group are at most this far apart (a KKT violation).
    first_tol : float
        The violation to reach first; it is then divided by 10 until `tol`, whoever watches the gap being asked at
        each stage. Not below `tol`.
    max_iter : int
        Working sets at most; -1 for no limit.
    variant : {"improved", "paper"}
        The lecture's recipe, or that with its weaknesses mended.
    working_set : int or None
        Variables of a working set, q; None for 400 ("paper": 64). With k coupled constraints at least 5 (k + 1).
    selection : {"gradient", "gap"}
        Choose by steepest feasible direction, or by share of the duality gap.
    inner : {"auto", "smo", "ipm"}
        How a working set is solved; "auto" is "ipm" for coupled constraints and "smo" otherwise.
    shrinking : bool
        Set bounded variables aside that look settled ("improved" only).
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    variant: str = "improved"
    working_set: int | None = None
    selection: str = "gradient"
    inner: str = "auto"
    shrinking: bool = True

    def __post_init__(self) -> None:
        for name, known in (
            ("variant", ("improved", "paper")),
            ("selection", ("gradient", "gap")),
            ("inner", ("auto", "smo", "ipm")),
        ):
            if getattr(self, name) not in known:
                choices = ", ".join(map(repr, known))
                raise ValueError(
                    f"{name} must be one of {choices} for solver 'decomposition'; got {getattr(self, name)!r}."
                )
        if self.working_set is not None and self.working_set < 2:
            raise ValueError(f"working_set must be at least 2 for solver 'decomposition'; got {self.working_set!r}.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    return refusal(problem, "auto" if options is None else options.inner)


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (a feasible point; found here when None)."""
    a = feasible_start(problem) if start is None else np.clip(start, problem.lo, problem.hi)
    gradient = exact_gradient(problem, a) if np.any(a) else problem.f0.copy()
    return _Run(problem, options, callback, a, gradient).run()


class _Run:
    """The state of one run."""

    def __init__(
        self,
        problem: DualQP,
        options: Options,
        callback: Callable[[Snapshot], bool],
        a: NDArray[np.float64],
        gradient: NDArray[np.float64],
    ) -> None:
        self.problem, self.options, self.callback = problem, options, callback
        self.paper = options.variant == "paper"
        self.coupled = problem.groups is None
        self.interior = options.inner == "ipm" or self.coupled
        self.size = options.working_set or (_PAPER_SIZE if self.paper else _IMPROVED_SIZE)
        if self.coupled:
            self.size = max(self.size, _COUPLED_EACH * (problem.k + 1))
        self.rows = WorkingRows(problem.gram)
        groups = problem.groups or ungrouped(problem)
        self.objective = 0.5 * float(a @ (gradient + problem.f0))
        self.variables = ActiveVariables(problem, groups, self.rows, a, gradient)
        self.chooser = Chooser(self.size, options.selection, self.paper)
        self.eta: NDArray[np.float64] | None = None
        self.tol = max(options.tol, options.first_tol)
        self.iterations = self.looked_at = self.shrunk_at = 0
        self.updates = self.products = 0.0
        self.least, self.fell_at = np.inf, 0
        self.violation = np.inf
        self.share, self.asked = _SHARE, 0.0
        self.stopped = False

    def run(self) -> Outcome:
        """Solve working sets until the goal is met."""
        while True:
            violation = self.measure()
            limit = 0 <= self.options.max_iter <= self.iterations
            there = self.violation <= self.tol
            if (there or limit or self.due()) and self.look():
                return self.outcome(Status.STOPPED)
            if there:
                if not self.variables.whole:
                    self.variables.restore()
                elif not self.tighten():
                    return self.outcome(Status.CONVERGED)
                continue
            if limit:
                return self.outcome(Status.MAX_ITER)
            if self.in_circles():
                return self.stalled()
            if self.shrinking_due():
                self.variables.shrink(violation)
                if self.shrunk_at == self.iterations and violation.pull.size != self.variables.active.size:
                    continue
            if not self.improve(violation, self.chooser.choose(violation, self.variables)):
                return self.outcome(Status.STOPPED) if self.stopped else self.stalled()

    # -- where it stands -----------------------------------------------------------------------------------------

    def measure(self) -> Violation:
        """The violation of the active variables."""
        v = self.variables
        if self.coupled:
            violation, self.eta = coupled_violation(self.problem, v.a, v.gradient, self.eta)
        else:
            violation = grouped_violation(v.gradient, v.a, v.lo, v.hi, v.inverse, v.group, v.n_groups)
        # A violation that is not a number comes from slopes that are none.
        check_objective(self.objective if violation.worst >= 0.0 else np.nan)
        self.violation = violation.worst
        return violation

    def in_circles(self) -> bool:
        """Whether the violation has not fallen for so long that the arithmetic must be looked at."""
        if self.violation < _FELL * self.least:
            self.least, self.fell_at = self.violation, self.iterations
        patience = max(_PATIENCE_VARIABLES, _PATIENCE_EACH * self.problem.n) // self.size
        return self.iterations - self.fell_at > max(_PATIENCE_SETS, patience)

    def tighten(self) -> bool:
        """Go on to the next tenth of the tolerance; False when the last one is reached."""
        if self.tol <= self.options.tol:
            return False
        self.tol = max(self.options.tol, 0.1 * self.tol)
        return True

    def shrinking_due(self) -> bool:
        """Whether it is time to look for settled variables."""
        if self.paper or self.coupled or not self.options.shrinking:
            return False
        if (self.iterations - self.shrunk_at) * self.size < min(self.problem.n, _SHRINK_EVERY):
            return False
        self.shrunk_at = self.iterations
        return True

    # -- one working set -----------------------------------------------------------------------------------------

    def improve(self, violation: Violation, chosen: NDArray[np.int64]) -> bool:
        """Solve the program over the chosen variables and bring the gradient up to date; False where nothing moved."""
        program = self.subproblem(chosen)
        before = program.a.copy()
        self.solve(program, chosen)
        if self.coupled and np.array_equal(program.a, before):
            program.follow(np.searchsorted(chosen, violation.steepest), violation.direction)
        delta = program.a - before
        moved = np.flatnonzero(delta)
        v = self.variables
        v.a[chosen] = program.a
        slope = v.gradient[chosen[moved]]
        misses = self.rows.counts[1]
        v.spread(chosen[moved], delta[moved])
        self.objective += 0.5 * float(delta[moved] @ (slope + v.gradient[chosen[moved]]))
        self.iterations += 1
        self.updates += float(moved.size) * v.a.size
        self.products += float(self.rows.counts[1] - misses) * self.rows.width * self.rows.cost
        return moved.size > 0 and not self.stopped

    def subproblem(self, chosen: NDArray[np.int64]) -> Subproblem:
        """The program over the chosen variables."""
        v = self.variables
        points, at = np.unique(v.index[chosen], return_inverse=True)
        misses = self.rows.counts[1]
        kernel = self.rows.block(points)
        self.products += float(self.rows.counts[1] - misses) * self.rows.width * self.rows.cost
        at = at.astype(np.int64)
        return Subproblem(
            kernel, at, at, v.sign[chosen], v.ridge[chosen], v.diagonal[chosen], v.lo[chosen], v.hi[chosen],
            v.a[chosen], v.gradient[chosen], v.group[chosen], v.inverse[chosen], v.F[chosen], v.n_groups,
        )  # fmt: skip

    def goal(self) -> float:
        """The violation to which the next program is solved."""
        if self.size == 2:
            return 0.0  # a pair chosen for its decrease may violate little: its step is exact anyway
        if self.paper:
            return _TO_THE_END * self.violation
        # Where the variables outside did not object to the last solution, the next may go further at once.
        held = self.violation <= _HELD * self.asked
        self.share = max(_SHARE * self.share, _TO_THE_END) if held else _SHARE
        self.asked = max(self.share * self.violation, _GOAL_SHARE * self.options.tol)
        return self.asked

    def solve(self, program: Subproblem, chosen: NDArray[np.int64]) -> None:
        """As far as this variant wants it."""
        goal = self.goal()
        if self.interior and (program.interior(goal) or self.coupled):
            return
        # Where the interior point method has not got that far, pairs finish.
        left = (_PAPER_STEPS_EACH if self.paper else _STEPS_EACH) * chosen.size
        while left > 0:
            solved, steps = program.pair_steps(goal, min(left, max(1, _LOOK_UPDATES // chosen.size)))
            left -= max(1, steps)
            if solved or (left > 0 and self.look_inside(program, chosen)):
                return

    # -- telling -------------------------------------------------------------------------------------------------

    def due(self) -> bool:
        """Whether it is time to look at limits and callbacks."""
        since = self.iterations - self.looked_at
        each = min(max(self.problem.n, _LOOK_LEAST), _LOOK_MOST) // self.size
        often = since >= max(1, each, self.iterations // _LOOK_SHARE)
        return often or self.updates >= _LOOK_UPDATES or self.products >= _LOOK_PRODUCTS

    def look(self) -> bool:
        """Report; True when the callback asks to stop."""
        self.looked_at, self.updates, self.products = self.iterations, 0.0, 0.0
        a, gradient = self.variables.full()
        return self.tell(a, gradient, self.violation)

    def look_inside(self, program: Subproblem, chosen: NDArray[np.int64]) -> bool:
        """Report in the middle of a long inner program, where there is no gradient of all variables."""
        a, _ = self.variables.full()
        a = a.copy()
        a[self.variables.active[chosen]] = program.a
        self.stopped = self.tell(a, None, float("nan"))
        return self.stopped

    def tell(self, a: NDArray[np.float64], gradient: NDArray[np.float64] | None, violation: float) -> bool:
        hits, misses = self.rows.counts
        return self.callback(
            Snapshot(
                iteration=self.iterations,
                a=a,
                gradient=gradient,
                objective=self.objective if gradient is not None else None,
                violation=violation,
                kernel_evaluations=self.rows.evaluations,
                cache_hits=hits,
                cache_misses=misses,
            )
        )

    def stalled(self) -> Outcome:
        """Rounding may be in the way: `run` will look at it in exact arithmetic."""
        return self.outcome(Status.STOPPED if self.look() else Status.STALLED)

    def outcome(self, status: Status) -> Outcome:
        """The point reached; the store is left whole."""
        a, _ = self.variables.full()
        self.rows.leave()
        return Outcome(a, self.iterations, status)
