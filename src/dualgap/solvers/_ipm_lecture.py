"""The interior point method as the lecture's slides have it, for comparing iterations.

The reduced KKT system is the same; what differs is every choice around it:

- mu is set from the last step's length lambda, ``mu = (a'xi / n) ((1 - lambda) / (10 + lambda))^2``, and not from what
  the predictor achieves;
- predictor and corrector both aim at that mu, the corrector with the products ``da_i dxi_i`` of the predictor;
- a step leaves at least 0.05 of every slack and multiplier.

The slides leave the start open. Here it is the solution of the same system with a diagonal of 1, which is the
quadratic program without its box, put into the inner 80 % of the box; multipliers are the slopes there, a tenth
of the largest at least. (Closer to the boundary, at 1 %, the rule for mu jams: it falls faster than steps can follow.)
"""

from __future__ import annotations

import numpy as np

from dualgap.solvers._interior import Iterate, Move, Newton

# The slides' epsilon: what a step leaves of every slack and multiplier.
_LEFT = 0.05
# How far from its bounds a variable starts, relative to the width of its box, and a multiplier relative to the largest.
_INSIDE = 0.1


class LectureIterate(Iterate):
    """An iterate that steps by the slides' rules."""

    def _begin(self) -> None:
        super()._begin()
        ones = np.ones(self.n)
        self.system.factorise(ones)
        da, eta = Newton(self, ones).solve(-self.gradient, self.missing)
        width = np.maximum(1.0, np.abs(self.a + da))
        width[self.upper] = (self.hi - self.lo)[self.upper]
        x = np.maximum(self.x + da, _INSIDE * width)
        x[self.upper] = np.minimum(x, (1.0 - _INSIDE) * width)[self.upper]
        self.place(x, ones, eta)
        slope = np.abs(self.slope)
        self.place(x, np.maximum(slope, _INSIDE * max(float(slope.max()), 1e-300)), eta)

    def _move(self, newton: Newton) -> Move:
        """The slides' mu for both halves of the step."""
        target = self.mu * ((1.0 - self.length) / (10.0 + self.length)) ** 2
        product = self.slack * self.price
        predicted = self._toward(newton, target - product, 1.0)
        wanted = target - product - predicted.slack * predicted.price
        return self._toward(newton, wanted, 1.0 - _LEFT, self._toward(newton, wanted, 1.0 - _LEFT))
