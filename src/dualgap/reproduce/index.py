"""The contents of a folder of results as Markdown: every verdict and every figure, for those who browse the files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dualgap.reproduce.page import counts

if TYPE_CHECKING:
    from dualgap.reproduce.record import Record

# What a cell of a Markdown table cannot hold as it is.
_ESCAPES = str.maketrans({"|": "\\|", "<": "&lt;", ">": "&gt;", "\n": " ", "*": "\\*", "_": "\\_"})


def render_index(records: Sequence[Record], comparison: str = "") -> str:
    """The text of the file.

    Parameters
    ----------
    records : sequence of Record
        The experiments that the folder holds.
    comparison : str
        A section of its own about the comparison with other libraries, where the folder holds one.
    """
    parts = ["# Results\n", _ABOUT]
    if comparison:
        parts.append(comparison)
    if records:
        claims = [claim for record in records for claim in record.claims]
        parts.append(f"## The papers' experiments\n\n[One page with all tables](index.html). {counts(claims)}\n")
    parts.extend(_section(record) for record in records)
    return "\n".join(parts)


_ABOUT = (
    "Written by `dualgap reproduce` and `dualgap bench all` with `--output`; every figure here was measured by these\n"
    "commands, and none is typed by hand. Each JSON file holds its date, versions, machine and settings.\n"
)


def _section(record: Record) -> str:
    length = "short run (`--quick`)" if record.quick else "full run"
    machine = ", ".join(escaped(str(value)) for value in (record.machine.get("processor"), _cores(record)) if value)
    pictures = [(one.name, one.title) for one in record.figures] + [(one.name, one.title) for one in record.digits]
    rows = [
        f"| {claim.verdict} | {escaped(claim.text)} ({escaped(claim.where)}) | {escaped(claim.evidence)} |"
        for claim in record.claims
    ]
    lines = [
        f"### {escaped(record.title)}\n",
        f"{escaped(record.paper)}. {length.capitalize()} on {record.date or 'an unknown day'}, "
        f"{record.seconds:.0f} s; {machine or 'machine unknown'}; dualgap {record.versions.get('dualgap', 'unknown')}. "
        f"[{record.name}.json]({record.name}.json). {counts(record.claims)}\n",
        "| verdict | claim | evidence |\n|---|---|---|\n" + "\n".join(rows) + "\n",
        *(f"Note: {escaped(note)}.\n" for note in record.notes),
        *(f"![{escaped(title)}]({record.name}-{name}.svg)\n" for name, title in pictures),
    ]
    return "\n".join(lines)


def _cores(record: Record) -> str:
    cores = record.machine.get("cores")
    return "" if cores is None else f"{cores} core{'' if cores == 1 else 's'}"


def escaped(text: str) -> str:
    """Text for a cell of a table."""
    return text.translate(_ESCAPES)
