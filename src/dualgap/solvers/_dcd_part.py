"""Coordinate descent on some variables of a larger problem: those whose rows are in memory, with the weights of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dualgap.kernels.linear_rows import CHUNK, margins, rows_of
from dualgap.solvers import _dcd_layout as at
from dualgap.solvers._dcd_items import Items
from dualgap.solvers._dcd_sweep import survey, sweep

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Projected gradients below this are rounding of sums of order one (LIBLINEAR's number).
_NO_STEP = 1e-12
# Passes between two leaps, and how many of their last ones are looked at: those of `dcd`.
_SERIES, _SHOTS = 6, 5


class Part:
    """The variables of the rows in memory.

    Parameters
    ----------
    problem : DualQP
        Over these rows alone, without equality constraints; its kernel has the factor.
    a : ndarray
        Their values.
    w : ndarray
        Weights of all variables, in memory or not; changed in place.
    lift : float
        The penalised constant times the signed sum of all variables; `lift` of this object is up to date.
    """

    def __init__(self, problem: DualQP, a: NDArray[np.float64], w: NDArray[np.float64], lift: float) -> None:
        self.problem, self.w = problem, w
        self.rows = rows_of(problem.gram.factor)
        self.constant = float(getattr(problem.gram, "constant", 0.0))
        self.items = Items(problem, np.empty(0))
        self.items.put(a)
        self.extra = np.array([lift])
        self.order = np.arange(self.items.count, dtype=np.int64)
        self.whole = np.zeros(at.WHOLE, dtype=np.int64)
        self.real = np.zeros(at.REAL)
        self.whole[at.ACTIVE] = self.items.count
        self.real[at.ASIDE_LOW] = self.real[at.ASIDE_HIGH] = np.inf

    @property
    def lift(self) -> float:
        """What the penalised constant adds to every margin."""
        return float(self.extra[0])

    def margins(self) -> NDArray[np.float64]:
        """Decision values of the rows."""
        return margins(self.rows, self.w) + self.lift

    def select(self, margin: NDArray[np.float64], low: float, high: float) -> tuple[float, float]:
        """Set aside who lies further inside than the strongest pulls elsewhere; returns the strongest pulls here."""
        items, slack = self.items, np.empty((2, self.items.count))
        none = np.empty(0)
        rising, falling, _ = survey(margin, items.point, items.table, items.group, items.scale, none, slack)
        active = np.flatnonzero(~((slack[0] > low) & (slack[1] > high)))
        self.whole[at.ACTIVE] = active.size
        self.order[: active.size] = active
        self.real[at.ASIDE_LOW], self.real[at.ASIDE_HIGH] = low, high
        return rising, falling

    def descend(
        self, passes: int, tol: float, random: NDArray[np.uint64], heartbeat: Callable[[], bool] = lambda: False
    ) -> bool:
        """Passes until one is within `tol`, at most so many; False where the heartbeat asks to stop in between."""
        items, none = self.items, np.empty(0)
        most = max(1, int(CHUNK * items.count / max(self.rows.entries, 1)))
        m, d = (items.count, self.rows.d) if passes > _SERIES else (0, 0)
        shots = (
            np.empty(m, dtype=np.int64), np.empty((_SHOTS, m)), np.empty((_SHOTS, d)), np.empty(m), np.empty(d)
        )  # fmt: skip
        while self.whole[at.ACTIVE] and self.whole[at.PASSES] < passes:
            finished = sweep(
                *self.rows.arrays, items.point, items.table, items.group, items.scale, self.w, self.extra, none,
                self.constant, none, self.order, most, passes, np.iinfo(np.int64).max, _SERIES if m else 0, tol,
                -1.0, at.PERMUTED, True, _NO_STEP, self.whole, self.real, random, *shots,
            )  # fmt: skip
            if heartbeat():
                return False
            if finished and self.real[at.WORST] <= tol:
                break
        return True

    def point_of_box(self) -> NDArray[np.float64]:
        """The variables."""
        return self.items.point_of_box()
