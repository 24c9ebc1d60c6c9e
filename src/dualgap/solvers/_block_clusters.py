"""A start from clusters: neighbours in parts of some thousand, each part a problem of its own.

A kernel that falls off with the distance couples neighbours most. Where H is taken to be zero between parts, each part
keeps its share of the sums of the groups and can be solved alone::

    min_u  1/2 u_P'H_PP u_P + f_P'u_P    over the box, sums over each group of P unchanged        for every part P

Together their solutions are a feasible point of the whole problem. Where many variables end at a bound, most of these
are there already (covtype: 88 to 98 %), and what is left is to move the others. Parts need nothing of one another, so
that threads take them in any order and the point does not depend on it; they are solved coarsely, because neighbours
in other parts will move what they find.

Clusters are those around points in the middle of them (medoids), which are found in a sample by Lloyd's iteration, with
the distance that the entries of kernels of the form ``2^-distance`` give. One too large is divided at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np

from dualgap.kernels.threads import share
from dualgap.solvers._block_layout import Local, block_on_demand, gathered
from dualgap.solvers._block_leap import STEPS_EACH, leaping_steps
from dualgap.solvers._block_select import thresholds
from dualgap.solvers._block_vector import STRIDE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dualgap.kernels.entries import Entries

# Variables of a part at most, and parts below which all variables are as soon solved together.
_PART, _PARTS_LEAST = 3072, 4
# A part is solved to this share of the violation there is at the start (0.25 is as good, 0.05 is worse).
_SHARE = 0.15
# Variables of a cluster on average (2048 or 3000: covtype 50 000 612 and 616 ms in place of 574), and clusters at most:
# their middles are found among so many points for each, whose distances then take 17 MB, in so many rounds at most.
_MEAN, _MOST_CLUSTERS, _SAMPLED, _ROUNDS = 1200, 64, 32, 10
# Points that find their cluster at a time.
_AT_A_TIME = 8192
# Variables drawn at random to find out whether many of them move, and the share from which on clusters pay: of covtype
# 0.6 move (a quarter less time), of mnist 0.47 (12 % more), of a9a 0.46 (hardly any), of ijcnn1 0.25 (up to 20 % more).
_PROBE, _WORTH = 1024, 0.55
# Parts a thread solves between two looks at limits and callbacks: some 15 milliseconds, at the end of which one thread
# waits for the other (with 4 parts, 7 of 44 milliseconds in all).
_PARTS_EACH = 8


class Clusters:
    """Parts of the variables that are solved alone.

    Parameters
    ----------
    entries : Entries
        What makes the kernel's entries.
    points : ndarray of intp
        The point of each variable.
    local : Local
        All variables at the start; `solve` writes to their `u`.
    diagonal : ndarray
        Of H.
    n_groups : int
        Groups of the constraints.
    seed : int
        Of what is drawn.

    Attributes
    ----------
    parts : list of ndarray of intp
        The variables of each part, in order.
    violation : float
        That of the start.
    """

    def __init__(
        self,
        entries: Entries,
        points: NDArray[np.intp],
        local: Local,
        diagonal: NDArray[np.float64],
        n_groups: int,
        seed: int,
    ) -> None:
        self._entries, self._points, self._local = entries, points, local
        self._diagonal, self._n_groups = diagonal, n_groups
        self._generator = np.random.default_rng(seed)
        self.violation = float(thresholds(*local.arrays, n_groups)[2])
        self._goal = _SHARE * self.violation
        # Groups begin on whole strides. There is a square of rows for each thread, all of them in half of the budget.
        filling = STRIDE * (n_groups + 1)
        rows = min(_PART, int(entries.largest_block() / np.sqrt(entries.threads)), entries.most_on_demand())
        self._size, self._most = rows**2, rows - filling
        self._rooms: list[NDArray[Any]] = []  # not in use at the moment
        self.parts: list[NDArray[np.intp]] = []

    def worth(self) -> bool:
        """Whether this start pays: enough variables, rows on demand, and many variables that move in a small sample."""
        n = self._points.size
        if self._most < _PROBE or n < _PARTS_LEAST * self._most:
            return False
        some = np.sort(self._generator.choice(n, _PROBE, replace=False))
        u, _, made = self._solution(some)
        self._entries.count(made)
        return bool(np.count_nonzero(u != self._local.u[some]) >= _WORTH * some.size)

    def divide(self) -> None:
        """Find the parts."""
        n = self._points.size
        medoids = self._medoids(min(-(-n // _MEAN), _MOST_CLUSTERS))
        nearest = np.empty(n, dtype=np.intp)
        for begin in range(0, n, _AT_A_TIME):
            here = slice(begin, begin + _AT_A_TIME)
            nearest[here] = _largest(self._entries_of(medoids, self._points[here]))
        for cluster in range(medoids.size):
            members = self._generator.permutation(np.flatnonzero(nearest == cluster))
            pieces = -(-members.size // self._most)  # none of a cluster whose middle is that of another, too
            self.parts += [np.sort(piece) for piece in np.array_split(members, pieces)] if pieces else []
        self.parts.sort(key=lambda part: -part.size)  # the largest should not be what is left at the end

    def _medoids(self, count: int) -> NDArray[np.intp]:
        """Points in the middle of so many clusters, found in a sample."""
        n = self._points.size
        sample = self._points[self._generator.choice(n, min(n, _SAMPLED * count), replace=False)]
        near = self._entries_of(sample, sample)
        np.log(near, out=near)  # the distance, less than nothing
        middle = np.arange(count)  # the sample is in random order
        for _ in range(_ROUNDS):
            nearest = _largest(near[middle])
            nearest[middle] = np.arange(count)  # a point that is there twice
            before = middle.copy()
            for cluster in range(count):
                members = np.flatnonzero(nearest == cluster)
                middle[cluster] = members[near[np.ix_(members, members)].sum(axis=0).argmax()]
            if np.array_equal(middle, before):
                break
        return sample[middle]

    def _entries_of(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[Any]:
        """Kernel entries between points."""
        entries = np.empty((rows.size, columns.size), dtype=self._entries.dtype)
        self._entries.block(rows, columns, entries, keep=False)
        return entries

    def solve(self) -> Iterator[int]:
        """Solve the parts, some at a time; yields the pair steps that these took, so that limits can be looked at."""
        some = _PARTS_EACH * self._entries.threads
        for first in range(0, len(self.parts), some):
            yield self._solve(self.parts[first : first + some])

    def _solve(self, parts: list[NDArray[np.intp]]) -> int:
        """Solve parts side by side; returns the pair steps taken."""
        steps, made = np.zeros(len(parts), dtype=np.int64), np.zeros(len(parts), dtype=np.int64)

        def solve(number: int) -> None:
            part = parts[number]
            self._local.u[part], steps[number], made[number] = self._solution(part)

        share(solve, len(parts), self._entries.threads)
        self._entries.count(int(made.sum()))
        return int(steps.sum())

    def _solution(self, part: NDArray[np.intp]) -> tuple[NDArray[np.float64], int, int]:
        """Values of variables that alone may move, the steps to them, and the kernel entries made for these."""
        local = Local(*(array[part] for array in self._local.arrays))
        low, high, _ = thresholds(*local.arrays, self._n_groups)
        room = self._room()
        block = block_on_demand(
            self._entries, self._points, self._diagonal, part, np.arange(part.size), local, self._n_groups,
            lambda q: room[: q * q].reshape(q, q), lasting=False,
        )  # fmt: skip
        assert block is not None  # parts are small enough
        q, places = block.places.size, block.places[~block.filling]
        slope = np.empty(q, dtype=self._entries.dtype)
        u, lo, hi = gathered(*local.arrays, 0.5 * (low + high), block.places, block.filling, slope)
        rows = block.matrix, block.slot, block.diagonal, block.maker
        steps = leaping_steps(rows, slope, u, lo, hi, block.segments, self._goal, STEPS_EACH * q)
        self._rooms.append(room)
        local.u[places] = u[~block.filling]
        return local.u, steps, block.made * q

    def _room(self) -> NDArray[Any]:
        """Memory for the rows of a part, that of one that has been solved where there is any.

        Another thread may take the last between a look and a grasp.
        """
        try:
            return self._rooms.pop()
        except IndexError:
            return self._entries.room(self._size)


@nb.njit(cache=True, nogil=True)
def _largest(values):  # type: ignore[no-untyped-def]
    """Of every column the first row with the largest value; NumPy takes five times as long."""
    best, which = np.full(values.shape[1], -np.inf, dtype=values.dtype), np.zeros(values.shape[1], dtype=np.int32)
    for r in range(values.shape[0]):
        row = values[r]
        for c in range(row.size):
            better = row[c] > best[c]
            best[c] = row[c] if better else best[c]
            which[c] = r if better else which[c]
    return which.astype(np.intp)
