"""A kernel matrix plus a constant: ``K + c 11'``, the kernel of a model whose bias is penalised like its weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram


class ShiftedGram:
    """``K + c 11'`` over any Gram matrix K; positive semidefinite where K is.

    Parameters
    ----------
    base : Gram
        K.
    constant : float
        c, not negative.
    """

    factor: Any = None

    def __init__(self, base: Gram, constant: float = 1.0) -> None:
        if not constant >= 0.0 or not np.isfinite(constant):
            raise ValueError(f"constant must be finite and non-negative; got {constant!r}.")
        self.base, self.constant = base, float(constant)
        self.n, self.dtype, self.psd = base.n, base.dtype, base.psd
        self._everything = np.arange(base.n)

    @property
    def evaluations(self) -> int:
        """Kernel values that K computed."""
        return self.base.evaluations

    @evaluations.setter
    def evaluations(self, count: int) -> None:
        self.base.evaluations = count

    def diag(self) -> NDArray[np.float64]:
        """The diagonal."""
        return self.base.diag() + self.constant

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """A dense block."""
        return np.asarray(self.base.block(rows, columns) + self.dtype.type(self.constant))

    def rows(self, points: NDArray[np.intp]) -> NDArray[Any]:
        """Whole rows; none are kept here, whoever asks keeps them."""
        rows = self.block(np.atleast_1d(points), self._everything)
        rows.flags.writeable = False
        return rows

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """``out += (K + c)[rows, points] @ delta``."""
        self.base.accumulate(out, points, delta, rows)
        out += self.constant * float(np.sum(delta))

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``(K + c)[rows] @ weights`` in float64."""
        return self.base.exact(weights, rows) + self.constant * float(np.sum(weights))
