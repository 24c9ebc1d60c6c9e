"""Primal-dual interior point method, predictor-corrector, for any number of equality constraints.

Problem (see `dualgap.problem`)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

Steps (lecture, "Interior Point Methods", with a_i xi_i = mu for each i). With multipliers z of ``a >= lo`` and v of
``a <= hi`` each iteration solves, twice with one factorisation,

    (H + Z/X + V/T) da + F deta = -r_d + ...,    F'da = -r_p,    X = a - lo,  T = hi - a

first for mu = 0 (predictor), then for Mehrotra's mu = (mu_predicted / mu)^3 mu with the second-order term (corrector).
``variant="paper"`` follows the lecture's own rules for mu, the step and the start (see `_ipm_lecture`).

The system is reduced from variables to points and solved by a Cholesky factorisation and the Schur complement of F,
refined against the residual of the whole. There are two ways to do so:

- dense, over at most 5000 points: m^3/3 for m points, and two m x m matrices (`_ipm_points`);
- on a factor, ``K = AA'`` of rank r (linear kernels, low-rank approximations): n r^2, and nothing stored beside A but
  matrices of r rows, for as many points as A has (`_ipm_factored`). The lecture's "SGMA in place of all of Q".

Use it for high accuracy, for coupled constraints (semi-parametric models) and for low-rank kernels with a large C: the
number of iterations (10 to 30) hardly depends on the problem. It starts from the middle of the box, so a starting point
is used only to correct rounded kernel entries.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.certificate import exact_gradient, indefinite, judge
from dualgap.constraints import FEASIBLE, feasible_start
from dualgap.kernels.threads import thread_count
from dualgap.result import Certificate, Outcome, Snapshot, Status
from dualgap.solvers._interior import CLEARLY, Iterate, restore
from dualgap.solvers._ipm_factored import FactoredKernel
from dualgap.solvers._ipm_lecture import LectureIterate
from dualgap.solvers._ipm_points import DenseKernel, Kernel, PointSystem, Variables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP

# Tiles of the factorisations are shared among threads of its own.
OWN_THREADS = True
# Two dense matrices of 5000 rows are 0.4 GB, and a fit takes some twenty factorisations of a second each.
_MOST_ROWS = 5000
# A factor pays off when its rank is at most this share of the points: n r^2 and what is kept against n^3 / 3.
_LOW_RANK = 1 / 3
# Multiplications and additions a second of a core in a factorisation, from which its time is foretold.
_SPEED = 3e10
# Seconds between two looks at limits and interrupts within a step: a factorisation of 5000 rows takes one or two.
_LOOK_EACH = 0.2
# Iterations without a hundredth less gap after which the arithmetic is exhausted.
_PATIENCE = 15
# How much larger than the iterate's own complementarity the gap of a point on its bounds may be.
_WORSE = 1e3
# Iterations without a smaller gap after which variables are left off their bounds altogether: no longer a sparse point.
_DENSE_AFTER = 2
# A sum as close to the most extreme one possible, relative to its terms, leaves its variables no room.
_NO_ROOM = 1e-12

VARIANTS = ("improved", "paper")


@dataclass(frozen=True)
class Options:
    """Settings of `ipm`.

    Attributes
    ----------
    tol : float
        KKT violation to reach.
    max_iter : int
        Iterations at most; -1 for no limit (it ends by itself within some 100).
    variant : {"improved", "paper"}
        Mehrotra's rules, or those of the lecture's slides.
    gap_tol : float or None
        The relative gap that whoever watches is waiting for. The lecture's variant then reports its iterates as they
        are; otherwise variables that are clearly bounded are put on their bounds first.
    """

    tol: float = 1e-3
    max_iter: int = -1
    variant: str = "improved"
    gap_tol: float | None = None

    def __post_init__(self) -> None:
        if self.variant not in VARIANTS:
            raise ValueError(f"variant must be one of {', '.join(VARIANTS)}; got {self.variant!r}.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    points = problem.points.size
    A = _factor(problem.gram)
    if points > _MOST_ROWS and (A is None or A.shape[1] > _MOST_ROWS):
        what = "and the kernel has no factor" if A is None else f"and its factor has rank {A.shape[1]}"
        return f"ipm factorises a dense matrix, and takes {_MOST_ROWS} rows: there are {points} points, {what}"
    if indefinite(problem.gram, problem.index):
        return "ipm needs a convex problem, and the kernel matrix is indefinite"
    return None


def _factor(gram: Gram) -> Any:
    """A with ``K = AA'``, also where a linear kernel's matrix is stored; None where there is none."""
    if gram.factor is not None:
        return gram.factor
    return getattr(getattr(gram, "source", None), "factor", None)


def _kernel(problem: DualQP) -> Kernel:
    """The kernel matrix in the form that takes the fewest steps."""
    A, points = _factor(problem.gram), problem.points
    threads = thread_count(getattr(problem.gram, "n_jobs", None))
    if A is not None and (A.shape[1] <= _LOW_RANK * points.size or points.size > _MOST_ROWS):
        return FactoredKernel(A, points, threads)
    return DenseKernel(problem.gram, points, threads)


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise; `start` is where the exact gradient corrects that of rounded kernel entries."""
    fallback = feasible_start(problem)  # raises where there is no feasible point at all
    run = _Run(problem, options, fallback, start)
    iteration, took = 0, 0.0
    while True:
        point, gradient, certificate = run.look()
        violation, feasible = certificate.kkt_violation, certificate.infeasibility <= FEASIBLE
        ahead = max(took, run.kernel.step_work / (_SPEED * run.kernel.threads))
        told = Snapshot(iteration, point, gradient, None, violation, run.kernel.evaluations, ahead=ahead)
        stopped = Outcome(point if feasible else run.best, iteration, Status.STOPPED)
        if callback(told):
            return stopped
        # Where a gap is waited for, a violation that is small beside slopes of order one proves nothing.
        if violation <= options.tol and feasible and options.gap_tol is None:
            return Outcome(point, iteration, Status.CONVERGED)
        if 0 <= options.max_iter <= iteration:
            return Outcome(run.best, iteration, Status.MAX_ITER)
        began = time.perf_counter()
        within = replace(told, gradient=None, objective=-certificate.dual, violation=np.nan, ahead=0.0)
        run.kernel.between = _Looks(callback, within)
        try:
            stalled = run.waited >= _PATIENCE or run.iterate is None or not run.iterate.step()
        except _BrokenOffError:
            return stopped
        if stalled:
            return Outcome(run.best, iteration, Status.STALLED)
        took = time.perf_counter() - began
        iteration += 1


