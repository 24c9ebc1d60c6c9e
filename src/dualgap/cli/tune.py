"""``dualgap tune``: choose C and gamma, and epsilon of regression, by cross-validation."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dualgap.cli.choices import KERNEL_READS, KernelName, Task, choose, given, listed
from dualgap.cli.files import check_output
from dualgap.cli.grids import GRID_HELP, grid, read, write_json
from dualgap.cli.output import counted, fact, seconds, size, standard, verdict
from dualgap.cli.progress import Progress
from dualgap.cli.summary import tell_data

_DATA, _LIMITS, _OUTPUT = "Data", "How precisely", "Output"
_VALIDATION = "Smoothing and stopping, by validation"
# What can be tuned, and the score by which the best is chosen.
_SCORE_OF = {"c_svc": "accuracy", "eps_svr": "R2"}


def tune(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="LIBSVM text, csv or npz; .gz, .bz2 and .xz as well.")],
    C: Annotated[str, typer.Option("-C", metavar="GRID", help=f"Values of C: {GRID_HELP}.")] = "0.01:1000:6",
    gamma: Annotated[
        str | None,
        typer.Option(
            "--gamma",
            "-g",
            metavar="GRID",
            help="Values of gamma, likewise; scale and auto as well.",
            show_default="scale, and 0.001:10:5",
        ),
    ] = None,
    kernel: Annotated[
        KernelName, typer.Option("--kernel", "-k", metavar="NAME", help=f"Kernel function: {listed(KernelName)}.")
    ] = KernelName.rbf,
    epsilon: Annotated[
        str | None,
        typer.Option(metavar="GRID", help="Values of epsilon, of regression.", show_default="0.1"),
    ] = None,
    task: Annotated[
        Task, typer.Option(metavar="TASK", help="What the labels are for: auto, classification or regression.")
    ] = Task.auto,
    cv: Annotated[int, typer.Option(help="Folds.")] = 5,
    linear: Annotated[bool, typer.Option("--linear", help="A linear machine, of which C is chosen alone.")] = False,
    penalty: Annotated[str, typer.Option(help="Of --linear: l1 (few features) or l2.")] = "l2",
    loss: Annotated[str, typer.Option(help="Of --linear: hinge or squared_hinge.")] = "squared_hinge",
    smoothing: Annotated[
        str | None,
        typer.Option(
            metavar="GRID",
            help="Of --linear: values of eps of the smoothed problem. C, eps and --stop are then chosen together, "
            "by errors on a validation part.",
            show_default="0.1,0.01,0.001 with --stop",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    stop: Annotated[
        str | None,
        typer.Option(
            metavar="GRID",
            help="Norms of the gradient to stop at, likewise.",
            show_default="0.1,0.001,1e-05 with --smoothing",
            rich_help_panel=_VALIDATION,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(help="Solver of the smoothed problem: sesop, cg, tn, ...", rich_help_panel=_VALIDATION)
    ] = "sesop",
    validation: Annotated[
        float, typer.Option(metavar="SHARE", help="Samples the constants are chosen by.", rich_help_panel=_VALIDATION)
    ] = 0.25,
    test: Annotated[
        float,
        typer.Option(metavar="SHARE", help="Samples the chosen machine is tested on.", rich_help_panel=_VALIDATION),
    ] = 0.25,
    seed: Annotated[int, typer.Option(help="Of the division into parts.", rich_help_panel=_VALIDATION)] = 0,
    label_column: Annotated[
        str, typer.Option(help="Of a csv file: the label's column, by name or number.", rich_help_panel=_DATA)
    ] = "auto",
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether a csv file begins with names.",
            show_default="looked at",
            rich_help_panel=_DATA,
        ),
    ] = None,
    tol: Annotated[
        float, typer.Option(help="KKT violation to reach, without --gap-tol.", rich_help_panel=_LIMITS)
    ] = 1e-3,
    gap_tol: Annotated[
        float | None, typer.Option(help="Relative duality gap to reach.", rich_help_panel=_LIMITS)
    ] = None,
    cache_size: Annotated[float, typer.Option(help="Megabytes for kernel values.", rich_help_panel=_LIMITS)] = 200.0,
    n_jobs: Annotated[int | None, typer.Option(help="Threads.", show_default="all", rich_help_panel=_LIMITS)] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="MODEL", help="Write the best model here.", rich_help_panel=_OUTPUT),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all scores here.", rich_help_panel=_OUTPUT)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the scores into a png, svg or pdf.", rich_help_panel=_OUTPUT),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no table.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Choose C and gamma (and epsilon of regression) for FILE by cross-validation, and train with them.

    Example: dualgap tune heart.csv -C 0.1:1000:8 --gamma 0.001:1:4 -o heart.dualgap --plot heart.svg
    """
    from dualgap.cli.pictures import check_plot, save_search_plot

    check_output(output, "--output", file, json, plot)
    check_output(json, "--json", file, output, plot)
    check_output(plot, "--plot", file, output, json)
    if plot is not None:
        check_plot(plot)
    Cs = grid(C, "-C")
    if smoothing is not None or stop is not None:
        from dualgap.cli.tune_primal import Constants, Division, tune_constants

        if not linear:
            raise ValueError("--smoothing and --stop are for --linear.")
        for option, value in (("--gamma", gamma), ("--gap-tol", gap_tol), ("--output", output), ("--plot", plot)):
            if value is not None:
                raise ValueError(f"{option} means nothing to --smoothing and --stop.")
        constants = Constants.of(Cs, smoothing, stop)
        with Progress(f"reading {file.name}", quiet=quiet):
            data = read(file, label_column, header, "linear")
        tune_constants(data, constants, penalty, loss, method, Division(validation, test, seed), json, quiet)
        return
    if linear:
        from dualgap.cli.tune_linear import tune_linear

        tune_linear(file, Cs, penalty, loss, gamma, cv, label_column, header, gap_tol, n_jobs, output, json, quiet)
        return
    if (penalty, loss) != ("l2", "squared_hinge"):
        raise ValueError("--penalty and --loss are for --linear.")
    if gamma is not None and "gamma" not in KERNEL_READS[kernel.value]:
        readers = [known for known, reads in KERNEL_READS.items() if "gamma" in reads]
        raise ValueError(f"--gamma means nothing to --kernel {kernel.value}; it is for {', '.join(readers)}.")
    gammas: list[Any] | None = None
    if "gamma" in KERNEL_READS[kernel.value]:
        gammas = ["scale", *grid("0.001:10:5", "--gamma")] if gamma is None else _gammas(gamma)
    if cv < 2:
        raise ValueError(f"--cv {cv}: there must be at least 2 folds.")
    with Progress(f"reading {file.name}", quiet=quiet):
        data = read(file, label_column, header, kernel.value)
    row, why = choose(data, task.value, None)
    if row not in _SCORE_OF:
        remark = why or f"--task {task.value}"
        raise ValueError(f"{file}: tune chooses parameters of classifiers and regressors, not of this task ({remark}).")
    if epsilon is not None and row != "eps_svr":
        raise ValueError("--epsilon means nothing to classifiers; it is for --task regression.")
    epsilons = None if epsilon is None else grid(epsilon, "--epsilon")
    if not quiet:
        tell_data(data, row, why)
    params = {
        **given({"gap_tol": gap_tol, "n_jobs": n_jobs}),
        "kernel": kernel.value,
        "tol": tol,
        "cache_size": cache_size,
    }
    grids = {"Cs": Cs, "gammas": gammas, **({} if epsilons is None else {"epsilons": epsilons})}
    search, took = _search(row, data, params, grids, cv, n_jobs, quiet)
    if not quiet:
        _tell(search, _SCORE_OF[row], Cs, gammas)
        fits = len(search.cv_results_["params"]) * cv
        fact("time", f"{seconds(took)} for {counted(fits, 'fit')}, and one with the best parameters")
    best = ", ".join(f"{name} = {_short(value)}" for name, value in search.best_params_.items())
    if not quiet:
        fact("best", f"{best}: {_SCORE_OF[row]} {search.best_score_:.4f} by {cv}-fold cross-validation")
        fact("certificate", verdict(search.best_estimator_.certificate_))
    _write(search, output, json, file, took)
    if plot is not None:
        save_search_plot(search, plot, title=file.name)
        fact("plot", str(plot))


