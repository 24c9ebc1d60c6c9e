"""How variables lie side by side: the scales that make groups plain sums, active sets, and blocks of whole strides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from dualgap.constraints import Groups
from dualgap.solvers._block_vector import STRIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    """A working set in the order of `_block_pairs`: groups on whole strides of vectors."""

    places: NDArray[np.intp]
    filling: NDArray[np.bool_]
    segments: NDArray[np.int64]
    matrix: NDArray[Any]

    def rows(self, which: NDArray[np.intp]) -> NDArray[np.intp]:
        """Where in `matrix` the rows of these places are."""
        return which

    @property
    def at(self) -> NDArray[np.intp]:
        """Where each variable of the active set lies, in a block that holds them all."""
        held = np.flatnonzero(~self.filling)
        return held[np.argsort(self.places[held])]


def arrange(
    chosen: NDArray[np.intp], group: NDArray[np.int64], n_groups: int
) -> tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[np.int64]]:
    """Sort the chosen by group, then by number (memory likes it); fill each group up to whole strides with its last."""
    places, filling, segments = _lay_out(np.sort(chosen), group, n_groups)
    return places, filling, segments


@nb.njit(cache=True, nogil=True)
def _lay_out(ordered, group, n_groups):  # type: ignore[no-untyped-def]
    """The work of `arrange` for numbers that are sorted."""
    room = ordered.size + (n_groups + 1) * STRIDE
    places, filling = np.empty(room, dtype=np.intp), np.empty(room, dtype=np.bool_)
    segments = np.zeros(n_groups + 2, dtype=np.int64)
    count = 0
    for g in range(-1, n_groups):
        begin = count
        for k in range(ordered.size):
            places[count], filling[count] = ordered[k], False
            count += group[ordered[k]] == g
        while (count - begin) % STRIDE:
            places[count], filling[count] = places[count - 1], True
            count += 1
        segments[g + 2] = count
    return places[:count], filling[:count], segments


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
    oriented = np.where(group < 0, sign, scale)
    for g in range(int(group.max(initial=-1)) + 1):
        members = group == g
        if np.sum(np.sign(scale[members]) * sign[members]) < 0.0:
            oriented[members] *= -1.0
    return oriented
