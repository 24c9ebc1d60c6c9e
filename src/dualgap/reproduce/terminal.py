"""Records for the terminal: tables, figures in words, verdicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table as RichTable
from rich.text import Text

from dualgap.reproduce.claims import NOT_REPRODUCED, REPRODUCED
from dualgap.reproduce.page import shown

if TYPE_CHECKING:
    from rich.console import Console

    from dualgap.reproduce.record import Record

_STYLES = {REPRODUCED: "green", NOT_REPRODUCED: "yellow"}


def show(record: Record, console: Console) -> None:
    """Print a record."""
    console.print(Text(record.title, style="bold"), Text(f"  {record.paper}", style="dim"))
    for label, text in (("data", record.data), ("partitions", record.partitions)):
        console.print(Text(f"{label:<12}", style="bold") + Text(text))
    for table in record.tables:
        console.print()
        console.print(Text(table.title, style="bold"))
        if table.rows:
            console.print(_rich(list(table.rows[0]), [[shown(v) for v in row.values()] for row in table.rows]))
        if table.note:
            console.print(Text(table.note, style="dim"))
    console.print()
    for line in record.differences:
        console.print(Text("differs     ", style="bold") + Text(line))
    for line in record.notes:
        console.print(Text("note        ", style="bold") + Text(line, style="yellow"))
    console.print()
    for claim in record.claims:
        console.print(
            Text(f"{claim.verdict:<17}", style=_STYLES.get(claim.verdict, "dim"))
            + Text(f"{claim.text} ", style="bold")
            + Text(f"({claim.where}) {claim.evidence}")
        )
    console.print()


def _rich(headings: list[str], rows: list[list[str]]) -> RichTable:
    table = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for number, heading in enumerate(headings):
        table.add_column(heading, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table
