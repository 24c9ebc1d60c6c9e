"""DCD and its rivals as curves of accuracy against time.

Accuracy is (P - D*)/D*: P the primal objective of the weights that a method has at that moment, D* the certified dual
objective of a run to 1e-8 (or the best there is), which no P lies below. Those who solve the dual are given the weights
of their dual point (the last one certified, those on the way from the gradient that the solver keeps); Pegasos and
primal coordinate descent are judged by the weights they work on, and LIBLINEAR by the weights it returns.
"""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.linear_data import read_data
from dualgap.formulations import build
from dualgap.kernels.gram import factored_gram
from dualgap.run import solve
from dualgap.solvers import SOLVERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.reproduce.clock import Clock
    from dualgap.result import Result, Snapshot

LOSSES = ("c_svc", "squared_hinge")
PRINTED, IMPROVED, NEWTON = "dcd as printed", "dcd", "newton"
PEGASOS, PCD, TRON, LIBLINEAR = "pegasos", "pcd", "TRON (LIBLINEAR)", "LIBLINEAR (dual)"
# Accuracies of the table; claims are judged at the second.
GAPS = (1e-1, 1e-2, 1e-3, 1e-5)
# Where the curves end, and the accuracy of the bound they are measured from.
_GAP, _REFERENCE = 1e-6, 1e-8
# Times the seconds of a method that the reference may take.
_PATIENCE = 4.0
# Passes (steps of TRON) that LIBLINEAR is given, one fit each.
_PASSES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
# Passes of those who would end by themselves before they are there.
_UNLIMITED = 10**9


@dataclass(frozen=True)
class Curve:
    """A method on a problem: seconds, and how far the primal objective is above the optimum, relative to it."""

    data: str
    loss: str
    method: str
    seconds: list[float]
    excess: list[float]


def read(name: str, rows: int | None) -> tuple[Any, NDArray[np.float64]]:
    """Points and +-1 labels, as the comparison with other libraries has them."""
    X, y = read_data(name)
    return (X, y) if rows is None else (X[:rows], y[:rows])


def curves(name: str, loss: str, limit: float, clock: Clock, rows: int | None = None) -> list[Curve]:
    """All methods on one problem."""
    X, y = read(name, rows)
    problem = build(loss, factored_gram(X), y, C=1.0, bias=False)
    small = build(loss, factored_gram(X[:200]), y[:200], C=1.0, bias=False)
    with clock.apart():
        solve(small, max_iter=3, warn=False)
    clock.say(f"dcd: {name}, {loss}, the reference")
    patience = clock.left(_PATIENCE * limit)
    reference = solve(problem, gap_tol=_REFERENCE, time_limit=patience, warn=False).certificate
    paths, best, gap = {}, reference.dual, reference.relative_gap
    settings: dict[str, dict[str, Any]] = {PRINTED: {"variant": "paper"}, IMPROVED: {}, NEWTON: {}}
    for method, options in settings.items():
        solver = NEWTON if method == NEWTON else "dcd"
        with clock.apart():
            solve(small, solver, max_iter=3, warn=False, **options)
        clock.say(f"dcd: {name}, {loss}, {method}")
        result = solve(problem, solver, gap_tol=_GAP, time_limit=clock.left(limit), warn=False, **options)
        paths[method] = _of_dual(result)
        if result.certificate.dual > best:  # the reference lacked time
            best, gap = result.certificate.dual, result.certificate.relative_gap
    if gap > _GAP:
        clock.note(f"{name}, {loss}: D* is known to a relative gap of {gap:.0e} only")
    if best <= 0.0:
        return []
    method = PEGASOS if loss == "c_svc" else PCD
    with clock.apart():
        _of_weights(small, method, 1.0, 0.1)
    clock.say(f"dcd: {name}, {loss}, {method}")
    paths[method] = _of_weights(problem, method, best, clock.left(limit))
    for method in (LIBLINEAR,) if loss == "c_svc" else (LIBLINEAR, TRON):
        clock.say(f"dcd: {name}, {loss}, {method}")
        paths[method] = _of_liblinear(X, y, loss, method == LIBLINEAR, best, clock.left(limit))
    return [
        Curve(name, loss, method, [t for t, _ in path], [(p - best) / best for _, p in path])
        for method, path in paths.items()
    ]


def _of_dual(result: Result) -> list[tuple[float, float]]:
    """Seconds and primal objectives of a solver's dual points; the last one is the certified one."""
    events = [(e.seconds, e.primal) for e in result.history.events if math.isfinite(e.primal)]
    return [*events, (result.seconds, result.certificate.primal)]


def _of_weights(problem: DualQP, solver: str, best: float, limit: float) -> list[tuple[float, float]]:
    """Seconds and primal objectives of a primal method's own weights, read off its snapshots."""
    path: list[tuple[float, float]] = []
    began = time.perf_counter()

    def watch(snapshot: Snapshot) -> bool:
        seconds = time.perf_counter() - began
        path.append((seconds, snapshot.primal))
        return seconds > limit or snapshot.primal - best <= _GAP * best

    module = SOLVERS[solver]
    # A tolerance that is never met: the curve ends where `watch` says.
    module.solve(problem, module.Options(tol=1e-300, max_iter=_UNLIMITED), watch)
    return path


def _of_liblinear(
    X: Any, y: NDArray[np.float64], loss: str, dual: bool, best: float, limit: float
) -> list[tuple[float, float]]:
    """Seconds and primal objectives of fits with more and more passes, each from nothing."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    kind = "hinge" if loss == "c_svc" else "squared_hinge"
    path: list[tuple[float, float]] = []
    for passes in _PASSES:
        model = LinearSVC(C=1.0, loss=kind, dual=dual, fit_intercept=False, tol=1e-10, max_iter=passes, random_state=0)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the curve is about just that
            model.fit(X, y)
        seconds = time.perf_counter() - began
        w = model.coef_.ravel()
        losses = np.maximum(0.0, 1.0 - y * (X @ w))
        total = float(losses.sum() if kind == "hinge" else losses @ losses)
        path.append((seconds, float(0.5 * w @ w + total)))
        # The next fit takes about twice as long as this one.
        if sum(t for t, _ in path) + 2.0 * seconds > limit or path[-1][1] - best <= _GAP * best:
            break
    return path


def time_to(curve: Curve, gap: float) -> float | None:
    """Seconds until the accuracy is first reached, or None."""
    return next((t for t, value in zip(curve.seconds, curve.excess, strict=True) if value <= gap), None)