def _gammas(text: str) -> list[Any]:
    return grid(text, "--gamma", words=("scale", "auto"))


def _search(
    row: str, data: Any, params: dict[str, Any], grids: dict[str, Any], cv: int, n_jobs: int | None, quiet: bool
) -> tuple[Any, float]:
    from dualgap.estimators import SVC, SVR
    from dualgap.estimators.regression_search import SVRSearchCV
    from dualgap.estimators.search import SVCSearchCV

    machine, kind = (SVC, SVCSearchCV) if row == "c_svc" else (SVR, SVRSearchCV)
    search: Any = kind(machine(**params), cv=cv, n_jobs=n_jobs, **grids)
    began = time.perf_counter()
    with Progress("tuning", quiet=quiet), warnings.catch_warnings():
        # A class with fewer samples than folds is said by scikit-learn in terms of its own.
        warnings.filterwarnings("ignore", message="The least populated class")
        search.fit(data.X, data.y)
    return search, time.perf_counter() - began


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.6g}"


def _tell(search: Any, name: str, Cs: list[float], gammas: list[Any] | None) -> None:
    """Scores, a row a C and a column a gamma, at the best epsilon."""
    results = search.cv_results_
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    epsilon = search.best_params_.get("epsilon")
    at = "" if epsilon is None else f" at epsilon {_short(epsilon)}"
    table.add_column(f"{name}{at}: C", justify="right")
    columns = [None] if gammas is None else gammas
    for value in columns:
        table.add_column("" if value is None else f"gamma {_short(value)}", justify="right")
    shown = [(k, p) for k, p in enumerate(results["params"]) if p.get("epsilon") == epsilon]
    score = {(p["C"], p.get("gamma")): k for k, p in shown}
    for C in Cs:
        cells = []
        for value in columns:
            k = score[C, value]
            best = k == search.best_index_
            cells.append(Text(f"{results['mean_test_score'][k]:.4f}", style="bold green" if best else ""))
        table.add_row(_short(C), *cells)
    standard().print(table)


def _write(search: Any, output: Path | None, json: Path | None, file: Path, took: float) -> None:
    from dualgap.formats.model import save

    if output is not None:
        save(search.best_estimator_, output)
        fact("saved", f"{output} ({size(output)})")
    if json is not None:
        results = search.cv_results_
        rows = [
            {
                **params,
                "mean_test_score": float(results["mean_test_score"][k]),
                "std_test_score": float(results["std_test_score"][k]),
                "rank": int(results["rank_test_score"][k]),
            }
            for k, params in enumerate(results["params"])
        ]
        best = {**search.best_params_, "score": float(search.best_score_)}
        write_json({"file": str(file), "seconds": took, "best": best, "candidates": rows}, json)
        fact("saved", str(json))
