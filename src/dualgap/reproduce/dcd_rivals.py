"""DCD and its rivals as curves of accuracy against time."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.formulations import build
from dualgap.kernels.gram import factored_gram
from dualgap.reproduce.samples import as_read
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.reproduce.clock import Clock

LOSSES = ("c_svc", "squared_hinge")
# Accuracies of the table; claims are judged at the second.
GAPS = (1e-1, 1e-2, 1e-3, 1e-5)
# Where the curves end, and the accuracy of the bound they are measured from.
_GAP, _REFERENCE = 1e-6, 1e-8
# Passes that LIBLINEAR is given, one fit each.
_PASSES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


@dataclass(frozen=True)
class Curve:
    """A method on a problem: seconds, and how far the primal objective is above the optimum, relative to it."""

    data: str
    loss: str
    method: str
    seconds: list[float]
    excess: list[float]


def methods(loss: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """Solvers that take the loss, without a bias."""
    found: dict[str, tuple[str, dict[str, Any]]] = {
        "dcd as printed": ("dcd", {"variant": "paper"}),
        "dcd": ("dcd", {}),
        "newton": ("newton", {}),
    }
    found["pegasos" if loss == "c_svc" else "pcd"] = ("pegasos", {}) if loss == "c_svc" else ("pcd", {})
    return found


def read(name: str, rows: int | None) -> tuple[Any, NDArray[np.float64]]:
    """Points and +-1 labels; of more than two classes the lower half against the upper."""
    X, y = as_read(name)
    if rows is not None:
        X, y = X[:rows], y[:rows]
    classes = np.unique(y)
    return X, np.where(y >= classes[len(classes) // 2], 1.0, -1.0)


def curves(name: str, loss: str, limit: float, clock: Clock, rows: int | None = None) -> list[Curve]:
    """All methods on one problem."""
    X, y = read(name, rows)
    problem = build(loss, factored_gram(X), y, C=1.0, bias=False)
    best = solve(problem, "newton", gap_tol=_REFERENCE, time_limit=clock.left(4 * limit), warn=False).certificate.dual
    small = build(loss, factored_gram(X[:200]), y[:200], C=1.0, bias=False)
    found = []
    for method, (solver, options) in methods(loss).items():
        clock.say(f"dcd: {name}, {loss}, {method}")
        with clock.apart():
            solve(small, solver, max_iter=3, warn=False, **options)
        result = solve(problem, solver, gap_tol=_GAP, time_limit=clock.left(limit), warn=False, **options)
        events = [e for e in result.history.events if math.isfinite(e.primal)]
        end = (result.seconds, result.certificate.primal)
        path = [*((e.seconds, e.primal) for e in events), end]
        found.append(Curve(name, loss, method, [t for t, _ in path], [(p - best) / best for _, p in path]))
    clock.say(f"dcd: {name}, {loss}, LIBLINEAR")
    return [*found, _liblinear(name, loss, X, y, best, clock.left(limit))]


def _liblinear(name: str, loss: str, X: Any, y: NDArray[np.float64], best: float, limit: float) -> Curve:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    kind = "hinge" if loss == "c_svc" else "squared_hinge"
    times, excess = [], []
    for passes in _PASSES:
        model = LinearSVC(C=1.0, loss=kind, dual=True, fit_intercept=False, tol=1e-10, max_iter=passes, random_state=0)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the curve is about just that
            model.fit(X, y)
        times.append(time.perf_counter() - began)
        w = model.coef_.ravel()
        loss_values = np.maximum(0.0, 1.0 - y * (X @ w))
        total = loss_values.sum() if kind == "hinge" else float(loss_values @ loss_values)
        excess.append(float((0.5 * w @ w + total - best) / best))
        if sum(times) > limit or excess[-1] <= _GAP:
            break
    return Curve(name, loss, "LIBLINEAR (dual)", times, excess)


def time_to(curve: Curve, gap: float) -> float | None:
    """Seconds until the accuracy is first reached, or None."""
    return next((t for t, value in zip(curve.seconds, curve.excess, strict=True) if value <= gap), None)
