"""Reading tables in text: cells separated by commas, semicolons, tabs or blanks."""

from __future__ import annotations

import csv
import io
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from dualgap.datasets import streams
from dualgap.datasets.csv_layout import has_header, header_names, label_position, sniff_delimiter
from dualgap.datasets.dataset import Dataset
from dualgap.datasets.errors import excerpt, file_error
from dualgap.datasets.number_text import cast_quietly, finite_number, is_decimal, is_missing
from dualgap.datasets.streams import open_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from dualgap.datasets.dataset import Labels

    Record = tuple[int, list[str]]  # line number in the file, cells

# Lines looked at to find the delimiter and the header: more than one, so that an odd line does not decide.
_SAMPLE_LINES: Final = 20
# Cells converted at once: as Python strings of some 60 bytes each they take about 16 MB.
_CELLS_PER_BLOCK: Final = 1 << 18
# A class named "none" or "NA" is a class; only these say that a label is missing.
_MISSING_LABELS: Final = frozenset({"", "?", "nan"})
_NUMBER: Final = np.dtype(np.float64)


class _Layout(NamedTuple):
    source: str
    names: tuple[str, ...] | None
    n_columns: int
    label: int | None

    def column(self, position: int) -> str:
        """How a message names the column at `position` (from 0)."""
        name = "" if self.names is None else f" ({excerpt(self.names[position])})"
        return f"column {position + 1}{name}"


def read_csv(path: Path, *, label_column: str | int | None, header: bool | str, dtype: np.dtype[Any]) -> Dataset:
    """Read a table in text; see `dualgap.datasets.load` for what the arguments mean."""
    source = str(path)
    with open_bytes(path) as stream, io.TextIOWrapper(stream, encoding="utf-8-sig", newline="") as lines:
        try:
            records = _records(_lines(lines, source), source)
            start = list(islice(records, _SAMPLE_LINES))
            if not start:
                raise file_error(source, "the file has no rows, only blank lines; write or download it again")
            headed = has_header([cells for _, cells in start]) if header == "auto" else bool(header)
            layout = _layout(start[0][1], headed, label_column, source)
            X, labels = _read_rows(chain(start[headed:], records), layout, dtype)
        except UnicodeDecodeError as error:
            raise file_error(
                source, f"not UTF-8 text ({error.reason}); convert it, for example with iconv -t utf-8"
            ) from error
    names = layout.names
    features = None if names is None else tuple(n for i, n in enumerate(names) if i != layout.label)
    return Dataset(X, None if layout.label is None else _label_array(labels), features, source)


def _layout(first: list[str], headed: bool, label_column: str | int | None, source: str) -> _Layout:
    names = header_names(first) if headed else None
    label = label_position(label_column, names, len(first), source)
    if len(first) == 1 and label is not None:
        raise file_error(
            source,
            "has one column only; separate features and label by comma, semicolon, tab or blank",
        )
    return _Layout(source, names, len(first), label)


def _lines(stream: io.TextIOWrapper, source: str) -> Iterator[str]:
    """Lines, none of them longer than a line may be."""
    number = 0
    while line := stream.readline(streams.LONGEST_LINE):
        number += 1
        if len(line) == streams.LONGEST_LINE and not line.endswith("\n"):
            raise streams.line_error(source, number)
        yield line


def _records(lines: Iterator[str], source: str) -> Iterator[Record]:
    """Cells of every line that is not blank, with the number of that line."""
    head: list[str] = []
    filled: list[str] = []
    for raw in lines:
        # numpy.savetxt puts a '#' before its header, which is no part of the first name.
        line = raw if filled else raw.lstrip("# ")
        head.append(line)
        if line.strip():
            filled.append(line)
        if len(filled) == _SAMPLE_LINES:
            break
    if not filled:
        return
    delimiter = sniff_delimiter(filled)
    everything = chain(head, lines)
    yield from (_blank_separated(everything) if delimiter is None else _delimited(everything, delimiter, source))


def _blank_separated(lines: Iterable[str]) -> Iterator[Record]:
    for line, content in enumerate(lines, 1):
        cells = content.split()
        if cells:
            yield line, cells


