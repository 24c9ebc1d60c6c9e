"""Kernel formulas over tiles of data points.

============  =================================================  ======================
name          k(x, z)                                            positive semidefinite
============  =================================================  ======================
linear        x'z                                                yes
poly          (gamma x'z + coef0)^degree                         for coef0 >= 0
rbf           exp(-gamma |x - z|^2)                              yes
laplacian     exp(-gamma |x - z|_1)                              yes
chi2          exp(-gamma sum_k (x_k - z_k)^2 / (x_k + z_k))      yes (x, z >= 0)
sigmoid       tanh(gamma x'z + coef0)                            no
callable      function(X, Z)                                     unknown
precomputed   the matrix itself                                  unknown
============  =================================================  ======================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.kernels import distances

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.points import Points

NAMES = ("linear", "poly", "rbf", "sigmoid", "laplacian", "chi2", "precomputed")

# Points per call of a callable kernel for its diagonal: 64 x 64 values where 64 are needed, against a call each.
_DIAGONAL = 64


@dataclass(frozen=True)
class Kernel:
    """A kernel formula with its parameters; `name` is one of `NAMES` or "callable"."""

    name: str = "rbf"
    gamma: float = 1.0
    coef0: float = 0.0
    degree: float = 3
    function: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.name == "callable":
            if not callable(self.function):
                raise ValueError(f"A callable kernel needs a function(X, Z); got {self.function!r}.")
        elif self.name not in NAMES:
            raise ValueError(f"Unknown kernel {self.name!r}; choose one of {', '.join(NAMES)} or a callable.")
        if not self.gamma >= 0.0:
            raise ValueError(f"gamma must be non-negative; got {self.gamma!r}.")

    @property
    def psd(self) -> bool:
        """Whether the kernel is known to be positive semidefinite."""
        if self.name == "poly":
            return self.coef0 >= 0.0 and float(self.degree).is_integer()
        return self.name in ("linear", "rbf", "laplacian", "chi2")


def tile(kernel: Kernel, rows: Points, columns: Points) -> NDArray[Any]:
    """The dense block k(x_i, z_j) in the points' own dtype."""
    if rows.centre is not columns.centre:
        raise ValueError("rows and columns are measured from different centres; prepare one like the other.")
    if kernel.name == "callable":
        assert kernel.function is not None
        block = kernel.function(rows.data, columns.data)
        block = np.asarray(block.toarray() if sp.issparse(block) else block)
        if block.shape != (rows.n, columns.n):
            raise ValueError(
                f"The kernel callable returned shape {block.shape} for {rows.n} x {columns.n} points; "
                f"it must return one value per pair."
            )
        if not np.all(np.isfinite(block)):
            raise ValueError(
                "The kernel matrix has values that are not finite: the kernel callable returned NaN or infinity; "
                "it must return a finite number for every pair."
            )
        return block
    if kernel.name in ("laplacian", "chi2"):
        measure = distances.manhattan if kernel.name == "laplacian" else distances.chi_squared
        block = measure(rows.data, columns.data)
        block *= -kernel.gamma
        return np.exp(block, out=block)
    return _inner_product_tile(kernel, rows, columns)


def _inner_product_tile(kernel: Kernel, rows: Points, columns: Points) -> NDArray[Any]:
    block = distances.products(rows.data, columns.data)
    if kernel.name == "linear":
        return block
    if kernel.name == "rbf":
        block *= 2.0 * kernel.gamma
        block -= (kernel.gamma * rows.norms).astype(block.dtype)[:, None]
        block -= (kernel.gamma * columns.norms).astype(block.dtype)
        # Rounding can leave a squared distance slightly negative; a kernel value above 1 would be indefinite.
        np.minimum(block, 0.0, out=block)
        return np.exp(block, out=block)
    block *= kernel.gamma
    block += kernel.coef0
    if kernel.name == "poly":
        return _power(block, kernel.degree)
    return np.tanh(block, out=block)


def _power(block: NDArray[Any], degree: float) -> NDArray[Any]:
    """``block ** degree`` in place; by repeated squaring where the degree is whole (np.power takes 50 ns an entry)."""
    if not float(degree).is_integer():
        return np.power(block, degree, out=block)
    left = int(degree)
    if left == 0:
        block[...] = 1.0
        return block
    while left % 2 == 0:
        np.square(block, out=block)
        left //= 2
    result = block
    square = block.copy() if left > 1 else block
    left //= 2
    while left:
        np.square(square, out=square)
        if left % 2:
            result *= square
        left //= 2
    return result


def diagonal(kernel: Kernel, points: Points) -> NDArray[np.float64]:
    """k(x_i, x_i) in float64, exact where the formula gives it."""
    if kernel.name in ("rbf", "laplacian", "chi2"):
        return np.ones(points.n)
    if kernel.name == "callable":
        parts = [points.take(slice(i, i + _DIAGONAL)) for i in range(0, points.n, _DIAGONAL)]
        return np.concatenate([np.diag(tile(kernel, part, part)).astype(np.float64) for part in parts])
    if kernel.name == "linear":
        return points.norms.copy()
    inner = kernel.gamma * points.norms + kernel.coef0
    return _power(inner, kernel.degree) if kernel.name == "poly" else np.tanh(inner)
