"""Random pivots with probability proportional to what is left of the diagonal, a block at a time.

Randomly pivoted Cholesky (Chen, Epperly, Tropp and Webber) draws one pivot, adds its column and draws again. The
accelerated form (Epperly, Tropp and Webber, "Embrace rejection") draws a block of proposals from the diagonal as it
is, walks through them, and accepts each with the ratio of its residual by then to the one it was drawn with. That is
rejection sampling: the accepted pivots have exactly the distribution of the sequential method, and their columns are
made together by matrix products.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels._lowrank_factor import Factor

# Proposals a block, where not said: an eighth of the rank keeps rejections few, and beyond 128 the matrix products do
# not get faster.
_SHARE, _LEAST, _MOST = 8, 8, 128


def grow_by_random_pivots(
    factor: Factor, rank: int, trace_tol: float, block: int | None, rng: np.random.Generator
) -> None:
    """Extend the factor until it has `rank` columns, or the relative error is small, or nothing is left."""
    size = max(_LEAST, min(_MOST, -(-rank // _SHARE))) if block is None else block
    goal = trace_tol * float(factor.diagonal.sum())
    while factor.rank < rank and not factor.error <= goal:
        chances = np.where(factor.residual > factor.floor, factor.residual, 0.0)
        total = chances.sum()
        if total <= 0.0:
            return
        proposals = rng.choice(len(chances), size, p=chances / total)
        pivots, triangle = _accepted(factor, proposals, rank - factor.rank, rng)
        if pivots.size:
            factor.extend(pivots, triangle)


def _accepted(
    factor: Factor, proposals: NDArray[np.intp], most: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """The proposals that are accepted, in order, and their rows of the Cholesky factor of K[basis, basis]."""
    before = factor.rows(proposals)
    H = factor.between(proposals) - before @ before.T
    drawn_with = factor.residual[proposals] * rng.random(len(proposals))
    corner = np.zeros_like(H)
    own = np.diag(H).copy()
    taken: list[int] = []
    for i, point in enumerate(proposals):
        if own[i] <= max(drawn_with[i], factor.floor[point]) or len(taken) == most:
            continue
        j = len(taken)
        column = (H[:, i] - corner[:, :j] @ corner[i, :j]) / np.sqrt(own[i])
        corner[:, j] = column
        own -= column * column
        taken.append(i)
    triangle = np.tril(corner[np.ix_(taken, range(len(taken)))])
    return proposals[taken], np.hstack([before[taken], triangle])
