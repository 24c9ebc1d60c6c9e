"""Sequential minimal optimisation: two variables at a time.

Problem (see `dualgap.problem`)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

where the equality constraints fall apart into groups (no constraint; the bias of a C-SVC; one group a class for
nu-SVC and a sign for nu-SVR). A step moves one pair of a group along its constraint, exactly and clipped (lecture,
"Sequential Minimal Optimization"; corrected: a flat pair runs to the bound that descends). A variable in no
constraint moves alone.

Variants: ``second_order`` selects the pair by the decrease it promises (as LIBSVM does) and can shrink;
``keerthi1`` and ``keerthi2`` are Platt's loops with Keerthi's two thresholds, the reference of the Rosen paper.

Cost of an iteration: two kernel rows (cached) and O(n). Use it as the reference, for small problems, and where
iteration counts of the literature are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.certificate import exact_gradient
from dualgap.constraints import feasible_start
from dualgap.kernels.cache import ElementStore
from dualgap.kernels.gram import FullGram, KernelGram, Store, entry_cost, row_store
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers import _pair_steps as pairs
from dualgap.solvers import _smo_keerthi as keerthi

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# A chunk is as many steps as there are variables, but at least 100 and at most 1000, or an eighth of the steps done so
# far: a long run on few variables would otherwise spend its time on looking at the gap. It is never more than 2 * 10^7
# entry updates or 5 * 10^7 multiplications in rows that had to be computed: a tenth of a second or so, so that
# interrupts and time limits are obeyed. Counted, not timed, because where a run looks up must not depend on the clock.
_CHUNK_LEAST, _CHUNK_MOST, _CHUNK_SHARE = 100, 1000, 8
_CHUNK_UPDATES, _CHUNK_PRODUCTS = 20_000_000, 50_000_000
# Multiplications in one piece of the product that gradients catch up by, with the same end: 20 to 100 milliseconds.
_PIECE_PRODUCTS = 300_000_000
# Shrinking is tried as often as LIBSVM does.
_SHRINK_EVERY = 1000
# Rows are moved together only when that shortens them by a fifth: moving costs a pass over the cache.
_WORTH_MOVING = 0.8


@dataclass(frozen=True)
class Options:
    """Settings of `smo`.

    Attributes
    ----------
    tol : float
        Stop when the two thresholds of every group are at most this far apart (a KKT violation).
    first_tol : float
        The violation to reach first; it is then divided by 10 until `tol`, whoever watches the gap being asked at
        each stage. Not below `tol`.
    max_iter : int
        Steps at most; -1 for no limit.
    variant : {"second_order", "keerthi1", "keerthi2"}
        How pairs are chosen.
    shrinking : bool
        Set bounded variables aside that look settled (``second_order`` only).
    function_cache : {"all", "free"}
        Keep the gradient of all variables, or of the free ones alone (``keerthi1``, ``keerthi2`` only).
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    max_iter: int = -1
    variant: str = "second_order"
    shrinking: bool = True
    function_cache: str = "all"

    def __post_init__(self) -> None:
        if self.variant not in ("second_order", "keerthi1", "keerthi2"):
            raise ValueError(
                f"variant must be 'second_order', 'keerthi1' or 'keerthi2' for solver 'smo'; got {self.variant!r}."
            )
        if self.function_cache not in ("all", "free"):
            raise ValueError(f"function_cache must be 'all' or 'free'; got {self.function_cache!r}.")
        if self.function_cache == "free" and self.variant == "second_order":
            raise ValueError("function_cache='free' needs variant='keerthi1' or 'keerthi2'.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    groups = problem.groups
    if groups is None:
        return (
            f"smo moves pairs along one constraint, and the {problem.k} equality constraints of this problem are "
            f"coupled (as in semi-parametric models)"
        )
    if options is not None and options.variant != "second_order" and np.any(groups.group < 0):
        return f"variant {options.variant!r} moves pairs only, and some variables are in no equality constraint"
    return None


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (a feasible point; found here when None)."""
    a = feasible_start(problem) if start is None else np.clip(start, problem.lo, problem.hi)
    gradient = exact_gradient(problem, a) if np.any(a) else problem.f0.copy()
    run = _Run(problem, options, callback, a, gradient)
    return run.second_order() if options.variant == "second_order" else run.keerthi()


class _Run:
    """The state of one run: full vectors, and compact copies of the active variables for compiled code."""

    def __init__(
        self,
        problem: DualQP,
        options: Options,
        callback: Callable[[Snapshot], bool],
        a: NDArray[np.float64],
        gradient: NDArray[np.float64],
    ) -> None:
        groups = problem.groups
        assert groups is not None  # supports() has said so
        self.problem, self.options, self.callback = problem, options, callback
        self.a, self.gradient = a, gradient
        self.objective = 0.5 * float(a @ (gradient + problem.f0))
        self.groups = groups
        self.inverse = np.divide(1.0, groups.scale, out=np.zeros(problem.n), where=groups.scale != 0.0)
        self.diagonal = problem.gram.diag()[problem.index] + problem.ridge
        self.store: Store = row_store(problem.gram)
        self.store.reset()
        self.evaluations_before = problem.gram.evaluations
        self.counts_before = self.store.counts.copy()
        self.function_misses = 0
        self.rows_used = 0
        self.shrunk_at = 0
        self.iterations = 0
        self.tol = max(options.tol, options.first_tol)
        self.violation = np.inf
        count = groups.rhs.shape[0]
        self.up_value, self.low_value = np.empty(count), np.empty(count)
        self.up_index, self.low_index = np.empty(count, np.int64), np.empty(count, np.int64)
        self.needed = np.zeros(2, np.int64)
        self.report = np.zeros(3)
        self.state = np.zeros(4, np.int64)
        self.activate(np.arange(problem.n))

    # -- the active set ------------------------------------------------------------------------------------------

    def activate(self, active: NDArray[np.intp]) -> None:
        """Copy the active variables together and restrict the stored rows to their points."""
        p = self.problem
        self.active = active
        every = active.size == p.n
        points = p.points if every else np.unique(p.index[active])
        if points.size < _WORTH_MOVING * self.store.width:
            self.store.restrict(points)
        width = self.store.columns
        # What changes is copied; of the rest a part is, where it is one.
        vectors = (p.index, p.sign, self.groups.group, self.inverse, p.ridge, self.diagonal, p.lo, p.hi)
        chosen = vectors if every else tuple(vector[active] for vector in vectors)
        index, sign, group, inverse, ridge, diagonal, lo, hi = chosen
        point = index.astype(np.int64, copy=False)
        column = point if width is None else np.searchsorted(width, index).astype(np.int64, copy=False)
        self.local: dict[str, NDArray[Any]] = {
            "point": point,
            "column": column,
            "sign": sign,
            "group": group,
            "inverse": inverse,
            "ridge": ridge,
            "diagonal": diagonal,
            "a": self.a[active],
            "gradient": self.gradient[active],
            "lo": lo,
            "hi": hi,
        }

    def write_back(self) -> None:
        """Put the active variables back into the full vectors."""
        if self.active.size == self.problem.n:
            self.a[:], self.gradient[:] = self.local["a"], self.local["gradient"]
            return
        self.a[self.active] = self.local["a"]
        self.gradient[self.active] = self.local["gradient"]

    def shrink(self) -> None:
        """Set aside bounded variables on the right side of both thresholds."""
        v = -self.local["gradient"] * self.local["inverse"]
        g, rising = self.local["group"], self.local["inverse"] > 0
        at_lo, at_hi = self.local["a"] <= self.local["lo"], self.local["a"] >= self.local["hi"]
        alone = g < 0
        only_up = np.where(rising, at_lo, at_hi) & ~alone
        only_down = np.where(rising, at_hi, at_lo) & ~alone
        settled = np.zeros(g.shape[0], dtype=bool)
        if self.up_value.size:
            settled |= only_up & (v < self.low_value[g])
            settled |= only_down & (v > self.up_value[g])
        slope = self.local["gradient"]
        settled |= alone & ((at_lo & (slope > self.violation)) | (at_hi & (slope < -self.violation)))
        if settled.any():
            self.write_back()
            if self.active.size == self.problem.n:
                self.when_whole = self.a.copy(), self.gradient.copy()
            self.activate(self.active[~settled])

    def unshrink(self) -> bool:
        """All variables again: the gradient of those set aside catches up with what changed since.

        Where there is much to catch up with, whoever watches is asked on the way; True when that ends the run.
        """
        self.write_back()
        p = self.problem
        # Variables left at different times; what all of them know is the moment when none was aside.
        a_then, gradient_then = self.when_whole
        change = p.on_points(self.a - a_then)
        moved = np.flatnonzero(change)
        aside = np.ones(p.n, dtype=bool)
        aside[self.active] = False
        rows = np.unique(p.index[aside])
        missing = np.zeros(rows.size)
        # Products with a factor cost the same however many rows are asked for.
        whole = p.gram.factor is not None
        step = rows.size if whole else int(_PIECE_PRODUCTS / (entry_cost(p.gram) * max(1, moved.size)))
        for begin in range(0, rows.size, max(1, step)):
            if begin and self.tell(complete=False, between=True):
                return True
            part = slice(begin, begin + max(1, step))
            self.add_product(missing[part], change, moved, rows[part])
        caught_up = p.sign[aside] * missing[np.searchsorted(rows, p.index[aside])]
        caught_up += p.ridge[aside] * (self.a - a_then)[aside]
        self.gradient[aside] = gradient_then[aside] + caught_up
        self.store.reset()
        self.activate(np.arange(p.n))
        return False

    def add_product(
        self, out: NDArray[np.float64], weights: NDArray[np.float64], used: NDArray[np.intp], rows: NDArray[np.intp]
    ) -> None:
        """``out += K[rows] @ weights``, by the tiles that certificates are made of where there are any."""
        gram = self.problem.gram
        if getattr(gram, "fused", None) is None or not isinstance(gram, KernelGram):
            gram.accumulate(out, used, weights[used], rows)
            return
        gram.evaluations += used.size * rows.size
        out += gram.product(weights, rows)

    # -- running -------------------------------------------------------------------------------------------------

    def chunk_steps(self) -> int:
        """Steps of the next chunk."""
        m = max(1, self.active.size)
        steps = max(min(max(m, _CHUNK_LEAST), _CHUNK_MOST), self.iterations // _CHUNK_SHARE)
        steps = min(steps, max(1, _CHUNK_UPDATES // m))
        limit = self.options.max_iter
        return steps if limit < 0 else max(0, min(steps, limit - self.iterations))

    def chunk_loads(self) -> int:
        """Times the next chunk may go and compute rows."""
        cost = entry_cost(self.problem.gram) * self.store.width
        return max(1, int(_CHUNK_PRODUCTS / max(cost, 1.0)))

    def tell(self, complete: bool, *, between: bool = False) -> bool:
        """Report to the callback; True when it asks to stop. `between` two steps nothing new is known."""
        self.write_back()
        hits, misses = (int(count) for count in self.store.counts - self.counts_before)
        if not isinstance(self.store, ElementStore):
            hits = self.rows_used - misses  # compiled code reads rows without asking
        return self.callback(
            Snapshot(
                iteration=self.iterations,
                a=self.a,
                gradient=self.gradient if complete else None,
                objective=self.objective,
                violation=np.nan if between else self.violation,
                kernel_evaluations=self.evaluations(),
                cache_hits=hits,
                cache_misses=misses,
                function_hits=int(self.state[keerthi.FUNCTION_HITS]),
                function_misses=self.function_misses,
            )
        )

    def evaluations(self) -> int:
        """Kernel values this run asked for; of a stored matrix, those in the rows it has used."""
        if isinstance(self.problem.gram, FullGram):
            return int(np.count_nonzero(self.store.stamp)) * self.problem.gram.n
        return self.problem.gram.evaluations - self.evaluations_before

    def outcome(self, status: Status) -> Outcome:
        """Leave the store whole for whoever comes next."""
        self.write_back()
        self.store.reset()
        return Outcome(self.a, self.iterations, status)

    def second_order(self) -> Outcome:
        """Second-order selection with shrinking."""
        while True:
            code = self.advance()
            if self.tell(complete=True):
                return self.outcome(Status.STOPPED)
            if code == pairs.CONVERGED and self.active.size < self.problem.n:
                if self.unshrink():
                    return self.outcome(Status.STOPPED)
            elif code == pairs.CONVERGED and not self.tighten():
                return self.outcome(Status.CONVERGED)
            if 0 <= self.options.max_iter <= self.iterations:
                return self.outcome(Status.MAX_ITER)

    def advance(self) -> int:
        """One chunk: steps, rows for them, and shrinking when it is due."""
        s = self.store
        budget, loads = self.chunk_steps(), self.chunk_loads()
        while True:
            due = self.shrunk_at + min(self.problem.n, _SHRINK_EVERY) - self.iterations
            if self.options.shrinking and due <= 0:
                self.shrunk_at = self.iterations
                self.shrink()
                continue
            code, steps = pairs.pair_chunk(
                s.values, s.slot, s.stamp, s.clock, *self.local.values(),
                self.up_value, self.low_value, self.up_index, self.tol,
                min(budget, due) if self.options.shrinking else budget, self.needed, self.report,
            )  # fmt: skip
            self.absorb(steps)
            budget -= steps
            if code == pairs.NEED_ROWS:
                s.load(self.needed, None)
                loads -= 1
            if code == pairs.CONVERGED or loads == 0 or budget <= 0:
                return int(code)

    def keerthi(self) -> Outcome:
        """Platt's loops with Keerthi's thresholds."""
        s, keep_all = self.store, self.options.function_cache == "all"
        local = dict(self.local)
        known = np.ones(self.problem.n, dtype=np.bool_)
        before, (lo, hi) = list(local.values())[:9], (local["lo"], local["hi"])
        thresholds = (self.up_value, self.low_value, self.up_index, self.low_index)
        keerthi.reset_thresholds(
            local["a"], local["gradient"], known, lo, hi, local["inverse"], local["group"], *thresholds
        )
        self.state[keerthi.EXAMINE_ALL] = 1
        modification = 1 if self.options.variant == "keerthi1" else 2
        while True:
            budget, loads = self.chunk_steps(), self.chunk_loads()
            while True:
                code, steps = keerthi.keerthi_chunk(
                    modification, keep_all, s.values, s.slot, s.stamp, s.clock, *before, known, lo, hi,
                    *thresholds, self.tol, budget, self.needed, self.report, self.state,
                )  # fmt: skip
                self.absorb(steps)
                budget -= steps
                if code == pairs.NEED_ROWS:
                    s.load(self.needed, None if keep_all else self.free_columns(self.needed))
                elif code == pairs.NEED_GRADIENT:
                    self.refresh(int(self.needed[0]), known)
                else:
                    break
                if isinstance(s, ElementStore) and code == pairs.NEED_GRADIENT:
                    s.reset()
                loads -= 1
                if loads == 0:
                    break
            if self.tell(complete=keep_all):
                return self.outcome(Status.STOPPED)
            if code == pairs.CONVERGED and not self.tighten():
                return self.outcome(Status.CONVERGED)
            if 0 <= self.options.max_iter <= self.iterations:
                return self.outcome(Status.MAX_ITER)

    def tighten(self) -> bool:
        """Go on to the next tenth of the tolerance; False when the last one is reached."""
        if self.tol <= self.options.tol:
            return False
        self.tol = max(self.options.tol, 0.1 * self.tol)
        self.state[keerthi.EXAMINE_ALL], self.state[keerthi.CURSOR], self.state[keerthi.CHANGED] = 1, 0, 0
        return True

    def absorb(self, steps: int) -> None:
        """Count the steps of a chunk and follow the objective."""
        self.iterations += steps
        self.violation = float(self.report[0])
        self.objective += float(self.report[1])
        self.rows_used += int(self.report[2])
        # A violation that is not a number comes from slopes that are none.
        check_objective(self.objective if self.violation >= 0.0 else np.nan)

    def free_columns(self, points: NDArray[np.int64]) -> NDArray[np.intp]:
        """Columns a step reads when only the free variables' gradient is kept."""
        a, lo, hi = self.local["a"], self.local["lo"], self.local["hi"]
        free = self.problem.index[(lo < a) & (a < hi)]
        return np.unique(np.concatenate([free, points]))

    def refresh(self, t: int, known: NDArray[np.bool_]) -> None:
        """Compute the gradient of one variable the function cache does not hold."""
        p, a = self.problem, self.local["a"]
        coefficients = p.on_points(a)
        points = np.flatnonzero(coefficients)
        target = int(p.index[t])
        if isinstance(self.store, ElementStore):
            self.store.load(np.array([target]), points)
            row = self.store.values[0, points]
        elif self.store.slot[target] >= 0:
            row = self.store.values[self.store.slot[target], points]
        else:
            row = p.gram.block(np.array([target]), points)[0]
        product = float(row.astype(np.float64) @ coefficients[points])
        self.local["gradient"][t] = p.f0[t] + p.sign[t] * product + p.ridge[t] * a[t]
        known[t] = True
        self.function_misses += 1
