"""The kernel matrix of a chunk: what two chunks share is computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.solvers._subproblem import symmetric

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram


class ChunkMatrix:
    """Kernel entries over the points of the present chunk, in float64."""

    def __init__(self, gram: Gram) -> None:
        self.gram = gram
        self.forget()

    def forget(self) -> None:
        """Hold nothing."""
        self.points = np.empty(0, dtype=np.intp)
        self.values = np.empty((0, 0))

    def over(self, points: NDArray[np.intp]) -> NDArray[np.float64]:
        """The entries over these points (ascending)."""
        old = np.isin(points, self.points, assume_unique=True)
        kept, new = np.flatnonzero(old), np.flatnonzero(~old)
        values = np.empty((points.size, points.size))
        before = np.searchsorted(self.points, points[kept])
        values[np.ix_(kept, kept)] = self.values[np.ix_(before, before)]
        self.forget()  # before the new part is computed: three matrices at once are not needed
        if new.size:
            values[np.ix_(new, new)] = symmetric(self.gram.block(points[new], points[new]))
        if new.size and kept.size:
            across = np.asarray(self.gram.block(points[new], points[kept]), dtype=np.float64)
            values[np.ix_(new, kept)] = across
            values[np.ix_(kept, new)] = across.T
        self.points, self.values = points, values
        return values
