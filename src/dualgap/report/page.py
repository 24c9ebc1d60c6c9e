"""One self-contained HTML page about a run: how good it is, how it got there, what it was given."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dualgap.formats.atomic import atomic_write
from dualgap.report.chart import CHART_CSS, Axis, Series, escape, line_chart
from dualgap.report.wording import at_most

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from os import PathLike
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from dualgap.result import Certificate, Event, History

    IntMatrix = NDArray[np.integer[Any]] | Sequence[Sequence[int]]

# About one printed page; forty-five pairs of ten classes are the usual reason for more.
MAX_ROWS = 30
# More lines than these in one chart are a tangle.
MAX_DRAWN = 8
# A confusion matrix of more classes than this is not read cell by cell; its largest errors are listed.
MAX_CLASSES = 40
# Rounding in a sum of a million float64 terms stays below 1e6 * 2.2e-16. A larger infeasibility is real,
# and then the dual objective is no longer strictly a lower bound.
ROUNDING = 1e-9
# Shown where a number does not exist.
MISSING = "\u2013"

_EXPONENT = re.compile(r"\d\.\de[-+]\d+")

_CSS = """\
:root { --paper: #f6f8fa; --card: #fff; --ink: #1f2328; --dim: #57606a; --rule: #d8dee4;
  --s0: #0b62b8; --s1: #b34700; --heat: 11 98 184; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --card: #161b22; --ink: #e6edf3; --dim: #9ea7b3; --rule: #30363d;
    --s0: #6cb6ff; --s1: #ffa657; --heat: 108 182 255; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
main { max-width: 66rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: .5rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.125rem; margin: 0 0 .6rem; }
h3 { font-size: 1rem; margin: 0; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
  padding: 1rem; margin: 0 0 1rem; }
section p { margin: .4rem 0 0; overflow-wrap: anywhere; }
.headline { border-left: 5px solid var(--s0); }
.headline .verdict { font-size: 1.25rem; line-height: 1.4; font-weight: 600; margin: 0; }
.headline.warn { border-left-color: var(--s1); }
.headline ul { margin: .6rem 0 0; padding-left: 1.2rem; overflow-wrap: anywhere; }
.whole { white-space: nowrap; }
.dim { color: var(--dim); font-size: .875rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1.5rem 2rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9375rem; }
th, td { padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--rule); text-align: left;
  vertical-align: top; }
