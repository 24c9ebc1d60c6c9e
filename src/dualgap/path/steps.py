"""The walk itself: problem after problem, each from the solution of the one before."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.certificate import certify, exact_gradient, judge
from dualgap.constraints import FEASIBLE
from dualgap.kernels.threads import one_blas_thread
from dualgap.path.grams import KeptGram, StoredGram
from dualgap.path.narrowing import MORE, NEAREST, NEAREST_EXPECTED, Aim, narrowed, worth_narrowing
from dualgap.path.starts import multiple, restart_bounds, scaled_start
from dualgap.result import Certificate, Event, Snapshot, Status
from dualgap.run import solve
from dualgap.screening import known_product, settle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Two roundings of float64: of a quotient and of a product.
_ROUNDED = 2.0**-51
# A start this many times beyond the goal is no solution, whatever multiple of the last one is taken.
_FAR = 30.0


@dataclass(frozen=True, eq=False)
class Step:
    """The solution of one problem on the way."""

    problem: DualQP
    a: NDArray[np.float64]
    eta: NDArray[np.float64]
    certificate: Certificate
    status: Status
    iterations: int
    seconds: float
    skipped: bool
    start_gap: float
    bounds: tuple[float, float]


@dataclass(frozen=True)
class Goal:
    """What each solution has to reach, and how it is solved."""

    solver: str = "auto"
    tol: float = 1e-3
    gap_tol: float | None = None
    options: dict[str, Any] | None = None
    max_iter: int = -1
    time_limit: float | None = None
    callback: Callable[[Any], bool | None] | None = None
    warn: bool = True

    @property
    def free_to_choose(self) -> bool:
        """Whether how a problem is solved is left open."""
        return self.solver in ("auto", "block") and not self.options and self.max_iter < 0 and self.time_limit is None

    def met(self, certificate: Certificate) -> bool:
        """Whether a certificate bears the goal out."""
        off, goal = self._compared(certificate)
        return bool(off <= goal and certificate.infeasibility <= FEASIBLE)

    def far(self, certificate: Certificate) -> bool:
        """Whether the goal is so far off that no guess will do."""
        off, goal = self._compared(certificate)
        return bool(off > _FAR * goal)

    def _compared(self, certificate: Certificate) -> tuple[float, float]:
        if self.gap_tol is None:
            return certificate.kkt_violation, self.tol
        return certificate.relative_gap, self.gap_tol


@dataclass
class _Last:
    """What the next problem can use of this one."""

    step: Step
    value: float
    a: NDArray[np.float64]
    product: NDArray[np.float64]
    error: NDArray[np.float64]
    # Times as many variables as are taken within a step at first.
    wider: float = 1.0
    # What slopes have changed by, for each unit of log C, since the problem before: near the margin they go on so.
    trend: NDArray[np.float64] | None = None

    def slopes(self) -> NDArray[np.float64]:
        """``H a + f0 + F eta`` at this solution."""
        problem = self.step.problem
        slopes: NDArray[np.float64] = self.product + problem.ridge * self.a + problem.f0 + problem.F @ self.step.eta
        return slopes

    def follow(self, before: _Last) -> None:
        """Take note of what has changed since the problem before (and the first one, of what has after it)."""
        self.wider = before.wider
        if before.value > 0.0 and self.value != before.value and self.step.problem.gram is before.step.problem.gram:
            self.trend = (self.slopes() - before.slopes()) / np.log(self.value / before.value)
            before.trend = self.trend if before.trend is None else before.trend


@dataclass(frozen=True, eq=False)
class _At:
    """What is known at the start of a step."""

    gradient: NDArray[np.float64]
    certificate: Certificate
    eta: NDArray[np.float64]


def walk(problems: Iterable[tuple[float, DualQP]], goal: Goal, *, ratios: bool = False) -> Iterator[Step]:
    """Solve problems over the same samples one after another.

    Parameters
    ----------
    problems : iterable of (value, DualQP)
        In the order in which they are solved; made when they are asked for.
    goal, ratios
        See `Walker`.
    """
    walker = Walker(goal, ratios=ratios)
    for value, problem in problems:
        yield walker.step(value, problem)


class Walker:
    """Solves problems over the same samples, each from the nearer one of the last solution and the first.

    Parameters
    ----------
    goal : Goal
        What each is solved to.
    ratios : bool
        Whether the values are those of C, so that the lecture's bounds hold between neighbours.
    """

    def __init__(self, goal: Goal, *, ratios: bool = False) -> None:
        self.goal, self.ratios = goal, ratios
        self._known: list[_Last] = []

    def step(self, value: float, problem: DualQP) -> Step:
        """Solve the next problem."""
        began = time.perf_counter()
        last = min(self._known, key=lambda one: abs(value - one.value), default=None)
        if last is not None:
            last.wider = max(one.wider for one in self._known)
        ratio = value / last.value if self.ratios and last else np.nan
        step, product, error = _solved(problem, self.goal, last, ratio, began)
        now = _Last(step, value, step.a, product, error)
        if self.ratios and last is not None and worth_narrowing(problem):
            now.follow(last)
        self._known = [now, *self._known[-1:]]
        return step

    def over(self, gram: KeptGram, goal: Goal) -> Walker:
        """One that knows the same solutions, for problems over another copy of their matrix."""
        other = Walker(goal, ratios=self.ratios)
        for one in self._known:
            step = replace(one.step, problem=replace(one.step.problem, gram=gram))
            other._known.append(replace(one, step=step))
        return other


def _solved(
    problem: DualQP, goal: Goal, last: _Last | None, ratio: float, began: float
) -> tuple[Step, NDArray[np.float64], NDArray[np.float64]]:
    start, start_gap, bounds = None, np.nan, (np.nan, np.nan)
    if last is not None:
        # Threads of BLAS would go on spinning beside the solver's own after every long product of two vectors.
        with one_blas_thread():
            known = last.product if last.step.problem.gram is problem.gram else None
            if ratio == ratio:
                bounds = restart_bounds(problem, last.step.certificate, ratio)
            start = scaled_start(problem, last.a, known)
            at: _At | None = None
            factors = [] if known is None else _candidates(problem, last, known, start)
            for factor in factors:
                point = np.clip(factor * last.a, problem.lo, problem.hi)
                gradient = factor * last.product + problem.ridge * point + problem.f0
                certificate, eta = judge(problem, point, gradient, last.step.eta)
                start_gap = float(np.fmin(start_gap, certificate.relative_gap))
                at = at or _At(gradient, certificate, eta)
                if goal.far(certificate):
                    break  # the other one is not much better
                product, error = _multiplied(problem, point, last, factor)
                certificate, eta = judge(problem, point, product + problem.ridge * point + problem.f0, eta)
                if problem.gram.psd and goal.met(certificate):
                    took = time.perf_counter() - began
                    done = Status.CONVERGED
                    return (
                        Step(problem, point, eta, certificate, done, 0, took, True, start_gap, bounds),
                        product,
                        error,
                    )
            if factors and not np.any(problem.e):
                _hand_over(problem, last, start, factors[0])
            if at is not None and goal.free_to_choose and worth_narrowing(problem) and not np.any(problem.e):
                trend = None if last.trend is None else last.slopes() + np.log(ratio) * last.trend
                found = _within_few(problem, goal, start, at, began, trend, last.wider)
                if found is not None and goal.met(found.certificate):
                    whole = replace(found, seconds=time.perf_counter() - began, start_gap=start_gap, bounds=bounds)
                    return whole, *_product(problem, found.a)
                if found is not None:  # others have objected
                    start, last.wider = found.a, MORE * last.wider
    result = solve(
        problem,
        goal.solver,
        tol=goal.tol,
        gap_tol=goal.gap_tol,
        max_iter=goal.max_iter,
        time_limit=goal.time_limit,
        callback=goal.callback,
        start=start,
        warn=goal.warn,
        **(goal.options or {}),
    )
    took = time.perf_counter() - began
    step = Step(
        problem,
        result.a,
        result.eta,
        result.certificate,
        result.status,
        result.iterations,
        took,
        False,
        start_gap,
        bounds,
    )
    return step, *_product(problem, result.a)


def _multiplied(
    problem: DualQP, point: NDArray[np.float64], last: _Last, factor: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The product at a multiple of the last solution, made exact where its certificate would have to guess."""
    product, error = factor * last.product, factor * last.error
    if np.any(error):
        weights = problem.on_points(factor * last.a)

        def sharpen(doubtful: NDArray[np.intp]) -> NDArray[np.float64]:
            points, place = np.unique(problem.index[doubtful], return_inverse=True)
            return problem.sign[doubtful] * problem.gram.product(weights, points)[place]  # type: ignore[attr-defined]

        settle(problem, point, product, error, sharpen)
        if factor > 0.0:
            last.product, last.error = product / factor, error / factor
    return product, error


