"""Products with a kernel matrix that is never stored: tiles are made, multiplied and dropped.

Prediction, gradient updates and the exact gradient of a certificate are all ``out += K(rows, columns) @ weights``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.functions import Kernel, tile
from dualgap.kernels.threads import one_blas_thread, share, thread_count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.points import Points

# A tile of 256 x 1024 float64 entries is 2 MB: it stays in a core's second-level cache between the product, the
# formula and the contraction, and is large enough for BLAS and for Python's overhead of some 30 microseconds.
TILE_ROWS, TILE_COLUMNS = 256, 1024
# Rows of a linear kernel handled at a time: 4096 rows of 1000 features are 32 MB of float64.
_LINEAR_ROWS = 4096
# Below this many entries starting threads costs more than they bring (about 0.2 ms against 1 ns an entry).
_WORTH_THREADS = 500_000


def contract(
    kernel: Kernel,
    rows: Points,
    columns: Points,
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
    *,
    exact: bool = False,
    n_jobs: int | None = None,
) -> None:
    """``out += K(rows, columns) @ weights``, summed in float64.

    Parameters
    ----------
    kernel, rows, columns
        What the matrix is made of.
    weights : ndarray, shape (columns.n,) or (columns.n, t)
        Coefficients; several columns share the kernel entries.
    out : ndarray of float64, shape (rows.n,) or (rows.n, t)
        Added to in place.
    exact : bool
        Entries in float64 whatever the data's dtype.
    n_jobs : int or None
        Threads; None means all cores.
    """
    if kernel.name == "linear":
        _linear(rows, columns, weights, out, exact)
        return

    def one(start: int) -> None:
        strip = _take(rows, slice(start, start + TILE_ROWS), exact)
        for begin in range(0, columns.n, TILE_COLUMNS):
            part = _take(columns, slice(begin, begin + TILE_COLUMNS), exact)
            block = tile(kernel, strip, part)
            # float32 entries are summed in float64: 1024 of them in float32 would leave three digits.
            block = block.astype(np.float64, copy=False)
            out[start : start + TILE_ROWS] += block @ weights[begin : begin + part.n]

    worth = rows.n * columns.n >= _WORTH_THREADS
    each(one, range(0, rows.n, TILE_ROWS), thread_count(n_jobs) if worth else 1)


def _linear(rows: Points, columns: Points, weights: NDArray[np.float64], out: NDArray[np.float64], exact: bool) -> None:
    """``rows @ (columns' weights)``: O((n + m) d) in place of O(n m d); float64 a bounded number of rows at a time."""
    w = np.zeros((columns.data.shape[1], *weights.shape[1:]))
    for start in range(0, columns.n, _LINEAR_ROWS):
        part = _take(columns, slice(start, start + _LINEAR_ROWS), exact)
        w += part.data.T @ weights[start : start + _LINEAR_ROWS]
    for start in range(0, rows.n, _LINEAR_ROWS):
        out[start : start + _LINEAR_ROWS] += _take(rows, slice(start, start + _LINEAR_ROWS), exact).data @ w


def _take(points: Points, rows: slice, exact: bool) -> Points:
    return points.exact(rows) if exact else points.take(rows)


def each(task: Callable[[int], None], starts: range, threads: int) -> None:
    """Run `task` for every start on `threads` threads, BLAS taking one: a tile is too small to be shared by its own."""
    with one_blas_thread():
        share(lambda piece: task(starts[piece]), len(starts), threads)


def full_matrix(kernel: Kernel, points: Points, out: NDArray[Any], n_jobs: int | None = None) -> None:
    """Fill `out` with K(points, points) in its own dtype, made symmetric, diagonal left to the caller."""

    def one(start: int) -> None:
        stop = min(start + TILE_ROWS, points.n)
        block = tile(kernel, points.take(slice(start, stop)), points.take(slice(start, points.n)))
        out[start:stop, start:] = block
        out[start:, start:stop] = block.T

    each(one, range(0, points.n, TILE_ROWS), thread_count(n_jobs) if points.n**2 >= _WORTH_THREADS else 1)
