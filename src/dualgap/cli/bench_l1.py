"""What ``dualgap bench l1`` prints."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from dualgap.cli.bench_output import print_table
from dualgap.cli.output import fact

if TYPE_CHECKING:
    from dualgap.bench.l1 import L1Compared, L1Run

_NOTE = (
    "Times: processor seconds of a fit (wall seconds in brackets), one thread, medians. Error: how far the objective "
    "of the weights is above the best certified lower bound, relatively. Ratio: the peer's processor time over "
    "dualgap's; >= where the peer did not reach the error asked for in its time. Peers run at their loosest tolerance "
    "that does, and the fastest of them is compared with. Warm-up (compiling, loading, a small fit) is not timed."
)


def tell_l1(results: list[L1Compared], json: Path | None) -> None:
    """A table a loss, the means of the ratios, and a file where one is wanted."""
    from dualgap.bench.l1 import geometric_mean
    from dualgap.bench.machine import describe_machine, describe_versions
    from dualgap.cli.grids import write_json

    for loss in dict.fromkeys(one.loss for one in results):
        mine = [one for one in results if one.loss == loss]
        libraries = sorted({run.library for one in mine for run in (one.peer, *one.others)})
        fact(
            "loss", f"{loss}: dualgap beside {', '.join(libraries)}, to a relative error of {mine[0].settings.error:g}"
        )
        print_table(_table(mine))
        fact("mean ratio", f"{geometric_mean(mine, loss):.2f} to the fastest peer of each problem")
        if len(libraries) > 1:
            print_table(_peers(mine, libraries))
            means = (f"{library} {geometric_mean(mine, loss, library):.2f}" for library in libraries)
            fact("mean ratios", ", ".join(means))
    fact("note", _NOTE)
    if json is not None:
        rows = [one.as_dict() for one in results]
        write_json({"machine": describe_machine(), "versions": describe_versions("linear"), "results": rows}, json)
        fact("saved", str(json))


def _table(results: list[L1Compared]) -> Table:
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    ours, theirs = ("objective", "dualgap", "error", "selected"), ("best peer", "its time", "error", "ratio")
    for name in ("data", "samples", "features", *ours, *theirs):
        table.add_column(name, justify="left" if name in ("data", "best peer") else "right")
    for one in results:
        sign = "" if one.reached else ">= "
        ratio = "-" if math.isnan(one.ratio) else f"{sign}{one.ratio:.1f}"
        table.add_row(
            one.data,
            str(one.rows),
            str(one.columns),
            f"{one.ours.objective:.9g}",
            _seconds(one.ours),
            f"{one.ours.error:.0e}",
            str(one.ours.features),
            one.peer.library,
            _seconds(one.peer),
            "-" if math.isnan(one.peer.error) else f"{one.peer.error:.0e}",
            ratio,
        )
    return table


def _peers(results: list[L1Compared], libraries: list[str]) -> Table:
    """Processor seconds of everybody."""
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False)
    for name in ("data", "dualgap", *libraries):
        table.add_column(name, justify="left" if name == "data" else "right")
    for one in results:
        runs = [one.run_of(library) for library in libraries]
        cells = ["-" if run is None else _bounded(run, one.settings.error) for run in runs]
        table.add_row(one.data, f"{one.ours.cpu:.3g} s", *cells)
    return table


def _bounded(run: L1Run, error: float) -> str:
    return "-" if math.isnan(run.cpu) else f"{'' if run.error <= error else '>= '}{run.cpu:.3g} s"


def _seconds(run: L1Run) -> str:
    return f"{run.cpu:.3g} s ({run.wall:.3g})"
