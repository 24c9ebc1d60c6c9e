"""Cholesky factorisation of a dense matrix by tiles, shared among threads, with an answer to interrupts in between.

LAPACK's own routine is one call of seconds for some thousand rows, and with its own threads it takes a hundred times
as long while another process holds a core. Here one thread of BLAS works on each tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from scipy.linalg import blas, lapack

from dualgap.kernels.threads import share

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Columns factorised at a time, and rows and columns of a tile that is updated: 256 x 512 numbers are 1 MB, which
# stays in a core's second-level cache, and 30 milliseconds of BLAS pass at most between two looks at interrupts.
_PANEL, _TILE = 256, 512
# Up to this many rows LAPACK takes less than some 20 milliseconds on one core.
_AT_ONCE = 768


def nothing() -> None:
    """Nothing to do between two panels."""


def factorise(M: NDArray[np.float64], threads: int, between: Callable[[], None] = nothing) -> bool:
    """The factor L of ``M = LL'`` into the lower triangle of M (C order), the only one read; False if not definite.

    `between` is called before each panel, and may raise to break off.
    """
    n = M.shape[0]
    if n <= _AT_ONCE:
        return _corner(M)
    for start in range(0, n, _PANEL):
        stop = min(start + _PANEL, n)
        between()
        if not _corner(M[start:stop, start:stop]):
            return False
        if stop < n:
            _panel(M, start, stop, threads)
            _update(M, start, stop, threads)
    return True


def _corner(M: NDArray[np.float64]) -> bool:
    """LAPACK's factor of a small matrix; its column order makes our lower triangle an upper one."""
    factor, failed = lapack.dpotrf(M.T, lower=0, clean=0)
    M[...] = factor.T
    return not failed


def _panel(M: NDArray[np.float64], start: int, stop: int, threads: int) -> None:
    """Rows of L below a corner: ``L_i = M_i corner^-T``."""
    corner = M[start:stop, start:stop].T.copy(order="F")
    rows = M.shape[0] - stop

    def solve(piece: int) -> None:
        begin = stop + piece * _TILE
        part = M[begin : begin + _TILE, start:stop]
        part[...] = blas.dtrsm(1.0, corner, part.T, lower=0, trans_a=1).T

    share(solve, -(-rows // _TILE), threads)


def _update(M: NDArray[np.float64], start: int, stop: int, threads: int) -> None:
    """Take the panel's part off the lower triangle to its right, tile by tile."""
    edges = range(stop, M.shape[0], _TILE)
    tiles = [(i, j) for i in edges for j in edges if j <= i]

    def subtract(piece: int) -> None:
        i, j = tiles[piece]
        M[i : i + _TILE, j : j + _TILE] -= M[i : i + _TILE, start:stop] @ M[j : j + _TILE, start:stop].T

    share(subtract, len(tiles), threads)


def solve(L: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve ``LL' x = right`` for one right-hand side or the columns of several."""
    solved: NDArray[np.float64] = lapack.dpotrs(L.T, right, lower=0)[0]
    return solved
