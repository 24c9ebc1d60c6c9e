"""The search for the features of an L1-SVM: rounds over chosen features, and which to choose (see `dualgap.l1svm`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap._l1_columns import signed_columns
from dualgap._l1_descent import descend
from dualgap._l1_lp import HingeProblem, vertex_near
from dualgap._l1_newton import Pieces, Point, solve_pieces
from dualgap.result import Event, History, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

# Features to begin with; and at least so many are taken in at a time, at most as many again as there are.
_FIRST, _AT_LEAST = 100, 50
# Where so many features are chosen the others cost less than another round.
_NEARLY_ALL = 0.8
# Features with weight 0 and |v| below this are dropped, as long as features come in; not after so many rounds.
_FAR_BELOW, _LAST_DROP = 0.8, 15
# A round over chosen features is solved to this share of the violation outside, between these ends.
_SHARE, _LOOSE, _TIGHT = 0.01, 0.1, 1e-9
# With more weights than this the squared hinge ends at this share of the gap that is asked for; with fewer the last
# digits cost next to nothing. The certificate computes the gap anew, with a rounding of its own. The violation that
# brings the gap there is below this share of it.
_LARGE, _SAFE, _SURE = 500, 0.5, 0.3
# The squared hinge is a start for the hinge once no feature outside is beyond this.
_GOOD_START = 1.3
# sigma of the hinge, times C: at first, and its growth from round to round; multipliers move on when v is within _NEAR.
_SIGMA, _GROWTH, _NEAR = 2.0, 4.0, 1.2
# A vertex is looked for at this gap, and again each time it has fallen by this factor.
_NEARBY, _AGAIN = 0.1, 1e-2
# Samples are undecided within so many gaps of the margin, and within this at most.
_GAPS, _RADIUS = 30.0, 0.05
# A program with fewer entries than this is solved with all rows at once, in some tenths of a second at most; and with
# all columns, where these are at most so many times the rows.
_SMALL, _FEW = 30_000, 2
# Damping of the first Newton step of a round on the hinge, relative to the largest curvature.
_DAMPING = 1e-4
# A gap that says that rounding is all that is left.
_EXACT = 1e-12
# Rounds in a row without a smaller gap.
_PATIENCE = 12


class Search:
    """The point, its multipliers, the features it is sought over; clock, limits and history."""

    def __init__(
        self,
        problem: Composite,
        loss: str,
        bias: str,
        X: Any,
        max_iter: int,
        time_limit: float | None,
        callback: Callable[[Event], bool | None] | None,
        goal: tuple[float, float],
    ) -> None:
        self.gap_tol, self.kkt_tol = goal
        self.began = time.perf_counter()
        self.operator, self.bias, self.free = problem.operator, bias != "none", bias == "free"
        phi: Any = problem.loss
        self.y, self.c, self.is_squared = phi.y, phi.C, loss == "squared_hinge"
        self.X = X
        self.d = problem.n - self.bias
        penalty: Any = problem.regulariser
        self.lam = np.ones(problem.n)
        self.lam[problem.penalised] = penalty.l1
        self.lam[list(problem.free)] = 0.0
        self.max_iter, self.time_limit, self.callback = max_iter, time_limit, callback
        self.history = History()
        self.iterations = 0
        self.status: Status | None = None
        self.x, self.a = np.zeros(problem.n), np.zeros(problem.m)
        self.v, self.sizes = np.zeros(problem.n), np.zeros(self.d)
        self.chosen = np.zeros(0, dtype=np.intp)
        self.primal, self.dual = np.inf, -np.inf
        self.everything: Any = None

    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    def time_left(self) -> float | None:
        return None if self.time_limit is None else self.time_limit - self.elapsed()

    def stop(self) -> bool:
        """Whether a limit has been reached."""
        if self.status is None and self.time_limit is not None and self.elapsed() >= self.time_limit:
            self.status = Status.TIME_LIMIT
        if self.status is None and self.iterations >= self.max_iter:
            self.status = Status.MAX_ITER
        return self.status is not None

    def begin_at(self, start: NDArray[np.float64]) -> None:
        if start.shape != self.x.shape or not np.all(np.isfinite(start)):
            raise ValueError(f"start must be {self.x.size} finite numbers; its shape is {start.shape}.")
        self.x = start.copy()

    def one_class(self) -> bool:
        """Whether a free bias alone has no loss: all samples that count are of one class."""
        labels = np.unique(self.y[self.c > 0.0])
        if labels.size > 1 or not self.free:
            return False
        self.x[:] = 0.0
        self.x[-1] = labels[0] if labels.size else 0.0
        return True

    # Features.

    def entries(self) -> int:
        """Numbers that X stores."""
        return int(self.X.nnz if sp.issparse(self.X) else self.X.size)

    def columns(self) -> Any:
        return signed_columns(self.X, self.y, self.chosen, self.bias)

    def all_columns(self) -> Any:
        """Every feature, with its column stored as it is: what programs take their parts from."""
        self.chosen = np.arange(self.d)
        if self.everything is None:
            self.everything = signed_columns(self.X, self.y, self.chosen, self.bias, sparse=True)
        return self.everything

    def where(self) -> NDArray[np.intp]:
        """Positions of the chosen columns, and of the bias, in x."""
        return np.append(self.chosen, self.d) if self.bias else self.chosen

    def choose_first(self) -> None:
        """The features of largest ``|v|`` for the multipliers at the start, and those that have a weight."""
        if self.bias and not np.any(self.x):
            pull = float(np.dot(self.c, self.y))
            self.x[-1] = np.sign(pull) * max(abs(pull) - 0.5 * self.lam[-1], 0.0) / self.c.sum()
        t = 1.0 - self.y * self.operator.matvec(self.x)
        v = np.abs(self.operator.rmatvec(self.y * self.c * np.maximum(t, 0.0))[: self.d])
        top = np.argpartition(-v, _FIRST - 1)[:_FIRST] if self.d > _FIRST else np.arange(self.d)
        self.chosen = np.union1d(top, np.flatnonzero(self.x[: self.d])).astype(np.intp)

    def outside(self, beyond: float) -> NDArray[np.intp]:
        """Features not chosen with ``|v| > 1 + beyond``, the largest first."""
        found = np.flatnonzero(self.sizes > 1.0 + beyond)
        if not found.size:
            return found
        found = found[~np.isin(found, self.chosen)]
        return found[np.argsort(-self.sizes[found], kind="stable")]

    def take_in(self, found: NDArray[np.intp], drop: bool) -> None:
        room = max(_AT_LEAST, self.chosen.size)
        if drop:
            kept = (self.x[self.chosen] != 0.0) | (np.abs(self.v[self.chosen]) > _FAR_BELOW)
            self.chosen = self.chosen[kept]
        self.chosen = np.union1d(self.chosen, found[:room]).astype(np.intp)

    # Points.

    def place(self, w: NDArray[np.float64], a: NDArray[np.float64]) -> None:
        """Take a point over the chosen columns, and look at v over all."""
        self.x = np.zeros_like(self.x)
        self.x[self.where()] = w
        self.a = a
        self.v = np.asarray(self.operator.rmatvec(self.y * a))
        self.sizes = np.abs(self.v[: self.d])

    def excess(self) -> float:
        """``max |v_j| / lambda_j - 1``; the lambda of features is 1."""
        most = float(self.sizes.max(initial=0.0))
        if self.bias and not self.free:
            most = max(most, abs(float(self.v[-1])) / float(self.lam[-1]))
        return most - 1.0

    def measure(self, t: NDArray[np.float64]) -> float:
        """Objectives of the point and of the best multiple of its multipliers; the relative gap."""
        slack = np.maximum(t, 0.0)
        here = float(np.dot(self.lam, np.abs(self.x)))
        here += float(np.dot(self.c, slack * slack if self.is_squared else slack))
        factor = 1.0 / max(1.0, 1.0 + self.excess())
        bound = factor * float(self.a.sum())
        if self.is_squared:
            used = self.c > 0.0
            bound -= factor**2 * float(np.sum(self.a[used] ** 2 / (4.0 * self.c[used])))
        if self.free:
            bound -= abs(float(self.v[-1] * self.x[-1]))
        self.primal, self.dual = here, max(self.dual, bound)
        return max(here - self.dual, 0.0) / max(abs(here), abs(self.dual), 1e-300)

    def report(self, gap: float) -> bool:
        """Write the history; whether to stop."""
        event = Event(
            iteration=self.iterations,
            seconds=self.elapsed(),
            primal=self.primal,
            dual=self.dual,
            relative_gap=gap,
            violation=max(self.excess(), 0.0),
            n_support=int(np.count_nonzero(self.x[: self.d])),
            kernel_evaluations=0,
            cache_hits=0,
            cache_misses=0,
            function_hits=0,
            function_misses=0,
        )
        self.history.events.append(event)
        if self.callback is not None and self.callback(event) is True and self.status is None:
            self.status = Status.STOPPED
        return self.stop()

    def newton(self, Z: Any, loss: Pieces, tol: float, damping: float = 0.0) -> Point:
        """Solve over the chosen columns and place the point."""
        where = self.where()
        left = self.max_iter - self.iterations
        found = solve_pieces(Z, loss, self.lam[where], self.x[where], tol, left, self.stop, damping)
        self.iterations += found.iterations
        self.place(found.w, loss.slope(found.t))
        return found

    # The two losses.

    def squared(self, enough: float = 0.0) -> None:
        """The squared hinge; to the end, or until no v is beyond `enough`."""
        if sp.issparse(self.X):
            self.x, self.chosen = descend(self.X, self.y, self.c, self.lam, self.x, self.bias, self.stop)
            if _NEARLY_ALL * self.d <= self.chosen.size:
                self.chosen = np.arange(self.d)
        else:
            self.choose_first()
        loss = Pieces(np.zeros(self.y.size), 2.0 * self.c)
        tol, rounds, Z = _LOOSE, 0, self.columns()
        while True:
            point = self.newton(Z, loss, tol)
            rounds += 1
            found = self.outside(max(tol, _TIGHT))
            excess = self.excess()
            done = not found.size and (tol <= _TIGHT or max(point.violation, excess) <= _TIGHT)
            if enough:
                if excess <= enough or done or self.stop():
                    return
            else:
                gap = self.measure(point.t)
                large = np.count_nonzero(self.x) > _LARGE
                near = large and gap <= _SAFE * self.gap_tol and tol <= self.kkt_tol
                if self.report(gap) or done or near:
                    return
            if found.size:
                self.take_in(found, drop=rounds <= _LAST_DROP)
                Z = self.columns()
                tol = float(np.clip(_SHARE * excess, _TIGHT, _LOOSE))
            elif enough:
                tol = max(_SHARE * tol, _TIGHT)
            else:
                # A v that is off by so much costs about as much of the bound, relatively.
                wanted = min(_SURE * self.gap_tol, self.kkt_tol) if large else _TIGHT
                tol = max(wanted if tol > wanted else _SHARE * tol, _TIGHT)

    def hinge(self) -> None:
        """The hinge, from the squared hinge: rounds of the method of multipliers, until a vertex is proved."""
        if self.entries() <= _SMALL and self.d <= _FEW * self.y.size:
            self.chosen = np.arange(self.d)
            if self.finish(self.columns(), np.inf):
                return
        self.squared(_GOOD_START - 1.0)
        a0 = self.a = np.minimum(self.a, self.c)
        sigma, tol, look_at, waited, least = _SIGMA, _LOOSE, _NEARBY, 0, np.inf
        rounds = 0
        while not self.stop():
            Z = self.columns()
            small = Z.entries <= _SMALL
            if small and self.finish(Z, np.inf):
                return
            loss = Pieces(a0, sigma * self.c, self.c)
            point = self.newton(Z, loss, tol, _DAMPING)
            rounds += 1
            gap = self.measure(point.t)
            if self.report(gap):
                break
            excess = self.excess()
            if gap <= look_at:
                look_at = _AGAIN * gap
                if self.finish(Z, min(_GAPS * gap, _RADIUS)):
                    return
            waited = 0 if gap < 0.9 * least else waited + 1
            least = min(gap, least)
            if gap <= _EXACT or waited > _PATIENCE:
                break
            found = self.outside(max(tol, _TIGHT))
            if found.size:
                self.take_in(found, drop=rounds <= _LAST_DROP)
            if excess < _NEAR - 1.0:
                a0 = self.a
                sigma *= _GROWTH
            tol = float(np.clip(0.1 * min(max(excess, 0.0), gap), 1e-11, _LOOSE))

    def finish(self, Z: Any, radius: float) -> bool:
        """Go on with vertices, taking in features, until one is optimal for all; whether that is so."""
        if sp.issparse(self.X) and np.isfinite(radius):
            Z = self.all_columns()
        where = self.where()
        w, a = self.x[where], self.a
        kept = (self.x, self.a, self.v, self.sizes, self.chosen)
        rows = None
        while True:
            found = vertex_near(HingeProblem(Z, self.c, self.lam[where]), w, a, radius, self.time_left(), rows)
            if found is None:
                self.x, self.a, self.v, self.sizes, self.chosen = kept
                return False
            self.iterations += max(found.programs, 1)
            rows = found.rows
            self.place(found.w, found.a)
            more = self.outside(_TIGHT)
            stop = self.report(self.measure(1.0 - Z.times(found.w)))
            if not more.size or stop:
                return True
            self.take_in(more, drop=False)
            Z, where = self.columns(), self.where()
            w, a = self.x[where], self.a
