"""Probabilities of several classes from those of pairs, and in agreement with the class that is predicted.

Coupling is the second method of Wu, Lin and Weng (2004): with r_ij the probability of class i where it is i or j,

    minimise over p   1/2 sum_i sum_(j != i) (r_ji p_i - r_ij p_j)^2,   sum_i p_i = 1
    [Q  1] [p]   [0]      Q_ii = sum_(s != i) r_si^2,   Q_ij = -r_ji r_ij
    [1' 0] [b] = [1]

whose solution is never negative. The systems of all samples are solved at once.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# LIBSVM's distance from 0 and 1, within which the systems are regular.
_LEAST = 1e-7
# Entries of the systems that are solved at once: 32 megabytes.
_ENTRIES = 1 << 22


def couple(first: NDArray[np.float64], n_classes: int) -> NDArray[np.float64]:
    """Probabilities of classes.

    Parameters
    ----------
    first : ndarray of shape (n_samples, n_classes * (n_classes - 1) / 2)
        For each pair of classes the probability of its first.
    n_classes : int
        Number of classes.
    """
    if n_classes == 2:
        return np.column_stack([first[:, 0], 1.0 - first[:, 0]])
    clipped = np.clip(first, _LEAST, 1.0 - _LEAST)
    size = max(1, _ENTRIES // (n_classes + 1) ** 2)
    parts = [_couple(clipped[start : start + size], n_classes) for start in range(0, len(first), size)]
    return np.concatenate(parts) if parts else np.empty((0, n_classes))


def _couple(first: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    system = np.zeros((len(first), k + 1, k + 1))
    for column, (i, j) in enumerate(combinations(range(k), 2)):
        r_ij, r_ji = first[:, column], 1.0 - first[:, column]
        system[:, i, i] += r_ji * r_ji
        system[:, j, j] += r_ij * r_ij
        system[:, i, j] = system[:, j, i] = -r_ji * r_ij
    system[:, :k, k] = system[:, k, :k] = 1.0
    right = np.zeros((len(first), k + 1, 1))
    right[:, k] = 1.0
    found = np.linalg.solve(system, right)[:, :k, 0]
    return normalised(np.maximum(found, 0.0))  # what is below 0 is rounding


def normalised(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows that add up to 1; all classes alike where nothing is left of any."""
    totals = rows.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(totals > 0.0, rows / totals, 1.0 / rows.shape[1])


def agreeing(probabilities: NDArray[np.float64], predicted: NDArray[np.intp]) -> NDArray[np.float64]:
    """The nearest probabilities, in the Euclidean norm, of which the predicted class has the largest.

    Where it has not, it and all classes above share the mean of theirs, which leaves them last digits apart.
    """
    rows = np.flatnonzero(np.argmax(probabilities, axis=1) != predicted)
    if rows.size == 0:
        return probabilities
    out = probabilities.copy()
    own, others = out[rows, predicted[rows]], out[rows]
    others[np.arange(rows.size), predicted[rows]] = -1.0  # below any probability: last in descending order
    largest = -np.sort(-others, axis=1)[:, :-1]
    # Means of the predicted class with the 1, 2, ... largest others grow as long as the next is above them.
    means = (own[:, None] + np.cumsum(largest, axis=1)) / np.arange(2, out.shape[1] + 1)
    level = means.max(axis=1)
    out[rows] = np.minimum(out[rows], level[:, None])
    out[rows, predicted[rows]] = np.nextafter(level, 1.0)
    return out
