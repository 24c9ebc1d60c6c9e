"""Products with a kernel matrix of float32 entries, and a proof of how far they are from the exact ones.

Weights are split by their sign, so that nothing cancels and a relative error of entries is one of the sums (see
`kernels.error_bound`), and by how far their points are from the centre: the bound grows with the square of that, and
a few points far out would spoil it for all.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from dualgap._vector_passes import nonzero

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dualgap.kernels.error_bound import EntryError
    from dualgap.kernels.fused_gram import FusedGram
    from dualgap.kernels.strips import Strips

    Numbers: TypeAlias = NDArray[np.float64]
    Groups: TypeAlias = Sequence[tuple[NDArray[np.intp], Numbers]]
    # ``add(sums, groups, rows)`` adds ``K[rows, points] @ delta`` of each group (points, delta) to sums of its own.
    AddGroups: TypeAlias = Callable[[Sequence[Numbers], Groups, NDArray[np.intp]], None]

# Shares of the points with weights, in the order of their distance from the centre.
_PARTS = (0.5, 0.9, 0.99, 1.0)
# Points below which a part is not worth a pass of its own, and how many times more entries of the next part have to be
# off: a pass costs as much as some 30 points, and has its rows packed beside the others'.
_PART_LEAST, _APART = 100, 2.0


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
    error = np.zeros(rows.size)
    used = nonzero(weights)
    if used.size == 0 or rows.size == 0:
        return np.zeros(rows.size), error
    # A power of two: weights between 0 and 1 keep all their digits in float32.
    scale = 2.0 ** np.ceil(np.log2(np.abs(weights[used]).max()))
    scaled = np.zeros(weights.size)
    scaled[used] = weights[used] / scale * bound.corrections(used)
    here = strips is not None and strips.cover(used, rows) and not np.any(weights[rows])
    parts = [used] if here else by_distance(used, bound)
    single = strips if strips is not None and here else packing_nothing(gram)
    outs = sides(single.accumulate_groups, parts, None, scaled, rows)
    above, below = outs[::2], outs[1::2]
    product = (above - below).sum(axis=0)
    for part, far in zip(parts, above + below, strict=True):
        error += far * bound.relative(rows, part)
    factor = scale * bound.corrections(rows)
    product *= factor
    error = error * factor + bound.absolute(float(np.abs(weights).sum()), scale, used.size)
    error[~np.isfinite(product)] = np.inf  # weights too large for float32
    return product, error


def sides(
    add: AddGroups,
    parts: Sequence[NDArray[np.intp]],
    points: NDArray[np.intp] | None,
    delta: NDArray[np.float64],
    rows: NDArray[np.intp],
) -> NDArray[np.float64]:
    """``K[rows, points] @ |delta|`` over the points with positive and with negative delta of each part, two rows each.

    Parameters
    ----------
    add : callable
        ``accumulate_groups`` of what makes (or has) the entries.
    parts : sequence of ndarray of intp
        Places among the points and in delta.
    points : ndarray of intp or None
        None for all points of the matrix.
    delta : ndarray
        Weights of the points.
    rows : ndarray of intp
        The components.
    """
    groups, outs = [], np.zeros((2 * len(parts), rows.size))
    for part in parts:
        weights = delta[part]
        for side in (part[np.flatnonzero(weights > 0.0)], part[np.flatnonzero(weights < 0.0)]):
            groups.append((side if points is None else points[side], np.abs(delta[side])))
    add(list(outs), groups, rows)
    return outs


def packing_nothing(gram: FusedGram) -> FusedGram:
    """The matrix for one product: nothing is counted as a solver's entries, and columns are packed piece by piece."""
    single = gram.separate()
    single.budget = 0
    return single


def by_distance(used: NDArray[np.intp], bound: EntryError) -> list[NDArray[np.intp]]:
    """Points apart from those whose entries are off by far less: the ones further from the centre."""
    off = bound.off[used]
    ends = [0]
    for share in _PARTS:
        end = int(share * off.size) if share < 1.0 else off.size
        if end - ends[-1] >= _PART_LEAST or share == 1.0:
            ends.append(end)
    ordered = np.partition(off, [end - 1 for end in ends[1:]])  # at these places as if they were sorted
    # From the far end inwards, those are joined that are alike.
    most = [float(ordered[-1])]
    for end in ends[-2:0:-1]:
        if most[0] >= _APART * ordered[end - 1]:
            most.insert(0, float(ordered[end - 1]))
    return [used[np.flatnonzero((off > less) & (off <= more))] for less, more in pairwise([-1.0, *most]) if more > less]
