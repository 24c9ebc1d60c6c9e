"""The lecture's tricks of the trade, measured: the gap as a stopping rule, restarts over C, caches and shrinking."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.formulations import build
from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import make_gram
from dualgap.reproduce.record import Figure, Line
from dualgap.result import Status
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.reproduce.clock import Clock

Points = tuple["NDArray[np.float64]", "NDArray[np.float64]"]
GAMMA, C = 0.05, 1.0
# The chain of penalties, from large to small as the lecture has it.
CHAIN = (100.0, 30.0, 10.0, 3.0, 1.0, 0.3, 0.1)
# The share of the kernel matrix that the caches hold.
_SHARE = 0.1
_GAP = 1e-3
# Seconds of one run.
_SECONDS = 60.0


def problem(points: Points, penalty: float = C, **gram: Any) -> DualQP:
    """A C-SVC on the points."""
    X, y = points
    return build("c_svc", make_gram(X, Kernel("rbf", gamma=GAMMA), **gram), y, C=penalty)


def gap_bound(points: Points, clock: Clock) -> tuple[Figure, int, int]:
    """P10.1 along a run: the figure, how many looks there were, and at how many the bound held.

    R[f] >= R* >= R[f] - Gap[f]; R* is bracketed by a solution certified to 1e-9.
    """
    clock.say("lecture: the gap along a run")
    best = solve(problem(points), "block", gap_tol=1e-9, time_limit=clock.left(_SECONDS), warn=False).certificate
    # Small working sets: it reports after each, where smo would after a thousand steps.
    settings: dict[str, Any] = {"variant": "paper", "working_set": 32}
    run = solve(problem(points), "decomposition", gap_tol=1e-6, time_limit=clock.left(_SECONDS), warn=False, **settings)
    looks = [e for e in run.history.events if np.isfinite(e.relative_gap)]
    # Rounding of sums over all points.
    slack = 1e-9 * abs(best.primal)
    held = sum(e.primal >= best.dual - slack and e.dual <= best.primal + slack for e in looks)
    steps = [float(e.iteration) for e in looks]
    figure = Figure(
        "gap",
        "P10.1: the gap bounds the distance from the optimum (decomposition)",
        "working sets solved",
        "relative to the optimum",
        [
            Line("duality gap", steps, [e.relative_gap for e in looks]),
            Line("true distance R[f] - R*", steps, [(e.primal - best.dual) / best.dual for e in looks]),
        ],
    )
    return figure, len(looks), held


def restarts(points: Points, clock: Clock, chain: tuple[float, ...] = CHAIN) -> list[dict[str, Any]]:
    """The chain of penalties, down and up, each from nothing and from the last solution scaled by C'/C."""
    rows = []
    for way, penalties in (("down", chain), ("up", chain[::-1])):
        last: tuple[float, NDArray[np.float64], float] | None = None
        for penalty in penalties:
            if clock.over(f"restarts {way} at C = {penalty:g} were not run"):
                break
            mine = problem(points, penalty)
            clock.say(f"lecture: restart {way}, C = {penalty:g}")
            start = None if last is None else last[1] * (penalty / last[0])
            settings: dict[str, Any] = {"gap_tol": _GAP, "time_limit": clock.left(_SECONDS), "warn": False}
            cold = solve(mine, "smo", **settings)
            warm = cold if start is None else solve(mine, "smo", start=start, **settings)
            if Status.TIME_LIMIT in (cold.status, warm.status):
                clock.note(f"restarts {way}: out of time at C = {penalty:g}")
                break
            value = warm.certificate.primal
            bound = None
            if last is not None:
                large, small = (value, last[2]) if penalty > last[0] else (last[2], value)
                ratio = max(penalty, last[0]) / min(penalty, last[0])
                # Objectives are known to the gap asked for.
                bound = bool(large / ratio <= small * (1 + _GAP) and small <= large * (1 + _GAP))
            rows.append(
                {
                    "way": way,
                    "C": penalty,
                    "objective": value,
                    "iterations cold": cold.iterations,
                    "iterations warm": None if last is None else warm.iterations,
                    "s cold": round(cold.seconds, 3),
                    "s warm": None if last is None else round(warm.seconds, 3),
                    "bound holds": bound,
                }
            )
            last = (penalty, np.clip(warm.a, mine.lo, mine.hi), value)
    return rows


def caches(points: Points, clock: Clock) -> list[dict[str, Any]]:
    """Row, element and function caches: hits, kernel evaluations and time."""
    n = points[1].size
    size = max(_SHARE * 8e-6 * n * n, 8e-6 * 4 * n)
    ways: list[tuple[str, str, str]] = [
        ("row", "row", "all"),
        ("element", "element", "all"),
        ("row", "row", "free"),
        ("element", "element", "free"),
    ]
    rows = []
    for name, kind, function in ways:
        if clock.over(f"{name} cache, function cache for {function}: not run"):
            break
        clock.say(f"lecture: {name} cache, function cache for {function}")
        mine = problem(points, cache=kind, kind="cached", cache_size=size)
        found = solve(
            mine,
            "smo",
            variant="keerthi2",
            function_cache=function,
            tol=1e-2,
            time_limit=clock.left(_SECONDS),
            warn=False,
        )
        last = found.history[-1]
        rows.append(
            {
                "kernel cache": f"{name}, {100 * _SHARE:.0f} % of K",
                "function cache": "all points" if function == "all" else "free variables",
                "status": found.status.name,
                "iterations": found.iterations,
                "kernel hit rate": _rate(last.cache_hits, last.cache_misses),
                "function hit rate": _rate(last.function_hits, last.function_misses),
                "kernel evaluations": found.kernel_evaluations,
                "seconds": round(found.seconds, 3),
            }
        )
    return rows


def _rate(hits: int, misses: int) -> float | None:
    return round(hits / (hits + misses), 4) if hits + misses else None


def shrinking(points: Points, clock: Clock) -> list[dict[str, Any]]:
    """With and without setting variables aside."""
    rows = []
    for penalty in (1.0, 100.0):
        for shrink in (True, False):
            if clock.over(f"shrinking at C = {penalty:g} was not measured"):
                break
            clock.say(f"lecture: shrinking {'on' if shrink else 'off'}, C = {penalty:g}")
            mine = problem(points, penalty, kind="cached")
            found = solve(mine, "smo", shrinking=shrink, tol=1e-3, time_limit=clock.left(_SECONDS), warn=False)
            rows.append(
                {
                    "C": penalty,
                    "shrinking": shrink,
                    "status": found.status.name,
                    "iterations": found.iterations,
                    "kernel evaluations": found.kernel_evaluations,
                    "seconds": round(found.seconds, 3),
                    "relative gap": found.certificate.relative_gap,
                }
            )
    return rows
