"""Samples as they come out of LIBSVM text, before they become a sparse matrix."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

INT32_MAX: Final = 2**31 - 1


@dataclass(frozen=True, eq=False)
class Rows:
    """Consecutive samples: row i owns the next ``lengths[i]`` entries of `columns` and `values`."""

    labels: NDArray[np.float64]
    lengths: NDArray[np.int64]
    columns: NDArray[np.signedinteger[Any]]  # 0-based; int32 where they fit
    values: NDArray[np.floating[Any]]

    def __len__(self) -> int:
        return self.labels.size

    @property
    def width(self) -> int:
        """Largest index in the file's own count, from 1; 0 without entries."""
        return int(self.columns.max(initial=-1)) + 1


def compact_columns(columns: NDArray[np.int64]) -> NDArray[np.signedinteger[Any]]:
    """Store 0-based columns in 32 bits where they fit."""
    fits = int(columns.max(initial=0)) <= INT32_MAX
    return columns.astype(np.int32) if fits else columns
