"""Block working sets: the default for kernels.

Problem (see `dualgap.problem`), with variables scaled so that every group of the constraints is a plain sum::

    min_u  1/2 u'Hu + f'u    subject to    lo <= u <= hi,    sum of u over each group constant

Three levels are nested, each solved to a third or a fifth of the violation of the one around it::

    all n variables  >  active set (free, violating, nearest to it)  >  block of 2048

Kernel entries are float32 (made by `kernels.fused`, contracted into the gradient without being stored), gradients
float64. What is believed from rounded entries is judged in exact arithmetic by `run`, which lets the solver go on from
the exact gradient where the belief was wrong; each such round corrects the last one's rounding, as iterative refinement
does, so that float32 entries are no limit to the accuracy.

Where many variables move, a run begins with the solutions of clusters of them, each alone (`_block_clusters`).

Pair steps that go on for long are interrupted by leaps along the way they have come (`_block_leap`). Where a block does
not hold the free variables, several are solved at the same time (`_block_side_by_side`).

Three things keep the last digits cheap. Free variables that have settled move together, by Newton's method on their
face (`_block_together`), where pair steps would take more. Slopes are compared with exact ones in a sample of the
active set, and computed anew once rounding is what is left in them, before a certificate would find out
(`_block_rounding`); where that happens again and again and the violation does not fall, entries are float64 from there
on. And variables at bounds that no change of the size of the last ones would set moving are left behind, their
gradients with them; the certificate looks at all, and a run it sends back begins with none aside.

Constraints that are coupled (semi-parametric models) are left to an augmented Lagrangian (`_block_coupling`), whose
multipliers take Newton steps. Variables then move alone, and the free ones, up to 2500, by Newton steps between active
sets. Entries are float64 there: beside a penalty float32 would leave too few digits of them.

Cost: about ``n * n_SV`` kernel entries a few times over, and steps that cost O(2048).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap._vector_passes import nonzero
from dualgap.certificate import exact_gradient, start_gradient
from dualgap.constraints import grouped_start
from dualgap.kernels.entries import Entries
from dualgap.kernels.row_cache import add_rows
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers import _block_pairs as pairs
from dualgap.solvers._augmented import MOST_FREE, cholesky, newton_change
from dualgap.solvers._block_clusters import Clusters
from dualgap.solvers._block_coupling import Coupling
from dualgap.solvers._block_growing import GrowingBlock
from dualgap.solvers._block_layout import (
    Block,
    Local,
    arrange,
    block_on_demand,
    gathered,
    in_scale,
    no_groups,
    orient,
)
from dualgap.solvers._block_leap import STEPS_EACH, leaping_steps
from dualgap.solvers._block_parts import filling
from dualgap.solvers._block_rounding import NOISE_SHARE, Rounding
from dualgap.solvers._block_select import eagerness, gap_terms, largest, select, thresholds
from dualgap.solvers._block_side_by_side import SideBySide
from dualgap.solvers._block_together import Together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.solvers._augmented import Factor

# `run` keeps BLAS to one thread meanwhile.
OWN_THREADS = True
# A level is solved to this share of the violation around it: less work is wasted on a wrong active set, more on rounds.
# (Active sets to 0.2: cpusmall 100 ms in place of 89, ijcnn1 C=32 165 in place of 150, covtype 20 000 197 and not 186.)
_ACTIVE_SHARE, _BLOCK_SHARE = 0.3, 0.2
# After a solution that held outside the active set too, the share is multiplied by itself, down to this.
_HELD, _SHARE_LEAST = 1.2, 1e-3
# Active sets after which a violation that has not fallen by a tenth is looked at in exact arithmetic.
_FELL, _PATIENCE = 0.9, 10
# The same with coupled constraints, where an active set is left after few steps and rounding is that of float64.
_PATIENCE_COUPLED = 100
# Towards the end the active set is solved no further than the goal asks for, with some room for what the rest does.
_GOAL_SHARE, _TOL_SHARE = 0.7, 0.9
# The first active set is random: a quarter of the variables, each side at least a tenth of it. (An eighth: covtype
# 50 000 0.83 s in place of 0.73, a9a 149 ms in place of 137, others within noise.)
_FIRST_SHARE, _SIDE_LEAST = 4, 0.1
# Multiplications for the matrix of all variables that cost no more than active sets: those of a pair of digits in usps
# (1500 points, 256 features) take longer, for all that a tenth of the entries would do, to pack columns for each.
_AT_ONCE = 1e9
# Multiplications for that matrix from which on its rows are made as they are needed (half a millisecond), and those of
# an entry: cheap ones are made sooner than it is found out which are needed.
_GROWN, _GROWN_ENTRY = 4e7, 60.0
# Later ones hold the violators and free variables, 30 % more, at least 2048 or an eighth of all more; above 70 % it is
# better to take all.
_GROW, _SLACK, _ALL = 1.3, 2048, 0.7
# Variables at bounds that so many times the largest change of a gradient in the last round would not set moving are not
# looked at again: changes shrink from round to round. The certificate looks at them all. (Means over 8 to 30 problems
# of each of seven sets beside 1: with 0.7 0.97 to 1.02, four of 158 runs sent back; with 0.5 0.95 to 1.0, 13 of 188;
# their slopes brought up to date before the certificate, with 0.5, 0.96 to 1.03.)
_FAR = 0.7
# Steps a variable with coupled constraints, after which the free variables take a Newton step together.
_STEPS_COUPLED = 2


@dataclass(frozen=True)
class Options:
    """Settings of `block`.

    Attributes
    ----------
    tol : float
        Stop when the two thresholds of every group are at most this far apart (a KKT violation).
    gap_tol : float or None
        The relative gap wanted by whoever watches: active sets are solved no further than it asks for.
    max_iter : int
        Pair steps at most; -1 for no limit.
    block_size : int
        Variables of a block; the rows of its kernel matrix that are needed are held in float32.
    seed : int
        Of the random first active set, and of the points that clusters are found by.
    precision : {"single", "double"}
        Of the kernel entries. From "single" `run` goes on to "double" where rounded entries lead no further.
    """

    tol: float = 1e-3
    gap_tol: float | None = None
    max_iter: int = -1
    block_size: int = 2048
    seed: int = 0
    precision: str = "single"

    def __post_init__(self) -> None:
        if self.block_size < 2:
            raise ValueError(f"block_size must be at least 2 for solver 'block'; got {self.block_size!r}.")
        if self.precision not in ("single", "double"):
            raise ValueError(f"precision must be 'single' or 'double' for solver 'block'; got {self.precision!r}.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    return None


def sharper(options: Options) -> Options | None:
    """Settings for a run that rounding has brought to a halt; None when there are none."""
    return replace(options, precision="double") if options.precision == "single" else None


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from `start` (a feasible point; found here when None)."""
    return _Run(problem, options, callback, start).outermost()


