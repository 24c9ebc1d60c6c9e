"""Products with a kernel matrix of float32 entries, and a proof of how far they are from the exact ones.

Weights are split by their sign, so that nothing cancels and a relative error of entries is one of the sums (see
`kernels.error_bound`), and by how far their points are from the centre: the bound grows with the square of that, and
a few points far out would spoil it for all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dualgap.kernels.fused_gram import PACKED_SHARE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.error_bound import EntryError
    from dualgap.kernels.fused_gram import FusedGram
    from dualgap.kernels.strips import Strips

# Shares of the points with weights, in the order of their distance from the centre.
_PARTS = (0.5, 0.9, 0.99, 1.0)
# Points below which a part is not worth a pass of its own, and how many times larger the spreads of the next part have
# to be: a pass costs as much as some 30 points (with 1200 weights on ijcnn1, whose spreads are 1.5 times the median at
# most, two parts took 37.7 ms and four 39.3, for bounds that are 8 % less).
_PART_LEAST, _SPREAD_APART = 100, 1.25
# Bytes of columns that are packed for all parts together: packing the rows once more for each chunk of columns then
# costs a hundredth of their entries.
_CHUNK = 16_000_000


def bounded_product(
    gram: FusedGram, weights: NDArray[np.float64], rows: NDArray[np.intp], strips: Strips | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """``K[rows] @ weights`` from float32 entries, and a bound of the error of each component.

    Parameters
    ----------
    gram : FusedGram
        The matrix; it knows a bound of its entries' error.
    weights : ndarray, shape (n,)
        Coefficients of all points.
    rows : ndarray of int
        The components wanted.
    strips : Strips or None
        Entries that have been made, read where all that are needed are among them and no row is a point with a weight.
    """
    bound = gram.entry_error()
    assert bound is not None
    product, error = np.zeros(rows.size), np.zeros(rows.size)
    used = np.flatnonzero(weights)
    if used.size == 0 or rows.size == 0:
        return product, error
    # A power of two: weights between 0 and 1 keep all their digits in float32.
    scale = 2.0 ** np.ceil(np.log2(np.abs(weights[used]).max()))
    scaled = np.zeros(weights.size)
    scaled[used] = weights[used] / scale * bound.corrections(used)
    here = strips is not None and strips.cover(used, rows) and not np.any(weights[rows])
    parts = [(part, *_sides(part, weights)) for part in ([used] if here else _parts(used, bound))]
    # Whole tiles, within the share of the budget that packed columns may have.
    tiles = max(1, min(_CHUNK, gram.budget // PACKED_SHARE) // gram.tile_bytes)
    step = tiles * gram.tile_columns
    for begin in range(0, rows.size, step):
        end = begin + step
        chunk = rows[begin:end]
        single = strips if strips is not None and here else _apart(gram, tiles)
        for part, positive, negative in parts:
            above, below = np.zeros(chunk.size), np.zeros(chunk.size)
            single.accumulate(above, positive, scaled[positive], chunk)
            single.accumulate(below, negative, -scaled[negative], chunk)
            product[begin:end] += above - below
            error[begin:end] += (above + below) * bound.relative(chunk, part)
    factor = scale * bound.corrections(rows)
    product *= factor
    error = error * factor + bound.absolute(float(np.abs(weights).sum()), scale, used.size)
    error[~np.isfinite(product)] = np.inf  # weights too large for float32
    return product, error


def _apart(gram: FusedGram, tiles: int) -> FusedGram:
    """A matrix of its own: nothing is counted as a solver's entries, and none of its packed columns are given up."""
    single = gram.separate()
    single.budget = PACKED_SHARE * tiles * gram.tile_bytes
    return single


def _sides(part: NDArray[np.intp], weights: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return part[weights[part] > 0.0], part[weights[part] < 0.0]


def _parts(used: NDArray[np.intp], bound: EntryError) -> list[NDArray[np.intp]]:
    """The points with weights, those far from the centre apart from the others."""
    order = used[np.argsort(bound.spread[used], kind="stable")]
    spread = bound.spread[order]
    ends = [0]
    for share in _PARTS:
        end = int(share * order.size) if share < 1.0 else order.size
        if end - ends[-1] >= _PART_LEAST or share == 1.0:
            ends.append(end)
    # From the far end inwards, those are joined whose spreads are alike.
    kept = [order.size]
    for end in ends[-2:0:-1]:
        if spread[kept[-1] - 1] >= _SPREAD_APART * spread[end - 1]:
            kept.append(end)
    return [order[begin:end] for begin, end in pairwise([0, *kept[::-1]]) if end > begin]
