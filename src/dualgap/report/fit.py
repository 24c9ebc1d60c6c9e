"""How the model fits samples: scores, confusion matrix, margins, boundary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualgap.report.histogram import histogram
from dualgap.report.markup import MAX_ROWS, and_more, cells, escape, number, remark, row, section, table
from dualgap.report.plane_map import plane_map
from dualgap.report.scales import Axis

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dualgap.report.boundary import Plane
    from dualgap.report.data import IntMatrix, ReportData
    from dualgap.report.margins import Margins

# A confusion matrix of more classes than this is not read cell by cell; its largest errors are listed.
MAX_CLASSES = 40
# Classes up to which a confusion matrix fits into a column beside a drawing.
_BESIDE = 6


def fit(summary: ReportData) -> str:
    """The section about samples; nothing where none were given."""
    drawings = _margins(summary.margins) + _plane(summary.plane)
    few = summary.confusion is not None and len(summary.confusion[0]) <= _BESIDE
    beside = _scores(summary.scores) + (_confusion(summary.confusion) if few else "")
    below = "" if few else _confusion(summary.confusion)
    if not drawings + beside + below:
        return ""
    remarks = remark(f"On {summary.samples}.") if summary.samples else ""
    if summary.margins is not None:
        remarks += remark(summary.margins.meaning)
    if summary.plane is not None and any(summary.plane.hidden):
        samples, support = summary.plane.hidden
        remarks += remark(f"Not drawn: {samples:,} more samples, {support:,} more support vectors.")
    tables = f'<div class="beside">\n{beside}</div>\n' if beside else ""
    return section("Samples", f'<div class="charts">\n{drawings}{tables}</div>\n{below}{remarks}')


def _margins(margins: Margins | None) -> str:
    if margins is None:
        return ""
    return histogram(
        margins.grouped(), title=margins.title, x=Axis(margins.quantity, from_zero=False), marks=margins.marks
    )


def _plane(plane: Plane | None) -> str:
    return "" if plane is None else plane_map(plane, "Boundary")


def _scores(given: Mapping[str, float]) -> str:
    if not given:
        return ""
    # Five digits: more than the data behind a score can tell apart.
    rows = [row(name, cells([number(value, ".5g")])) for name, value in given.items()]
    return "<h3>Scores</h3>\n" + table("Scores", [], rows)


def _confusion(given: tuple[Sequence[str], IntMatrix] | None) -> str:
    """Which classes were taken for which."""
    if given is None or not len(given[0]):
        return ""
    labels = list(given[0])
    counts = [[int(value) for value in one] for one in given[1]]
    body = _matrix(labels, counts) if len(labels) <= MAX_CLASSES else _mistakes(labels, counts)
    return "<h3>Confusion matrix</h3>\n" + body


def _matrix(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The whole matrix, each cell shaded by its share of the row."""
    rows = []
    for name, line in zip(labels, counts, strict=True):
        # A class that never occurs has no shares.
        total = sum(line) or 1
        rows.append(row(name, "".join(f'<td class="n" style="--share:{one / total:.3f}">{one:,}</td>' for one in line)))
    heads = ["true \\ predicted", *(escape(name) for name in labels)]
    return table("Confusion matrix", heads, rows, "matrix")


def _mistakes(labels: Sequence[str], counts: Sequence[Sequence[int]]) -> str:
    """The most frequent mistakes, for more classes than a matrix can show."""
    found = [(c, i, j) for i, line in enumerate(counts) for j, c in enumerate(line) if i != j and c > 0]
    found.sort(key=lambda mistake: (-mistake[0], mistake[1:]))
    if not found:
        return f"<p>No mistakes in {len(labels)} classes.</p>\n"
    rows = [row(labels[i], cells([escape(labels[j]), f"{count:,}"])) for count, i, j in found[:MAX_ROWS]]
    return (
        f"<p>The most frequent mistakes; a matrix of {len(labels)} classes is too large to read.</p>\n"
        + table("Most frequent mistakes", ["True", "Predicted", "Count"], rows)
        + and_more(len(found), "kinds of mistake are not shown.")
    )
