"""The exact parser of LIBSVM text: token by token, it knows what is wrong with which line."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from dualgap.datasets.errors import excerpt, file_error
from dualgap.datasets.libsvm_rows import Rows, compact_columns
from dualgap.datasets.number_text import finite_number, is_decimal, is_missing

# The largest that an int64 holds.
_LARGEST_INDEX: Final = 2**63 - 1


def parse_exact(text: bytes, source: str, first_line: int, n_features: int | None, dtype: np.dtype[Any]) -> Rows:
    """Line by line, token by token; raises for the first thing that is wrong."""
    labels: list[float] = []
    lengths: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for line, content in enumerate(text.split(b"\n"), first_line):
        tokens = content.split()
        if not tokens:
            continue
        try:
            labels.append(_label(tokens[0]))
            previous = 0
            for token in tokens[1:]:
                index, value = _pair(token, dtype)
                _check_order(index, previous, n_features)
                columns.append(index - 1)
                values.append(value)
                previous = index
        except _BadTokenError as problem:
            raise file_error(source, str(problem), line) from None
        lengths.append(len(tokens) - 1)
    return Rows(
        np.array(labels, dtype=np.float64),
        np.array(lengths, dtype=np.int64),
        compact_columns(np.array(columns, dtype=np.int64)),
        np.array(values, dtype=dtype),
    )


class _BadTokenError(Exception):
    """What is wrong with a token; the caller knows the line."""


def _label(token: bytes) -> float:
    text = token.decode("ascii", "replace")
    value = finite_number(text, np.dtype(np.float64))
    if value is not None:
        return value
    found = excerpt(token)
    if ":" in text:
        raise _BadTokenError(f"starts with {found} where a label should be; put the label first")
    if "," in text:
        raise _BadTokenError(f"label {found} is a list; keep one label a line (one file for each task)")
    raise _BadTokenError(f"label {found} is not a finite number; encode labels as numbers, such as -1 and +1")


def _pair(token: bytes, dtype: np.dtype[Any]) -> tuple[int, float]:
    head, colon, tail = token.decode("ascii", "replace").partition(":")
    found = excerpt(token)
    if head == "qid" and colon:
        raise _BadTokenError(f"{found} is a query of a ranking task; remove the qid tokens")
    if not colon or not head or not tail:
        raise _BadTokenError(f"{found} is not index:value; correct or remove it")
    return _index(head, found), _value(tail, dtype, found)


def _index(text: str, found: str) -> int:
    # ASCII digits only: str.isdigit alone takes superscripts and other scripts.
    if not (text.isascii() and text.removeprefix("-").isdigit()):
        raise _BadTokenError(f"the index of {found} is not a whole number; indices are 1, 2, 3, ...")
    # A number this long is out of range whatever it is, and int() refuses thousands of digits.
    significant = text.lstrip("0")
    index = int(significant or "0") if len(significant) <= len(str(_LARGEST_INDEX)) else _LARGEST_INDEX + 1
    if text.startswith("-") or index == 0:
        raise _BadTokenError(f"{found} has an index below 1; indices start at 1, so renumber the features")
    if index > _LARGEST_INDEX:
        raise _BadTokenError(f"the index of {found} is above {_LARGEST_INDEX}; renumber the features")
    return index


def _value(text: str, dtype: np.dtype[Any], found: str) -> float:
    value = finite_number(text, dtype)
    if value is not None:
        return value
    if is_missing(text):
        raise _BadTokenError(f"{found} has a missing value; impute it or leave the feature out")
    if is_decimal(text):
        raise _BadTokenError(f"the value of {found} is too large for {dtype}; rescale the feature")
    raise _BadTokenError(f"the value of {found} is not a finite number; correct or remove it")


def _check_order(index: int, previous: int, n_features: int | None) -> None:
    if index == previous:
        raise _BadTokenError(f"index {index} appears twice; remove one of the two")
    if index < previous:
        raise _BadTokenError(f"index {index} comes after index {previous}; sort each line by index")
    if n_features is not None and index > n_features:
        raise _BadTokenError(f"index {index} is above n_features={n_features}; raise it or leave it out")
