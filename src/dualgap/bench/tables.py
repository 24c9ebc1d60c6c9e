"""The comparison as tables for the terminal: problems, times at the peers' tolerance, times at a common gap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from dualgap.bench.libraries import LIBRARIES
from dualgap.bench.results import best_peer
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dualgap.bench.results import Compared, Comparison, ProblemResult, Report, Runs

NOTHING = "-"
_BEST = "*"
_PRECISIONS = ("float64", "float32")


@dataclass(frozen=True)
class Mean:
    """A geometric mean of ratios: over whom, for which input, and of how many problems."""

    over: str
    precision: str
    value: float
    count: int

    def __str__(self) -> str:
        problems = "problem" if self.count == 1 else "problems"
        return f"{self.value:.2f} over {self.over}, {self.precision} input ({self.count} {problems})"


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean of positive numbers."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def means(
    results: Iterable[Compared], side: str, peers: Sequence[str] = ("scikit-learn",), best: bool = True
) -> list[Mean]:
    """Geometric means of the ratios: over the best peer of each precision and over named ones.

    Parameters
    ----------
    results : iterable of Compared
        The problems; those without a ratio do not count.
    side : {"default", "tight"}
        Which comparison.
    peers : sequence of str
        The named ones.
    best : bool
        Whether there is a best peer: not where each of them reaches another gap.

    Returns
    -------
    list of Mean
        Without those that nothing counts for.
    """
    sides: list[list[Comparison]] = [getattr(result, side) for result in results]
    groups: list[tuple[str, str, list[Comparison]]] = []
    for precision in _PRECISIONS if best else ():
        fastest = [best_peer(comparisons, precision) for comparisons in sides]
        groups.append(("the best peer", precision, [c for c in fastest if c is not None]))
    for name in peers:
        for precision in _PRECISIONS:
            of_name = [c for comparisons in sides for c in comparisons if c.peer.library == name]
            groups.append((name, precision, [c for c in of_name if c.peer.precision == precision]))
    found = []
    for over, precision, comparisons in groups:
        ratios = [c.ratio for c in comparisons if c.ratio is not None]
        if ratios:
            found.append(Mean(over, precision, geometric_mean(ratios), len(ratios)))
    return found


class Footnotes:
    """Sentences that a table refers to by number."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def mark(self, sentence: str) -> str:
        """The mark of a sentence, the same for the same."""
        if sentence not in self.sentences:
            self.sentences.append(sentence)
        return f"[{self.sentences.index(sentence) + 1}]"

    def lines(self) -> list[str]:
        """All of them, numbered."""
        return [f"[{number}] {sentence}" for number, sentence in enumerate(self.sentences, 1)]


def problem_table(results: Iterable[ProblemResult]) -> Table:
    """What was solved, and what dualgap needed at least and at most."""
    table = table_of(
        "problem",
        "machine",
        right=("n", "d", "vectors", "ns/value", "SGEMM", "floor s", "time/floor", "memory", "warm-up s"),
    )
    for result in results:
        runs = result.headline()
        seconds = None if runs is None else runs.seconds
        over_floor = NOTHING if seconds is None or not result.floor else f"{seconds / result.floor:.2f}"
        table.add_row(
            result.name,
            Text(result.title),
            f"{result.n:,}",
            f"{result.d}",
            NOTHING if runs is None else f"{runs.support:,}",
            _nanoseconds(result.entry_nanoseconds),
            _nanoseconds(result.product_nanoseconds),
            in_seconds(result.floor),
            over_floor,
            _megabytes(result.memory.get("float64")),
            in_seconds(result.warm_up.get("dualgap float64")),
        )
    return table


def comparison_table(results: Iterable[Compared], side: str, notes: Footnotes, best: bool = True) -> Table:
    """Times of peers and of dualgap, a line a peer; `side` is "default" or "tight", `best` marks the fastest peer."""
    results = list(results)
    proved = any(c.ours.certified for result in results for c in getattr(result, side))
    right = ["tol", "its gap", "peer s", "our gap", *(["certified"] if proved else []), "dualgap s", "ratio"]
    table = table_of("problem", "input", "peer", right=right)
    for result in results:
        comparisons: list[Comparison] = getattr(result, side)
        fastest = [best_peer(comparisons, precision) for precision in _PRECISIONS] if best else []
        shown = result.name + (f" {notes.mark(result.remark)}" if result.remark else "")
        for comparison in comparisons:
            marked = any(comparison is one for one in fastest)
            table.add_row(Text(shown), *_cells(comparison, marked, proved, notes))
            shown = ""
    return table


