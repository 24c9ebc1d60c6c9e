"""How a table in text is laid out: its delimiter, whether it has a header, which column is the label."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Final

from dualgap.datasets.errors import excerpt, file_error
from dualgap.datasets.number_text import is_decimal, is_missing

if TYPE_CHECKING:
    from collections.abc import Sequence

# Names of a label column, the most telling first: in a table with x, y and class, class is the label.
LABEL_NAMES: Final = ("label", "class", "target", "y")
# In the order tried. The comma comes after the two that are used where it is the decimal mark.
_DELIMITERS: Final = ("\t", ";", ",")


def sniff_delimiter(lines: Sequence[str]) -> str | None:
    """Delimiter of the table that starts with `lines`; None stands for runs of blanks.

    The first candidate that cuts all lines into the same number of cells, two at least, is taken; a ragged
    table (an error, found later, with its line) gets the first one that occurs in every line.
    """
    counts = {delimiter: [_cell_count(line, delimiter) for line in lines] for delimiter in _DELIMITERS}
    for delimiter, cells in counts.items():
        if min(cells) > 1 and min(cells) == max(cells):
            return delimiter
    for delimiter, cells in counts.items():
        if min(cells) > 1:
            return delimiter
    return None


def _cell_count(line: str, delimiter: str) -> int:
    try:
        return max((len(cells) for cells in csv.reader([line], delimiter=delimiter)), default=0)
    except csv.Error:  # a cell above the module's limit: a wide line that is cut by something else
        return 1


def has_header(records: Sequence[Sequence[str]]) -> bool:
    """Whether the first record is a header.

    It is where it has text above a column of numbers. A lone record is one where all of it is text.
    """
    first, below = records[0], records[1:]
    if not below:
        return all(_is_text(cell) for cell in first)
    return any(
        _is_text(cell) and _is_numeric([record[column] for record in below if column < len(record)])
        for column, cell in enumerate(first)
    )


def _is_text(cell: str) -> bool:
    # A missing value at the head of a column is no name: the record is data, and the gap an error to report.
    return not is_decimal(cell) and not is_missing(cell)


def _is_numeric(cells: Sequence[str]) -> bool:
    present = [cell for cell in cells if not is_missing(cell)]
    return bool(present) and all(is_decimal(cell) for cell in present)


def header_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Column names of a header."""
    return tuple(cell.strip() for cell in cells)


def label_position(wanted: str | int | None, names: tuple[str, ...] | None, n_columns: int, source: str) -> int | None:
    """Position, from 0, of the label column that `wanted` means; None for a table without labels."""
    if wanted is None:
        return None
    if isinstance(wanted, int):
        if not -n_columns <= wanted < n_columns:
            raise file_error(
                source,
                f"label_column={wanted} but there are {n_columns} columns; count from 0, or back from -1",
            )
        return wanted % n_columns
    if wanted == "auto":
        return _usual_position(names, n_columns)
    if names is None:
        raise file_error(
            source, f"label_column={wanted!r} but there is no header to look it up in; give its number from 0"
        )
    found = [position for position, name in enumerate(names) if name == wanted]
    if len(found) != 1:
        listed = excerpt(", ".join(names))
        problem = "no column has" if not found else f"{len(found)} columns have"
        raise file_error(source, f"{problem} the name label_column={wanted!r}, of {listed}; give its number from 0")
    return found[0]


def _usual_position(names: tuple[str, ...] | None, n_columns: int) -> int:
    lowered = [name.lower() for name in names or ()]
    telling = [lowered.index(name) for name in LABEL_NAMES if name in lowered]
    return telling[0] if telling else n_columns - 1
