"""Algorithm 1 of the MPD paper, one point and one row at a time.

An iteration makes a Gauss-Seidel step on each of the k systems ``H gamma_i = -f_i``, at the largest component of the
residual ``rho_i = H gamma_i + f_i``, and one clipped step on the variable that violates its condition most. Whenever
the violation is within the tolerance and ``F'a = e`` is not, every multiplier moves by ``-(F'a - e)_i / h_i``.

Corrected against the print: ``h_i = f_i'gamma_i = -f_i'H^-1 f_i`` is negative, so it changes by ``+ delta gamma_ij
f_ij`` (with the printed minus every step on eta goes the wrong way); the gradient in eta is ``F'a - e``.

Where H is singular and f_i has a part in its null space (nu-SVR) gamma_i has no limit, h_i falls for ever, and the
steps on eta_i with it: then the method does not converge, which a run reports as such.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap.certificate import exact_gradient, judge
from dualgap.feasibility import orthonormal, restored
from dualgap.kernels.gram import FullGram, Store, entry_cost, row_store
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status
from dualgap.solvers._mpd_steps import snapped

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.solvers.mpd import Options

# What a chunk returns for.
MORE, SETTLED, NEED_ROW = 0, 1, 2
# Curvature below which a variable is flat (a zero row): its step runs to a bound, and it serves no Hessian.
_FLAT = 1e-12
# Steps of a chunk, entry updates and multiplications in rows it may cost: a tenth of a second or so.
_CHUNK_STEPS, _CHUNK_UPDATES, _CHUNK_PRODUCTS = 1000, 20_000_000, 50_000_000
# Restored points whose violation exceeds the tolerance this many times in a row are rounding.
_PATIENCE = 8


@nb.njit(cache=True, nogil=True)
def paper_chunk(  # type: ignore[no-untyped-def]
    values, slot, stamp, clock, point, sign, ridge, diagonal, F, a, slope, lo, hi, off, towards, h, tol, max_steps,
    needed, state, report,
):  # fmt: skip
    """Run at most `max_steps` iterations until the violation is within `tol`.

    `slope` is ``Ha + f0 + F eta``, `off` is ``F'a - e``, `towards` holds ``H gamma_i + f_i`` in its columns.
    ``state[0]`` is the part of the iteration that is due: constraint i for i < k, the variables for k. `report` gets
    violation, change of ``L(a, eta)`` and rows used.
    """
    n, k = F.shape
    steps = 0
    report[1], report[2] = 0.0, 0.0
    while True:
        part = state[0]
        if part < k:
            j, largest = -1, 0.0
            for t in range(n):
                if diagonal[t] > _FLAT and abs(towards[t, part]) > largest:
                    largest = abs(towards[t, part])
                    j = t
            if j < 0:
                state[0] += 1
                continue
        else:
            j, largest = -1, 0.0
            for t in range(n):
                s = slope[t]
                if (s < 0.0 and a[t] < hi[t]) or (s > 0.0 and a[t] > lo[t]):
                    if abs(s) > largest:
                        largest = abs(s)
                        j = t
            report[0] = largest
            if largest <= tol or steps >= max_steps:
                state[0] = 0
                return (SETTLED if largest <= tol else MORE), steps
        if slot[point[j]] < 0:
            needed[0] = point[j]
            return NEED_ROW, steps
        row = values[slot[point[j]]]
        clock[0] += 1
        stamp[slot[point[j]]] = clock[0]
        report[2] += 1.0
        if part < k:
            change = -towards[j, part] / diagonal[j]
            h[part] += change * F[j, part]
            weight = change * sign[j]
            for t in range(n):
                towards[t, part] += sign[t] * weight * row[point[t]]
            towards[j, part] += ridge[j] * change
            state[0] += 1
            continue
        new = snapped(a[j] - slope[j] / max(diagonal[j], _FLAT), lo[j], hi[j])
        change = new - a[j]
        report[1] += change * (slope[j] + 0.5 * diagonal[j] * change)
        a[j] = new
        weight = change * sign[j]
        for t in range(n):
            slope[t] += sign[t] * weight * row[point[t]]
        slope[j] += ridge[j] * change
        for c in range(k):
            off[c] += change * F[j, c]
        steps += 1
        state[0] = 0


class Paper:
    """The state of one run."""

    def __init__(
        self,
        problem: DualQP,
        options: Options,
        callback: Callable[[Snapshot], bool],
        start: NDArray[np.float64] | None,
    ) -> None:
        p = problem
        self.problem, self.options, self.callback = problem, options, callback
        self.basis = orthonormal(problem)
        self.a = np.clip(0.0 if start is None else start, p.lo, p.hi)
        self.eta = np.zeros(p.k)
        self.slope = exact_gradient(p, self.a) if np.any(self.a) else p.f0.copy()
        self.off = p.F.T @ self.a - p.e
        self.h, self.towards = np.zeros(p.k), p.F.copy()
        self.point = p.index.astype(np.int64)
        self.diagonal = p.gram.diag()[p.index] + p.ridge
        self.store: Store = row_store(p.gram)
        self.store.reset()
        self.evaluations_before, self.counts_before = p.gram.evaluations, self.store.counts.copy()
        self.needed, self.state, self.report = np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(3)
        self.iterations, self.renewals, self.rows_used = 0, 0, 0
        self.tol = max(options.tol, options.first_tol)
        self.violation = np.inf

    def run(self) -> Outcome:
        """Settle the variables, move the multipliers, and so on."""
        harmed = 0
        while True:
            code = self.advance()
            met = code == SETTLED and float(np.abs(self.off).max(initial=0.0)) <= self.tol
            held = met
            if met:
                # Both thresholds are met; the point is put onto the constraints, and must still meet the first.
                self.restore()
                held = self.tol > self.options.tol or self.still_settled()
                harmed = 0 if held else harmed + 1
            if self.tell():
                return self.outcome(Status.STOPPED)
            if held and self.tol <= self.options.tol:
                return self.outcome(Status.CONVERGED)
            if harmed == _PATIENCE:
                return self.outcome(Status.STALLED)
            if held:
                self.tol = max(self.options.tol, 0.1 * self.tol)
            elif met:
                self.tol = 0.5 * self.tol
            elif code == SETTLED:
                self.renew()
            if 0 <= self.options.max_iter <= self.iterations:
                return self.outcome(Status.MAX_ITER)

    def advance(self) -> int:
        """One chunk of iterations, and the rows for them."""
        p, s = self.problem, self.store
        budget = max(1, min(_CHUNK_STEPS, _CHUNK_UPDATES // max(1, p.n * (p.k + 1))))
        if self.options.max_iter >= 0:
            budget = max(0, min(budget, self.options.max_iter - self.iterations))
        loads = max(1, int(_CHUNK_PRODUCTS / max(entry_cost(p.gram) * p.gram.n, 1.0)))
        while True:
            code, steps = paper_chunk(
                s.values, s.slot, s.stamp, s.clock, self.point, p.sign, p.ridge, self.diagonal, p.F, self.a, self.slope,
                p.lo, p.hi, self.off, self.towards, self.h, self.tol, budget, self.needed, self.state, self.report,
            )  # fmt: skip
            self.iterations += steps
            budget -= steps
            self.violation = float(self.report[0])
            self.rows_used += int(self.report[2])
            check_objective(float(self.report[1]) if self.violation >= 0.0 else np.nan)
            if code != NEED_ROW:
                return int(code)
            s.load(self.needed, None)
            loads -= 1
            if loads == 0:
                return MORE

    def renew(self) -> None:
        """Newton steps on the multipliers, each with its own estimate of the second derivative."""
        self.renewals += 1
        self.off = self.problem.F.T @ self.a - self.problem.e  # running sums have rounded
        step = np.divide(-self.off, self.h, out=np.zeros_like(self.off), where=self.h < 0.0)
        self.eta += step
        self.slope += self.problem.F @ step

    def restore(self) -> None:
        """Move onto the constraints."""
        p = self.problem
        moved = restored(self.a, p.lo, p.hi, self.basis, self.slope)
        change = p.on_points(moved - self.a)
        used = np.flatnonzero(change)
        sums = np.zeros(p.gram.n)
        p.gram.accumulate(sums, used, change[used])
        self.slope += p.sign * sums[p.index] + p.ridge * (moved - self.a)
        self.a = moved
        self.off = p.F.T @ moved - p.e

    def still_settled(self) -> bool:
        """Whether the point put onto the constraints is within the tolerance, with multipliers that suit it best."""
        certificate, _ = judge(self.problem, self.a, self.slope - self.problem.F @ self.eta, self.eta)
        self.violation = certificate.kkt_violation
        return self.violation <= self.options.tol

    def tell(self) -> bool:
        """Report to the callback; True when it asks to stop."""
        p = self.problem
        misses = int((self.store.counts - self.counts_before)[1])
        evaluations = p.gram.evaluations - self.evaluations_before
        if isinstance(p.gram, FullGram):
            evaluations = int(np.count_nonzero(self.store.stamp)) * p.gram.n
        gradient = self.slope - p.F @ self.eta
        return self.callback(
            Snapshot(
                iteration=self.iterations,
                a=self.a,
                gradient=gradient,
                objective=0.5 * float(self.a @ (gradient + p.f0)),
                violation=max(self.violation, float(np.abs(self.off).max(initial=0.0))),
                kernel_evaluations=evaluations,
                cache_hits=max(0, self.rows_used - misses),
                cache_misses=misses,
            )
        )

    def outcome(self, status: Status) -> Outcome:
        """The solution, on its constraints; the store whole for whoever comes next."""
        p = self.problem
        self.store.reset()
        return Outcome(restored(self.a, p.lo, p.hi, self.basis, self.slope), self.iterations, status)
