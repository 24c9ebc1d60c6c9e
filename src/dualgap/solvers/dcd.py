"""Dual coordinate descent for linear kernels: one variable at a time, the weights w kept up to date.

Problem (see `dualgap.problem`) with K = AA' + constant, A dense or CSR::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e (in groups),    w = A'(sign * a)

Steps of the report (its equation numbers) for one variable i:

    (12)  G = sign_i w'x_i + f0_i + ridge_i a_i                 O(nonzeros of x_i) instead of O(n d)
    (6)   projected gradient: 0 where a_i is at a bound and G holds it there; then nothing is done
    (9)   a_i <- min(max(a_i - G / Q_ii, lo_i), hi_i)           Q_ii = x_i'x_i + constant + ridge_i
    (13)  w <- w + (change of a_i) sign_i x_i

``variant="paper"`` is just that, in cyclic or random order. ``"improved"`` visits the variables in random order (the
same for a few passes, then a new one), sets aside those at bounds that look settled (LIBLINEAR's thresholds), takes
the two variables of a regression point as one, rebuilds the active list from the full margins that every look at the
gap needs anyway, and leaps along what a few passes have in common (`_dcd_leap`). After a look at the gap the free
variables are solved for by conjugate gradients (`_dcd_face`), which ends the thousands of passes that creep along flat
directions. ``n_jobs > 1`` lets threads work on disjoint parts of the active list and one w without locks (Hsieh, Yu,
Dhillon 2015); w is computed anew at every look. With ``x_i = 0`` and no ridge Q_ii is 0, and the slope alone decides.

A bias comes in three forms that are never confused: none (k = 0), penalised (``gram.constant``: one more feature),
exact (``F'a = e``: method of multipliers, every reported point being feasible, see `_dcd_bias`).

Cost of a pass: the nonzeros of the active rows, read once, and once more where a variable moves; 8 bytes each for
float32 values and int32 indices. Memory: some 20 numbers a variable and 8 a feature. Use it for many features (text,
one-hot) and for moderate accuracy; large C with few features is slow, as for every method of its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from dualgap.constraints import feasible_start
from dualgap.kernels.linear_rows import CHUNK, combination, margins, rows_of
from dualgap.kernels.threads import share, thread_count
from dualgap.multipliers import best_multipliers
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers import _dcd_layout as at
from dualgap.solvers import _dcd_sweep as sweeps
from dualgap.solvers._dcd_bias import penalties, residuals, restore
from dualgap.solvers._dcd_face import Faces
from dualgap.solvers._dcd_items import Items
from dualgap.solvers._dcd_part import Part as Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# `run` keeps BLAS to one thread meanwhile.
OWN_THREADS = True
_ORDERS = {"permuted": at.PERMUTED, "cyclic": at.CYCLIC, "random": at.RANDOM}
# A look at the gap costs about a pass over all rows. It is due when a pass claims its tolerance, and after the work
# of so many passes over all rows.
_PASSES_BETWEEN = 8
# Where a face step is rough (no ridge) and features are many, passes soon bring less than the next one: 3 in place of 8
# take news20 (hinge, C=10) 0.43 s in place of 0.54 to a gap of 0.3, reuters no longer. With a ridge they take more.
_PASSES_WITHOUT_RIDGE = 3
# With so few features somebody may be waiting to take over who does not mind a large C. The first look then comes after
# so many passes, where these believe the relative gap to be above this: problems that passes solve are well below.
_FEW_FEATURES, _EARLY, _HARD = 1000, 4, 0.5
# It also takes some 200 microseconds whatever the size, as long as so many entries.
_ENTRIES_BETWEEN = 1_000_000
# What is asked of the passes after a claim that was not enough, down to this share of the goal.
_TIGHTEN, _LEAST_SHARE = 0.3, 1e-4
# Passes between two leaps, and how many of their last ones are looked at (one more than there are differences).
_SERIES, _SHOTS = 6, 5
# Projected gradients below this are rounding of sums of order one (LIBLINEAR's number).
_NO_STEP = 1e-12
# What reading an entry takes in a pass, with its share of all else: 73 to 143 ns a row were measured on text and a9a.
_SECONDS_AN_ENTRY = 2e-9
# Looks after which w is computed anew: the rounding of its updates adds up.
_RENEW = 32
# With multipliers of one's own, the best multipliers can be off by as much again.
_OTHER_MULTIPLIERS = 0.5
# Entries a thread should have in a pass, below which threads cost more than they bring (some 50 microseconds each).
_WORTH_A_THREAD = 200_000
# No relative gap is as small.
_NEVER = -1.0
# A pass sees each item's part of the gap before later steps have moved the others, and nothing of the items set aside.
# After a look that found more, passes have to see so much less than the goal; of the items aside, the violators are
# back by then.
_LEAST_TRUST, _MOST_TRUST = 0.2, 0.8
# Rise of the objective between two looks, relative to it, that is no rounding.
_ROSE = 1e-9


@dataclass(frozen=True)
class Options:
    """Settings of `dcd`.

    Attributes
    ----------
    tol : float
        KKT violation to reach.
    first_tol : float
        The violation to reach first; made smaller by steps until `tol`, whoever watches the gap being asked at each
        stage. Not below `tol`.
    gap_tol : float
        The relative gap that whoever watches is waiting for: passes look up when they believe it to be reached. 0: they
        go by the violation alone, as they do with an exact bias.
    max_iter : int
        Passes over the active variables at most; -1 for no limit.
    variant : {"improved", "paper"}
        The report's method as it stands, or with all that is known to help.
    order : {"permuted", "cyclic", "random"} or None
        Random orders, always the same one, or indices drawn with replacement (which cannot shrink).
        None means "permuted", and "cyclic" for the paper's variant.
    shrinking : bool
        Set settled variables aside (``improved`` only).
    n_jobs : int or None
        Threads that work at once without locks; 1 is reproducible bit for bit, more are not. None or -1: all cores.
    seed : int
        Of the orders.
    """

    tol: float = 1e-3
    first_tol: float = 0.0
    gap_tol: float = 0.0
    max_iter: int = -1
    variant: str = "improved"
    order: str | None = None
    shrinking: bool = True
    n_jobs: int | None = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.variant not in ("improved", "paper"):
            raise ValueError(f"variant must be 'improved' or 'paper' for solver 'dcd'; got {self.variant!r}.")
        if self.order is not None and self.order not in _ORDERS:
            raise ValueError(f"order must be None or one of {', '.join(_ORDERS)} for solver 'dcd'; got {self.order!r}.")
        if self.variant == "paper" and self.order == "permuted":
            raise ValueError(
                "variant='paper' has order='cyclic' or order='random'; permutations are not in the report."
            )
        thread_count(self.n_jobs)

    @property
    def kind(self) -> int:
        """The order as compiled code knows it."""
        return _ORDERS[self.order or ("cyclic" if self.variant == "paper" else "permuted")]


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    if problem.gram.factor is None:
        return "dcd keeps the weights of a linear model, and this kernel matrix has no factor A with K = AA'"
    if problem.groups is None:
        return (
            f"dcd takes equality constraints one group at a time, and the {problem.k} constraints of this problem are "
            f"coupled (as in semi-parametric models)"
        )
    return None


def pass_seconds(problem: DualQP) -> float:
    """A guess at what a pass over all variables takes, for whoever must choose."""
    factor = problem.gram.factor
    entries = factor.nnz if sp.issparse(factor) else factor.size
    return _SECONDS_AN_ENTRY * float(entries) * problem.n / max(1, factor.shape[0])


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (a feasible point; found here when None)."""
    if start is None:
        run = _Run(problem, options, callback, feasible_start(problem))
        run.set_multipliers()
        return run.run()
    return _Run(problem, options, callback, np.clip(start, problem.lo, problem.hi)).resume()


