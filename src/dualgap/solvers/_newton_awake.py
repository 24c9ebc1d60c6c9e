"""The variables whose answers are likely to change within a round of `newton`; all have the box [0, top] and no ridge.

Late rounds move slopes little, and most variables are far from changing their answer. Those whose slopes are further
from the kink than any slope moved in the round before are asleep: their rows are not read while the others are solved
for. What they add to sums is linear in w, with ``u`` the sum of their rows by their answers, and w0 the weights that
the round began with::

    sum over asleep of t_i s_i(w) = (the same at w0) + u'(w - w0)

In the end all wake up. Where one of them would have changed its answer, the round goes on with all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.factor import Factor
    from dualgap.problem import DualQP

# Variables from which it is worth it: a pass over fewer is a matter of microseconds.
_LEAST = 1 << 14
# Awake are at most this share of all: choosing them takes a pass or two, and rows here and there are slower to read.
_SHARE = 0.4


@dataclass(frozen=True, eq=False)
class Awake:
    """The awake variables of a round.

    Attributes
    ----------
    variables : ndarray of int
        Which they are.
    raw, s, t, sign, points : ndarray
        Their answers before they are clipped, slopes, answers, signs and rows of A.
    w : ndarray
        The centre w0.
    asleep : ndarray
        The sum u of the rows of the others.
    least : float
        The sum of ``t_i s_i`` over the others, at w0.
    """

    variables: NDArray[np.intp]
    raw: NDArray[np.float64]
    s: NDArray[np.float64]
    t: NDArray[np.float64]
    sign: NDArray[np.float64]
    points: NDArray[np.intp]
    w: NDArray[np.float64]
    asleep: NDArray[np.float64]
    least: float

    @property
    def state(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """What passes read and write."""
        return self.raw, self.s, self.t

    def least_of_others(self, w: NDArray[np.float64]) -> float:
        """The sum of ``t_i s_i`` over the others at these weights."""
        return self.least + float(self.asleep @ (w - self.w))


def awake(
    problem: DualQP,
    factor: Factor,
    state: tuple[NDArray[np.float64], ...],
    kappa: float,
    least: float,
    moved: float,
) -> Awake | None:
    """The variables that are awake where slopes move by no more than `moved`; None where it is not worth it.

    `state` are ``raw, s, t, w, v``, `least` the sum of the minima (see `_newton_terms.settle`) over all.
    """
    raw, s, t, w, v = state
    if problem.n < _LEAST or not moved < np.inf:
        return None
    top = float(problem.hi[0])
    reach = np.maximum(raw - top, -raw)
    reach *= kappa
    chosen = np.flatnonzero(reach <= moved)
    if chosen.size > _SHARE * problem.n:
        return None
    slopes, answers = s[chosen], t[chosen]
    sign, points = problem.sign[chosen], problem.index[chosen]
    asleep = v - factor.combined(answers, sign, points)
    rest = least - top * float(np.minimum(slopes, 0.0).sum())
    return Awake(chosen, raw[chosen], slopes, answers, sign, points, w, asleep, rest)
