"""Pegasos: stochastic subgradient steps on the primal hinge problem, the baseline of the linear solvers.

Problem, without bias or with a penalised one (K = AA' + constant: one more feature), C_i = hi_i::

    min_w  1/2 |w|^2 + sum_i C_i max(0, 1 - sign_i w'x_i),    lambda = 1 / sum C

Steps (Shalev-Shwartz, Singer, Srebro, Cotter 2011, figures 1 and 2) for t = 1, 2, ...: draw a batch of k samples, then

    w <- (1 - 1/t) w + n/(t k) sum over the batch's violators of C_i sign_i x_i      (step 1/(lambda t))
    w <- min(1, 1/(sqrt(lambda) |w|)) w                                              (optional projection)

It follows that ``t w = n/k sum_i count_i C_i sign_i x_i``: how often a sample has been a violator is a dual candidate,
``a_i = n C_i count_i / (k t)``, clipped to the box. That is what is reported and certified: the gap is the
candidate's, with w made of it. The objective of the unclipped w, which is better, stands beside it in the snapshots.

Cost of a step: k rows; of a look, three passes. It reaches gaps of a few per cent within some passes and then gains a
digit for ten times the passes, so it ends by its limits (`max_iter`, time) and never claims what was not certified. Use
it to compare with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap.kernels.linear_rows import CHUNK, FUSED, add_row, combination, dot_row, margins, rows_of
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# It cannot be asked for small tolerances: tests treat it apart.
BASELINE = True
# Passes where no limit is set. Each further digit takes ten times as many, so waiting longer is of no use.
_PASSES = 100
# A look costs three passes; the passes done lie between two, divided by this.
_LOOK_SHARE = 4
# The factor of projections is multiplied out when it has become so small.
_SMALLEST_FACTOR = 1e-9


@dataclass(frozen=True)
class Options:
    """Settings of `pegasos`.

    Attributes
    ----------
    tol : float
        KKT violation to reach.
    max_iter : int
        Passes (as many draws as there are variables) at most; -1 for 100 of them.
    batch : int
        Samples of a step.
    projection : bool
        Whether w is kept in the ball that holds the optimum (counts shrink with it).
    order : {"random", "permuted"}
        Samples drawn with replacement, as in the paper, or every sample once a pass in random order.
    seed : int
        Of the draws.
    """

    tol: float = 1e-3
    max_iter: int = -1
    batch: int = 1
    projection: bool = False
    order: str = "random"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError(f"batch must be at least 1 for solver 'pegasos'; got {self.batch!r}.")
        if self.order not in ("random", "permuted"):
            raise ValueError(f"order must be 'random' or 'permuted' for solver 'pegasos'; got {self.order!r}.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    if problem.gram.factor is None:
        return "pegasos keeps the weights of a linear model, and this kernel matrix has no factor A with K = AA'"
    if problem.k:
        return "pegasos has no equality constraint (coupled or not): a bias must be left out or penalised"
    if problem.ridge.any() or problem.lo.any() or not np.all(np.isfinite(problem.hi)) or np.any(problem.f0 != -1.0):
        return "pegasos takes the hinge loss only (0 <= a <= C, linear term -1, no ridge)"
    return None


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Step from w = 0, or from a feasible `start`, taken for what one pass has counted."""
    return _Run(problem, options, callback, start).run()


