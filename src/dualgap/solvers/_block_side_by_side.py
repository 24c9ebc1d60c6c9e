"""Blocks side by side, where one does not hold the free variables.

Pair steps settle the variables of a block with one another. Where more are free than a block holds, blocks in turn undo
one another's work, and the number of times each variable moves grows. Several blocks that together hold the free
variables, from different slices of the data (`_block_slices`), are therefore solved at the same time, each as if the
others stood still (`_block_parts`). What they do together is one move for the gradients of all others.

Afterwards every block has thresholds of its own. A block of the worst violators of all of them brings these together,
so that blocks side by side and a single one take turns. (Single ones only where the violation has not fallen to 0.6 or
0.8 of what it was: within 5 %; never: 10 to 50 % slower.)

The objective along the way that they go together is ``down t + bend t^2 / 2``, least at ``t = -down / bend``. Blocks
that have nothing to do with one another have theirs at t >= 1 (beyond 1 where variables stop at bounds). Those that
work against one another have gone too far, and half as many are solved side by side from there on: two as long as they
do not raise the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.solvers._block_parts import Parts, filling
from dualgap.solvers._block_slices import Slices

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.entries import Entries
    from dualgap.problem import DualQP
    from dualgap.solvers._block_layout import Local
    from dualgap.solvers._block_parts import Moves

# They hold a tenth more than the free variables; at most so many, and none of fewer variables. (Covtype 50 000: three
# quarters of the blocks, 14 % less time; covtype 40 000, C=100, gamma=8, 7000 free: 74 blocks in place of 558, 0.75 s
# in place of 2.6.)
_FREE_AND_MORE, _MOST, _LEAST_SIZE = 1.1, 8, 1024
# The share of the way below which they work against one another, and that at which two of them raise the objective.
# (0.5, 0.85: within 7 %; more of them again where they have not for some time: within 8 %.)
_AGAINST, _RISES = 0.7, 0.5


class SideBySide:
    """Blocks of one run.

    Parameters
    ----------
    problem : DualQP
        What is solved.
    entries : Entries
        What makes the kernel's entries.
    diagonal : ndarray
        Of H.
    n_groups : int
        Groups of the constraints.
    size : int
        Variables of a block.
    seed : int
        Of what slices are found by.
    allowed : bool
        Whether there may be several at all.

    Attributes
    ----------
    most : int
        Blocks at the same time, at most.
    """

    def __init__(
        self,
        problem: DualQP,
        entries: Entries,
        diagonal: NDArray[np.float64],
        n_groups: int,
        size: int,
        seed: int,
        *,
        allowed: bool,
    ) -> None:
        self._problem, self._entries, self._diagonal = problem, entries, diagonal
        self._n_groups, self._size, self._seed = n_groups, size, seed
        possible = allowed and size >= _LEAST_SIZE and size + filling(n_groups) <= entries.most_on_demand()
        self.most = _MOST if possible else 1
        self._slices: Slices | None = None

    def count(self, local: Local) -> int:
        """How many blocks to solve at the same time: as many as hold the free variables."""
        if self.most == 1:
            return 1
        free = np.count_nonzero((local.u > local.lo) & (local.u < local.hi))
        return int(np.clip(np.ceil(_FREE_AND_MORE * free / self._size), 1, self.most))

    def solve(
        self,
        active: NDArray[np.intp],
        chosen: NDArray[np.intp],
        count: int,
        local: Local,
        middle: NDArray[np.float64],
        goal: float,
        room: Callable[[int], NDArray[Any]],
    ) -> Moves:
        """Lower the violation within each of so many blocks of the `chosen` places; see `Parts.solve` for the rest.

        ``room(number)`` is memory for the rows of one block; it is not kept, nor is the run that it belongs to.
        """
        problem = self._problem
        if self._slices is None:
            self._slices = Slices(self._entries, problem.index, problem.points, problem.gram.n, self._seed)
        parts = [chosen[part] for part in self._slices.cut(active[chosen], count)]
        # Rooms for those that are solved at the same time, within the memory of the largest block.
        rows = self._size + filling(self._n_groups)
        rooms = min(self._entries.threads, count, max(self._entries.largest_block() ** 2 // rows**2, 1))
        memory = [room(number) for number in range(rooms)]
        solver = Parts(self._entries, problem.index, self._diagonal, self._n_groups, memory)
        return solver.solve(active, parts, local, middle, goal)

    def learn(self, count: int, down: float, bend: float) -> None:
        """What so many blocks have done together: the objective's slope along their way, and its curvature."""
        if count > 1 and -down < (_AGAINST if count > 2 else _RISES) * bend:
            self.most = (count + 1) // 2
