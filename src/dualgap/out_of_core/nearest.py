"""Losses with a kink, few features, rows that are not in memory: the rows next to the kink are solved in memory.

At good weights most variables sit at a bound, and the slopes ``s = f0 + S (A w + b)`` say at which. Only those whose
row is next to the kink (s near 0) are in doubt, and these fit into memory::

    1  weights that minimise the objective with kinks rounded off, within a band that has as many rows as fit into
       memory; its answers are a feasible point at whose weights all other variables sit at their bounds    (`newton`)
    2  M <- the rows that violate their conditions, are free, or are nearest to the kink, as many as fit
    3  min over a_M with all others fixed: their weights w_F enter as f0_M + S_M A_M w_F    (in memory)
    4  one pass over all rows: certificate and slopes at the new weights; back to 2

Step 3 never lowers the dual objective. How often the rows are read depends on how many are in doubt, not on C: some
10 passes for step 1, two a round for the others. In memory: the rows of M, 12 bytes a variable, a few numbers
a feature. A bias that is not penalised is one equality constraint of step 3.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.certificate import judge
from dualgap.constraints import InfeasibleProblemError, feasible_start
from dualgap.kernels.linear_gram import LinearGram
from dualgap.out_of_core.newton import Newton, answers
from dualgap.out_of_core.sample import sampled_weights
from dualgap.out_of_core.watch import Watch, certificate_of
from dualgap.result import Certificate, Event, Status
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.out_of_core.batches import Batch, Machine

# The rows of M are solved to this share of the gap that all rows have, but no further than this share of the goal.
_OF_GAP, _OF_GOAL = 0.02, 0.2
# Step 1 begins with a band that has this share of all rows, for a direction without rows in the band has no curvature,
# and ends with one whose rows take up this share of M. In between it narrows by at most this factor at a time.
_WIDE, _FILLED, _NARROWED = 0.9, 0.7, 4.0
# Before there is a gap worth the name: relative to the objective.
_FIRST = 1e-3
# Rounds without a tenth less of the gap after which the arithmetic is exhausted.
_PATIENCE = 20


class Nearest:
    """A run."""

    name = "nearest"

    def __init__(self, machine: Machine, gap_tol: float, max_iter: int, seed: int, watch: Watch) -> None:
        self.machine, self.gap_tol, self.max_iter, self.watch, self.seed = machine, gap_tol, max_iter, watch, seed
        n, d = machine.blocks.shape
        self.d = d + (1 if machine.constant > 0.0 else 0)
        self.a = np.zeros((machine.copies, n))
        self.key = np.zeros(n, dtype=np.float32)  # rows with small ones are in doubt
        self.x = np.zeros(self.d + 1)  # weights, that of a penalised constant, the bias without penalty
        self.v, self.total = np.zeros(self.d), 0.0
        self.passes = 0
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
        """Passes over the data, for certificates or to pick rows."""
        return self.passes

    def run(self) -> tuple[Certificate, Status]:
        """Rounds until the gap is proved."""
        ended = self._settle()
        if ended is not None and self.best is not None:
            return self.best[0], ended
        certificate = self._pass(fresh=True)
        least, waited = np.inf, 0
        while True:
            if self.best is None or certificate.relative_gap < self.best[0].relative_gap:
                self.best = certificate, self.x.copy()
            stop = self.watch.certified(self.passes, certificate, int(np.count_nonzero(self.a)))
            if certificate.relative_gap <= self.gap_tol:
                stopped = self.watch.reason is Status.STOPPED
                return certificate, Status.STOPPED if stopped else Status.CONVERGED
            if stop and self.watch.reason is not None:
                return self.best[0], self.watch.reason
            if 0 <= self.max_iter <= self.passes:
                return self.best[0], Status.MAX_ITER
            waited = 0 if certificate.relative_gap < 0.9 * least else waited + 1
            least = min(least, certificate.relative_gap)
            if waited >= _PATIENCE:
                return self.best[0], Status.STALLED
            self._solve(certificate)
            certificate = self._pass(fresh=False)

    def _settle(self) -> Status | None:
        """Step 1, from the weights of a sample; a status where that was all."""
        machine = self.machine
        self.x, near = sampled_weights(machine, self.gap_tol, self.seed, self.watch)
        rounded = Newton(machine, self.gap_tol, self.max_iter, self.seed, self.watch)
        share = min(1.0, _FILLED * machine.capacity / machine.blocks.shape[0])
        last = float(np.quantile(near, share)) or 1.0
        first = max(last, float(np.quantile(near, _WIDE)))
        for band in np.geomspace(first, last, 1 + int(np.ceil(np.log(first / last) / np.log(_NARROWED)))):
            self.band = float(band)
            ended = rounded.settle(self.x, self.band)
            self.x, self.best, self.passes = rounded.x, rounded.best, rounded.passes
            if ended is not None:
                return ended
        return None

    # -- all rows ------------------------------------------------------------------------------------------------

    def _pass(self, fresh: bool) -> Certificate:
        """Certificate and keys at the present weights; `fresh` gives every variable its answer."""
        self.v, self.total = np.zeros(self.d), 0.0
        rest = brackets = violation = 0.0
        for batch in self.machine.batches():
            p, a, s = batch.problem, self.a[:, batch.rows].ravel(), self._slopes(batch)
            if fresh:
                a = answers(p, s, self.band)[0]
                self.a[:, batch.rows] = a.reshape(self.machine.copies, -1)
            found = judge(p, a, s)[0]
            brackets += found.gap
            violation = max(violation, found.kkt_violation)
            rest += float(p.f0 @ a)
            self.total += float(p.sign @ a)
            self.v += _combined(batch, a)
            self._keep_keys(batch, a, s)
        self.passes += 1
        off = self.x[:-1] - self.v
        dual = -(0.5 * float(self.v @ self.v) + rest)
        # Of the primal objective at these weights, whatever a bias without penalty may be: s'a has b times the total.
        gap = brackets + 0.5 * float(off @ off) - float(self.x[-1]) * self.total
        if fresh and self.machine.bias:
            # These variables need not meet the constraint of the bias; those that are all zero do, and have D = 0.
            return certificate_of(dual + gap, 0.0, dual + gap, violation, 1.0)
        return certificate_of(dual + gap, dual, gap, violation)

    def _slopes(self, batch: Batch) -> NDArray[np.float64]:
        p = batch.problem
        assert isinstance(p.gram, LinearGram)
        return np.asarray(p.sign * (p.gram.operator.products(self.x[:-1]) + self.x[-1])[p.index] + p.f0)

    def _keep_keys(self, batch: Batch, a: NDArray[np.float64], s: NDArray[np.float64]) -> None:
        """Below zero what a row adds to the gap, or that it is free; else how far it is from the kink."""
        p = batch.problem
        bracket = np.where(s < 0.0, (a - p.hi) * s, (a - p.lo) * s)
        free = (a > p.lo) & (a < p.hi)
        key = np.where((bracket > 0.0) | free, -1e-30 - bracket, np.abs(s))
        self.key[batch.rows] = key.reshape(self.machine.copies, -1).min(axis=0)

    # -- the rows in doubt ---------------------------------------------------------------------------------------

    def _picked(self) -> tuple[NDArray[np.int64], Any]:
        """The rows with the smallest keys, and their matrix."""
        rows, capacity = np.flatnonzero(self.machine.weight > 0.0), self.machine.capacity
        if rows.size > capacity:
            rows = np.sort(rows[np.argpartition(self.key[rows], capacity)[:capacity]])
        self.passes += 1
        return rows, self.machine.gather(rows)

    def _solve(self, certificate: Certificate) -> None:
        """The best values of the rows in doubt with all others fixed, and the weights they give."""
        rows, X = self._picked()
        batch = self.machine.batch(rows, X)
        p, a = batch.problem, self.a[:, rows].ravel()
        fixed = self.v - _combined(batch, a)
        assert isinstance(p.gram, LinearGram)
        p = replace(p, f0=p.f0 + p.sign * p.gram.operator.products(fixed)[p.index])
        if self.machine.bias:
            right = -(self.total - float(p.sign @ a))
            p = replace(p, F=p.sign.reshape(-1, 1), e=np.array([right]), columns=("bias",))
        try:
            start = feasible_start(p, a)
        except InfeasibleProblemError:
            # The bounds of the first pass are out of balance by more than the rows in doubt can make up for.
            self.a[:], self.v, self.total = 0.0, np.zeros(self.d), 0.0
            return
        least = min(certificate.gap, _FIRST * abs(certificate.primal) / _OF_GAP)
        enough = max(_OF_GAP * least, _OF_GOAL * self.gap_tol * abs(certificate.primal))

        def watched(event: Event) -> bool:
            return self.watch.late() or event.primal - event.dual <= enough

        # Its own relative gap means nothing here: the fixed variables' part of the objective is not in it.
        result = solve(
            p, "newton", gap_tol=1e-14, callback=watched, start=start, warn=False, n_jobs=self.machine.n_jobs
        )
        self.a[:, rows] = result.a.reshape(self.machine.copies, -1)
        self.x[:-1] = fixed + _combined(batch, result.a)
        self.x[-1] = float(result.eta[0]) if p.k else 0.0


def _combined(batch: Batch, a: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights that some values of a batch give."""
    p = batch.problem
    assert isinstance(p.gram, LinearGram)
    used = np.flatnonzero(a)
    return p.gram.operator.transposed((p.sign * a)[used], p.index[used])
