"""Conjugate gradients on a face: the improved steps of `rosen` over a working set of variables.

A face is the set of points with the same variables at the same bounds. On it the paper's direction, minus the projected
gradient, is made conjugate to the last one. A step that would leave the box is bent: its end is projected onto the
box and the constraints, so that many variables reach their bounds at once, and it is taken where it descends further
than the step clipped at the first bound. Bounds are released together (see `_rosen_projection`) as soon as much more is
to be gained from that than from the face.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dualgap.solvers._rosen_step import FLAT, advance, cone, reach

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.solvers._rosen_projection import Constraints

# Bounds are released when the squared length of the direction on the face is this share of that with releases. Near one
# every step would release and conjugacy would be lost; on problems with C = 1e5 this takes a thousand times the steps.
_RELEASE = 0.1
# A bent step has to bring this share of what its slope promises, or is shortened, to a tenth at most and so often. Its
# end is taken as it is: the minimiser on the way there would leave variables ever closer to bounds, never on them.
_ENOUGH, _SHORTEN, _BENDS = 0.1, 0.1, 5


class Face:
    """A working set of variables, whose point `x` and gradient are moved in place.

    Parameters
    ----------
    product : callable
        ``H d`` over the working set.
    curvature : float
        The largest diagonal entry of H: the scale of what counts as flat.
    x, gradient, lo, hi : ndarray
        Point, gradient and box.
    constraints : Constraints
        Over the working set.
    """

    def __init__(
        self,
        product: Callable[[NDArray[np.float64]], NDArray[np.float64]],
        curvature: float,
        x: NDArray[np.float64],
        gradient: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        constraints: Constraints,
    ) -> None:
        self.product, self.curvature = product, curvature
        self.x, self.gradient, self.lo, self.hi = x, gradient, lo, hi
        self.constraints = constraints
        self.below, self.above = np.empty(x.size), np.empty(x.size)
        self.decrease = 0.0
        self.steps = 0
        self._last: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None

    def descend(self, goal: float, most: int) -> bool:
        """Step until no entry of the direction is larger than `goal`, `most` times at most; True when there."""
        for _ in range(most):
            steepest, free = self.steepest()
            if np.abs(steepest).max(initial=0.0) <= goal:
                return True
            if not self.step(steepest, free):
                return True
            self.steps += 1
        return False

    def steepest(self) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The feasible direction of steepest descent, and which variables are free."""
        cone(self.x, self.lo, self.hi, self.below, self.above)
        free = (self.below < 0.0) & (self.above > 0.0)
        return self.constraints.nearest(-self.gradient, self.below, self.above), free

    def step(self, steepest: NDArray[np.float64], free: NDArray[np.bool_]) -> bool:
        """One direction, one line search; False where rounding leaves nothing to gain."""
        on_face = steepest
        if np.any(steepest[~free]):
            on_face = self.constraints.nearest(
                -self.gradient, np.where(free, -np.inf, 0.0), np.where(free, np.inf, 0.0)
            )
        release = float(on_face @ on_face) < _RELEASE * float(steepest @ steepest)
        # Along the constraints the slope is that of the projected gradient, which has kept its digits.
        projected = steepest if release else on_face
        direction = steepest if release else self._conjugate(on_face)
        gain = float(projected @ direction)
        if not gain > 0.0:  # conjugacy is lost: begin again from the steepest direction
            direction, gain = projected, float(projected @ projected)
            if gain == 0.0:
                return False
        Hd = self.product(direction)
        bend = float(direction @ Hd)
        flat = FLAT * self.curvature * float(direction @ direction)
        length = gain / bend if bend > flat else np.inf
        first, last = reach(self.x, direction, self.lo, self.hi)
        if length <= first:
            if np.isinf(length):
                length = gain / flat
            advance(self.x, self.gradient, direction, Hd, self.lo, self.hi, length)
            self.decrease += length * (gain - 0.5 * length * bend)
            self._last = None if release else (direction, on_face)
            return length > 0.0
        self._last = None
        return self._bounded_step(projected, direction, Hd, gain, bend, first, min(length, last))

    def _conjugate(self, on_face: NDArray[np.float64]) -> NDArray[np.float64]:
        """The direction on the face, conjugate to the last one there (Polak and Ribiere)."""
        if self._last is None:
            return on_face
        direction, before = self._last
        share = float(on_face @ (on_face - before)) / float(before @ before)
        return on_face + max(share, 0.0) * direction

    def _bounded_step(
        self,
        projected: NDArray[np.float64],
        direction: NDArray[np.float64],
        Hd: NDArray[np.float64],
        gain: float,
        bend: float,
        first: float,
        length: float,
    ) -> bool:
        """Clipped at the first bound, or bent along the bounds where that descends further."""
        clipped = first * (gain - 0.5 * first * bend)
        moving = direction != 0.0
        lo, hi = np.where(moving, self.lo, self.x), np.where(moving, self.hi, self.x)
        sums = self.constraints.sums(self.x)
        for _ in range(_BENDS):
            end = self.constraints.nearest(self.x + length * direction, lo, hi, sums)
            chord = end - self.x
            promised = float(projected @ chord)
            if promised <= clipped:  # no more can be gained than the slope promises
                break
            Hc = self.product(chord)
            chord_bend = float(chord @ Hc)
            bent = promised - 0.5 * chord_bend
            if bent >= max(clipped, _ENOUGH * promised):
                self.x[:] = end
                self.gradient += Hc
                self.decrease += bent
                return True
            length *= max(_SHORTEN, promised / chord_bend)  # positive, or the step would have been taken
            if length <= first:
                break
        advance(self.x, self.gradient, direction, Hd, self.lo, self.hi, first)
        self.decrease += clipped
        return first > 0.0
