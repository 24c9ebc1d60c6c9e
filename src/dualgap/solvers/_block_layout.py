"""How variables lie side by side: the scales that make groups plain sums, active sets, and blocks of whole strides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from dualgap.constraints import Groups
from dualgap.solvers._block_vector import STRIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.entries import Entries
    from dualgap.problem import DualQP


@dataclass(frozen=True)
class Local:
    """The active variables side by side."""

    gradient: NDArray[np.float64]
    u: NDArray[np.float64]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    group: NDArray[np.int64]

    @property
    def arrays(self) -> tuple[Any, ...]:
        """As the compiled functions take them."""
        return self.gradient, self.u, self.lo, self.hi, self.group


@dataclass(frozen=True)
class Block:
    """A working set in the order of `_block_pairs`: groups on whole strides of vectors.

    Row i of its matrix is ``matrix[slot[i]]``, there from the start or made by the `maker` when it is needed.
    """

    places: NDArray[np.intp]
    filling: NDArray[np.bool_]
    segments: NDArray[np.int64]
    matrix: NDArray[Any]
    slot: NDArray[np.int64]
    diagonal: NDArray[Any]
    maker: tuple[Any, ...] = ()

    def rows(self, which: NDArray[np.intp]) -> NDArray[np.int64]:
        """Where in `matrix` the rows of these places are, which have moved."""
        return self.slot[which]

    @property
    def made(self) -> int:
        """Rows that the maker has made."""
        return int(np.count_nonzero(self.slot >= 0)) if self.maker else 0

    @property
    def at(self) -> NDArray[np.intp]:
        """Where each variable of the active set lies, in a block that holds them all."""
        held = np.flatnonzero(~self.filling)
        return held[np.argsort(self.places[held])]


def block_on_demand(
    entries: Entries,
    points: NDArray[np.intp],
    diagonal: NDArray[np.float64],
    active: NDArray[np.intp],
    chosen: NDArray[np.intp],
    local: Local,
    n_groups: int,
    square: Callable[[int], NDArray[Any]],
    *,
    lasting: bool,
) -> Block | None:
    """A block whose rows are made as steps need them; None where it is better made at once.

    Parameters
    ----------
    entries : Entries
        What makes the kernel's entries.
    points, diagonal : ndarray
        The point of each variable of the problem, and the diagonal of H.
    active, chosen : ndarray of intp
        Variables of the problem, and the places of the block's among them.
    local : Local
        The active variables.
    n_groups : int
        Groups of the constraints.
    square : callable
        Memory for so many rows and columns.
    lasting : bool
        Whether the block keeps what its rows are made of.
    """
    places, filling, segments = arrange(chosen, local.group, n_groups)
    variables = active[places]
    maker = entries.row_maker(points[variables], lasting=lasting)
    if maker is None:
        return None
    slot, own = np.full(places.size, -1, dtype=np.int64), diagonal[variables].astype(entries.dtype)
    return Block(places, filling, segments, square(places.size), slot, own, maker)


def arrange(
    chosen: NDArray[np.intp], group: NDArray[np.int64], n_groups: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.int64]]:
    """Sort the chosen by group, then by number (memory likes it); fill each group up to whole strides with its last."""
    places, filling, segments = _arranged(np.sort(chosen), group, n_groups)
    return places, filling, segments


@nb.njit(cache=True, nogil=True)
def _arranged(chosen, group, n_groups):  # type: ignore[no-untyped-def]
    counts, segments = np.zeros(n_groups + 1, dtype=np.int64), np.zeros(n_groups + 2, dtype=np.int64)
    for i in range(chosen.size):
        counts[group[chosen[i]] + 1] += 1
    for g in range(n_groups + 1):
        segments[g + 1] = segments[g] + (counts[g] + STRIDE - 1) // STRIDE * STRIDE
    places, filling = np.zeros(segments[-1], dtype=np.intp), np.ones(segments[-1], dtype=np.bool_)
    at = segments[:-1].copy()
    for i in range(chosen.size):
        g = group[chosen[i]] + 1
        places[at[g]], filling[at[g]] = chosen[i], False
        at[g] += 1
    for g in range(n_groups + 1):
        if counts[g]:
            places[at[g] : segments[g + 1]] = places[at[g] - 1]
    return places, filling, segments


@nb.njit(cache=True, nogil=True)
def gathered(gradient, u, lo, hi, group, middle, places, filling, slope):  # type: ignore[no-untyped-def]
    """Values and bounds of a block's variables; their slopes, measured from their groups' thresholds, go to `slope`.

    Places that only fill a stride up cannot move.
    """
    q = places.size
    ours, least, most = np.empty(q), np.empty(q), np.empty(q)
    for p in range(q):
        i = places[p]
        slope[p] = gradient[i] - middle[group[i] + 1]
        ours[p] = u[i]
        least[p], most[p] = (u[i], u[i]) if filling[p] else (lo[i], hi[i])
    return ours, least, most


def no_groups(problem: DualQP) -> Groups:
    """Every variable on its own: constraints that are coupled are left to `_block_coupling`."""
    n, k = problem.n, problem.k
    return Groups(np.full(n, -1, dtype=np.int64), np.zeros(n), np.zeros(0), np.zeros((0, k)))


def orient(scale: NDArray[np.float64], sign: NDArray[np.float64], group: NDArray[np.int64]) -> NDArray[np.float64]:
    """Scales ``u = scale a`` that make each group a plain sum, a group's sign chosen such that most have u = sign a."""
    return _oriented(scale, sign, group)  # type: ignore[no-any-return]


@nb.njit(cache=True, nogil=True)
def _oriented(scale, sign, group):  # type: ignore[no-untyped-def]
    along = np.zeros(group.max() + 2)
    for i in range(group.size):
        along[group[i] + 1] += np.sign(scale[i]) * sign[i]
    oriented = np.empty(group.size)
    for i in range(group.size):
        g = group[i]
        oriented[i] = sign[i] if g < 0 else scale[i] if along[g + 1] >= 0.0 else -scale[i]
    return oriented


@nb.njit(cache=True, nogil=True)
def in_scale(scale, sign, lo, hi, ridge, f0, index, diagonal):  # type: ignore[no-untyped-def]
    """Signs, box, ridges, linear term and diagonal of H of a problem in the variables ``u = scale a``, a row each."""
    found = np.empty((6, scale.size))  # one array: Numba takes two microseconds to hand over each
    signs, low, high, ridges, linear, own = found[0], found[1], found[2], found[3], found[4], found[5]
    for i in range(scale.size):
        one, other = lo[i] * scale[i], hi[i] * scale[i]
        low[i], high[i] = min(one, other), max(one, other)
        signs[i] = sign[i] / scale[i]
        ridges[i] = ridge[i] / (scale[i] * scale[i])
        linear[i] = f0[i] / scale[i]
        own[i] = diagonal[index[i]] * (signs[i] * signs[i]) + ridges[i]
    return found