def _delimited(lines: Iterable[str], delimiter: str, source: str) -> Iterator[Record]:
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=delimiter != "\t", strict=True)
    while True:
        line = reader.line_num + 1  # where the record starts: a quoted cell may span several lines
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise file_error(source, f"not a table ({error}); correct the quotes there", line) from error
        if cells is None:
            return
        if len(cells) > 1 or (cells and cells[0].strip()):
            yield line, cells


def _read_rows(
    records: Iterator[Record], layout: _Layout, dtype: np.dtype[Any]
) -> tuple[NDArray[np.floating[Any]], list[str]]:
    rows_per_block = max(1, _CELLS_PER_BLOCK // layout.n_columns)
    blocks: list[NDArray[np.floating[Any]]] = []
    labels: list[str] = []
    while block := list(islice(records, rows_per_block)):
        _check_widths(block, layout)
        if layout.label is not None:
            labels += _take_labels(block, layout, layout.label)
        blocks.append(_features(block, layout, dtype))
    if not blocks:
        raise file_error(layout.source, "has a header and no rows; add rows, or pass header=False if it is one")
    return np.concatenate(blocks), labels


def _check_widths(block: list[Record], layout: _Layout) -> None:
    for line, cells in block:
        if len(cells) != layout.n_columns:
            raise file_error(
                layout.source,
                f"{len(cells)} cells where the first line has {layout.n_columns}; correct the line",
                line,
            )


def _take_labels(block: list[Record], layout: _Layout, position: int) -> list[str]:
    """Remove the label cells from the block and return them, stripped."""
    taken = []
    for line, cells in block:
        label = cells.pop(position).strip()
        if label.lower() in _MISSING_LABELS:
            where = layout.column(position)
            raise file_error(layout.source, f"the label in {where} is missing; remove the row or label it", line)
        if label.lower().lstrip("+-") in ("inf", "infinity") or _overflows(label, _NUMBER):
            raise file_error(layout.source, f"the label {excerpt(label)} is not finite; correct it", line)
        taken.append(label)
    return taken


def _overflows(text: str, dtype: np.dtype[Any]) -> bool:
    return is_decimal(text) and finite_number(text, dtype) is None


def _features(block: list[Record], layout: _Layout, dtype: np.dtype[Any]) -> NDArray[np.floating[Any]]:
    width = layout.n_columns - (layout.label is not None)
    cells = list(chain.from_iterable(cells for _, cells in block))
    try:
        values = cast_quietly(np.fromiter(map(float, cells), np.float64, count=len(cells)), dtype)
    except ValueError:
        raise _first_bad_cell(block, layout, dtype) from None
    # float() reads '1_000' as a number; here it is a typing error or an identifier.
    if not np.isfinite(values).all() or "_" in "".join(cells):
        raise _first_bad_cell(block, layout, dtype)
    return values.reshape(len(block), width)


def _first_bad_cell(block: list[Record], layout: _Layout, dtype: np.dtype[Any]) -> ValueError:
    for line, cells in block:
        for position, cell in enumerate(cells):
            if finite_number(cell, dtype) is not None:
                continue
            removed_before = layout.label is not None and position >= layout.label
            where = layout.column(position + removed_before)
            return file_error(layout.source, _complaint(cell, where, dtype), line)
    raise AssertionError("a block that does not convert has a cell that is not a finite number")


def _complaint(cell: str, where: str, dtype: np.dtype[Any]) -> str:
    if is_missing(cell):
        return f"{where} has a missing value, {excerpt(cell)}; impute it or remove the row first"
    if _overflows(cell, dtype):
        return f"{where} has {excerpt(cell)}, too large for {dtype}; rescale the column"
    if is_decimal(cell.replace(",", ".", 1)):
        return f"{where} has {excerpt(cell)}, a decimal comma; write it with a point"
    return (
        f"{where} has {excerpt(cell)}, not a finite number; encode the column as numbers first, "
        "or name it in label_column if it is the label"
    )


def _label_array(labels: list[str]) -> Labels:
    if all(is_decimal(label) for label in labels):
        return np.array([float(label) for label in labels], dtype=np.float64)
    return np.array(labels, dtype=np.str_)
