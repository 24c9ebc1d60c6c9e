"""Levels as the dot-product instructions want them: a source of tiles beside `tile_source.TileSource`."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.kernels import _word_packing as words_of
from dualgap.kernels import fused, matrix_unit, packing
from dualgap.kernels._matrix_unit_packing import PAIR_PLANES
from dualgap.kernels._word_nonzeros import nonzero_words
from dualgap.kernels.fused import TILE_ROWS, tile_columns
from dualgap.kernels.memory import scratch
from dualgap.kernels.tile_source import FORMULA_COST, Formula

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels._matrix_unit_levels import Levels
    from dualgap.kernels.error_bound import EntryError
    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.tile_source import TileSource

# What makes an unsigned byte a signed one that is less by 128, in all four bytes of a word (0x80808080).
_SIGNED, _OFFSET = -0x7F7F7F80, 128
_WORD_BYTES = 4
# Rows looked at to find how many of their words are not zero.
_SAMPLED = 500
# A word of a sparse row against one of a dense row, which shares its columns with five others; and what a sparse row
# costs beside its words for each block of them (measured with 32 and 196 words: equal at 19 and 130 nonzero ones).
_SPARSE_WORD, _SPARSE_BLOCK = 1.4, 9.0


class WordSource:
    """The data as words of levels; nothing is copied but what is being packed, and what `levels` has kept.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The data, ``low + k step``.
    kernel : Kernel
        One made of inner products.
    levels : Levels
        What is known of the k.

    Notes
    -----
    Tiles hold sums t (see `_word_products`), from which the formulas make ``|k - l|^2 = h_k + h_l - 2 t`` or
    ``k'l = t + h_k`` in whole numbers: `row_half` and `column_half` are these h. With u = ``1'k`` they are, for bytes
    and distances, ``|k|^2 - 256 u`` of rows and ``|l|^2`` of columns, and for products ``128 u`` of rows. Their sums
    may wrap in int32, but what they add up to is from 0 to 2^31 and therefore right.
    """

    # Whole sums have no order.
    symmetric = True
    # All features of a tile of columns are packed together.
    wide = False
    column_dtype = np.dtype(np.int32)

    def __init__(self, X: Any, kernel: Kernel, levels: Levels) -> None:
        self.formula = Formula.of(kernel)
        self.n, self.features = X.shape
        self.X, self.levels, self.csr = X, levels, sp.issparse(X)
        self.pairs = levels.planes == PAIR_PLANES
        self.words = -(-levels.planes * self.features // _WORD_BYTES)
        lacking = np.zeros(self.n, dtype=np.int32) if self.pairs else np.int32(_OFFSET) * levels.sums
        apart = self.formula.formula == fused.EXPONENT
        self.row_half: NDArray[Any] = levels.norms - 2 * lacking if apart else lacking
        self.column_half: NDArray[Any] = levels.norms
        rows, points = self._rows_of(np.arange(0, self.n, max(1, self.n // _SAMPLED)))
        nonzeros = np.count_nonzero(rows[points]) / max(1, len(points))
        sparse_cost = _SPARSE_WORD * nonzeros + _SPARSE_BLOCK * -(-self.words // packing.FEATURES)
        self.sparse = sparse_cost < self.words
        # In multiplications of the vector tiles: an instruction takes as long as theirs.
        self.entry_cost = min(sparse_cost, self.words) + FORMULA_COST
        self.write = fused.store_sparse if self.sparse else fused.store_dense
        self.multiply = fused.contract_sparse if self.sparse else fused.contract_dense
        # What `fused` wants to know of the kernel.
        measure = fused.PAIRS if self.pairs else fused.BYTES
        self.shape = (measure, self.formula.formula, self.formula.degree, self.words)
        self._of(np.float32)

    def _of(self, dtype: Any) -> None:
        """Make tiles of this dtype."""
        self.dtype = np.dtype(dtype)
        self.width = tile_columns(dtype)
        self.half_dtype = np.dtype(np.int32 if self.dtype == np.float32 else np.float64)
        # The kernel's coef0, and what whole sums are multiplied by.
        self.constants = self.dtype.type(self.formula.coef0), self.dtype.type(self.levels.factor(self.formula))

    def exactly(self) -> WordSource | None:
        """The same with entries in float64, made of the same sums: for levels that are off by rounding alone."""
        if not self.levels.exact:
            return None
        other = copy(self)
        other._of(np.float64)
        return other

    @property
    def finite(self) -> bool:
        """Squared norms are whole numbers below 2^30."""
        return True

    @property
    def largest_exponent(self) -> float:
        """Nothing is lost where whole sums cancel."""
        return 0.0

    @property
    def sum_error(self) -> float:
        """A constant c with ``|computed x'z - x'z| <= c |x| |z|``, x and z being the scaled data less `low`."""
        return matrix_unit.levels_error(self.levels.error)

    def entry_error(self, _exact: Callable[[], TileSource]) -> EntryError | None:
        """How far entries of the RBF kernel can be off."""
        return self.levels.entry_error(self.formula)

    @property
    def column_size(self) -> int:
        """Elements of a tile of packed columns."""
        return self.width * self.words

    def pack_columns(
        self, points: NDArray[np.intp], first: int, last: int, packed: NDArray[Any], half: NDArray[Any]
    ) -> None:
        """Tiles `first` to `last` of the points, into `packed` and `half`."""
        ours = points[first * self.width : last * self.width]
        rows, where = self._rows_of(ours)
        flipped = np.int32(0 if self.pairs else _SIGNED)
        part = packed[first * self.column_size : last * self.column_size]
        words_of.pack_words(rows, where, self.words, flipped, self.width, 0, last - first, part)
        half[first * self.width : last * self.width] = 0
        half[first * self.width : first * self.width + len(ours)] = self.column_half[ours]

    def rows(self, points: NDArray[np.intp], _threads: int = 1, place: int = 0) -> tuple[Any, ...]:
        """The operand `rows` of the loops over tiles, in memory of its own for each place."""
        groups = -(-len(points) // TILE_ROWS)
        half = np.zeros(groups * TILE_ROWS, dtype=self.half_dtype)
        half[: len(points)] = self.row_half[points]
        rows, where = self._rows_of(points)
        if self.sparse:
            return (*nonzero_words(rows, where, self.words, place), half)
        packed = scratch(f"rows {place}", groups * TILE_ROWS * self.words, self.column_dtype)
        words_of.pack_words(rows, where, self.words, np.int32(0), TILE_ROWS, 0, groups, packed)
        return (packed, half)

    def single_rows(self, _points: NDArray[np.intp]) -> None:
        """Rows are packed (see `TileSource.single_rows`)."""
        return

    def _rows_of(self, points: NDArray[np.intp]) -> tuple[NDArray[np.int32], NDArray[np.intp]]:
        """Rows of words and which of them belong to the points: those that are kept, or some made for the occasion."""
        levels, X = self.levels, self.X
        if len(levels.bytes):
            return levels.bytes.view(np.int32), points
        rows = np.zeros((len(points), levels.bytes.shape[1]), dtype=np.uint8)
        if self.csr:
            words_of.sparse_levels(X.data, X.indices, X.indptr, points, levels.step, levels.planes, rows)
        else:
            words_of.dense_levels(X, points, levels.low, levels.step, levels.planes, rows)
        return rows.view(np.int32), np.arange(len(points))

    def tile(self) -> NDArray[Any]:
        """Room for a tile."""
        return scratch("tile", (packing.SPARSE_ROWS if self.sparse else TILE_ROWS) * self.width, self.dtype)
