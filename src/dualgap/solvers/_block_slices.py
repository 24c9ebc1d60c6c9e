"""Slices of the variables, cut at right angles to a line through the data.

Parts that are solved side by side should have little to do with one another. With a kernel that falls off with the
distance, ``k = 2^-d``, neighbours belong together. Where d is a squared distance, the mean of d from one half A of a
sample less that from its other half B grows along the line between their means ``m_A`` and ``m_B``::

    mean_a d(x, a) - mean_b d(x, b) = c - 2 x'(m_A - m_B)

and is all it takes to sort points along that line, whatever their features. What one cut tears apart is together in
another: there are a few lines, which are taken in turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.entries import Entries

# Lines, and points of the sample. (Thousand rows of entries for covtype 50 000, C=10, and 40 000, C=100, gamma=8: 8
# lines 34 and 136, 4 lines 35 and 148, principal axes of the sample 39 and 153, middles of two clusters 35 and 144.
# With 64 points in place of 32 the same within 5 %, one way or the other.)
_LINES, _SAMPLE = 8, 32
# Points that are placed at a time, by all threads: two megabytes of distances at most, and fewer where entries take
# many multiplications, since such points are large, too (mnist: all that is not zero of 16 384 took 40 MB, now 10).
_AT_A_TIME, _MULTIPLICATIONS = 16_384, 600_000.0


class Slices:
    """Where the points lie along a few lines.

    Parameters
    ----------
    entries : Entries
        What makes the kernel's entries.
    index : ndarray of intp
        The point of each variable.
    points : ndarray of intp
        The points there are.
    n : int
        Points of the data.
    seed : int
        Of the sample.
    """

    def __init__(self, entries: Entries, index: NDArray[np.intp], points: NDArray[np.intp], n: int, seed: int) -> None:
        self._index = index
        generator = np.random.default_rng(seed)
        sample = generator.choice(points, min(_SAMPLE, points.size), replace=False)
        weights = _lines(_logarithms(entries, sample, sample))
        self._along = np.empty((_LINES, n), dtype=np.float32)
        step = min(_AT_A_TIME, int(_MULTIPLICATIONS / entries.entry_cost) + 1)
        for begin in range(0, points.size, step):
            here = points[begin : begin + step]
            self._along[:, here] = weights @ _logarithms(entries, here, sample).T  # few columns, which are packed
        self._turn = 0

    def cut(self, variables: NDArray[np.intp], count: int) -> list[NDArray[np.intp]]:
        """Divide some variables into slices of the same size, across the next line; returns their places, in order."""
        along = self._along[self._turn % _LINES, self._index[variables]]
        self._turn += 1
        ends = [len(along) * part // count for part in range(1, count)]
        return [np.sort(part) for part in np.split(np.argpartition(along, ends), ends)]


def _logarithms(entries: Entries, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float32]:
    """Of kernel entries: distances, less than nothing."""
    # None is zero (`vectors.exp2`).
    return np.log(entries.matrix(rows, columns)).astype(np.float32, copy=False)


def _lines(near: NDArray[np.float32]) -> NDArray[np.float32]:
    """For each line the weights of the sample: means of the points nearer to one of two than to the other, and back."""
    weights: NDArray[Any] = np.empty((_LINES, len(near)), dtype=np.float32)
    for line in range(_LINES):
        one = near[2 * line] > near[2 * line + 1]  # the sample is in random order
        ours = int(np.count_nonzero(one))
        weights[line] = np.where(one, 1.0 / max(ours, 1), -1.0 / max(one.size - ours, 1))
    return weights
