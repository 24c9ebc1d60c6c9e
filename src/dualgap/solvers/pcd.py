"""Primal coordinate descent for squared losses: one feature at a time.

Problem, without bias or with a penalised one (K = AA' + constant), z = Aw + beside::

    min_w  1/2 |w|^2 + beside^2 / (2 constant) + sum_i [max(0, p_i - z_i)^2 + max(0, z_i - q_i)^2] / (2 ridge_i)

The squared hinge has (p, q) = (1, inf) for sign +1 and (-inf, -1) for -1; the squared epsilon-insensitive loss has p =
y - eps, q = y + eps. In the dual ridge = 1/(2C), and the losses are those of `squared_hinge` and `squared_eps_svr`.

Steps (Chang, Hsieh, Lin 2008, section 3) for feature j, in a new random order each pass:

    D'  = w_j - sum_i loss slope_i x_ij,    D'' = 1 + sum over lossy i of x_ij^2 / ridge_i       (their 9 and 11)
    d   = -D'/D'',  taken at once where  D''/(H_j/2 + sigma) >= 1,  H_j = 1 + sum_i x_ij^2 / ridge_i
    else halved until  D(d) - D(0) <= -sigma d^2                                                  (their 12)

``a_i = max(0, 1 - sign_i z_i) / ridge_i`` is a dual point (both sides for regression), scaled by the factor that makes
the dual objective largest; it tends to the optimum as w does. The objective of w itself, which is better on the way,
stands beside it in the snapshots.

Cost of a pass: the nonzeros of A, read by columns (a CSC copy is made once), once or twice. Converges linearly. Use it
for squared losses where there are fewer features than samples, and as a second opinion that shares no step with `dcd`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numba as nb
import numpy as np
import scipy.sparse as sp

from dualgap.kernels.linear_rows import CHUNK, Rows, combination, margins, rows_of
from dualgap.problem import check_objective
from dualgap.result import Outcome, Snapshot, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Sufficient decrease and the most halvings of a step (the paper's sigma and beta = 1/2).
_SIGMA, _HALVINGS = 0.01, 30
# Passes after which z is computed anew, and passes between two looks as a share of those done: a look costs three.
_RENEW, _LOOK_SHARE = 64, 4
_SUMS = {"reassoc", "contract", "nsz"}


@dataclass(frozen=True)
class Options:
    """Settings of `pcd`.

    Attributes
    ----------
    tol : float
        KKT violation to reach.
    max_iter : int
        Passes over the features at most; -1 for no limit.
    order : {"permuted", "cyclic"}
        A new random order each pass, or always the same one.
    seed : int
        Of the orders.
    """

    tol: float = 1e-3
    max_iter: int = -1
    order: str = "permuted"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.order not in ("permuted", "cyclic"):
            raise ValueError(f"order must be 'permuted' or 'cyclic' for solver 'pcd'; got {self.order!r}.")


def supports(problem: DualQP, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    if problem.gram.factor is None:
        return "pcd changes the weights of a linear model, and this kernel matrix has no factor A with K = AA'"
    if problem.k:
        return "pcd has no equality constraint (coupled or not): a bias must be left out or penalised"
    if not np.all(problem.ridge > 0.0) or problem.lo.any() or np.any(np.isfinite(problem.hi)):
        return "pcd takes squared losses only (a >= 0 without upper bound, and a ridge)"
    least, most = _sides(problem)
    if np.bincount(2 * problem.index + (problem.sign > 0.0)).max() > 1 or np.any(least > most):
        return "pcd takes one variable a point, or the two of a regression loss whose tube is not negative"
    return None


def solve(
    problem: DualQP,
    options: Options,
    callback: Callable[[Snapshot], bool],
    start: NDArray[np.float64] | None = None,
) -> Outcome:
    """Minimise from the w of `start` (0 when None)."""
    return _Run(problem, options, callback, start).run()


class _Run:
    """The state of one run: w, the constant's weight, and z = Aw + beside."""

    def __init__(
        self,
        problem: DualQP,
        options: Options,
        callback: Callable[[Snapshot], bool],
        start: NDArray[np.float64] | None,
    ) -> None:
        self.problem, self.options, self.callback = problem, options, callback
        self.rows = rows_of(problem.gram.factor)
        self.columns = _columns(problem.gram.factor)
        self.constant = float(getattr(problem.gram, "constant", 0.0))
        self.least, self.most = _sides(problem)
        up, down = problem.sign > 0.0, problem.sign < 0.0
        self.below, self.above = np.zeros(self.rows.n), np.zeros(self.rows.n)
        self.below[problem.index[up]] = 1.0 / problem.ridge[up]
        self.above[problem.index[down]] = 1.0 / problem.ridge[down]
        self.random = np.random.default_rng(options.seed)
        self.passes = 0
        a = np.zeros(problem.n) if start is None else np.clip(start, 0.0, None)
        self.w, self.beside = self.weights(a)
        self.bound = _curvature_bounds(*self.columns.arrays, self.columns.n, self.below + self.above)
        self.best, self.best_gap = a, np.inf
        self.renew()

    def renew(self) -> None:
        """Make z from w alone."""
        self.z = margins(self.rows, self.w) + self.beside

    def weights(self, a: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """The w of a dual point, and what the constant adds to every z."""
        coefficients = self.problem.on_points(a)
        return combination(self.rows, coefficients), self.constant * float(coefficients.sum())

    def run(self) -> Outcome:
        """Passes, and looks in between."""
        looked_at = 0
        while True:
            if 0 <= self.options.max_iter <= self.passes:
                self.look()
                return Outcome(self.best, self.passes, Status.MAX_ITER)
            self.one_pass()
            if self.passes < looked_at + max(1, looked_at // _LOOK_SHARE):
                continue
            looked_at = self.passes
            if self.look():
                return Outcome(self.best, self.passes, Status.STOPPED)
            if self.violation <= self.options.tol:
                return Outcome(self.best, self.passes, Status.CONVERGED)

    def one_pass(self) -> None:
        """A step for every feature, and for the constant."""
        d = self.rows.d
        order = self.random.permutation(d) if self.options.order == "permuted" else np.arange(d)
        piece = max(1, int(CHUNK * d / max(1, self.rows.entries)))
        for begin in range(0, d, piece):
            _steps(
                *self.columns.arrays, order[begin : begin + piece], self.bound, self.least, self.most,
                self.below, self.above, self.w, self.z,
            )  # fmt: skip
        if self.constant > 0.0:
            self.beside = _constant_step(
                self.beside, 1.0 / self.constant, self.least, self.most, self.below, self.above, self.z
            )
        self.passes += 1
        if self.passes % _RENEW == 0:
            self.renew()

    def candidate(self) -> NDArray[np.float64]:
        """The dual point of z."""
        p = self.problem
        return np.maximum(-p.f0 - p.sign * self.z[p.index], 0.0) / p.ridge

    def look(self) -> bool:
        """Report the dual point with its full gradient, keep the best; True when the callback stops the run."""
        p = self.problem
        a = self.candidate()
        w, beside = self.weights(a)
        margin = p.sign * (margins(self.rows, w) + beside)[p.index]
        # Along the ray t a the dual objective is -t f0'a - t^2/2 a'Ha.
        quadratic = float(a @ margin) + float(p.ridge @ (a * a))
        check_objective(quadratic)
        length = max(0.0, -float(p.f0 @ a) / quadratic) if quadratic > 0.0 else 1.0
        a, margin = length * a, length * margin
        slope = margin + p.f0
        gradient = slope + p.ridge * a
        loss = np.maximum(-slope, 0.0)
        gap = float(np.sum(0.5 * (loss * loss / p.ridge + p.ridge * a * a) + slope * a))
        if gap < self.best_gap:
            self.best, self.best_gap = a, gap
        self.violation = float(np.max(np.where(a > 0.0, np.abs(gradient), np.maximum(-gradient, 0.0))))
        return self.callback(Snapshot(self.passes, a, gradient, None, self.violation, 0, primal=self.primal()))

    def primal(self) -> float:
        """The objective of the weights themselves, from nothing but them."""
        z = margins(self.rows, self.w) + self.beside
        short, long = np.maximum(self.least - z, 0.0), np.maximum(z - self.most, 0.0)
        penalty = float(self.w @ self.w) + (self.beside**2 / self.constant if self.constant else 0.0)
        return 0.5 * (penalty + float(self.below @ (short * short)) + float(self.above @ (long * long)))


def _sides(problem: DualQP) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Between which z a point has no loss; without a variable for a side there is none on that side."""
    up, down = problem.sign > 0.0, problem.sign < 0.0
    least, most = np.full(problem.gram.n, -np.inf), np.full(problem.gram.n, np.inf)
    least[problem.index[up]] = -problem.f0[up]
    most[problem.index[down]] = problem.f0[down]
    return least, most


def _columns(factor: object) -> Rows:
    """The features as rows: a copy, made once, in the values' own type."""
    if sp.issparse(factor):
        return rows_of(factor.T.tocsr())  # type: ignore[attr-defined]
    return rows_of(np.ascontiguousarray(np.asarray(factor).T))


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def _curvature_bounds(indptr, indices, values, n, weight):  # type: ignore[no-untyped-def]
    """H_j of every feature."""
    bound = np.ones(n)
    for j in range(n):
        if indptr.size == 0:
            for i in range(weight.size):
                bound[j] += weight[i] * np.float64(values[j * weight.size + i]) ** 2
        else:
            for k in range(indptr[j], indptr[j + 1]):
                bound[j] += weight[indices[k]] * np.float64(values[k]) ** 2
    return bound


@nb.njit(cache=True, nogil=True, inline="always")
def _slope(z, least, most, below, above):  # type: ignore[no-untyped-def]
    """Derivative of a point's loss, and its second derivative."""
    if z < least:
        return (z - least) * below, below
    if z > most:
        return (z - most) * above, above
    return 0.0, 0.0


@nb.njit(cache=True, nogil=True, inline="always")
def _loss(z, least, most, below, above):  # type: ignore[no-untyped-def]
    if z < least:
        return 0.5 * (z - least) * (z - least) * below
    if z > most:
        return 0.5 * (z - most) * (z - most) * above
    return 0.0


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def _steps(indptr, indices, values, order, bound, least, most, below, above, w, z):  # type: ignore[no-untyped-def]
    """One Newton step with line search for each feature of `order`."""
    dense = indptr.size == 0
    for j in order:
        first = j * z.size if dense else indptr[j]
        last = first + z.size if dense else indptr[j + 1]
        slope, curvature = w[j], 1.0
        for k in range(first, last):
            i = k - first if dense else np.int64(indices[k])
            x = np.float64(values[k])
            one, two = _slope(z[i], least[i], most[i], below[i], above[i])
            slope += one * x
            curvature += two * x * x
        step = -slope / curvature
        if abs(step) <= 1e-16 * abs(w[j]) or step == 0.0:
            continue
        # The paper's shortcut: below this length the decrease is sufficient without looking.
        sure = curvature / (0.5 * bound[j] + _SIGMA)
        length = 1.0
        if sure < 1.0:
            for _ in range(_HALVINGS):
                if length <= sure:
                    break
                t = length * step
                change = t * (w[j] + 0.5 * t) + _SIGMA * t * t
                for k in range(first, last):
                    i = k - first if dense else np.int64(indices[k])
                    change += _loss(z[i] + t * np.float64(values[k]), least[i], most[i], below[i], above[i])
                    change -= _loss(z[i], least[i], most[i], below[i], above[i])
                if change <= 0.0:
                    break
                length *= 0.5
        t = length * step
        w[j] += t
        for k in range(first, last):
            i = k - first if dense else np.int64(indices[k])
            z[i] += t * np.float64(values[k])


@nb.njit(cache=True, nogil=True, fastmath=_SUMS)
def _constant_step(beside, penalty, least, most, below, above, z):  # type: ignore[no-untyped-def]
    """The same for the constant: a feature of ones whose weight is penalised by 1/constant."""
    slope, curvature = penalty * beside, penalty
    for i in range(z.size):
        one, two = _slope(z[i], least[i], most[i], below[i], above[i])
        slope += one
        curvature += two
    step = -slope / curvature
    for _ in range(_HALVINGS):
        change = step * penalty * (beside + 0.5 * step) + _SIGMA * penalty * step * step
        for i in range(z.size):
            change += _loss(z[i] + step, least[i], most[i], below[i], above[i])
            change -= _loss(z[i], least[i], most[i], below[i], above[i])
        if change <= 0.0:
            break
        step *= 0.5
    for i in range(z.size):
        z[i] += step
    return beside + step
