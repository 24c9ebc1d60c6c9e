"""Solving with Cholesky factors of matrices that rounding may have made indefinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What is added to the diagonal, relative to it: several times the rounding of sums over thousands of rows, as equal
# or dependent columns are common. It is raised by 100 as long as the factorisation fails.
_RIDGE = 1e-12


def factored(lower: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
    """The Cholesky factor of M, or of M with a little more on its diagonal: for `solved`.

    Parameters
    ----------
    lower : callable
        Makes M's lower triangle, by rows. It is overwritten by the factor, so a failure asks for another.
    """
    ridge = _RIDGE
    while True:
        matrix = lower()
        own = matrix.diagonal().copy()
        np.fill_diagonal(matrix, own + ridge * np.maximum(own, 1e-3 * max(float(own.max()), 1e-300)))
        # LAPACK stores by columns, and what is the lower triangle by rows is the upper one to it.
        factor, failed = dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)
        if not failed:
            return np.asarray(factor)
        ridge *= 100.0
        if not ridge < 1.0:
            raise np.linalg.LinAlgError("The matrix has no Cholesky factor, whatever is added to its diagonal.")


def solved(factor: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """The solution of ``M x = b``, good for steps that are corrected by later ones; b is a vector or columns."""
    return np.asarray(dpotrs(factor, b, lower=0)[0])
