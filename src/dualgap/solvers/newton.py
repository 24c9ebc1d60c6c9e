"""Semismooth Newton method on an augmented Lagrangian, for linear problems: K = AA'.

Problem (see `dualgap.problem`), with H = S AA' S + diag(ridge), S the signs, and its primal over ``w`` (one weight a
column of A) and the multipliers ``eta`` (bias and free coefficients)::

    min_a     1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e
    min_w,eta 1/2 |w|^2 + e'eta + sum_i psi_i(s_i),    s = f0 + S A w + F eta
              psi_i(s) = -min over lo <= t <= hi of (ridge t^2/2 + s t)         (hinge, its square, eps-insensitive, ..)

A squared loss (ridge > 0) is smooth: Newton's method is applied as it stands. The others have a kink, which the
augmented Lagrangian (the proximal point method on a) rounds off around the present a::

    t_i(s) = argmin over lo <= t <= hi of (s t + kappa/2 (t - a_i)^2)
    (w, eta) <- argmin 1/2 |w|^2 + e'eta - sum_i (s_i t_i + kappa/2 (t_i - a_i)^2),    a <- t(s),    kappa falls

Each inner problem is piecewise quadratic and convex, with the Hessian ``I + A_J' D A_J`` over the variables J that are
strictly within their bounds (D = 1 / (ridge + kappa)), and Newton's method with an exact search along its direction
ends after a handful of steps. J shrinks with kappa to the free support vectors, of which there are at most about as
many as features: late steps cost little more than one product with A.

The system is solved by Cholesky over the features or over J, whichever is smaller, or by conjugate gradients where both
are large; over the features its matrix is kept from step to step, and changed by the rows that have become free or have
ceased to be. Cost of an iteration: one product with A, one with the changed rows of A', and the system. Where the loss
is squared these are the rows that ceased or began to count: the sum of the others follows from the system. Use it for
linear problems to any accuracy; equality constraints (an exact bias, one-class models, semi-parametric functions) are a
few more coordinates. Late rounds of the hinge loss read only the rows whose answers may change (`_newton_awake`).

References: Yan and Li, "An efficient augmented Lagrangian method for support vector machine" (2020); Rockafellar
(1976).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dualgap.constraints import InfeasibleProblemError, feasible_start
from dualgap.feasibility import Basis, orthonormal, restored
from dualgap.multipliers import best_multipliers
from dualgap.problem import DualQP
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers._newton_steps import Steps, factor_of
from dualgap.solvers._newton_system import System

if TYPE_CHECKING:
    from numpy.typing import NDArray

OWN_THREADS = True

# The proximal weight falls by the first factor after an easy round (so many steps at most), by the second after a hard
# one (more than so many), by the third after others. A round that is cut short is begun again with a larger weight.
_FALLS, _EASY, _HARD = (10.0, 2.0, 5.0), 4, 12
# An inner problem is solved until what is left of its gradient is this share of the gap; a thousandth of it, and so on,
# where the weights that the answers themselves give have more than twice the gap. Below the least it is rounding.
_INNER_SHARE, _INNER_LESS, _INNER_LEAST = 0.1, 1e-3, 1e-16
# Newton steps in one round at most: a round that needs more has a weight that is too small, and is cut short.
_STEPS_MOST = 40
# Rounds without less gap after which the arithmetic is exhausted.
_PATIENCE = 8
# Newton steps that runs from a fair start took, give or take a factor of two (a9a, reuters, news20, mnist).
_EXPECTED_STEPS = 30
# Answers with this share of the gap that is asked for, as it is believed, are shown without a product with A.
_NEAR = 0.1
# From this many variables on one of every so many is solved first, to this relative gap.
_SAMPLED, _SAMPLE, _SAMPLE_GAP = 1 << 14, 8, 1e-2


@dataclass(frozen=True)
class Options:
    """Settings of `newton`.

    Attributes
    ----------
    tol : float
        KKT violation to reach.
    max_iter : int
        Newton steps at most; -1 for no limit.
    gap_tol : float
        The relative gap that whoever watches is waiting for; 0 for none.
    n_jobs : int or None
        Threads; results do not depend on it.
    """

    tol: float = 1e-3
    max_iter: int = -1
    gap_tol: float = 0.0
    n_jobs: int | None = None


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    if getattr(problem.gram, "factor", None) is None:
        return "newton works on the features of a linear kernel (K = AA'), and this kernel matrix has no factor"
    return None


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (a feasible point; found here when None)."""
    a = feasible_start(problem) if start is None else np.clip(start, problem.lo, problem.hi)
    run = _Run(problem, options, callback, a)
    if start is not None or problem.n < _SAMPLED:
        run.begin()
        return run.rounds()
    return run.begin_at_sample() or run.rounds()


def expected_seconds(problem: DualQP, a: NDArray[np.float64]) -> float:
    """A guess at what a run from `a` takes, for whoever must choose: steps times products and systems."""
    factor = factor_of(problem.gram)
    free = np.flatnonzero((a > problem.lo) & (a < problem.hi))
    system = System(factor, problem.index[free], problem.sign[free], problem.F[free], np.ones(free.size), 1.0)
    return _EXPECTED_STEPS * (3.0 * factor.product_seconds() + system.seconds())


