"""A kernel matrix whose entries are made by the tiles of `kernels.fused`: float32 for solvers, float64 for proofs."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.kernels import fused
from dualgap.kernels.fused import TILE_ROWS, aligned, scratch, tile_columns
from dualgap.kernels.threads import share, thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.points import Points

_LOG2E = 1.0 / np.log(2.0)
# A tile of columns is packed densely: 16 384 features times 64 columns in float32 are 4 MB, about a second-level cache.
# With more features only those are packed that a tile's own columns have.
_MOST_FEATURES = 16_384
# Sparse rows pay for their nonzeros and some three more for the loop; a dense row shares its columns with five others.
_SPARSE_EXTRA, _SPARSE_SHARE, _SPARSE_FEATURES = 3.0, 0.6, 30
# Rows looked at to find how sparse a dense matrix is.
_SAMPLED = 1000
# Multiplications below which threads are not woken (some 50 microseconds' worth).
_WORTH_THREADS = 3_000_000
# An exponential costs about as much as 20 multiplications of a tile.
_FORMULA_COST = 20.0
# Pieces a thread gets, so that one that was held up does not keep the others waiting.
_PIECES_EACH = 4
# Points whose products with each other are computed for those with themselves: two tiles in float32.
_OWN = 128
# Exponents (to the base 2) beyond which float32 sums leave fewer than four digits of an entry.
_SINGLE_EXPONENT = 1000.0
# Bytes of columns packed at a time where the packed matrix is not kept: half a second-level cache.
_SCRATCH_BYTES = 1_000_000


# Multiplications an entry takes from which on copying it from the other triangle is cheaper than computing it.
_WORTH_MIRRORING = 60.0


def fusable(kernel: Kernel, points: Points) -> bool:
    """Whether tiles can make this kernel's entries on this CPU."""
    known = kernel.name in ("linear", "rbf", "sigmoid", "laplacian", "chi2") or (
        kernel.name == "poly" and float(kernel.degree).is_integer()
    )
    shape: tuple[int, ...] = getattr(points.original, "shape", ())
    if not (fused.AVAILABLE and known and len(shape) == 2 and shape[1] > 0):
        return False
    return shape[1] <= _MOST_FEATURES or (sp.issparse(points.original) and kernel.name not in ("laplacian", "chi2"))


@dataclass(frozen=True)
class _Formula:
    """A kernel as `fused` computes it: data are multiplied by `scale` first."""

    measure: int
    formula: int
    degree: int
    coef0: float
    scale: float

    @classmethod
    def of(cls, kernel: Kernel) -> _Formula:
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


