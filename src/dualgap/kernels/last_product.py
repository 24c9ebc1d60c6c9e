"""The last product with a kernel matrix, from which the next one is corrected.

Some of its components may come from float32 entries, with a bound of their error; the others are exact, which is to
say from float64 entries, and have none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Multiply: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.intp] | None], NDArray[np.float64]]
    Approximate: TypeAlias = Callable[
        [NDArray[np.float64], NDArray[np.intp]], tuple[NDArray[np.float64], NDArray[np.float64]]
    ]

# An exact product is corrected at most so often before it is made anew: each correction rounds once more, so that a
# hundred of them leave at most two digits fewer than the fifteen there are.
_CORRECTIONS = 100
# Where float32 entries are involved, bounds of errors add up from one correction to the next, and more components have
# to be made exact: a correction has to be less than this part of the work of a product anew, whose bound is that of its
# own entries (20 values of C on ijcnn1, the largest two: 927 and 1269 exact components in place of 4124 and 7167).
_WORTH_MORE_ERROR = 0.8
# Sums that were this many times larger have left their rounding behind.
_SHRUNK = 10.0


class LastProduct:
    """The last product ``K[rows] @ weights``, so that the next one only pays for the weights that have changed since.

    Attributes
    ----------
    rows : ndarray of int or None
        Its components (all when None).
    weights : ndarray or None
        The coefficients; None before the first product.
    product : ndarray
        The components.
    error : ndarray or None
        How far each can be from the exact one; None where all are exact.
    """

    def __init__(self) -> None:
        self.rows: NDArray[np.intp] | None = None
        self.weights: NDArray[np.float64] | None = None
        self.product = np.empty(0)
        self.error: NDArray[np.float64] | None = None
        self.corrections = 0
        self.size = 0.0

    def leads_to(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None) -> bool:
        """Whether the product with these weights is less work from here than anew."""
        if self.weights is None or self.corrections >= _CORRECTIONS:
            return False
        if not (rows is self.rows if rows is None or self.rows is None else np.array_equal(rows, self.rows)):
            return False
        most = np.count_nonzero(weights) * (1.0 if self.error is None else _WORTH_MORE_ERROR)
        fewer = np.count_nonzero(weights != self.weights) < most
        return bool(fewer and self.size <= _SHRUNK * float(np.abs(weights).sum()))

    def renew(
        self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None, multiply: Multiply
    ) -> NDArray[np.float64]:
        """``K[rows] @ weights``, exact, from the last product where that is less work, else anew."""
        if not self.leads_to(weights, rows):
            self._start(weights, rows, multiply(weights, rows), None)
            return self.product.copy()
        assert self.weights is not None
        change = weights - self.weights
        product = self.product
        if self.error is None:
            product = product + multiply(change, rows) if np.any(change) else product
        else:
            known, bounded = np.flatnonzero(self.error == 0.0), np.flatnonzero(self.error != 0.0)
            product = product.copy()
            if np.any(change):
                product[known] += multiply(change, self._at(known))
            product[bounded] = multiply(weights, self._at(bounded))
        self._go_on(weights, product, None)
        return product.copy()

    def bound(
        self,
        weights: NDArray[np.float64],
        rows: NDArray[np.intp] | None,
        needed: NDArray[np.bool_],
        multiply: Multiply,
        approximate: Approximate,
    ) -> None:
        """Make this the product ``K[rows] @ weights``: exact where it is `needed`, elsewhere with a bound."""
        # Places: to choose by truth values takes five times as long.
        exact, rest = np.flatnonzero(needed), np.flatnonzero(~needed)
        if not self.leads_to(weights, rows):
            self.rows = rows
            product, error = np.zeros(needed.size), np.zeros(needed.size)
            product[exact] = multiply(weights, self._at(exact))
            product[rest], error[rest] = approximate(weights, self._at(rest))
            self._start(weights, rows, product, error)
            return
        assert self.weights is not None
        change = weights - self.weights
        moved_any = bool(np.any(change))
        if self.error is not None and not moved_any and not np.any(self.error[exact]):
            return
        product = self.product.copy()
        error = np.zeros(needed.size) if self.error is None else self.error.copy()
        certain = error[exact] == 0.0
        known, unknown = exact[np.flatnonzero(certain)], exact[np.flatnonzero(~certain)]
        if moved_any:
            product[known] += multiply(change, self._at(known))
            moved, off = approximate(change, self._at(rest))
            product[rest] += moved
            error[rest] += off
        if unknown.size:
            product[unknown], error[unknown] = multiply(weights, self._at(unknown)), 0.0
        self._go_on(weights, product, error)

    def sharpen(self, places: NDArray[np.intp], multiply: Multiply) -> None:
        """Make some components exact."""
        assert self.weights is not None
        assert self.error is not None
        self.product[places] = multiply(self.weights, self._at(places))
        self.error[places] = 0.0

    def _at(self, places: NDArray[np.intp]) -> NDArray[np.intp]:
        """The points of some components."""
        return places if self.rows is None else self.rows[places]

    def _start(
        self,
        weights: NDArray[np.float64],
        rows: NDArray[np.intp] | None,
        product: NDArray[np.float64],
        error: NDArray[np.float64] | None,
    ) -> None:
        self.rows, self.weights, self.product, self.error = rows, weights.copy(), product, error
        self.corrections, self.size = 0, float(np.abs(weights).sum())

    def _go_on(
        self, weights: NDArray[np.float64], product: NDArray[np.float64], error: NDArray[np.float64] | None
    ) -> None:
        self.weights, self.product, self.error = weights.copy(), product, error
        self.corrections, self.size = self.corrections + 1, max(self.size, float(np.abs(weights).sum()))
