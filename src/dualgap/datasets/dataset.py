"""What a data file becomes once it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray
    from scipy import sparse

    Features: TypeAlias = NDArray[np.floating[Any]] | sparse.csr_matrix
    Labels: TypeAlias = NDArray[np.float64] | NDArray[np.str_]


# eq=False: comparing arrays field by field has no truth value.
@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples, their labels and where they came from.

    Attributes
    ----------
    X : ndarray, C-contiguous, or scipy.sparse.csr_matrix, shape (n_samples, n_features)
        One row a sample.
    y : ndarray of float64 or of str, shape (n_samples,), or None
        Labels or regression targets; strings where the file has labels that are not numbers;
        None where the file has no labels.
    feature_names : tuple of str, or None
        Names of the columns of `X` where the file has a header.
    source : str
        The file they were read from.
    """

    X: Features
    y: Labels | None
    feature_names: tuple[str, ...] | None
    source: str


def float_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Check that features can be stored as `dtype`: single or double precision."""
    try:
        checked = np.dtype(dtype)
    except TypeError as error:
        raise ValueError(f"dtype={dtype!r} is not a dtype; use float64 or float32") from error
    if checked not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ValueError(f"dtype={checked} cannot hold features here; use float64 or float32")
    return checked