class _Run:
    """The state of one run."""

    def __init__(
        self, problem: DualQP, options: Options, callback: Callable[[Snapshot], bool], a: NDArray[np.float64]
    ) -> None:
        groups = problem.groups
        assert groups is not None  # supports() has said so
        self.problem, self.options, self.callback = problem, options, callback
        self.rows = getattr(problem.gram, "quick_rows", None) or rows_of(problem.gram.factor)
        self.constant = float(getattr(problem.gram, "constant", 0.0))
        self.right = groups.rhs if problem.k else np.empty(0)
        self.rho = penalties(problem) if problem.k else np.empty(0)
        self.items = Items(problem, self.rho)
        self.items.put(a)
        self.multiplier = np.zeros(self.right.size)
        self.kind = options.kind
        self.shrinking = options.shrinking and options.variant == "improved" and self.kind != at.RANDOM
        self.least = _NO_STEP if options.variant == "improved" else 0.0
        self.order = np.arange(self.items.count, dtype=np.int64)
        self.random = _seeded(options.seed, 1)[0]
        self.whole = np.zeros(at.WHOLE, dtype=np.int64)
        self.real = np.zeros(at.REAL)
        self.slack = np.empty((2, self.items.count))
        self.series = _SERIES if options.variant == "improved" else 0
        m, d = (self.items.count, self.rows.d) if self.series else (0, 0)
        self.shots = (
            np.empty(m, dtype=np.int64), np.empty((_SHOTS, m)), np.empty((_SHOTS, d)), np.empty(m), np.empty(d)
        )  # fmt: skip
        self.tol = max(options.tol, options.first_tol)
        self.least_rows = int(_ENTRIES_BETWEEN * self.rows.n / max(1, self.rows.entries))
        self.near = options.gap_tol if options.gap_tol > 0.0 and not self.right.size else _NEVER
        if self.near > 0.0:
            self.tol = options.tol
        self.violation = self.objective = np.inf
        self.before, self.relative = np.inf, 1.0  # relative gaps at the last two looks; that of a = 0 is 1
        self.claimed = True
        self.looks = self.looked_at = self.asked_at = 0
        self.most_rows = max(1, int(CHUNK * self.items.count / max(self.rows.entries, 1)))
        improved = options.variant == "improved"
        self.faces = Faces(self.rows, self.items, self.constant, self.rho) if improved else None
        self.moved = False  # since the last look, by other than passes
        self.threads = self.worthwhile_threads()
        self.rough = improved and not self.items.table[:, at.RIDGE].any()
        self.between = _PASSES_WITHOUT_RIDGE if self.rough and self.rows.d > _FEW_FEATURES else _PASSES_BETWEEN
        self.early = improved and self.near > 0.0 and self.rows.d <= _FEW_FEATURES
        self.all_active()
        self.renew_weights()

    def worthwhile_threads(self) -> int:
        threads = thread_count(self.options.n_jobs)
        return max(1, min(threads, self.rows.entries // _WORTH_A_THREAD)) if threads > 1 else 1

    # -- weights and active list ---------------------------------------------------------------------------------

    def renew_weights(self) -> None:
        """``w = A'(sign * a)`` and what stands beside it, from the values alone."""
        coefficients = self.items.on_points()
        self.w = combination(self.rows, coefficients)
        self.extra = np.zeros(1 + self.right.size)
        self.renew_extra(float(coefficients.sum()))

    def renew_extra(self, total: float) -> None:
        self.extra[0] = self.constant * total
        if self.right.size:
            self.extra[1:] = self.multiplier + self.rho * residuals(self.items, self.right)

    def all_active(self) -> None:
        self.whole[at.ACTIVE] = self.items.count
        self.order[:] = np.arange(self.items.count)
        self.real[at.ASIDE_LOW] = self.real[at.ASIDE_HIGH] = np.inf

    def rebuild_active(self, rising: float, falling: float) -> None:
        """The active list from full margins: who violates, is free, or lies no further inside than others pull."""
        low, high = (falling if falling > 0.0 else np.inf), (rising if rising > 0.0 else np.inf)
        settled = (self.slack[0] > low) & (self.slack[1] > high)
        if not self.claimed:
            # Until the active items are solved, those aside come back only where they violate.
            aside = np.ones(self.items.count, dtype=bool)
            aside[self.order[: self.whole[at.ACTIVE]]] = False
            settled |= aside & (self.slack[0] > 0.0) & (self.slack[1] > 0.0)
        active = np.flatnonzero(~settled)
        self.whole[at.ACTIVE] = active.size
        self.order[: active.size] = active
        self.real[at.ASIDE_LOW], self.real[at.ASIDE_HIGH] = low, high

    # -- running -------------------------------------------------------------------------------------------------

    def resume(self) -> Outcome:
        """Look before the first pass whether anything is left to do."""
        self.set_multipliers()
        if self.look():
            return self.outcome(Status.STOPPED)
        if self.violation <= self.goal():
            return self.outcome(Status.CONVERGED)
        self.tol = max(self.goal(), min(self.tol, _TIGHTEN * self.violation))
        return self.run()

    def set_multipliers(self) -> None:
        """The multipliers that suit the point best: with a small C the way there by penalties is long."""
        p, groups = self.problem, self.problem.groups
        if not self.right.size or groups is None:
            return
        margin = margins(self.rows, self.w, self.threads) + self.extra[0]
        slope = p.sign * margin[p.index] + p.f0
        self.multiplier[:] = groups.directions @ best_multipliers(p, slope)
        self.renew_extra(float(self.items.on_points().sum()))

    def goal(self) -> float:
        """The violation at which all is done."""
        return self.options.tol * (_OTHER_MULTIPLIERS if self.right.size else 1.0)

    def run(self) -> Outcome:
        """Passes and looks, until somebody is content."""
        while True:
            if self.limit_reached():
                return self.last_look(Status.MAX_ITER)
            if not self.advance():
                return self.last_look(Status.STOPPED)
            self.claimed = bool(self.real[at.WORST] <= self.tol or self.real[at.BELIEVED] <= self.near)
            self.early = self.early and not self.claimed and bool(self.real[at.BELIEVED] > _HARD)
            if not self.claimed and self.whole[at.ROWS] < self.due() and not self.limit_reached():
                if self.heartbeat():
                    return self.last_look(Status.STOPPED)
                continue
            if self.look():
                return self.outcome(Status.STOPPED)
            if self.violation <= self.goal():
                return self.outcome(Status.CONVERGED)
            if self.claimed:
                # Below the goal too: a pass sees each item before later steps have moved the others.
                self.tol = max(_LEAST_SHARE * self.goal(), _TIGHTEN * self.tol)
            if self.faces is not None and not self.promising() and not self.face_step(self.faces):
                return self.last_look(Status.STOPPED)

    def promising(self) -> bool:
        """Whether passes that bring as much again as those before the last look would meet the goal by themselves."""
        return bool(self.rough and self.near > 0.0 and self.relative**2 <= self.options.gap_tol * self.before)

    def face_step(self, faces: Faces) -> bool:
        """A step over the free items at the margins of the last look; False where the callback asks to stop."""
        self.moved = True

        def stop() -> bool:
            return self.callback(self.snapshot(None, np.nan))

        return faces.step(self.slack, self.w, self.extra, self.entries_read(), stop)

    def limit_reached(self) -> bool:
        return bool(0 <= self.options.max_iter <= self.whole[at.PASSES])

    def due(self) -> int:
        """Rows read at which a look at the gap is due."""
        # Easy problems need no face step: the first look is no sooner than for others.
        passes = _EARLY if self.early else self.between if self.looks else _PASSES_BETWEEN
        return self.looked_at + max(passes * self.items.count, self.least_rows)

    def advance(self) -> bool:
        """Passes up to the next look; False where the callback asks to stop in the middle of a long one."""
        passes = self.options.max_iter if self.options.max_iter >= 0 else np.iinfo(np.int64).max
        most = self.most_rows
        if self.threads > 1:
            self.shared_pass(most)
            return True
        while True:
            finished = sweeps.sweep(
                *self.rows.arrays, self.items.point, self.items.table, self.items.group, self.items.scale,
                self.w, self.extra, self.multiplier, self.constant, self.rho, self.order, most, passes, self.due(),
                self.series, self.tol, self.near, self.kind, self.shrinking, self.least, self.whole,
                self.real, self.random, *self.shots,
            )  # fmt: skip
            if finished:
                return True
            if self.heartbeat():
                return False

    def heartbeat(self) -> bool:
        """Whether the callback asks to stop between two looks; it is asked after every chunk of work."""
        if self.whole[at.ROWS] < self.asked_at + self.most_rows:
            return False
        self.asked_at = int(self.whole[at.ROWS])
        return self.callback(self.snapshot(None, np.nan))

    def shared_pass(self, most: int) -> None:
        """One pass, the active list in as many parts as there are threads, all of them changing one w."""
        active = int(self.whole[at.ACTIVE])
        parts = self.threads
        bounds = [active * part // parts for part in range(parts + 1)]
        states = [np.zeros(at.WHOLE, dtype=np.int64) for _ in range(parts)]
        reals = [self.real.copy() for _ in range(parts)]
        randoms = _seeded(self.options.seed + int(self.whole[at.PASSES]) + 1, parts)

        def work(part: int) -> None:
            order, state = self.order[bounds[part] : bounds[part + 1]], states[part]
            while state[at.CURSOR] < order.size:
                sweeps.part_of_pass(
                    *self.rows.arrays, self.items.point, self.items.table, self.items.group, self.items.scale,
                    self.w, self.extra, self.constant, self.rho, order, order.size, most, self.kind, self.shrinking,
                    self.least, state, reals[part], randoms[part],
                )  # fmt: skip

        share(work, parts, parts)
        kept = [self.order[b : b + s[at.KEPT]] for b, s in zip(bounds[:-1], states, strict=True)]
        if self.kind != at.RANDOM:
            joined = np.concatenate(kept)
            self.order[: joined.size] = joined
            self.whole[at.KEPT] = joined.size
        self.whole[at.ROWS] += active
        for column in (at.RISING, at.FALLING):
            self.real[column] = max(float(real[column]) for real in reals)
        for column in (at.GAP, at.OBJECTIVE):
            self.real[column] += sum(float(real[column] - self.real[column]) for real in reals)
        # Sums that every step changes lose the most to races; they cost next to nothing to make anew.
        self.renew_extra(float(self.items.table[:, at.SIGN] @ self.items.table[:, at.VALUE]))
        sweeps.end_pass(self.extra, self.multiplier, self.kind, self.shrinking, self.whole, self.real)

    # -- looking -------------------------------------------------------------------------------------------------

    def look(self) -> bool:
        """Report the full gradient at a feasible point, make the active list anew; True when the callback says stop."""
        self.looks += 1
        self.looked_at = self.asked_at = int(self.whole[at.ROWS])
        self.moved = self.early = False
        self.whole[at.SERIES] = self.whole[at.SHOTS] = 0
        if self.right.size:
            self.multiplier[:] = self.extra[1:]
            restore(self.items, self.right)
        if self.right.size or self.threads > 1 or self.looks % _RENEW == 0:
            self.renew_weights()
        check_objective(float(self.w @ self.w))
        margin = margins(self.rows, self.w, self.threads) + self.extra[0]
        rising, falling, gap = sweeps.survey(
            margin, self.items.point, self.items.table, self.items.group, self.items.scale, self.multiplier, self.slack
        )
        self.violation = max(rising, falling)
        snapshot = self.snapshot(margin, self.violation)
        assert snapshot.gradient is not None
        objective = 0.5 * float(snapshot.a @ (snapshot.gradient + self.problem.f0))
        if self.threads > 1:
            self.doubt_threads(objective)
        self.real[at.OBJECTIVE] = objective
        self.before, self.relative = self.relative, gap / max(abs(gap - objective), abs(objective), 1e-300)
        if self.near > 0.0 and self.claimed:
            self.doubt_belief(self.relative)
        stop = self.callback(snapshot)
        if self.shrinking and not stop:
            self.rebuild_active(rising, falling)
        return stop

    def doubt_threads(self, objective: float) -> None:
        """Go on with one thread where the steps of several have undone each other since the last look."""
        if objective > self.objective + _ROSE * abs(objective):
            self.threads = 1
        self.objective = objective

    def doubt_belief(self, relative: float) -> None:
        """Wait for less where a look has found a larger gap than the pass before it."""
        goal = self.options.gap_tol
        if relative > goal:
            self.near = goal * min(max(self.real[at.BELIEVED] / relative, _LEAST_TRUST), _MOST_TRUST)

    def snapshot(self, margin: NDArray[np.float64] | None, violation: float) -> Snapshot:
        p, a = self.problem, self.items.point_of_box()
        gradient = None if margin is None else p.sign * margin[p.index] + p.f0 + p.ridge * a
        effort = _SECONDS_AN_ENTRY * (self.entries_read() + (self.faces.entries if self.faces is not None else 0))
        return Snapshot(int(self.whole[at.PASSES]), a, gradient, None, violation, 0, effort=effort)

    def entries_read(self) -> float:
        """Entries that the passes have read, roughly."""
        return float(self.whole[at.ROWS]) * self.rows.entries / max(1, self.rows.n)

    def last_look(self, status: Status) -> Outcome:
        """What is handed back is feasible and has been reported."""
        if self.whole[at.ROWS] > self.looked_at or self.looks == 0 or self.moved:
            self.look()
        return self.outcome(status)

    def outcome(self, status: Status) -> Outcome:
        return Outcome(self.items.point_of_box(), int(self.whole[at.PASSES]), status)


def _seeded(seed: int, count: int) -> NDArray[np.uint64]:
    """States of so many random generators, none of them 0."""
    return np.random.SeedSequence(seed).generate_state(count, dtype=np.uint64).reshape(count, 1) | np.uint64(1)
