"""Cholesky factors of matrices that rounding may have made indefinite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What is added to the diagonal, relative to it: several times the rounding of sums over thousands of rows, as equal
# or dependent columns are common. It is raised by 100 as long as the factorisation fails.
_RIDGE = 1e-12


def factored(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """A factor for `scipy.linalg.cho_solve`, good for steps that are corrected by later ones; changes the diagonal."""
    diagonal = np.diag_indices_from(matrix)
    own, ridge = matrix[diagonal].copy(), _RIDGE
    while True:
        matrix[diagonal] = own + ridge * np.maximum(own, 1e-3 * max(float(own.max()), 1e-300))
        try:
            return cho_factor(matrix, lower=True, check_finite=False)  # type: ignore[no-any-return]
        except np.linalg.LinAlgError:
            ridge *= 100.0
            if not ridge < 1.0:
                raise
