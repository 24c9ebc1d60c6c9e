"""``dualgap reproduce``: the papers' experiments, one command each."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from dualgap.cli.files import check_output
from dualgap.cli.output import fact, fail, seconds, standard
from dualgap.cli.progress import Progress

if TYPE_CHECKING:
    from dualgap.reproduce.record import Record

# Columns that the widest table takes; where there is no terminal its lines are not to be cut.
_TABLE_WIDTH = 220
# Seconds between two lines of progress where there is no terminal to keep one line up to date on.
_LINE_EVERY = 15.0


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="rosen, sesop, lecture, dcd, mpd, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A short run: minutes for all in place of most of an hour.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "--out",
            "-o",
            metavar="DIR",
            help="Write JSON, SVG figures, one HTML page and README.md here; made where missing.",
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all records into one file.")
    ] = None,
    go_on: Annotated[
        bool, typer.Option("--continue", "--resume", help="Take finished experiments of the same length from --output.")
    ] = False,
) -> None:
    """Run a paper's experiments and say which of its claims hold.

    Tables and figures stand beside the printed ones. Real data are read from the folder that DUALGAP_DATA names. Each
    experiment is written as soon as it is finished; one that would take longer than its time is cut and says so.

    Example: dualgap reproduce rosen --quick --output results
    """
    from dualgap.reproduce import store
    from dualgap.reproduce.experiments import check_data, select

    names = select(name)
    check_output(json, "--json", None)
    if go_on and output is None:
        raise ValueError("--continue needs the folder to go on with; name it with --output.")
    if output is not None:
        output.mkdir(parents=True, exist_ok=True)
    known = {one: store.finished(one, output, quick=quick) if go_on and output else None for one in names}
    for one in names:
        if known[one] is None:
            check_data(one, quick=quick)
    records = []
    for one in names:
        record = known[one]
        if record is None:
            record = _run(one, quick, output)
        records.append(record)
        if output is not None:
            _save(record, records, output)
        _show(record)
    if json is not None:
        store.save_json(records, json)
        fact("saved", str(json))
    if output is not None:
        fact("page", str(output / store.PAGE))


def _save(record: Record, records: list[Record], output: Path) -> None:
    """The record, its figures, and everything that is about all records."""
    from dualgap.bench.summary import section
    from dualgap.reproduce import store
    from dualgap.reproduce.experiments import LIMITS

    store.save(record, output)
    store.save_page(store.beside(records, output, LIMITS), output)
    store.save_index(output, LIMITS, section(output))


def _run(name: str, quick: bool, output: Path | None) -> Record:
    from dualgap.reproduce.experiments import run

    with Progress(f"{name}: starting") as progress:
        try:
            record = run(name, quick=quick, tell=_teller(progress))
        except KeyboardInterrupt:
            if output is not None:
                fail(f"finished experiments are in {output}; --continue goes on from there", prefix="")
            raise
    Console(stderr=True, highlight=False).print(f"{name}: done in {seconds(record.seconds)}", soft_wrap=True)
    return record


def _teller(progress: Progress) -> Callable[[str], None]:
    """What keeps a terminal's line up to date, or writes a line now and then where there is none."""
    began = last = time.perf_counter()

    def tell(step: str) -> None:
        nonlocal last
        progress.work = step
        now = time.perf_counter()
        if not progress.shown and now - last >= _LINE_EVERY:
            last = now
            progress.console.print(f"{step} ({seconds(now - began)})", soft_wrap=True)

    return tell


def _show(record: Record) -> None:
    from dualgap.reproduce.terminal import show

    console = standard()
    show(record, console if console.is_terminal else Console(highlight=False, width=_TABLE_WIDTH))