class _Run:
    """The state of one run: ``u = t w`` and the counts, both to be multiplied by a factor that projections shrink."""

    def __init__(
        self,
        problem: DualQP,
        options: Options,
        callback: Callable[[Snapshot], bool],
        start: NDArray[np.float64] | None,
    ) -> None:
        n = problem.n
        self.problem, self.options, self.callback = problem, options, callback
        self.batch = min(options.batch, n)
        self.rows = rows_of(problem.gram.factor)
        self.constant = float(getattr(problem.gram, "constant", 0.0))
        self.radius = float(np.sqrt(problem.hi.sum())) if options.projection else np.inf
        self.random = np.random.default_rng(options.seed)
        self.unit = n * problem.hi / self.batch  # what one count is worth, times t
        self.passes, self.looked_at = 0, -1
        self.best, self.best_gap = np.clip(0.0, problem.lo, problem.hi), np.inf
        a = self.best if start is None else np.clip(start, problem.lo, problem.hi)
        steps = max(1, n // self.batch) if np.any(a) else 0
        self.counts = np.divide(a * steps, self.unit, out=np.zeros(n), where=self.unit > 0.0)
        w, beside = self.weights(a)
        norm2 = float(w @ w) + (beside * beside / self.constant if self.constant else 0.0)
        self.u = w * steps
        # factor, the constant's part of u, t, squared norm of u with the factor in it
        self.state = np.array([1.0, beside * steps, float(steps), norm2 * steps * steps])

    def weights(self, a: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """The w of a dual point, and what the constant adds to every margin."""
        coefficients = self.problem.on_points(a)
        return combination(self.rows, coefficients), self.constant * float(coefficients.sum())

    def candidate(self) -> NDArray[np.float64]:
        """The dual point that the counts stand for."""
        factor, _, t, _ = self.state
        return np.minimum(self.counts * self.unit * (factor / max(t, 1.0)), self.problem.hi)

    def run(self) -> Outcome:
        """Passes and looks until a limit."""
        limit = self.options.max_iter if self.options.max_iter >= 0 else _PASSES
        while True:
            if self.passes >= limit or self.passes >= self.looked_at + max(1, self.looked_at // _LOOK_SHARE):
                if self.look():
                    return Outcome(self.best, self.passes, Status.STOPPED)
                if self.violation <= self.options.tol:
                    return Outcome(self.best, self.passes, Status.CONVERGED)
            if self.passes >= limit:
                return Outcome(self.best, self.passes, Status.MAX_ITER)
            self.one_pass()

    def one_pass(self) -> None:
        """As many draws as there are variables (a whole number of batches), in bounded pieces."""
        p, n = self.problem, self.problem.n
        draws = n // self.batch * self.batch
        if self.options.order == "permuted":
            drawn = self.random.permutation(n)[:draws]
        else:
            drawn = self.random.integers(n, size=draws)
        piece = max(1, int(CHUNK * n / max(1, self.rows.entries)) // self.batch) * self.batch
        for begin in range(0, draws, piece):
            _steps(
                *self.rows.arrays, p.index, p.sign, self.unit, drawn[begin : begin + piece], self.batch,
                self.constant, self.radius, self.u, self.counts, self.state,
            )  # fmt: skip
        self.passes += 1

    def look(self) -> bool:
        """Report the candidate with its full gradient, keep the best; True when the callback stops the run."""
        p = self.problem
        self.looked_at = self.passes
        a = self.candidate()
        w, beside = self.weights(a)
        margin = p.sign * (margins(self.rows, w) + beside)[p.index]
        norm2 = float(w @ w) + (beside * beside / self.constant if self.constant else 0.0)
        check_objective(norm2)
        gap = norm2 + float(p.hi @ np.maximum(1.0 - margin, 0.0)) - float(a.sum())
        if gap < self.best_gap:
            self.best, self.best_gap = a, gap
        slope = margin - 1.0
        pull = np.maximum(np.where(a > p.lo, slope, 0.0), np.where(a < p.hi, -slope, 0.0))
        self.violation = float(np.max(pull))
        return self.callback(Snapshot(self.passes, a, slope, None, self.violation, 0, primal=self.primal()))

    def primal(self) -> float:
        """The objective of the weights themselves, from nothing but them."""
        factor, beside, t, _ = self.state
        p, scale = self.problem, factor / max(t, 1.0)
        w, beside = scale * self.u, scale * beside
        margin = p.sign * (margins(self.rows, w) + beside)[p.index]
        norm2 = float(w @ w) + (beside * beside / self.constant if self.constant else 0.0)
        return 0.5 * norm2 + float(p.hi @ np.maximum(1.0 - margin, 0.0))


@nb.njit(cache=True, nogil=True, fastmath=FUSED)
def _steps(  # type: ignore[no-untyped-def]
    indptr, indices, values, index, sign, unit, drawn, batch, constant, radius, u, counts, state
):  # fmt: skip
    """One step for every `batch` of the `drawn`; a violator's count goes up by one (before the factor)."""
    factor, beside, t, norm2 = state[0], state[1], state[2], state[3]
    violators = np.empty(batch, dtype=np.int64)
    for first in range(0, drawn.size, batch):
        found = 0
        for s in range(first, min(first + batch, drawn.size)):
            i = drawn[s]
            margin = sign[i] * factor * (dot_row(indptr, indices, values, index[i], u) + beside)
            # w of the step before is u / t; at the first one it is 0, and everybody violates.
            if t == 0.0 or margin < t:
                violators[found] = i
                found += 1
        t += 1.0
        for s in range(found):
            i = violators[s]
            amount = sign[i] * unit[i] / factor
            if radius < np.inf:
                own = 0.0
                product = dot_row(indptr, indices, values, index[i], u) + beside
                if indptr.size == 0:
                    for j in range(u.size):
                        own += np.float64(values[index[i] * u.size + j]) ** 2
                else:
                    for k in range(indptr[index[i]], indptr[index[i] + 1]):
                        own += np.float64(values[k]) ** 2
                norm2 += factor * factor * amount * (2.0 * product + amount * (own + constant))
            add_row(indptr, indices, values, index[i], amount, u)
            beside += constant * amount
            counts[i] += 1.0 / factor
        if norm2 > (t * radius) ** 2:
            factor *= t * radius / np.sqrt(norm2)
            norm2 = (t * radius) ** 2
            if factor < _SMALLEST_FACTOR:
                u *= factor
                counts *= factor
                beside *= factor
                factor = 1.0
    state[0], state[1], state[2], state[3] = factor, beside, t, norm2
