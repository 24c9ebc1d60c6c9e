"""How the runs got there: charts over time and iterations, and where each run ended."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dualgap.report.chart import Series, line_chart
from dualgap.report.frame import EMPTY
from dualgap.report.headline import worst_first
from dualgap.report.markup import MAX_ROWS, and_more, cells, escape, number, remark, row, section, table
from dualgap.report.scales import Axis
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dualgap.report.data import ReportData
    from dualgap.result import Event, History

    Named = tuple[str, History]

# More lines than these in one chart are a tangle.
MAX_DRAWN = 8
# Reports up to which each is marked in a chart: of so few a line alone does not tell where they are.
_FEW = 20
# Share of a run before its first report from which on a chart begins there, and not with an empty half.
_LATE = 0.3

_STEPS, _LOG = Axis("iterations", whole=True), Axis("log scale", log=True)


def progress(summary: ReportData) -> str:
    """Charts of the runs; of several tasks that with the worst certificate in front, and each of the next alone."""
    runs = _ordered(summary)
    if not runs:
        return ""
    drawn = runs[:MAX_DRAWN]
    said = (
        _which_lines(summary, drawn, len(runs))
        + "The curves are the solver's own running estimates; only the certificates are recomputed."
    )
    charts = f'<div class="charts">\n{_charts(drawn)}</div>\n'
    return section("Progress", charts + remark(said) + _alone(summary, drawn[1:]))


def last_states(summary: ReportData) -> str:
    """Where every run ended, in numbers; also for those who cannot see the charts."""
    runs = _ordered(summary)
    if not runs:
        return ""
    heads = ["Task", "Iterations", "Seconds", "Support vectors", "Kernel evaluations"]
    heads += ["Kernel cache hits, %", "Function cache hits, %"]
    rows = [_last_row(name, history) for name, history in runs[:MAX_ROWS]]
    name = "Last recorded state"
    return section(name, table(name, heads, rows) + and_more(len(runs), "runs are not shown."))


def _ordered(summary: ReportData) -> list[Named]:
    """The runs with events, the one with the worst certificate first; unknown names keep their order."""
    place = {name: i for i, (name, _) in reversed(list(enumerate(worst_first(summary.certificate_rows))))}
    runs = [run for run in summary.histories if len(run[1])]
    return sorted(runs, key=lambda run: place.get(run[0], len(place)))


def _lines(runs: Sequence[Named], label: str, slot: int, x: str, y: Callable[[Event], float]) -> list[Series]:
    """One quantity of every run; all but the first run, which belongs to the worst task, are muted."""
    return [
        Series(
            label,
            history.column(x),
            [y(event) for event in history.events],
            slot,
            i > 0,
            i == 0 and len(history) <= _FEW,
        )
        for i, (_, history) in enumerate(runs)
    ]


def _rate(hits: int, misses: int) -> float:
    """Percent of the lookups so far that were answered; NaN before the first one."""
    return 100.0 * hits / (hits + misses) if hits + misses else math.nan


def _kernel_rate(event: Event) -> float:
    return _rate(event.cache_hits, event.cache_misses)


def _function_rate(event: Event) -> float:
    return _rate(event.function_hits, event.function_misses)


def _chart(title: str, x: Axis, y: Axis, lines: list[Series], empty: str = EMPTY) -> str:
    # Stable: within the pale and within the strong lines the order stays, and the strong lie on top.
    return line_chart(sorted(lines, key=lambda line: not line.muted), title=title, x=x, y=y, empty=empty)


def _time(runs: Sequence[Named]) -> Axis:
    first = min(history[0].seconds for _, history in runs)
    last = max(history[-1].seconds for _, history in runs)
    return Axis("seconds", from_zero=first <= _LATE * last or first == last)


def _quality(runs: Sequence[Named], x: str) -> list[Series]:
    gap = _lines(runs, "relative gap", 0, x, lambda event: event.relative_gap)
    return gap + _lines(runs, "KKT violation", 1, x, lambda event: event.violation)


def _quality_charts(runs: Sequence[Named]) -> str:
    # Without a gap (indefinite kernel) the solver records NaN; then the chart should not promise one.
    gapped = any(math.isfinite(event.relative_gap) for _, history in runs for event in history.events)
    what = "Relative gap and KKT violation" if gapped else "KKT violation"
    by_time = _chart(f"{what} over time", _time(runs), _LOG, _quality(runs, "seconds"))
    return by_time + _chart(f"{what} over iterations", _STEPS, _LOG, _quality(runs, "iteration"))


def _charts(runs: Sequence[Named]) -> str:
    support = _lines(runs, "support vectors", 0, "seconds", lambda event: event.n_support)
    caches = _lines(runs, "kernel cache", 0, "seconds", _kernel_rate)
    caches += _lines(runs, "function cache", 1, "seconds", _function_rate)
    evaluations = _lines(runs, "kernel evaluations", 0, "seconds", lambda event: event.kernel_evaluations)
    percent = Axis("lookups answered so far", top=100.0, suffix="%")
    time = _time(runs)
    asked = any(math.isfinite(value) for line in caches for value in line.y)
    computed = any(value for line in evaluations for value in line.y)
    last = ""
    if asked:
        last = _chart("Cache hit rates over time", time, percent, caches)
    elif computed:
        # A matrix that is stored as a whole, or never, has no cache; what it cost is still of interest.
        last = _chart("Kernel evaluations over time (no cache was asked)", time, Axis("count", whole=True), evaluations)
    return _quality_charts(runs) + _chart("Support vectors over time", time, Axis("count", whole=True), support) + last


def _alone(summary: ReportData, runs: Sequence[Named]) -> str:
    """The charts of single tasks, folded: open the one that matters."""
    gaps = dict(summary.certificate_rows)
    folded = []
    for name, history in runs:
        known = gaps.get(name)
        said = f", relative gap {at_most(known.relative_gap)}" if known is not None and not known.note else ""
        charts = f'<div class="charts">\n{_quality_charts([(name, history)])}</div>\n'
        folded.append(f"<details>\n<summary>{escape(name + said)}</summary>\n{charts}</details>\n")
    return "".join(folded)


def _which_lines(summary: ReportData, drawn: Sequence[Named], total: int) -> str:
    """Which run the strong line is and how many are not drawn, as plain text."""
    if total == 1:
        return ""
    first = drawn[0][0]
    judged = any(name == first for name, _ in summary.certificate_rows)
    said = f"Strong lines: {first}{' (worst certificate)' if judged else ''}. "
    said += f"Pale lines: {len(drawn) - 1} more. "
    return f"{said}Not drawn: {total - len(drawn)}. " if total > len(drawn) else said


def _last_row(name: str, history: History) -> str:
    last = history[-1]
    counts = [f"{last.iteration:,}", number(last.seconds, ".3g"), f"{last.n_support:,}"]
    rates = [number(rate, ".1f") for rate in (_kernel_rate(last), _function_rate(last))]
    return row(name, cells([*counts, f"{last.kernel_evaluations:,}", *rates]))
