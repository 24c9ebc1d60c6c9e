"""Rows of a part of a kernel matrix, made as a solver needs them and read again by the certificate.

Where all variables of a problem fit into one block, the rows of those that have moved are there when the solver ends,
and with them every float32 entry that the product ``K @ weights`` is made of. Making them once more would be most of
the work of a certificate (`kernels.bounded_product` adds the bound of their error).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.memory import aligned
from dualgap.kernels.row_cache import add_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.fused_gram import FusedGram


class Strips:
    """The rows ``K[points, columns]`` made so far.

    Parameters
    ----------
    gram : FusedGram
        What makes entries.
    columns : ndarray of intp, shape (q,)
        The points of all columns, some perhaps twice.

    Attributes
    ----------
    values : ndarray, shape (q, q)
        The rows, from the first on. The entry of a point with itself may be written over by who knows it better:
        certificates have it from the diagonal of the matrix.
    """

    def __init__(self, gram: FusedGram, columns: NDArray[np.intp]) -> None:
        self._gram, self._columns = gram, columns
        self.values: NDArray[Any] = aligned(columns.size**2, gram.dtype).reshape(columns.size, columns.size)
        self._made = 0
        self._slot = np.full(gram.n, -1, dtype=np.int64)
        self._place = np.full(gram.n, -1, dtype=np.int64)
        self._place[columns] = np.arange(columns.size)

    def make(self, points: NDArray[np.intp]) -> NDArray[Any]:
        """The rows of more points, which are the next of `values`."""
        slots = np.arange(self._made, self._made + points.size)
        rows = self.values[self._made : self._made + points.size]
        self._gram.block(points, self._columns, rows, keep=True)
        self._slot[points] = slots
        self._made += points.size
        return rows

    def cover(self, points: NDArray[np.intp], rows: NDArray[np.intp]) -> bool:
        """Whether all entries between these points are here."""
        return bool(np.all(self._slot[points] >= 0) and np.all(self._place[rows] >= 0))

    def accumulate_groups(
        self,
        outs: Sequence[NDArray[np.float64]],
        groups: Sequence[tuple[NDArray[np.intp], NDArray[np.float64]]],
        rows: NDArray[np.intp],
    ) -> None:
        """``out += K[rows, points] @ delta`` for each group, in float64; right where no row is one of the points."""
        for out, (points, delta) in zip(outs, groups, strict=True):
            sums = np.zeros(self._columns.size)
            add_rows(self.values, self._slot[points], delta, None, sums)
            out += sums[self._place[rows]]
