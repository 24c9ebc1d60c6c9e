"""Platt's sigmoid, fitted to decision values by Newton's method with a duality gap to stop by.

For decision values f_i, smoothed targets t_i (of the class that positive values speak for) and weights w_i

    minimise over A <= 0 and B   sum_i w_i (log(1 + e^z_i) - (1 - t_i) z_i),   z_i = A f_i + B
    P(class | f) = 1 / (1 + e^(A f + B))

which is what Lin, Lin and Weng (2007) minimise, with their targets ``(n+ + 1)/(n+ + 2)`` and ``1/(n- + 2)``. A > 0
would say that a larger decision value makes the class less likely: then A is 0, and P is the frequency of the class.

With ``log(1 + e^z) = max over q of q z + H(q)``, H the entropy, the dual is to maximise ``sum_i w_i H(q_i)`` subject to
``sum_i w_i (q_i - (1 - t_i)) (f_i, 1) = 0``. A Newton step d repairs the q of its own point:

    q_i + q_i (1 - q_i) (d_A f_i + d_B)   meets the constraints, because d solves the Newton system,

so that every step has a lower bound to compare with at no more than its own cost. The difference is the stop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import entr, expit, logit

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Mean log loss above the best possible at which to stop: rounding is some hundred times less.
_GAP = 1e-12
# Newton steps at most; ten are many.
_STEPS = 100
# Armijo's fraction of the promised decrease, and the shortest step: that of Lin, Lin and Weng.
_DECREASE, _SHORTEST = 1e-4, 1e-10


@dataclass(frozen=True)
class Sigmoid:
    """``1 / (1 + exp(A f + B))``, and by how much its mean log loss can exceed the best one."""

    A: float
    B: float
    gap: float


def smoothed_targets(positive: NDArray[np.bool_], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Targets that keep probabilities away from 0 and 1: those with one sample of either class more."""
    n_positive, n_negative = float(weight[positive].sum()), float(weight[~positive].sum())
    return np.where(positive, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))


def fit_sigmoid(values: NDArray[np.float64], positive: NDArray[np.bool_], weight: NDArray[np.float64]) -> Sigmoid:
    """Fit A and B.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Decision values, of models that were not trained on the sample.
    positive : ndarray of bool, shape (n,)
        Whether the sample is of the class that positive values speak for.
    weight : ndarray of shape (n,)
        How often each sample counts.
    """
    total = float(weight.sum())
    if total == 0.0:
        return Sigmoid(0.0, 0.0, 0.0)  # two classes of which there is nobody: even chances
    opposite = 1.0 - smoothed_targets(positive, weight)
    # Decision values of any size and place are worked on as numbers around 0, of size 1.
    centre = float(weight @ values) / total
    x = values - centre
    scale = float(np.abs(x).max()) or 1.0
    x = x / scale
    level = float(weight @ opposite) / total
    a, b = 0.0, float(logit(level))
    if weight @ ((level - opposite) * x) <= 0.0:
        return Sigmoid(0.0, b, 0.0)

    gap = np.inf
    for _ in range(_STEPS):
        z = a * x + b
        q = expit(z)
        curved, excess = weight * q * expit(-z), weight * (q - opposite)
        g_a, g_b = float(excess @ x), float(excess.sum())
        h_aa, h_ab, h_bb = float(curved @ (x * x)), float(curved @ x), float(curved.sum())
        determinant = h_aa * h_bb - h_ab * h_ab
        if not determinant > 0.0:
            break  # flat to rounding: no step leads on
        d_a, d_b = (h_ab * g_b - h_bb * g_a) / determinant, (h_ab * g_a - h_aa * g_b) / determinant
        repaired = q + q * (1.0 - q) * (d_a * x + d_b)
        if repaired.min() >= 0.0 and repaired.max() <= 1.0:
            pointwise = np.logaddexp(0.0, z) - opposite * z - entr(repaired) - entr(1.0 - repaired)
            gap = max(0.0, float(weight @ pointwise) / total)
            if gap <= _GAP:
                break
        step = _step(a, b, d_a, d_b, g_a * d_a + g_b * d_b, x, opposite, weight)
        if step == 0.0:
            break
        a, b = a + step * d_a, b + step * d_b
    return Sigmoid(a / scale, b - a * centre / scale, gap)


def _step(
    a: float,
    b: float,
    d_a: float,
    d_b: float,
    slope: float,
    x: NDArray[np.float64],
    opposite: NDArray[np.float64],
    weight: NDArray[np.float64],
) -> float:
    """How far to go along a direction; 0 where no step makes the objective smaller."""
    here, step = _objective(a, b, x, opposite, weight), 1.0
    while step >= _SHORTEST:
        if _objective(a + step * d_a, b + step * d_b, x, opposite, weight) <= here + _DECREASE * step * slope:
            return step
        step /= 2.0
    return 0.0


def _objective(
    a: float, b: float, x: NDArray[np.float64], opposite: NDArray[np.float64], weight: NDArray[np.float64]
) -> float:
    z = a * x + b
    return float(weight @ (np.logaddexp(0.0, z) - opposite * z))
