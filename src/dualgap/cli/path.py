"""``dualgap path``: one machine for many values of a parameter."""

from __future__ import annotations

import time
import warnings
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dualgap.cli.choices import (
    FormulationName,
    KernelName,
    Task,
    check_kernel_options,
    check_machine_options,
    choose,
    gamma_choice,
    given,
    listed,
    option,
)
from dualgap.cli.files import check_output
from dualgap.cli.grids import GRID_HELP, grid, read, write_json
from dualgap.cli.output import SHORT, counted, fact, seconds, standard, warn
from dualgap.cli.progress import Progress
from dualgap.cli.summary import tell_data
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from dualgap.path import PathResult

_DATA, _LIMITS, _OUTPUT = "Data", "How precisely", "Output"


class ParameterName(StrEnum):
    """What can vary."""

    C = "C"
    nu = "nu"
    gamma = "gamma"
    epsilon = "epsilon"


_USUAL = {"C": "0.01:1000:20", "nu": "0.05,0.1,0.2,0.3,0.4,0.5", "gamma": "0.001:10:9", "epsilon": "0.01:1:9"}


def path(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="LIBSVM text, csv or npz; .gz, .bz2 and .xz as well.")],
    values: Annotated[
        str | None,
        typer.Option("--values", "-v", metavar="GRID", help=f"Values: {GRID_HELP}.", show_default="by parameter"),
    ] = None,
    parameter: Annotated[
        ParameterName, typer.Option("--parameter", "-p", metavar="NAME", help=f"What varies: {listed(ParameterName)}.")
    ] = ParameterName.C,
    kernel: Annotated[
        KernelName, typer.Option("--kernel", "-k", metavar="NAME", help=f"Kernel function: {listed(KernelName)}.")
    ] = KernelName.rbf,
    C: Annotated[float | None, typer.Option("-C", help="Price of an error.", show_default="1.0")] = None,
    gamma: Annotated[
        str, typer.Option("--gamma", "-g", help="Width of the kernel: scale, auto or a number.")
    ] = "scale",
    nu: Annotated[float | None, typer.Option(help="Fraction of errors.", show_default="0.5")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Half width of eps_svr's tube.", show_default="0.1")] = None,
    task: Annotated[Task, typer.Option(metavar="TASK", help=f"What the labels are for: {listed(Task)}.")] = Task.auto,
    formulation: Annotated[
        FormulationName | None,
        typer.Option(metavar="NAME", help=f"Which machine: {listed(FormulationName)}.", show_default="by task"),
    ] = None,
    solver: Annotated[str, typer.Option(metavar="NAME", help="A name that 'dualgap solvers' lists, or auto.")] = "auto",
    cv: Annotated[
        int | None,
        typer.Option(help="Folds for validation errors.", show_default="no validation", rich_help_panel=_DATA),
    ] = None,
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
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the numbers here.", rich_help_panel=_OUTPUT)
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE", help="Draw the path into a png, svg or pdf.", rich_help_panel=_OUTPUT),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no table.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Solve FILE for many values of one parameter, each from the solution before, and certify every one.

    Example: dualgap path heart.csv --values 0.01:1000:20 --cv 5 --plot path.png
    """
    from dualgap.cli.pictures import check_plot, save_plot

    check_output(json, "--json", file, plot)
    check_output(plot, "--plot", file, json)
    if plot is not None:
        check_plot(plot)
    wanted = grid(values or _USUAL[parameter.value], "--values")
    shape: dict[str, Any] = {"gamma": None if gamma == "scale" else gamma}
    check_kernel_options(kernel.value, shape)
    machine: dict[str, Any] = {"C": C, "nu": nu, "epsilon": epsilon}
    if machine.get(parameter.value) is not None or (parameter.value == "gamma" and shape["gamma"] is not None):
        name = parameter.value
        raise ValueError(f"{option(name)} is fixed and --parameter {name} varies it; leave {option(name)} out.")
    if cv is not None and cv < 2:
        raise ValueError(f"--cv {cv}: there must be at least 2 folds.")
    with Progress(f"reading {file.name}", quiet=quiet):
        data = read(file, label_column, header, kernel.value)
    row, why = choose(data, task.value, None if formulation is None else formulation.value)
    check_machine_options(row, machine)
    if not quiet:
        tell_data(data, row, why)
    settings = {
        **given({**machine, "cv": cv, "gap_tol": gap_tol, "n_jobs": n_jobs}),
        "gamma": gamma_choice(gamma),
        "kernel": kernel.value,
        "parameter": parameter.value,
        "row": row,
        "solver": solver,
        "tol": tol,
        "cache_size": cache_size,
    }
    found, took = _walk(data, wanted, settings, quiet)
    short = sum(status.name != "CONVERGED" for status in found.statuses)
    if not quiet:
        _tell(found, took)
    if json is not None:
        write_json({"settings": {**settings, "file": str(file)}, "seconds": took, "path": found.as_rows()}, json)
        fact("saved", str(json))
    if plot is not None:
        save_plot(found, plot, title=f"{file.name}, {row}")
        fact("plot", str(plot))
    if short:
        warn(
            f"{counted(short, 'value')} of {len(found)} ended short of the tolerance; loosen --tol or --gap-tol, "
            f"or scale the features."
        )
        raise typer.Exit(SHORT)


def _walk(data: Any, values: list[float], settings: dict[str, Any], quiet: bool) -> tuple[PathResult, float]:
    from dualgap.path import svm_path

    began = time.perf_counter()
    with Progress("solving", quiet=quiet) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what ended short is said at the end
        found = svm_path(data.X, data.y, values, callback=progress.watch, mixed_events=True, **settings)
    return found, time.perf_counter() - began


def _tell(found: PathResult, took: float) -> None:
    with_errors = found.validation_errors is not None
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    for heading in (found.parameter, "objective", "gap", "vectors", "iterations", "time"):
        table.add_column(heading, justify="right")
    if with_errors:
        table.add_column("error", justify="right")
    for k, value in enumerate(found.values):
        certificate = found.certificates[k]
        cells = [
            f"{value:.6g}",
            f"{found.objectives[k]:.8g}",
            "none" if certificate.note else at_most(certificate.relative_gap),
            f"{found.n_support[k]:,}",
            "none" if found.skipped[k] else f"{found.iterations[k]:,}",
            seconds(float(found.seconds[k])),
        ]
        best = found.validation_errors is not None and k == found.best
        if found.validation_errors is not None:
            cells.append(f"{found.validation_errors[k]:.4g}")
        table.add_row(*(Text(cell, style="bold" if best else "") for cell in cells))
    console = standard()
    console.print(table)
    unsolved = counted(int(found.skipped.sum()), "value")
    fact("time", f"{seconds(took)}; for {unsolved} of {len(found)} the start was proved good enough, and no solver ran")
    if found.validation_errors is not None:
        fact("best", f"{found.parameter} = {found.values[found.best]:.6g} by validation error")
