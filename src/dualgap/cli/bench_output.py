"""What the comparisons print: machine, versions, tables and means; and how they are run with progress shown."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from dualgap.cli.files import check_output
from dualgap.cli.output import counted, fact, fail, seconds, standard
from dualgap.cli.progress import Progress

if TYPE_CHECKING:
    from rich.table import Table

    from dualgap.bench.results import Compared, Report

# Columns that the widest table takes; where there is no terminal its lines are not to be cut.
_TABLE_WIDTH = 150


def check_outputs(json: Path | None, resume: bool, plot: Path | None) -> None:
    """Find out, before any work is done, whether results can be kept and drawn."""
    from dualgap.bench.plot import check_plot

    check_output(json, "--json", plot)
    check_output(plot, "--plot", json)
    if plot is not None:
        check_plot(plot)
    if resume and json is None:
        raise ValueError("--resume needs the file to go on with; name it with --json.")
    if json is not None and json.exists() and not resume:
        raise ValueError(f"--json {json}: exists; add --resume to go on with it, or name another file.")


def run_with_progress(run_all: Callable[..., Report], json: Path | None, resume: bool) -> Report:
    """Run a comparison, saying what is being done; `run_all` takes the keywords of `series.run_all`."""
    console = Console(stderr=True, highlight=False)
    began = time.perf_counter()

    def done(result: Compared) -> None:
        nonlocal began
        console.print(f"{result.name}: done in {seconds(time.perf_counter() - began)}", soft_wrap=True)
        began = time.perf_counter()

    with Progress("starting") as progress:

        def tell(step: str) -> None:
            progress.work, progress.began = step, time.perf_counter()

        try:
            return run_all(file=json, resume=resume, tell=tell, done=done)
        except KeyboardInterrupt:
            if json is not None and json.exists():
                fail(f"what was finished is in {json}; --resume goes on from there", prefix="")
            raise


def tell_where(report: Report, threads: str, times: str) -> None:
    """Machine, versions, threads and how it was timed."""
    machine, settings = report.machine, report.settings
    memory = "" if machine["memory_gb"] is None else f", {machine['memory_gb']} GB"
    fact("machine", f"{machine['processor']}, {counted(machine['cores'], 'core')}{memory}, {machine['system']}")
    fact("versions", ", ".join(f"{name} {version or 'missing'}" for name, version in report.versions.items()))
    fact("threads", threads)
    runs = "single runs" if settings["repeat"] == 1 else f"medians of {settings['repeat']} runs"
    fact("times", f"{runs} of the fit alone{times}, at most {settings['limit']:g} s each")


def tell_files(report: Report, json: Path | None, plot: Path | None) -> None:
    """Draw the picture, and say where everything is."""
    if plot is not None:
        from dualgap.bench.plot import save_plot

        save_plot(report, plot)
        fact("plot", str(plot))
    if json is not None:
        fact("saved", str(json))


def print_means(label: str, means: Sequence[Any]) -> None:
    """Means, one a line, the first with the label."""
    for mean in means:
        fact(label, str(mean))
        label = ""


def print_table(table: Table) -> None:
    """A table between empty lines."""
    console = standard()
    if not console.is_terminal:
        console = Console(highlight=False, width=_TABLE_WIDTH)
    console.print()
    console.print(table)
    console.print()


def print_list(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The problems of a comparison."""
    import os

    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in headings:
        table.add_column(heading, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    print_table(table)
    folder = "is set" if os.environ.get("DUALGAP_DATA") else "is not set"
    fact("data", f"read from the folder that DUALGAP_DATA names, which {folder}")