class _Run(Steps):
    """One run: from a start through its rounds, with looks at the answers between them."""

    def __init__(
        self, problem: DualQP, options: Options, callback: Callable[[Snapshot], bool], a: NDArray[np.float64]
    ) -> None:
        super().__init__(problem, a, options.n_jobs)
        self.options, self.callback = options, callback
        self.shown = a
        self.enough = options.gap_tol  # relative gap at which a round looks up
        self.sampled = self.solved = False
        self.share, self.own_gap, self.least_own_gap = _INNER_SHARE, np.inf, np.inf
        self.near = False  # whether slopes at w stand for those at v
        self.basis: Basis | None = None

    # -- the start -----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Weights, multipliers and slopes of the dual point, and a first weight."""
        p = self.problem
        self.w = self._weights(self.a)
        slope = self._products(self.w) + p.f0 if np.any(self.a) else p.f0.copy()
        self.eta = best_multipliers(p, slope, None)
        self.s = slope + p.F @ self.eta
        self.kappa = self._first_weight()

    def _first_weight(self) -> float:
        """A weight that lets a variable cross its box where slopes change by as much as they differ."""
        p = self.problem
        if self.smooth:
            return 1.0
        width = (p.hi - p.lo)[(p.ridge == 0.0) & (p.hi > p.lo)]
        if width.size == 0:
            return 1.0
        spread = float(np.mean(np.abs(self.s - np.median(self.s)))) or float(np.mean(np.abs(p.f0))) or 1.0
        return spread / float(np.median(width))

    def begin_at_sample(self) -> Outcome | None:
        """Weights and multipliers of one variable of every eight, solved first; an outcome where the run is over.

        Bounds are widened and ridges narrowed by as much as there are fewer variables, so that the sample's weights are
        near those of all. Variables outside it begin at the bound that their slope asks for.
        """
        p = self.problem
        count = p.n // _SAMPLE
        chosen = np.arange(count) * _SAMPLE + np.random.default_rng(0).integers(0, _SAMPLE, count)
        ratio = p.n / chosen.size
        parts = (p.ridge[chosen] / ratio, p.f0[chosen], p.lo[chosen] * ratio, p.hi[chosen] * ratio)
        sample = DualQP(p.gram, p.index[chosen], p.sign[chosen], *parts, p.F[chosen], p.e)
        try:
            a = feasible_start(sample)
        except InfeasibleProblemError:
            self.begin()
            return None
        run = _Run(sample, replace(self.options, tol=0.0), self._heartbeat, a)
        run.sampled, run.enough = True, _SAMPLE_GAP
        if sample.n < _SAMPLED:
            run.begin()
        outcome = (run.begin_at_sample() if sample.n >= _SAMPLED else None) or run.rounds()
        self.iteration = run.iteration
        if outcome.status in (Status.STOPPED, Status.MAX_ITER):
            return Outcome(self.shown, self.iteration, outcome.status)
        self.w, self.eta, self.kappa = run.w, run.eta, run.kappa * ratio
        self.s = self._products(self.w)
        self.s += p.f0
        if p.k:
            self.s += p.F @ self.eta
        if self.smooth:
            return None
        corner = np.where(self.s < 0.0, p.hi, p.lo)
        self.a = np.where(np.isfinite(corner), corner, p.lo)
        self.a[chosen] = run.t / ratio
        return None

    def _heartbeat(self, snapshot: Snapshot) -> bool:
        """Ask whether to go on while a sample is solved; what is shown of the whole has not changed."""
        return self.callback(Snapshot(snapshot.iteration, self.shown, None, None, np.nan, 0))

    # -- rounds --------------------------------------------------------------------------------------------------

    def rounds(self) -> Outcome:
        """Proximal rounds until the callback or the tolerance is content."""
        least, waited = np.inf, 0
        while True:
            before = self.iteration
            outcome = self._newton()
            if outcome is not None:
                return outcome
            gap = self.gap if self.sampled else self.own_gap
            waited = 0 if gap < 0.9 * least else waited + 1
            least = min(least, gap)
            if waited >= _PATIENCE:
                return Outcome(self.shown, self.iteration, Status.STALLED)
            steps = self.iteration - before
            if not self.solved:
                self.kappa *= _FALLS[1] ** 2
                continue
            if waited > 1:  # a smaller weight would only magnify rounding
                self.a = self.t.copy()
                continue
            self.a = self.t.copy()
            self.kappa /= _FALLS[0] if steps <= _EASY else _FALLS[1] if steps > _HARD else _FALLS[2]

    def _newton(self) -> Outcome | None:
        """Newton's method for one round; an outcome where the run is over."""
        p, options = self.problem, self.options
        self._begin_round()
        begun = self.iteration
        for _ in range(_STEPS_MOST):
            g, g_eta = self.w - self.v, p.e - p.F.T @ self.t
            left = 0.5 * float(g @ g) + abs(float(g_eta @ self.eta))
            self.gap = left + self.lack
            primal = 0.5 * float(self.w @ self.w) + float(p.e @ self.eta) - self.least
            self.solved = solved = left <= self.share * self.lack
            enough = self._enough(g, primal)
            if (solved or enough) and self._wake():
                continue
            if enough or (self.violation <= 0.5 * options.tol and solved):
                done = self._look()
                if done is not None or (solved and self.precise()):
                    return done
            elif solved:
                done = None if self.sampled else self._look()
                if done is not None or self.precise():
                    return done
            elif self.callback(self._on_the_way(primal)):
                return Outcome(self.shown, self.iteration, Status.STOPPED)
            if 0 <= options.max_iter <= self.iteration:
                return Outcome(self.shown, self.iteration, Status.MAX_ITER)
            if not self._step(g, g_eta) and not self._wake():
                break
        self.near = False
        self._wake()
        # A smooth problem has one round, and a point no step can move is as good as it gets.
        self.solved = self.solved or self.smooth or self.iteration < begun + _STEPS_MOST
        return self._look()

    def _on_the_way(self, primal: float) -> Snapshot:
        """The gap between w and the answers to it, which are not shown: their own weights may be much worse."""
        objective = self.gap - primal
        relative = self.gap / max(abs(primal), abs(objective), 1e-300)
        return Snapshot(self.iteration, self.shown, None, objective, np.nan, 0, primal=primal, gap=relative)

    def _enough(self, g: NDArray[np.float64], primal: float) -> bool:
        """Whether the answers are believed to be good enough by their own weights, which differ from w by g.

        A squared loss is a quadratic function between the two, whose matrix is that of the last step.
        """
        self.near = False
        if self.sampled and self.smooth and self.fall <= self.enough * abs(primal):
            return True  # the step that was to bring no more than this has been made
        if self.gap > 0.5 * self.enough * abs(primal):
            return False
        bend = self.kept.bend(g, self._scale()) if self.smooth and not self.sampled else None
        self.near = bend is not None and self.problem.k == 0 and 0.5 * bend <= _NEAR * self.enough * abs(primal)
        return bend is None or 0.5 * bend <= self.enough * abs(primal)

    def precise(self) -> bool:
        """Whether the answers are as good by their own weights as by those they were made for; else more is asked."""
        if self.sampled or self.own_gap <= 2.0 * self.gap or self.share <= _INNER_LEAST:
            return True
        self.share *= _INNER_LESS
        return False

    def _look(self) -> Outcome | None:
        """Show the answers to whoever watches, with their own gradient; an outcome where that ends the run."""
        p = self.problem
        if self.sampled:
            return Outcome(self.t, self.iteration, Status.CONVERGED)
        if self.near:
            return self._show_as_believed()
        a = self._on_constraints() if p.k else self.t.copy()
        if not self.known:
            self.v, self.known = self._weights(self.t), True
        slopes = self._products(self._weights(a) if p.k else self.v)
        slopes += p.f0
        gradient = p.ridge * a
        gradient += slopes
        if p.k:
            slopes += p.F @ self.eta
        self.own_gap, violation = self._quality(a, slopes)
        if self.own_gap <= self.least_own_gap:
            self.shown, self.least_own_gap = a, self.own_gap
        if self.callback(Snapshot(self.iteration, a, gradient, None, violation, 0)):
            return Outcome(a, self.iteration, Status.STOPPED)
        return Outcome(a, self.iteration, Status.CONVERGED) if violation <= self.options.tol else None

    def _show_as_believed(self) -> Outcome | None:
        """The same without a product: the answers' own weights are so near to w that w's slopes are as good as theirs.

        The gap is what is believed of it. The violation is bounded by how far the weights are from each other and the
        rounding of v.
        """
        p, a, g = self.problem, self.t.copy(), self.w - self.v
        gradient = p.ridge * a
        objective = 0.5 * float(self.v @ self.v) + float(p.f0 @ a) + 0.5 * float(gradient @ a)
        gradient += self.s
        largest = float(p.gram.diag().max())
        rounding = float(np.finfo(np.float64).eps * np.abs(a).sum()) * largest
        violation = float(np.sqrt((g @ g) * largest)) + rounding
        self.shown = a
        # Where v follows from the system it is w to the last bit, but no closer to the truth than rounding.
        gap = max(self.gap, float(np.finfo(np.float64).eps) * abs(objective))
        primal = gap - objective
        relative = gap / max(abs(primal), abs(objective), 1e-300)
        if self.callback(Snapshot(self.iteration, a, gradient, objective, violation, 0, primal=primal, gap=relative)):
            return Outcome(a, self.iteration, Status.STOPPED)
        return Outcome(a, self.iteration, Status.CONVERGED) if violation <= self.options.tol else None

    def _on_constraints(self) -> NDArray[np.float64]:
        """The answers with ``F'a = e`` restored."""
        p = self.problem
        if self.basis is None:
            self.basis = orthonormal(p)
        return restored(self.t.copy(), p.lo, p.hi, self.basis, self.s)
