"""The primal problem: a loss of linear functions, and a regulariser.

Composite (SESOP paper, eq. 32)::

    min_x  phi(Ax) + psi(x) + energy * q(x)

A is known by its products with vectors alone, phi is a sum over the entries of ``z = Ax``, psi a sum over the
coordinates of x that are not free of penalty. ``q(x) = x'Qx`` is the quadratic form of an operator that has one: for a
kernel matrix (eq. 21) it is ``a'Ka``, and ``Qx`` is read off ``z``, so that it costs no product.

All functions here take z beside x, because products are what a solver must be sparing with (eq. 34).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.losses import Loss
    from dualgap.regularisers import Regulariser
    from dualgap.result import Status


# What counts as falling: beyond rounding of the objective, or by a tenth of the gradient.
_ROUNDING, _FELL = 4e-16, 0.9


@runtime_checkable
class LinearMap(Protocol):
    """A matrix as a solver sees it (`dualgap.operators.as_operator` makes one of anything)."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    def matvec(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A x``."""

    def rmatvec(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``A' u``."""


@dataclass(frozen=True, eq=False)
class Composite:
    """``phi(Ax) + psi(x) + energy x'Qx``.

    Attributes
    ----------
    operator : LinearMap
        A, by its products.
    loss : Loss
        phi (see `dualgap.losses`).
    regulariser : Regulariser
        psi (see `dualgap.regularisers`), a function of the coordinates that are not free.
    free : sequence of int
        Coordinates that psi does not see, such as the bias; negative ones count from the end.
    energy : float
        Weight of the operator's own quadratic form; the operator must then have ``quadratic(x, z)``.
    """

    operator: LinearMap
    loss: Loss
    regulariser: Regulariser
    free: Sequence[int] = ()
    energy: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.operator, LinearMap):
            raise TypeError("operator must have shape, matvec(x) and rmatvec(u); see dualgap.operators.as_operator.")
        m, n = self.operator.shape
        if m == 0 or n == 0:
            raise ValueError(f"operator must have at least one row and one column; its shape is {(m, n)}.")
        if not all(-n <= j < n for j in self.free):
            raise ValueError(f"free must name coordinates below {n}; got {tuple(self.free)}.")
        object.__setattr__(self, "free", tuple(sorted({int(j) % n for j in self.free})))
        samples = getattr(self.loss, "size", m)
        if samples != m:
            raise ValueError(f"The loss has {samples} samples and the operator {m} rows.")
        for name in ("l1", "l2"):
            weight = np.asarray(getattr(self.regulariser, name, 0.0))
            if weight.ndim == 1 and weight.size != n - len(self.free):
                raise ValueError(
                    f"The regulariser has {weight.size} weights for {n - len(self.free)} coordinates that are not free."
                )
        if not (np.isfinite(self.energy) and self.energy >= 0.0):
            raise ValueError(f"energy must be a non-negative number; got {self.energy!r}.")
        if self.energy:
            try:
                self.quadratic(np.zeros(n), np.zeros(m))
            except AttributeError as error:
                raise ValueError("energy needs an operator with quadratic(x, z), such as that of a kernel.") from error

    @property
    def m(self) -> int:
        """Rows of A: samples."""
        return int(self.operator.shape[0])

    @property
    def n(self) -> int:
        """Columns of A: variables."""
        return int(self.operator.shape[1])

    @cached_property
    def penalised(self) -> slice | NDArray[np.intp]:
        """The coordinates psi sees; a slice (no copies) where the free ones are the last."""
        kept = self.n - len(self.free)
        if tuple(self.free) == tuple(range(kept, self.n)):
            return slice(0, kept)
        return np.setdiff1d(np.arange(self.n), np.asarray(self.free, dtype=np.intp))

    def value(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> float:
        """The objective at x, ``z = Ax``."""
        total = self.loss.value(z) + self.regulariser.value(x[self.penalised])
        if self.energy:
            total += self.energy * float(x @ self.quadratic(x, z))
        return float(total)

    def slopes(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``(u, r)`` with the gradient ``A'u + r``."""
        r = np.zeros(self.n)
        r[self.penalised] = self.regulariser.gradient(x[self.penalised])
        if self.energy:
            r += 2.0 * self.energy * self.quadratic(x, z)
        return np.asarray(self.loss.gradient(z), dtype=np.float64), r

    def curvatures(
        self, x: NDArray[np.float64], z: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``(h, k)`` with the Hessian ``A' diag(h) A + diag(k) + 2 energy Q``."""
        k = np.zeros(self.n)
        k[self.penalised] = self.regulariser.curvature(x[self.penalised])
        return np.asarray(self.loss.curvature(z), dtype=np.float64), k

    def gradient(
        self, x: NDArray[np.float64], z: NDArray[np.float64], operator: LinearMap | None = None
    ) -> NDArray[np.float64]:
        """The gradient, for one product with A' (by `operator`, where products are counted)."""
        u, r = self.slopes(x, z)
        return np.asarray((operator or self.operator).rmatvec(u) + r)

    def quadratic(self, x: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``Qx`` from x and ``z = Ax``; vectors, or rows of both."""
        return self.operator.quadratic(x, z)  # type: ignore[attr-defined, no-any-return]


class Standstill:
    """Whether a descent has come to rest short of its goal: neither objective nor gradient falls any more.

    The objective must fall by more than its rounding, or the gradient by a tenth, once in so many iterations.
    """

    def __init__(self, patience: int) -> None:
        self.patience, self.waited = patience, 0
        self.value = self.norm = np.inf

    def __call__(self, value: float, norm: float) -> bool:
        """Whether it has, after one more iteration; a gradient that is no number counts as rest."""
        if value < self.value - _ROUNDING * abs(value) or norm < _FELL * self.norm:
            self.value, self.norm, self.waited = min(value, self.value), min(norm, self.norm), 0
        else:
            self.waited += 1
        return self.waited > self.patience or not np.isfinite(norm)


@dataclass(frozen=True)
class Progress:
    """What a solver of a Composite tells once an iteration; x is its own, to be read and not kept."""

    iteration: int
    x: NDArray[np.float64]
    value: float
    gradient_norm: float
    n_products: int


@dataclass(frozen=True)
class Descent:
    """What a solver of a Composite hands back."""

    x: NDArray[np.float64]
    iterations: int
    n_products: int
    status: Status
