"""Gram matrices: what a solver sees of kernel and data.

Three kinds serve everything: full (stored), row-cached (a byte budget of rows) and factored (K = AA'). Whatever
offers the members of `Gram` is one, so a user's own matrix class is as good as these.
"""

from __future__ import annotations

import weakref
from copy import copy
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from dualgap.kernels.bounded_product import bounded_product
from dualgap.kernels.cache import ElementStore, RowStore
from dualgap.kernels.contraction import contract, full_matrix
from dualgap.kernels.functions import Kernel, diagonal, tile
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.last_product import LastProduct
from dualgap.kernels.points import Points, prepare
from dualgap.kernels.row_cache import RowCache, add_rows
from dualgap.kernels.running_product import Proof, RunningProduct
from dualgap.kernels.strips import Strips
from dualgap.kernels.tile_source import fusable

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dualgap.kernels.last_product import Approximate

Store = RowStore | ElementStore

# A matrix up to this size is computed at once: 2000 x 2000 float64 entries take BLAS some 20 ms, less than
# fetching a few hundred of its rows one by one.
_EAGER_BYTES = 32_000_000
# Points up to which a matrix of float64 entries is also what certificates read: making all of it (65 000 entries) costs
# no more than setting out to make a part. The size alone decides, so that equal runs are equal bit for bit.
_FEW = 256
# Multiplications an entry takes from which on reading it from memory (about 0.4 ns, and as much to write it to fresh
# pages) is several times cheaper. With 115 (1.9 ns an entry) a fit that kept its rows took a tenth longer.
_DEAR = 150.0
# Rows below which keeping them does not pay: those of a few blocks.
_ROWS_LEAST = 2048
# Multiplications of entries in float64 from which on it pays to make them in float32 first, which saves about 0.014 ns
# each: a millisecond, of which packing and bounds take a part.
_WORTH_BOUNDING = 7e7
# The same where the solver has left them, and all of it is saved: a fifth of a millisecond, what bounds take.
_WORTH_READING = 8e6
# Bytes a fit takes beside what is divided: some forty vectors of all points, and scratch of two threads. What is
# divided between blocks, packed columns and rows is never all in use: this share of it is.
_EACH, _FIXED, _DIVIDED = 480, 8_000_000, 0.7
# Bytes for the rows of a Gram matrix that is not ours and says nothing of a budget: the default of cache_size.
FOREIGN_BUDGET = 200_000_000
# Multiplications an entry of a Gram matrix takes that does not say: a guess.
_ENTRY_COST = 100.0
# Diagonals beyond this could overflow float32 in a product of a few.
SINGLE_MOST = 1e30


