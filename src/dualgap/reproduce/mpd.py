"""Table 1 and figures 1 and 2 of "Training Support Vector Machines with Multiple Equality Constraints".

Claims of the abstract: MPD scales well; it is straightforward to implement and needs no QP solver; it takes a large
number of formulations whatever the number of equality constraints; it is effective on semi-parametric regression.
Section 6 adds: the same accuracy as an interior point method (LOQO) and a similar, slightly lower complexity; up to
m = 100 000.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.semiparametric import PENALTIES, experiment, functions, measure, samples
from dualgap.formulations import build, recover
from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import make_gram
from dualgap.reproduce.claims import Claim, judged
from dualgap.reproduce.mpd_path import Path, follow
from dualgap.reproduce.mpd_printed import solve_as_printed
from dualgap.reproduce.record import Figure, Line, Record, Table
from dualgap.reproduce.samples import dense
from dualgap.result import Status
from dualgap.run import solve
from dualgap.solvers import SOLVERS

if TYPE_CHECKING:
    from dualgap.problem import DualQP
    from dualgap.reproduce.clock import Clock

SIZES = (50, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
QUICK_SIZES = (50, 200, 500, 1000, 2000)
# The paper's thresholds.
_TOL = 0.01
# Sizes up to which a method is run: LOQO ended at 3300 in the paper, the printed MPD with H stored at 5700. Whoever
# takes longer than a run may ends there.
_MOST = {
    "ipm": 5000,
    "mpd as printed": 20_000,
    "mpd as printed, no cache": 20_000,
    "mpd": 100_000,
    "mpd, no cache": 100_000,
}
_NO_CACHE = ", no cache"
# Megabytes for kernel entries: the paper's cache is 2 GB. Without one there is room for two rows.
_CACHE = 2000.0
_SECONDS, _SECONDS_QUICK = 120.0, 10.0
# Seconds of table 1 and of all of figure 2.
_TABLE, _FIGURE, _FIGURE_QUICK = 120.0, 550.0, 70.0
# Coefficients within this of the truth, 1, count as found: the noise has deviation 0.2.
_NEAR = 0.15
# Slope of log time against log m from this size on: before, fixed costs prevail.
_FROM = 200


def files(quick: bool) -> tuple[str, ...]:
    """Data sets that are read."""
    return ("ratsch-heart",)


def run(
    quick: bool, clock: Clock, *, sizes: tuple[int, ...] | None = None, penalties: tuple[float, ...] = PENALTIES
) -> Record:
    """Run the experiment with these numbers of samples and values of C."""
    chosen = sizes if sizes is not None else QUICK_SIZES if quick else SIZES
    limit = _SECONDS_QUICK if quick else _SECONDS
    with clock.apart("mpd: compiling"):
        _compile()
    clock.say("mpd: table 1")
    with clock.part("table 1", _TABLE) as mine:
        rows = _formulations(mine)
    clock.say("mpd: figure 1")
    with clock.part("figure 1", clock.limit):
        path = follow()
    with clock.part("figure 2", _FIGURE_QUICK if quick else _FIGURE) as mine:
        runs = _scaling(chosen, penalties, limit, mine)
    return Record(
        name="mpd",
        title="Training SVMs with multiple equality constraints",
        paper="Kienzle and Schölkopf, Training Support Vector Machines with Multiple Equality Constraints",
        quick=quick,
        data="Heart (classification, outliers), the paper's semi-parametric target (regression), two Gaussians",
        partitions="one seeded partition of Heart (170 of 270 samples, default_rng(0)); generated data with seed 0",
        parameters={
            "m": ", ".join(map(str, chosen)),
            "C": ", ".join(f"{C:g}" for C in penalties),
            "epsilon": 0.05,
            "thresholds": _TOL,
            "kernel": "exp(-|x-z|^2), as the paper names none",
            "cache": f"{_CACHE:g} MB",
            "seconds of a run": limit,
        },
        differences=[
            "LOQO is not here: dualgap's interior point method stands in its place.",
            "Signs of printed formulae are corrected (update of h_i; f_1 of regression), and the noise is added once.",
            "The paper has Matlab on a computer of its time: seconds compare by their slopes only. Times are not "
            "printed but drawn, so none stand beside ours.",
            "'mpd' solves working sets with the constraints kept; 'mpd as printed' is the paper's algorithm.",
        ],
        tables=[
            Table("Table 1: the five formulations, and semi-parametric ones, by mpd", rows),
            Table("Figure 2 as numbers", runs),
        ],
        figures=[*_path_figures(path), _scaling_figure(runs, penalties)],
        claims=_claims(rows, path, runs, max(chosen)),
    )


def problems() -> dict[str, DualQP]:
    """A problem of each row of table 1, and two with more constraints."""
    X, y = dense("ratsch-heart")
    train = np.random.default_rng(0).permutation(y.size)[:170]
    X, y = np.ascontiguousarray(X[train]), y[train]
    heart = make_gram(X, Kernel("rbf", gamma=1.0 / 120.0))
    x, target = samples(200)
    line = make_gram(x[:, None], Kernel("rbf", gamma=1.0))
    return {
        "C-SVC": build("c_svc", heart, y, C=3.162),
        "nu-SVC": build("nu_svc", heart, y, nu=0.4),
        "1-SVM": build("one_class", heart, nu=0.2),
        "eps-SVR": build("eps_svr", line, target, C=1.0, epsilon=0.05),
        "nu-SVR": build("nu_svr", line, target, C=1.0, nu=0.4),
        "semi-parametric eps-SVR": experiment(200),
        "semi-parametric C-SVC": build("c_svc", heart, y, C=3.162, parametric=X[:, :2]),
        "semi-parametric nu-SVR": build("nu_svr", line, target, C=1.0, nu=0.4, parametric=functions(x)),
    }


def _compile() -> None:
    measure(50, solver="ipm", tol=_TOL)
    measure(50, tol=_TOL)
    measure(50, tol=_TOL, variant="paper", max_iter=100)
    mine = problems()["C-SVC"]
    for variant in ("paper", "improved"):
        solve(mine, "mpd", tol=1e-2, variant=variant, warn=False)


def _formulations(clock: Clock) -> list[dict[str, Any]]:
    rows = []
    for name, problem in problems().items():
        best = solve(problem, "ipm", gap_tol=1e-8, time_limit=clock.left(20.0), warn=False).certificate.dual
        for variant in ("paper", "improved"):
            if variant == "paper":
                found = solve_as_printed(problem, 1e-3, clock.left(10.0))
            else:
                found = solve(problem, "mpd", tol=1e-3, time_limit=clock.left(10.0), warn=False)
            rows.append(
                {
                    "formulation": name,
                    "constraints": problem.k,
                    "variant": "as printed" if variant == "paper" else "improved",
                    "status": found.status.name,
                    "iterations": found.iterations,
                    "relative gap": found.certificate.relative_gap,
                    "KKT violation": found.certificate.kkt_violation,
                    "infeasibility": found.certificate.infeasibility,
                    "dual objective": found.certificate.dual,
                    "interior point": best,
                    "seconds": round(found.seconds, 3),
                }
            )
    return rows


def _scaling(sizes: tuple[int, ...], penalties: tuple[float, ...], limit: float, clock: Clock) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    slow: set[str] = set()
    for m in sizes:
        for C in penalties:
            for method, most in _MOST.items():
                if m > most or (C != 1.0 and method != "mpd") or method in slow:
                    continue
                if clock.over(f"figure 2 ends at m = {m}, C = {C:g}, {method}"):
                    return rows
                clock.say(f"mpd: m = {m}, C = {C:g}, {method}")
                row = _one(m, C, method, clock.left(limit))
                rows.append(row)
                if row["status"] == Status.TIME_LIMIT.name:
                    slow.add(method)
                    clock.note(f"{method} reached the time limit of a run at m = {m}; larger ones were left out")
    return rows


def _one(m: int, C: float, method: str, limit: float) -> dict[str, Any]:
    # Room for two rows of float64, and a hundredth more for rounding.
    cache = 1.01 * 2 * 8 * m / 1e6 if method.endswith(_NO_CACHE) else _CACHE
    if method.startswith("mpd as printed"):
        problem = experiment(m, C, cache_size=cache)
        printed = solve_as_printed(problem, _TOL, limit)
        beta = tuple(float(value) for value in recover(problem, printed.a, printed.eta).parametric)
        return _row(m, C, method, printed.status.name, printed, beta, printed.certificate)
    solver = "ipm" if method == "ipm" else "mpd"
    found = measure(m, C, solver, cache_size=cache, tol=_TOL, time_limit=limit)
    return _row(m, C, method, found.status, found, found.beta, found)


def _row(m: int, C: float, method: str, status: str, run: Any, beta: tuple[float, ...], quality: Any) -> dict[str, Any]:
    return {
        "m": m,
        "C": C,
        "method": method,
        "status": status,
        "seconds": round(run.seconds, 4),
        "iterations": run.iterations,
        "kernel evaluations": run.kernel_evaluations,
        "beta_1": round(beta[0], 3),
        "beta_2": round(beta[1], 3),
        "relative gap": quality.relative_gap,
        "KKT violation": quality.kkt_violation,
    }


def _path_figures(path: Path) -> list[Figure]:
    return [
        Figure(
            "violations",
            "Figure 1: violations, C-SVC on two Gaussians (as printed)",
            "iterations",
            "violation",
            [
                Line("slopes (KKT iii-v)", path.iterations, path.slopes),
                Line("equality constraint (KKT i)", path.iterations, path.constraints),
            ],
        ),
        Figure(
            "eta",
            "Figure 1: the dual variable",
            "iterations",
            "eta_1",
            [Line("eta_1", path.iterations, path.eta)],
            log_y=False,
        ),
    ]


def _scaling_figure(rows: list[dict[str, Any]], penalties: tuple[float, ...]) -> Figure:
    lines = []
    for method in _MOST:
        for C in penalties:
            mine = [r for r in rows if r["method"] == method and r["C"] == C and r["status"] == "CONVERGED"]
            if mine:
                label = f"{method}, C = {C:g}"
                lines.append(Line(label, [float(r["m"]) for r in mine], [float(r["seconds"]) for r in mine]))
    return Figure("scaling", "Figure 2: time against m", "training samples m", "seconds", lines, log_x=True)


def slope(rows: list[dict[str, Any]], method: str) -> float:
    """Exponent of time against m at C = 1; not a number with fewer than two sizes."""
    mine = [
        (math.log(r["m"]), math.log(r["seconds"]))
        for r in rows
        if r["method"] == method and r["C"] == 1.0 and r["m"] >= _FROM and r["status"] == "CONVERGED"
    ]
    if len(mine) < 2:
        return math.nan
    sizes, times = np.array(mine).T
    return float(np.polyfit(sizes, times, 1)[0])


def _covered(kinds: set[str], late: set[str], solved: set[str]) -> bool | None:
    """Whether all were solved; None where those that were not only lacked time."""
    return None if late and kinds - late <= solved else solved == kinds


def _unlike_others() -> Claim:
    """Which formulations the methods that the abstract names can take, as they are implemented here."""
    asked = problems().values()
    takes = {
        name: sum(SOLVERS[name].supports(problem) is None for problem in asked)
        for name in ("mpd", "smo", "sor", "adatron")
    }
    return judged(
        "Unlike SMO, SOR and the Kernel Adatron it is applicable whatever the constraints.",
        "abstract",
        takes["mpd"] == len(asked) and all(takes[name] < len(asked) for name in ("smo", "sor", "adatron")),
        f"Of {len(asked)} formulations with a bias: "
        + ", ".join(f"{name} takes {n}" for name, n in takes.items())
        + ".",
    )


def _claims(rows: list[dict[str, Any]], path: Path, runs: list[dict[str, Any]], asked: int) -> list[Claim]:
    done = [r for r in rows if r["status"] == "CONVERGED"]
    kinds = {r["formulation"] for r in rows}
    solved = {
        variant: {r["formulation"] for r in done if r["variant"] == variant} for variant in ("as printed", "improved")
    }
    # A run that lacked time tells nothing.
    late = {r["formulation"] for r in rows if r["variant"] == "as printed" and r["status"] == "TIME_LIMIT"}
    runs = [r for r in runs if r["status"] == "CONVERGED"]
    mine = [r for r in runs if r["method"] == "mpd"]
    largest = max((r["m"] for r in mine if r["C"] == 1.0), default=0)
    ours, printed, interior = slope(runs, "mpd"), slope(runs, "mpd as printed"), slope(runs, "ipm")
    off = [max(abs(r["beta_1"] - 1), abs(r["beta_2"] - 1)) for r in mine if r["m"] == largest]
    pairs = [
        (r, other)
        for r in runs
        for other in runs
        if r["method"] == "mpd as printed" and other["method"] == "ipm" and (r["m"], r["C"]) == (other["m"], other["C"])
    ]
    worst = max((r["KKT violation"] for pair in pairs for r in pair), default=math.nan)
    return [
        judged(
            "The method scales well.",
            "abstract",
            None if math.isnan(ours) else ours <= 2.5,
            f"Time grows as m^{ours:.2f} improved and m^{printed:.2f} as printed (C = 1, m >= {_FROM}). "
            "Well: at most 2.5.",
        ),
        judged(
            "It is straightforward to implement and needs no external QP solver.",
            "abstract",
            path.converged and path.dual_updates > 0,
            f"One-point steps and {path.dual_updates} updates of eta solved the toy problem of figure 1 in "
            f"{path.iterations[-1]:.0f} iterations (paper: four updates, 630 iterations); no QP solver is called.",
        ),
        judged(
            "It is applicable to a large number of formulations regardless of the number of equality constraints.",
            "abstract",
            _covered(kinds, late, solved["as printed"]),
            f"As printed {len(solved['as printed'])} and improved {len(solved['improved'])} of {len(kinds)} "
            f"formulations with 1 to {max(r['constraints'] for r in rows)} constraints reached a KKT violation of 1e-3"
            + (
                f"; not as printed: {', '.join(sorted(kinds - solved['as printed']))} ({len(late)} out of time)."
                if kinds - solved["as printed"]
                else "."
            ),
        ),
        _unlike_others(),
        judged(
            "Its effectiveness is demonstrated on semi-parametric support vector regression.",
            "abstract",
            all(value <= _NEAR for value in off) if off else None,
            f"m = {largest}: both coefficients (1 in truth) within {max(off, default=math.nan):.3f} "
            "for every C that was run.",
        ),
        judged(
            "MPD and the interior point method yield the same accuracy.",
            "section 6",
            None if not pairs else worst <= _TOL,
            f"Largest certified KKT violation of both over {len(pairs)} sizes: {worst:.1e} (threshold {_TOL:g}).",
        ),
        judged(
            "Its time complexity is similar to (slightly lower than) the interior point method's.",
            "section 6",
            None if math.isnan(printed) or math.isnan(interior) else printed <= interior + 0.2,
            f"Exponents of m: as printed {printed:.2f}, improved {ours:.2f}, interior point {interior:.2f}.",
        ),
        judged(
            "With a cache it deals with m = 100 000 and more.",
            "section 6",
            largest >= 100_000 if asked >= 100_000 else None,
            f"Largest size solved here: m = {largest}.",
        ),
    ]
