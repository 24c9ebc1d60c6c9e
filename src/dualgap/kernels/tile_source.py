"""Data as the tiles of `kernels.fused` want them: which formula, packed columns, rows in one precision."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.kernels import error_bound, fused, packing
from dualgap.kernels.error_bound import EntryError
from dualgap.kernels.fused import TILE_ROWS, tile_columns
from dualgap.kernels.memory import aligned, scratch
from dualgap.kernels.threads import share, share_parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.points import Points

_LOG2E = 1.0 / np.log(2.0)
# A tile of columns is packed densely: 16 384 features times 64 columns in float32 are 4 MB, about a second-level cache.
# With more features only those are packed that a tile's own columns have.
MOST_FEATURES = 16_384
# Sparse rows pay for their nonzeros and some three more for the loop; a dense row shares its columns with five others.
_SPARSE_EXTRA, _SPARSE_SHARE, _SPARSE_FEATURES = 3.0, 0.6, 30
# Rows looked at to find how sparse a dense matrix is, and the share of them that have a feature from which on it counts
# as filled: zeros become nonzeros. (covtype: ten of 54; errors of sums are proved to be a quarter of what they were.)
_SAMPLED, _FILLED = 1000, 0.9
# An exponential costs about as much as 20 multiplications of a tile.
FORMULA_COST = 20.0
# Pieces a thread gets, so that one that was held up does not keep the others waiting.
PIECES_EACH = 4
# Multiplications of a piece where nobody shares them: a millisecond or two, beside which the ten microseconds that a
# piece takes to begin do not count, and after which an interrupt may be looked at.
_PIECE_WORK = 1e8
# A thread waits for another's last piece no longer than so many of these take.
_LONGEST = 4
# Points whose products with each other are computed for those with themselves: two tiles in float32.
_OWN = 128


def fusable(kernel: Kernel, points: Points) -> bool:
    """Whether tiles can make this kernel's entries on this CPU."""
    known = kernel.name in ("linear", "rbf", "sigmoid", "laplacian", "chi2") or (
        kernel.name == "poly" and float(kernel.degree).is_integer()
    )
    shape: tuple[int, ...] = getattr(points.original, "shape", ())
    if not (fused.AVAILABLE and known and len(shape) == 2 and shape[1] > 0):
        return False
    return shape[1] <= MOST_FEATURES or (sp.issparse(points.original) and kernel.name not in ("laplacian", "chi2"))


@dataclass(frozen=True)
class Formula:
    """A kernel as tiles compute it: data are multiplied by `scale` first."""

    measure: int
    formula: int
    degree: int
    coef0: float
    scale: float

    @classmethod
    def of(cls, kernel: Kernel) -> Formula:
        """The formula of a kernel that is `fusable`."""
        gamma, coef0 = kernel.gamma, kernel.coef0
        if kernel.name == "linear":
            return cls(fused.DOT, fused.POWER, 1, 0.0, 1.0)
        if kernel.name == "poly":
            return cls(fused.DOT, fused.POWER, int(kernel.degree), coef0, np.sqrt(gamma))
        if kernel.name == "sigmoid":
            return cls(fused.DOT, fused.TANH, 0, coef0, np.sqrt(gamma))
        if kernel.name == "rbf":
            return cls(fused.DOT, fused.EXPONENT, 0, 0.0, np.sqrt(2.0 * gamma * _LOG2E))
        measure = fused.MANHATTAN if kernel.name == "laplacian" else fused.CHI2
        return cls(measure, fused.EXPONENT, 0, 0.0, gamma * _LOG2E)