tr > :last-child { padding-right: 0; }
tbody tr:last-child > * { border-bottom: 0; }
thead th { color: var(--dim); font-weight: 600; font-size: .8125rem; vertical-align: bottom; }
tbody th { font-weight: 500; min-width: 6rem; max-width: 22rem; overflow-wrap: break-word; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.note { min-width: 14rem; }
table.pairs td { min-width: 10rem; overflow-wrap: anywhere; white-space: pre-line; }
table.matrix th, table.matrix td { padding: .3rem .6rem; border: 1px solid var(--rule); }
table.matrix tbody th { min-width: 0; }
table.matrix td { min-width: 3rem; background: rgb(var(--heat) / calc(var(--share) * .45)); }
footer { color: var(--dim); font-size: .8125rem; margin: 0 0 1rem; }
@media print {
  body { background: #fff; font-size: 10pt; }
  main { max-width: none; padding: 0; }
  section { border: 0; border-radius: 0; padding: 0; margin-bottom: 1.2rem; }
  .headline { padding-left: .8rem; border-left: 5px solid var(--s0); }
  .charts { grid-template-columns: 1fr 1fr; }
  .scroll { overflow: visible; }
  figure, tr, .headline { break-inside: avoid; }
  h2 { break-after: avoid; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
}
"""


@dataclass(frozen=True)
class ReportData:
    """What a page is made of.

    Attributes
    ----------
    title : str
        The heading of the page.
    certificate_rows : sequence of (str, Certificate)
        One for each binary task; a single one for regression and one-class.
    histories : sequence of (str, History)
        The runs of the same tasks, under the same names.
    status_sentences : sequence of str
        How the runs ended (`Status.message`); equal sentences are shown once, with a count.
    facts : mapping of str to str
        Settings, shape of the data, versions, timings; shown in this order.
    confusion : (sequence of str, square int matrix) or None
        The classes and how often each (row: true) was taken for each (column: predicted).
    scores : mapping of str to float
        Named scores, such as accuracy; shown in this order.
    """

    title: str
    certificate_rows: Sequence[tuple[str, Certificate]]
    histories: Sequence[tuple[str, History]] = ()
    status_sentences: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)
    confusion: tuple[Sequence[str], IntMatrix] | None = None
    scores: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.confusion is None:
            return
        labels, matrix = self.confusion
        if len(matrix) != len(labels) or any(len(row) != len(labels) for row in matrix):
            raise ValueError(f"confusion needs a {len(labels)} x {len(labels)} matrix, one row a label")


def render_page(summary: ReportData) -> str:
    """Write the page as text.

    Parameters
    ----------
    summary : ReportData
        What to show.

    Returns
    -------
    str
        A complete HTML document: no scripts, and nothing is fetched from anywhere.
    """
    sections = [
        _headline(summary),
        _certificates(summary.certificate_rows),
        _progress(summary),
        _scores(summary.scores),
        _confusion(summary.confusion),
        _last_states(summary),
        _facts(summary.facts),
    ]
    title = escape(summary.title)
    description = escape(_opening(_worst_first(summary.certificate_rows)))
    # The policy makes the browser itself hold the page to its promise of fetching nothing.
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        '<meta http-equiv="Content-Security-Policy"'
        " content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f'<meta name="description" content="{description}">\n'
        f"<title>{title}</title>\n<style>\n{_CSS}{CHART_CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{title}</h1>\n{''.join(sections)}<footer>Written by dualgap.</footer>\n"
        "</main>\n</body>\n</html>\n"
    )


def write_page(summary: ReportData, path: str | PathLike[str]) -> None:
    """Write the page to a file that appears whole or not at all.

    Parameters
    ----------
    summary : ReportData
        What to show.
    path : str or path-like
        The file; replaced when it exists.
    """
    # Rendered first: data that cannot be shown should not cost the old page.
    page = render_page(summary).encode("utf-8")
    with atomic_write(path) as file:
        file.write(page)


def _badness(certificate: Certificate) -> tuple[int, float]:
    """Sort key: a broken gap, then no gap at all (judged by its violation), then the larger gap."""
    if certificate.note:
        violation = certificate.kkt_violation
        return (1, math.inf if math.isnan(violation) else violation)
    gap = certificate.relative_gap
    return (0, gap) if math.isfinite(gap) else (2, 0.0)


def _worst_first(rows: Iterable[tuple[str, Certificate]]) -> list[tuple[str, Certificate]]:
    return sorted(rows, key=lambda row: _badness(row[1]), reverse=True)


def _verdict(certificate: Certificate) -> str:
    """The certificate in words, as plain text."""
    if certificate.note:
        return (
            f"No duality gap exists here: {certificate.note.strip().rstrip('.')}. "
            f"The optimality conditions are met to within {at_most(certificate.kkt_violation)} "
            "(KKT violation); a better solution may exist."
        )
    gap = certificate.relative_gap
    if not math.isfinite(gap):
        return (
            "The certificate gives no bound: the duality gap is not a finite number. "
            f"The KKT violation is {at_most(certificate.kkt_violation)}."
        )
    if gap <= 0:
        return "The objective is the best possible, up to rounding; no solver can improve it."
    return f"The objective is within {at_most(gap)} (relative) of the best possible; no solver can improve it by more."


def _context(rows: list[tuple[str, Certificate]]) -> list[str]:
    """What the verdict on the worst task leaves unsaid, as plain text."""
    said = []
    if len(rows) > 1:
        said.append(f"That is the worst of {len(rows)} tasks: {rows[0][0]}.")
    bounded = [row for row in rows if _badness(row[1])[0] == 0]
    if bounded and len(bounded) < len(rows):
        said.append(
            f"A gap exists for {len(bounded)} of the tasks; the worst of these is {bounded[0][0]}. "
            + _verdict(bounded[0][1])
        )
    missed = max((row[1].infeasibility for row in rows if not math.isnan(row[1].infeasibility)), default=0.0)
    if missed > ROUNDING:
        said.append(
            f"Caution: the equality constraints are missed by {at_most(missed)}, which is more than rounding; "
            "the bound holds only up to that error."
        )
    return said


def _opening(rows: Sequence[tuple[str, Certificate]]) -> str:
    return _verdict(rows[0][1]) if rows else "No certificate was recorded."


def _unbroken(sentence: str) -> str:
    """Escape a sentence and keep a browser from breaking its numbers at the minus of an exponent."""
    return _EXPONENT.sub(r'<span class="whole">\g<0></span>', escape(sentence))


def _headline(summary: ReportData) -> str:
    rows = _worst_first(summary.certificate_rows)
    sure = bool(rows) and _badness(rows[0][1])[0] == 0
    verdict = _opening(rows)
    said = "".join(f"<p>{_unbroken(sentence)}</p>\n" for sentence in (_context(rows) if rows else []))
    return (
        f'<section class="headline{"" if sure else " warn"}">\n<p class="verdict">{_unbroken(verdict)}</p>\n'
        f"{said}{_statuses(summary.status_sentences)}</section>\n"
    )


def _statuses(sentences: Sequence[str]) -> str:
    """Each sentence once: forty-five tasks that converged need not say so forty-five times."""
    if not sentences:
        return ""
    counts = Counter(sentences)
    items = "".join(
        f"<li>{escape(sentence)}{f' <b>({count} times)</b>' if count > 1 else ''}</li>\n"
        for sentence, count in counts.most_common()
    )
    return f"<p>How the {'run' if len(sentences) == 1 else 'runs'} ended:</p>\n<ul>\n{items}</ul>\n"


def _number(value: float, spec: str) -> str:
    """A number for a table cell, as HTML."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "&infin;" if value > 0 else "-&infin;"
    # With an ordinary hyphen for a minus: people paste these numbers into code.
    return format(value, spec)


def _cells(values: Iterable[str]) -> str:
    return "".join(f'<td class="n">{value}</td>' for value in values)


def _table(name: str, heads: Sequence[str], rows: Sequence[str], kind: str = "") -> str:
    """A table in a container of its own that scrolls sideways, so that the page itself never does."""
    # The first column is text, the others are numbers.
    columns = [f'<th scope="col">{head}</th>' for head in heads[:1]]
    columns += [f'<th scope="col" class="n">{head}</th>' for head in heads[1:]]
    top = f"<thead><tr>{''.join(columns)}</tr></thead>\n" if heads else ""
    kind = f' class="{kind}"' if kind else ""
    # tabindex: without it a keyboard cannot scroll the container.
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(name)}">\n<table{kind}>\n{top}'
        f"<tbody>\n{''.join(rows)}</tbody>\n</table>\n</div>\n"
    )


def _section(name: str, body: str) -> str:
    return f"<section>\n<h2>{escape(name)}</h2>\n{body}</section>\n"


def _and_more(total: int, what: str) -> str:
    return f'<p class="dim">{total - MAX_ROWS} more {what}</p>\n' if total > MAX_ROWS else ""


def _certificate_row(name: str, certificate: Certificate) -> str:
    if certificate.note:
        judged = f'<td class="note" colspan="4">no gap: {escape(certificate.note)}</td>'
    else:
        judged = _cells(
            [
                _number(certificate.relative_gap, ".2e"),
                _number(certificate.gap, ".2e"),
                _number(certificate.primal, "#.10g"),
                _number(certificate.dual, "#.10g"),
            ]
        )
    measured = _cells([_number(certificate.kkt_violation, ".2e"), _number(certificate.infeasibility, ".1e")])
    return f'<tr><th scope="row">{escape(name)}</th>{judged}{measured}</tr>\n'


def _certificates(given: Sequence[tuple[str, Certificate]]) -> str:
    if not given:
        return ""
    rows = [_certificate_row(name, certificate) for name, certificate in _worst_first(given)[:MAX_ROWS]]
    heads = ["Task", "Relative gap", "Gap", "Objective", "Lower bound", "KKT violation", "Infeasibility"]
    more = _and_more(len(given), "tasks have certificates at least as good as the last one shown.")
    meaning = (
        "Recomputed in float64 from the solution alone. "
        "The KKT violation is the most by which any optimality condition is missed. "
    )
    if not all(certificate.note for _, certificate in given):
        meaning += (
            "The best possible objective lies between the lower bound (the dual objective) and the objective "
            "(the primal one); the gap is their difference, the relative gap is that divided by the larger."
        )
    name = "Certificate" if len(given) == 1 else "Certificates, worst first"
    return _section(name, _table(name, heads, rows) + more + f'<p class="dim">{meaning}</p>\n')


def _ordered_histories(summary: ReportData) -> list[tuple[str, History]]:
    """The runs with events, the one with the worst certificate first; unknown names keep their order."""
    place = {name: i for i, (name, _) in reversed(list(enumerate(_worst_first(summary.certificate_rows))))}
    runs = [run for run in summary.histories if len(run[1])]
    return sorted(runs, key=lambda run: place.get(run[0], len(place)))


def _lines(
    runs: Sequence[tuple[str, History]], label: str, slot: int, x: str, y: Callable[[Event], float]
) -> list[Series]:
    """One quantity of every run; all but the first run, which belongs to the worst task, are muted."""
    return [
        Series(label, history.column(x), [y(event) for event in history.events], slot, muted=i > 0)
        for i, (_, history) in enumerate(runs)
    ]


def _rate(hits: int, misses: int) -> float:
    """Percent of the lookups so far that were answered; NaN before the first one."""
    return 100.0 * hits / (hits + misses) if hits + misses else math.nan


def _kernel_rate(event: Event) -> float:
    return _rate(event.cache_hits, event.cache_misses)


def _function_rate(event: Event) -> float:
    return _rate(event.function_hits, event.function_misses)


def _charts(runs: Sequence[tuple[str, History]]) -> str:
    def chart(title: str, x: Axis, y: Axis, lines: list[Series], empty: str = "") -> str:
        # Stable: within the pale and within the strong lines the order stays, and the strong lie on top.
        lines = sorted(lines, key=lambda line: not line.muted)
        said = empty or "Nothing was recorded that could be drawn."
        return line_chart(lines, title=title, x=x, y=y, empty=said)

    def quality(x: str) -> list[Series]:
        gap = _lines(runs, "relative gap", 0, x, lambda event: event.relative_gap)
        return gap + _lines(runs, "KKT violation", 1, x, lambda event: event.violation)

    time, steps = Axis("seconds"), Axis("iterations", whole=True)
    # Without a gap (indefinite kernel) the solver records NaN; then the chart should not promise one.
    gapped = any(math.isfinite(event.relative_gap) for _, history in runs for event in history.events)
    what = "Relative gap and KKT violation" if gapped else "KKT violation"
    log = Axis("log scale", log=True)
    support = _lines(runs, "support vectors", 0, "seconds", lambda event: event.n_support)
    caches = _lines(runs, "kernel cache", 0, "seconds", _kernel_rate)
    caches += _lines(runs, "function cache", 1, "seconds", _function_rate)
    percent = Axis("lookups answered so far", top=100.0, suffix="%")
    return (
        chart(f"{what} over time", time, log, quality("seconds"))
        + chart(f"{what} over iterations", steps, log, quality("iteration"))
        + chart("Support vectors over time", time, Axis("count", whole=True), support)
        + chart("Cache hit rates over time", time, percent, caches, "No cache was asked for anything.")
    )


def _which_lines(summary: ReportData, drawn: Sequence[tuple[str, History]], total: int) -> str:
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
    counts = [f"{last.iteration:,}", _number(last.seconds, ".3g"), f"{last.n_support:,}"]
    rates = [_number(rate, ".1f") for rate in (_kernel_rate(last), _function_rate(last))]
    cells = _cells([*counts, f"{last.kernel_evaluations:,}", *rates])
    return f'<tr><th scope="row">{escape(name)}</th>{cells}</tr>\n'


def _progress(summary: ReportData) -> str:
    runs = _ordered_histories(summary)
    if not runs:
        return ""
    drawn = runs[:MAX_DRAWN]
    remark = (
        _which_lines(summary, drawn, len(runs))
        + "The curves are the solver's own running estimates; only the certificates are recomputed."
    )
    charts = f'<div class="charts">\n{_charts(drawn)}</div>\n'
    return _section("Progress", f'{charts}<p class="dim">{escape(remark)}</p>\n')


def _last_states(summary: ReportData) -> str:
    """Where every run ended, in numbers; also for those who cannot see the charts."""
    runs = _ordered_histories(summary)
    if not runs:
        return ""
    heads = ["Task", "Iterations", "Seconds", "Support vectors", "Kernel evaluations"]
    heads += ["Kernel cache hits, %", "Function cache hits, %"]
    rows = [_last_row(name, history) for name, history in runs[:MAX_ROWS]]
    name = "Last recorded state"
    return _section(name, _table(name, heads, rows) + _and_more(len(runs), "runs are not shown."))


def _scores(scores: Mapping[str, float]) -> str:
    if not scores:
        return ""
    # Five digits: more than the data behind a score can tell apart.
    rows = [
        f'<tr><th scope="row">{escape(name)}</th>{_cells([_number(value, ".5g")])}</tr>\n'
        for name, value in scores.items()
    ]
    return _section("Scores", _table("Scores", [], rows))


def _confusion(confusion: tuple[Sequence[str], IntMatrix] | None) -> str:
    if confusion is None or not len(confusion[0]):
        return ""
    labels = list(confusion[0])
    counts = [[int(value) for value in row] for row in confusion[1]]
    body = _matrix(labels, counts) if len(labels) <= MAX_CLASSES else _mistakes(labels, counts)
    return _section("Confusion matrix", body)


def _matrix(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The whole matrix, each cell shaded by its share of the row."""
    rows = []
    for label, row in zip(labels, counts, strict=True):
        # A class that never occurs has no shares.
        total = sum(row) or 1
        cells = "".join(f'<td class="n" style="--share:{count / total:.3f}">{count:,}</td>' for count in row)
        rows.append(f'<tr><th scope="row">{escape(label)}</th>{cells}</tr>\n')
    heads = ["true \\ predicted", *(escape(label) for label in labels)]
    return _table("Confusion matrix", heads, rows, "matrix")


def _mistakes(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The most frequent mistakes, for more classes than a matrix can show."""
    found = [(c, i, j) for i, row in enumerate(counts) for j, c in enumerate(row) if i != j and c > 0]
    found.sort(key=lambda mistake: (-mistake[0], mistake[1:]))
    if not found:
        return f"<p>No mistakes in {len(labels)} classes.</p>\n"
    rows = [
        f'<tr><th scope="row">{escape(labels[i])}</th>{_cells([escape(labels[j]), f"{count:,}"])}</tr>\n'
        for count, i, j in found[:MAX_ROWS]
    ]
    table = _table("Most frequent mistakes", ["True", "Predicted", "Count"], rows)
    return (
        f"<p>The most frequent mistakes; a matrix of {len(labels)} classes is too large to read.</p>\n"
        + table
        + _and_more(len(found), "kinds of mistake are not shown.")
    )


def _facts(facts: Mapping[str, str]) -> str:
    if not facts:
        return ""
    rows = [f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>\n' for k, v in facts.items()]
    return _section("Facts", _table("Facts", [], rows, "pairs"))
