"""Cholesky factors of matrices that rounding may have made indefinite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import cho_factor

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What is added to the diagonal, relative to it, where a factorisation fails; raised by 100 until it does not.
_RIDGE = 1e-12


def factored(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], bool]:
    """A factor for `scipy.linalg.cho_solve`, with as little added to the diagonal as it takes; changes the diagonal."""
    diagonal = np.diag_indices_from(matrix)
    own, ridge = matrix[diagonal].copy(), 0.0
    while True:
        try:
            return cho_factor(matrix, lower=True, check_finite=False)  # type: ignore[no-any-return]
        except np.linalg.LinAlgError:
            ridge = 100.0 * ridge if ridge else _RIDGE
            if not ridge < 1.0:
                raise
            matrix[diagonal] = own * (1.0 + ridge) + ridge * max(float(own.max()), 1e-300)
