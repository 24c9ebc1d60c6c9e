"""Samples that need no conversion: what scikit-learn's validation would hand back as it is, found in a few steps.

Its own way there takes a third of a millisecond, as long as a small fit. Everything else, and everything that is wrong,
is left to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray


def plain(X: Any, y: Any) -> bool:
    """Whether X has finite floats, in a C-ordered array or CSR, and y finite numbers in an array, one a row."""
    if type(X) is np.ndarray:
        values, in_order = X, X.ndim == 2 and X.flags.c_contiguous
    elif type(X) in (sp.csr_matrix, sp.csr_array):
        values, in_order = X.data, X.ndim == 2
    else:
        return False
    return bool(
        in_order
        and type(y) is np.ndarray
        and y.shape == X.shape[:1]
        and min(X.shape) > 0
        and values.dtype.char in "df"
        and values.dtype.isnative
        and y.dtype.kind in "biuf"
        and _finite(values)
        and _finite(y)
    )


def keep_width(estimator: Any, X: Any) -> None:
    """Set what `validate_data` sets for samples that are `plain`: their width, and no names, which such arrays lack.

    Its own way there, which asks every library of data frames whether the array is one of theirs, takes 60 to 110
    microseconds.
    """
    estimator.n_features_in_ = X.shape[1]
    if hasattr(estimator, "feature_names_in_"):  # of an earlier fit
        del estimator.feature_names_in_


def _finite(values: NDArray[Any]) -> bool:
    """Whether all values are finite; False as well where their sum overflows."""
    if values.dtype.kind != "f":
        return True
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(values.sum()))
