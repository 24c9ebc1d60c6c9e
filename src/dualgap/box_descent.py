"""Descent on a box by one variable at a time, over cached kernel rows: what the solvers without constraints share.

``min 1/2 a'Ha + f0'a`` subject to ``lo <= a <= hi``. A step is ``a_i <- clip(a_i - rate_i g_i)`` with the gradient
``g = Ha + f0``, which then follows by one row of H. With ``rate_i = omega / H_ii`` the objective falls by at least
``omega (2 - omega) g_i^2 / (2 H_ii)`` where nothing is clipped, hence ``0 < omega < 2``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap.certificate import exact_gradient
from dualgap.kernels.cache import ElementStore
from dualgap.kernels.gram import FullGram, Store, entry_cost, row_store
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# What a chunk returns for.
MORE, SWEPT, SETTLED, NEED_ROW = 0, 1, 2, 3
# A variable this close to a bound, relative to its box, is put there: it is the rounding of one subtraction.
_SNAP = 1e-14
# Least curvature (a zero row, an indefinite kernel): such a variable runs to a bound.
FLAT = 1e-12
# Steps of a chunk, entry updates, multiplications in rows that had to be computed: a tenth of a second or so.
_CHUNK_STEPS, _CHUNK_UPDATES, _CHUNK_PRODUCTS = 1000, 20_000_000, 50_000_000
# Rows are moved together only when that shortens them by a fifth: moving costs a pass over the cache.
_WORTH_MOVING = 0.8
# Variables are set aside once in so many steps, as LIBSVM does, or once in as many as there are.
_SHRINK_EVERY = 1000


def refusal(problem: DualQP, name: str) -> str | None:
    """Why a method that moves single variables cannot take a problem: equality constraints."""
    if problem.k == 0:
        return None
    what = "an equality constraint" if problem.k == 1 else f"{problem.k} equality constraints"
    return (
        f"{name} moves one variable at a time, and those of this problem are coupled by {what} "
        f"({', '.join(problem.columns)}); build it with bias=False or bias='penalised' and without parametric "
        f"functions, or use another solver such as 'mpd'"
    )


@nb.njit(cache=True, nogil=True)
def _worst(a, gradient, lo, hi):  # type: ignore[no-untyped-def]
    """The largest violation."""
    worst = 0.0
    for t in range(a.size):
        if (gradient[t] < 0.0 and a[t] < hi[t]) or (gradient[t] > 0.0 and a[t] > lo[t]):
            worst = max(worst, abs(gradient[t]))
    return worst


@nb.njit(cache=True, nogil=True)
def _greediest(a, gradient, lo, hi, diagonal):  # type: ignore[no-untyped-def]
    """The variable whose exact, clipped step lowers the objective most (-1: none), and the largest violation."""
    best, gain, worst = -1, 0.0, 0.0
    for t in range(a.size):
        g = gradient[t]
        room = hi[t] - a[t] if g < 0.0 else a[t] - lo[t]
        if room > 0.0 and g != 0.0:
            size, curvature = abs(g), max(diagonal[t], FLAT)
            worst = max(worst, size)
            move = min(size / curvature, room)
            decrease = move * (size - 0.5 * curvature * move)
            if decrease > gain:
                gain = decrease
                best = t
    return best, worst


@nb.njit(cache=True, nogil=True)
def _chunk(  # type: ignore[no-untyped-def]
    values, slot, stamp, clock, point, column, sign, ridge, diagonal, rate, a, gradient, lo, hi, greedy, order, state,
    tol, max_steps, needed, report,
):  # fmt: skip
    """At most `max_steps` steps, of the variables in `order` from ``state[0]`` on or, if `greedy`, of the best ones.

    `report` gets the violation (greedy: of all; else of those met on the way), the change of the objective and rows
    used.
    """
    steps = 0
    report[1], report[2] = 0.0, 0.0
    while True:
        if greedy:
            i, report[0] = _greediest(a, gradient, lo, hi, diagonal)
            if i < 0 or report[0] <= tol:
                return SETTLED, steps
        else:
            i = -1
            while state[0] < order.size:
                t = order[state[0]]
                if (gradient[t] < 0.0 and a[t] < hi[t]) or (gradient[t] > 0.0 and a[t] > lo[t]):
                    i = t
                    break
                state[0] += 1
            if i < 0:
                return SWEPT, steps
            report[0] = max(report[0], abs(gradient[i]))
        if steps >= max_steps:
            return MORE, steps
        if slot[point[i]] < 0:
            needed[0] = point[i]
            return NEED_ROW, steps
        row = values[slot[point[i]]]
        clock[0] += 1
        stamp[slot[point[i]]] = clock[0]
        report[2] += 1.0
        width = hi[i] - lo[i] if hi[i] < np.inf else max(1.0, abs(a[i]))
        new = min(max(a[i] - rate[i] * gradient[i], lo[i]), hi[i])
        if new - lo[i] <= _SNAP * width:
            new = lo[i]
        elif hi[i] - new <= _SNAP * width:
            new = hi[i]
        change = new - a[i]
        report[1] += change * (gradient[i] + 0.5 * diagonal[i] * change)
        a[i] = new
        weight = change * sign[i]
        for t in range(a.size):
            gradient[t] += sign[t] * weight * row[column[t]]
        gradient[i] += ridge[i] * change
        steps += 1
        state[0] += 1


class BoxDescent:
    """The state of one run: full vectors, and compact copies of the active variables for compiled code.

    Parameters
    ----------
    problem : DualQP
        Without equality constraints.
    callback : callable
        Told between chunks.
    start : ndarray or None
        Where to start; the point of the box nearest to zero when None.
    rate : ndarray, shape (n,)
        Of each variable's step.
    generator : Generator or None
        Draws a new order for every sweep; None for the order of the variables.
    greedy : bool
        Whether the variable that gains most is taken, in place of sweeps.
    shrinking : bool
        Whether variables that look settled are set aside.
    tol, first_tol, max_iter
        As in the solvers' options.
    """

    def __init__(
        self,
        problem: DualQP,
        callback: Callable[[Snapshot], bool],
        start: NDArray[np.float64] | None,
        *,
        rate: NDArray[np.float64],
        generator: np.random.Generator | None,
        greedy: bool,
        shrinking: bool,
        tol: float,
        first_tol: float,
        max_iter: int,
    ) -> None:
        p = self.problem = problem
        self.callback, self.generator, self.greedy, self.shrinking = callback, generator, greedy, shrinking
        self.last_tol, self.tol, self.max_iter = tol, max(tol, first_tol), max_iter
        self.a = np.clip(0.0 if start is None else start, p.lo, p.hi)
        self.gradient = exact_gradient(p, self.a) if np.any(self.a) else p.f0.copy()
        self.objective = 0.5 * float(self.a @ (self.gradient + p.f0))
        self.diagonal, self.rate = p.gram.diag()[p.index] + p.ridge, rate
        self.store: Store = row_store(p.gram)
        self.store.reset()
        self.evaluations_before, self.counts_before = p.gram.evaluations, self.store.counts.copy()
        self.iterations, self.rows_used, self.shrunk_at = 0, 0, 0
        self.violation = np.inf
        self.needed, self.state, self.report = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(3)
        self.activate(np.arange(p.n))

    # -- the active set ------------------------------------------------------------------------------------------

    def activate(self, active: NDArray[np.intp]) -> None:
        """Copy the active variables together, restrict the stored rows to their points, and begin a sweep."""
        p = self.problem
        self.active = active
        points = np.unique(p.index[active])
        if points.size < _WORTH_MOVING * self.store.width:
            self.store.restrict(points)
        width = self.store.columns
        column = p.index[active] if width is None else np.searchsorted(width, p.index[active])
        self.local = {
            "point": p.index[active].astype(np.int64),
            "column": column.astype(np.int64),
            "sign": p.sign[active],
            "ridge": p.ridge[active],
            "diagonal": self.diagonal[active],
            "rate": self.rate[active],
            "a": self.a[active],
            "gradient": self.gradient[active],
            "lo": p.lo[active],
            "hi": p.hi[active],
        }
        self.sweep()

    def sweep(self) -> None:
        """Begin a sweep."""
        size = self.active.size
        self.order = np.arange(size) if self.generator is None else self.generator.permutation(size)
        self.state[0] = 0
        self.report[0] = 0.0

    def write_back(self) -> None:
        """Put the active variables back into the full vectors."""
        self.a[self.active] = self.local["a"]
        self.gradient[self.active] = self.local["gradient"]

    def shrink(self) -> None:
        """Set aside variables at bounds whose slopes hold them there by more than the worst violation."""
        self.shrunk_at = self.iterations
        a, slope = self.local["a"], self.local["gradient"]
        worst = _worst(a, slope, self.local["lo"], self.local["hi"])
        settled = ((a <= self.local["lo"]) & (slope > worst)) | ((a >= self.local["hi"]) & (slope < -worst))
        if settled.any() and not settled.all():
            self.write_back()
            if self.active.size == self.problem.n:
                self.when_whole = self.a.copy(), self.gradient.copy()
            self.activate(self.active[~settled])

    def unshrink(self) -> None:
        """All variables again: the gradient of those set aside catches up with what changed since none was."""
        self.write_back()
        p = self.problem
        a_then, gradient_then = self.when_whole
        change = p.on_points(self.a - a_then)
        moved = np.flatnonzero(change)
        aside = np.ones(p.n, dtype=bool)
        aside[self.active] = False
        rows = np.unique(p.index[aside])
        missing = np.zeros(rows.size)
        p.gram.accumulate(missing, moved, change[moved], rows)
        self.gradient[aside] = gradient_then[aside] + p.sign[aside] * missing[np.searchsorted(rows, p.index[aside])]
        self.store.reset()
        self.activate(np.arange(p.n))

    # -- running -------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Step until the violation is within the tolerance."""
        settled = self.after_sweep()  # before the first: a start may have nothing left to do
        while True:
            if self.tell():
                return self.outcome(Status.STOPPED)
            if settled and self.active.size < self.problem.n:
                self.unshrink()
            elif settled:
                if self.tol <= self.last_tol:
                    return self.outcome(Status.CONVERGED)
                self.tol = max(self.last_tol, 0.1 * self.tol)
            elif self.shrinking and self.iterations - self.shrunk_at >= min(self.problem.n, _SHRINK_EVERY):
                self.shrink()
            if 0 <= self.max_iter <= self.iterations:
                return self.outcome(Status.MAX_ITER)
            code = self.advance()
            settled = code == SETTLED or (code == SWEPT and self.after_sweep())

    def after_sweep(self) -> bool:
        """Whether a sweep left nothing to do; begins the next."""
        self.violation = _worst(*(self.local[name] for name in ("a", "gradient", "lo", "hi")))
        self.sweep()
        return self.violation <= self.tol

    def advance(self) -> int:
        """One chunk of steps, and the rows for them."""
        s = self.store
        budget = max(1, min(_CHUNK_STEPS, _CHUNK_UPDATES // max(1, self.active.size)))
        if self.max_iter >= 0:
            budget = max(0, min(budget, self.max_iter - self.iterations))
        loads = max(1, int(_CHUNK_PRODUCTS / max(entry_cost(self.problem.gram) * s.width, 1.0)))
        while True:
            code, steps = _chunk(
                s.values, s.slot, s.stamp, s.clock, *self.local.values(), self.greedy, self.order, self.state, self.tol,
                budget, self.needed, self.report,
            )  # fmt: skip
            budget -= steps
            self.iterations += steps
            self.violation = float(self.report[0])
            self.objective += float(self.report[1])
            self.rows_used += int(self.report[2])
            check_objective(self.objective if self.violation >= 0.0 else np.nan)
            if code != NEED_ROW:
                return int(code)
            s.load(self.needed, None)
            loads -= 1
            if loads == 0:
                return MORE

    def tell(self) -> bool:
        """Report to the callback; True when it asks to stop."""
        self.write_back()
        hits, misses = (int(count) for count in self.store.counts - self.counts_before)
        if not isinstance(self.store, ElementStore):
            hits = self.rows_used - misses  # compiled code reads rows without asking
        gram = self.problem.gram
        evaluations = gram.evaluations - self.evaluations_before
        if isinstance(gram, FullGram):
            evaluations = int(np.count_nonzero(self.store.stamp)) * gram.n
        return self.callback(
            Snapshot(
                iteration=self.iterations,
                a=self.a,
                gradient=self.gradient,
                objective=self.objective,
                violation=self.violation,
                kernel_evaluations=evaluations,
                cache_hits=hits,
                cache_misses=misses,
            )
        )

    def outcome(self, status: Status) -> Outcome:
        """Leave the store whole for whoever comes next."""
        self.write_back()
        self.store.reset()
        return Outcome(self.a, self.iterations, status)
