"""``dualgap train``: fit a model to a data file and say how good it is."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dualgap.cli.choices import (
    ESTIMATOR_OF,
    FormulationName,
    KernelName,
    Task,
    check_kernel_options,
    check_machine_options,
    choose,
    gamma_choice,
    given,
    listed,
)
from dualgap.cli.files import check_output, compact, header_choice, label_choice
from dualgap.cli.fitting import watched_fit
from dualgap.cli.output import SHORT, fact, size, warn
from dualgap.cli.progress import Progress
from dualgap.cli.scores import Scores, score
from dualgap.cli.summary import Run, page, tell_data, tell_run, warn_short
from dualgap.cli.train_linear import (
    LOSS_NAMES,
    LinearOrder,
    Reading,
    Streaming,
    check_linear_only,
    check_linear_options,
    check_tables,
    params_of,
    train_linear,
)

if TYPE_CHECKING:
    from dualgap.datasets import Dataset

# Rows up to which the training score is computed unasked: beyond, it can take as long as the training.
_SCORED_ROWS = 20_000
_DATA, _LIMITS, _OUTPUT = "Data", "How precisely, how long", "Output"
_LINEAR = "Linear machines"
# Megabytes of kernel values, and of rows that are read some at a time.
_CACHE, _MEMORY = 200.0, 200.0


class OnInterrupt(StrEnum):
    """What Ctrl-C does."""

    exit = "exit"
    keep = "keep"


def train(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="LIBSVM text, csv or npz; .gz, .bz2 and .xz as well.")],
    kernel: Annotated[
        KernelName | None,
        typer.Option(
            "--kernel", "-k", metavar="NAME", help=f"Kernel function: {listed(KernelName)}.", show_default="rbf"
        ),
    ] = None,
    C: Annotated[
        float | None, typer.Option("-C", help="Price of an error against the margin.", show_default="1.0")
    ] = None,
    gamma: Annotated[
        str, typer.Option("--gamma", "-g", help="Width of the kernel: scale, auto or a number.")
    ] = "scale",
    degree: Annotated[int | None, typer.Option(help="Degree of poly.", show_default="3")] = None,
    coef0: Annotated[float | None, typer.Option(help="Constant of poly and sigmoid.", show_default="0.0")] = None,
    nu: Annotated[
        float | None, typer.Option(help="Fraction of errors, for the nu formulations.", show_default="0.5")
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Half width of eps_svr's tube.", show_default="0.1")] = None,
    task: Annotated[
        Task,
        typer.Option(metavar="TASK", help=f"What the labels are for: {listed(Task)}; auto looks at them."),
    ] = Task.auto,
    formulation: Annotated[
        FormulationName | None,
        typer.Option(
            metavar="NAME",
            help=f"Which machine: {listed(FormulationName)}.",
            show_default="c_svc, eps_svr or one_class, by task",
        ),
    ] = None,
    solver: Annotated[str, typer.Option(metavar="NAME", help="A name that 'dualgap solvers' lists, or auto.")] = "auto",
    tol: Annotated[
        float | None,
        typer.Option(help="KKT violation to reach.", show_default="0.001", rich_help_panel=_LIMITS),
    ] = None,
    gap_tol: Annotated[
        float | None,
        typer.Option(help="Relative duality gap to reach, in place of --tol.", rich_help_panel=_LIMITS),
    ] = None,
    max_iter: Annotated[
        int | None,
        typer.Option(help="Iterations at most.", show_default="no limit", rich_help_panel=_LIMITS),
    ] = None,
    time_limit: Annotated[
        float | None,
        typer.Option(
            help="Seconds at most for each pair of classes.", show_default="no limit", rich_help_panel=_LIMITS
        ),
    ] = None,
    cache_size: Annotated[
        float | None,
        typer.Option(help="Megabytes for kernel values.", show_default="200", rich_help_panel=_LIMITS),
    ] = None,
    n_jobs: Annotated[
        int | None,
        typer.Option(help="Threads for kernel products.", show_default="all cores", rich_help_panel=_LIMITS),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep the state of the run in this file, and go on from it if it is there.",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    on_interrupt: Annotated[
        OnInterrupt,
        typer.Option(
            help="What Ctrl-C does: exit, or keep the best model so far and write it.", rich_help_panel=_LIMITS
        ),
    ] = OnInterrupt.exit,
    linear: Annotated[
        bool,
        typer.Option(
            "--linear", help="A linear machine on its weights: for many samples or features.", rich_help_panel=_LINEAR
        ),
    ] = False,
    loss: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"Its loss: {', '.join(LOSS_NAMES)}.",
            show_default="the first of the task",
            rich_help_panel=_LINEAR,
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream",
            help="Do not load FILE (LIBSVM text): read some rows at a time. Means --linear.",
            rich_help_panel=_LINEAR,
        ),
    ] = False,
    memory: Annotated[
        float | None,
        typer.Option(
            help="Megabytes for the rows of --stream that are in memory at a time.",
            show_default="200",
            rich_help_panel=_LINEAR,
        ),
    ] = None,
    stream_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where --stream keeps its temporary rows, about as large as the text.",
            show_default="that of FILE",
            rich_help_panel=_LINEAR,
        ),
    ] = None,
    label_column: Annotated[
        str,
        typer.Option(
            help="Of a csv file: the label's column, by name or by number from 0, or none.",
            rich_help_panel=_DATA,
        ),
    ] = "auto",
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a csv file names the columns.",
            show_default="looked at",
            rich_help_panel=_DATA,
        ),
    ] = None,
    float32: Annotated[
        bool, typer.Option("--float32", help="Keep features in single precision.", rich_help_panel=_DATA)
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="MODEL", help="Write the model here.", rich_help_panel=_OUTPUT),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(metavar="HTML", help="Write a page about the run here.", rich_help_panel=_OUTPUT),
    ] = None,
    with_score: Annotated[
        bool | None,
        typer.Option(
            "--score/--no-score",
            help="Score the training data.",
            show_default=f"up to {_SCORED_ROWS:,} rows",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.", rich_help_panel=_OUTPUT)
    ] = False,
) -> None:
    """Train a model on FILE, certify it, and write it with -o.

    Example: dualgap train heart.csv -C 10 --gap-tol 1e-6 -o heart.dualgap --report heart.html
    """
    check_output(output, "--output", file, report)
    check_output(report, "--report", file, output)
    check_output(checkpoint, "--checkpoint", file, output, report)
    shape = {"gamma": None if gamma == "scale" else gamma, "degree": degree, "coef0": coef0}
    keep = "keep" if on_interrupt is OnInterrupt.keep else "raise"
    check_linear_options(linear or stream, {"loss": loss})
    check_linear_options(stream, {"memory": memory, "stream_dir": stream_dir}, "--stream")
    if linear or stream:
        foreign = {**shape, "nu": nu, "formulation": formulation, "tol": tol, "cache_size": cache_size}
        check_linear_only(None if kernel is None else kernel.value, foreign)
        check_tables(stream, label_column, header, float32)
        params = params_of(
            C=C, epsilon=epsilon, gap_tol=gap_tol, max_iter=max_iter, time_limit=time_limit, n_jobs=n_jobs,
            solver=solver, checkpoint=checkpoint, on_interrupt=keep,
        )  # fmt: skip
        reading = Reading(label_column, header, float32)
        streaming = Streaming(_MEMORY if memory is None else memory, stream_dir) if stream else None
        train_linear(
            LinearOrder(
                file, task.value, loss, params, reading, streaming, output, report, with_score, _SCORED_ROWS, quiet
            )
        )
        return
    machine = {"C": C, "nu": nu, "epsilon": epsilon}
    kernel = kernel or KernelName.rbf
    check_kernel_options(kernel.value, shape)
    with Progress(f"reading {file.name}", quiet=quiet):
        data = _read(file, label_column, header, float32, kernel.value)
    row, why = choose(data, task.value, None if formulation is None else formulation.value)
    check_machine_options(row, machine)
    params = {
        **given({**machine, **shape, "tol": tol, "max_iter": max_iter}),
        **given({"gap_tol": gap_tol, "time_limit": time_limit, "n_jobs": n_jobs}),
        "kernel": kernel.value,
        "solver": solver,
        "cache_size": _CACHE if cache_size is None else cache_size,
        "checkpoint": checkpoint,
        "on_interrupt": keep,
    }
    if "gamma" in params:
        params["gamma"] = gamma_choice(gamma)
    estimator = _estimator(row, params)
    if not quiet:
        tell_data(data, row, why)
    run = _fit(row, estimator, data, quiet)
    wanted = data.X.shape[0] <= _SCORED_ROWS if with_score is None else with_score
    with Progress("scoring", quiet=quiet):
        scores = score(run.model, data.X, data.y) if wanted else Scores()
    if not quiet:
        tell_run(run, data, scores)
        if with_score is None and not wanted:
            fact("score", f"not computed above {_SCORED_ROWS:,} samples; --score does")
    _write(run, data, scores, output, report, quiet)
    if run.model.status_.name == "INTERRUPTED":
        warn(_interrupted(run.model, checkpoint, output))
    elif run.model.fit_status_:
        warn_short(run.model)
        raise typer.Exit(SHORT)


def _interrupted(model: Any, checkpoint: Path | None, output: Path | None) -> str:
    """What an interrupted run has left, and how it goes on."""
    left = "the best model so far" + ("" if output is None else f" is in {output}")
    again = "" if checkpoint is None else f"; the same command goes on from {checkpoint}"
    return f"interrupted: {left}, with a certified relative gap of {model.certificate_.relative_gap:.1e}{again}"


def _read(file: Path, label_column: str, header: bool | None, float32: bool, kernel: str) -> Dataset:
    import numpy as np

    from dualgap.datasets import Dataset, load

    data = load(
        file,
        label_column=label_choice(label_column),
        header=header_choice(header),
        dtype=np.float32 if float32 else np.float64,
    )
    X = compact(data.X)
    if kernel == "precomputed" and X is data.X and hasattr(X, "toarray"):
        X = X.toarray()
    return Dataset(X, data.y, data.feature_names, data.source)


def _estimator(row: str, params: dict[str, Any]) -> Any:
    """The estimator, which has accepted its parameters: that is no matter for the end of a long wait."""
    from dualgap import estimators

    estimator = getattr(estimators, ESTIMATOR_OF[row])(**params)
    estimator._validate_params()
    return estimator


def _fit(row: str, model: Any, data: Dataset, quiet: bool) -> Run:
    loading = _load_code(model.solver, data.X.dtype, quiet)
    tasks = 1 if row not in ("c_svc", "nu_svc") else _pairs(data.y)
    took = watched_fit(model, data, Progress("training", tasks=tasks, quiet=quiet, goal=(model.tol, model.gap_tol)))
    return Run(row, model, took, loading)


def _load_code(solver: str, dtype: Any, quiet: bool) -> float:
    """Load the compiled code, or compile it the first time, so that it does not count as training."""
    import numpy as np

    from dualgap.formulations import build
    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.gram import make_gram
    from dualgap.run import UnsupportedProblemError, solve

    began = time.perf_counter()
    with Progress("loading compiled code (the first run compiles it)", quiet=quiet):
        gram = make_gram(np.eye(4, dtype=dtype), Kernel("rbf"))
        try:
            solve(build("c_svc", gram, np.array([-1.0, 1.0, -1.0, 1.0])), solver, warn=False)
        except UnsupportedProblemError:
            # This solver is for other machines than this one; what it needs is loaded when it runs.
            return 0.0
    return time.perf_counter() - began


def _pairs(y: Any) -> int:
    import numpy as np

    classes = len(np.unique(y))
    return classes * (classes - 1) // 2


def _keep_names(model: Any, data: Dataset) -> None:
    """As if a data frame had been fitted: predictions can then check the order of the columns."""
    import numpy as np

    if data.feature_names is not None:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)


def _write(run: Run, data: Dataset, scores: Scores, output: Path | None, report: Path | None, quiet: bool) -> None:
    from dualgap.formats.model import save
    from dualgap.report import write_page

    if output is not None:
        _keep_names(run.model, data)
        save(run.model, output)
        if not quiet:
            fact("saved", f"{output} ({size(output)})")
    if report is not None:
        write_page(page(run, data, scored=bool(scores.values)), report)
        if not quiet:
            fact("report", str(report))
    if output is None and not quiet:
        fact("saved", "nothing: name a file with -o to keep the model")
