"""Parts of the variables that are solved side by side, each as if all others stood still.

A part P changes its own variables alone, and its own sums of the groups not at all::

    min_d  1/2 d'H_PP d + g_P'd    u_P + d in the box, sum of d over each group 0            for every part P

so that what they change together is feasible whatever the others do. Parts need nothing of one another: threads take
them in any order and the result does not depend on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.threads import share
from dualgap.solvers._block_layout import Local, block_on_demand, gathered
from dualgap.solvers._block_leap import STEPS_EACH, leaping_steps
from dualgap.solvers._block_vector import STRIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.entries import Entries


@dataclass(frozen=True)
class Moves:
    """What parts have changed.

    Attributes
    ----------
    places : ndarray of intp
        Variables that moved, in order.
    delta : ndarray
        How far.
    steps : int
        Pair steps that were taken.
    work : int
        Variables whose slopes these have changed.
    """

    places: NDArray[np.intp]
    delta: NDArray[np.float64]
    steps: int
    work: int


@dataclass(frozen=True)
class Parts:
    """What parts are solved with.

    Attributes
    ----------
    entries : Entries
        What makes the kernel's entries, by rows on demand.
    points, diagonal : ndarray
        The point of each variable, and the diagonal of H.
    n_groups : int
        Groups of the constraints.
    rooms : list of ndarray
        Memory for the rows of a part; so many are solved at the same time.
    """

    entries: Entries
    points: NDArray[np.intp]
    diagonal: NDArray[np.float64]
    n_groups: int
    rooms: list[NDArray[Any]]

    def solve(
        self,
        active: NDArray[np.intp],
        parts: Sequence[NDArray[np.intp]],
        local: Local,
        middle: NDArray[np.float64],
        goal: float,
    ) -> Moves:
        """Lower the violation within each part to `goal`; the values of `local` are changed.

        Parameters
        ----------
        active : ndarray of intp
            Variables of the problem, whose values are `local`.
        parts : sequence of ndarray of intp
            Places in `active`, each in one part at most.
        local : Local
            Values, slopes and bounds.
        middle : ndarray
            Thresholds of the groups, from which slopes are measured.
        goal : float
            The violation.
        """
        found: list[tuple[Any, ...]] = [()] * len(parts)

        def solve(number: int) -> None:
            room = self.rooms.pop()
            found[number] = self._solution(active, parts[number], local, middle, goal, room)
            self.rooms.append(room)

        share(solve, len(parts), len(self.rooms))
        places, values, delta, steps, made = zip(*found, strict=True)
        self.entries.count(sum(made))
        moved = np.concatenate(places)
        local.u[moved] = np.concatenate(values)
        order = np.argsort(moved)
        work = sum(taken * part.size for taken, part in zip(steps, parts, strict=True))
        return Moves(moved[order], np.concatenate(delta)[order], sum(steps), work)

    def _solution(
        self,
        active: NDArray[np.intp],
        part: NDArray[np.intp],
        local: Local,
        middle: NDArray[np.float64],
        goal: float,
        room: NDArray[Any],
    ) -> tuple[Any, ...]:
        """Places that moved, their values and how far they went, the steps to them, and the entries made for these."""
        block = block_on_demand(
            self.entries, self.points, self.diagonal, active, part, local, self.n_groups,
            lambda q: room[: q * q].reshape(q, q), lasting=False,
        )  # fmt: skip
        assert block is not None  # parts are small enough
        places = block.places
        slope = np.empty(places.size, dtype=self.entries.dtype)
        u, lo, hi = gathered(*local.arrays, middle, places, block.filling, slope)
        before = u.copy()
        rows = block.matrix, block.slot, block.diagonal, block.maker
        steps = leaping_steps(rows, slope, u, lo, hi, block.segments, goal, STEPS_EACH * places.size)
        moved = np.flatnonzero(u != before)
        return places[moved], u[moved], u[moved] - before[moved], steps, block.made * places.size


def filling(n_groups: int) -> int:
    """Places of a part that only fill strides up, at most: each group begins on a whole one."""
    return STRIDE * (n_groups + 1)
