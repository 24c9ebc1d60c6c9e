"""A start from clusters: neighbours in parts of some thousand, each part a problem of its own.

A kernel that falls off with the distance couples neighbours most. Where H is taken to be zero between parts, each part
keeps its share of the sums of the groups and can be solved alone (`_block_parts`). Together their solutions are a
feasible point of the whole problem. Where many variables end at a bound, most of these are there already (covtype: 88
to 98 %), and what is left is to move the others. Parts are solved coarsely, because neighbours in other parts will move
what they find.

Clusters are those around points in the middle of them (medoids), which are found in a sample by Lloyd's iteration, with
the distance that the entries of kernels of the form ``2^-distance`` give. One too large is divided at random.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numba as nb
import numpy as np

from dualgap.solvers._block_parts import Parts, filling
from dualgap.solvers._block_select import thresholds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dualgap.kernels.entries import Entries
    from dualgap.solvers._block_layout import Local

# Rows of a part at most (a square of them takes 26 MB; the C library keeps up to 32 for the next run), and parts below
# which all variables are as soon solved together.
_PART, _PARTS_LEAST = 2560, 4
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
        low, high, violation = thresholds(*local.arrays, n_groups)
        self._middle, self.violation = 0.5 * (low + high), float(violation)
        self._goal = _SHARE * self.violation
        # There is a square of rows for each thread, all of them in half of what is divided.
        rows = min(_PART, int(entries.largest_block() / np.sqrt(entries.threads)), entries.most_on_demand())
        self._most = rows - filling(n_groups)
        self.parts: list[NDArray[np.intp]] = []

    def worth(self) -> bool:
        """Whether this start pays: enough variables, rows on demand, and many variables that move in a small sample."""
        n = self._points.size
        if self._most < _PROBE or n < _PARTS_LEAST * self._most:
            return False
        some = np.sort(self._generator.choice(n, _PROBE, replace=False))
        before = self._local.u[some]
        moves = self._solver(1, _PROBE).solve(np.arange(n), [some], self._local, self._middle, self._goal)
        self._local.u[some] = before
        return moves.places.size >= _WORTH * some.size

    def divide(self) -> None:
        """Find the parts."""
        n = self._points.size
        medoids = self._medoids(min(-(-n // _MEAN), _MOST_CLUSTERS))
        nearest = np.empty(n, dtype=np.intp)
        for begin in range(0, n, _AT_A_TIME):
            here = slice(begin, begin + _AT_A_TIME)
            nearest[here] = _largest(self._entries.matrix(medoids, self._points[here]))
        for cluster in range(medoids.size):
            members = self._generator.permutation(np.flatnonzero(nearest == cluster))
            pieces = -(-members.size // self._most)  # none of a cluster whose middle is that of another, too
            self.parts += [np.sort(piece) for piece in np.array_split(members, pieces)] if pieces else []
        self.parts.sort(key=lambda part: -part.size)  # the largest should not be what is left at the end

    def _medoids(self, count: int) -> NDArray[np.intp]:
        """Points in the middle of so many clusters, found in a sample."""
        n = self._points.size
        sample = self._points[self._generator.choice(n, min(n, _SAMPLED * count), replace=False)]
        near = self._entries.matrix(sample, sample)
        np.log(near, out=near)  # the distance, less than nothing
        middle = np.arange(count)  # the sample is in random order
        for _ in range(_ROUNDS):
            nearest = _largest(near[middle])
            nearest[middle] = np.arange(count)  # a point that is there twice
            before, middle = middle, _middles(near, nearest, count)
            if np.array_equal(middle, before):
                break
        return sample[middle]

    def solve(self) -> Iterator[int]:
        """Solve the parts, some at a time; yields the pair steps that these took, so that limits can be looked at."""
        solver = self._solver(self._entries.threads, self.parts[0].size)
        everything = np.arange(self._points.size)
        some = _PARTS_EACH * self._entries.threads
        for first in range(0, len(self.parts), some):
            parts = self.parts[first : first + some]
            yield solver.solve(everything, parts, self._local, self._middle, self._goal).steps

    def _solver(self, threads: int, largest: int) -> Parts:
        """What solves parts of so many variables at most."""
        # No more than that: the C library keeps memory of up to 32 MB for the next run, and fresh pages are dear.
        rows = largest + filling(self._n_groups)
        rooms = [self._entries.room(rows**2) for _ in range(threads)]
        return Parts(self._entries, self._points, self._diagonal, self._n_groups, rooms)


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


@nb.njit(cache=True, nogil=True)
def _middles(near, cluster, count):  # type: ignore[no-untyped-def]
    """Of every cluster the first point that is nearest to all of it: the largest sum of `near`, which is symmetric."""
    order, ends = np.argsort(cluster, kind="mergesort"), np.zeros(count + 1, dtype=np.int64)
    for c in cluster:
        ends[c + 1] += 1
    ends = np.cumsum(ends)
    middle = np.empty(count, dtype=np.int64)
    for c in range(count):
        members, best = order[ends[c] : ends[c + 1]], -np.inf
        for i in members:
            total = 0.0
            for j in members:
                total += near[i, j]
            if total > best:
                best, middle[c] = total, i
    return middle
