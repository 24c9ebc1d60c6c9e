"""``dualgap reproduce``: the papers' experiments, one command each."""

from __future__ import annotations

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


def reproduce(
    name: Annotated[str, typer.Argument(metavar="NAME", help="rosen, sesop, lecture, dcd, mpd, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A short run of each: a minute or two in place of about twenty.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="DIR", help="Write JSON, SVG figures and one HTML page here; made where missing."
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all records into one file.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Take finished experiments of the same length from --out.")
    ] = False,
) -> None:
    """Run a paper's experiments and say which of its claims hold.

    Tables and figures stand beside the printed ones. Real data are read from the folder that DUALGAP_DATA names.

    Example: dualgap reproduce rosen --quick --out results
    """
    from dualgap.reproduce import store
    from dualgap.reproduce.experiments import LIMITS, check_data, select

    names = select(name)
    check_output(json, "--json", None)
    if resume and out is None:
        raise ValueError("--resume needs the folder to go on with; name it with --out.")
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
    known = {one: store.finished(one, out, quick=quick) if resume and out is not None else None for one in names}
    for one in names:
        if known[one] is None:
            check_data(one, quick=quick)
    records = []
    for one in names:
        record = known[one]
        if record is None:
            record = _run(one, quick, out)
        records.append(record)
        if out is not None:
            store.save(record, out)
            store.save_page(store.beside(records, out, LIMITS), out)
        _show(record)
    if json is not None:
        store.save_json(records, json)
        fact("saved", str(json))
    if out is not None:
        fact("page", str(out / store.PAGE))


def _run(name: str, quick: bool, out: Path | None) -> Record:
    from dualgap.reproduce.experiments import run

    with Progress(f"{name}: starting") as progress:

        def tell(step: str) -> None:
            progress.work = step

        try:
            record = run(name, quick=quick, tell=tell)
        except KeyboardInterrupt:
            if out is not None:
                fail(f"finished experiments are in {out}; --resume goes on from there", prefix="")
            raise
    Console(stderr=True, highlight=False).print(f"{name}: done in {seconds(record.seconds)}", soft_wrap=True)
    return record


def _show(record: Record) -> None:
    from dualgap.reproduce.terminal import show

    console = standard()
    show(record, console if console.is_terminal else Console(highlight=False, width=_TABLE_WIDTH))
