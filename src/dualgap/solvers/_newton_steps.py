"""Where `newton` stands within a round, and one Newton step from there.

A step costs one product with A, a pass over the variables for each length that is tried and one to go there, the rows
of A whose answers moved otherwise than expected, and a system, whose matrix over the features is kept from step to step
(`_newton_kept`). Where the loss is squared, free answers t move by ``-D (B p + F eta)`` in a step ``(p, eta)`` of
length 1. By the first line of its system, ``(I + B'DB) p + B'DF eta = -g``, their sum over the rows, ``v = A'S t``,
moves by ``g + p``, and only rows whose answers are clipped before or after are read for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.factor import Factor
from dualgap.kernels.threads import share_parts, thread_count
from dualgap.solvers import _newton_even as evenly
from dualgap.solvers import _newton_smooth as smooth
from dualgap.solvers._newton_awake import Awake, awake
from dualgap.solvers._newton_kept import KeptCross
from dualgap.solvers._newton_system import System, cost_of_features, damping, least_cost, solve_by_features
from dualgap.solvers._newton_terms import advance, along, settle

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# A step is long enough where the derivative along it has fallen to this share.
_SEARCH_SHARE = 0.1
_SEARCH_MOST = 40
# Features up to which the matrix of the system is kept from step to step: 32 MB.
KEPT_MOST = 2000
# Variables in a part of a pass: half a millisecond.
_PART = 1 << 17


def factor_of(gram: Any, n_jobs: int | None = None) -> Factor:
    """The factor of a Gram matrix, with the rows that it packs for passes, if it does."""
    constant = getattr(gram, "constant", 0.0) ** 0.5
    packed = (lambda: gram.quick_rows) if hasattr(type(gram), "quick_rows") else None
    return Factor(gram.factor, constant, n_jobs, packed)


class Steps:
    """Weights w, multipliers eta, the slopes s they give, and the answers t to them.

    Parameters
    ----------
    problem : DualQP
        With a factor.
    a : ndarray, shape (n,)
        The dual point that a round rounds the losses off around.
    n_jobs : int or None
        Threads.

    Attributes
    ----------
    w, eta, s : ndarray
        To be set before a round begins, as is the proximal weight `kappa`.
    t, v : ndarray
        The answers, and ``A'S t``.
    lack, least, violation : float
        What the answers lack, the sum of the minima, and the worst violation (see `_newton_terms.settle`).
    fall : float
        What the last step was expected to take off the objective.
    """

    w: NDArray[np.float64]
    eta: NDArray[np.float64]
    s: NDArray[np.float64]
    v: NDArray[np.float64]
    kappa: float

    def __init__(self, problem: DualQP, a: NDArray[np.float64], n_jobs: int | None) -> None:
        gram, n = problem.gram, problem.n
        self.problem, self.a = problem, a
        self.factor = factor_of(gram, n_jobs)
        self.threads = thread_count(n_jobs)
        points = problem.points
        self.rows = None if points.size == self.factor.n else points
        self.at = None if points is problem.index else np.searchsorted(points, problem.index)
        self.smooth = bool(np.all(problem.ridge > 0.0))
        self.uniform = bool(np.all(problem.ridge == problem.ridge[0]))
        p = problem
        same = self.uniform and bool(np.all(p.lo == p.lo[0]) and np.all(p.hi == p.hi[0]))
        self.box = (p.lo[:1], p.hi[:1], p.ridge[:1]) if same else (p.lo, p.hi, p.ridge)
        self.even = same and not self.smooth and p.lo[0] == 0.0 and bool(np.isfinite(p.hi[0]))
        self.kept = KeptCross(self.factor, problem, self.threads)
        self.iteration, self.fall = 0, np.inf
        # Where many variables are not expected to change their answers: the others. Slopes as the last round began, and
        # how far one of them went in it at most.
        self.awake: Awake | None = None
        self.begun: NDArray[np.float64] | None = None
        self.went = np.inf
        self.known = True  # whether v was added up from the answers, and not led to by steps
        # Kept from step to step, because fresh memory costs more than what is written to it.
        self.t, self.move, self.rest = np.empty(n), np.empty(n), np.empty(n)
        self.turned, self.give = np.empty(n, dtype=np.intp), np.empty(0)

    # -- products and passes -------------------------------------------------------------------------------------

    def _weights(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A'S a``."""
        return self.factor.combined(a, self.problem.sign, self.problem.index)

    def _products(self, p: NDArray[np.float64], out: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """``S A p``, a value a variable."""
        sign = self.problem.sign
        if self.at is None:
            return self.factor.products(p, self.rows, sign, out)
        return np.multiply(self.factor.products(p, self.rows)[self.at], sign, out=out)

    def _over_variables(self, task: Callable[[int, int, NDArray[np.float64]], None], width: int) -> NDArray[np.float64]:
        """Sums over all variables that are awake, a row a part."""
        count = self.problem.n if self.awake is None else self.awake.variables.size
        sums = np.zeros((max(1, -(-count // _PART)), width))
        share_parts(lambda b, e: task(b, e, sums[b // _PART]), count, _PART, self.threads)
        return sums

    def _settle(self) -> None:
        """Answers, and how good they are: those of a smooth loss are the best."""
        p = self.problem
        self.kept.told = False

        def part(begin: int, end: int, sums: NDArray[np.float64]) -> None:
            if self.smooth:
                sums[1] = smooth.answer(self.s, *self.box, begin, end, self.t)
            elif self.even:
                evenly.settle(self.raw, self.s, p.hi[0], begin, end, self.t, sums)
            else:
                settle(self.raw, self.s, p.lo, p.hi, p.ridge, begin, end, self.t, sums)

        self._keep(self._over_variables(part, 3))

    def _keep(self, sums: NDArray[np.float64]) -> None:
        self.lack, self.least = float(sums[:, 0].sum()), float(sums[:, 1].sum())
        self.violation = float(sums[:, 2].max())

    def _quality(self, a: NDArray[np.float64], slopes: NDArray[np.float64]) -> tuple[float, float]:
        """The gap and the KKT violation that a point has at its own slopes."""
        p, ignored = self.problem, self.rest

        def part(begin: int, end: int, sums: NDArray[np.float64]) -> None:
            if self.even:
                evenly.settle(a, slopes, p.hi[0], begin, end, ignored, sums)
            else:
                settle(a, slopes, p.lo, p.hi, p.ridge, begin, end, ignored, sums)

        sums = self._over_variables(part, 3)
        return float(sums[:, 0].sum()), float(sums[:, 2].max())

    # -- a round and its steps ------------------------------------------------------------------------------------

    def _begin_round(self) -> None:
        """Answers to the slopes as they are, with the round's weight."""
        p = self.problem
        self._wake()
        if self.even:
            if self.begun is not None:
                self.went = float(np.abs(self.s - self.begun).max())
            self.begun = self.s.copy()
        if self.smooth:
            if self.give.size == 0:
                self.give = 1.0 / self.box[2]
        elif self.even:
            self.give = np.array([1.0 / self.kappa])
            self.raw = self.s * -self.give[0]
            self.raw += self.a
        else:
            weight = np.where(p.ridge > 0.0, 0.0, self.kappa)
            self.give = 1.0 / (p.ridge + weight)
            self.raw = self.give * (weight * self.a - self.s)
            if not self.uniform:
                self.kept.forget()
        self._settle()
        self.v, self.known = self._weights(self.t), True
        if self.even and p.k == 0 and self.at is None:
            state = self.raw, self.s, self.t, self.w, self.v
            self.awake = awake(p, self.factor, state, self.kappa, self.least, self.went)

    def _wake(self) -> bool:
        """Slopes of all variables, where some were asleep; whether one of these has another answer now."""
        some, p = self.awake, self.problem
        if some is None:
            return False
        self.awake = None
        self._products(self.w, self.s)
        self.s += p.f0
        self.s[some.variables] = some.s
        np.multiply(self.s, -self.give[0], out=self.raw)
        self.raw += self.a
        self.raw[some.variables] = some.raw
        before = self.t.copy()
        self._settle()
        if np.array_equal(before, self.t):
            return False
        self.v, self.known = self._weights(self.t), True
        return True

    def _scale(self) -> float:
        """What the kept matrix is to be multiplied with."""
        return float(self.give[0]) if self.uniform else 1.0

    def _step(self, g: NDArray[np.float64], g_eta: NDArray[np.float64]) -> bool:
        """One Newton step; False where none is left in this arithmetic."""
        p = self.problem
        move_w, move_eta, exact = self._direction(g, g_eta)
        at_start = float(g @ move_w) + float(g_eta @ move_eta)
        length = self._length(move_w, move_eta, at_start)
        if length == 0.0:
            return False
        self.w = self.w + length * move_w
        self.eta = self.eta + length * move_eta
        # Of a smooth loss nearly all answers move by as much as the system says, which is g and the step itself.
        predicted = exact and self.smooth
        if self.smooth and not predicted:
            self.kept.clear()  # nothing is expected
        turned, rest = self._advance(length)
        if turned.size < 0.5 * np.count_nonzero(self.t):
            led = self.v + length * (g + move_w) if predicted else self.v
            self.v = led + self.factor.transposed(p.sign[turned] * rest, p.index[turned])
            self.known = self.known and not predicted
        else:
            self.v, self.known = self._weights(self.t), True
        if predicted or (exact and self.awake is not None):  # few have moved: no pass over all is needed to find them
            self.kept.tell(turned, self.t)
        self.iteration += 1
        self.fall = -0.5 * at_start
        return True

    def _length(self, move_w: NDArray[np.float64], move_eta: NDArray[np.float64], at_start: float) -> float:
        """How slopes move along a direction, kept in `move`, and how far to go."""
        p, some = self.problem, self.awake
        if some is not None:
            move = self.move[: some.variables.size]
            self.factor.products(move_w, some.points, some.sign, move)
            return self._search(move, move_w, move_eta, at_start)
        self._products(move_w, self.move)
        if p.k:
            self.move += p.F @ move_eta
        return self._search(self.move, move_w, move_eta, at_start)

    def _direction(
        self, g: NDArray[np.float64], g_eta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
        """Newton's step for the weights and the multipliers, and whether it solves its system to rounding."""
        p, typical = self.problem, float(self.give[0])
        cost = np.inf
        if self.factor.d <= KEPT_MOST:
            cost = cost_of_features(self.factor, self.kept.compare(self.t), weighted=not self.uniform)
            if cost <= least_cost(self.factor, self.kept.free):
                return *self._kept_direction(typical, g, g_eta), True
        J = np.flatnonzero((self.t > p.lo) & (self.t < p.hi))
        give = self.give[J] if self.give.size > 1 else np.full(J.size, typical)
        system = System(self.factor, p.index[J], p.sign[J], p.F[J], give, typical)
        if J.size and cost <= system.cost_of_others():
            return *self._kept_direction(typical, g, g_eta), True
        return *system.solve(g, g_eta), False

    def _kept_direction(
        self, typical: float, g: NDArray[np.float64], g_eta: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The step by the matrix over the features that is kept."""
        scale = self._scale()
        G = self.kept.matrix(None if self.uniform else self.give, scale)
        return solve_by_features(G, scale, damping(typical), g, g_eta)

    def _advance(self, length: float) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        """Slopes and answers a step further on; which answers moved, and by how much, beyond what is expected."""
        p, some = self.problem, self.awake
        counts = np.zeros(-(-p.n // _PART), dtype=np.intp)

        def part(begin: int, end: int, sums: NDArray[np.float64]) -> None:
            out = begin, end, self.turned, self.rest
            if self.smooth:
                passed = smooth.advance(self.s, self.t, self.kept.inside, self.move, length, *self.box, *out, sums[1:2])
            elif self.even:
                shared = self.give[0], self.move, length, p.hi[0]
                state = (self.raw, self.s, self.t) if some is None else some.state
                passed = evenly.advance(*state, *shared, *out, sums)
            else:
                box = p.lo, p.hi, p.ridge
                passed = advance(self.raw, self.s, self.t, self.give, self.move, length, *box, *out, sums)
            counts[begin // _PART] = passed

        self._keep(self._over_variables(part, 3))
        pieces = [slice(number * _PART, end) for number, end in enumerate(counts)]
        if len(pieces) == 1:
            turned, rest = self.turned[pieces[0]], self.rest[pieces[0]]
        else:
            turned = np.concatenate([self.turned[k] for k in pieces])
            rest = np.concatenate([self.rest[k] for k in pieces])
        if some is not None:
            self.least += some.least_of_others(self.w)
            moved, turned = some.t[turned], some.variables[turned]
            self.t[turned] = moved
        return turned, rest

    def _search(
        self, move: NDArray[np.float64], move_w: NDArray[np.float64], move_eta: NDArray[np.float64], at_start: float
    ) -> float:
        """A length at which the derivative along the direction is nearly zero: Newton's method within a bracket."""
        p = self.problem
        if not at_start < 0.0:
            return 0.0
        straight = float(self.w @ move_w) + float(p.e @ move_eta)
        curved = float(move_w @ move_w)
        some = self.awake
        if some is not None:
            straight -= float(some.asleep @ move_w)
        low, high, length = 0.0, np.inf, 1.0
        for _ in range(_SEARCH_MOST):

            def part(begin: int, end: int, sums: NDArray[np.float64], length: float = length) -> None:
                if self.smooth:
                    smooth.along(self.s, move, length, *self.box, begin, end, sums)
                elif self.even:
                    raw = self.raw if some is None else some.raw
                    evenly.along(raw, self.give[0], move, length, p.hi[0], begin, end, sums)
                else:
                    along(self.raw, self.give, move, length, p.lo, p.hi, begin, end, sums)

            first, second = self._over_variables(part, 2).sum(axis=0)
            slope, bend = straight + length * curved + float(first), curved + float(second)
            if abs(slope) <= _SEARCH_SHARE * -at_start:
                break
            low, high = (length, high) if slope < 0.0 else (low, length)
            proposal = length - slope / bend if bend > 0.0 else np.inf
            if not low < proposal < high:
                proposal = 0.5 * (low + high) if np.isfinite(high) else 4.0 * length
            length = proposal
        return length
