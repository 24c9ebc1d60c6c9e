"""Matrices as solvers of the composite problem see them: products with vectors, and how many there were.

`as_operator` takes NumPy arrays, SciPy's sparse matrices, any ``scipy.sparse.linalg.LinearOperator``, a Gram matrix
(its symmetric kernel matrix, by `Gram.accumulate`), or anything with ``shape``, ``matvec`` and ``rmatvec``. Data are
neither copied nor upcast: sums over float32 entries are float64 sums all the same. `WithBias` adds a column of ones
that is not stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
import scipy.sparse as sp

from dualgap.composite import LinearMap

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

# What a Gram matrix is known by, here: products need no more.
_GRAM_MEMBERS = ("n", "accumulate", "exact", "diag")


def as_operator(A: Any, *, bias: bool = False) -> LinearMap:
    """A linear map from whatever A is.

    Parameters
    ----------
    A : array, sparse matrix, LinearOperator, Gram, or object with shape, matvec, rmatvec
        The matrix.
    bias : bool
        Whether a column of ones follows, not stored.

    Raises
    ------
    TypeError, ValueError
        Where A is none of these, is not two-dimensional, or holds values that are not finite.
    """
    operator: LinearMap
    if isinstance(A, np.ndarray) and not isinstance(A, np.matrix):
        operator = DenseMap(_floats(A))
    elif sp.issparse(A):
        operator = SparseMap(_floats(A if A.format in ("csr", "csc") else A.tocsr()))
    elif all(hasattr(A, name) for name in _GRAM_MEMBERS):
        operator = KernelMap(A)
    elif isinstance(A, LinearMap):
        operator = A
    else:
        raise TypeError(
            f"A must be an array, a sparse matrix, a LinearOperator, a Gram matrix, or have shape, matvec and rmatvec; "
            f"got {type(A).__name__}."
        )
    return WithBias(operator) if bias else operator


def exact(operator: LinearMap) -> LinearMap:
    """The same map with products in float64 throughout, for certificates."""
    sharper = getattr(operator, "exact", None)
    return operator if sharper is None else sharper()


def _floats(A: Any) -> Any:
    if A.ndim != 2:
        raise ValueError(f"A must be two-dimensional; its shape is {A.shape}.")
    if A.dtype not in (np.float32, np.float64):
        A = A.astype(np.float64)
    if not np.all(np.isfinite(A.data if sp.issparse(A) else A)):
        raise ValueError("A must hold finite numbers.")
    return A


@dataclass(frozen=True, eq=False)
class DenseMap:
    """A NumPy array; float32 entries are summed in float64 without a float64 copy."""

    array: NDArray[Any]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.array.shape[0], self.array.shape[1]

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A x``."""
        return _product(self.array, x)

    def rmatvec(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A' u``."""
        return _product(self.array.T, u)


def _product(A: NDArray[Any], x: NDArray[np.float64]) -> NDArray[np.float64]:
    if A.dtype == np.float64:
        return np.asarray(A @ x)
    out = np.zeros(A.shape[0])
    if A.flags.c_contiguous:
        _rows_times(A, x, out)
    elif A.flags.f_contiguous:
        _columns_times(A.T, x, out)
    else:
        _rows_times(np.ascontiguousarray(A), x, out)
    return out


# Sums may be reordered, so that they run in vector registers; the order is fixed by the compiled code all the same.
@nb.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _rows_times(A, x, out):  # type: ignore[no-untyped-def]
    for i in range(A.shape[0]):
        total = 0.0
        for j in range(A.shape[1]):
            total += np.float64(A[i, j]) * x[j]
        out[i] = total


@nb.njit(cache=True, nogil=True)
def _columns_times(columns, x, out):  # type: ignore[no-untyped-def]
    for j in range(columns.shape[0]):
        if x[j] != 0.0:
            for i in range(columns.shape[1]):
                out[i] += np.float64(columns[j, i]) * x[j]


@dataclass(frozen=True, eq=False)
class SparseMap:
    """A CSR or CSC matrix; SciPy would copy float32 entries to float64 at each product, this does not."""

    matrix: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.matrix.shape[0], self.matrix.shape[1]

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A x``."""
        return self._times(x, self.matrix.format == "csr", self.shape[0])

    def rmatvec(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A' u``."""
        return self._times(u, self.matrix.format == "csc", self.shape[1])

    def _times(self, x: NDArray[np.float64], gather: bool, size: int) -> NDArray[np.float64]:
        """The product with the matrix, stored by rows of the result (gather) or by columns (scatter)."""
        M, out = self.matrix, np.zeros(size)
        product = _gather if gather else _scatter
        product(M.indptr, M.indices, M.data, np.ascontiguousarray(x, dtype=np.float64), out)
        return out


@nb.njit(cache=True, nogil=True)
def _gather(indptr, indices, data, x, out):  # type: ignore[no-untyped-def]
    for i in range(indptr.size - 1):
        total = 0.0
        for at in range(indptr[i], indptr[i + 1]):
            total += np.float64(data[at]) * x[indices[at]]
        out[i] = total


@nb.njit(cache=True, nogil=True)
def _scatter(indptr, indices, data, x, out):  # type: ignore[no-untyped-def]
    for j in range(indptr.size - 1):
        if x[j] != 0.0:
            for at in range(indptr[j], indptr[j + 1]):
                out[indices[at]] += np.float64(data[at]) * x[j]


@dataclass(frozen=True, eq=False)
class KernelMap:
    """The kernel matrix of a Gram; ``quadratic`` gives ``K a`` back from ``z = K a``, for ``a'Ka`` (eq. 21)."""

    gram: Gram
    sharp: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Points by points."""
        return self.gram.n, self.gram.n

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``K a``, over the points with a coefficient."""
        if self.sharp:
            return self.gram.exact(np.asarray(x, dtype=np.float64))
        out = np.zeros(self.gram.n)
        used = np.flatnonzero(x)
        if used.size:
            self.gram.accumulate(out, used, np.asarray(x[used], dtype=np.float64))
        return out

    rmatvec = matvec

    def quadratic(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``K a``."""
        return z

    def exact(self) -> KernelMap:
        """With `Gram.exact` in place of `Gram.accumulate`."""
        return KernelMap(self.gram, True)


@dataclass(frozen=True, eq=False)
class WithBias:
    """A map with one more column, all ones, which is not stored: the last variable is the bias."""

    base: LinearMap

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns, the one of the bias included."""
        rows, columns = self.base.shape
        return rows, columns + 1

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A w + b``."""
        return np.asarray(self.base.matvec(x[:-1]) + x[-1])

    def rmatvec(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``(A'u, 1'u)``."""
        out = np.empty(self.shape[1])
        out[:-1] = self.base.rmatvec(u)
        out[-1] = u.sum()
        return out

    def quadratic(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
        """The form of the base, in which the bias has no part."""
        out = np.zeros(x.shape)
        out[..., :-1] = self.base.quadratic(x[..., :-1], z - x[..., -1:])  # type: ignore[attr-defined]
        return out

    def exact(self) -> WithBias:
        """With exact products of the base."""
        return WithBias(exact(self.base))


class Counted:
    """A map that counts its products: what methods are compared by."""

    def __init__(self, operator: LinearMap) -> None:
        self.operator = operator
        self.shape = operator.shape
        self.forward = self.backward = 0

    @property
    def products(self) -> int:
        """Products with A and with A' so far."""
        return self.forward + self.backward

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A x``."""
        self.forward += 1
        return np.asarray(self.operator.matvec(x), dtype=np.float64)

    def rmatvec(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A' u``."""
        self.backward += 1
        return np.asarray(self.operator.rmatvec(u), dtype=np.float64)
