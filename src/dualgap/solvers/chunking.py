"""Chunking: the support vectors so far and the worst violators, solved together (Vapnik; Osuna; lecture).

Problem (see `dualgap.problem`)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

Variables at their lower bound (0 in every row of the table) do not appear in the solution, so the problem without them
has the same one. Steps (lecture, "Subset Selection Methods"):

1. The chunk: all variables above their lower bound, and the M that violate the optimality conditions most, as many
   drawn up as down. The first chunk is a random part, balanced in the same way.
2. Solve the program over the chunk, by pair steps or by an interior point method.
3. Drop the variables at their lower bound, look at all others with the new solution, and begin again until nobody
   violates.

``variant="paper"`` is that recipe, each chunk solved to the end. ``variant="improved"`` solves a chunk to a tenth of
the violation outside it, and drops only variables that are drawn into their bound more strongly than the worst violator
is drawn away from its own: the others would be back in the next chunk.

Every chunk lowers the objective, since it holds the maximal violating pair (for coupled constraints the support of the
steepest feasible direction, see `_violation`).

Cost of an iteration (one chunk): |chunk|^2 kernel entries, those of the last chunk being kept, the inner program, and n
entries for each variable that changed. The matrix of a chunk grows with the number of support vectors; beyond `memory`
megabytes it is not stored, and pair steps take rows from the kernel cache. Use it where support vectors are few.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import exact_gradient
from dualgap.constraints import feasible_start
from dualgap.kernels.gram import FullGram, Store, entry_cost, row_store
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers._chunking_matrix import ChunkMatrix
from dualgap.solvers._subproblem import Subproblem, refusal
from dualgap.solvers._violation import Violation, coupled_violation, grouped_violation, ungrouped
from dualgap.solvers._working_set import balanced

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Violators added to a chunk where their number is not given: an eighth of the variables, so that a chunk is a small
# part and few are needed; a thousand at most, whose matrix is 8 MB.
_ADD_SHARE, _ADD_LEAST, _ADD_MOST = 8, 20, 1000
# A chunk is solved to this share of the violation outside it: to the end, and as far as it is worth. Never further than
# half the goal: what lies outside will object first.
_TO_THE_END, _SHARE, _GOAL_SHARE = 1e-3, 0.1, 0.5
# A violation outside that is at most this many times what the last chunk was solved to is no objection.
_HELD = 1.2
# Pair steps on a chunk at most, for each of its variables: rounded rows can send them in circles.
_STEPS_EACH = 1000
# Entry updates, and multiplications in rows that have to be computed, between two looks at limits and callbacks.
_LOOK_UPDATES, _LOOK_PRODUCTS = 20_000_000, 50_000_000
# Products of many rows at a time take a tenth of the time of those of one.
_ROWS_EACH = 10
# Chunks after which a violation that has not fallen by a tenth is looked at in exact arithmetic.
_FELL, _PATIENCE = 0.9, 20


@dataclass(frozen=True)
class Options:
    """Settings of `chunking`.

    Attributes
    ----------
    tol : float
        Stop when the two thresholds of every group are at most this far apart (a KKT violation).
    first_tol : float
        The violation to reach first; it is then divided by 10 until `tol`, whoever watches the gap being asked at
        each stage. Not below `tol`.
    max_iter : int
        Chunks at most; -1 for no limit.
    variant : {"improved", "paper"}
        The lecture's recipe, or that with its weaknesses mended.
    add : int or None
        Violators added to a chunk, M; None for an eighth of the variables, at least 20 and at most 1000.
    inner : {"auto", "smo", "ipm"}
        How a chunk is solved; "auto" is "ipm" for coupled constraints and "smo" otherwise.
    memory : float
        Megabytes for matrices of a chunk, beside `cache_size`. A chunk that needs more is solved by pair steps over
        cached rows; with coupled constraints, where that is impossible, it is a `MemoryError`.
    seed : int
        Of the random first chunk.
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    variant: str = "improved"
    add: int | None = None
    inner: str = "auto"
    memory: float = 400.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, known in (("variant", ("improved", "paper")), ("inner", ("auto", "smo", "ipm"))):
            if getattr(self, name) not in known:
                choices = ", ".join(map(repr, known))
                raise ValueError(f"{name} must be one of {choices} for solver 'chunking'; got {getattr(self, name)!r}.")
        if self.add is not None and self.add < 2:
            raise ValueError(f"add must be at least 2 for solver 'chunking'; got {self.add!r}.")
        if not self.memory >= 0:
            raise ValueError(f"memory must be a number of megabytes for solver 'chunking'; got {self.memory!r}.")


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
        self.add = options.add or min(max(problem.n // _ADD_SHARE, _ADD_LEAST), _ADD_MOST)
        self.memory = options.memory * 1e6
        self.a, self.gradient = a, gradient
        self.objective = 0.5 * float(a @ (gradient + problem.f0))
        self.groups = problem.groups or ungrouped(problem)
        alone = self.groups.group < 0
        self.inverse = np.where(alone, 0.0, 1.0 / np.where(alone, 1.0, self.groups.scale))
        self.diagonal = problem.gram.diag()[problem.index] + problem.ridge
        self.matrix = ChunkMatrix(problem.gram)
        self.store: Store | None = None
        self.counts_before = np.zeros(2, dtype=np.int64)
        self.evaluations_before = problem.gram.evaluations
        self.used = np.zeros(problem.gram.n, dtype=bool)
        self.eta: NDArray[np.float64] | None = None
        self.tol = max(options.tol, options.first_tol)
        self.iterations = 0
        self.least, self.fell_at = np.inf, 0
        self.violation = np.inf
        self.share, self.asked = _SHARE, 0.0
        self.stopped = False

    def run(self) -> Outcome:
        """Solve chunks until nobody violates."""
        while True:
            violation = self.measure()
            if self.tell(self.a, self.gradient, self.violation):
                return self.outcome(Status.STOPPED)
            while self.violation <= self.tol:
                if self.tol <= self.options.tol:
                    return self.outcome(Status.CONVERGED)
                self.tol = max(self.options.tol, 0.1 * self.tol)
            if 0 <= self.options.max_iter <= self.iterations:
                return self.outcome(Status.MAX_ITER)
            if self.violation < _FELL * self.least:
                self.least, self.fell_at = self.violation, self.iterations
            if self.iterations - self.fell_at > _PATIENCE or not self.improve(violation, self.chunk(violation)):
                # Rounding may be in the way: `run` will look.
                return self.outcome(Status.STOPPED if self.stopped else Status.STALLED)

    def measure(self) -> Violation:
        """The violation of all variables."""
        p = self.problem
        if self.coupled:
            violation, self.eta = coupled_violation(p, self.a, self.gradient, self.eta)
        else:
            violation = grouped_violation(
                self.gradient, self.a, p.lo, p.hi, self.inverse, self.groups.group, self.groups.rhs.shape[0]
            )
        # A violation that is not a number comes from slopes that are none.
        check_objective(self.objective if violation.worst >= 0.0 else np.nan)
        self.violation = violation.worst
        return violation

    # -- one chunk -----------------------------------------------------------------------------------------------

    def chunk(self, violation: Violation) -> NDArray[np.int64]:
        """The support vectors, the worst violators, and (improved) those that would soon be back."""
        inside = self.a > self.problem.lo
        fresh = not inside.any()
        inside[violation.steepest] = True
        if not self.paper and not fresh:
            # A variable at lo is drawn into it by its pull times the sign of its coefficient.
            inward = np.abs(violation.pull)
            inside |= self.member_of_last() & (violation.violating | (inward < violation.worst))
        strength = np.abs(violation.pull)
        if fresh:  # all variables of a side are alike
            strength = np.random.default_rng(self.options.seed).uniform(1.0, 2.0, strength.size)
        more = balanced(strength, violation.pull > 0.0, self.add, violation.violating & ~inside)
        inside[more] = True
        inside &= self.problem.hi > self.problem.lo
        self.last = np.flatnonzero(inside)
        return self.last

    def member_of_last(self) -> NDArray[np.bool_]:
        """Which variables were in the last chunk."""
        member = np.zeros(self.problem.n, dtype=bool)
        member[self.last if self.iterations else slice(0, 0)] = True
        return member

    def improve(self, violation: Violation, chunk: NDArray[np.int64]) -> bool:
        """Solve the program over the chunk and bring all gradients up to date; False where nothing moved."""
        program, stored = self.subproblem(chunk)
        before = program.a.copy()
        self.solve(program, chunk, stored)
        if self.coupled and np.array_equal(program.a, before):
            program.follow(np.searchsorted(chunk, violation.steepest), violation.direction)
        delta = np.zeros(self.problem.n)
        delta[chunk] = program.a - before
        moved = np.flatnonzero(delta)
        self.a[chunk] = program.a
        if self.stopped:
            return False
        slope = self.gradient[moved]
        self.spread(delta)
        self.objective += 0.5 * float(delta[moved] @ (slope + self.gradient[moved]))
        self.iterations += 1
        return moved.size > 0 and not self.stopped

    def subproblem(self, chunk: NDArray[np.int64]) -> tuple[Subproblem, bool]:
        """The program over the chunk, and whether its matrix is stored."""
        p = self.problem
        points, at = np.unique(p.index[chunk], return_inverse=True)
        # The interior point method has H and its factor beside the kernel matrix.
        need = 8.0 * (points.size**2 + (2 * chunk.size**2 if self.interior else 0))
        stored = need <= self.memory
        kernel: NDArray[np.float64] | Store
        if stored:
            kernel, column = self.matrix.over(points), at
        elif self.coupled:
            raise MemoryError(
                f"chunking: a chunk of {chunk.size} variables needs {need / 1e6:.0f} MB for its matrices, and "
                f"{self.memory / 1e6:.0f} are allowed; raise memory or use solver 'decomposition'."
            )
        else:
            self.matrix.forget()
            kernel = self.rows_over(points)
            at = p.index[chunk]
            column = at if kernel.columns is None else np.searchsorted(kernel.columns, at)
        program = Subproblem(
            kernel, at.astype(np.int64), column.astype(np.int64), p.sign[chunk], p.ridge[chunk],
            self.diagonal[chunk], p.lo[chunk], p.hi[chunk], self.a[chunk], self.gradient[chunk],
            self.groups.group[chunk], self.inverse[chunk], p.F[chunk], self.groups.rhs.shape[0],
        )  # fmt: skip
        return program, stored

    def rows_over(self, points: NDArray[np.intp]) -> Store:
        """The kernel cache, its rows cut down to these points."""
        if self.store is None:
            self.store = row_store(self.problem.gram)
            self.counts_before = self.store.counts.copy()
        columns = self.store.columns
        if columns is None or not np.isin(points, columns, assume_unique=True).all():
            self.store.reset()
            self.store.restrict(points)
        return self.store

    def goal(self) -> float:
        """The violation to which the next program is solved."""
        if self.paper:
            return _TO_THE_END * self.violation
        # Where the variables outside did not object to the last solution, the next may go further at once.
        held = self.violation <= _HELD * self.asked
        self.share = max(_SHARE * self.share, _TO_THE_END) if held else _SHARE
        self.asked = max(self.share * self.violation, _GOAL_SHARE * self.options.tol)
        return self.asked

    def solve(self, program: Subproblem, chunk: NDArray[np.int64], stored: bool) -> None:
        """As far as this variant wants it."""
        goal = self.goal()
        if self.interior and stored and (program.interior(goal) or self.coupled):
            return
        left = _STEPS_EACH * chunk.size
        loads = max(1, int(_LOOK_PRODUCTS / max(1.0, entry_cost(self.problem.gram) * chunk.size)))
        while left > 0:
            solved, steps = program.pair_steps(goal, min(left, max(1, _LOOK_UPDATES // chunk.size)), loads)
            left -= max(1, steps)
            if solved or self.look_inside(program, chunk):
                return

    def spread(self, delta: NDArray[np.float64]) -> None:
        """Add what the change of the chunk did to the gradient of all variables."""
        p = self.problem
        change = p.on_points(delta)
        moved = np.flatnonzero(change)
        self.used[moved] = True
        points = p.points
        sums = np.zeros(points.size)
        each = max(1, int(_LOOK_PRODUCTS * _ROWS_EACH / max(1.0, entry_cost(p.gram) * points.size)))
        for begin in range(0, moved.size, each):
            if begin and self.look(self.a):
                return  # the gradient of a run that has ended is not read
            part = moved[begin : begin + each]
            p.gram.accumulate(sums, part, change[part], None if points.size == p.gram.n else points)
        at = p.index if points.size == p.gram.n else np.searchsorted(points, p.index)
        self.gradient += p.sign * sums[at] + p.ridge * delta

    # -- telling -------------------------------------------------------------------------------------------------

    def look_inside(self, program: Subproblem, chunk: NDArray[np.int64]) -> bool:
        """Report in the middle of a long inner program, where there is no gradient of all variables."""
        a = self.a.copy()
        a[chunk] = program.a
        return self.look(a)

    def look(self, a: NDArray[np.float64]) -> bool:
        """Report where there is no gradient of all variables."""
        self.stopped = self.tell(a, None, float("nan"))
        return self.stopped

    def tell(self, a: NDArray[np.float64], gradient: NDArray[np.float64] | None, violation: float) -> bool:
        """Report to the callback; True when it asks to stop."""
        counts = np.zeros(2, dtype=np.int64) if self.store is None else self.store.counts - self.counts_before
        return self.callback(
            Snapshot(
                iteration=self.iterations,
                a=a,
                gradient=gradient,
                objective=self.objective if gradient is not None else None,
                violation=violation,
                kernel_evaluations=self.evaluations(),
                cache_hits=int(counts[0]),
                cache_misses=int(counts[1]),
            )
        )

    def evaluations(self) -> int:
        """Kernel values this run asked for; of a stored matrix, those in the rows it has used."""
        if isinstance(self.problem.gram, FullGram):
            return int(np.count_nonzero(self.used)) * self.problem.gram.n
        return self.problem.gram.evaluations - self.evaluations_before

    def outcome(self, status: Status) -> Outcome:
        """Leave the store whole for whoever comes next."""
        if self.store is not None:
            self.store.reset()
        return Outcome(self.a, self.iterations, status)
