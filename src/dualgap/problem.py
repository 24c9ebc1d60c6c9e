"""The one problem every support vector machine of the papers is.

DualQP (MPD paper, eq. 1)::

    min_a  1/2 a'Ha + f0'a    subject to    lo <= a <= hi,    F'a = e

    H = diag(sign) K[index, index] diag(sign) + diag(ridge)

Its multipliers ``eta`` of the equality constraints are the free coefficients of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.constraints import Groups, split

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram


@dataclass(frozen=True, eq=False)
class DualQP:
    """A box-constrained quadratic program over a Gram matrix with k equality constraints.

    Attributes
    ----------
    gram : Gram
        The kernel matrix K over the data points.
    index : ndarray of intp, shape (n,)
        Which data point each variable belongs to (regression has two variables a point).
    sign : ndarray, shape (n,)
        +1 or -1 for each variable.
    ridge : ndarray, shape (n,)
        Diagonal added to H. Kept apart from K: folded into H it makes the gap of the squared hinge
        infinite, because ``hi`` is infinite there.
    f0, lo, hi : ndarray, shape (n,)
        Linear term and box. ``hi`` may be infinite.
    F : ndarray, shape (n, k)
        Equality constraints, one column each; k may be 0.
    e : ndarray, shape (k,)
        Their right-hand sides.
    columns : tuple of str
        What each multiplier means to `formulations.recover` ("bias", "rho", "epsilon", "phi0", ...);
        "eta0", "eta1", ... when left empty.
    formulation : str
        The row of the formulation table this came from, or "custom".
    """

    gram: Gram
    index: NDArray[np.intp]
    sign: NDArray[np.float64]
    ridge: NDArray[np.float64]
    f0: NDArray[np.float64]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    F: NDArray[np.float64]
    e: NDArray[np.float64]
    columns: tuple[str, ...] = ()
    formulation: str = "custom"

    def __post_init__(self) -> None:
        index = np.ascontiguousarray(self.index, dtype=np.intp)
        n = index.shape[0]
        _set(self, "index", index)
        for name in ("sign", "ridge", "f0", "lo", "hi"):
            _set(self, name, _vector(getattr(self, name), n))
        F = np.ascontiguousarray(self.F, dtype=np.float64)
        if F.size == 0:
            F = F.reshape(n, 0)
        elif F.ndim == 1:
            F = F.reshape(-1, 1)
        _set(self, "F", F)
        _set(self, "e", np.atleast_1d(np.asarray(self.e, dtype=np.float64)).reshape(-1))
        if not self.columns:
            _set(self, "columns", tuple(f"eta{j}" for j in range(F.shape[1])))
        self._check(n)

    def _check(self, n: int) -> None:
        if n == 0:
            raise ValueError("DualQP needs at least one variable; index is empty.")
        if self.F.shape[0] != n or self.F.shape[1] != self.e.shape[0]:
            raise ValueError(f"F must have shape ({n}, {self.e.shape[0]}) to match index and e; got {self.F.shape}.")
        if len(self.columns) != self.e.shape[0]:
            raise ValueError(f"columns must name {self.e.shape[0]} multipliers; got {self.columns!r}.")
        largest = getattr(self.gram, "largest_diagonal", None)  # known once for all problems over a matrix, or not
        check_kernel_values(self.gram.diag() if largest is None else np.asarray(largest))
        from dualgap._vector_passes import fault_of

        fault = fault_of(self.index, self.gram.n, self.sign, self.ridge, self.f0, self.lo, self.hi, self.F, self.e)
        if fault:
            raise ValueError(_FAULTS[fault].format(points=self.gram.n))

    @property
    def n(self) -> int:
        """Number of variables."""
        return int(self.index.shape[0])

    @property
    def k(self) -> int:
        """Number of equality constraints."""
        return int(self.e.shape[0])

    def on_points(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """The signed variables summed onto their points: the coefficients of the kernel expansion."""
        if self.whole:
            return self.sign * a
        if self.points is self.index:
            coefficients = np.zeros(self.gram.n)
            coefficients[self.index] = self.sign * a + 0.0  # no zero with a sign
            return coefficients
        return np.bincount(self.index, weights=self.sign * a, minlength=self.gram.n).astype(np.float64, copy=False)

    @cached_property
    def points(self) -> NDArray[np.intp]:
        """The points that have variables, in order."""
        from dualgap._vector_passes import ascending

        return self.index if ascending(self.index) else np.unique(self.index)

    @cached_property
    def whole(self) -> bool:
        """Whether there is a variable for every point of the Gram matrix, in order."""
        return self.n == self.gram.n and self.points is self.index

    @cached_property
    def ridgeless(self) -> bool:
        """Whether no variable has a ridge."""
        return not self.ridge.any()

    @cached_property
    def curved(self) -> bool:
        """Whether all variables have one."""
        return bool(np.all(self.ridge > 0.0))

    @cached_property
    def bounded(self) -> bool:
        """Whether all upper bounds are finite."""
        return bool(np.all(np.isfinite(self.hi)))

    @cached_property
    def groups(self) -> Groups | None:
        """The equality constraints as independent groups, or None where they are coupled."""
        return split(self.F, self.e)


# What `_vector_passes.fault_of` finds, by its answer.
_FAULTS = {
    1: "sign must be +1 or -1 for every variable.",
    2: "ridge must be finite and non-negative.",
    3: "f0 must be finite.",
    4: "lo must be finite.",
    5: "lo must not exceed hi (and neither may be NaN).",
    6: "F must be finite.",
    7: "e must be finite.",
    8: "index must lie in [0, {points}), the points of the Gram matrix.",
}


def _vector(value: Any, n: int) -> NDArray[np.float64]:
    """A number a variable; one that is meant for all of them is repeated."""
    if isinstance(value, np.ndarray) and value.shape == (n,):
        return np.ascontiguousarray(value, dtype=np.float64)
    return np.ascontiguousarray(np.broadcast_to(value, (n,)), dtype=np.float64)


def check_kernel_values(values: NDArray[Any]) -> None:
    """Raise where values of the kernel have overflowed.

    Raises
    ------
    ValueError
        With what to do about it.
    """
    if not np.all(np.isfinite(values)):
        raise ValueError(
            "The kernel matrix has values that are not finite; scale the features or reduce gamma or degree."
        )


def check_objective(value: float) -> None:
    """Raise where arithmetic has overflowed: the value of an objective is not finite.

    Raises
    ------
    ValueError
        With what to do about it.
    """
    if not np.isfinite(value):
        raise ValueError(
            "The kernel values or targets are too large for float64 arithmetic: the objective is no longer "
            "finite. Scale the features (for example with StandardScaler) or reduce gamma, degree or C."
        )


def _set(problem: DualQP, name: str, value: object) -> None:
    object.__setattr__(problem, name, value)
