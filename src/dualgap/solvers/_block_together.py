"""When the block solver moves its free variables together: the steps of `_block_face`, and what speaks for them.

Pair steps lower the violation by a digit at a price that shows; a Newton step on the face of the free variables costs a
factorisation. The face is taken where the free variables have settled and pair steps down to the goal are expected to
cost more, judged by counts and not by clocks, so that runs stay the same bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.solvers._block_face import Face, face_cost, face_end, make_face
from dualgap.solvers._block_select import thresholds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.solvers._block_layout import Local

    Matrix = Callable[[NDArray[np.intp], NDArray[np.intp]], NDArray[Any]]

# Free variables that are moved together, at most: a factorisation of half a second, 140 MB in float32.
_MOST = 6000
# Up to so many, where a factorisation takes a twentieth of a second, what it is expected to save is reason enough. More
# take one when pair steps have cost as much already: expectations are too high where blocks are about to arrive.
# (Seconds to a gap of 1e-6 with 2500 at most / with more by expectation / by what was spent: covtype 20 000, C=1e6 45 /
# 13 / 13, C=1e5 13 / 8 / 8, C=1e4 6.2 / 7.4 / 6.6; letter, C=10 0.25 / 0.58 / 0.25.)
_CHEAP = 2500
# They are moved where not more than this share of them has come or gone since the last block, and pair steps, which
# have lowered the (natural logarithm of the) violation by that much since, will cost more; where it did not work, much
# more.
_SETTLED, _GAINED, _LESS_OFTEN = 0.02, 0.3, 4.0


class Together:
    """The free variables of one run.

    Parameters
    ----------
    n, n_groups : int
        Variables and groups of constraints.
    most : int
        Variables whose matrix there is memory for.
    entry_cost : float
        Multiplications a kernel entry is made of.
    """

    def __init__(self, n: int, n_groups: int, most: int, entry_cost: float) -> None:
        self.n_groups, self.most, self.entry_cost = n_groups, min(_MOST, most), entry_cost
        self.face: Face | None = None
        self.patience = 1.0
        # What pair steps have cost since the free variables were last moved together, and the violation then.
        self.paired, self.paired_from = 0.0, np.inf
        # Whether slopes have been set right since, which pair steps have not followed.
        self.late = False
        self.was_free = np.zeros(n, dtype=bool)

    def overdue(self) -> None:
        """All free variables have to follow, a little: where a factor is cheap, pair steps are not asked."""
        self.late = True

    def move(
        self,
        active: NDArray[np.intp],
        local: Local,
        middle: NDArray[np.float64],
        violation: float,
        tol: float,
        matrix: Matrix,
    ) -> tuple[NDArray[np.intp], NDArray[np.float64]] | None:
        """Move the free variables of the active set where that costs less than pair steps, by what those have cost.

        ``matrix(rows, columns)`` is H between variables. Returns the places in the active set that moved and how far;
        None where it is the turn of pair steps.
        """
        free = (local.u > local.lo) & (local.u < local.hi)
        count, changed = int(np.count_nonzero(free)), int(np.count_nonzero(free != self.was_free[active]))
        self.was_free[active] = free
        if not 2 <= count <= self.most or changed > _SETTLED * count:
            self.begin(violation)
            return None
        if thresholds(*(values[free] for values in local.arrays), self.n_groups)[2] <= tol:
            return None  # what violates is at bounds
        variables = active[free]
        new = None if self.face is None else self.face.missing(variables)
        cost = face_cost(count, active.size, self.entry_cost, factored=new is not None)
        saved = self.pairs_ahead(violation, tol) if count <= _CHEAP else self.paired
        if saved < self.patience * cost:
            return None
        self.begin(violation)
        face, end = self.renewed(variables, new, matrix), None
        if face is not None:
            # One that is not active any more is at a bound, and stays there.
            places = np.minimum(np.searchsorted(active, face.variables), active.size - 1)
            held = active[places] == face.variables
            u, group = np.where(held, local.u[places], 0.0), np.where(held, local.group[places], -1)
            lo, hi = np.where(held, local.lo[places], 0.0), np.where(held, local.hi[places], 0.0)
            slope = np.where(held, local.gradient[places] - middle[group + 1], 0.0)
            end = face_end(face, slope, u, lo, hi, group, tol)
        if end is None:
            self.patience *= _LESS_OFTEN
            return None
        went = np.flatnonzero(end != u)
        local.u[places[went]] = end[went]
        return places[went], (end - u)[went]

    def begin(self, violation: float) -> None:
        """What pair steps cost is counted from here on."""
        self.paired, self.paired_from, self.late = 0.0, violation, False

    def pairs_ahead(self, violation: float, tol: float) -> float:
        """What pair steps will cost down to `tol`, if every digit costs what the last ones did."""
        if self.late:
            return np.inf
        gained = float(np.log(self.paired_from / violation))
        return self.paired if gained < _GAINED else self.paired * float(np.log(violation / tol) / gained)

    def renewed(self, free: NDArray[np.intp], new: NDArray[np.intp] | None, matrix: Matrix) -> Face | None:
        """The face of the free variables: the last one with the `new` ones, or where that is None another."""
        if self.face is None or new is None:
            self.face = None  # its memory may be used again
            self.face = make_face(free, matrix(free, free))
        elif new.size:
            self.face = self.face.grown(new, matrix(self.face.variables, new), matrix(new, new))
        return self.face
