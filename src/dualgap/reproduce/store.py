"""Records as files: one JSON an experiment, its figures as SVG, and a page about all; each written whole or not."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from dualgap.atomic import atomic_write
from dualgap.reproduce.drawing import draw, draw_digits
from dualgap.reproduce.index import render_index
from dualgap.reproduce.page import render
from dualgap.reproduce.record import Record

PAGE, INDEX = "index.html", "README.md"


def save(record: Record, folder: Path) -> list[Path]:
    """Write a record and its figures; returns the files."""
    files = [_write(folder / f"{record.name}.json", dumps([record]))]
    for figure in record.figures:
        files.append(_write(folder / f"{record.name}-{figure.name}.svg", draw(figure)))
    for digits in record.digits:
        files.append(_write(folder / f"{record.name}-{digits.name}.svg", draw_digits(digits)))
    return files


def save_page(records: Sequence[Record], folder: Path) -> Path:
    """Write the page about all of them."""
    return _write(folder / PAGE, render(records))


def save_index(folder: Path, names: Iterable[str], comparison: str = "") -> Path:
    """Write the contents of the folder: of each experiment what its file holds, whatever its length."""
    records = []
    for name in names:
        for quick in (False, True):
            try:
                record = finished(name, folder, quick=quick)
            except ValueError:
                continue  # what cannot be read is not part of the contents; --continue names the file
            if record is not None:
                records.append(record)
    return _write(folder / INDEX, render_index(records, comparison))


def save_json(records: Sequence[Record], path: Path) -> None:
    """Write several records into one file."""
    _write(path, dumps(records))


def finished(name: str, folder: Path, *, quick: bool) -> Record | None:
    """The record of an earlier run of the same length, or None.

    Raises
    ------
    ValueError
        Where the file is there and is no record.
    """
    path = folder / f"{name}.json"
    if not path.exists():
        return None
    try:
        record = Record.from_dict(json.loads(path.read_text(encoding="utf-8"))[0])
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(f"{path}: {error}; remove it, or leave --continue out.") from None
    return record if record.quick == quick else None


def beside(records: Sequence[Record], folder: Path, names: Iterable[str]) -> list[Record]:
    """These records and those of the same length that other runs left in the folder, in the order of `names`."""
    mine = {record.name: record for record in records}
    found = []
    for name in names:
        record = mine.get(name)
        if record is None and records:
            try:
                record = finished(name, folder, quick=records[0].quick)
            except ValueError:
                continue  # the page is about what can be read; --continue names the file that cannot
        if record is not None:
            found.append(record)
    return found


def dumps(records: Iterable[Record]) -> str:
    """The records as JSON."""
    return json.dumps([record.as_dict() for record in records], indent=1, ensure_ascii=False) + "\n"


def _write(path: Path, text: str) -> Path:
    with atomic_write(path) as file:
        file.write(text.encode("utf-8"))
    return path
