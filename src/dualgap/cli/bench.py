"""``dualgap bench kernel``: the kernel machines of dualgap beside those of other libraries."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dualgap.cli.files import check_output
from dualgap.cli.output import counted, fact, fail, seconds, standard
from dualgap.cli.progress import Progress

if TYPE_CHECKING:
    from rich.table import Table

    from dualgap.bench.kernel import Settings
    from dualgap.bench.problems import Problem
    from dualgap.bench.results import Report

# Columns that the widest table takes; where there is no terminal its lines are not to be cut.
_TABLE_WIDTH = 130
_REPEAT, _GAP = 3, 1e-6
_WHAT, _HOW, _OUTPUT = "What is compared", "How it is run", "Output"

bench = typer.Typer(
    help="Compare dualgap with other libraries, at equal certified quality.",
    rich_markup_mode="rich",
    add_completion=False,
)


@bench.callback()
def _bench() -> None:
    """Make ``kernel`` a command of its own also while it is the only one."""


@bench.command()
def kernel(
    problem: Annotated[
        list[str] | None,
        typer.Option(
            "--problem",
            "-p",
            metavar="NAME",
            help="A problem that --list shows; may be repeated.",
            show_default="all",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="scikit-learn, intelex or libsvm; may be repeated.",
            show_default="all",
            rich_help_panel=_WHAT,
        ),
    ] = None,
    gap: Annotated[float, typer.Option(help="Relative duality gap of the second table.", rich_help_panel=_WHAT)] = _GAP,
    show: Annotated[bool, typer.Option("--list", help="List the problems and end.", rich_help_panel=_WHAT)] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="One fit of each, and no second table.", rich_help_panel=_HOW)
    ] = False,
    repeat: Annotated[
        int | None,
        typer.Option(help="Fits of each; the median counts.", show_default=str(_REPEAT), rich_help_panel=_HOW),
    ] = None,
    cache_size: Annotated[
        float, typer.Option(help="Megabytes for kernel values, the same for all.", rich_help_panel=_HOW)
    ] = 4000.0,
    limit: Annotated[float, typer.Option(help="Seconds after which a fit is ended.", rich_help_panel=_HOW)] = 300.0,
    memory: Annotated[
        bool,
        typer.Option("--memory", help="Measure dualgap's peak memory, by a fit more of each.", rich_help_panel=_HOW),
    ] = False,
    json: Annotated[
        Path | None,
        typer.Option(
            "--json", metavar="FILE", help="Keep everything here, after each problem.", rich_help_panel=_OUTPUT
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Run only what the file of --json lacks.", rich_help_panel=_OUTPUT)
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw gap against time; .svg and .pdf as well.", rich_help_panel=_OUTPUT),
    ] = None,
) -> None:
    """Time dualgap and its peers on kernel problems; the gap of every solution is certified by dualgap.

    Peers run at their default tolerance and dualgap at the gap each of them reached; then all at the gap of --gap.
    The data sets are those in the folder that DUALGAP_DATA names.

    Example: dualgap bench kernel --quick -p cpusmall -p letter_c10 --json bench.json --plot bench.png
    """
    from dualgap.bench.kernel import Settings
    from dualgap.bench.libraries import select_peers
    from dualgap.bench.machine import available_cores
    from dualgap.bench.problems import check_files, select

    if show:
        _list_problems()
        return
    problems = select(problem or [])
    settings = Settings(
        cache_size=cache_size,
        repeat=repeat if repeat is not None else 1 if quick else _REPEAT,
        gap=gap,
        limit=limit,
        memory=memory,
        threads=available_cores(),
        peers=select_peers(peer or []),
    )
    settings.check()
    settings = replace(settings, gap=None) if quick else settings
    _check_outputs(json, resume, plot)
    check_files(one.file for one in problems)
    report = _run(problems, settings, json, resume)
    _tell(report)
    if plot is not None:
        from dualgap.bench.plot import save_plot

        save_plot(report, plot)
        fact("plot", str(plot))
    if json is not None:
        fact("saved", str(json))


def _check_outputs(json: Path | None, resume: bool, plot: Path | None) -> None:
    from dualgap.bench.plot import check_plot

    check_output(json, "--json", plot)
    check_output(plot, "--plot", json)
    if plot is not None:
        check_plot(plot)
    if resume and json is None:
        raise ValueError("--resume needs the file to go on with; name it with --json.")
    if json is not None and json.exists() and not resume:
        raise ValueError(f"--json {json}: exists; add --resume to go on with it, or name another file.")


def _run(problems: list[Problem], settings: Settings, json: Path | None, resume: bool) -> Report:
    from dualgap.bench.kernel import run_all
    from dualgap.bench.machine import describe_machine, describe_versions
    from dualgap.bench.results import ProblemResult, Report

    report = Report(describe_machine(), describe_versions(), asdict(settings))
    console = Console(stderr=True, highlight=False)
    began = time.perf_counter()

    def done(result: ProblemResult) -> None:
        nonlocal began
        console.print(f"{result.name}: done in {seconds(time.perf_counter() - began)}", soft_wrap=True)
        began = time.perf_counter()

    with Progress("starting") as progress:

        def tell(step: str) -> None:
            progress.work, progress.began = step, time.perf_counter()

        try:
            return run_all(problems, report, settings, file=json, resume=resume, tell=tell, done=done)
        except KeyboardInterrupt:
            if json is not None and json.exists():
                fail(f"what was finished is in {json}; --resume goes on from there", prefix="")
            raise


def _tell(report: Report) -> None:
    """Machine, tables and means."""
    from dualgap.bench.tables import Footnotes, comparison_table, problem_table, thread_line

    settings, machine = report.settings, report.machine
    memory = "" if machine["memory_gb"] is None else f", {machine['memory_gb']} GB"
    fact("machine", f"{machine['processor']}, {counted(machine['cores'], 'core')}{memory}, {machine['system']}")
    fact("versions", ", ".join(f"{name} {version or 'missing'}" for name, version in report.versions.items()))
    fact("threads", thread_line(report))
    runs = "single runs" if settings["repeat"] == 1 else f"medians of {settings['repeat']} runs"
    fact("times", f"{runs} of the fit alone, cache {settings['cache_size']:g} MB, at most {settings['limit']:g} s each")
    _print(problem_table(report.problems))
    notes = Footnotes()
    fact("default", "peers at their default tolerance, dualgap at the gap each of them reached")
    _print(comparison_table(report.problems, "default", notes))
    _print_means(report, "default")
    if settings["gap"] is not None:
        fact("equal gap", f"relative gap {settings['gap']:g}: peers at the loosest tolerance that reaches it")
        _print(comparison_table(report.problems, "tight", notes))
        _print_means(report, "tight")
    for line in notes.lines():
        fact("", line)
    fact("note", _EXPLANATION)


_EXPLANATION = (
    "Ratio: the peer's time over dualgap's; * marks the fastest peer of the same input. Gaps are relative duality "
    "gaps of the samples as given, computed by dualgap.certify from everybody's dual variables after the clock has "
    "stopped. Warm-up (compiling, loading, a small fit) and LIBSVM's conversion of the data are not timed. Floor: the "
    "time for the kernel values between samples and support vectors. Memory: what a fit needs beyond the data."
)


def _print_means(report: Report, side: str) -> None:
    from dualgap.bench.tables import means

    for label, extra in (("mean ratio", False), ("others", True)):
        for mean in means([result for result in report.problems if result.extra == extra], side):
            fact(label, str(mean))
            label = ""
    standard().print()


def _print(table: Table) -> None:
    console = standard()
    if not console.is_terminal:
        console = Console(highlight=False, width=_TABLE_WIDTH)
    console.print()
    console.print(table)
    console.print()


def _list_problems() -> None:
    from rich.table import Table

    from dualgap.bench.problems import PROBLEMS

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in ("problem", "data", "machine"):
        table.add_column(heading, no_wrap=True)
    for one in PROBLEMS.values():
        table.add_row(
            one.name, one.file or "bundled with scikit-learn", one.title() + ("" if one.usual else " (only if named)")
        )
    _print(table)
    folder = "is set" if os.environ.get("DUALGAP_DATA") else "is not set"
    fact("data", f"read from the folder that DUALGAP_DATA names, which {folder}")
