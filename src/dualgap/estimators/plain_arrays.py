"""Samples that need no conversion: what scikit-learn's validation would hand back as it is, found in a few steps.

Its own way there takes a third of a millisecond, as long as a small fit. Everything else, and everything that is wrong,
is left to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def plain(X: Any, y: Any) -> bool:
    """Whether X is a C-ordered NumPy array of finite floats and y one of finite numbers, one a row."""
    return (
        type(X) is np.ndarray
        and type(y) is np.ndarray
        and X.ndim == 2
        and y.shape == X.shape[:1]
        and X.size > 0
        and X.dtype.char in "df"
        and X.dtype.isnative
        and y.dtype.kind in "biuf"
        and X.flags.c_contiguous
        and _finite(X)
        and _finite(y)
    )


def _finite(values: np.ndarray) -> bool:
    """Whether all values are finite; False as well where their sum overflows."""
    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))
