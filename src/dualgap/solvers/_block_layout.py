"""How variables lie side by side: the scales that make groups plain sums, active sets, and blocks of whole strides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
    parts, segments = [], [0]
    for g in range(-1, n_groups):
        members = np.sort(chosen[group[chosen] == g])
        parts.append(members)
        segments.append(segments[-1] + -(-members.size // STRIDE) * STRIDE)
    places, filling = np.zeros(segments[-1], dtype=np.intp), np.ones(segments[-1], dtype=bool)
    for members, begin, end in zip(parts, segments[:-1], segments[1:], strict=True):
        if members.size:
            places[begin:end] = members[-1]
            places[begin : begin + members.size] = members
            filling[begin : begin + members.size] = False
    return places, filling, np.array(segments)


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
