"""The timing table of the report on dual coordinate descent: the Cleveland heart data, 30 samples and all of them.

The report fits scikit-learn's LinearSVC once for each line. It gives neither loss, nor C, nor tolerance, nor scaling,
and one fit of a few milliseconds says little about the method. Here every line is fitted many times, with C = 1 and
the squared hinge (LinearSVC's default, and the only loss that the primal solvers of both libraries share) on
standardised features, and the accuracy that was reached stands beside the time. "300" are the 297 complete records.

What the lines mean: "Dual - DCD" is the report's algorithm (cyclic order, no bias), "Dual - Rand" draws at random,
"Dual - Bias" has the constraint y'a = 0, "Primal" descends on the primal. LinearSVC always permutes and penalises its
intercept, so its lines are its own: dual, dual with intercept, primal.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.datasets import find, load
from dualgap.formulations import build, recover
from dualgap.kernels.gram import factored_gram
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Seconds that the report prints.
PRINTED: dict[tuple[int, str], float] = {
    (30, "Dual - DCD"): 0.00961,
    (30, "Dual - Rand"): 0.00832,
    (30, "Dual - Bias"): 0.00848,
    (30, "Primal"): 0.01073,
    (300, "Dual - DCD"): 0.1136,
    (300, "Primal"): 0.0251,
}
SAMPLES = (30, 300)
# The relative gap to reach: about what LinearSVC's default tolerance gives on these data.
_GAP = 1e-4
# Passes at most, as LinearSVC has it.
_PASSES = 1000
# A reference optimum for the accuracy column.
_REFERENCE_GAP = 1e-10

# Weights and bias of a fit.
Fit = Callable[["NDArray[np.float64]", "NDArray[np.float64]"], "tuple[NDArray[np.float64], float]"]


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes
    ----------
    samples : int
        As the report says (300 for all).
    method, library : str
        Its line there, and who fitted.
    printed : float or None
        Seconds in the report.
    seconds, quarter, three_quarters : float
        Median and quartiles of the repetitions.
    excess : float
        Median of (P - P*)/P*, each line measured on its own problem (no bias, exact or penalised one).
    repetitions : int
        Fits that were timed.
    """

    samples: int
    method: str
    library: str
    printed: float | None
    seconds: float
    quarter: float
    three_quarters: float
    excess: float
    repetitions: int


@dataclass(frozen=True)
class _Line:
    method: str
    library: str
    fit: Fit
    bias: str  # "none", "exact" or "penalised"


def table(repetitions: int = 100, samples: tuple[int, ...] = SAMPLES, seed: int = 0) -> list[Row]:
    """The report's table, regenerated.

    Parameters
    ----------
    repetitions : int
        Fits of each line, each on another choice of samples where not all are taken.
    samples : tuple of int
        Sample sizes.
    seed : int
        Of the choices.

    Returns
    -------
    list of Row
        In the report's order, dualgap's lines before scikit-learn's.
    """
    if repetitions < 1:
        raise ValueError(f"repetitions must be at least 1; got {repetitions!r}.")
    X, y = _data()
    rows = []
    for size in samples:
        sets = [_choose(X, y, size, np.random.default_rng([seed, number])) for number in range(repetitions)]
        for line in _lines():
            line.fit(*sets[0])  # compiles
            times, excesses = [], []
            for chosen in sets:
                began = time.perf_counter()
                w, b = line.fit(*chosen)
                times.append(time.perf_counter() - began)
                excesses.append(_excess(*chosen, w, b, line.bias))
            quarter, half, three = (float(value) for value in np.percentile(times, [25, 50, 75]))
            printed = PRINTED.get((size, line.method)) if line.library == "dualgap" else None
            excess = float(np.median(excesses))
            rows.append(Row(size, line.method, line.library, printed, half, quarter, three, excess, repetitions))
    return rows


def _data() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    data = load(find("cleveland"))
    X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0)), np.where(
        np.asarray(data.y, dtype=np.float64) > 0.0, 1.0, -1.0
    )


def _choose(
    X: NDArray[np.float64], y: NDArray[np.float64], size: int, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """So many samples, both classes among them."""
    if size >= y.size:
        return X, y
    while True:
        chosen = random.choice(y.size, size, replace=False)
        if abs(y[chosen].sum()) < size:
            return np.ascontiguousarray(X[chosen]), y[chosen]


def _lines() -> Iterator[_Line]:
    cyclic = {"variant": "paper", "order": "cyclic"}
    yield _Line("Dual - DCD", "dualgap", _ours("dcd", bias=False, **cyclic), "none")
    yield _Line("Dual - Rand", "dualgap", _ours("dcd", bias=False, variant="paper", order="random"), "none")
    yield _Line("Dual - Bias", "dualgap", _ours("dcd", bias=True, **cyclic), "exact")
    yield _Line("Dual - improved", "dualgap", _ours("dcd", bias=False), "none")
    yield _Line("Primal", "dualgap", _ours("pcd", bias=False), "none")
    yield _Line("Dual", "scikit-learn", _theirs(dual=True, fit_intercept=False), "none")
    yield _Line("Dual, intercept", "scikit-learn", _theirs(dual=True, fit_intercept=True), "penalised")
    yield _Line("Primal", "scikit-learn", _theirs(dual=False, fit_intercept=False), "none")


def _ours(solver: str, *, bias: bool, **options: Any) -> Fit:
    def fit(X: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        problem = build("squared_hinge", factored_gram(X), y, C=1.0, bias=bias)
        result = solve(problem, solver, gap_tol=_GAP, max_iter=_PASSES, warn=False, **options)
        model = recover(problem, result.a, result.eta)
        return X.T @ model.coefficients, model.bias

    return fit


def _theirs(**settings: Any) -> Fit:
    def fit(X: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the accuracy reached is a column of the table
            model = LinearSVC(C=1.0, max_iter=_PASSES, random_state=0, **settings).fit(X, y)
        return model.coef_.ravel(), float(np.sum(model.intercept_))

    return fit


def _excess(X: NDArray[np.float64], y: NDArray[np.float64], w: NDArray[np.float64], b: float, bias: str) -> float:
    """By how much the objective of a fit exceeds the optimum of its own problem, relative to it."""
    A = np.column_stack([X, np.ones(y.size)]) if bias == "penalised" else X
    problem = build("squared_hinge", factored_gram(A), y, C=1.0, bias=bias == "exact")
    best = solve(problem, "dcd", gap_tol=_REFERENCE_GAP, warn=False).certificate.dual
    penalty = float(w @ w) + (b * b if bias == "penalised" else 0.0)
    loss = np.maximum(0.0, 1.0 - y * (X @ w + b))
    return (0.5 * penalty + float(loss @ loss) - best) / best