def _cells(comparison: Comparison, best: bool, proved: bool, notes: Footnotes) -> list[Text]:
    peer, ours, ratio = comparison.peer, comparison.ours, comparison.ratio
    name = peer.library + (_BEST if best else "")
    cells = [peer.precision, name, *_measured(peer, notes)]
    gap, seconds = _measured(ours, notes)[1:] if ours.times or ours.reason else (NOTHING, NOTHING)
    certified = [at_most(max(ours.certified)) if ours.certified and not ours.reason else NOTHING] if proved else []
    style = "green" if comparison.at_least or (ratio or 0.0) >= 1.0 else "" if ratio is None else "yellow"
    shown = ratio_text(comparison)
    return [*(Text(cell) for cell in [*cells, gap, *certified, seconds]), Text(shown, style=style)]


def ratio_text(comparison: Comparison) -> str:
    """The ratio, a bound of it where the peer was given up, or a dash."""
    if comparison.ratio is not None:
        return f"{comparison.ratio:.2f}"
    return NOTHING if comparison.at_least is None else f">{bound_text(comparison.at_least)}x"


def bound_text(value: float) -> str:
    """A lower bound in few digits, never rounded up."""
    return f"{math.floor(value)}" if value >= 10.0 else f"{math.floor(10.0 * value) / 10.0:g}"


def memory_table(results: Iterable[ProblemResult]) -> Table | None:
    """The most memory that each library's process held in a fit, data included; None where it was not asked for."""
    table = table_of("problem", "input", "library", right=("peak memory", "seconds"))
    for result in results:
        shown = result.name
        for runs in _everybody(result) if result.memory else []:
            seconds = in_seconds(runs.seconds) if runs.seconds is not None else f"none ({runs.reason})"
            table.add_row(shown, runs.precision, runs.library, _megabytes(runs.peak), Text(seconds))
            shown = ""
    return table if table.row_count else None


def _everybody(result: ProblemResult) -> list[Runs]:
    """Of each library and precision the run at default tolerance."""
    found: dict[tuple[str, str], Runs] = {}
    for comparison in result.default:
        for runs in (comparison.ours, comparison.peer):
            if runs.peak is not None:
                found.setdefault((runs.precision, runs.library), runs)
    return list(found.values())


def _measured(runs: Runs, notes: Footnotes) -> tuple[str, str, str]:
    """Tolerance, gap and time, or where the reason is for which there are none."""
    if runs.reason:
        return NOTHING, NOTHING, "none " + notes.mark(f"{runs.library}: {runs.reason}")
    tol = runs.goal.get("tol")
    gap = NOTHING if runs.gap is None else at_most(runs.gap)
    warned = f" {notes.mark(f'{runs.library} warned: {runs.warning}')}" if runs.warning else ""
    return NOTHING if tol is None else f"{tol:.1e}", gap, in_seconds(runs.seconds) + warned


def thread_line(report: Report) -> str:
    """Who uses how many threads."""
    threads = report.settings["threads"]
    openmp = report.machine.get("libsvm_openmp")
    libsvm = {None: "", True: f", libsvm {threads} (OpenMP)", False: ", libsvm 1 (compiled without OpenMP)"}[openmp]
    intelex = f", intelex {threads}" if report.versions.get(LIBRARIES["intelex"].distribution) else ""
    return f"dualgap {threads}{intelex}{libsvm}, scikit-learn 1 (it has no more)"


def table_of(*left: str, right: Sequence[str]) -> Table:
    """An empty table with these headings."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for heading in left:
        table.add_column(heading, no_wrap=True)
    for heading in right:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _nanoseconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def in_seconds(value: float | None) -> str:
    """Three digits: medians of a few runs are not better than that."""
    if value is None:
        return NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:#.3g}"


def _megabytes(value: int | None) -> str:
    return NOTHING if value is None else f"{value / 1e6:,.0f} MB"
