"""The comparisons as one HTML page: the summary, then every table and picture, without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dualgap.bench.summary import TITLES, mean_cell
from dualgap.bench.tables import table_of
from dualgap.report.chart import escape
from dualgap.reproduce.page import document

if TYPE_CHECKING:
    from rich.table import Table

    from dualgap.bench.results import Report


@dataclass(frozen=True)
class Chapter:
    """One comparison: a title, sentences about how it was run, tables with headings, and a picture as SVG."""

    title: str
    facts: Sequence[str]
    tables: Sequence[tuple[str, Table]]
    notes: Sequence[str]
    picture: str = ""


def render(summary: Mapping[str, Any], chapters: Sequence[Chapter]) -> str:
    """The page as text: the means of all comparisons, then each of them."""
    first = Chapter("Geometric means", [_ABOVE], [_means(kind, part) for kind, part in summary["parts"].items()], [])
    return document("dualgap beside other libraries", "".join(_section(one) for one in (first, *chapters)))


_ABOVE = "Of ratios, the peer's time over dualgap's: above 1, dualgap is faster."


def _means(kind: str, part: Mapping[str, Any]) -> tuple[str, Table]:
    gap = part["settings"]["gap"]
    table = table_of("over", "input", right=("default tolerance", *([] if gap is None else [f"relative gap {gap:g}"])))
    for mean in part["means"]:
        cells = [mean["over"], mean["precision"], mean_cell(mean["default"])]
        table.add_row(*cells, *([] if gap is None else [mean_cell(mean["tight"], mean["tight_bounds"])]))
    return TITLES[kind], table


def facts_of(report: Report) -> list[str]:
    """When, where and with what a comparison was run."""
    machine: Mapping[str, object] = report.machine
    settings = ", ".join(f"{name} {_plain(value)}" for name, value in report.settings.items() if value is not None)
    facts = [
        f"{report.date}; {machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, "
        f"{machine['system']}",
        "versions: " + ", ".join(f"{name} {version or 'missing'}" for name, version in report.versions.items()),
        f"settings: {settings}",
    ]
    return [*facts, f"not run for lack of time: {', '.join(report.left_out)}"] if report.left_out else facts


def _plain(value: Any) -> str:
    return " ".join(value) if isinstance(value, list | tuple) else str(value)


def _section(chapter: Chapter) -> str:
    facts = "".join(f'<p class="dim">{escape(fact)}</p>' for fact in chapter.facts)
    tables = "".join(f"<h3>{escape(title)}</h3>{_html(table)}" for title, table in chapter.tables)
    notes = "".join(f'<p class="dim">{escape(note)}</p>' for note in chapter.notes)
    # An SVG file begins with a declaration that has no place inside a page.
    picture = chapter.picture[chapter.picture.find("<svg") :] if "<svg" in chapter.picture else ""
    drawn = f"<h3>Gap against time</h3><figure>{picture}</figure>" if picture else ""
    return f"<section><h2>{escape(chapter.title)}</h2>{facts}{tables}{notes}{drawn}</section>\n"


def _html(table: Table) -> str:
    """A table made for the terminal, as HTML."""
    kinds = [' class="n"' if column.justify == "right" else "" for column in table.columns]
    head = "".join(
        f"<th{kind}>{escape(str(column.header))}</th>" for kind, column in zip(kinds, table.columns, strict=True)
    )
    rows = zip(*(list(column.cells) for column in table.columns), strict=True)
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(str(cell))}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>\n'
