"""Gram matrices for many solves over the same data: entries are kept that a single solve would make again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.kernels.functions import Kernel
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.gram import FullGram, KernelGram, make_gram
from dualgap.kernels.last_product import LastProduct
from dualgap.kernels.points import prepare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# A path reads the rows of its support vectors, which are a part of the matrix: beyond 2000 points it pays to make no
# other row. Folds and values of C together read all of it.
_ALL_ROWS_BYTES = 32_000_000


class _Remembering:
    """A Gram matrix whose last exact product outlives a solve: along a path the next run starts where it was made."""

    _last_product: LastProduct

    def forget(self) -> None:
        """Keep the product."""

    def remember(
        self,
        weights: NDArray[np.float64],
        rows: NDArray[np.intp] | None,
        product: NDArray[np.float64],
        error: NDArray[np.float64] | None = None,
    ) -> None:
        """Take note of ``K[rows] @ weights``, known as a multiple of a product that was exact, or as far as `error`."""
        seeded = LastProduct()
        seeded.rows, seeded.weights, seeded.product = rows, weights.copy(), product.copy()
        seeded.error = None if error is None or not np.any(error) else error.copy()
        seeded.size, seeded.corrections = float(np.abs(weights).sum()), self._last_product.corrections + 1
        self._last_product = seeded

    @contextmanager
    def believing(
        self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None, product: NDArray[np.float64]
    ) -> Iterator[None]:
        """Meanwhile take `product` for ``K[rows] @ weights``: a part of a problem has the others' share in it."""
        before = self._last_product
        self.remember(weights, rows, product)
        try:
            yield
        finally:
            self._last_product = before


class KeptGram(_Remembering, KernelGram):
    """A kernel matrix made of data on demand (rows are kept in any case, where entries are dear)."""

    def beside(self, others: NDArray[np.float64]) -> KeptGram:
        """The same matrix for a part of a problem: exact products have those of the `others`' weights in them."""
        assert self.fused is not None
        part = copy(self)
        part.fused = _BesideOthers(self.fused, others)
        return part

    def beside_another(self, threads: int) -> KeptGram:
        """The same matrix for a solver that runs beside another one, with half of what may be kept."""
        other = self.separate()
        assert isinstance(other, KeptGram)
        other.budget //= 2
        if other.fused is not None:
            other.fused.budget //= 2
        other.use(threads)
        return other

    def use(self, threads: int) -> None:
        """Use so many threads from the next product on."""
        self.n_jobs = threads
        if self.fused is not None:
            self.fused.threads = threads


class _BesideOthers(FusedGram):
    """Tiles of a matrix for some variables of a problem, while others keep the weights they have.

    A solver that computes slopes anew finds in them what it cannot see: without it they would be those of another
    problem.
    """

    def __init__(self, tiles: FusedGram, others: NDArray[np.float64]) -> None:
        self.__dict__.update(tiles.separate().__dict__)
        self.others = others

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ (weights + others)`` in float64 throughout."""
        return super().exact(weights + self.others, rows)


class StoredGram(_Remembering, FullGram):
    """A kernel matrix that is stored in float64."""

    def __init__(self, matrix: NDArray[np.float64], *, psd: bool = False) -> None:
        super().__init__(matrix, psd=psd)
        self._last_product = LastProduct()

    def separate(self) -> StoredGram:
        """The same entries for one thread beside others."""
        return StoredGram(self.matrix, psd=self.psd)

    def exact(self, weights: NDArray[np.float64], rows: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """``K[rows] @ weights``, corrected from the last product where that is less work."""
        return self._last_product.renew(weights, rows, super().exact)


def lasting_gram(
    X: Any, kernel: Kernel, *, cache_size: float = 200.0, n_jobs: int | None = None, all_rows: bool = False
) -> Gram:
    """The Gram matrix of `kernel` over `X` for many solves, within `cache_size` megabytes.

    Parameters
    ----------
    X : array or CSR matrix
        The points.
    kernel : Kernel
        Formula and parameters.
    cache_size : float
        Megabytes for kernel values.
    n_jobs : int, optional
        Threads.
    all_rows : bool
        Whether every row will be read (folds), so that the matrix is stored wherever it fits.
    """
    if kernel.name in ("precomputed", "callable", "linear"):
        return make_gram(X, kernel, cache_size=cache_size, n_jobs=n_jobs)
    budget = int(cache_size * 1e6)
    room = budget if all_rows else min(budget, _ALL_ROWS_BYTES)
    if 8 * X.shape[0] ** 2 <= room:
        # In float64 throughout, so that certificates may be read off it.
        double = X.astype(np.float64) if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        made = make_gram(double, kernel, cache_size=max(cache_size, 8e-6 * X.shape[0] ** 2), kind="full", n_jobs=n_jobs)
        return StoredGram(_stored(made), psd=made.psd)
    return KeptGram(prepare(X, kernel), kernel, budget, n_jobs=n_jobs)


def _stored(made: Any) -> NDArray[np.float64]:
    """All entries of a matrix in float64, by tiles where it is made of them: a third of the time that BLAS takes."""
    if made.fused is None:
        matrix: NDArray[np.float64] = made.matrix
        return matrix
    everyone = np.arange(made.n)
    matrix = made.fused.double().block(everyone, everyone)
    np.fill_diagonal(matrix, made.diag())
    return matrix
