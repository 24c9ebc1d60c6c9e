"""Runs of the SESOP paper's tables 2 and 3: data as it divides them, errors along a run, when they settle."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.kernels.threads import one_blas_thread
from dualgap.minimization import minimize_composite
from dualgap.primal import primal_svm
from dualgap.reproduce.samples import as_read
from dualgap.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.minimization import Intermediate

# Training samples (as many are for validation): the paper's numbers, and a third of what is there of internet_ads.
TRAINING = {"arcene": 50, "dexter": 150, "internet_ads": 655, "dorothea": 400, "madelon": 500}
# Samples for testing, as many as the paper has where there are: the validation part of the challenge where it can be
# had (its test labels cannot), else samples that are left over. Dorothea has none.
TESTING = {"arcene": 100, "dexter": 300, "internet_ads": 656, "dorothea": 0, "madelon": 1300}
MORE = {"arcene": "arcene.valid", "dexter": "dexter.valid", "madelon": "madelon.valid"}
# C and the smoothing eps, which validation chose for every set from C in 0.1, 1, 10 and eps in 1, 0.1, 0.01.
C, EPS = 1.0, 0.1
METHODS = ("sesop0", "sesop1-", "sesop1", "sesop8", "sesop32", "cg_plain", "cg_fast", "tn", "nesterov_plain")
# The paper's limit, in iterations of two products; it lets TN run on.
MOST, MOST_TN = 5000, 40_000
# A matrix that is fuller than this is quicker as a dense one.
_DENSE = 0.4
# Of the gradient's norm.
_TOL = 1e-5


@dataclass(frozen=True)
class Parts:
    """Samples and labels for training, validation and testing (perhaps none)."""

    X: Any
    y: NDArray[np.float64]
    Xv: Any
    yv: NDArray[np.float64]
    Xt: Any
    yt: NDArray[np.float64]

    def density(self) -> float:
        """Share of the training features that are not zero."""
        return float(np.count_nonzero(self.X) if isinstance(self.X, np.ndarray) else self.X.nnz) / np.prod(self.X.shape)


@dataclass(frozen=True)
class Run:
    """A method on a set: iterations (of two products) and seconds to the tolerance, and until the error settles."""

    data: str
    method: str
    converged: bool
    timed_out: bool
    gradient_norm: float
    iterations: float
    seconds: float
    settled_iterations: float
    settled_seconds: float
    error: float
    test_error: float
    path: list[tuple[float, float, float]]  # iterations, objective, validation error


def split(name: str) -> Parts:
    """The parts: a random order (seed 0), features divided by their largest absolute value."""
    X, y = as_read(name)
    X = sp.csr_matrix(X)
    largest = np.asarray(abs(X).max(axis=0).todense()).ravel()
    scale = sp.diags(1.0 / np.where(largest > 0, largest, 1.0))
    order = np.random.default_rng(0).permutation(len(y))
    n = TRAINING[name]
    train, valid, rest = np.sort(order[:n]), np.sort(order[n : 2 * n]), order[2 * n :]
    Xt, yt = X[rest], y[rest]
    if name in MORE and len(yt) < TESTING[name]:
        more, labels = as_read(MORE[name])
        more = sp.csr_matrix(more)
        more.resize(more.shape[0], X.shape[1])
        Xt, yt = sp.vstack([Xt, more]), np.concatenate([yt, labels])
    Xt, yt = sp.csr_matrix(Xt)[: TESTING[name]], yt[: TESTING[name]]
    dense = X.nnz > _DENSE * X.shape[0] * X.shape[1]

    def scaled(part: Any) -> Any:
        product = sp.csr_matrix(part @ scale)
        return product.toarray() if dense else product

    return Parts(scaled(X[train]), y[train], scaled(X[valid]), y[valid], scaled(Xt), yt)


def error_rate(x: NDArray[np.float64], X: Any, y: NDArray[np.float64]) -> float:
    """Share of the samples that weights and bias (the last entry) get wrong."""
    return float(np.mean(np.where(X @ x[:-1] + x[-1] >= 0, 1.0, -1.0) != y)) if len(y) else float("nan")


class Watch:
    """Validation errors along a run, and the limit of iterations; the time they take is not the solver's."""

    def __init__(self, X: Any, y: NDArray[np.float64], most: int) -> None:
        self.X, self.y, self.most, self.spent = X, y, most, 0.0
        # Iterations, seconds, error, objective.
        self.lines: list[tuple[float, float, float, float]] = []

    def __call__(self, step: Intermediate) -> bool:
        """Take note; True where the limit is reached."""
        began = time.perf_counter()
        rate = error_rate(step.x, self.X, self.y)
        self.lines.append((step.n_products / 2, step.seconds - self.spent, rate, step.fun))
        self.spent += time.perf_counter() - began
        return step.n_products >= 2 * self.most

    def settled(self) -> tuple[float, float, float, float]:
        """The first line from which on the error stays within one sample of the last."""
        last = self.lines[-1][2]
        off = [abs(line[2] - last) > 1.5 / len(self.y) for line in self.lines]
        return self.lines[len(off) - off[::-1].index(True) if any(off) else 0]


def reached(run: Run, best: float, accuracy: float) -> float:
    """Iterations until the objective is within this relative accuracy of `best`; infinite where it never was."""
    return next((step for step, value, _ in run.path if value - best <= accuracy * abs(best)), np.inf)


def measure(name: str, parts: Parts, method: str, seconds: float) -> Run:
    """One line of the table."""
    watch = Watch(parts.Xv, parts.yv, MOST_TN if method == "tn" else MOST)
    problem = primal_svm(parts.X, parts.y, C, eps=EPS)
    # Long products of two vectors in threads cost more than they save, and by an unsteady amount.
    with one_blas_thread():
        found = minimize_composite(problem, method=method, tol=_TOL, max_iter=-1, time_limit=seconds, callback=watch)
    if not watch.lines:
        rate = error_rate(found.x, parts.Xv, parts.yv)
        watch.lines.append((found.n_products / 2, found.seconds, rate, found.fun))
    settled = watch.settled()
    return Run(
        data=name,
        method=method,
        converged=found.success,
        timed_out=found.status is Status.TIME_LIMIT,
        gradient_norm=found.gradient_norm,
        iterations=found.n_products / 2,
        seconds=found.seconds - watch.spent,
        settled_iterations=settled[0],
        settled_seconds=settled[1],
        error=watch.lines[-1][2],
        test_error=error_rate(found.x, parts.Xt, parts.yt),
        path=[(line[0], line[3], line[2]) for line in watch.lines],
    )