class TileSource:
    """The data as tiles of one precision want them; nothing is copied but what is being packed.

    Up to `keep` bytes are for the nonzeros of dense rows.
    """

    # Entries (i, j) and (j, i) are the same to the last bit for dense rows, and close enough to it for sparse ones.
    symmetric = True

    def __init__(self, X: Any, kernel: Kernel, dtype: Any, *, sparse: bool, threads: int, keep: int = 0) -> None:
        self.formula = Formula.of(kernel)
        self.dtype = np.dtype(dtype)
        self.width = tile_columns(dtype)
        self.n, self.features = X.shape
        self.sparse = sparse
        self.write = fused.store_sparse if sparse else fused.store_dense
        self.multiply = fused.contract_sparse if sparse else fused.contract_dense
        self.column_dtype = self.half_dtype = self.dtype
        self.half = np.zeros(self.n, dtype=dtype)
        self.csr = sp.issparse(X)
        self.X = X.sorted_indices() if self.csr and not X.has_sorted_indices else X
        self.wide = self.features > MOST_FEATURES
        self.centre = _centre(X, sparse=sparse) if kernel.name == "rbf" else np.zeros(self.features)
        self._kept: packing.KeptNonzeros | None = None
        if sparse and not self.csr and self.features <= packing.FEATURES:
            size = (self.dtype.itemsize + 4) * int(self._row_nonzeros.sum())
            if size <= keep:
                self._kept = packing.KeptNonzeros(
                    X, self._row_nonzeros, self.centre, self.formula.scale, self.dtype, threads
                )
        if kernel.name == "rbf":
            # As the tiles add up x'x, so that the distance of a point from itself is exactly 0.
            if self._kept is not None:
                share_parts(partial(self._kept_own_products, self._kept), self.n, -(-self.n // threads), threads)
            elif sparse or self.csr:
                share(self._own_products, -(-self.n // _OWN), threads)
            else:
                tiles = -(-self.n // self.width)
                step = even_step(tiles, threads, float(self.n * self.features * self.width))
                share_parts(self._dense_own_products, tiles, step, threads)
            self.half *= 0.5

    def _dense_own_products(self, first: int, last: int) -> None:
        columns = aligned(self.width * self.features, self.dtype)
        rows = aligned(TILE_ROWS * self.features, self.dtype)
        nothing = np.empty(self.width, dtype=self.dtype)
        scale = self.formula.scale
        fused.own_products(self.X, self.centre, scale, first, last, columns, rows, self.tile(), nothing, self.half)

    def _kept_own_products(self, kept: packing.KeptNonzeros, first: int, last: int) -> None:
        """Of rows where they lie, which have one block of features."""
        fused.own_sparse_products(kept.values, kept.starts[first:], 1, self.half[first:last])

    def _own_products(self, part: int) -> None:
        points = np.arange(part * _OWN, min(self.n, (part + 1) * _OWN))
        source, local = self, points
        if self.wide:
            source, local = self.with_features(points, self.narrow(points)), np.arange(len(points))
        if self.sparse:
            values, _, starts, _ = source.rows(local)
            blocks = -(-source.features // packing.FEATURES)
            fused.own_sparse_products(values, starts, blocks, self.half[points[0] : points[0] + len(points)])
            return
        tiles = -(-len(points) // self.width)
        out = np.empty((len(points), len(points)), dtype=self.dtype)
        self.write(
            (fused.DOT, fused.POWER, 1, source.features), self.dtype.type(0.0), source.rows(local),
            pack_columns(source, local, tiles), 0, tiles, self.tile(), False, *out.shape, out.reshape(-1), 0,
        )  # fmt: skip
        self.half[points] = np.diag(out)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """What `fused` wants to know of the kernel."""
        return (self.formula.measure, self.formula.formula, self.formula.degree, self.features)

    @property
    def constants(self) -> Any:
        """The kernel's coef0."""
        return self.dtype.type(self.formula.coef0)

    @property
    def finite(self) -> bool:
        """Whether the squared norms of all points are numbers in this precision."""
        return bool(np.all(np.isfinite(self.half)))

    @property
    def largest_exponent(self) -> float:
        """The largest number (to the base 2) that is lost when sums cancel."""
        return float(self.half.max(initial=0.0))

    @property
    def sum_error(self) -> float:
        """A constant c with ``|computed x'z - x'z| <= c |x| |z|``, x and z being the scaled data."""
        return vector_error(self.features, self.dtype)

    @property
    def column_size(self) -> int:
        """Elements of a tile of packed columns."""
        return self.width * self.features

    def pack_columns(self, points: NDArray[np.intp], first: int, last: int, packed: Any, half: Any) -> None:
        """Tiles `first` to `last` of the points, into `packed` and `half`."""
        self._pack(points, self.width, first, last, packed, half)

    def _pack(self, points: NDArray[np.intp], width: int, first: int, last: int, packed: Any, half: Any) -> None:
        """Groups `first` to `last` of `width` points each, into `packed` and `half`."""
        target = (self.half, width, first, last, packed, half)
        nonzeros = self._nonzeros
        if nonzeros is None:
            packing.pack_dense(self.X, points, self.centre, self.formula.scale, *target)
        else:
            values, which, starts, scale = nonzeros
            packing.pack_sparse(values, which, starts, points, self.features, scale, *target)

    def rows(self, points: NDArray[np.intp], threads: int = 1, place: int = 0) -> tuple[Any, ...]:
        """The operand `rows` of the loops over tiles, made by so many threads, in memory of its own for each place."""
        groups = -(-len(points) // TILE_ROWS)
        half = np.zeros(groups * TILE_ROWS, dtype=self.dtype)
        if self.sparse:
            half[: len(points)] = self.half[points]
            return (*self._sparse_rows(points, threads), half)
        packed = scratch(f"rows {place}", groups * TILE_ROWS * self.features, self.dtype)
        self._pack(points, TILE_ROWS, 0, groups, packed, half)
        return (packed, half)

    def single_rows(self, points: NDArray[np.intp]) -> tuple[Any, ...] | None:
        """Rows where they lie, for who needs few of them: values, features, where each begins and ends, and half.

        None where nothing is kept that they could lie in.
        """
        return None if self._kept is None else (*self._kept.where(points), self.half[points])

    def _sparse_rows(
        self, points: NDArray[np.intp], threads: int
    ) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
        X, scale = self.X, self.formula.scale
        if self._kept is not None:
            return self._kept.of(points)
        if not self.csr:
            return packing.nonzeros_in_order(X, self._row_nonzeros, points, self.centre, scale, self.dtype, threads)
        nonzeros = int(np.sum(X.indptr[points + 1] - X.indptr[points]))
        values, which = np.empty(nonzeros, dtype=self.dtype), np.empty(nonzeros, dtype=np.int32)
        starts = packing.room_for_starts(len(points), self.features)
        packing.sparse_rows(X.data, X.indices, X.indptr, points, self.features, scale, values, which, starts)
        return values, which, starts

    @property
    def _nonzeros(self) -> tuple[Any, Any, Any, float] | None:
        """Values, features and starts of all rows, as CSR has them, and what values must be multiplied by, if kept."""
        if self.csr:
            return self.X.data, self.X.indices, self.X.indptr, self.formula.scale
        if self._kept is not None:  # scaled
            return self._kept.values, self._kept.which, self._kept.starts[: self.n + 1], 1.0
        return None

    @cached_property
    def _row_nonzeros(self) -> NDArray[np.int64]:
        """Features of every row of dense data that are not at the centre."""
        counts = np.empty(self.n, dtype=np.int64)
        packing.row_nonzeros(self.X, self.centre, 0, self.n, counts)
        return counts

    def narrow(self, points: NDArray[np.intp]) -> NDArray[np.int32]:
        """Numbers for the features that these points have, in memory of this thread."""
        number = scratch("number", self.features + 1, np.int32)
        number[-1] = packing.number_features(self.X.indices, self.X.indptr, points, number[:-1])
        return number

    def with_features(self, points: NDArray[np.intp], number: NDArray[np.int32]) -> TileSource:
        """Some points with the numbered features alone, as a source of its own: its points are 0, 1, ..."""
        X = self.X
        most = int(np.sum(X.indptr[points + 1] - X.indptr[points]))
        data, indices = np.empty(most, dtype=X.data.dtype), np.empty(most, dtype=np.int32)
        indptr = np.empty(len(points) + 1, dtype=np.int64)
        packing.renumbered(X.data, X.indices, X.indptr, points, number[:-1], data, indices, indptr)
        part = copy(self)
        part.X = _Rows(data, indices, indptr)
        part.features, part.half, part.n = int(number[-1]), self.half[points], len(points)
        return part

    def tile(self) -> NDArray[Any]:
        """Room for a tile."""
        return scratch("tile", (packing.SPARSE_ROWS if self.sparse else TILE_ROWS) * self.width, self.dtype)

    def exactly(self) -> None:
        """Entries in float64 are made by a source of their own."""
        return

    def entry_error(self, exact_source: Callable[[], TileSource]) -> EntryError | None:
        """How far entries of the RBF kernel can be off, given what makes the source of float64 entries."""
        exact = exact_source()
        if not np.array_equal(self.centre, exact.centre):  # norms of other points
            return None
        return EntryError.of(self._spread(), self.half, exact.half)

    def _spread(self) -> NDArray[np.float64]:
        """Bounds of the errors of products: ``|x'z - what a tile makes of it| <= spread[x] * spread[z]``."""
        block = packing.FEATURES if self.sparse else None
        if self._nonzeros is not None:
            values, which, starts, scale = self._nonzeros
            return error_bound.spread_of_nonzeros(values, which, starts, self.features, scale, block)
        if block is not None:
            return error_bound.spread_of_dense_nonzeros(self.X, self.centre, self.formula.scale, block)
        return error_bound.spread_in_order(self.X, self.centre, self.formula.scale)

    @cached_property
    def entry_cost(self) -> float:
        """Multiplications an entry takes, the formula's among them."""
        return expected_cost(self.X, self.sparse)


@dataclass(frozen=True)
class _Rows:
    """The arrays of a CSR matrix."""

    data: NDArray[Any]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]


def vector_error(features: int, dtype: Any = np.float32) -> float:
    """How far sums of so many products may be off, as a share of both norms.

    Every feature's product is added with one rounding, in any order, and both data are rounded first.
    """
    unit = float(np.finfo(dtype).eps) / 2.0
    depth = (features + 1) * unit
    return depth / (1.0 - depth) + 2.0 * unit + unit**2


def even_step(tiles: int, threads: int, work: float) -> int:
    """Tiles of a piece where every thread gets a few pieces, and none takes long; one alone gets no more than pay.

    `work` is that of all tiles, in multiplications.
    """
    paying = int(work / _PIECE_WORK) + 1
    pieces = min(PIECES_EACH, paying) if threads == 1 else max(PIECES_EACH * threads, paying // _LONGEST)
    return max(1, -(-tiles // pieces))


def pack_columns(source: Any, points: NDArray[np.intp], tiles: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Columns of any source in memory of this thread."""
    values = scratch("columns", tiles * source.column_size, source.column_dtype)
    half = scratch("half", tiles * source.width, source.half_dtype)
    source.pack_columns(points, 0, tiles, values, half)
    return values, half


def rows_from(source: Any, operand: tuple[Any, ...], first: int) -> tuple[Any, ...]:
    """The operand `rows` of any source without the rows before `first`, a multiple of `packing.SPARSE_ROWS`."""
    *values, half = operand
    features = source.shape[3]
    if source.sparse:
        values[2] = values[2][first * -(-features // packing.FEATURES) :]
    else:
        values[0] = values[0][first * features :]
    return (*values, half[first:])


def expected_cost(X: Any, sparse: bool) -> float:
    """Multiplications an entry of these data takes by vector tiles."""
    return (_nonzeros(X) + _SPARSE_EXTRA if sparse else float(X.shape[1])) + FORMULA_COST


def is_sparse(X: Any, kernel: Kernel) -> bool:
    """Whether sparse rows times dense tiles cost less than dense rows do."""
    features = X.shape[1]
    if Formula.of(kernel).measure != fused.DOT:
        return False
    return bool(features > _SPARSE_FEATURES and _nonzeros(X) + _SPARSE_EXTRA < _SPARSE_SHARE * features)


def _centre(X: Any, *, sparse: bool) -> NDArray[np.float64]:
    """Where distances are measured from, so that sums lose few digits.

    Zeros must stay zeros in sparse rows: of these only the features that hardly ever are zero are centred.
    """
    if sp.issparse(X):
        return np.zeros(X.shape[1])
    if not sparse:
        return np.asarray(X.mean(axis=0, dtype=np.float64))
    sample = _sample(X)
    filled = np.count_nonzero(sample, axis=0) >= _FILLED * sample.shape[0]
    return np.where(filled, sample.mean(axis=0, dtype=np.float64), 0.0)


def _sample(X: NDArray[Any]) -> NDArray[Any]:
    """Rows from everywhere in a dense matrix."""
    return X[:: max(1, X.shape[0] // _SAMPLED)]


def _nonzeros(X: Any) -> float:
    """Nonzeros of a row, on average (of a sample where rows are dense)."""
    if sp.issparse(X):
        return float(X.nnz / max(1, X.shape[0]))
    sample = _sample(X)
    return float(np.count_nonzero(sample) / sample.shape[0])
