"""Block minimisation: dual coordinate descent on the rows in memory, batch after batch (Yu, Hsieh, Chang, Lin 2010).

The weights ``w = A'(sign * a)`` are kept for all variables. A batch of rows is loaded, its variables are improved by a
few passes of coordinate descent with everything else fixed, and the next one takes its place::

    min over a_B of  1/2 a_B'H_BB a_B + (f0_B + S_B A_B (w - w_B))'a_B,    lo <= a_B <= hi

which needs w and the rows of B alone. In memory: 8 bytes a variable, w, and one batch. Batches are put together anew
every epoch from pieces all over the data. A variable that lies further inside its bound than the strongest pull of the
last epoch is not visited.

The brackets of the certificate (`dualgap.certificate`) are summed on the way, each batch's at the weights it meets: a
belief, mostly too high, that costs nothing beyond the margins. Where it is near the goal, a pass over all data proves
the gap at fixed weights, with ``v = A'(sign * a)`` summed anew::

    P(w) - D(a) = sum of brackets at the slopes of w + 1/2 |w - v|^2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.certificate import judge
from dualgap.kernels.linear_rows import combination, rows_of
from dualgap.out_of_core.watch import Watch, certificate_of
from dualgap.result import Status
from dualgap.solvers.dcd import Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.out_of_core.batches import Batch, Machine
    from dualgap.result import Certificate

# Passes over a batch while it is in memory. With leaps among them (every 6 passes) 5, 12, 24 and 50 took more than 150,
# 106, 49 and 31 epochs on news20 in four batches (C=1, squared hinge, gap 1e-3), and no more time on easy problems.
_PASSES = 50
# Passes end earlier where violations have fallen to this share of what they were when the batch was loaded.
_ENOUGH = 0.1
# A proof is due when the believed gap is within this factor of the goal, and after so many epochs.
_NEAR, _EPOCHS_BETWEEN = 2.0, 10
# A rise of the dual objective in an epoch, relative to it, that is no more than rounding.
_NO_RISE = 1e-15


class Descent:
    """A run of block minimisation."""

    name = "blocks"

    def __init__(self, machine: Machine, gap_tol: float, max_iter: int, seed: int, watch: Watch) -> None:
        self.machine, self.gap_tol, self.max_iter, self.watch = machine, gap_tol, max_iter, watch
        n, d = machine.blocks.shape
        self.a = np.zeros((machine.copies, n))
        self.w, self.total = np.zeros(d), 0.0
        self.rest = 0.0  # f0'a + ridge a^2 / 2
        self.order = np.random.default_rng(seed)
        self.random = np.random.SeedSequence(seed).generate_state(1, dtype=np.uint64) | np.uint64(1)
        self.low = self.high = np.inf
        self.believed = np.nan
        self.epoch = 0
        self.weights, self.bias = self.w, 0.0

    def run(self) -> tuple[Certificate, Status]:
        """Epochs until the gap is proved."""
        proved = 0
        while True:
            before = self.dual()
            finished = self._epoch()
            self.epoch += 1
            last = not finished or 0 <= self.max_iter <= self.epoch
            risen = self.dual() - before > _NO_RISE * abs(before)
            near = self.believed <= _NEAR * self.gap_tol
            if not (last or near or not risen or self.epoch - proved >= _EPOCHS_BETWEEN):
                continue
            certificate, proved = self.prove(), self.epoch
            self.watch.certified(self.epoch, certificate, self._support())
            if certificate.relative_gap <= self.gap_tol:
                stopped = self.watch.reason is Status.STOPPED
                return certificate, Status.STOPPED if stopped else Status.CONVERGED
            if self.watch.reason is not None:
                return certificate, self.watch.reason
            if last or not risen:
                return certificate, Status.MAX_ITER if last else Status.STALLED

    @property
    def iterations(self) -> int:
        """Epochs."""
        return self.epoch

    def dual(self) -> float:
        """The dual objective, by the weights that are kept."""
        return -(0.5 * float(self.w @ self.w) + 0.5 * self.machine.constant * self.total**2 + self.rest)

    def _support(self) -> int:
        return int(np.count_nonzero(self.a))

    def _epoch(self) -> bool:
        """Every batch once; False where the run is to stop."""
        gap = violation = rising = falling = 0.0
        order = self.order.permutation(len(self.machine.blocks))
        for batch in self.machine.batches(order):
            found, up, down = self._improve(batch)
            gap += found.gap
            violation = max(violation, found.kkt_violation)
            rising, falling = max(rising, up), max(falling, down)
            dual = self.dual()
            primal = dual + self.believed * abs(dual)
            if self.watch(self.epoch, primal, dual, self.believed, violation, self._support()):
                return False
        dual = self.dual()
        self.believed = gap / max(abs(dual), abs(dual + gap), 1e-300)
        self.low, self.high = falling or np.inf, rising or np.inf
        return True

    def _improve(self, batch: Batch) -> tuple[Certificate, float, float]:
        """Passes over one batch; what its certificate was before, and the strongest pulls."""
        p, at = batch.problem, (slice(None), batch.rows)
        a = self.a[at].ravel()
        constant = self.machine.constant
        part = Part(p, a, self.w, constant * self.total)
        margin = part.margins()
        found = _judged(batch, a, margin)
        rising, falling = part.select(margin, self.low, self.high)
        part.descend(_PASSES, _ENOUGH * max(rising, falling), self.random, self.watch.late)
        now = part.point_of_box()
        self.total += float(p.sign @ (now - a))
        self.rest += float(p.f0 @ (now - a)) + 0.5 * float(p.ridge @ (now**2 - a**2))
        self.a[at] = now.reshape(self.machine.copies, -1)
        return found, rising, falling

    def prove(self) -> Certificate:
        """The certificate of the present point, in one pass; the weights are renewed on the way."""
        constant = self.machine.constant
        v, total, rest, brackets, violation = np.zeros_like(self.w), 0.0, 0.0, 0.0, 0.0
        for batch in self.machine.batches():
            p, a = batch.problem, self.a[:, batch.rows].ravel()
            found = _judged(batch, a, Part(p, a, self.w, constant * self.total).margins())
            brackets += found.gap
            violation = max(violation, found.kkt_violation)
            v += combination(rows_of(p.gram.factor), p.on_points(a))
            total += float(p.sign @ a)
            rest += float(p.f0 @ a) + 0.5 * float(p.ridge @ a**2)
        off = self.w - v
        gap = brackets + 0.5 * float(off @ off) + 0.5 * constant * (self.total - total) ** 2
        self.weights, self.bias = self.w, constant * self.total  # what the primal objective is of
        self.w, self.total, self.rest = v, total, rest
        dual = self.dual()
        return certificate_of(dual + gap, dual, gap, violation)


def _judged(batch: Batch, a: NDArray[np.float64], margin: NDArray[np.float64]) -> Certificate:
    """The brackets of a batch at given decision values."""
    p = batch.problem
    return judge(p, a, p.sign * margin[p.index] + p.f0 + p.ridge * a)[0]
