"""The matrix of Newton's system over the features, kept from step to step.

With ``z_i = (sign_i x_i, F_i)``, the row and the constraints of variable i, and J the variables that are free now::

    M = I + scale * G,    G = sum over i in J of u_i z_i z_i'

From one step to the next few variables become free or cease to be, and G changes by their terms alone. The weights u
are 1 where all variables have the same (scale is then that weight, and may change at no cost), else they are given.

Adding and subtracting leaves the rounding of the largest G there was. It is made anew before that could be seen beside
the identity, and where more than half of its terms have changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.kernels.threads import share_parts
from dualgap.solvers._newton_system import weighted_cross
from dualgap.solvers._newton_terms import changes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.factor import Factor
    from dualgap.problem import DualQP

# Rounding of the kept sums, beside the identity, from which they are made anew.
_VISIBLE = 1e-6
# Sums of more changed terms than this share of all are made anew.
_CHANGED = 0.5
# Variables in a part of a pass.
_PART = 1 << 17


class KeptCross:
    """G of the free variables.

    Parameters
    ----------
    factor : Factor
        A.
    problem : DualQP
        Which row, sign and constraints each variable has.
    threads : int
        Threads for passes over the variables.
    """

    def __init__(self, factor: Factor, problem: DualQP, threads: int) -> None:
        self.factor, self.problem, self.threads = factor, problem, threads
        self.inside = np.zeros(problem.n, dtype=np.bool_)
        self.entering = self.leaving = np.empty(0, dtype=np.intp)
        self.free = 0  # variables in J
        self.told = False  # whether what has changed is known
        self.largest = 0.0  # trace that G has had since it was made
        self.G: NDArray[np.float64] | None = None
        self._lists = np.empty((2, problem.n), dtype=np.intp)

    def compare(self, t: NDArray[np.float64]) -> int:
        """Find what has changed for answers t, unless `tell` has said it; how many terms G needs."""
        if not self.told:
            self._find(t)
        return self.free if self._anew() else self.entering.size + self.leaving.size

    def tell(self, turned: NDArray[np.intp], t: NDArray[np.float64]) -> None:
        """These are all that were free and are not now, and all that were not and are (and maybe others)."""
        p, was = self.problem, self.inside[turned]
        now = (t[turned] > p.lo[turned]) & (t[turned] < p.hi[turned])
        self.entering, self.leaving = turned[now & ~was], turned[was & ~now]
        self.free += self.entering.size - self.leaving.size
        self.told = True

    def _find(self, t: NDArray[np.float64]) -> None:
        p, (entering, leaving) = self.problem, self._lists
        counts = np.zeros((-(-p.n // _PART), 3), dtype=np.int64)

        def part(begin: int, end: int) -> None:
            changes(t, p.lo, p.hi, self.inside, begin, end, entering, leaving, counts[begin // _PART])

        share_parts(part, p.n, _PART, self.threads)
        starts = range(0, p.n, _PART)
        self.entering = _joined(entering, starts, counts[:, 0])
        self.leaving = _joined(leaving, starts, counts[:, 1])
        self.free = int(counts[:, 2].sum())

    def _anew(self) -> bool:
        return self.G is None or self.entering.size + self.leaving.size > _CHANGED * self.free

    def matrix(self, weights: NDArray[np.float64] | None, scale: float) -> NDArray[np.float64]:
        """G of the variables that `compare` has found to be free; `weights` are theirs where not all the same."""
        self.inside[self.entering] = True
        self.inside[self.leaving] = False
        if self._anew() or np.finfo(np.float64).eps * self.largest * scale > _VISIBLE:
            self.G = self._sum(np.flatnonzero(self.inside), weights)
            self.largest = float(np.trace(self.G))
        else:
            assert self.G is not None
            if self.entering.size:
                self.G += self._sum(self.entering, weights)
            if self.leaving.size:
                self.G -= self._sum(self.leaving, weights)
            self.largest = max(self.largest, float(np.trace(self.G)))
        self.told = False
        return self.G

    def forget(self) -> None:
        """The weights have changed: what was added up is of no use."""
        self.G = None

    def clear(self) -> None:
        """Begin anew, with no variable free."""
        self.inside[:] = False
        self.told, self.G = False, None

    def bend(self, g: NDArray[np.float64], scale: float) -> float | None:
        """``g'(M - I)g`` for weights g, with the matrix of the last step; None before there is one."""
        if self.G is None:
            return None
        return scale * float(g @ (self.G[: g.size, : g.size] @ g))

    def _sum(self, J: NDArray[np.intp], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        p = self.problem
        return weighted_cross(self.factor, p.index[J], p.sign[J], p.F[J], None if weights is None else weights[J])


def _joined(lists: NDArray[np.intp], starts: range, counts: NDArray[np.int64]) -> NDArray[np.intp]:
    """What the parts have listed, each from its own start on."""
    if len(starts) == 1:
        return lists[: counts[0]]
    return np.concatenate([lists[start : start + count] for start, count in zip(starts, counts, strict=True)])
