"""Real data as the experiments take it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.datasets import find, load

if TYPE_CHECKING:
    from numpy.typing import NDArray


def dense(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Points as a dense array, and labels as they are."""
    X, y = as_read(name)
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64), y


def as_read(name: str) -> tuple[Any, NDArray[np.float64]]:
    """Points, sparse where the file is, and labels as they are."""
    data = load(find(name))
    if data.y is None:
        raise ValueError(f"{name}: has no labels")
    return data.X, np.asarray(data.y, dtype=np.float64)


def check(names: tuple[str, ...]) -> None:
    """Raise at once where a data set is missing, and not after an hour.

    Raises
    ------
    FileNotFoundError
        Which names the file and DUALGAP_DATA.
    """
    for name in names:
        find(name)
