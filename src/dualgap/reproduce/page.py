"""One HTML page about the experiments that were run: verdicts first, then tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dualgap.report.chart import escape
from dualgap.reproduce.claims import NOT_REPRODUCED, REPRODUCED
from dualgap.reproduce.drawing import draw, draw_digits

if TYPE_CHECKING:
    from dualgap.reproduce.claims import Claim
    from dualgap.reproduce.record import Record, Table

_CSS = """\
:root { --paper: #f6f8fa; --card: #fff; --ink: #1f2328; --dim: #57606a; --rule: #d8dee4;
  --yes: #1a7f37; --no: #b34700; }
@media screen and (prefers-color-scheme: dark) {
  :root { --paper: #0d1117; --card: #161b22; --ink: #e6edf3; --dim: #9ea7b3; --rule: #30363d;
    --yes: #56d364; --no: #ffa657; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.25rem; margin: 0 0 .3rem; } h3 { font-size: 1rem; margin: 1.2rem 0 .4rem; }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 1rem; margin: 0 0 1rem; }
.dim { color: var(--dim); font-size: .875rem; margin: .2rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .8rem .25rem 0; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
thead th { color: var(--dim); font-weight: 600; font-size: .8125rem; vertical-align: bottom; }
td.n, th.n { text-align: right; white-space: nowrap; }
.reproduced { color: var(--yes); font-weight: 600; } .not { color: var(--no); font-weight: 600; }
.untested { color: var(--dim); font-weight: 600; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1rem 2rem; }
figure { margin: 0; } figure svg { width: 100%; height: auto; border-radius: 4px; }
figcaption { font-weight: 600; margin-bottom: .3rem; }
@media print { section { border: 0; padding: 0; } .scroll { overflow: visible; } figure, tr { break-inside: avoid; } }
"""


def render(records: Sequence[Record]) -> str:
    """The page as text: no scripts, and nothing is fetched from anywhere."""
    total = counts([claim for record in records for claim in record.claims])
    contents = f"<section><p>{escape(total)}</p>{_contents(records)}</section>\n"
    return document("The papers' experiments", contents + "".join(_section(record) for record in records))


def document(title: str, body: str) -> str:
    """A page around its sections."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{escape(title)}</title>\n<style>\n{_CSS}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>{escape(title)}</h1>\n{body}"
        "<footer class='dim'>Written by dualgap.</footer>\n</main>\n</body>\n</html>\n"
    )


def counts(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict."""
    yes = sum(claim.verdict == REPRODUCED for claim in claims)
    no = sum(claim.verdict == NOT_REPRODUCED for claim in claims)
    return f"{len(claims)} claims: {yes} reproduced, {no} not reproduced, {len(claims) - yes - no} cannot be tested."


def _contents(records: Sequence[Record]) -> str:
    items = "".join(
        f'<li><a href="#{escape(record.name)}">{escape(record.title)}</a>: {escape(counts(record.claims))}</li>'
        for record in records
    )
    return f"<ul>{items}</ul>"


def _section(record: Record) -> str:
    length = "short run (--quick)" if record.quick else "full run"
    machine = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in record.machine.items() if value)
    versions = ", ".join(f"{key} {value}" for key, value in record.versions.items() if value)
    parts = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in record.parts.items())
    facts = [
        ("data", record.data),
        ("partitions", record.partitions),
        ("parameters", "; ".join(f"{key}: {value}" for key, value in record.parameters.items())),
        (
            "run",
            ", ".join(
                filter(None, [length, record.date, f"{record.seconds:.0f} s" + (f" ({parts})" if parts else "")])
            ),
        ),
        *((label, text) for label, text in (("machine", machine), ("versions", versions)) if text),
        *(("differs", line) for line in record.differences),
        *(("note", line) for line in record.notes),
    ]
    rows = "".join(f"<tr><th>{escape(label)}</th><td>{escape(text)}</td></tr>" for label, text in facts)
    figures = "".join(
        f"<figure><figcaption>{escape(one.title)}</figcaption>{draw(one)}</figure>" for one in record.figures
    )
    digits = "".join(
        f"<figure><figcaption>{escape(one.title)}</figcaption>{draw_digits(one)}</figure>" for one in record.digits
    )
    return (
        f'<section id="{escape(record.name)}"><h2>{escape(record.title)}</h2>'
        f'<p class="dim">{escape(record.paper)}</p>\n'
        f"<h3>Verdicts</h3>{_verdicts(record.claims)}\n"
        + "".join(_table(table) for table in record.tables)
        + (f'<h3>Figures</h3><div class="charts">{figures}{digits}</div>' if figures or digits else "")
        + f'<h3>How it was run</h3><div class="scroll"><table><tbody>{rows}</tbody></table></div></section>\n'
    )


def _verdicts(claims: Sequence[Claim]) -> str:
    kinds = {REPRODUCED: "reproduced", NOT_REPRODUCED: "not"}
    rows = "".join(
        f'<tr><td class="{kinds.get(claim.verdict, "untested")}">{escape(claim.verdict)}</td>'
        f"<td>{escape(claim.text)} <span class='dim'>({escape(claim.where)})</span></td>"
        f"<td>{escape(claim.evidence)}</td></tr>"
        for claim in claims
    )
    head = "<thead><tr><th>verdict</th><th>claim</th><th>evidence</th></tr></thead>"
    return f'<div class="scroll"><table>{head}<tbody>{rows}</tbody></table></div>'


def _table(table: Table) -> str:
    if not table.rows:
        return ""
    columns = {column: _attribute(row.get(column) for row in table.rows) for column in table.rows[0]}
    head = "".join(f"<th{attribute}>{escape(column)}</th>" for column, attribute in columns.items())
    rows = "".join(
        "<tr>"
        + "".join(f"<td{attribute}>{escape(shown(row.get(name)))}</td>" for name, attribute in columns.items())
        + "</tr>"
        for row in table.rows
    )
    note = f'<p class="dim">{escape(table.note)}</p>' if table.note else ""
    return (
        f'<h3>{escape(table.title)}</h3>{note}<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>\n"
    )


def _attribute(cells: Iterable[Any]) -> str:
    """How the cells of a column stand: words to the left, figures (with a deviation or a unit, too) to the right."""
    return "" if any(isinstance(cell, str) and cell[:1].isalpha() for cell in cells) else ' class="n"'


def shown(value: Any) -> str:
    """A cell: few digits, and a dash where there is nothing."""
    if value is None or value != value:
        return "\u2013"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
