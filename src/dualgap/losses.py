"""Losses phi of the composite problem ``min phi(Ax) + psi(x)``: sums over samples of one function of ``z = Ax`` each.

A loss is any object with::

    value(z) -> float                          the sum
    gradient(z), curvature(z) -> ndarray       first and second derivatives of its terms, one a sample

so a user's own object is as good as these. With ``t = 1 - y z`` (labels y of +1 and -1), ``r = z - y`` (targets y) and
a weight c = C, or C_i, for each sample:

    hinge                c max(0, t), smoothed: c (psi(t) + t) / 2             (SESOP paper, eqs. 15, 22, 23)
    squared_hinge        c max(0, t)^2                                         (eq. 17)
    huber_hinge          c max(0, t), quadratic on 0 < t < delta
    logistic             c log(1 + exp(-y z))
    epsilon_insensitive  c max(0, |r| - tube), smoothed at both edges as the hinge is
    squared              c r^2

Certificates need more of a loss: itself without smoothing. ``exact(z)`` is that, ``conjugate(u)`` its convex conjugate,
``bounds()`` the box on which the conjugate is finite, and ``excess(z, u) = exact + conjugate - u z >= 0`` term by term,
written without cancellation where that can be done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dualgap import smooth_abs

if TYPE_CHECKING:
    from numpy.typing import NDArray


@runtime_checkable
class Loss(Protocol):
    """What a solver needs of phi: convex, differentiable, a sum over the entries of z."""

    def value(self, z: NDArray[np.float64]) -> float:
        """``phi(z)``."""

    def gradient(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """First derivatives, one an entry."""

    def curvature(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Second derivatives, one an entry."""


@dataclass(frozen=True, eq=False)
class _Weighted:
    """Targets and weights, checked once: what all losses here hold."""

    y: NDArray[np.float64]
    C: float | NDArray[np.float64] = 1.0

    def __post_init__(self) -> None:
        y = np.ascontiguousarray(self.y, dtype=np.float64)
        if y.ndim != 1 or y.size == 0 or not np.all(np.isfinite(y)):
            raise ValueError("y must be a vector of finite numbers, one a sample.")
        C = np.asarray(self.C, dtype=np.float64)
        if C.shape not in ((), y.shape) or not np.all(np.isfinite(C)) or not np.all(C >= 0.0):
            raise ValueError(f"C must be a non-negative number, or one for each of the {y.size} samples.")
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "C", np.ascontiguousarray(np.broadcast_to(C, y.shape)))

    @property
    def size(self) -> int:
        """Number of samples."""
        return int(self.y.size)


@dataclass(frozen=True, eq=False)
class _Margin(_Weighted):
    """A loss of ``t = 1 - y z``; ``a = -y u`` is its slope in t."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.all(np.abs(self.y) == 1.0):
            raise ValueError("y must hold labels of +1 and -1.")

    def _t(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1.0 - self.y * z

    def _box(self, high: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The box of ``u = -y a`` for ``0 <= a <= high``."""
        return np.where(self.y > 0.0, -high, 0.0), np.where(self.y > 0.0, 0.0, high)


