"""The multi-class support vector machine of Crammer and Singer, by the sequential dual method, with its gap.

One weight vector a class, and one error a sample: how far the best wrong class comes up to the right one::

    min_w  P = 1/2 sum_m |w_m|^2 + sum_i C_i max_m (g_im - g_i,y_i),    g_im = <w_m, x_i> + [m != y_i]

Its dual has a simplex a sample, ``b_im >= 0, sum_m b_im = C_i``::

    w_m = sum_i (C_i [m = y_i] - b_im) x_i
    max_b  D = -(1/2 sum_m |w_m|^2 + sum_i sum_{m != y_i} (-b_im))

    P - D = sum_i sum_m b_im (max_l g_il - g_im) + 1/2 sum_m |v_m - w_m|^2    for any weights v, with g those of v

Every term of the gap is non-negative, so it is summed without cancellation. A step takes one sample and minimises over
its simplex, the others being fixed (Keerthi et al. 2008, section 3; LIBLINEAR's solver 4). With ``A = |x_i|^2`` that is
the projection of ``b_i + g_i / A`` onto the simplex, and ``w_m`` changes by ``-(change of b_im) x_i``. Samples are
visited in random order; one whose variable sits in a corner of its simplex, and whose slopes hold it there by more than
the last pass's worst violation, is set aside until the gap is next looked at. Where that is slow, Newton's method goes
on (`_crammer_singer_newton`): passes alone may take for ever on data that is not scaled.

A bias is penalised like a weight: one more feature, of the value `intercept_scaling`. Cost of a pass: the nonzeros of
the active rows times the number of classes. The bound of a sample may differ (`C` times its weight).

References: Crammer and Singer, "On the algorithmic implementation of multiclass kernel-based vector machines" (2001);
Keerthi, Sundararajan, Chang, Hsieh and Lin, "A sequential dual method for large scale multi-class linear SVMs" (2008).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from dualgap._crammer_singer_newton import NewtonSteps, project
from dualgap.kernels.linear_rows import CHUNK, Rows, rows_of
from dualgap.kernels.threads import one_blas_thread
from dualgap.result import Certificate, Event, History, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A look at the gap costs a pass over all rows. It is due when a pass claims its tolerance, and after so many passes.
_PASSES_BETWEEN = 8
# The violation that passes claim first, and what is asked of them after a claim that was not enough.
_FIRST, _TIGHTEN = 0.1, 0.3
# Violations below this are rounding of sums of order one (LIBLINEAR's number).
_NO_STEP = 1e-12
# Newton's method takes over where, judged by so many looks, so many more would be needed.
_LOOKS_LEAST, _LOOKS_MOST = 3, 12
# Rounds of it without a tenth less of the gap after which the arithmetic is exhausted.
_PATIENCE, _FELL = 6, 0.9


@dataclass(frozen=True)
class CrammerSingerResult:
    """A solution with its proof.

    Attributes
    ----------
    coef : ndarray, shape (n_classes, n_features)
        Weights.
    intercept : ndarray, shape (n_classes,)
        Biases; 0 where there are none.
    b : ndarray, shape (n_samples, n_classes)
        The dual variables: a row sums to the sample's C. The weights are theirs, or nearly so and better.
    certificate, history, status
        The judgement, the events and how it ended.
    iterations : int
        Passes over the samples and Newton steps.
    seconds : float
        Wall time.
    """

    coef: NDArray[np.float64]
    intercept: NDArray[np.float64]
    b: NDArray[np.float64]
    certificate: Certificate
    history: History
    status: Status
    iterations: int
    seconds: float


def solve_crammer_singer(
    X: Any,
    y: NDArray[np.integer[Any]],
    C: float | NDArray[np.float64] = 1.0,
    *,
    n_classes: int | None = None,
    intercept_scaling: float = 0.0,
    gap_tol: float = 1e-4,
    max_iter: int = -1,
    time_limit: float | None = None,
    callback: Callable[[Event], bool | None] | None = None,
    start: NDArray[np.float64] | None = None,
    seed: int = 0,
    look: Callable[[NDArray[np.float64]], None] | None = None,
) -> CrammerSingerResult:
    """Train a multi-class machine to a relative duality gap.

    Parameters
    ----------
    X : ndarray (C order) or CSR matrix, float32 or float64
        Samples; neither copied nor upcast.
    y : ndarray of int, shape (n_samples,)
        Classes, from 0.
    C : float or ndarray of shape (n_samples,)
        Price of an error, of a sample each where it is an array; a sample of price 0 is left out.
    n_classes : int or None
        Number of classes; None means the largest of `y` plus one.
    intercept_scaling : float
        Value of the constant feature whose weight is the bias; 0 for no bias.
    gap_tol : float
        Relative duality gap to reach.
    max_iter : int
        Passes and Newton steps at most; -1 for no limit.
    time_limit : float or None
        Seconds at most.
    callback : callable or None
        Called with an `Event` at every look at the gap; returning True stops.
    start : ndarray of shape (n_samples, n_classes) or None
        Dual variables to start from; rows are scaled to sum to C.
    seed : int
        Of the orders; results are reproducible bit for bit.
    look : callable or None
        Called after `callback` with the dual variables, to be read and not kept, where the run goes on.

    Returns
    -------
    CrammerSingerResult

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualgap.crammer_singer import solve_crammer_singer
    >>> X, y = load_iris(return_X_y=True)
    >>> result = solve_crammer_singer(X, y, C=0.1, intercept_scaling=1.0, gap_tol=1e-6)
    >>> result.coef.shape, bool(result.certificate.relative_gap <= 1e-6)
    ((3, 4), True)
    """
    codes: NDArray[np.int64] = np.ascontiguousarray(y, dtype=np.int64)
    k = int(codes.max()) + 1 if n_classes is None else int(n_classes)
    prices = np.ascontiguousarray(np.broadcast_to(np.asarray(C, dtype=np.float64), codes.shape))
    if codes.shape != (X.shape[0],) or codes.min() < 0 or codes.max() >= k or k < 2:
        raise ValueError(f"y must hold one of two or more classes, 0 to {k - 1}, for each of {X.shape[0]} samples.")
    if not np.all(np.isfinite(prices)) or prices.min() < 0.0 or prices.max() <= 0.0:
        raise ValueError("C must be finite, not negative, and positive for one sample at least.")
    run = _Run(X, rows_of(X), codes, prices, k, float(intercept_scaling), seed, start)
    with one_blas_thread():  # products have threads of their own
        return run.run(gap_tol, max_iter, time_limit, callback, look)


class _Run:
    """Dual variables, weights (a row a feature, the bias's last) and the list of active samples."""

    def __init__(
        self,
        X: Any,
        rows: Rows,
        y: NDArray[np.int64],
        C: NDArray[np.float64],
        k: int,
        bias: float,
        seed: int,
        start: NDArray[np.float64] | None,
    ) -> None:
        self.X, self.rows, self.y, self.C, self.k, self.bias = X, rows, y, C, k, bias
        self.b = np.zeros((rows.n, k))
        if start is None:
            self.b[np.arange(rows.n), y] = C
        else:
            self.b[:] = np.maximum(start, 0.0)
            sums = self.b.sum(axis=1)
            lost = sums <= 0.0
            self.b[lost, y[lost]] = 1.0
            self.b *= (C / np.where(lost, 1.0, sums))[:, None]
        self.random = np.random.default_rng(seed)
        self.used = np.flatnonzero(C > 0.0)
        self.norms = np.empty(rows.n)
        _norms(*rows.arrays, rows.n, rows.d, bias, self.norms)
        if not np.all(np.isfinite(self.norms)):
            raise ValueError("The squared norms of the samples are not finite; scale the features.")
        self.scratch = np.empty((2, k))
        self.step = max(1, CHUNK // max(1, k * max(1, rows.entries // max(1, rows.n))))
        self.apart = 0.0
        self.renew_weights()

    def renew_weights(self) -> None:
        """The weights from the dual variables alone."""
        self.W = np.zeros((self.rows.d + 1, self.k))
        for begin in range(0, self.rows.n, self.step):
            end = min(self.rows.n, begin + self.step)
            _add_all(*self.rows.arrays, self.y, self.C, self.b, self.bias, begin, end, self.scratch, self.W)

    def certificate(self) -> Certificate:
        """Judge the dual point and the weights, which `apart` says how far those of the point are from."""
        gap, loss, worst = self.apart, 0.0, 0.0
        for begin in range(0, self.rows.n, self.step):
            end = min(self.rows.n, begin + self.step)
            arrays = (self.y, self.C, self.b, self.W, self.bias)
            part = _look(*self.rows.arrays, *arrays, begin, end, self.scratch[0])
            gap, loss, worst = gap + part[0], loss + part[1], max(worst, part[2])
        primal = 0.5 * float(np.vdot(self.W, self.W)) + loss
        off = np.abs(self.b.sum(axis=1) - self.C)
        missed = float((off / np.maximum(self.C, 1.0)).max())
        return Certificate(primal, primal - gap, gap, gap / max(abs(primal), abs(primal - gap), 1e-300), worst, missed)

    def run(
        self,
        gap_tol: float,
        max_iter: int,
        time_limit: float | None,
        callback: Callable[[Event], bool | None] | None,
        look: Callable[[NDArray[np.float64]], None] | None,
    ) -> CrammerSingerResult:
        """Passes, then Newton rounds where those are slow, until the gap is proved or a limit comes first."""
        self.began, self.history, self.time_limit = time.perf_counter(), History(), time_limit
        self.iteration, tol, least, waited = 0, _FIRST, np.inf, 0
        newton: NewtonSteps | None = None
        while True:
            certificate = self.certificate()
            if certificate.relative_gap <= gap_tol and newton is None:
                self.renew_weights()  # many small changes have been added up
                certificate = self.certificate()
            self.history.events.append(self.event(certificate))
            waited = 0 if certificate.relative_gap < _FELL * least else waited + 1
            least = min(least, certificate.relative_gap)
            status = None
            if callback is not None and callback(self.history[-1]) is True:
                status = Status.STOPPED
            elif certificate.relative_gap <= gap_tol:
                status = Status.CONVERGED
            elif self.late():
                status = Status.TIME_LIMIT
            elif 0 <= max_iter <= self.iteration:
                status = Status.MAX_ITER
            elif newton is not None and waited >= _PATIENCE:
                status = Status.STALLED
            if status is not None:
                return self.result(status, certificate)
            if look is not None:
                look(self.b)
            if newton is None and self.slow(gap_tol):
                newton = NewtonSteps(self.X, self.y, self.C, self.b, self.bias)
            left = max_iter - self.iteration if max_iter >= 0 else 2**31
            if newton is not None:
                steps, _ = newton.round(gap_tol, self.late, left)
                self.iteration += max(1, steps)
                self.take(newton)
            elif self.passes(min(_PASSES_BETWEEN, left), tol):
                tol = max(_TIGHTEN * tol, _NO_STEP)

    def take(self, newton: NewtonSteps) -> None:
        """The dual point and the weights of a round. The latter prove more than those of the point would."""
        self.b = newton.b
        difference = newton.w - newton.weights(newton.b)
        self.apart = 0.5 * float(np.vdot(difference, difference))
        self.W = np.zeros((self.rows.d + 1, self.k))
        self.W[: newton.w.shape[1]] = newton.w.T

    def late(self) -> bool:
        """Whether the time is over."""
        return self.time_limit is not None and time.perf_counter() - self.began >= self.time_limit

    def slow(self, gap_tol: float) -> bool:
        """Whether, at the rate of the last looks, passes will take many more to the goal."""
        gaps = self.history.column("relative_gap")
        if len(gaps) <= _LOOKS_LEAST:
            return False
        fallen = np.log(gaps[-1 - _LOOKS_LEAST] / gaps[-1]) / _LOOKS_LEAST
        return bool(np.log(gaps[-1] / gap_tol) > _LOOKS_MOST * fallen)

    def passes(self, most: int, tol: float) -> bool:
        """Up to so many passes; whether the last one claims the tolerance."""
        active, threshold = self.used.copy(), np.inf
        for _ in range(most):
            self.random.shuffle(active)
            kept, worst = 0, 0.0
            self.iteration += 1
            for begin in range(0, active.size, self.step):
                end = min(active.size, begin + self.step)
                arrays = (self.y, self.C, self.norms, self.b, self.W, self.bias)
                kept, here = _pass(*self.rows.arrays, *arrays, active, begin, end, kept, threshold, self.scratch)
                worst = max(worst, here)
                if self.late():
                    return False
            if worst <= tol:
                return True
            active, threshold = active[:kept], worst
        return False

    def event(self, certificate: Certificate) -> Event:
        """A line of the history."""
        support = int(np.count_nonzero(self.b[np.arange(self.rows.n), self.y] < self.C))
        numbers = (certificate.primal, certificate.dual, certificate.relative_gap, certificate.kkt_violation)
        return Event(self.iteration, time.perf_counter() - self.began, *numbers, support, 0, 0, 0, 0, 0)

    def result(self, status: Status, certificate: Certificate) -> CrammerSingerResult:
        """The answer."""
        coef = np.ascontiguousarray(self.W[: self.rows.d].T)
        intercept = self.bias * self.W[self.rows.d]
        seconds = time.perf_counter() - self.began
        return CrammerSingerResult(coef, intercept, self.b, certificate, self.history, status, self.iteration, seconds)


@nb.njit(cache=True, nogil=True)
def _norms(indptr, indices, values, n, d, bias, out):  # type: ignore[no-untyped-def]
    """Squared lengths of the rows, the constant feature counted in."""
    for i in range(n):
        first, last = (indptr[i], indptr[i + 1]) if indptr.size else (i * d, (i + 1) * d)
        total = bias * bias
        for q in range(first, last):
            total += np.float64(values[q]) * values[q]
        out[i] = total


@nb.njit(cache=True, nogil=True, inline="always")
def _slopes(indptr, indices, values, i, right, W, bias, g):  # type: ignore[no-untyped-def]
    """``g_m = <w_m, x_i> + [m != y_i]``."""
    d = W.shape[0] - 1
    k = g.size
    for m in range(k):
        g[m] = 1.0 + bias * W[d, m]
    g[right] -= 1.0
    dense = indptr.size == 0
    first, last = (i * d, (i + 1) * d) if dense else (np.int64(indptr[i]), np.int64(indptr[i + 1]))
    for q in range(first, last):
        value = np.float64(values[q])
        if value != 0.0:
            line = W[q - first if dense else indices[q]]
            for m in range(k):
                g[m] += value * line[m]


@nb.njit(cache=True, nogil=True, inline="always")
def _add(indptr, indices, values, i, delta, bias, W):  # type: ignore[no-untyped-def]
    """``w_m += delta_m x_i``."""
    d = W.shape[0] - 1
    k = delta.size
    for m in range(k):
        W[d, m] += bias * delta[m]
    dense = indptr.size == 0
    first, last = (i * d, (i + 1) * d) if dense else (np.int64(indptr[i]), np.int64(indptr[i + 1]))
    for q in range(first, last):
        value = np.float64(values[q])
        if value != 0.0:
            line = W[q - first if dense else indices[q]]
            for m in range(k):
                line[m] += value * delta[m]


@nb.njit(cache=True, nogil=True)
def _add_all(indptr, indices, values, y, C, b, bias, begin, end, scratch, W):  # type: ignore[no-untyped-def]
    delta = scratch[0]
    for i in range(begin, end):
        if b[i, y[i]] != C[i]:
            for m in range(delta.size):
                delta[m] = -b[i, m]
            delta[y[i]] += C[i]
            _add(indptr, indices, values, i, delta, bias, W)


@nb.njit(cache=True, nogil=True)
def _look(indptr, indices, values, y, C, b, W, bias, begin, end, g):  # type: ignore[no-untyped-def]
    """Sums of the gap and of the loss, and the worst violation."""
    gap = loss = worst = 0.0
    for i in range(begin, end):
        if C[i] <= 0.0:
            continue
        _slopes(indptr, indices, values, i, y[i], W, bias, g)
        top = g.max()
        loss += C[i] * (top - g[y[i]])
        for m in range(g.size):
            if b[i, m] > 0.0:
                gap += b[i, m] * (top - g[m])
                worst = max(worst, top - g[m])
    return gap, loss, worst


@nb.njit(cache=True, nogil=True)
def _pass(  # type: ignore[no-untyped-def]
    indptr, indices, values, y, C, norms, b, W, bias, active, begin, end, kept, threshold, scratch
):
    """A step for each of the active samples; those to be kept are moved to the front of the list."""
    g, delta = scratch[0], scratch[1]
    k = g.size
    worst = 0.0
    for place in range(begin, end):
        i = active[place]
        _slopes(indptr, indices, values, i, y[i], W, bias, g)
        top, second, low, used = -np.inf, -np.inf, np.inf, 0
        for m in range(k):
            if g[m] > top:
                top, second = g[m], top
            elif g[m] > second:
                second = g[m]
            if b[i, m] > 0.0:
                used += 1
                low = min(low, g[m])
        if used == 1 and low == top and top - second > threshold:
            continue  # set aside
        active[kept] = i
        kept += 1
        violation = top - low
        worst = max(worst, violation)
        if violation <= _NO_STEP:
            continue
        if norms[i] <= 0.0:  # no weight depends on this sample, whose slopes are 0 and 1
            b[i, :] = 0.0
            b[i, np.argmax(g)] = C[i]
            continue
        for m in range(k):
            delta[m] = b[i, m]
        project(delta, g, 1.0 / norms[i], C[i], b[i])
        for m in range(k):
            delta[m] -= b[i, m]
        _add(indptr, indices, values, i, delta, bias, W)
    return kept, worst