def _product(problem: DualQP, a: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``sign * (K a)`` and how far it may be off: a certificate has just made it, and the Gram matrix still has it."""
    known = known_product(problem, a)
    if known is not None:
        return known
    return exact_gradient(problem, a) - problem.f0 - problem.ridge * a, np.zeros(problem.n)


def _within_few(
    problem: DualQP,
    goal: Goal,
    start: NDArray[np.float64],
    at: _At,
    began: float,
    expected: NDArray[np.float64] | None,
    wider: float,
) -> Step | None:
    """Solve for the few variables that have something left to do; None where they are not few.

    They are told by the slopes that are `expected` at the solution, where there are such, else by those at the start.
    """
    before = at.certificate
    # The dual objective can only rise, and the primal one is far from where it will be.
    gap = None if goal.gap_tol is None else goal.gap_tol * abs(before.dual)

    def asked(snapshot: Snapshot) -> bool:
        if goal.callback is None:
            return False
        seconds, support = time.perf_counter() - began, int(np.count_nonzero(snapshot.a))
        event = Event(
            snapshot.iteration, seconds, before.primal, before.dual, before.relative_gap, before.kkt_violation,
            support, snapshot.kernel_evaluations, 0, 0, 0, 0,
        )  # fmt: skip
        return goal.callback(event) is True

    slopes, share = (at.gradient + problem.F @ at.eta, NEAREST) if expected is None else (expected, NEAREST_EXPECTED)
    found = narrowed(problem, start, at.gradient, slopes, Aim(gap, goal.tol), asked, wider * share)
    if found is None:
        return None
    certificate, eta = certify(problem, found[0], at.eta)
    nothing = np.nan, np.nan
    return Step(problem, found[0], eta, certificate, Status.CONVERGED, found[1], 0.0, False, np.nan, nothing)


def _hand_over(problem: DualQP, last: _Last, start: NDArray[np.float64], factor: float) -> None:
    """Tell the Gram matrix the product at the start, which is this multiple of one it has made."""
    gram = problem.gram
    if not isinstance(gram, KeptGram | StoredGram):
        return
    points = problem.points
    whole = points.size == gram.n
    product, error = np.zeros(gram.n), np.zeros(gram.n)
    product[problem.index] = problem.sign * (factor * last.product)
    error[problem.index] = factor * last.error
    # Weights as if nothing had been snapped to a bound: what was, is corrected for. Where that is C (C'/C) rounded, the
    # product has rounded by as much, and a row of the matrix would be made for nothing.
    scaled = factor * last.a
    weights = problem.on_points(np.where(np.abs(start - scaled) <= _ROUNDED * scaled, start, scaled))
    rows = None if whole else points
    gram.remember(weights, rows, product if whole else product[points], error if whole else error[points])


def _candidates(problem: DualQP, last: _Last, product: NDArray[np.float64], start: NDArray[np.float64]) -> list[float]:
    """Multiples of the last solution whose certificate costs O(n): the start, and the solution as it is."""
    on_ray = not np.any(problem.e)
    factors = [multiple(problem, last.a, product)] if on_ray else []
    if np.all(last.a <= problem.hi) and (on_ray or np.array_equal(start, last.a)):
        factors.append(1.0)
    return factors
