"""The lecture's algorithms, measured: sparse greedy approximation, interior point, working sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.sgma import FIRST, Curve, compute_curves, read_usps
from dualgap.reproduce.lecture_tricks import Points, problem
from dualgap.reproduce.record import Digits, Figure, Line
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.reproduce.clock import Clock

# Pixels of a side of a USPS digit.
_SIDE = 16
_SECONDS = 60.0
WORKING_SETS = (2, 8, 16, 32, 64, 100, 200, 400)


def approximation(samples: int, most: int, clock: Clock) -> tuple[Figure, Digits, list[dict[str, Any]]]:
    """Errors of all ways to choose basis functions, the first ten chosen, and a table at some sizes."""
    clock.say("lecture: sparse greedy approximation of USPS")
    X, y = read_usps()
    X, y = np.ascontiguousarray(X[:samples]), y[:samples]
    curves = compute_curves(X, most=most, seeds=3)
    figure = Figure(
        "sgma",
        "Fig. 10.3: error against number of basis functions, USPS",
        "basis functions",
        "tr(K - K~) / tr(K)",
        [Line(c.name, [float(i) for i in range(c.errors.shape[1])], _mean(c)) for c in curves],
    )
    chosen = next(c for c in curves if c.name == "best of 59").basis[0][:FIRST]
    digits = Digits(
        "basis",
        "The first ten basis functions (best of 59, seed 0)",
        [[[round(float(v), 2) for v in line] for line in X[i].reshape(_SIDE, _SIDE)] for i in chosen],
        [f"{int(y[i])}" for i in chosen],
    )
    sizes = [size for size in (10, 30, 100, 200, 300) if size <= most]
    rows = [
        {
            "choice": c.name,
            **{f"error at {size}": _mean(c)[size] if size < c.errors.shape[1] else None for size in sizes},
            "digits among first ten": c.classes_of_first(y) if c.basis else None,
        }
        for c in curves
    ]
    return figure, digits, rows


def _mean(curve: Curve) -> list[float]:
    values: NDArray[np.float64] = curve.errors.mean(axis=0)
    return [float(v) for v in values]


def interior_point(points: Points, sizes: tuple[int, ...], clock: Clock) -> list[dict[str, Any]]:
    """Iterations of the predictor-corrector method, as on the slides and with Mehrotra's rules."""
    X, y = points
    rows = []
    for n in sizes:
        if clock.over(f"interior point from n = {n} on was not run"):
            break
        row: dict[str, Any] = {"n": n}
        for variant, name in (("paper", "slides"), ("improved", "improved")):
            clock.say(f"lecture: interior point, n = {n}, {name}")
            mine = problem((X[:n], y[:n]))
            found = solve(
                mine, "ipm", variant=variant, gap_tol=1e-6, max_iter=500, time_limit=clock.left(_SECONDS), warn=False
            )
            row[f"{name}: iterations"] = found.iterations
            row[f"{name}: s"] = round(found.seconds, 3)
            row[f"{name}: gap"] = found.certificate.relative_gap
        rows.append(row)
    return rows


def working_sets(
    points: Points, clock: Clock, sizes: tuple[int, ...] = WORKING_SETS
) -> tuple[Figure, list[dict[str, Any]]]:
    """Time of decomposition against the size of its working sets, chosen by gradient or by share of the gap."""
    rows = []
    for selection in ("gradient", "gap"):
        for size in sizes:
            if clock.over(f"working sets of {size} by {selection} were not run"):
                break
            clock.say(f"lecture: working sets of {size}, by {selection}")
            found = solve(
                problem(points),
                "decomposition",
                variant="paper",
                working_set=size,
                selection=selection,
                tol=1e-2,
                time_limit=clock.left(_SECONDS / 6),
                warn=False,
            )
            rows.append(
                {
                    "chosen by": selection,
                    "working set": size,
                    "status": found.status.name,
                    "working sets solved": found.iterations,
                    "seconds": round(found.seconds, 3),
                }
            )
    lines = [
        Line(
            f"by {selection}",
            [float(r["working set"]) for r in rows if r["chosen by"] == selection and r["status"] == "CONVERGED"],
            [float(r["seconds"]) for r in rows if r["chosen by"] == selection and r["status"] == "CONVERGED"],
        )
        for selection in ("gradient", "gap")
    ]
    figure = Figure(
        "working-sets",
        "Time against size of the working set (decomposition)",
        "variables",
        "seconds",
        lines,
        log_x=True,
    )
    return figure, rows
