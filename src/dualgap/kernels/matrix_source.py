"""Data as the matrix unit wants them: a source of float32 tiles; and which source is expected to be fastest."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from dualgap.kernels import _matrix_unit_packing as packing
from dualgap.kernels import _matrix_unit_tiles as tiles
from dualgap.kernels import fused, matrix_unit
from dualgap.kernels._matrix_unit_levels import SIXTEEN_BITS, TWO_DIGITS, Levels, find_levels
from dualgap.kernels._matrix_unit_packing import PANEL
from dualgap.kernels._matrix_unit_tiles import HALF, SIDE, TILE_SIZE, WIDTH
from dualgap.kernels._tile_entries import TILE_ROWS
from dualgap.kernels.error_bound import EntryError, spread_of_sums
from dualgap.kernels.memory import scratch
from dualgap.kernels.packing import FEATURES as BLOCK_FEATURES
from dualgap.kernels.threads import share, share_parts
from dualgap.kernels.tile_source import (
    MOST_FEATURES,
    Formula,
    TileSource,
    expected_cost,
    is_sparse,
    pack_columns,
    vector_error,
)
from dualgap.kernels.word_source import WordSource

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.functions import Kernel

# What an entry costs, in multiplications of the vector tiles (1/80 ns): for each step of features, for the formula, and
# for joining digits.
_LEVELS_STEP, _PIECES_STEP, _FORMULA_COST, _DIGITS_COST = 5.0, 14.0, 21.0, 8.0
# Features from which on pieces are used. With fewer they are at most 1.7 times as fast, and digits are worth more.
_PIECES_FEATURES = 96
# What sparse rows cost beside their nonzeros, for each block of features (0.3 to 0.5 ns).
_SPARSE_BLOCK = 25.0
# Features from which on levels are looked for where there are dot-product instructions: with 16 an entry takes half the
# time, with 8 it is four fifths, which the look at all data does not bring in.
_WORD_FEATURES = 16
# Rows split into pieces by a thread at a time.
_ROWS = 512
# Products of levels may be off by so many times what those of vector tiles may be, by their bounds: numbers written
# with six digits (letter, 16 features: 1.2 times) need no more exact slopes than those of the tiles do.
_AS_PRECISE = 2.0
# What float32 data are off their levels, each number for itself.
_SINGLE_ROUNDING = 2.0**-24
# The factor of levels is neither lost below float32's normal numbers nor beyond the largest when it meets 2^31.
_LEAST_FACTOR, _MOST_FACTOR = 2.0**-100, 2.0**90


class MatrixSource:
    """The data in panels of levels or pieces; nothing is copied but what is being packed, and what the budget holds.

    Parameters
    ----------
    X : ndarray or CSR matrix
        The data.
    kernel : Kernel
        One made of inner products.
    levels : Levels or None
        Where all data have them; else numbers are split into pieces.
    budget : int
        Bytes that pieces may take where they are kept.
    threads : int
        Threads for what has to be known of all points.
    """

    width = WIDTH

    def __init__(self, X: Any, kernel: Kernel, levels: Levels | None, budget: int, threads: int) -> None:
        self.formula = Formula.of(kernel)
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self.write, self.multiply = tiles.store, tiles.contract
        self.n, self.features = X.shape
        self.levels = levels
        self.csr = sp.issparse(X)
        self.X = X
        self.steps = _steps(self.features, levels)
        self.column_dtype = _column_dtype(levels)
        self.half_dtype = np.dtype(np.int32 if levels is not None else np.float32)
        # The order in which pieces are added up depends on which side is called rows; whole sums have no order.
        self.symmetric = levels is not None
        centred = kernel.name == "rbf" and levels is None and not self.csr
        self.centre = X.mean(axis=0, dtype=np.float64) if centred else np.zeros(self.features)
        # The words of all points, where the budget holds them: packing them is a third of the work.
        self.kept = np.zeros((0, 0), dtype=np.uint32) if levels is None else levels.bytes.view(np.uint32)
        if levels is None and not self.csr and 4 * self.n * self.steps * packing.PIECE_FEATURES <= budget:
            self._keep_pieces(threads)
        if levels is not None:
            self.half: NDArray[Any] = levels.norms
        else:
            self.half = np.zeros(self.n, dtype=np.float32)
            if kernel.name == "rbf":
                share(self._own_products, -(-self.n // WIDTH), threads)
                self.half *= 0.5

    def _keep_pieces(self, threads: int) -> None:
        kept = np.empty((self.n, self.steps * packing.PIECE_FEATURES), dtype=np.uint32)
        X, scale = self.X, self.formula.scale
        share_parts(
            lambda begin, end: packing.keep_pieces(X, self.centre, scale, begin, end, kept), self.n, _ROWS, threads
        )
        self.kept = kept

    def _own_products(self, tile: int) -> None:
        """Products of points with themselves, added up as the tiles do: a point's distance from itself is exactly 0."""
        points = np.arange(tile * WIDTH, min(self.n, (tile + 1) * WIDTH))
        out = np.empty((len(points), len(points)), dtype=np.float32)
        columns = pack_columns(self, points, 1)
        product = (fused.DOT, fused.POWER, 1, self.steps)
        rows, plain = self.rows(points), (np.float32(0.0), np.float32(1.0))
        tiles.store(product, plain, rows, columns, 0, 1, self.tile(), False, *out.shape, out.reshape(-1), 0)
        self.half[points] = np.diag(out)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """What the loops want to know of the kernel."""
        return (self.formula.measure, self.formula.formula, self.formula.degree, self.steps)

    @property
    def constants(self) -> tuple[Any, Any]:
        """The kernel's coef0, and what sums of levels are multiplied by."""
        factor = 1.0 if self.levels is None else self.levels.factor(self.formula)
        return self.dtype.type(self.formula.coef0), self.dtype.type(factor)

    def exactly(self) -> MatrixSource | None:
        """The same with products in float64, made of the same sums: for levels that are off by rounding alone."""
        if self.levels is None or not self.levels.exact:
            return None
        other = copy(self)
        other.dtype, other.multiply = np.dtype(np.float64), tiles.contract_exactly
        return other

    @property
    def finite(self) -> bool:
        """Whether the squared norms of all points are numbers in float32."""
        return bool(np.all(np.isfinite(self.half)))

    @property
    def largest_exponent(self) -> float:
        """The largest number (to the base 2) that is lost when sums cancel; none is where they are exact."""
        return 0.0 if self.levels is not None else float(self.half.max(initial=0.0))

    @property
    def sum_error(self) -> float:
        """A constant c with ``|computed x'z - x'z| <= c |x| |z|``, x and z being the scaled data (less `low`)."""
        return (
            matrix_unit.pieces_error(self.features)
            if self.levels is None
            else matrix_unit.levels_error(self.levels.error)
        )

    def entry_error(self, exact_source: Callable[[], TileSource]) -> EntryError | None:
        """How far entries of the RBF kernel can be off; None where nothing is known."""
        if self.levels is not None:
            return self.levels.entry_error(self.formula)
        exact = exact_source()
        if not np.array_equal(self.centre, exact.centre):  # norms of other points
            return None
        return EntryError.of(spread_of_sums(self.sum_error, exact.half), self.half, exact.half)

    @property
    def column_size(self) -> int:
        """Elements of a tile of packed columns."""
        return WIDTH // PANEL * int(packing.panel_size(self.steps))

    def pack_columns(
        self, points: NDArray[np.intp], first: int, last: int, packed: NDArray[Any], half: NDArray[Any]
    ) -> None:
        """Tiles `first` to `last` of the points, into `packed` and `half`."""
        panels = WIDTH // PANEL
        self._pack(points, True, first * panels, last * panels, packed)
        ours = points[first * WIDTH : last * WIDTH]
        half[first * WIDTH : last * WIDTH] = 0
        half[first * WIDTH : first * WIDTH + len(ours)] = self.half[ours]

    def _pack(self, points: NDArray[np.intp], transposed: bool, first: int, last: int, packed: NDArray[Any]) -> None:
        X, words = self.X, packed.view(np.uint32)
        where = (transposed, self.steps, first, last, words)
        if len(self.kept):
            panel = packing.panel_size(self.steps) * self.column_dtype.itemsize // words.itemsize
            packing.pack_kept(self.kept, points, transposed, panel, first, last, words)
        elif self.levels is not None and self.csr:
            packing.pack_sparse_levels(
                X.data, X.indices, X.indptr, points, self.levels.step, self.levels.planes, *where
            )
        elif self.levels is not None:
            packing.pack_levels(X, points, self.levels.low, self.levels.step, self.levels.planes, *where)
        elif self.csr:
            packing.pack_sparse_pieces(X.data, X.indices, X.indptr, points, self.formula.scale, *where)
        else:
            packing.pack_pieces(X, points, self.centre, self.formula.scale, *where)

    def rows(self, points: NDArray[np.intp], _threads: int = 1, place: int = 0) -> tuple[NDArray[Any], NDArray[Any]]:
        """The operand `rows` of the loops over tiles, in memory of its own for each place."""
        groups = -(-len(points) // TILE_ROWS) * TILE_ROWS
        panels = -(-groups // SIDE) * (SIDE // PANEL)
        packed = scratch(f"rows {place}", panels * int(packing.panel_size(self.steps)), self.column_dtype)
        self._pack(points, False, 0, panels, packed)
        half = np.zeros(panels * PANEL, dtype=self.half_dtype)
        half[: len(points)] = self.half[points]
        return packed, half

    def tile(self) -> Any:
        """Room for a tile, and for some of its entries where they are float64."""
        tile = scratch("tile", TILE_SIZE, np.float32)
        return tile if self.dtype == np.float32 else (tile, scratch("entries", TILE_ROWS * HALF, np.float64))

    @property
    def entry_cost(self) -> float:
        """What an entry costs, in multiplications of the vector tiles."""
        return _cost(self.features, self.levels)


# What makes tiles of entries.
Source: TypeAlias = TileSource | MatrixSource | WordSource


def single_source(X: Any, kernel: Kernel, budget: int, threads: int) -> Source:
    """The source of float32 tiles that is expected to be fastest; it keeps `budget` bytes at most.

    With the matrix unit levels or pieces, with dot-product instructions levels alone, else plain vector tiles.
    """
    sparse = is_sparse(X, kernel)
    if X.shape[1] <= MOST_FEATURES and Formula.of(kernel).measure == fused.DOT:
        if matrix_unit.available():
            levels = _levels(X, kernel, budget, threads, TWO_DIGITS)
            if _worth_it(X, levels, sparse):
                return MatrixSource(X, kernel, levels, budget, threads)
        elif matrix_unit.has_word_products() and X.shape[1] >= _WORD_FEATURES:
            levels = _levels(X, kernel, budget, threads, SIXTEEN_BITS)
            # A row has at most as many words as numbers, or nonzero words as nonzeros, so that this is never dearer.
            if levels is not None and _precise(X, levels):
                return WordSource(X, kernel, levels)
    return TileSource(X, kernel, np.float32, sparse=sparse, threads=threads, keep=budget)


def plain_source(source: Source, X: Any, kernel: Kernel, threads: int) -> TileSource | None:
    """Vector tiles of the same data, where few features have levels that are off by more than rounding to float32."""
    levels: Levels | None = getattr(source, "levels", None)
    if levels is None or levels.error <= _SINGLE_ROUNDING or X.shape[1] >= _PIECES_FEATURES:
        return None
    return TileSource(X, kernel, np.float32, sparse=is_sparse(X, kernel), threads=threads)


def _levels(X: Any, kernel: Kernel, budget: int, threads: int, most: int) -> Levels | None:
    """The levels of the data, where float32 can hold what is made of them."""
    levels = find_levels(X, shifted=kernel.name == "rbf", threads=threads, budget=budget, most=most)
    if levels is None or not _LEAST_FACTOR < abs(levels.factor(Formula.of(kernel))) < _MOST_FACTOR:
        return None
    return levels


def _precise(X: Any, levels: Levels | None) -> bool:
    """Whether little is lost beside the vector tiles, which keep all digits of float32, or little for much speed."""
    if X.shape[1] >= _PIECES_FEATURES:
        return True
    return levels is not None and matrix_unit.levels_error(levels.error) <= _AS_PRECISE * vector_error(X.shape[1])


def _worth_it(X: Any, levels: Levels | None, sparse: bool) -> bool:
    """Whether the matrix unit makes entries faster than vector tiles do."""
    features = X.shape[1]
    if not _precise(X, levels):
        return False
    blocks = -(-features // BLOCK_FEATURES) if sparse else 0
    return _cost(features, levels) < expected_cost(X, sparse) + _SPARSE_BLOCK * blocks


def _steps(features: int, levels: Levels | None) -> int:
    if levels is None:
        return -(-features // packing.PIECE_FEATURES)
    return levels.planes * -(-features // packing.LEVEL_FEATURES)


def _column_dtype(levels: Levels | None) -> np.dtype[Any]:
    """Of packed data: by it the loops over tiles know what they hold."""
    if levels is None:
        return np.dtype(np.uint16)
    return np.dtype(np.uint8 if levels.planes == 1 else np.int8)


def _cost(features: int, levels: Levels | None) -> float:
    if levels is None:
        return _PIECES_STEP * _steps(features, levels) + _FORMULA_COST
    return _LEVELS_STEP * _steps(features, levels) + _FORMULA_COST + (_DIGITS_COST if levels.planes > 1 else 0.0)