class _BrokenOffError(Exception):
    """Whoever watches has said to stop, within a step: the iterate is where it was before."""


class _Looks:
    """Asks whether to go on, now and then within a step."""

    def __init__(self, callback: Callable[[Snapshot], bool], told: Snapshot) -> None:
        self.callback, self.told, self.last = callback, told, time.perf_counter()

    def __call__(self) -> None:
        if time.perf_counter() - self.last < _LOOK_EACH:
            return
        self.last = time.perf_counter()
        if self.callback(self.told):
            raise _BrokenOffError


class _Run:
    """The problem without its fixed variables, the iterate, and the best point so far."""

    def __init__(
        self, problem: DualQP, options: Options, fallback: NDArray[np.float64], start: NDArray[np.float64] | None
    ) -> None:
        self.problem = problem
        self.kernel = _kernel(problem)
        at = np.searchsorted(problem.points, problem.index)
        self.whole = Variables(self.kernel, at, problem.sign, problem.ridge)
        self.f0 = problem.f0 if start is None else exact_gradient(problem, start) - self.whole.product(start)
        self.a = _forced(problem)
        self.free = np.flatnonzero(np.isnan(self.a))
        # How variables are put on their bounds, by decreasing zeal: the more there are, the fewer support vectors.
        self.snaps = (1.0, CLEARLY, 0.0) if options.variant != "paper" or options.gap_tol is None else (0.0,)
        # What a linear program returns is feasible to 1e-7 only.
        restore(
            fallback, (fallback > problem.lo) & (fallback < problem.hi), problem.lo, problem.hi, problem.F, problem.e
        )
        self.best, self.best_gap, self.waited = fallback, np.inf, 0
        self.iterate = self._begin(at, LectureIterate if options.variant == "paper" else Iterate)

    def _begin(self, at: NDArray[np.intp], kind: type[Iterate]) -> Iterate | None:
        """An iterate over the free variables; None where there are none."""
        p, free = self.problem, self.free
        if free.size == 0:
            return None
        size = float(np.abs(p.f0).max())  # without corrections for rounding, which may be all there is
        if free.size == p.n:
            system = PointSystem(self.kernel, at, p.sign, p.ridge, p.F)
            return kind(system, self.f0, p.lo, p.hi, p.F, p.e, size)
        held = np.nan_to_num(self.a)
        f0, e = self.whole.product(held) + self.f0, p.e - p.F.T @ held
        system = PointSystem(self.kernel, at[free], p.sign[free], p.ridge[free], p.F[free])
        return kind(system, f0[free], p.lo[free], p.hi[free], p.F[free], e, size)

    def look(self) -> tuple[NDArray[np.float64], NDArray[np.float64], Certificate]:
        """The point to report, its gradient and what it is worth."""
        point, gradient, certificate = self._judged(self.snaps[0])
        # Where slack and price both vanish, deciding for one of them costs: a point much worse than the iterate.
        worse = np.inf if self.iterate is None else _WORSE * float(self.iterate.slack @ self.iterate.price)
        for snap in self.snaps[1:]:
            if certificate.gap <= worse or (snap == 0.0 and self.waited < _DENSE_AFTER):
                break
            other = self._judged(snap)
            if other[2].gap < certificate.gap:
                point, gradient, certificate = other
        self.waited = 0 if certificate.gap < 0.99 * self.best_gap else self.waited + 1
        if certificate.gap < self.best_gap and certificate.infeasibility <= FEASIBLE:
            self.best, self.best_gap = point, certificate.gap
        return point, gradient, certificate

    def _judged(self, snap: float) -> tuple[NDArray[np.float64], NDArray[np.float64], Certificate]:
        point, eta = self.a.copy(), np.zeros(self.problem.k)
        if self.iterate is not None:
            point[self.free], eta = self.iterate.settled(snap), self.iterate.eta
        gradient = self.whole.product(point) + self.f0
        return point, gradient, judge(self.problem, point, gradient, eta)[0]


def _forced(problem: DualQP) -> NDArray[np.float64]:
    """Values of the variables that cannot move, NaN elsewhere.

    These are the ones with ``lo = hi``, and all those of a constraint that only the corner of the box satisfies (nu at
    its largest value): the method needs room between the bounds, and here there is none.
    """
    lo, hi, groups = problem.lo, problem.hi, problem.groups
    a = np.where(lo == hi, lo, np.nan)
    if groups is None:
        sums = [(problem.F[:, j], float(problem.e[j])) for j in range(problem.k)]
    else:
        sums = [(np.where(groups.group == g, groups.scale, 0.0), float(rhs)) for g, rhs in enumerate(groups.rhs)]
    for scale, rhs in sums:
        members = np.flatnonzero(scale)
        c = scale[members]
        for up in (c > 0.0, c < 0.0):
            corner = np.where(up, hi[members], lo[members])
            terms = c * corner
            size = np.abs(terms).sum() + abs(rhs)
            if np.isfinite(size) and abs(terms.sum() - rhs) <= _NO_ROOM * size:
                a[members] = corner
    return a