@runtime_checkable
class Gram(Protocol):
    """A symmetric kernel matrix K over n points.

    Attributes
    ----------
    n : int
        Number of points.
    dtype : numpy dtype
        Of the entries that `rows` and `block` return.
    psd : bool
        Whether K is known to be positive semidefinite.
    factor : array-like or None
        A with K = AA', where there is one.
    evaluations : int
        Kernel values computed so far for solvers (certificates are not counted).
    """

    n: int
    dtype: np.dtype[Any]
    psd: bool
    factor: Any
    evaluations: int

    def diag(self) -> NDArray[np.float64]:
        """The diagonal."""

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """A small dense block K[rows, columns]."""

    def rows(self, points: NDArray[np.intp]) -> NDArray[Any]:
        """K[points, :], read-only."""

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """``out += K[rows, points] @ delta`` (all rows when None), summed in float64, nothing stored needlessly."""

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ weights`` (all rows when None) in float64 throughout, for certificates."""


class FullGram:
    """A kernel matrix that is stored: precomputed, or small enough for the budget and computed when first read.

    Parameters
    ----------
    matrix : ndarray of shape (n, n) or None
        The matrix; None where `source` will compute it.
    psd : bool
        Whether it is known to be positive semidefinite.
    source : KernelGram or None
        The data and kernel it is made of.
    """

    def __init__(self, matrix: NDArray[Any] | None, *, psd: bool = False, source: KernelGram | None = None) -> None:
        self.source = source
        # The rows of a linear kernel: solvers that work on them need no entries, and hard problems are theirs.
        self.factor: Any = None if source is None else source.factor
        self._original: FullGram | None = None
        self.evaluations = 0
        self.psd = psd
        if matrix is None:
            assert source is not None
            self.n, self.dtype = source.n, source.dtype
            return
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {'x'.join(map(str, matrix.shape))} matrix."
            )
        self.matrix = np.ascontiguousarray(matrix)
        self.n, self.dtype = matrix.shape[0], self.matrix.dtype

    @cached_property
    def matrix(self) -> NDArray[Any]:
        """The entries."""
        if self._original is not None:
            return self._original.matrix
        assert self.source is not None
        matrix = np.empty((self.n, self.n), dtype=self.dtype)
        full_matrix(self.source.kernel, self.source.points, matrix, self.source.n_jobs)
        np.fill_diagonal(matrix, self.source.diag())
        self.evaluations += matrix.size
        return matrix

    @property
    def budget(self) -> int:
        """Bytes that a run may keep beside the matrix."""
        return self.nbytes if self.source is None else self.source.budget

    @property
    def divisible(self) -> int:
        """Bytes of it for blocks, packed columns and rows (see `KernelGram.divisible`)."""
        return self.nbytes if self.source is None else self.source.divisible

    @property
    def fused(self) -> FusedGram | None:
        """The same matrix made of float32 tiles, where there are data to make it of."""
        return None if self.source is None else self.source.fused

    def separate(self) -> FullGram:
        """The same matrix for one thread beside others: the entries are shared, products and counts are its own."""
        if self.source is None:
            return self
        other = copy(self)
        other._original, other.source = self, self.source.separate()
        return other

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return int(self.matrix.nbytes) if "matrix" in self.__dict__ else 0

    @cached_property
    def largest_diagonal(self) -> float:
        """As that of `KernelGram`."""
        return float(np.abs(self.diag()).max()) if self.source is None else self.source.largest_diagonal

    def diag(self) -> NDArray[np.float64]:
        """The diagonal."""
        return np.diag(self.matrix).astype(np.float64) if self.source is None else self.source.diag()

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """A dense block."""
        return self.matrix[np.ix_(rows, columns)]

    def rows(self, points: NDArray[np.intp]) -> NDArray[Any]:
        """Whole rows."""
        return self.matrix[points]

    def forget(self) -> None:
        """Make the next exact product anew."""
        if self.source is not None:
            self.source.forget()

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """``out += K[rows, points] @ delta``."""
        add_rows(self.matrix, np.asarray(points), np.asarray(delta, dtype=np.float64), rows, out)

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ weights``; from the data in float64, or from few entries that are made of float64 data."""
        source = self._of_data()
        if source is not None:
            return source.exact(weights, rows)
        out = np.zeros(self.n if rows is None else len(rows))
        used = np.flatnonzero(weights)
        self.accumulate(out, used, weights[used], rows)
        return out

    @property
    def bounded(self) -> Callable[..., LastProduct | None] | None:
        """`KernelGram.bounded`; None where exact products are read off this matrix."""
        source = self._of_data()
        return None if source is None else source.bounded

    def sharpen(self, places: NDArray[np.intp]) -> None:
        """As `KernelGram.sharpen`."""
        assert self.source is not None
        self.source.sharpen(places)

    def _of_data(self) -> KernelGram | None:
        """What makes exact products of the data, unless they are read off this matrix."""
        source = self.source
        if source is None or (self.n <= _FEW and source.points.dtype == np.float64 == self.dtype):
            return None
        return source