class _Run:
    """The state of one run, in variables u whose groups are plain sums."""

    def __init__(
        self,
        problem: DualQP,
        options: Options,
        callback: Callable[[Snapshot], bool],
        start: NDArray[np.float64] | None,
    ) -> None:
        self.problem, self.options, self.callback = problem, options, callback
        groups = problem.groups or no_groups(problem)
        self.group, self.n_groups = groups.group, groups.rhs.size
        # The problem in u = scale * a.
        self.scale = orient(groups.scale, problem.sign, groups.group)
        self.sign, self.lo, self.hi, self.ridge, self.linear, self.diagonal = in_scale(
            self.scale, problem.sign, problem.lo, problem.hi, problem.ridge, problem.f0, problem.index,
            problem.gram.diag(),
        )  # fmt: skip
        self.signed = bool(np.any(self.sign != 1.0))
        # Where to start.
        a = grouped_start(problem, groups) if start is None else np.clip(start, problem.lo, problem.hi)
        known = start_gradient if options.precision == "single" else exact_gradient
        gradient = known(problem, a) if a.any() else problem.f0
        self.u = np.minimum(np.maximum(a * self.scale, self.lo), self.hi)
        self.gradient = gradient / self.scale
        self.coupling = Coupling(problem, self.scale, self.diagonal, self.u, self.gradient)
        self.bare = self.diagonal
        if not self.coupling.empty:
            self.diagonal = self.bare + self.coupling.diagonal()
            self.gradient += self.coupling.slopes()
        self.made = 0  # kernel entries of another precision
        self.use(options.precision if self.coupling.empty else "double")
        # What changes on the way.
        self.share = _ACTIVE_SHARE
        self.iterations = 0
        self.objective = self.own_objective()
        self.stopped = False
        self.all_active = False
        # Variables far from moving, whose gradient is left behind, and how far gradients went in the last spread.
        self.aside = np.zeros(problem.n, dtype=bool)
        self.far = np.inf

    def use(self, precision: str) -> None:
        """Kernel entries of this precision, and what depends on it."""
        problem, options = self.problem, self.options
        # One block that holds all there is needs no row twice. Where rows are kept the gradient of all variables costs
        # little, and smaller blocks compute fewer rows.
        self.entries = Entries(problem.gram, precision, keep=problem.n > options.block_size)
        self.dtype = self.entries.dtype
        size = min(options.block_size, self.entries.largest_block(filling(self.n_groups)))
        self.size = min(size // 2 if self.entries.rows_kept else size, problem.n)
        # A block of all variables keeps no other account of what it does.
        weights = problem.on_points(self.u / self.scale)
        self.product = self.entries.running(problem.points, weights, prove=problem.n > self.size)
        self.rooms: dict[int, NDArray[Any]] = {}
        self.only: Block | GrowingBlock | None = None
        self.rounding = Rounding(
            problem, self.scale, self.diagonal, single=self.dtype == np.float32 and self.coupling.empty
        )
        self.side_by_side = SideBySide(
            problem, self.entries, self.diagonal, self.n_groups, self.size, options.seed,
            # Steps that are counted have to be taken in order.
            allowed=not self.signed and self.coupling.empty and options.max_iter < 0,
        )  # fmt: skip
        # An eighth of what is divided: blocks may take half of it, and packed columns most of the rest.
        most_together = self.entries.largest_block() // 2
        self.together = Together(problem.n, self.n_groups, most_together, self.entries.entry_cost)

    def sharpen(self) -> None:
        """Go on with float64 entries, from exact slopes."""
        self.made += self.entries.evaluations
        self.use("double")
        self.gradient[:] = exact_gradient(self.problem, self.u / self.scale) / self.scale
        self.aside[:] = False
        self.far = np.inf

    # -- level 0: all variables ----------------------------------------------------------------------------------

    def outermost(self) -> Outcome:
        """Solve active sets until the goal is met."""
        fresh, asked = not np.any(self.u), 0.0
        if fresh and self.from_clusters():
            fresh = False
            if self.stopped:
                return self.outcome(Status.STOPPED)
        least, waited = np.inf, 0
        while True:
            low, high, violation = thresholds(self.gradient, self.u, self.lo, self.hi, self.group, self.n_groups)
            if not self.aside.any():  # else what has been added up on the way is nearer
                self.objective = self.own_objective()
            check_objective(self.objective)
            quadratic = self.objective - float(self.u @ self.linear)
            if self.rounding.feigns(self.u, self.objective, quadratic) or self.rounding.in_the_way(violation):
                self.sharpen()
                asked, least, waited = np.inf, np.inf, 0
                continue
            waited = 0 if violation < _FELL * least else waited + 1
            least = min(least, violation)
            if self.tell(violation, complete=self.coupling.worth_telling(violation)):
                return self.outcome(Status.STOPPED)
            if self.coupling.exhausted():
                return self.outcome(Status.STALLED)
            if self.coupling.due(violation, self.options.tol):
                self.renew(violation)
                least = np.inf
                continue
            # A gap that is not met asks for more, whatever the violation: at large C the last digits of slopes count.
            if violation <= (self.options.tol if self.options.gap_tol is None else 0.0):
                return self.outcome(Status.CONVERGED)
            if 0 <= self.options.max_iter <= self.iterations:
                return self.outcome(Status.MAX_ITER)
            if waited == (_PATIENCE if self.coupling.empty else _PATIENCE_COUPLED):
                return self.outcome(Status.STALLED)  # rounding may be in the way: `run` will look
            # Where the variables outside did not object to the last solution, the next may go further at once.
            held = violation <= _HELD * asked
            self.share = max(_ACTIVE_SHARE * self.share, _SHARE_LEAST) if held else _ACTIVE_SHARE
            middle = 0.5 * (low + high)
            active = self.random_start() if fresh else self.choose_active(middle, violation)
            if active.size <= self.size and active.size == self.problem.n:
                self.share = _SHARE_LEAST  # nothing is outside that could object
            random, fresh = fresh, False  # a random part may hold no pair that can move
            before = self.u[active]
            steps = self.iterations
            asked = self.goal(violation, middle)
            noise = self.rounding.noise(active, self.u, self.gradient, asked)
            if noise > NOISE_SHARE * violation:
                self.refresh(active, follow=noise > asked)
                fresh, asked, least = random, np.inf, np.inf
                continue
            short, asked = noise > asked, max(asked, noise)
            self.solve_active(active, asked)
            self.spread(active, before)
            if short:  # as far as rounded slopes lead: go on from exact ones before anybody believes them
                self.refresh(active, follow=True)
                asked, least = np.inf, np.inf
            if self.stopped:
                return self.outcome(Status.STOPPED)
            if not self.coupling.empty:
                self.newton(*self.free_matrix())
            if self.iterations == steps and not random:
                if not self.coupling.met(self.options.tol):
                    self.renew(violation)  # the variables are as settled as their rounding lets them be
                    least = np.inf
                    continue
                # float32 slopes see nothing to do: whoever watches will look at it in exact arithmetic.
                return self.outcome(Status.CONVERGED)

    def goal(self, violation: float, middle: NDArray[np.float64]) -> float:
        """The violation to which an active set is solved."""
        share = self.share * violation
        if not self.coupling.empty:
            return max(share, self.coupling.enough(), _GOAL_SHARE * self.options.tol)
        if self.options.gap_tol is None:
            if self.share == _SHARE_LEAST:
                share = 0.0  # nothing is outside, or those that are do not object: all the way
            return max(share, _TOL_SHARE * self.options.tol)
        gap = gap_terms(self.gradient, self.u, self.lo, self.hi, self.ridge, self.group, middle)
        relative = gap / max(abs(self.objective), abs(gap - self.objective), 1e-300)
        if not np.isfinite(relative) or relative <= 0.0:
            return share
        return max(share, _GOAL_SHARE * violation * min(1.0, self.options.gap_tol / relative))

    def refresh(self, active: NDArray[np.intp], *, follow: bool) -> None:
        """Exact slopes for the active set; `follow` says whether all free variables have to, a little.

        (Where slopes were off by less than is asked for, few do: letter, C=100, 67 ms by pair steps, 90 by a face.)
        """
        self.rounding.refresh(active, self.u, self.gradient)
        if follow:
            self.together.overdue()

    def from_clusters(self) -> bool:
        """Solve clusters alone, where that pays (`_block_clusters`); whether it was done."""
        # Steps that are counted have to be taken in order.
        if self.signed or not self.coupling.empty or self.options.max_iter >= 0:
            return False
        local = Local(self.gradient, self.u, self.lo, self.hi, self.group)
        index = self.problem.index
        clusters = Clusters(self.entries, index, local, self.diagonal, self.n_groups, self.options.seed)
        if not clusters.worth():
            return False
        if self.tell(clusters.violation, complete=True):
            return True
        clusters.divide()
        for steps in clusters.solve():
            self.iterations += steps
            if self.tell(np.nan, complete=False, known=False):
                return True
        moved = nonzero(self.u)
        self.rounding.moved(moved, self.u[moved])
        nothing = moved[:0]
        self.product.narrow(index[nothing], whole=False)
        self.spread(nothing, self.u[nothing])
        self.far = np.inf  # the next changes have nothing to do with the size of these
        return True

    def random_start(self) -> NDArray[np.intp]:
        """A random part of the variables, both signs of the gradient represented."""
        n = self.problem.n
        size = n // _FIRST_SHARE
        if size >= n or (n <= self.size and n**2 * self.entries.entry_cost <= _AT_ONCE):
            return np.arange(n)
        parts, generator = [], np.random.default_rng(self.options.seed)
        for side in (self.gradient < 0.0, self.gradient >= 0.0):
            members = np.flatnonzero(side)
            wanted = max(64, int(size * max(members.size / n, _SIDE_LEAST)))
            parts.append(generator.permutation(members)[:wanted])
        return np.sort(np.concatenate(parts))

    def choose_active(self, middle: NDArray[np.float64], violation: float) -> NDArray[np.intp]:
        """Free variables, violators and those nearest to violating."""
        n = self.problem.n
        if self.entries.rows_kept or self.only is not None:
            return np.arange(n)
        # The slopes of those aside are old.
        least = -_FAR * max(self.far, violation) if self.coupling.empty else -np.inf
        eager, near, violating = eagerness(
            self.gradient, self.u, self.lo, self.hi, self.group, middle, self.aside, least
        )
        size = int(max(_GROW * violating, violating + min(_SLACK, n // 8)))
        if size > _ALL * n and near == n:
            return np.arange(n)
        chosen: NDArray[np.intp] = largest(eager, min(size, near))
        return chosen

    def spread(self, active: NDArray[np.intp], before: NDArray[np.float64]) -> None:
        """Bring the gradient of the variables outside the active set up to date."""
        if active.size == self.problem.n:
            return
        outside = ~self.aside
        outside[active] = False
        rest = np.flatnonzero(outside)
        sums = self.product.widen(self.problem.on_points(self.u / self.scale), self.problem.index[rest])
        change = self.sign[rest] * sums
        if not self.coupling.empty:
            delta = self.u[active] - before
            change += self.coupling.change(active, delta, rest)
        self.gradient[rest] += change
        if rest.size and np.any(change):
            self.far = float(np.abs(change).max())

    # -- level 1: blocks of the active set -----------------------------------------------------------------------

    def solve_active(self, active: NDArray[np.intp], tol: float) -> None:
        """Lower the violation within the active set to `tol`, block after block."""
        self.all_active = active.size == self.problem.n
        local = Local(self.gradient[active], self.u[active], self.lo[active], self.hi[active], self.group[active])
        points, sign, ridge = self.problem.index[active], self.sign[active], self.ridge[active]
        self.product.narrow(points, whole=self.all_active)
        whole = self.one_block(active, local) if active.size <= self.size else None
        mask = np.zeros(active.size, dtype=np.uint8)
        kept = np.empty(0, dtype=np.int64)
        count = 1  # of blocks at the same time; several and a single one take turns
        low, high, violation = thresholds(*local.arrays, self.n_groups)
        while True:
            if violation <= tol or 0 <= self.options.max_iter <= self.iterations:
                break
            middle = 0.5 * (low + high)
            block, which = whole, None
            together, its_turn, count = None, count == 1, 1
            if self.coupling.empty:
                together = self.together.move(active, local, middle, violation, tol, self.between)
            if together is not None:
                moved, delta = together
                self.iterations += 1
            else:
                goal = tol
                if whole is None:
                    count = self.side_by_side.count(local) if its_turn else 1
                    want = count * self.size
                    chosen = np.empty(want, dtype=np.int64)
                    chosen = chosen[: select(*local.arrays, middle, kept[: want // 2], want, chosen, mask)]
                    kept = chosen[-(want // 2) :]
                    goal = max(_BLOCK_SHARE * violation, 0.5 * tol)
                if count > 1:
                    moves = self.side_by_side.solve(active, chosen, count, local, middle, goal, self.room)
                    moved, delta = moves.places, moves.delta
                    self.iterations += moves.steps
                    self.together.paired += moves.work
                else:
                    block = self.make_block(active, chosen, local) if whole is None else whole
                    which, delta = self.improve(block, local, middle, goal)
                    moved = block.places[which]
            before = local.gradient[moved]
            penalty = self.coupling.move(active[moved], delta, active)
            if whole is not None and block is not None and which is not None:
                # The block holds everything that the move does to the active set.
                sums = np.zeros(block.places.size)
                add_rows(block.matrix, block.rows(which), delta, None, sums)
                local.gradient[block.places[~block.filling]] += sums[~block.filling]
            else:
                sums = self.product.move(points[moved], sign[moved] * delta)
                local.gradient[:] += sign * sums + penalty
                local.gradient[moved] += ridge[moved] * delta
            self.rounding.moved(active[moved], delta)
            down, bend = float(delta @ before), float(delta @ (local.gradient[moved] - before))
            self.objective += down + 0.5 * bend
            self.side_by_side.learn(count, down, bend)
            self.u[active[moved]] = local.u[moved]
            if moved.size == 0 and count == 1:
                break
            if whole is not None and not self.coupling.empty:
                self.tell(violation, complete=False)
                break  # it is the turn of the free variables together
            low, high, violation = thresholds(*local.arrays, self.n_groups)
            # What has come to its end is told with the gradient of all variables.
            if violation > tol and self.tell(violation, complete=False):
                break
        self.gradient[active] = local.gradient

    def one_block(self, active: NDArray[np.intp], local: Local) -> Block | GrowingBlock:
        """The whole active set as a block; that of all variables is kept from one time to the next."""
        if active.size == self.problem.n and self.only is not None:
            return self.only
        lasting = active.size == self.problem.n
        everything = np.arange(active.size)
        block = self.demanded(active, everything, local, lasting=lasting) or self.growing(active, local)
        block = block or self.make_block(active, everything, local)
        self.only = block if lasting else None
        return block

    def growing(self, active: NDArray[np.intp], local: Local) -> GrowingBlock | None:
        """All variables as a block that grows; None where the matrix is hardly any work, or others were left out.

        Those of an active set that is a part of all were chosen because they are likely to move.
        """
        cost = self.entries.entry_cost
        worth = cost >= _GROWN_ENTRY and active.size**2 * cost >= _GROWN and active.size == self.problem.n
        if not (worth and self.entries.by_tiles and self.coupling.empty):
            return None
        places, filling, segments = arrange(np.arange(active.size), local.group, self.n_groups)
        variables = active[places]
        points, sign = self.problem.index[variables], self.sign[variables].astype(self.dtype)
        signed = self.signed  # not this object: blocks are kept by it
        strips = self.entries.strips(points, lasting=not signed)

        def make(which: NDArray[np.intp], rows: NDArray[Any]) -> None:
            strips.make(points[which])  # into `rows`, which are the next of its own
            if signed:
                rows *= sign
                rows *= sign[which, None]

        return GrowingBlock(places, filling, segments, self.diagonal[variables], strips.values, make)

    def make_block(self, active: NDArray[np.intp], chosen: NDArray[np.intp], local: Local) -> Block:
        """Arrange variables of the active set; H over them goes into the same memory as the last, by rows or whole."""
        self.only = None
        block = self.demanded(active, chosen, local, lasting=False)
        if block is None:
            places, filling, segments = arrange(chosen, local.group, self.n_groups)
            matrix = self.matrix(active[places])
            block = Block(places, filling, segments, matrix, np.arange(places.size), np.diag(matrix).copy())
        return block

    def demanded(
        self, active: NDArray[np.intp], chosen: NDArray[np.intp], local: Local, *, lasting: bool
    ) -> Block | None:
        """A block whose rows are made as steps need them; None where it is better made at once.

        One that is `lasting` keeps what its rows are made of.
        """
        if self.signed or not self.coupling.empty:
            return None
        return block_on_demand(
            self.entries, self.problem.index, self.diagonal, active, chosen, local, self.n_groups, self.square,
            lasting=lasting,
        )  # fmt: skip

    def improve(
        self, block: Block | GrowingBlock, local: Local, middle: NDArray[np.float64], goal: float
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Take pair steps on one block; returns the places in it that moved and how far."""
        places = block.places
        slope = np.empty(places.size, dtype=self.dtype)
        u, lo, hi = gathered(*local.arrays, middle, places, block.filling, slope)
        before = u.copy()
        most = (STEPS_EACH if self.coupling.empty else _STEPS_COUPLED) * places.size
        if self.options.max_iter >= 0:
            most = min(most, self.options.max_iter - self.iterations)
        if isinstance(block, GrowingBlock):
            done = block.steps(slope, u, lo, hi, goal, most)
        else:
            steps = leaping_steps if self.coupling.empty else pairs.steps
            made = block.made
            rows = block.matrix, block.slot, block.diagonal, block.maker
            done = steps(rows, slope, u, lo, hi, block.segments, goal, most)
            self.entries.count((block.made - made) * places.size)
        self.iterations += done
        self.together.paired += done * places.size
        moved = np.flatnonzero(u != before)
        local.u[places[moved]] = u[moved]
        return moved, u[moved] - before[moved]

    def matrix(self, variables: NDArray[np.intp]) -> NDArray[Any]:
        """H over a few variables."""
        return self.fill(self.square(variables.size), variables)

    def square(self, q: int) -> NDArray[Any]:
        """Memory for H over so many variables, the same each time."""
        return self.room(0)[: q * q].reshape(q, q)

    def room(self, number: int) -> NDArray[Any]:
        """Memory for the rows of a block, the same each time; blocks side by side have one each.

        (Of one piece for all of them, more than 32 MB, the C library keeps nothing for the next run.)
        """
        if number not in self.rooms:
            self.rooms[number] = self.entries.room((self.size + filling(self.n_groups)) ** 2)
        return self.rooms[number]

    def fill(self, matrix: NDArray[Any], variables: NDArray[np.intp]) -> NDArray[Any]:
        """Write H over a few variables to a matrix."""
        points = self.problem.index[variables]
        # Rows are worth keeping where all variables are active; elsewhere they would be longer than needed.
        self.entries.block(points, points, matrix, keep=self.all_active)
        if self.signed:
            sign = self.sign[variables].astype(self.dtype)
            matrix *= sign
            matrix *= sign[:, None]
        self.coupling.add_to(matrix, variables)
        np.fill_diagonal(matrix, self.diagonal[variables])
        return matrix

    def between(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """H between variables, in memory of its own."""
        matrix = np.empty((rows.size, columns.size), dtype=self.dtype)
        if rows is columns:
            return self.fill(matrix, rows)
        self.entries.block(self.problem.index[rows], self.problem.index[columns], matrix, keep=False)
        matrix *= (self.sign[rows][:, None] * self.sign[columns]).astype(self.dtype)
        return matrix

    # -- coupled constraints: Newton steps -----------------------------------------------------------------------

    def renew(self, violation: float) -> None:
        """A step on the multipliers, and one of the free variables that follows it."""
        free, matrix, factor = self.free_matrix()
        own = self.gradient - self.coupling.slopes()
        grown, stepped = self.coupling.renew(self.u, self.objective, violation, free, factor)
        if grown:
            self.diagonal = self.bare + self.coupling.diagonal()
            self.only = None
        self.gradient = own + self.coupling.slopes()
        if stepped:
            self.newton(free, matrix, factor)

    def free_matrix(self) -> tuple[NDArray[np.intp], NDArray[np.float64], Factor | None]:
        """The free variables, H with the penalty over them and its Cholesky factor; None where there are too many."""
        free = np.flatnonzero((self.u > self.lo) & (self.u < self.hi))
        if free.size == 0 or free.size > MOST_FREE:
            return free, np.empty((0, 0)), None
        if isinstance(self.only, Block):
            at = self.only.at[free]
            matrix = self.only.matrix[np.ix_(at, at)].astype(np.float64)
        else:
            matrix = self.fill(np.empty((free.size, free.size)), free)
        return free, matrix, cholesky(matrix.copy())

    def newton(self, free: NDArray[np.intp], matrix: NDArray[np.float64], factor: Factor | None) -> None:
        """Newton's step on the free variables."""
        if factor is None:
            return
        before, lo, hi = self.u[free], self.lo[free], self.hi[free]
        self.product.narrow(self.problem.index[free], whole=False)
        change = newton_change(matrix, factor, self.gradient[free], before, lo, hi)
        if change is None:
            return
        self.u[free] = np.clip(before + change, lo, hi)
        delta = self.u[free] - before
        self.coupling.move(free, delta, free[:0])
        if not isinstance(self.only, Block):
            self.gradient[free] += matrix @ delta
            self.spread(free, before)
            return
        sums = np.zeros(self.only.places.size)
        add_rows(self.only.matrix, self.only.at[free], delta, None, sums)
        self.gradient += sums[self.only.at]

    # -- telling -------------------------------------------------------------------------------------------------

    def tell(self, violation: float, *, complete: bool, known: bool = True) -> bool:
        """Report; the gradient and the violation only where they are those of all variables, the objective if known."""
        self.stopped = self.callback(
            Snapshot(
                iteration=self.iterations,
                a=self.u / self.scale,
                gradient=self.own_gradient() * self.scale if complete else None,
                objective=self.objective if known else None,
                violation=violation if complete else float("nan"),
                kernel_evaluations=self.made + self.entries.evaluations,
            )
        )
        return self.stopped

    def own_objective(self) -> float:
        """``u'Hu/2 + f'u`` from the gradient, without what stands for coupled constraints."""
        return 0.5 * float(self.u @ (self.own_gradient() + self.linear))

    def own_gradient(self) -> NDArray[np.float64]:
        """The gradient without what stands for coupled constraints."""
        return self.gradient if self.coupling.empty else self.gradient - self.coupling.slopes()

    def outcome(self, status: Status) -> Outcome:
        """The solution in the problem's own variables, on its constraints."""
        self.product.end()
        u = self.coupling.feasible(self.u, self.lo, self.hi, self.gradient)
        a = np.minimum(np.maximum(u / self.scale, self.problem.lo), self.problem.hi)
        return Outcome(a, self.iterations, status)
