"""Newton's method over data that is not in memory: one pass over the rows an iteration, for few features.

A squared loss is smooth as it stands; a kink is rounded off within a band around it, which the dual answers with a
slope in place of a jump. One pass over the rows at weights ``w`` and bias ``b`` sums all that an iteration needs, with
the answers t to the slopes ``s = f0 + S (A w + b)``::

    t_i = clip(-s_i / ridge_i, 0, inf)    or    t_i = hi_i clip(1/2 - s_i / (2 band), 0, 1)
    v = A'S t,    H = A_J' D A_J  over the free answers J,    the objective, and the certificate

For the answers are feasible for the dual problem, and ``P(w, b) - D(t)`` is a gap that the same pass proves::

    P - D = sum of brackets + 1/2 |w - v|^2

With a bias that is not penalised, answers of one sign are scaled down until ``sum_i sign_i t_i = 0``; then D(t) is
that of the scaled answers. In memory: a d x d matrix and one batch, nothing a variable. A step is shortened where the
objective does not fall enough, at the price of a pass. The first weights are those of one random batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

from dualgap.certificate import judge
from dualgap.kernels.linear_gram import LinearGram
from dualgap.out_of_core.sample import sampled_weights
from dualgap.out_of_core.watch import Watch, certificate_of
from dualgap.result import Certificate, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.out_of_core.batches import Batch, Machine
    from dualgap.problem import DualQP

# With a band, the steps end where the next would gain less than this share of what the answers lack.
_INNER_SHARE = 0.1
# Sufficient fall of the objective; the first shortenings of a step go by its slopes, within these shares, later ones by
# the least share: then there is a bend that neither slope knows of.
_ARMIJO, _SHORTEST, _LONGEST, _BY_SLOPES = 1e-4, 0.05, 0.5, 2
# Steps are shortened so often at most: below that, rounding decides.
_SHORTENED = 10
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
    rounded: float = 0.0  # what rounding off the kinks takes away
    support: int = 0


class Newton:
    """A run of Newton's method, for a squared loss; `settle` is for one with a kink."""

    name = "newton"

    def __init__(self, machine: Machine, gap_tol: float, max_iter: int, seed: int, watch: Watch) -> None:
        self.machine, self.gap_tol, self.max_iter, self.watch, self.seed = machine, gap_tol, max_iter, watch, seed
        self.d = machine.blocks.shape[1] + (1 if machine.constant > 0.0 else 0)
        self.band = 0.0
        self.passes = 0
        self.x = np.zeros(self.d + 1)  # weights, that of a penalised constant, the bias without penalty
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

    @property
    def iterations(self) -> int:
        """Passes over the data."""
        return self.passes

    # -- the run -------------------------------------------------------------------------------------------------

    def run(self) -> tuple[Certificate, Status]:
        """Steps until the gap is proved."""
        self.x, _ = sampled_weights(self.machine, self.gap_tol, self.seed, self.watch)
        status = self._steps() or Status.STALLED
        assert self.best is not None
        return self.best[0], status

    def settle(self, x: NDArray[np.float64], band: float) -> Status | None:
        """Minimise from `x` with kinks rounded off within this band; a status where the run is over."""
        self.x, self.band = x, band
        return self._steps()

    def _steps(self) -> Status | None:
        """Newton steps until the gap is proved, a limit is met, or nothing is left to gain (None)."""
        sums = self._pass(self.x)
        while True:
            ended = self._judge(sums)
            if ended is not None:
                return ended
            g = self._gradient(self.x, sums)
            move = -self._solved(sums.H, g)
            slope = float(g @ move)
            if not slope < 0.0 or (self.band > 0.0 and -0.5 * slope <= _INNER_SHARE * sums.brackets):
                return None
            there = self._search(sums, move, slope)
            if there is None:
                return None
            sums = there

    def _search(self, here: Sums, move: NDArray[np.float64], slope: float) -> Sums | None:
        """Go along `move` until the objective falls enough; None where it does not."""
        begun, at = self._objective(self.x, here), self.x
        length = 1.0
        for shortened in range(_SHORTENED):
            self.x = at + length * move
            sums = self._pass(self.x)
            value = self._objective(self.x, sums)
            if value <= begun + _ARMIJO * length * slope:
                return sums
            if self._judge(sums) is not None:
                return sums
            ahead = float(self._gradient(self.x, sums) @ move)
            guess = slope / (slope - ahead) if ahead > 0.0 and shortened < _BY_SLOPES else 0.0
            length *= min(max(guess, _SHORTEST), _LONGEST)
        self.x = at
        return None

    # -- one pass ------------------------------------------------------------------------------------------------

    def _pass(self, x: NDArray[np.float64]) -> Sums:
        """Add up over all rows at weights and bias `x`; a certificate needs the whole of it, whatever the time."""
        sums = Sums(np.zeros((2, self.d)), np.zeros(2), np.zeros(2), np.zeros(2), np.zeros((self.d + 1, self.d + 1)))
        for batch in self.machine.batches():
            self._add(batch, x, sums)
        self.passes += 1
        return sums

    def _add(self, batch: Batch, x: NDArray[np.float64], sums: Sums) -> None:
        p = batch.problem
        assert isinstance(p.gram, LinearGram)
        operator = p.gram.operator
        s = p.sign * (operator.products(x[:-1]) + x[-1])[p.index] + p.f0
        t, give = answers(p, s, self.band)
        if self.band > 0.0:
            sums.rounded += float(np.sum((t - 0.5 * p.hi) ** 2 / give)) / 2.0
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
        free = np.flatnonzero((t > p.lo) & (t < p.hi))
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
        losses = self._product(x, sums) + float(sums.linear.sum() + sums.bent.sum()) + sums.rounded
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


def answers(p: DualQP, s: NDArray[np.float64], band: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What the variables answer to slopes, and how much they give where they are free."""
    if band > 0.0:
        give = p.hi / (2.0 * band)
        return np.clip(0.5 * p.hi - s * give, p.lo, p.hi), give
    give = 1.0 / p.ridge
    return np.clip(-s * give, p.lo, p.hi), give