class KernelGram:
    """A kernel matrix whose rows are computed on demand and kept under a byte budget."""

    factor: Any = None

    def __init__(
        self,
        points: Points,
        kernel: Kernel,
        budget: int,
        *,
        cache: str = "row",
        n_jobs: int | None = None,
        dtype: np.dtype[Any] | None = None,
    ) -> None:
        self.points = points
        self.kernel = kernel
        self.n = points.n
        self.dtype = points.dtype if dtype is None else np.dtype(dtype)
        self.psd = kernel.psd
        self.evaluations = 0
        self.budget = budget
        self.n_jobs = n_jobs
        self._cache = cache
        self._store: Store | None = None
        self._last_product = LastProduct()
        self.strips: Strips | None = None  # rows that a solver has left
        self.running: RunningProduct | None = None  # the product that a solver keeps, where it has a proof
        self._diagonal = diagonal(kernel, points)
        self._diagonal[np.abs(self._diagonal) > np.finfo(self.dtype).max] = np.inf  # as rows of this dtype have it
        self._columns: tuple[NDArray[np.intp], Points] | None = None
        self.factor = points.original if kernel.name == "linear" else None
        if cache not in ("row", "element"):
            raise ValueError(f"cache must be 'row' or 'element'; got {cache!r}.")

    @property
    def store(self) -> Store:
        """Rows (or elements) for compiled solvers; allocated at first use."""
        if self._store is None:
            kind = RowStore if self._cache == "row" else ElementStore
            # A weak reference: in a cycle the cache would outlive the fit until the garbage collector passes by.
            owner = weakref.WeakMethod(self._row)
            self._store = kind(lambda point, columns: owner()(point, columns), self.n, self.dtype, self.budget)  # type: ignore[misc]
        return self._store

    @property
    def divisible(self) -> int:
        """Bytes of the budget for blocks, packed columns and rows: half at least, the rest for the vectors of a fit."""
        rest = self.budget - _FIXED - _EACH * self.n
        return max(self.budget // 2, min(self.budget, int(rest / _DIVIDED)))

    @cached_property
    def fused(self) -> FusedGram | None:
        """The same matrix made of float32 tiles, where this CPU and kernel allow it."""
        if not fusable(self.kernel, self.points) or not self.largest_diagonal < SINGLE_MOST:
            return None
        fused = FusedGram(self.points, self.kernel, self.divisible, self.n_jobs)
        return fused if fused.finite else None

    @cached_property
    def kept_rows(self) -> RowCache | None:
        """Rows in float32 for block solvers, where entries are dear and the budget holds enough rows; else None."""
        if self.kernel.name == "linear" or (self.fused is not None and self.fused.entry_cost < _DEAR):
            return None
        # The other half is for packed columns and a block.
        capacity = min(self.n, self.divisible // 2 // (4 * self.n))
        return None if capacity < min(self.n, _ROWS_LEAST) else RowCache(self.n, capacity)

    def separate(self) -> KernelGram:
        """The same matrix for one thread beside others: the data are shared, caches and counts are its own."""
        other = copy(self)
        other.n_jobs, other.evaluations, other._store, other._last_product = 1, 0, None, LastProduct()
        other.strips = other.running = None
        other.kept_rows = None
        if self.fused is not None:
            other.fused = self.fused.separate(threads=1)
        return other

    @property
    def entry_cost(self) -> float:
        """Multiplications an entry takes, roughly: what a chunk of work may be measured by."""
        data = self.points.original
        if sp.issparse(data):
            return max(1.0, data.nnz / max(1, self.n))
        return float(data.shape[1]) if getattr(data, "ndim", 1) == 2 else 1.0

    @property
    def nbytes(self) -> int:
        """Bytes of kernel entries held."""
        return 0 if self._store is None else self._store.nbytes

    def _row(self, point: int, columns: NDArray[np.intp] | None) -> NDArray[Any]:
        one = self.points.take(np.array([point]))
        row = tile(self.kernel, one, self._chosen(columns))[0]
        self.evaluations += row.shape[0]
        at = point if columns is None else int(np.searchsorted(columns, point))
        if at < row.shape[0] and (columns is None or columns[at] == point):
            row[at] = self._diagonal[point]
        return row

    def _chosen(self, columns: NDArray[np.intp] | None) -> Points:
        """The points of the columns; the last choice is kept, because shrinking asks for it row after row."""
        if columns is None:
            self._columns = None
            return self.points
        if self._columns is None or self._columns[0] is not columns:
            self._columns = (columns, self.points.take(columns))
        return self._columns[1]

    @cached_property
    def largest_diagonal(self) -> float:
        """The largest absolute value on the diagonal, not a finite number where one of them is none."""
        return float(np.abs(self._diagonal).max())

    def diag(self) -> NDArray[np.float64]:
        """The diagonal, exact where the formula gives it."""
        return self._diagonal.copy()

    def block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """A dense block."""
        self.evaluations += len(rows) * len(columns)
        block = tile(self.kernel, self.points.take(rows), self.points.take(columns))
        same = np.asarray(rows)[:, None] == np.asarray(columns)[None, :]
        i, j = np.nonzero(same)
        block[i, j] = self._diagonal[np.asarray(rows)[i]]
        return block

    def rows(self, points: NDArray[np.intp]) -> NDArray[Any]:
        """Whole rows, from the cache where they fit."""
        wanted = np.atleast_1d(np.asarray(points, dtype=np.int64))
        store = self.store
        if isinstance(store, RowStore) and store.columns is None and wanted.size <= store.values.shape[0]:
            store.load(wanted)
            rows = store.values[store.slot[wanted]]
        else:
            rows = self.block(wanted, np.arange(self.n))
        rows.flags.writeable = False
        return rows

    def accumulate(
        self,
        out: NDArray[np.float64],
        points: NDArray[np.intp],
        delta: NDArray[np.float64],
        rows: NDArray[np.intp] | None = None,
    ) -> None:
        """``out += K[rows, points] @ delta`` by tiles that are not kept."""
        targets = self.points if rows is None else self.points.take(rows)
        self.evaluations += targets.n * len(points)
        contract(self.kernel, targets, self.points.take(points), delta, out, n_jobs=self.n_jobs)

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ weights`` in float64 from the data, over the points in use."""
        return self._last_product.renew(weights, rows, self.product)

    def product(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """As `exact`, made anew and not kept."""
        if self.kernel.name == "linear" or self.fused is None:  # K = AA': two products with A
            return self._exact(weights, rows)
        return self.fused.exact(weights, rows)

    def bounded(
        self,
        weights: NDArray[np.float64],
        rows: NDArray[np.intp] | None,
        needed: NDArray[np.bool_],
        *,
        always: bool = False,
        known: bool = False,
    ) -> LastProduct | None:
        """``K[rows] @ weights``, exact where it is `needed`, else from float32 entries with a bound of their error.

        None where there is no bound, or exact products are hardly more work (but for `always`), or the last product is
        of no use (with `known`). `sharpen` makes components of the answer exact.
        """
        if self.fused is None or self.kernel.name != "rbf":
            return None
        last, fused = self._last_product, self.fused.proving()
        leads = last.leads_to(weights, rows)
        if not (leads and last.error is not None):
            work = np.count_nonzero(weights) * np.count_nonzero(~needed) * fused.entry_cost
            if known or not (always or (self._worth_bounding(work) and not leads)) or fused.entry_error() is None:
                return None
        # Entries that have been made are those of the solver's tiles.
        approximate: Approximate = partial(bounded_product, fused, strips=self.strips if fused is self.fused else None)
        if self.running is not None and not leads:
            # The next product is made from this one: what the solver kept has done its service.
            approximate, self.running = self.running.at, None
        last.bound(weights, rows, needed, fused.exact, approximate)
        return last

    def proof(self, weights: NDArray[np.float64]) -> Proof | None:
        """For a product that is kept from these weights on; None where there is no bound, or no product to begin with.

        Neither is there one where bounds are proved with other tiles than the solver's.
        """
        last, fused = self._last_product, self.fused
        if fused is None or fused.proving() is not fused or fused.entry_error() is None:
            return None
        if not np.any(weights):
            return Proof(fused, np.zeros(self.n), np.zeros(self.n))
        if last.weights is None or not np.array_equal(last.weights, weights):
            return None
        product, error = np.zeros(self.n), np.full(self.n, np.inf)
        known = slice(None) if last.rows is None else last.rows
        product[known], error[known] = last.product, 0.0 if last.error is None else last.error
        return Proof(fused, product, error)

    def _worth_bounding(self, work: float) -> bool:
        """Whether float32 entries save time where float64 ones would take so many multiplications."""
        if self.strips is not None:
            return work >= _WORTH_READING
        return work >= _WORTH_BOUNDING

    def sharpen(self, places: NDArray[np.intp]) -> None:
        """Make some components of the last product exact."""
        self._last_product.sharpen(places, self.product)

    def forget(self) -> None:
        """Make the next exact product anew, so that a run does not depend on what was computed before it."""
        self._last_product, self.strips, self.running = LastProduct(), None, None

    def _exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None) -> NDArray[np.float64]:
        targets = self.points if rows is None else self.points.take(rows)
        out = np.zeros(targets.n)
        used = np.flatnonzero(weights)
        columns = self.points.take(used)
        if used.size:
            contract(self.kernel, targets, columns, weights[used], out, exact=True, n_jobs=self.n_jobs)
            # The formula at distance zero may round; the diagonal is known.
            if self.kernel.name == "rbf":
                missing = np.zeros(self.n)
                missing[used] = weights[used] * (1.0 - self._exact_self(columns))
                out += missing if rows is None else missing[rows]
        return out

    def _exact_self(self, columns: Points) -> NDArray[np.float64]:
        """What the float64 tiles hold on the diagonal, to be replaced by the exact 1."""
        found = np.empty(columns.n)
        for start in range(0, columns.n, 1024):
            part = columns.exact(slice(start, start + 1024))
            if sp.issparse(part.data):
                products = np.asarray(part.data.multiply(part.data).sum(axis=1)).ravel()
            else:
                products = np.einsum("ij,ij->i", part.data, part.data)
            found[start : start + 1024] = np.exp(np.minimum(0.0, 2 * self.kernel.gamma * (products - part.norms)))
        return found


def factored_gram(A: Any, *, cache_size: float = 200.0, cache: str = "row") -> KernelGram:
    """The Gram matrix AA' of a factor A (n x r, dense or CSR): rows are products, never a stored square."""
    return make_gram(A, Kernel("linear"), cache_size=cache_size, cache=cache, kind="cached")  # type: ignore[return-value]


def make_gram(
    X: Any,
    kernel: Kernel,
    *,
    cache_size: float = 200.0,
    cache: str = "row",
    kind: str = "auto",
    n_jobs: int | None = None,
) -> FullGram | KernelGram:
    """The Gram matrix of `kernel` over the rows of `X` within `cache_size` megabytes (1 MB = 10^6 bytes).

    Parameters
    ----------
    X : array or CSR matrix, shape (n, d), float32 or float64
        The points; for a precomputed kernel the matrix itself. Not copied, not upcast.
    kernel : Kernel
        Formula and parameters.
    cache_size : float
        Budget in megabytes for kernel entries.
    cache : {"row", "element"}
        What a row-cached Gram keeps.
    kind : {"auto", "full", "cached"}
        "auto" stores the matrix where it is small, else caches rows.
    n_jobs : int or None
        Threads for products with the matrix.
    """
    budget = int(cache_size * 1e6)
    if kernel.name == "precomputed":
        return FullGram(np.asarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64))
    points = prepare(X, kernel)
    dtype = None if kernel.name != "callable" else np.dtype(np.float64)
    gram = KernelGram(points, kernel, budget, cache=cache, n_jobs=n_jobs, dtype=dtype)
    need = gram.n**2 * gram.dtype.itemsize
    if kind == "full" and need > budget:
        raise ValueError(
            f"cache_size={cache_size} MB cannot hold the full {gram.n} x {gram.n} kernel matrix; "
            f"set cache_size to at least {need / 1e6:.0f} or use kind='cached'."
        )
    if kind == "full" or (kind == "auto" and cache == "row" and need <= min(budget, _EAGER_BYTES)):
        return FullGram(None, psd=gram.psd, source=gram)
    return gram


def entry_cost(gram: Gram) -> float:
    """Multiplications an entry takes, roughly, where the matrix says so; else a guess."""
    return float(getattr(gram, "entry_cost", _ENTRY_COST))


def largest_diagonal(gram: Gram) -> float:
    """The largest absolute value on the diagonal, found once where the matrix keeps it."""
    known = getattr(gram, "largest_diagonal", None)
    return float(np.abs(gram.diag()).max() if known is None else known)


def row_store(gram: Gram) -> Store:
    """The rows of any Gram for compiled code: its own store, the matrix itself, or a cache over `Gram.rows`."""
    if isinstance(gram, KernelGram):
        return gram.store
    if isinstance(gram, FullGram):
        return _AllRows(gram.matrix)

    def compute(point: int, columns: NDArray[np.intp] | None) -> NDArray[Any]:
        row = gram.rows(np.array([point]))[0]
        return row if columns is None else row[columns]

    return RowStore(compute, gram.n, np.dtype(gram.dtype), FOREIGN_BUDGET)


class _AllRows(RowStore):
    """A stored matrix as a row store that never misses."""

    def __init__(self, matrix: NDArray[Any]) -> None:
        self.n = matrix.shape[0]
        self.values = matrix
        self.slot = np.arange(self.n, dtype=np.int64)
        self.stamp = np.zeros(self.n, dtype=np.int64)
        self.clock = np.zeros(1, dtype=np.int64)
        self.counts = np.zeros(2, dtype=np.int64)
        self.columns = None

    @property
    def nbytes(self) -> int:
        """Bytes held beyond the matrix itself."""
        return 0

    def load(self, points: NDArray[np.int64], columns: NDArray[np.intp] | None = None) -> None:
        """Everything is here."""

    def restrict(self, columns: NDArray[np.intp]) -> None:
        """Columns stay: a stored matrix is read where it lies."""

    def reset(self) -> None:
        """Nothing to undo."""
