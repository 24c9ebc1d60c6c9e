"""Classes of LIBSVM's models in another order.

A pair of classes has a decision function that is positive for the first of the two. Where an order puts the other
first, the function changes its sign; support vectors are listed class by class, and row j of a class's coefficients is
against the j-th of the other classes.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


def _pairs(order: NDArray[np.intp]) -> Iterator[tuple[int, int, int, int]]:
    """Each pair of classes: old places, and new places (the greater of these may be the first)."""
    place = np.argsort(order).tolist()
    for first, second in combinations(range(len(place)), 2):
        yield first, second, place[first], place[second]


def _pair_number(one: int, two: int, n_classes: int) -> int:
    """Where a pair is among all pairs (0, 1), (0, 2), ..., (1, 2), ..."""
    low, high = min(one, two), max(one, two)
    return low * n_classes - low * (low + 1) // 2 + high - low - 1


def reorder_machine(
    coefficients: NDArray[np.float64], biases: NDArray[np.float64], counts: list[int], order: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    """Put class ``order[i]`` in place i.

    Parameters
    ----------
    coefficients : ndarray, shape (n_classes - 1, m)
        Of the support vectors.
    biases : ndarray
        One a pair.
    counts : list of int
        Support vectors of each class.
    order : ndarray
        Old places of the classes, in their new order.

    Returns
    -------
    coefficients, biases : ndarray
        In the new order.
    rows : ndarray
        Old places of the support vectors, in their new order.
    """
    ends = np.concatenate([[0], np.cumsum(counts, dtype=np.intp)])
    new_ends = np.concatenate([[0], np.cumsum([counts[old] for old in order], dtype=np.intp)])
    rows = np.concatenate([np.arange(ends[old], ends[old + 1]) for old in order])
    moved, moved_biases = np.zeros_like(coefficients), np.zeros_like(biases)
    for number, (first, second, one, two) in enumerate(_pairs(order)):
        sign = 1.0 if one < two else -1.0
        of_one, of_two = slice(*new_ends[[one, one + 1]]), slice(*new_ends[[two, two + 1]])
        moved[two - (two > one), of_one] = sign * coefficients[second - 1, ends[first] : ends[first + 1]]
        moved[one - (one > two), of_two] = sign * coefficients[first, ends[second] : ends[second + 1]]
        moved_biases[_pair_number(one, two, len(counts))] = sign * biases[number]
    return moved, moved_biases, rows


def reorder_sigmoids(
    slopes: NDArray[np.float64], shifts: NDArray[np.float64], order: NDArray[np.intp]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Parameters of ``P(first of a pair) = 1 / (1 + exp(A f + B))`` for classes in another order.

    Where a pair's classes change places, f changes its sign and P turns into 1 - P: A stays, and B changes its sign.
    """
    moved_slopes, moved_shifts = np.zeros_like(slopes), np.zeros_like(shifts)
    for number, (_, _, one, two) in enumerate(_pairs(order)):
        target = _pair_number(one, two, len(order))
        moved_slopes[target] = slopes[number]
        moved_shifts[target] = shifts[number] if one < two else -shifts[number]
    return moved_slopes, moved_shifts
