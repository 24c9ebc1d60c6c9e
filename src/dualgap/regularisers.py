"""Regularisers psi of the composite problem ``min phi(Ax) + psi(x)``: sums over coordinates.

A regulariser is any object with ``value(x)``, ``gradient(x)`` and ``curvature(x)`` (of each coordinate). The one here
is

    psi(x) = sum_j  l1_j |x_j| + l2_j x_j^2        with |x| smoothed by eps (SESOP paper, eq. 22)

with weights that are numbers or one for each coordinate; there is no 1/2, as in the paper. `penalty` makes it by name:
"l1", "l2", "elastic_net", "none". A coordinate free of penalty (a bias) is named by the problem, not here: psi is then
a function of the others alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dualgap import smooth_abs

if TYPE_CHECKING:
    from numpy.typing import NDArray


@runtime_checkable
class Regulariser(Protocol):
    """What a solver needs of psi: convex, differentiable, a sum over coordinates."""

    def value(self, x: NDArray[np.float64]) -> float:
        """``psi(x)``."""

    def gradient(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its gradient."""

    def curvature(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its second derivatives, one a coordinate."""


@dataclass(frozen=True, eq=False)
class Penalty:
    """``sum l1 |x| + l2 x^2``, the absolute value smoothed.

    Attributes
    ----------
    l1, l2 : float or ndarray
        Weights, one for all coordinates or one each; non-negative.
    eps : float
        Smoothing of the absolute value.
    shift : float or ndarray
        Moves the smoothed absolute value along its argument: the multipliers (see `dualgap.smoothing`).
    """

    l1: float | NDArray[np.float64] = 0.0
    l2: float | NDArray[np.float64] = 0.0
    eps: float = 1e-2
    shift: float | NDArray[np.float64] = 0.0

    def __post_init__(self) -> None:
        for name in ("l1", "l2"):
            weight = np.asarray(getattr(self, name), dtype=np.float64)
            if weight.ndim > 1 or not np.all(np.isfinite(weight)) or not np.all(weight >= 0.0):
                raise ValueError(f"{name} must be a non-negative number, or one for each coordinate.")
            object.__setattr__(self, name, weight)
        if not (np.isfinite(self.eps) and self.eps > 0.0):
            raise ValueError(f"eps must be a positive number; got {self.eps!r}.")

    @property
    def smoothed(self) -> bool:
        """Whether there is an absolute value in it."""
        return bool(np.any(self.l1))

    def value(self, x: NDArray[np.float64]) -> float:
        """The smoothed sum."""
        total = float(np.sum(self.l2 * x * x))
        if self.smoothed:
            moved = smooth_abs.value(x + self.shift, self.eps) - smooth_abs.value(np.asarray(self.shift), self.eps)
            total += float(np.sum(self.l1 * moved))
        return total

    def gradient(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``l1 psi'(x) + 2 l2 x``."""
        slope = 2.0 * self.l2 * x
        return np.asarray(slope + self.l1 * smooth_abs.slope(x + self.shift, self.eps) if self.smoothed else slope)

    def curvature(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """``l1 psi''(x) + 2 l2``."""
        flat = np.broadcast_to(2.0 * np.asarray(self.l2), x.shape)
        return np.asarray(flat + self.l1 * smooth_abs.curvature(x + self.shift, self.eps) if self.smoothed else flat)

    def kinks(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where the terms stand against their kink, which is at 0."""
        return x

    def exact(self, x: NDArray[np.float64]) -> float:
        """The sum without smoothing."""
        return float(np.sum(self.l1 * np.abs(x)) + np.sum(self.l2 * x * x))

    def conjugate(self, v: NDArray[np.float64]) -> float:
        """``sum of max(0, |v| - l1)^2 / (4 l2)``; infinite where ``|v| > l1`` and ``l2 = 0``."""
        beyond = np.maximum(np.abs(v) - self.l1, 0.0)
        if not np.any(beyond):
            return 0.0
        at_zero = np.where(beyond == 0.0, 0.0, np.inf)
        by = np.broadcast_to(4.0 * np.asarray(self.l2), v.shape)
        return float(np.divide(beyond * beyond, by, out=at_zero, where=by > 0.0).sum())

    def reach(self, v: NDArray[np.float64]) -> float:
        """The largest factor by which v may be scaled before its conjugate is infinite."""
        if not np.any(self.l2):
            size = np.abs(v)
            return float(np.divide(self.l1, size, out=np.full(v.shape, np.inf), where=size > 0.0).min(initial=np.inf))
        rigid = np.broadcast_to(np.asarray(self.l2) == 0.0, v.shape) & (v != 0.0)
        if not np.any(rigid):
            return np.inf
        return float(np.min(np.broadcast_to(self.l1, v.shape)[rigid] / np.abs(v[rigid])))

    def excess(self, x: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
        """``exact + conjugate - v x``, coordinate by coordinate: ``l2 (x - s/(2 l2))^2 + l1 |x| - (v - s) x``.

        Here s is v beyond l1, so that both parts are non-negative where the conjugate is finite.
        """
        if not np.any(self.l2):
            return np.asarray(np.maximum(self.l1 * np.abs(x) - v * x, 0.0))
        s = np.sign(v) * np.maximum(np.abs(v) - self.l1, 0.0)
        curved = np.broadcast_to(np.asarray(self.l2) > 0.0, v.shape)
        s = np.where(curved, s, 0.0)
        half = np.divide(s, 2.0 * self.l2, out=np.zeros_like(v), where=curved)
        edge = np.maximum(self.l1 * np.abs(x) - (v - s) * x, 0.0)
        return np.asarray(self.l2 * (x - half) ** 2 + edge)


def penalty(name: str, weight: float | NDArray[np.float64] = 1.0, **parameters: Any) -> Penalty:
    """A regulariser by name: "l2", "l1", "elastic_net" (``l1_ratio`` of `weight` is l1), "none".

    Raises
    ------
    ValueError
        Where there is no such regulariser, or it does not take a parameter.
    """
    allowed = {"l2": set[str](), "none": set[str](), "l1": {"eps"}, "elastic_net": {"eps", "l1_ratio"}}
    if name not in allowed:
        raise ValueError(f"Unknown regulariser {name!r}; choose one of {', '.join(allowed)}.")
    if set(parameters) - allowed[name]:
        raise ValueError(f"The regulariser {name!r} takes weight, {sorted(allowed[name])}; got {sorted(parameters)}.")
    if name == "none":
        return Penalty()
    if name == "l2":
        return Penalty(l2=weight)
    ratio = 1.0 if name == "l1" else float(parameters.pop("l1_ratio", 0.5))
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"l1_ratio must lie between 0 and 1; got {ratio!r}.")
    return Penalty(l1=ratio * np.asarray(weight), l2=(1.0 - ratio) * np.asarray(weight), **parameters)


def make_regulariser(described: object) -> Regulariser:
    """A regulariser from None, a name, ``{"name": "l1", "weight": 1.0, "eps": 1e-3}``, or an object that is one.

    Raises
    ------
    ValueError, TypeError
        Where there is no such regulariser, or the object lacks ``value``, ``gradient`` or ``curvature``.
    """
    if described is None:
        return Penalty()
    if isinstance(described, str):
        return penalty(described)
    if isinstance(described, Mapping):
        parameters = dict(described)
        return penalty(str(parameters.pop("name", None)), **parameters)
    if not isinstance(described, Regulariser):
        raise TypeError(f"psi must have value(x), gradient(x) and curvature(x); got {type(described).__name__}.")
    return described
