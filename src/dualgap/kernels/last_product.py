"""The last product with a kernel matrix, from which the next one is corrected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# An exact product is corrected at most so often before it is made anew: each correction rounds once more, so that a
# hundred of them leave at most two digits fewer than the fifteen there are.
_CORRECTIONS = 100
# Sums that were this many times larger have left their rounding behind.
_SHRUNK = 10.0


class LastProduct:
    """The last exact product, so that the next one only pays for the weights that have changed since."""

    def __init__(self) -> None:
        self.rows: NDArray[np.intp] | None = None
        self.weights: NDArray[np.float64] | None = None
        self.product = np.empty(0)
        self.corrections = 0
        self.size = 0.0

    def renew(
        self,
        weights: NDArray[np.float64],
        rows: NDArray[np.intp] | None,
        multiply: Callable[[NDArray[np.float64], NDArray[np.intp] | None], NDArray[np.float64]],
    ) -> NDArray[np.float64]:
        """``K[rows] @ weights`` from the last product where that is less work, else anew."""
        same = self.weights is not None and (
            rows is self.rows if rows is None or self.rows is None else np.array_equal(rows, self.rows)
        )
        if same and self.weights is not None and self.corrections < _CORRECTIONS:
            change = weights - self.weights
            size = float(np.abs(weights).sum())
            if np.count_nonzero(change) < np.count_nonzero(weights) and self.size <= _SHRUNK * size:
                product = self.product + multiply(change, rows) if np.any(change) else self.product
                self.weights, self.product, self.corrections = weights.copy(), product, self.corrections + 1
                self.size = max(self.size, size)
                return product.copy()
        product = multiply(weights, rows)
        self.rows, self.weights, self.product, self.corrections = rows, weights.copy(), product, 0
        self.size = float(np.abs(weights).sum())
        return product.copy()
