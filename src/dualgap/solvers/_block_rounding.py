"""What rounded kernel entries have done to the block solver's slopes, by samples of exact ones.

The gradient is kept up to date by float32 entries, so its error grows with how far the variables have gone since it was
exact. Where that may be more than is asked for, a sample of the active set is computed in float64; slopes that rounding
has spoilt are computed anew before anybody, pair steps or certificate, relies on them. With a large C variables go so
far from one time to the next that rounding undoes what was gained: exact slopes then keep showing the same violation.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Rounding of a float32 entry, with some room. Where what it may have added up to is above what is asked for, it is
# looked at in a sample of the active set; others may be wrong by some times as much as the sample.
_ROUNDING, _SAMPLE, _MORE = 2e-7, 64, 3.0
# Slopes that are wrong by more than this share of their violation are computed anew, in float64.
NOISE_SHARE = 0.3
# Rounding is in the way where so many exact looks in a row have not found the violation below this share of the least.
# (covtype 20 000 with C=1e4 to a gap of 1e-3: over 60 s without, 15 with this, 16 with float64 entries throughout.)
_LOOKS, _FELL = 3, 0.5
# Rounding of n entries a row turns eigenvalues by about this times the root of n. Where the energy that this lets
# variables feign, half of it times their squares, is more than such a share of the objective, steps follow it as far as
# the box lets them. (Seconds to a gap of 1e-6 with float32 / float64 entries, and the share at the end: cpusmall C=100
# 0.47 / 0.67 at 0.004, C=1000 2.7 / 2.7 at 0.05, C=3000 35 / 4.9 at 0.15; cadata C=100 0.8 / 1.3 at 0.002, C=1000
# 10 / 7.1 at 0.025; covtype 20 000 C=1000 1.0 / 1.4 at 0.005, C=1e4 6.6 / 3.0 at 0.05; ijcnn1 C=1000 0.27 / 0.42 at
# 0.003, C=1e5 0.63 / 0.47 at 0.14.)
_TURNED, _FEIGNED = 1.2e-7, 0.02


class Rounding:
    """The error of one run's gradient.

    Parameters
    ----------
    problem : DualQP
        What is solved.
    scale, diagonal : ndarray, shape (n,)
        The solver's variables over the problem's, and the diagonal of H in them.
    single : bool
        Whether entries are rounded to float32 at all.
    """

    def __init__(
        self, problem: DualQP, scale: NDArray[np.float64], diagonal: NDArray[np.float64], *, single: bool
    ) -> None:
        self.problem, self.scale = problem, scale
        # Exact products of a few rows can be had by tiles; a user's function is not asked for them.
        tiles = getattr(problem.gram, "fused", None)
        self.exact: Callable[..., NDArray[np.float64]] | None = tiles.exact if single and tiles is not None else None
        # What the entries' rounding is relative to: how far variables have gone from where the gradient was exact.
        self.drift, self.rounding = 0.0, _ROUNDING
        # Whether slopes are exact at the moment, the least violation that such ones have shown, and looks since.
        self.looking, self.least, self.in_vain = False, np.inf, 0
        self.weight = np.sqrt(np.abs(diagonal) * float(np.abs(diagonal).max(initial=0.0)))

    def moved(self, variables: NDArray[np.intp], delta: NDArray[np.float64]) -> None:
        """Variables have gone so far, and the gradient has followed by rounded entries."""
        self.drift += float(np.abs(delta) @ self.weight[variables])

    def noise(
        self, active: NDArray[np.intp], u: NDArray[np.float64], gradient: NDArray[np.float64], asked: float
    ) -> float:
        """How far the slopes are from exact ones, by a sample; 0 where that is surely less than what is asked for."""
        if self.exact is None or self.rounding * self.drift <= asked:
            return 0.0
        sample = active[:: -(-active.size // _SAMPLE)]
        noise = float(np.abs(self.slopes(sample, u) - gradient[sample]).max())
        self.rounding = _MORE * noise / self.drift
        return noise if noise > NOISE_SHARE * asked else 0.0

    def refresh(self, active: NDArray[np.intp], u: NDArray[np.float64], gradient: NDArray[np.float64]) -> None:
        """Exact slopes for the active set: what is added to them from here on is small, and so is its rounding."""
        gradient[active] = self.slopes(active, u)
        self.drift, self.looking = 0.0, True

    def feigns(self, u: NDArray[np.float64], objective: float, quadratic: float) -> bool:
        """Whether steps may follow what rounding makes of H, not H; `quadratic` is ``u'Hu/2``, part of `objective`."""
        if self.exact is None:
            return False
        energy = 0.5 * _TURNED * sqrt(np.count_nonzero(u != 0.0)) * float((u * u) @ self.weight)
        return energy > _FEIGNED * max(abs(objective), abs(quadratic))

    def in_the_way(self, violation: float) -> bool:
        """Whether exact slopes keep showing the same violation; to be asked once for each violation that is found."""
        if not self.looking:
            return False
        self.in_vain = 0 if violation < _FELL * self.least else self.in_vain + 1
        self.looking, self.least = False, min(self.least, violation)
        return self.in_vain >= _LOOKS

    def slopes(self, variables: NDArray[np.intp], u: NDArray[np.float64]) -> NDArray[np.float64]:
        """The gradient of a few variables in float64."""
        assert self.exact is not None
        problem, a = self.problem, u / self.scale
        points, place = np.unique(problem.index[variables], return_inverse=True)
        product = self.exact(problem.on_points(a), points)[place]
        slopes = problem.sign[variables] * product + problem.ridge[variables] * a[variables] + problem.f0[variables]
        return np.asarray(slopes / self.scale[variables])
