"""Batches of rows as problems: what is solved, cut along the rows that are in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.formulations import FORMULATIONS, build
from dualgap.kernels.linear_gram import LinearGram

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.row_blocks import RowBlocks
    from dualgap.problem import DualQP

# Bytes that `newton` keeps for a variable, beside its row.
_VARIABLE = 400
# Share of the budget for rows that are picked one by one: meanwhile there is a piece of the others as well.
_SHARE = 0.6


@dataclass(frozen=True, eq=False)
class Batch:
    """Some rows in memory.

    Attributes
    ----------
    problem : DualQP
        The machine over these rows alone, without a bias; its Gram matrix has the rows for factor.
    rows : ndarray
        Their numbers in the whole data; those of weight 0 are left out.
    """

    problem: DualQP
    rows: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Machine:
    """What is solved over all rows.

    Attributes
    ----------
    blocks : RowBlocks
        The data.
    y, weight : ndarray
        Targets (+1 and -1 for classification) and sample weights.
    row : str
        Row of the table of formulations.
    parameters : dict
        C and epsilon, where the row has them.
    constant : float
        Of a penalised bias (0: none).
    bias : bool
        Whether there is a bias that is not penalised.
    n_jobs : int or None
        Threads.
    """

    blocks: RowBlocks
    y: NDArray[np.float64]
    weight: NDArray[np.float64]
    row: str
    parameters: dict[str, Any]
    constant: float
    bias: bool
    n_jobs: int | None

    @property
    def copies(self) -> int:
        """Variables a sample."""
        return FORMULATIONS[self.row].copies

    def batches(self, order: NDArray[Any] | None = None) -> Iterator[Batch]:
        """Every row once, in batches of pieces in this order."""
        for pieces, X in self.blocks.batches(None if order is None else list(order)):
            rows = self.blocks.rows(pieces)
            if np.any(self.weight[rows] > 0.0):
                yield self.batch(rows, X)

    @property
    def capacity(self) -> int:
        """Rows that fit into memory with all that `newton` keeps for them."""
        blocks = self.blocks
        each = blocks.bytes_an_entry * blocks.entries.sum() / blocks.shape[0] + _VARIABLE * self.copies
        return max(1, min(blocks.shape[0], int(_SHARE * 1e6 * blocks.memory / each)))

    def gather(self, rows: NDArray[np.int64]) -> Any:
        """Rows from all over the data, in order, as a matrix in memory; pieces that have none are not read."""
        blocks = self.blocks
        cuts = np.searchsorted(rows, blocks.bounds)
        parts = []
        dense = None if blocks.sparse else np.empty((rows.size, blocks.shape[1]), dtype=blocks.dtype)
        for piece in range(len(blocks)):
            first, last = cuts[piece], cuts[piece + 1]
            if first == last:
                continue
            X = blocks.load(np.array([piece]))[rows[first:last] - blocks.bounds[piece]]
            if dense is None:
                parts.append(X)
            else:
                dense[first:last] = X
        return dense if dense is not None else sp.vstack(parts, format="csr")

    def batch(self, rows: NDArray[np.int64], X: Any, *, bias: bool = False, share: float = 1.0) -> Batch:
        """The problem over some rows; `share` of all the weight is theirs, and their weights make up for the rest."""
        gram = LinearGram(X, self.constant, self.n_jobs)
        if not np.all(np.isfinite(gram.diag())):
            bad = int(rows[np.flatnonzero(~np.isfinite(gram.diag()))[0]])
            raise ValueError(f"X has a value that is NaN, infinite or too large in row {bad}; mend or remove the row.")
        problem = build(
            self.row, gram, self.y[rows], sample_weight=self.weight[rows] / share, bias=bias, **self.parameters
        )
        return Batch(problem, rows[problem.index[: problem.n // self.copies]])
