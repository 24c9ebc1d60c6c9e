"""What an experiment returns: plain data that goes to the terminal, to JSON and onto a page."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from dualgap.reproduce.claims import Claim

# A JSON file of another layout is not read back.
LAYOUT = 2


@dataclass(frozen=True)
class Table:
    """Rows with the same keys, in the order of the columns."""

    title: str
    rows: list[dict[str, Any]]
    note: str = ""


@dataclass(frozen=True)
class Line:
    """One line of a figure."""

    label: str
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Figure:
    """Lines over common axes."""

    name: str
    title: str
    x_label: str
    y_label: str
    lines: list[Line]
    log_x: bool = False
    log_y: bool = True


@dataclass(frozen=True)
class Digits:
    """Small grey pictures in a row: each a list of lines of values in [-1, 1]."""

    name: str
    title: str
    pictures: list[list[list[float]]]
    labels: list[str]


@dataclass
class Record:
    """An experiment that was run.

    Attributes
    ----------
    name, title, paper : str
        The command's name, the heading, and which paper it belongs to.
    quick : bool
        Whether it is the short run.
    data, partitions : str
        What was learned from, and how it was divided.
    parameters : dict
        Everything that was set.
    differences : list of str
        What differs from the paper.
    notes : list of str
        Limits that were reached on the way.
    tables, figures, digits, claims
        What came of it.
    seconds : float
        Wall time, without compiling.
    parts : dict
        Seconds of each part.
    date : str
        The day it was run, in UTC.
    machine, versions : dict
        Where it ran, and with what.
    """

    name: str
    title: str
    paper: str
    quick: bool
    data: str
    partitions: str
    parameters: dict[str, Any]
    differences: list[str]
    notes: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    digits: list[Digits] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    seconds: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    date: str = ""
    machine: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON: numbers that are not finite become None."""
        plain: dict[str, Any] = _plain(asdict(self))
        return {"layout": LAYOUT, **plain}

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> Record:
        """The record that `as_dict` wrote.

        Raises
        ------
        ValueError
            Where it is none, or of another layout.
        """
        if not isinstance(plain, dict) or plain.get("layout") != LAYOUT:
            raise ValueError("this is no record of an experiment that this version wrote")
        rest = {key: value for key, value in plain.items() if key != "layout"}
        parts: dict[str, Any] = {
            "tables": [Table(**one) for one in rest.pop("tables")],
            "figures": [
                Figure(**{**one, "lines": [_line(line) for line in one["lines"]]}) for one in rest.pop("figures")
            ],
            "digits": [Digits(**one) for one in rest.pop("digits")],
            "claims": [Claim(**one) for one in rest.pop("claims")],
        }
        try:
            return cls(**rest, **parts)
        except TypeError as error:
            raise ValueError(f"this is no record of an experiment: {error}") from None


def _line(plain: dict[str, Any]) -> Line:
    columns = {key: [math.nan if v is None else float(v) for v in plain[key]] for key in ("x", "y")}
    return Line(plain["label"], **columns)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
