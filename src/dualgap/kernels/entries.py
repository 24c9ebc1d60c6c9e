"""Kernel entries as the block solver asks for them: blocks, products, and rows kept where they are dear."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.gram import FOREIGN_BUDGET, SINGLE_MOST, FullGram, KernelGram, entry_cost, largest_diagonal
from dualgap.kernels.memory import within
from dualgap.kernels.row_cache import RowCache, gather
from dualgap.kernels.running_product import RunningProduct
from dualgap.kernels.strips import Strips
from dualgap.kernels.threads import share_parts, thread_count
from dualgap.problem import check_kernel_values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# A block below this size would hardly be better than a pair.
_LEAST_BLOCK = 128
# Rows gathered by a thread at a time.
_ROWS = 64


class Entries:
    """The entries of a Gram matrix in float32, or in float64 where rounding must not matter.

    Parameters
    ----------
    gram : Gram
        Any; made of tiles (`kernels.fused`) where it can be.
    precision : {"single", "double"}
        Of the entries; "single" becomes "double" where float32 would leave too few digits (see `dtype`).
    keep : bool
        Whether rows may be kept for another time.
    """

    def __init__(self, gram: Gram, precision: str, *, keep: bool) -> None:
        fused = getattr(gram, "fused", None)
        if largest_diagonal(gram) > SINGLE_MOST or (fused is not None and not fused.accurate):
            precision = "double"
        self.dtype = np.dtype(np.float32 if precision == "single" else np.float64)
        if fused is not None:
            # Counts and packed columns are a run's own; the data are shared.
            fused = fused.double() if precision == "double" else fused.separate()
        self._made_by: Any = gram if fused is None else fused
        self._tiles = fused is not None
        # Products with AA' are two products with A, whatever made the entries.
        self._source = gram.source if isinstance(gram, FullGram) else gram
        linear = isinstance(self._source, KernelGram) and self._source.kernel.name == "linear"
        self._sums_by: Any = self._source if linear else self._made_by
        self._n = gram.n
        self.threads = thread_count(getattr(gram, "n_jobs", None)) if fused is None else fused.threads
        self._divisible = getattr(gram, "divisible", FOREIGN_BUDGET)
        self._before = self._made_by.evaluations
        self._cache = _row_cache(gram) if keep and precision == "single" else None

    @property
    def evaluations(self) -> int:
        """Kernel values computed since this was made."""
        return int(self._made_by.evaluations - self._before)

    @property
    def entry_cost(self) -> float:
        """Multiplications an entry takes, roughly."""
        return entry_cost(self._made_by)

    @property
    def by_tiles(self) -> bool:
        """Whether entries are made of tiles, and a few rows of them cost no more than their share."""
        return self._tiles

    @property
    def rows_kept(self) -> bool:
        """Whether rows are kept, so that products with all columns cost little."""
        return self._cache is not None

    def largest_block(self, more: int = 0) -> int:
        """Rows of the largest square block that half of what is divided holds, with so many `more`; 128 at least."""
        return max(_LEAST_BLOCK, int(np.sqrt(0.5 * self._divisible / self.dtype.itemsize)) - more)

    def room(self, size: int) -> NDArray[Any]:
        """Memory for so many entries."""
        return within(self._divisible, size, self.dtype)

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp], out: NDArray[Any], *, keep: bool = True) -> None:
        """``out = K[rows, columns]``; with `keep` from whole rows, which are kept."""
        if self._cache is None or not keep:
            self._compute(rows, columns, out)
            return
        cache = self._cache
        cache.load(rows, self._compute_rows)
        slots = cache.slot[rows]
        missing, present = np.flatnonzero(slots < 0), np.flatnonzero(slots >= 0)
        if missing.size:
            part = np.empty((missing.size, len(columns)), dtype=out.dtype)
            self._compute(rows[missing], columns, part)
            out[missing] = part

        def piece(begin: int, end: int) -> None:
            some = present[begin:end]
            part = np.empty((some.size, len(columns)), dtype=out.dtype)
            gather(cache.values, slots[some], columns, part)
            out[some] = part

        share_parts(piece, present.size, _ROWS, self.threads)

    def matrix(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """``K[rows, columns]`` in memory of its own."""
        out = np.empty((len(rows), len(columns)), dtype=self.dtype)
        self.block(rows, columns, out, keep=False)
        return out

    def most_on_demand(self) -> int:
        """Points of the largest block that `row_maker` makes rows of."""
        return int(self._made_by.most_on_demand()) if self._tiles and self._cache is None else 0

    def row_maker(self, points: NDArray[np.intp], *, lasting: bool) -> tuple[Any, ...] | None:
        """What compiled code makes rows of a block with; None where the block is made at once."""
        if not self._tiles or self._cache is not None:
            return None
        maker: tuple[Any, ...] | None = self._made_by.row_maker(points, lasting=lasting)
        return maker

    def count(self, entries: int) -> None:
        """So many entries have been made by compiled code."""
        self._made_by.evaluations += entries

    def strips(self, columns: NDArray[np.intp], *, lasting: bool) -> Strips:
        """Rows by tiles, made one after another, for columns that stay packed.

        They are `lasting` where they stay as they are made: certificates then read them as well.
        """
        strips = Strips(self._made_by, columns)
        if lasting and isinstance(self._source, KernelGram) and self.dtype == np.float32:
            self._source.strips = strips
        return strips

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp],
        *,
        keep: bool = True,
    ) -> None:
        """``out += K[rows, points] @ delta``, summed in float64; with `keep` from whole rows, which are kept."""
        if self._cache is not None and keep and len(points):
            columns = None if len(rows) == self._n and np.array_equal(rows, np.arange(self._n)) else rows
            self._cache.load(points, self._compute_rows)
            slots = self._cache.slot[points]
            present = slots >= 0
            self._cache.add(out, slots[present], delta[present], columns, self.threads)
            points, delta = points[~present], delta[~present]
        if len(points):
            self._sums_by.accumulate(out, points, delta, rows)

    def accumulate_groups(
        self,
        outs: Sequence[NDArray[np.float64]],
        groups: Sequence[tuple[NDArray[np.intp], NDArray[np.float64]]],
        rows: NDArray[np.intp],
        *,
        keep: bool = True,
    ) -> None:
        """`accumulate` for groups of points, each into sums of its own."""
        if self._tiles and self._cache is None and self._sums_by is self._made_by:
            self._made_by.accumulate_groups(outs, groups, rows)
            return
        for out, (points, delta) in zip(outs, groups, strict=True):
            self.accumulate(out, points, delta, rows, keep=keep)

    def running(self, points: NDArray[np.intp], weights: NDArray[np.float64], *, prove: bool) -> RunningProduct:
        """The product with these weights, to be kept while they move; with a proof certificates read it as well."""
        gram, proof = self._source, None
        single = self._tiles and self.dtype == np.float32 and self._sums_by is self._made_by
        if prove and single and isinstance(gram, KernelGram):
            proof = gram.proof(weights)
        product = RunningProduct(self, points, weights, proof)
        if isinstance(gram, KernelGram):
            gram.running = None if proof is None else product
        return product

    def _compute(self, rows: NDArray[np.intp], columns: NDArray[np.intp], out: NDArray[Any]) -> None:
        if self._tiles:
            self._made_by.block(rows, columns, out)
            return
        if isinstance(self._made_by, FullGram):
            gather(self._made_by.matrix, rows, columns, out)
        else:
            out[...] = self._made_by.block(rows, columns)
        check_kernel_values(out)

    def _compute_rows(self, points: NDArray[np.intp], out: NDArray[Any]) -> None:
        if self._tiles:
            self._made_by.block(points, None, out)
        else:
            out[...] = self._made_by.block(points, np.arange(self._made_by.n))
            check_kernel_values(out)


def _row_cache(gram: Gram) -> RowCache | None:
    """Rows that are kept: those of a matrix whose entries are dear, shared by all tasks over it."""
    if isinstance(gram, KernelGram):
        return gram.kept_rows
    if isinstance(gram, FullGram):
        return None if gram.source is None else gram.source.kept_rows
    capacity = min(gram.n, FOREIGN_BUDGET // (4 * gram.n))
    return RowCache(gram.n, capacity) if capacity else None
