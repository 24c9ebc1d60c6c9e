"""What counts as a number in a text file: plain decimal notation, nothing that Python adds to it."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

# float() alone would also take '1_000', digits of other scripts, 'nan' and 'infinity'.
# There is one way to match a run of digits: with two, a long one that ends in something else would take its square.
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
# Blanks to str.strip, and not to float().
_SEPARATORS = re.compile("[\x1c-\x1f]")
# How people write "there is no value here".
_MISSING = frozenset({"", "?", "na", "n/a", "nan", "-nan", "null", "none"})


def is_decimal(text: str) -> bool:
    """Whether `text`, stripped of blanks, is a number in decimal notation."""
    return _DECIMAL.fullmatch(text.strip()) is not None and _SEPARATORS.search(text) is None


def is_missing(text: str) -> bool:
    """Whether `text` stands for a missing value."""
    return text.strip().lower() in _MISSING


def finite_number(text: str, dtype: np.dtype[Any]) -> float | None:
    """Value of `text` rounded to `dtype`, or None where it is not a number or not a finite one there."""
    if not is_decimal(text):
        return None
    value = float(text)
    if dtype != np.float64:
        value = float(cast_quietly(np.array(value), dtype))
    return value if math.isfinite(value) else None


def cast_quietly(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Cast to `dtype`; what overflows becomes infinite, for the caller to find and report."""
    with np.errstate(over="ignore"):
        return values.astype(dtype, copy=False)
