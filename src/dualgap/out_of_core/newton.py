"""Newton's method over data that is not in memory: one pass over the rows an iteration, for few features.

The method is that of `dualgap.solvers.newton`: Newton's method where the loss is squared, on an augmented Lagrangian
where it has a kink. One pass over the rows at weights ``w`` and bias ``b`` sums all that an iteration needs, with the
answers ``t_i = clip((kappa a_i - s_i) / (ridge + kappa), lo, hi)`` to the slopes ``s = f0 + S (A w + b)``::

    v = A'S t,    H = A_J' D A_J  over the free answers J,    the objective, and the certificate

For the answers are feasible for the dual problem, and ``P(w, b) - D(t)`` is a gap that is proved by the same pass::

    P - D = sum of brackets + 1/2 |w - v|^2

With a bias that is not penalised, answers of one sign are scaled down until ``sum_i sign_i t_i = 0``; then D(t) is
that of the scaled answers. In memory: a d x d matrix, one batch, and 16 bytes a variable for a loss with a kink (a and
t), nothing at all for a squared one. A step is shortened where the objective does not fall enough, at the price of a
pass. The first weights are those of one random batch, solved in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

from dualgap.certificate import judge
from dualgap.kernels.linear_gram import LinearGram
from dualgap.out_of_core.watch import Watch, certificate_of
from dualgap.result import Certificate, Status
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.out_of_core.batches import Batch, Machine

# The proximal weight falls by the first factor after a round of so few steps at most, else by the second.
_FALLS, _EASY = (10.0, 4.0), 4
# A round ends where what is left of its gradient is this share of what the answers lack.
_INNER_SHARE = 0.3
# Sufficient fall of the objective, and the shares within which a step is shortened.
_ARMIJO, _SHORTEST, _LONGEST = 1e-4, 0.1, 0.7
# Steps are shortened so often at most: below that, rounding decides.
_SHORTENED = 12
# The sample is solved to this gap, or to the one asked for where that is larger: it is good to no more.
_SAMPLE_GAP = 1e-3
# Rounds without less gap after which the arithmetic is exhausted.
_PATIENCE = 6
# Damping of the bias, relative to one free variable: it decides only where none is free.
_DAMPING = 1e-4


@dataclass
class Sums:
    """What a pass has added up; the answers of either sign apart where there is a bias."""

    v: NDArray[np.float64]  # (2, d): of positive and of negative signs
    total: NDArray[np.float64]  # sums of answers
    linear: NDArray[np.float64]  # f0't
    bent: NDArray[np.float64]  # ridge t^2 / 2
    H: NDArray[np.float64]
    brackets: float = 0.0
    violation: float = 0.0
    proximal: float = 0.0  # sum of kappa (t - a)^2 / 2
    support: int = 0


class Newton:
    """A run of Newton's method."""

    name = "newton"

    def __init__(self, machine: Machine, gap_tol: float, max_iter: int, seed: int, watch: Watch) -> None:
        self.machine, self.gap_tol, self.max_iter, self.watch = machine, gap_tol, max_iter, watch
        self.d = machine.blocks.shape[1] + (1 if machine.constant > 0.0 else 0)
        self.order = np.random.default_rng(seed)
        self.passes = 0
        self.fresh = True  # whether a is still to be set, from the slopes of the sample's weights
        self.smooth = machine.row.startswith("squared")
        shape = (0, 0) if self.smooth else (machine.copies, machine.blocks.shape[0])
        self.a, self.t = np.zeros(shape), np.zeros(shape)
        self.kappa = 0.0
        self.x = np.zeros(self.d + 1)  # weights, and the bias that is not penalised
        self.best: tuple[Certificate, NDArray[np.float64]] | None = None

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the features, those that are certified."""
        assert self.best is not None
        return self.best[1][: self.machine.blocks.shape[1]]

    @property
    def bias(self) -> float:
        """The bias, of either kind."""
        assert self.best is not None
        x = self.best[1]
        return float(x[-1]) + (self.machine.constant**0.5 * float(x[-2]) if self.machine.constant > 0.0 else 0.0)

    # -- the run -------------------------------------------------------------------------------------------------

    def run(self) -> tuple[Certificate, Status]:
        """Rounds until the gap is proved."""
        self._sample()
        waited = 0
        while True:
            least = np.inf if self.best is None else self.best[0].relative_gap
            begun = self.passes
            ended = self._round()
            assert self.best is not None
            if ended is not None:
                return self.best[0], ended
            waited = waited + 1 if self.best[0].relative_gap > 0.9 * least else 0
            if self.smooth or waited >= _PATIENCE:
                return self.best[0], Status.STALLED
            self.a, self.t = self.t, self.a
            self.kappa /= _FALLS[0] if self.passes - begun <= _EASY else _FALLS[1]

    def _sample(self) -> None:
        """Weights of a random batch, and a first proximal weight: what lets a variable cross its box."""
        machine = self.machine
        order = self.order.permutation(len(machine.blocks))
        pieces = machine.blocks.grouped(order)[0]
        rows = machine.blocks.rows(pieces)
        share = float(machine.weight[rows].sum() / machine.weight.sum())
        if share == 0.0:
            self.kappa = 1.0
            return
        try:
            p = machine.batch(rows, machine.blocks.load(pieces), bias=machine.bias, share=share).problem
            goal = max(_SAMPLE_GAP, self.gap_tol)
            limit = None if self.watch.time_limit is None else max(1e-3, self.watch.time_limit - self.watch.elapsed())
            result = solve(p, "newton", gap_tol=goal, warn=False, time_limit=limit, n_jobs=machine.n_jobs)
        except ValueError:  # one class only, which is no start; a value that is no number is met again
            self.kappa = 1.0
            return
        assert isinstance(p.gram, LinearGram)
        used = np.flatnonzero(result.a)
        self.x[:-1] = p.gram.operator.transposed((p.sign * result.a)[used], p.index[used])
        self.x[-1] = float(result.eta[0]) if p.k else 0.0
        s = p.sign * (p.gram.operator.products(self.x[:-1]) + self.x[-1])[p.index] + p.f0
        spread = float(np.mean(np.abs(s - np.median(s)))) or 1.0
        width = float(np.median(p.hi[p.hi > 0.0])) * share
        self.kappa = 0.0 if self.smooth else spread / width * 0.1

    def _round(self) -> Status | None:
        """Newton's method at one proximal weight; a status where the run is over."""
        sums = self._pass(self.x)
        while True:
            ended = self._judge(sums)
            if ended is not None:
                return ended
            g = self._gradient(self.x, sums)
            left = 0.5 * float(g @ g)
            if not self.smooth and left <= _INNER_SHARE * sums.brackets:
                return None
            move = -self._solved(sums.H, g)
            slope = float(g @ move)
            if not slope < 0.0:
                return None
            there = self._search(sums, move, slope)
            if there is None:
                return None
            sums = there

    def _search(self, here: Sums, move: NDArray[np.float64], slope: float) -> Sums | None:
        """Go along `move` until the objective falls enough; None where it does not."""
        begun, at = self._objective(self.x, here), self.x
        length = 1.0
        for _ in range(_SHORTENED):
            self.x = at + length * move
            sums = self._pass(self.x)
            value = self._objective(self.x, sums)
            if value <= begun + _ARMIJO * length * slope:
                return sums
            if self._judge(sums) is not None:
                return sums
            ahead = float(self._gradient(self.x, sums) @ move)
            guess = slope / (slope - ahead) if ahead > 0.0 else _LONGEST
            length *= min(max(guess, _SHORTEST), _LONGEST)
        self.x = at
        return None

    # -- one pass ------------------------------------------------------------------------------------------------

    def _pass(self, x: NDArray[np.float64]) -> Sums:
        """Add up over all rows at weights and bias `x`; the answers are kept."""
        sums = Sums(np.zeros((2, self.d)), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((self.d + 1, self.d + 1)))
        for batch in self.machine.batches():
            self._add(batch, x, sums)
            if self.watch.callback is None and self.watch.late():
                continue  # a certificate needs the whole pass
        self.fresh = False
        self.passes += 1
        return sums

    def _add(self, batch: Batch, x: NDArray[np.float64], sums: Sums) -> None:
        p, at = batch.problem, (slice(None), batch.rows)
        assert isinstance(p.gram, LinearGram)
        operator = p.gram.operator
        s = p.sign * (operator.products(x[:-1]) + x[-1])[p.index] + p.f0
        if self.smooth:
            give = 1.0 / p.ridge
            raw = -s * give
            t = np.clip(raw, p.lo, p.hi)
        else:
            a = np.where(s < 0.0, p.hi, p.lo) if self.fresh else self.a[at].ravel()
            give = np.full(p.n, 1.0 / self.kappa)
            raw = a - s * give
            t = np.clip(raw, p.lo, p.hi)
            sums.proximal += 0.5 * self.kappa * float(np.sum((t - a) ** 2))
            self.t[at] = t.reshape(self.machine.copies, -1)
            if self.fresh:
                self.a[at] = a.reshape(self.machine.copies, -1)
        found = judge(p, t, s + p.ridge * t)[0]
        sums.brackets += found.gap
        sums.violation = max(sums.violation, found.kkt_violation)
        sums.support += int(np.count_nonzero(t))
        for side, sign in enumerate((1.0, -1.0)):
            used = np.flatnonzero((p.sign == sign) & (t != 0.0))
            sums.v[side] += operator.transposed(sign * t[used], p.index[used])
            sums.total[side] += float(t[used].sum())
            sums.linear[side] += float(p.f0[used] @ t[used])
            sums.bent[side] += 0.5 * float(p.ridge[used] @ t[used] ** 2)
        free = np.flatnonzero((raw > p.lo) & (raw < p.hi))
        points = p.index[free]
        sums.H[:-1, :-1] += operator.cross(points, give[free])
        if self.machine.bias:
            sums.H[:-1, -1] += operator.transposed(give[free], points)
            sums.H[-1, -1] += float(give[free].sum())

    # -- what the sums say ---------------------------------------------------------------------------------------

    def _gradient(self, x: NDArray[np.float64], sums: Sums) -> NDArray[np.float64]:
        slope = x[:-1] - sums.v.sum(axis=0)
        return np.append(slope, float(sums.total[1] - sums.total[0]) if self.machine.bias else 0.0)

    def _product(self, x: NDArray[np.float64], sums: Sums) -> float:
        """``s't`` without ``f0't``."""
        return float(x[:-1] @ sums.v.sum(axis=0)) + float(x[-1]) * float(sums.total[0] - sums.total[1])

    def _objective(self, x: NDArray[np.float64], sums: Sums) -> float:
        """What a round minimises."""
        losses = self._product(x, sums) + float(sums.linear.sum() + sums.bent.sum()) + sums.proximal
        return 0.5 * float(x[:-1] @ x[:-1]) - losses

    def _solved(self, H: NDArray[np.float64], g: NDArray[np.float64]) -> NDArray[np.float64]:
        """Newton's system: the identity for the weights, and next to nothing for the bias."""
        M = H.copy()
        M[:-1, -1] = M[-1, :-1] = H[:-1, -1]
        M[np.arange(self.d), np.arange(self.d)] += 1.0
        M[-1, -1] += _DAMPING * max(1.0, float(np.trace(H)) / max(1, self.d)) if self.machine.bias else 1.0
        return np.asarray(sla.cho_solve(sla.cho_factor(M, lower=True, overwrite_a=True), g))

    def _judge(self, sums: Sums) -> Status | None:
        """Certify the pass; a status where the run is over."""
        certificate = self._certificate(sums)
        if self.best is None or certificate.relative_gap < self.best[0].relative_gap:
            self.best = certificate, self.x.copy()
        stop = self.watch.certified(self.passes, certificate, sums.support)
        if certificate.relative_gap <= self.gap_tol:
            return Status.STOPPED if self.watch.reason is Status.STOPPED else Status.CONVERGED
        if stop:
            return self.watch.reason
        return Status.MAX_ITER if 0 <= self.max_iter <= self.passes else None

    def _certificate(self, sums: Sums) -> Certificate:
        x = self.x
        v = sums.v.sum(axis=0)
        off = x[:-1] - v
        losses = sums.brackets - self._product(x, sums) - float(sums.linear.sum() + sums.bent.sum())
        primal = 0.5 * float(x[:-1] @ x[:-1]) + losses
        if not self.machine.bias:
            gap = sums.brackets + 0.5 * float(off @ off)
            return certificate_of(primal, primal - gap, gap, max(sums.violation, 0.0))
        # The answers of the heavier sign are scaled down, which keeps them in the box.
        scale = np.where(sums.total > 0.0, sums.total.min() / np.where(sums.total > 0.0, sums.total, 1.0), 1.0)
        v = scale @ sums.v
        dual = -(0.5 * float(v @ v) + float(scale @ sums.linear) + float(scale**2 @ sums.bent))
        return certificate_of(primal, dual, max(primal - dual, 0.0), sums.violation)
