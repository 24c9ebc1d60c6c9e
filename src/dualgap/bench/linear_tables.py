"""What only the comparison of linear machines prints: its problems, who reached the gap, the spread over seeds."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from rich.text import Text

from dualgap.bench.linear_libraries import ALL_THREADS, LIBRARIES
from dualgap.bench.packages import OURS
from dualgap.bench.tables import NOTHING, Footnotes, in_seconds, table_of
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.table import Table

    from dualgap.bench.results import LinearResult, Report, Runs


def problem_table(results: Iterable[LinearResult]) -> Table:
    """What was solved, and the run that everybody is measured by."""
    table = table_of(
        "problem", "machine", right=("n", "d", "nonzeros", "solver", "reference gap", "reference s", "warm-up s")
    )
    for result in results:
        tight = [c.ours.solver for c in [*result.tight, *result.default] if c.ours.solver]
        gap = result.reference.get("gap")
        table.add_row(
            result.name,
            Text(result.title),
            f"{result.n:,}",
            f"{result.d:,}",
            f"{result.nonzeros:,}",
            tight[0] if tight else NOTHING,
            NOTHING if gap is None else at_most(gap),
            in_seconds(result.reference.get("seconds")),
            in_seconds(result.warm_up.get(f"{OURS} {result.precision}")),
        )
    return table


def reached(results: Iterable[LinearResult], peers: Iterable[str]) -> list[str]:
    """Of dualgap and each peer: on how many of the problems that it could be asked for it reached the common gap."""
    results = list(results)
    lines = []
    for name in (OURS, *peers):
        asked = [runs for result in results if (runs := _runs_at_gap(name, result)) is not None]
        if asked:
            good = sum(runs.seconds is not None for runs in asked)
            lines.append(f"{name} on {good} of {len(asked)} {'problem' if len(asked) == 1 else 'problems'}")
    return lines


def _runs_at_gap(name: str, result: LinearResult) -> Runs | None:
    """The runs at the common gap; None of a library that could not be asked, which never had a goal."""
    if name == OURS:
        return next((c.ours for c in result.tight), None)
    if not any(c.peer.library == name and c.peer.goal for c in result.default):
        return None
    return next((c.peer for c in result.tight if c.peer.library == name), None)


def spread_table(results: Iterable[LinearResult], notes: Footnotes) -> Table | None:
    """Least, median and largest time over the seeds; None where none were asked for."""
    table = table_of("problem", "library", "solver", right=("seeds", "least s", "median s", "largest s", "worst gap"))
    for result in results:
        shown = result.name
        for runs in result.spread:
            good = bool(runs.times) and not runs.reason
            cells = [in_seconds(of(runs.times)) for of in (min, median, max)] if good else [NOTHING] * 3
            if not good:
                cells[0] = "none " + notes.mark(f"{runs.library}: {runs.reason}")
            gap = at_most(max(runs.gaps)) if good else NOTHING
            table.add_row(shown, runs.library, runs.solver or NOTHING, f"{len(runs.times)}", *map(Text, cells), gap)
            shown = ""
    return table if table.row_count else None


def thread_line(report: Report) -> str:
    """Who uses how many threads."""
    threads, peers = report.settings["threads"], report.settings["peers"]
    single = [name for name in peers if name != ALL_THREADS and report.versions.get(LIBRARIES[name].distribution)]
    several = f", {ALL_THREADS} {threads}" if ALL_THREADS in peers else ""
    return f"dualgap {threads} (its dcd 1){several}" + (f", {', '.join(single)} 1" if single else "")
