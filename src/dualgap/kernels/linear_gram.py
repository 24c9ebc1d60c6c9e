"""The Gram matrix of a linear kernel, seen through its factor: K = AA' + constant, never stored.

Products with K are two products with A; entries are made where a solver asks for them. The constant is a bias that is
penalised like a weight: one more feature, of the value sqrt(constant), that nobody has to append.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap._vector_passes import nonzero
from dualgap.kernels.compact_rows import compact_rows
from dualgap.kernels.factor import Factor
from dualgap.kernels.level_rows import level_rows
from dualgap.kernels.linear_rows import rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.linear_rows import Rows


class LinearGram:
    """K = AA' + constant over the rows of A.

    Parameters
    ----------
    A : ndarray (C order) or CSR matrix, float32 or float64
        The rows; neither copied nor upcast.
    constant : float
        Added to every entry; must not be negative.
    n_jobs : int or None
        Threads for products.
    """

    psd = True

    def __init__(self, A: Any, constant: float = 0.0, n_jobs: int | None = None) -> None:
        if not constant >= 0.0:
            raise ValueError(f"constant must not be negative; got {constant!r}.")
        self.factor, self.constant = A, float(constant)
        self.operator = Factor(A, self.constant**0.5, n_jobs)
        self.n, self.dtype = self.operator.n, np.dtype(A.dtype)
        self.evaluations = 0
        self._last: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    @property
    def entry_cost(self) -> float:
        """Multiplications an entry takes."""
        return self.operator.row_length

    def diag(self) -> NDArray[np.float64]:
        """The diagonal."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> NDArray[np.float64]:
        """Kept, because it takes a pass over the data and several ask for it."""
        return self.operator.squared_norms()

    @cached_property
    def quick_rows(self) -> Rows:
        """The rows for passes over them, packed where that pays; kept, because several problems may share them."""
        return level_rows(self.factor) or compact_rows(self.factor) or rows_of(self.factor)

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
        """A dense block, in float64."""
        self.evaluations += len(rows) * len(columns)
        return self.operator.inner(np.asarray(rows), np.asarray(columns))

    def rows(self, points: NDArray[np.intp]) -> NDArray[np.float64]:
        """Whole rows, made anew."""
        rows = self.block(np.atleast_1d(points), np.arange(self.n))
        rows.flags.writeable = False
        return rows

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """``out += K[rows, points] @ delta`` by two products with A."""
        weights = self.operator.transposed(np.asarray(delta, dtype=np.float64), np.asarray(points))
        out += self.operator.products(weights, rows)

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ weights`` in float64."""
        return self.operator.products(self._sum_of_rows(weights), rows)

    def weights(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A' coefficients``, the weights of the features, in float64; at once after `exact` for the same ones."""
        return self._sum_of_rows(coefficients)[: self.operator.features].copy()

    def _sum_of_rows(self, coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A' coefficients``, and below it that of the constant column; the last one is kept."""
        last = self._last
        if last is None or not np.array_equal(last[0], coefficients):
            used = nonzero(coefficients)
            last = coefficients.copy(), self.operator.transposed(coefficients[used], used)
            self._last = last
        return last[1]

    def forget(self) -> None:
        """Make the next sum of rows anew."""
        self._last = None

    def separate(self) -> LinearGram:
        """The same matrix for one thread beside others."""
        return LinearGram(self.factor, self.constant, 1)