@dataclass(frozen=True, eq=False)
class Hinge(_Margin):
    """``c max(0, t)``, smoothed by eps (SESOP paper, eq. 23), moved by `shift` (the multipliers, see `smoothing`)."""

    eps: float = 1e-2
    shift: NDArray[np.float64] | float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive("eps", self.eps)

    def value(self, z: NDArray[np.float64]) -> float:
        """The smoothed sum."""
        t = self._t(z)
        moved = smooth_abs.value(t + self.shift, self.eps) - smooth_abs.value(np.asarray(self.shift), self.eps)
        return 0.5 * float(np.dot(self.C, moved + t))

    def gradient(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``-y c (psi'(t) + 1) / 2``."""
        return np.asarray(-0.5 * self.y * self.C * (smooth_abs.slope(self._t(z) + self.shift, self.eps) + 1.0))

    def curvature(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c psi''(t) / 2``."""
        return np.asarray(0.5 * self.C * smooth_abs.curvature(self._t(z) + self.shift, self.eps))

    def kinks(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Where the terms stand against their kink, which is at 0."""
        return self._t(z)

    def exact(self, z: NDArray[np.float64]) -> float:
        """The hinge itself."""
        return float(np.dot(self.C, np.maximum(self._t(z), 0.0)))

    def conjugate(self, u: NDArray[np.float64]) -> float:
        """``-sum a``."""
        return float(self.y @ u)

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``0 <= a <= c``."""
        return self._box(np.asarray(self.C))

    def excess(self, z: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``(c - a) max(0, t) + a max(0, -t)``."""
        t, a = self._t(z), -self.y * u
        return np.asarray((self.C - a) * np.maximum(t, 0.0) + a * np.maximum(-t, 0.0))


@dataclass(frozen=True, eq=False)
class SquaredHinge(_Margin):
    """``c max(0, t)^2`` (SESOP paper, eq. 17); smooth as it is."""

    def value(self, z: NDArray[np.float64]) -> float:
        """The sum."""
        return float(np.dot(self.C, np.maximum(self._t(z), 0.0) ** 2))

    def gradient(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``-2 y c max(0, t)``."""
        return np.asarray(-2.0 * self.y * self.C * np.maximum(self._t(z), 0.0))

    def curvature(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``2 c`` where ``t > 0``: the generalised second derivative."""
        return np.where(self._t(z) > 0.0, 2.0 * np.asarray(self.C), 0.0)

    exact = value

    def conjugate(self, u: NDArray[np.float64]) -> float:
        """``sum of a^2 / (4c) - a``."""
        return float(self.y @ u + _quotients(u, 4.0 * np.asarray(self.C)).sum())

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``a >= 0``."""
        return self._box(np.where(np.asarray(self.C) > 0.0, np.inf, 0.0))

    def excess(self, z: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c (max(0, t) - a/(2c))^2 + a max(0, -t)``."""
        t, a = self._t(z), -self.y * u
        off = np.maximum(t, 0.0) - np.divide(a, 2.0 * self.C, out=np.zeros_like(a), where=np.asarray(self.C) > 0.0)
        return np.asarray(self.C * off**2 + a * np.maximum(-t, 0.0))


@dataclass(frozen=True, eq=False)
class HuberHinge(_Margin):
    """``c t^2 / (2 delta)`` for ``0 < t < delta``, ``c (t - delta/2)`` beyond; a loss of its own, not a smoothing."""

    delta: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive("delta", self.delta)

    def value(self, z: NDArray[np.float64]) -> float:
        """The sum."""
        t = np.maximum(self._t(z), 0.0)
        inner = np.minimum(t, self.delta)
        return float(np.dot(self.C, inner * (t - 0.5 * inner))) / self.delta

    def gradient(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``-y c min(1, max(0, t) / delta)``."""
        return np.asarray(-self.y * self.C * np.clip(self._t(z) / self.delta, 0.0, 1.0))

    def curvature(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c / delta`` on the quadratic part."""
        t = self._t(z)
        return np.where((t > 0.0) & (t < self.delta), np.asarray(self.C) / self.delta, 0.0)

    exact = value

    def conjugate(self, u: NDArray[np.float64]) -> float:
        """``sum of delta a^2 / (2c) - a``."""
        return float(self.y @ u + self.delta * _quotients(u, 2.0 * np.asarray(self.C)).sum())

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``0 <= a <= c``."""
        return self._box(np.asarray(self.C))

    def excess(self, z: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c delta (s - s*)^2 / 2`` with ``s = a/c`` and the slope ``s*``, and what lies beyond either edge."""
        t, a = self._t(z) / self.delta, -self.y * u
        share = np.divide(a, self.C, out=np.zeros_like(a), where=np.asarray(self.C) > 0.0)
        off = 0.5 * (share - np.clip(t, 0.0, 1.0)) ** 2 + (1.0 - share) * np.maximum(t - 1.0, 0.0)
        return np.asarray(self.delta * self.C * (off + share * np.maximum(-t, 0.0)))


@dataclass(frozen=True, eq=False)
class Logistic(_Margin):
    """``c log(1 + exp(-y z))``."""

    def value(self, z: NDArray[np.float64]) -> float:
        """The sum, without overflow."""
        return float(np.dot(self.C, np.logaddexp(0.0, -self.y * z)))

    def _share(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``1 / (1 + exp(y z))``, the slope against the margin, between 0 and 1."""
        return np.exp(-np.logaddexp(0.0, self.y * z))

    def gradient(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``-y c / (1 + exp(y z))``."""
        return np.asarray(-self.y * self.C * self._share(z))

    def curvature(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c s (1 - s)``."""
        return np.asarray(self.C * self._share(z) * self._share(-z))

    exact = value

    def conjugate(self, u: NDArray[np.float64]) -> float:
        """``sum of c (s log s + (1 - s) log(1 - s))``, ``s = a/c``."""
        return float(np.dot(self.C, self._entropy(u)))

    def _entropy(self, u: NDArray[np.float64]) -> NDArray[np.float64]:
        a = -self.y * u
        s = np.divide(a, self.C, out=np.zeros_like(a), where=np.asarray(self.C) > 0.0)
        s = np.clip(s, 0.0, 1.0)
        return _x_log_x(s) + _x_log_x(1.0 - s)

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``0 <= a <= c``."""
        return self._box(np.asarray(self.C))

    def excess(self, z: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """A sum of three; what rounding takes below 0 is put there."""
        terms = self.C * (np.logaddexp(0.0, -self.y * z) + self._entropy(u)) - u * z
        return np.maximum(terms, 0.0)


@dataclass(frozen=True, eq=False)
class EpsilonInsensitive(_Weighted):
    """``c max(0, |z - y| - tube)``, smoothed by eps at both edges of the tube; `shift` as in `Hinge`, two rows."""

    tube: float = 0.1
    eps: float = 1e-2
    shift: NDArray[np.float64] | float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_positive("eps", self.eps)
        if not (np.isfinite(self.tube) and self.tube >= 0.0):
            raise ValueError(f"tube must be a non-negative number; got {self.tube!r}.")

    def kinks(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Distances above the upper and below the lower edge, two rows; the kinks are at 0."""
        r = z - self.y
        return np.array([r - self.tube, -r - self.tube])

    def value(self, z: NDArray[np.float64]) -> float:
        """The smoothed sum."""
        t = self.kinks(z)
        moved = smooth_abs.value(t + self.shift, self.eps) - smooth_abs.value(np.asarray(self.shift), self.eps)
        return 0.5 * float(np.dot(self.C, (moved + t).sum(axis=0)))

    def gradient(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c (psi'(above) - psi'(below)) / 2``."""
        above, below = smooth_abs.slope(self.kinks(z) + self.shift, self.eps)
        return np.asarray(0.5 * self.C * (above - below))

    def curvature(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c (psi''(above) + psi''(below)) / 2``."""
        return np.asarray(0.5 * self.C * smooth_abs.curvature(self.kinks(z) + self.shift, self.eps).sum(axis=0))

    def exact(self, z: NDArray[np.float64]) -> float:
        """The loss itself."""
        return float(np.dot(self.C, np.maximum(np.abs(z - self.y) - self.tube, 0.0)))

    def conjugate(self, u: NDArray[np.float64]) -> float:
        """``u'y + tube |u|``."""
        return float(self.y @ u + self.tube * np.abs(u).sum())

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """``-c <= u <= c``."""
        return -np.asarray(self.C), np.asarray(self.C)

    def excess(self, z: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``(c - |u|) max(0, |r| - tube) + |u| max(0, tube - |r|)``, and ``2 |u r|`` where u points the wrong way."""
        r = z - self.y
        beyond = np.abs(r) - self.tube
        against = np.where(u * r < 0.0, 2.0 * np.abs(u * r), 0.0)
        size = np.abs(u)
        return np.asarray((self.C - size) * np.maximum(beyond, 0.0) + size * np.maximum(-beyond, 0.0) + against)


@dataclass(frozen=True, eq=False)
class Squared(_Weighted):
    """``c (z - y)^2``."""

    def value(self, z: NDArray[np.float64]) -> float:
        """The sum."""
        return float(np.dot(self.C, (z - self.y) ** 2))

    def gradient(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``2 c (z - y)``."""
        return np.asarray(2.0 * self.C * (z - self.y))

    def curvature(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """``2 c``."""
        return 2.0 * np.asarray(self.C)

    exact = value

    def conjugate(self, u: NDArray[np.float64]) -> float:
        """``u'y + u^2 / (4c)``."""
        return float(self.y @ u + _quotients(u, 4.0 * np.asarray(self.C)).sum())

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """All numbers."""
        high = np.where(np.asarray(self.C) > 0.0, np.inf, 0.0)
        return -high, high

    def excess(self, z: NDArray[np.float64], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """``c (r - u/(2c))^2``."""
        half = np.divide(u, 2.0 * self.C, out=np.zeros_like(u), where=np.asarray(self.C) > 0.0)
        return np.asarray(self.C * (z - self.y - half) ** 2)


LOSSES: dict[str, type[_Weighted]] = {
    "hinge": Hinge,
    "squared_hinge": SquaredHinge,
    "huber_hinge": HuberHinge,
    "logistic": Logistic,
    "epsilon_insensitive": EpsilonInsensitive,
    "squared": Squared,
}


def make_loss(described: object) -> Loss:
    """A loss from an object that is one, or from ``{"name": "hinge", "y": y, "C": 1.0, ...}``.

    Raises
    ------
    ValueError, TypeError
        Where there is no such loss, or the object lacks ``value``, ``gradient`` or ``curvature``.
    """
    if isinstance(described, Mapping):
        parameters: dict[str, Any] = dict(described)
        name = parameters.pop("name", None)
        if name not in LOSSES:
            raise ValueError(f"Unknown loss {name!r}; choose one of {', '.join(LOSSES)}.")
        known = [f.name for f in fields(LOSSES[name])]
        unknown = sorted(set(parameters) - set(known))
        if unknown or "y" not in parameters:
            raise ValueError(f"The loss {name!r} needs y and takes {', '.join(known)}; got {sorted(parameters)}.")
        return LOSSES[name](**parameters)  # type: ignore[return-value]
    if isinstance(described, str):
        raise ValueError(f"A loss needs its targets: write {{'name': {described!r}, 'y': y}}, or pass an object.")
    if not isinstance(described, Loss):
        raise TypeError(f"phi must have value(z), gradient(z) and curvature(z); got {type(described).__name__}.")
    return described


def _check_positive(name: str, value: float) -> None:
    if not (np.isfinite(value) and value > 0.0):
        raise ValueError(f"{name} must be a positive number; got {value!r}.")


def _quotients(u: NDArray[np.float64], by: NDArray[np.float64]) -> NDArray[np.float64]:
    """``u^2 / by``, 0 where both are 0, infinite where only `by` is."""
    at_zero = np.where(u == 0.0, 0.0, np.inf)
    return np.divide(u * u, by, out=at_zero, where=by > 0.0)


def _x_log_x(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x * np.log(np.where(x > 0.0, x, 1.0)))
