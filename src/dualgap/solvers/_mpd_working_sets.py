"""Working sets of MPD: all variables where their matrix can be held, else the free ones and the worst violators.

Each set is solved as a whole by `_mpd_dense`, multipliers included: the other variables stand still and are part of the
gradient and of the residual. What the set did to all others is then a product with kernel entries that are made, used
and dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import exact_gradient
from dualgap.constraints import feasible_start
from dualgap.feasibility import orthonormal, restored
from dualgap.kernels.entries import Entries
from dualgap.multipliers import best_multipliers
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers._augmented import natural_penalty, steep_penalty
from dualgap.solvers._mpd_coarse import coarse_start
from dualgap.solvers._mpd_dense import Dense
from dualgap.solvers._mpd_steps import worst_slope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.solvers.mpd import Options

# A working set is solved to this share of the violation around it, and to no less than this share of the goal.
_SET_SHARE, _GOAL_SHARE = 0.1, 0.5
# A residual counts as met when restoring it would change slopes by less than this share of the goal.
_MET_SHARE = 0.1
# One-point steps between two looks at limits and callbacks, a variable of the set: some 50 milliseconds.
_STEPS_EACH = 20
# Steps on the multipliers after which a set is left, and after which it is asked whether the constraints can be met.
_RENEWALS, _RENEWALS_WHOLE = 30, 100
# Rounds after which a violation that has not fallen by a tenth, and an objective that has not fallen by more than its
# rounding, are looked at in exact arithmetic.
_FELL, _ROUNDING, _PATIENCE = 0.9, 1e-13, 8
# Two matrices in float64 and a copy of one of them are held at once, within half of the budget.
_BYTES_HELD = 24
# The random part that large problems start from: an eighth of the variables, solved to this share of the usual slope.
_PART, _ROUGH = 8, 0.01
# Variables from which on a full report, whose gap needs a search for the best multipliers, waits for progress.
_MANY = 20_000


class WorkingSets:
    """The state of one run."""

    def __init__(
        self,
        problem: DualQP,
        options: Options,
        callback: Callable[[Snapshot], bool],
        start: NDArray[np.float64] | None,
    ) -> None:
        self.problem, self.options, self.callback = problem, options, callback
        self.basis = orthonormal(problem)
        self.diagonal = problem.gram.diag()[problem.index] + problem.ridge
        budget = getattr(problem.gram, "budget", np.inf)
        fits = max(128, int(np.sqrt(min(budget, 1e12) / 2 / _BYTES_HELD)))
        self.size = min(options.working_set, fits, problem.n)
        self.whole = self.size == problem.n
        precision = options.precision
        if precision == "auto":
            precision = "double" if self.whole else "single"
        self.entries = Entries(problem.gram, precision, keep=False)
        self.generator = np.random.default_rng(options.seed)
        self.iterations = 0
        self.tol = max(options.tol, options.first_tol)
        self.stopped = False
        self.told = np.inf
        self.held: NDArray[np.float64] | None = None
        self.multipliers = np.zeros(self.basis.c.size)
        self.begin(start)
        check_objective(self.objective)
        self.natural = natural_penalty(self.basis.U, self.diagonal)

    def begin(self, start: NDArray[np.float64] | None) -> None:
        """Where to start: the point given; zero where all variables are one set; else from a random part."""
        p = self.problem
        if start is None and not self.whole:
            self.a = feasible_start(p)
        else:
            self.a = np.clip(0.0 if start is None else start, p.lo, p.hi)
        self.gradient = exact_gradient(p, self.a) if np.any(self.a) else p.f0.copy()
        eta = None
        if start is None and not self.whole:
            found = coarse_start(p, self.options.seed, max(self.size, p.n // _PART), self.solve_part)
            if found is not None:
                eta = self.go_to(*found)
        self.suit_multipliers(eta)
        self.residual = self.basis.residual(self.a)

    def solve_part(self, part: DualQP) -> Outcome:
        """A smaller problem, roughly; it may itself start from a part of it. Its steps count."""
        options = replace(self.options, tol=max(_ROUGH * float(np.abs(part.f0).mean()), self.tol), first_tol=0.0)
        outcome = WorkingSets(part, options, self.interrupt, None).run()
        self.iterations += outcome.iterations
        return outcome

    def interrupt(self, snapshot: Snapshot) -> bool:
        """What a part reports is not about this problem, but limits and interrupts hold for it as well."""
        return self.callback(replace(snapshot, a=self.a, gradient=None, objective=None, violation=float("nan")))

    def go_to(
        self, a: NDArray[np.float64], slope: NDArray[np.float64], eta: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Start from this point and these multipliers if that is better than the present point."""
        p = self.problem
        here = self.a, self.gradient.copy(), self.objective
        a = restored(a, p.lo, p.hi, self.basis, slope)
        self.spread(np.arange(p.n), a - self.a)
        self.a = a
        if self.objective + float(eta @ (p.F.T @ a - p.e)) < here[2]:
            return eta
        self.a, self.gradient = here[:2]
        return None

    # -- figures -------------------------------------------------------------------------------------------------

    @property
    def objective(self) -> float:
        """``a'Ha/2 + f0'a``."""
        return 0.5 * float(self.a @ (self.gradient + self.problem.f0))

    @property
    def eta(self) -> NDArray[np.float64]:
        """The multipliers of F'a = e."""
        return self.basis.to_eta @ self.multipliers

    def slopes(self) -> NDArray[np.float64]:
        """``Ha + f0 + F eta``."""
        return self.gradient + self.basis.U @ self.multipliers

    def penalty(self) -> float:
        """Rho: as curved as H, and steep enough for a residual of the box's size to be felt by the slopes."""
        if self.basis.c.size == 0:
            return 0.0
        p = self.problem
        return max(self.natural, steep_penalty(self.basis.U, p.hi - p.lo, self.slopes()))

    def felt(self, residual: NDArray[np.float64]) -> float:
        """How much slopes change, roughly, when the residual is removed."""
        if residual.size == 0:
            return 0.0
        return self.natural * float(np.abs(self.basis.U @ residual).max())

    def tell(self, violation: float, *, complete: bool = True) -> bool:
        """Report; between two gradients of all variables without one."""
        self.stopped = self.callback(
            Snapshot(
                iteration=self.iterations,
                a=self.a,
                gradient=self.gradient if complete else None,
                objective=self.objective if complete else None,
                violation=violation if complete else float("nan"),
                kernel_evaluations=self.entries.evaluations,
            )
        )
        return self.stopped

    # -- running -------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Solve working sets until the goal is met."""
        p = self.problem
        least, lowest, waited = np.inf, np.inf, 0
        while True:
            violation = worst_slope(self.slopes(), self.a, p.lo, p.hi)
            off = self.felt(self.residual)
            check_objective(self.objective)
            if violation <= self.tol and off <= _MET_SHARE * self.tol:
                violation = self.restore()
            now = max(violation, off)
            objective = self.objective
            fell = now < _FELL * least or objective < lowest - _ROUNDING * abs(lowest)
            waited = 0 if fell else waited + 1
            least, lowest = min(least, now), min(lowest, objective) if not self.whole else -np.inf
            met = violation <= self.tol and off <= _MET_SHARE * self.tol
            if met or p.n <= _MANY or now < 0.5 * self.told:
                self.told = min(self.told, now)
                if self.tell(violation):
                    return self.outcome(Status.STOPPED)
            if met:
                if self.tol <= self.options.tol:
                    return self.outcome(Status.CONVERGED)
                self.tol = max(self.options.tol, 0.1 * self.tol)
                least, waited = np.inf, 0
                continue
            if 0 <= self.options.max_iter <= self.iterations:
                return self.outcome(Status.MAX_ITER)
            if waited == _PATIENCE:
                return self.outcome(Status.STALLED)  # rounding may be in the way: `run` will look
            self.improve(np.arange(p.n) if self.whole else self.choose(by_chance=waited > 0), now)
            if self.stopped:
                return self.outcome(Status.STOPPED)

    def choose(self, *, by_chance: bool) -> NDArray[np.intp]:
        """The free variables and the worst violators; any that could move where these have brought nothing."""
        p = self.problem
        slope = self.slopes()
        score = np.maximum(np.where(self.a < p.hi, -slope, -np.inf), np.where(self.a > p.lo, slope, -np.inf))
        free = (self.a > p.lo) & (self.a < p.hi)
        if by_chance:
            score = np.where(free | (score > 0.0), self.generator.random(p.n), -np.inf)
            return np.sort(np.argpartition(-score, self.size - 1)[: self.size])
        places = min(int(np.count_nonzero(free)), self.size // 2)
        if places:
            # Free ones are wanted even where their slopes vanish: they are what makes room for the others.
            inside = np.flatnonzero(free)
            order = np.argsort(-np.abs(slope[inside]), kind="stable")[:places]
            score[inside[order]] = np.inf
        return np.sort(np.argpartition(-score, self.size - 1)[: self.size])

    def improve(self, chosen: NDArray[np.intp], violation: float) -> None:
        """Solve one working set, to a share of the violation there is."""
        p = self.problem
        before = self.a[chosen]
        dense = Dense(
            self.matrix(chosen), self.basis.U[chosen], before.copy(), p.lo[chosen], p.hi[chosen],
            self.gradient[chosen], self.residual, self.multipliers, self.penalty(),
        )  # fmt: skip
        goal = max(_SET_SHARE * violation, _GOAL_SHARE * self.tol)
        done = self.iterations
        renewals, limit = 0, _RENEWALS_WHOLE if self.whole else _RENEWALS
        while True:
            left = _STEPS_EACH * chosen.size
            if self.options.max_iter >= 0:
                left = min(left, self.options.max_iter - self.iterations)
            settled = dense.minimise(max(dense.enough(), goal), left)
            self.iterations = done + dense.steps
            if self.options.max_iter >= 0 and self.iterations >= self.options.max_iter:
                break
            if self.tell(np.nan, complete=False):
                break
            if not settled:
                continue
            if dense.violation <= goal and self.felt(dense.residual) <= _MET_SHARE * goal:
                break
            if renewals == limit:
                if self.whole:
                    feasible_start(p)  # raises where no point obeys the constraints
                break
            dense.improve_multipliers()
            renewals += 1
        if self.whole:
            self.a, self.gradient, self.multipliers = dense.a, dense.gradient, dense.estimate
        else:
            change = self.descent(chosen, before, dense)
            self.a[chosen] = np.clip(before + change, p.lo[chosen], p.hi[chosen])
            self.spread(chosen, self.a[chosen] - before)
            self.suit_multipliers(self.eta)  # those of the set need not suit the others
        self.residual = self.basis.residual(self.a)

    def descent(self, chosen: NDArray[np.intp], before: NDArray[np.float64], dense: Dense) -> NDArray[np.float64]:
        """What a set moves by: onto its constraints, and no further than the objective falls.

        So the objective falls from set to set, however small they are, once the constraints are met.
        """
        p, U = self.problem, dense.U
        rest = self.residual - U.T @ before  # of the constraints, without this set
        own = replace(self.basis, U=U, c=-rest)
        change = restored(dense.a, p.lo[chosen], p.hi[chosen], own, dense.slopes) - before
        if self.felt(self.residual) > _MET_SHARE * self.tol or self.felt(rest + U.T @ (before + change)) > self.tol:
            return change
        fall, curvature = -float(change @ self.gradient[chosen]), float(change @ dense.H @ change)
        if fall <= 0.0:
            return np.zeros_like(change)
        return change if fall >= curvature else (fall / curvature) * change

    def suit_multipliers(self, eta: NDArray[np.float64] | None) -> None:
        """The multipliers that suit all variables best, as their gradient is; `eta` is where to look first."""
        p = self.problem
        eta = best_multipliers(p, self.gradient - p.ridge * self.a, eta)
        self.multipliers = self.basis.multipliers(p.F, eta)

    def spread(self, moved: NDArray[np.intp], change: NDArray[np.float64]) -> None:
        """Add to the gradient of all variables what a move of some does to it."""
        p = self.problem
        kept = np.flatnonzero(change)
        moved, change = moved[kept], change[kept]
        sums = np.zeros(p.points.size)
        self.entries.accumulate(sums, p.index[moved], p.sign[moved] * change, p.points)
        on_points = np.zeros(p.gram.n)
        on_points[p.points] = sums
        self.gradient += p.sign * on_points[p.index]
        self.gradient[moved] += p.ridge[moved] * change

    def matrix(self, variables: NDArray[np.intp]) -> NDArray[np.float64]:
        """H over some variables in float64; that over all is kept."""
        if self.held is not None:
            return self.held
        p = self.problem
        points = p.index[variables]
        block = np.empty((variables.size, variables.size), dtype=self.entries.dtype)
        self.entries.block(points, points, block)
        matrix = block.astype(np.float64)
        matrix *= p.sign[variables]
        matrix *= p.sign[variables][:, None]
        np.fill_diagonal(matrix, self.diagonal[variables])
        if self.whole:
            self.held = matrix
        return matrix

    def restore(self) -> float:
        """Move onto the constraints; returns the violation there, with multipliers that suit it best."""
        p = self.problem
        moved = restored(self.a, p.lo, p.hi, self.basis, self.slopes())
        changed = np.flatnonzero(moved != self.a)
        change = moved[changed] - self.a[changed]
        self.a = moved
        if self.held is not None:
            self.gradient += change @ self.held[changed]
        else:
            self.spread(changed, change)
        self.residual = self.basis.residual(self.a)
        return float(worst_slope(self.slopes(), self.a, p.lo, p.hi))

    def outcome(self, status: Status) -> Outcome:
        """The solution, on its constraints."""
        p = self.problem
        return Outcome(restored(self.a, p.lo, p.hi, self.basis, self.slopes()), self.iterations, status)
