"""The minimum of a convex function on a ray, from values and slopes.

A ray ``x + t d`` of the composite problem costs no product once ``v = Ad`` is known: ``A(x + t d) = z + t v`` (SESOP
paper, eq. 34). `Ray` is that; `minimum_on_ray` works on any function that returns value and slope.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

# An interpolated point stays this share of the bracket away from its ends, or is replaced by the middle.
_INSIDE = 0.05
# While the slope still falls the step grows at most tenfold.
_GROWTH = 10.0
# Trials after which what is best is taken: 60 halvings exhaust float64.
_TRIALS = 60
# Differences of the objective below this, relative to it, are rounding.
_ROUNDING = 1e-14


class Ray:
    """The objective on ``x + t d``, ``z = Ax`` and ``v = Ad`` being stored: all of it without products."""

    def __init__(
        self,
        problem: Composite,
        x: NDArray[np.float64],
        z: NDArray[np.float64],
        d: NDArray[np.float64],
        v: NDArray[np.float64],
    ) -> None:
        self.problem, self.x, self.z, self.d, self.v = problem, x, z, d, v

    def __call__(self, t: float) -> tuple[float, float]:
        """Value and slope at t."""
        x, z = self.x + t * self.d, self.z + t * self.v
        u, r = self.problem.slopes(x, z)
        return self.problem.value(x, z), float(u @ self.v + r @ self.d)

    def curvature(self) -> float:
        """The second derivative at 0."""
        h, k = self.problem.curvatures(self.x, self.z)
        bent = float(h @ (self.v * self.v) + k @ (self.d * self.d))
        if self.problem.energy:
            bent += 2.0 * self.problem.energy * float(self.d @ self.problem.quadratic(self.d, self.v))
        return bent


def minimum_on_ray(
    f: Callable[[float], tuple[float, float]],
    value: float,
    slope: float,
    first: float,
    *,
    tolerance: float,
    trials: int = _TRIALS,
) -> float:
    """A t > 0 at which the slope is at most ``tolerance * |slope|`` in size, or the best that was found.

    Parameters
    ----------
    f : callable
        Returns value and slope at t.
    value, slope : float
        Those at 0; the slope is negative.
    first : float
        The first trial.
    tolerance : float
        How flat it has to be, against the slope at 0.
    trials : int
        Evaluations at most.

    Returns
    -------
    float
        The step; 0 where none of the trials descends.
    """
    low, low_value, low_slope = 0.0, 0.0, slope
    high, high_value, high_slope = inf, inf, inf
    t = first
    for _ in range(trials):
        there, at = f(t)
        rise = there - value
        if abs(at) <= tolerance * abs(slope) and rise <= _ROUNDING * abs(value):
            return t
        # Of a convex function the slope alone tells on which side of the minimum t is.
        if isfinite(rise) and at < 0.0:
            low, low_value, low_slope = t, rise, at
        else:
            high, high_value, high_slope = t, rise, at
        if high == inf:
            t = _beyond(low, low_slope, slope)
        else:
            t = _between(low, low_value, low_slope, high, high_value, high_slope)
            if not low < t < high:
                break
    return low


def _beyond(low: float, low_slope: float, slope: float) -> float:
    """The next trial where the function still falls: where the slope would vanish if it kept on rising as it has."""
    rise = (low_slope - slope) / low
    t = low - 1.1 * low_slope / rise if rise > 0.0 else inf
    return float(min(max(t, 2.0 * low), _GROWTH * low))


def _between(a: float, fa: float, sa: float, b: float, fb: float, sb: float) -> float:
    """The minimum of the cubic through both ends, kept away from them.

    Slopes alone place it (a secant) where values are lost in rounding or one end has none.
    """
    middle = 0.5 * (a + b)
    if not (isfinite(fb) and isfinite(sb)):
        return a + 0.1 * (b - a)
    t = a - sa * (b - a) / (sb - sa)
    d = sa + sb - 3.0 * (fa - fb) / (a - b)
    root = d * d - sa * sb
    if root > 0.0:
        w = sqrt(root)
        cubic = b - (b - a) * (sb + w - d) / (sb - sa + 2.0 * w)
        t = cubic if a < cubic < b else t
    margin = _INSIDE * (b - a)
    return t if a + margin <= t <= b - margin else float(np.clip(t, a + margin, b - margin)) if a < t < b else middle