class _Source:
    """The data as tiles of one precision want them; nothing is copied but what is being packed."""

    def __init__(self, X: Any, kernel: Kernel, dtype: Any, *, sparse: bool, threads: int) -> None:
        self.formula = _Formula.of(kernel)
        self.dtype = np.dtype(dtype)
        self.width = tile_columns(dtype)
        self.n, self.features = X.shape
        self.sparse = sparse
        self.half = np.zeros(self.n, dtype=dtype)
        self.csr = sp.issparse(X)
        self.X = X.sorted_indices() if self.csr and not X.has_sorted_indices else X
        self.wide = self.features > _MOST_FEATURES
        # Zeros must stay zeros in sparse rows, so that only dense ones are centred.
        centred = kernel.name == "rbf" and not sparse and not self.csr
        self.centre = X.mean(axis=0, dtype=np.float64) if centred else np.zeros(self.features)
        if kernel.name == "rbf":
            # As the tiles add up x'x, so that the distance of a point from itself is exactly 0.
            if sparse or self.csr:
                share(self._own_products, -(-self.n // _OWN), threads)
            else:
                tiles = -(-self.n // self.width)
                step = -(-tiles // (_PIECES_EACH * threads))
                share(
                    lambda i: self._dense_own_products(i * step, min(tiles, (i + 1) * step)), -(-tiles // step), threads
                )
            self.half *= 0.5

    def _dense_own_products(self, first: int, last: int) -> None:
        columns = aligned(self.width * self.features, self.dtype)
        rows = aligned(TILE_ROWS * self.features, self.dtype)
        nothing = np.empty(self.width, dtype=self.dtype)
        scale = self.formula.scale
        fused.own_products(self.X, self.centre, scale, first, last, columns, rows, self.tile(), nothing, self.half)

    def _own_products(self, part: int) -> None:
        points = np.arange(part * _OWN, min(self.n, (part + 1) * _OWN))
        source, local = self, points
        if self.wide:
            source, local = self.with_features(points, self.narrow(points)), np.arange(len(points))
        tiles = -(-len(points) // self.width)
        out = np.empty((len(points), len(points)), dtype=self.dtype)
        write = fused.store_sparse if self.sparse else fused.store_dense
        write(
            (fused.DOT, fused.POWER, 1, source.features), self.dtype.type(0.0), source.rows(local),
            _pack(source, local, tiles), 0, tiles, self.tile(), False, *out.shape, out.reshape(-1), 0,
        )  # fmt: skip
        self.half[points] = np.diag(out)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """What `fused` wants to know of the kernel."""
        return (self.formula.measure, self.formula.formula, self.formula.degree, self.features)

    def pack(self, points: NDArray[np.intp], width: int, first: int, last: int, packed: Any, half: Any) -> None:
        """Groups `first` to `last` of `width` points each, into `packed` and `half`."""
        X, scale = self.X, self.formula.scale
        if self.csr:
            fused.pack_sparse(
                X.data, X.indices, X.indptr, points, self.features, scale, self.half, width, first, last, packed, half
            )
        else:
            fused.pack_dense(X, points, self.centre, scale, self.half, width, first, last, packed, half)

    def rows(self, points: NDArray[np.intp]) -> tuple[Any, ...]:
        """The operand `rows` of the loops over tiles."""
        groups = -(-len(points) // TILE_ROWS)
        half = np.zeros(groups * TILE_ROWS, dtype=self.dtype)
        if self.sparse:
            half[: len(points)] = self.half[points]
            return (*self._sparse_rows(points), half)
        packed = scratch("rows", groups * TILE_ROWS * self.features, self.dtype)
        self.pack(points, TILE_ROWS, 0, groups, packed, half)
        return (packed, half)

    def _sparse_rows(self, points: NDArray[np.intp]) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int64]]:
        X, scale = self.X, self.formula.scale
        if self.csr:
            nonzeros = int(np.sum(X.indptr[points + 1] - X.indptr[points]))
        else:
            nonzeros = fused.count_nonzeros(X, points)
        values, which = np.empty(nonzeros, dtype=self.dtype), np.empty(nonzeros, dtype=np.int32)
        chunks, blocks = -(-len(points) // fused.SPARSE_ROWS), -(-self.features // fused.FEATURES)
        starts = np.empty(chunks * blocks * fused.SPARSE_ROWS + 1, dtype=np.int64)
        if self.csr:
            fused.sparse_rows(X.data, X.indices, X.indptr, points, self.features, scale, values, which, starts)
        else:
            fused.compressed_rows(X, points, scale, values, which, starts)
        return values, which, starts

    def narrow(self, points: NDArray[np.intp]) -> NDArray[np.int32]:
        """Numbers for the features that these points have, in memory of this thread."""
        number = scratch("number", self.features + 1, np.int32)
        number[-1] = fused.number_features(self.X.indices, self.X.indptr, points, number[:-1])
        return number

    def with_features(self, points: NDArray[np.intp], number: NDArray[np.int32]) -> _Source:
        """Some points with the numbered features alone, as a source of its own: its points are 0, 1, ..."""
        X = self.X
        most = int(np.sum(X.indptr[points + 1] - X.indptr[points]))
        data, indices = np.empty(most, dtype=X.data.dtype), np.empty(most, dtype=np.int32)
        indptr = np.empty(len(points) + 1, dtype=np.int64)
        fused.renumbered(X.data, X.indices, X.indptr, points, number[:-1], data, indices, indptr)
        part = copy(self)
        part.X = _Rows(data, indices, indptr)
        part.features, part.half, part.n = int(number[-1]), self.half[points], len(points)
        return part

    def tile(self) -> NDArray[Any]:
        """Room for a tile."""
        return scratch("tile", (fused.SPARSE_ROWS if self.sparse else TILE_ROWS) * self.width, self.dtype)

    @cached_property
    def entry_cost(self) -> float:
        """Multiplications an entry takes, the formula's among them."""
        features = _nonzeros(self.X) + _SPARSE_EXTRA if self.sparse else float(self.features)
        return features + _FORMULA_COST


@dataclass(frozen=True)
class _Rows:
    """The arrays of a CSR matrix."""

    data: NDArray[Any]
    indices: NDArray[np.int32]
    indptr: NDArray[np.int64]


@dataclass(eq=False)
class _Packed:
    """Columns packed for a choice of points, kept for as long as the same array is asked for."""

    points: NDArray[np.intp] | None
    values: NDArray[Any]
    half: NDArray[Any]


@dataclass(frozen=True)
class _Piece:
    """A range of packed column tiles, the first of which is tile `offset` of all, and the rows they meet."""

    shape: tuple[int, int, int, int]
    operand: tuple[Any, ...]
    columns: tuple[NDArray[Any], NDArray[Any]]
    first: int
    last: int
    offset: int


class FusedGram:
    """Kernel entries in float32 (``block``, ``accumulate``) and products in float64 (``exact``), nothing stored.

    Parameters
    ----------
    points : Points
        The data.
    kernel : Kernel
        One that is `fusable`.
    budget : int
        Bytes that may be kept beyond the user's data.
    n_jobs : int or None
        Threads; None means all cores.
    """

    def __init__(self, points: Points, kernel: Kernel, budget: int, n_jobs: int | None = None) -> None:
        self.kernel, self.n = kernel, points.n
        self.dtype: np.dtype[Any] = np.dtype(np.float32)
        self.psd = kernel.psd
        self.factor: Any = None
        self.evaluations = 0
        self.budget = budget
        self.threads = thread_count(n_jobs)
        self._X = points.original
        sparse = _Formula.of(kernel).measure == fused.DOT and _is_sparse(self._X)
        self._single = _Source(self._X, kernel, np.float32, sparse=sparse, threads=self.threads)
        # One for all that are made by `separate`; two threads that make it at once make the same.
        self._double: list[_Source] = []
        self._packed: list[_Packed] = []
        self._all = np.arange(self.n)

    def separate(self, threads: int | None = None) -> FusedGram:
        """The same matrix over the same data, which counts and packs for itself."""
        other = copy(self)
        other.threads, other.evaluations, other._packed = threads or self.threads, 0, []
        return other

    @property
    def finite(self) -> bool:
        """Whether the squared norms of all points are numbers in float32."""
        return bool(np.all(np.isfinite(self._single.half)))

    @property
    def accurate(self) -> bool:
        """Whether float32 sums leave enough digits of the entries: points are not too many kernel widths from 0."""
        return bool(self._single.half.max(initial=0.0) <= _SINGLE_EXPONENT)

    @property
    def entry_cost(self) -> float:
        """Multiplications an entry takes, roughly."""
        return self._single.entry_cost

    def block(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp] | None, out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """K[rows, columns] (all columns when None), into `out` where it is given."""
        same = rows is columns
        rows = np.asarray(rows, dtype=np.int64)
        if columns is not None:
            columns = rows if same else np.asarray(columns, dtype=np.int64)
        if out is None:
            out = np.empty((len(rows), self.n if columns is None else len(columns)), dtype=self.dtype)
        self._store(rows, columns, out)
        return out

    def _store(self, rows: NDArray[np.intp], columns: NDArray[np.intp] | None, out: NDArray[np.float32]) -> None:
        """``out = K[rows, columns]`` by tiles."""
        self.evaluations += out.size
        source = self._single
        flat, coef0 = out.reshape(-1), source.dtype.type(source.formula.coef0)
        write = fused.store_sparse if source.sparse else fused.store_dense
        upper = rows is columns and source.entry_cost >= _WORTH_MIRRORING

        def store(piece: _Piece) -> None:
            write(
                piece.shape, coef0, piece.operand, piece.columns, piece.first, piece.last, source.tile(), upper,
                *out.shape, flat, (piece.first + piece.offset) * source.width,
            )  # fmt: skip

        # A block's columns are not asked for again; all of them are.
        self._over(source, columns, rows, store, keep=columns is None)
        if upper:
            # Later rows have more to copy: pieces of equal work.
            ends = np.sqrt(np.linspace(0.0, 1.0, _PIECES_EACH * self.threads + 1)) * len(rows)
            ends = ends.astype(np.int64)
            share(lambda i: fused.mirror(out, ends[i], ends[i + 1]), ends.size - 1, self.threads)

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """``out += K[rows, points] @ delta`` with float32 entries, summed in float64."""
        if rows is not None and len(rows) == self.n and np.array_equal(rows, self._all):
            rows = None
        self.evaluations += len(points) * (self.n if rows is None else len(rows))
        self._contract(self._single, out, points, delta, rows)

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ weights`` in float64 throughout."""
        out = np.zeros(self.n if rows is None else len(rows))
        used = np.flatnonzero(weights)
        self._contract(self._exact_source(), out, used, weights[used], rows)
        return out

    def _exact_source(self) -> _Source:
        if not self._double:
            sparse = self._single.sparse
            self._double.append(_Source(self._X, self.kernel, np.float64, sparse=sparse, threads=self.threads))
        return self._double[0]

    def double(self) -> FusedGram:
        """The same matrix with float64 entries."""
        other = self.separate()
        other._single, other.dtype = self._exact_source(), np.dtype(np.float64)
        return other

    def _contract(
        self,
        source: _Source,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None,
    ) -> None:
        if len(points) == 0 or out.size == 0:
            return
        weights = np.zeros(-(-len(points) // TILE_ROWS) * TILE_ROWS, dtype=source.dtype)
        weights[: len(points)] = delta
        coef0 = source.dtype.type(source.formula.coef0)
        multiply = fused.contract_sparse if source.sparse else fused.contract_dense

        def add(piece: _Piece) -> None:
            first, last = piece.first, piece.last
            sums = np.zeros((last - first) * source.width)
            multiply(piece.shape, coef0, piece.operand, weights, piece.columns, first, last, source.tile(), sums)
            part = out[(first + piece.offset) * source.width : (last + piece.offset) * source.width]
            part += sums[: part.size]

        self._over(source, rows, np.asarray(points, dtype=np.int64), add, keep=True)

    def _over(
        self,
        source: _Source,
        columns: NDArray[np.intp] | None,
        rows: NDArray[np.int64],
        action: Callable[[_Piece], None],
        *,
        keep: bool,
    ) -> None:
        """Call `action` for pieces of the columns' tiles against the rows, on all threads."""
        count = self.n if columns is None else len(columns)
        tiles = -(-count // source.width)
        worth = len(rows) * count * source.entry_cost >= _WORTH_THREADS
        threads = self.threads if worth else 1
        points = self._all if columns is None else columns
        if source.wide:
            share(lambda i: action(_narrow_piece(source, points, rows, i)), tiles, threads)
            return
        operand = source.rows(rows)
        kept = self._kept(source, columns, tiles, threads) if keep else None
        step = max(1, -(-tiles // (_PIECES_EACH * threads)))
        if kept is not None:
            packed = (kept.values, kept.half)
            share(
                lambda i: action(_Piece(source.shape, operand, packed, i * step, min(tiles, (i + 1) * step), 0)),
                -(-tiles // step),
                threads,
            )
            return
        step = max(1, min(step, _SCRATCH_BYTES // (source.features * source.width * source.dtype.itemsize)))

        def pack_and_act(i: int) -> None:
            begin, end = i * step, min(tiles, (i + 1) * step)
            packed = _pack(source, points[begin * source.width : end * source.width], end - begin)
            action(_Piece(source.shape, operand, packed, 0, end - begin, begin))

        share(pack_and_act, -(-tiles // step), threads)

    def _packed_bytes(self, columns: int) -> int:
        """Bytes of that many packed columns; 0 where they would take more than an eighth of the budget."""
        size = columns * self._single.features * self._single.dtype.itemsize
        return size if size <= self.budget // 8 else 0

    def _kept(self, source: _Source, columns: NDArray[np.intp] | None, tiles: int, threads: int) -> _Packed | None:
        """The packed columns where they are worth keeping: all of them, or the last choice, within the budget."""
        if source is not self._single:
            return None
        for packed in list(self._packed):
            if packed.points is columns:
                self._packed.remove(packed)
                self._packed.append(packed)
                return packed
        size = tiles * source.width * source.features
        if self._packed_bytes(tiles * source.width) == 0:
            return None
        # At most three are kept: all columns and two choices (all of a task and its active set, say); the memory of the
        # choice not used for longest is used again where it suffices.
        choices = [packed for packed in self._packed if packed.points is not None]
        room = choices[0] if columns is not None and len(choices) == 2 else None
        if room is not None:
            self._packed.remove(room)
        if room is None or room.values.size < size:
            values, half = aligned(size, source.dtype), aligned(tiles * source.width, source.dtype)
        else:
            values, half = room.values, room.half
        packed = _Packed(columns, values, half)
        points = self._all if columns is None else columns
        step = max(1, -(-tiles // (_PIECES_EACH * threads)))
        share(
            lambda i: source.pack(points, source.width, i * step, min(tiles, (i + 1) * step), values, half),
            -(-tiles // step),
            threads,
        )
        self._packed.append(packed)
        return packed


def _pack(source: _Source, points: NDArray[np.intp], tiles: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Columns in memory of this thread."""
    values = scratch("columns", tiles * source.width * source.features, source.dtype)
    half = scratch("half", tiles * source.width, source.dtype)
    source.pack(points, source.width, 0, tiles, values, half)
    return values, half


def _narrow_piece(source: _Source, points: NDArray[np.intp], rows: NDArray[np.int64], tile: int) -> _Piece:
    """One tile with no more features than its columns have, and the rows with these features."""
    chosen = points[tile * source.width : (tile + 1) * source.width]
    number = source.narrow(chosen)
    columns, others = source.with_features(chosen, number), source.with_features(rows, number)
    packed = _pack(columns, np.arange(len(chosen)), 1)
    return _Piece(others.shape, others.rows(np.arange(len(rows))), packed, 0, 1, tile)


def _is_sparse(X: Any) -> bool:
    """Whether rows times dense tiles cost less than dense rows do."""
    features = X.shape[1]
    return bool(features > _SPARSE_FEATURES and _nonzeros(X) + _SPARSE_EXTRA < _SPARSE_SHARE * features)


def _nonzeros(X: Any) -> float:
    """Nonzeros of a row, on average (of a sample where rows are dense)."""
    if sp.issparse(X):
        return float(X.nnz / max(1, X.shape[0]))
    sample = X[:: max(1, X.shape[0] // _SAMPLED)]
    return float(np.count_nonzero(sample) / sample.shape[0])
