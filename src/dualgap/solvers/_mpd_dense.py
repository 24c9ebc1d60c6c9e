"""The primal-dual method on variables whose matrix is held: one-point steps, Newton on free variables, Newton on eta.

It minimises the augmented Lagrangian of `_augmented`, ``phi(a; lambda) = 1/2 a'Ha + f'a + lambda'r + rho/2 |r|^2``, over
the box by one-point steps and, now and then, by a Newton step on the free variables, and maximises the minimum over the
multipliers lambda of the orthonormal constraints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dualgap.solvers._augmented import MOST_FREE, Multipliers, cholesky, newton_change
from dualgap.solvers._mpd_steps import one_point_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.solvers._augmented import Factor

# One-point steps a variable before the free ones are solved by Newton's method.
_STEPS_EACH = 2


class Dense(Multipliers):
    """One run on a block of variables; the others are part of the gradient and of the residual.

    Parameters
    ----------
    H : ndarray, shape (q, q)
        The Hessian, float64.
    U : ndarray, shape (q, r)
        Rows of the orthonormal constraints.
    a, lo, hi : ndarray, shape (q,)
        Point (changed in place) and box.
    gradient : ndarray, shape (q,)
        ``Ha + f`` (changed in place).
    residual, multipliers : ndarray, shape (r,)
        ``U'a - c`` over all variables, and lambda.
    penalty : float
        Rho to begin with.
    """

    def __init__(
        self,
        H: NDArray[np.float64],
        U: NDArray[np.float64],
        a: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        gradient: NDArray[np.float64],
        residual: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        penalty: float,
    ) -> None:
        super().__init__(U, residual, multipliers, penalty)
        self.H, self.lo, self.hi = H, lo, hi
        self.a, self.gradient = a, gradient
        self.A = self.penalised()
        self.steps = 0
        self.objective = 0.0  # since the beginning of this run
        self.violation = np.inf

    def penalised(self) -> NDArray[np.float64]:
        """``H + rho UU'``."""
        return self.H + (self.penalty * self.U) @ self.U.T if self.U.shape[1] else self.H

    @property
    def slopes(self) -> NDArray[np.float64]:
        """Of phi in the variables: ``gradient + U (lambda + rho r)``."""
        return self.gradient + self.U @ self.estimate

    def minimise(self, tol: float, max_steps: int) -> bool:
        """Lower the violation to `tol` within `max_steps` one-point steps; whether that was reached."""
        slope = self.slopes
        while True:
            before = self.a.copy()
            each = min(_STEPS_EACH * self.a.size + 20, max_steps)
            steps, self.violation = one_point_steps(self.A, slope, self.a, self.lo, self.hi, tol, each)
            self.follow(before)
            self.steps += int(steps)
            max_steps -= int(steps)
            if self.violation <= tol or steps < each:
                # Fewer steps than allowed: the rest is below the rounding of the variables.
                return True
            if max_steps <= 0:
                return False
            self.newton()
            slope = self.slopes

    def follow(self, before: NDArray[np.float64]) -> None:
        """Bring gradient, residual and objective up to date with a move of the variables."""
        moved = np.flatnonzero(self.a != before)
        if moved.size == 0:
            return
        change = self.a[moved] - before[moved]
        then = self.gradient[moved]
        self.gradient += change @ self.H[moved]
        self.residual += change @ self.U[moved]
        self.objective += 0.5 * float(change @ (then + self.gradient[moved]))

    def factor(self) -> tuple[NDArray[np.intp], Factor | None]:
        """The free variables and the Cholesky factor of their penalised matrix; None where there are too many."""
        free = np.flatnonzero((self.a > self.lo) & (self.a < self.hi))
        if free.size == 0 or free.size > MOST_FREE:
            return free, None
        return free, cholesky(self.A[np.ix_(free, free)])

    def newton(self) -> None:
        """Newton's step on the free variables."""
        free, factor = self.factor()
        if factor is None:
            return
        part, here = self.A[np.ix_(free, free)], self.a[free]
        change = newton_change(part, factor, self.slopes[free], here, self.lo[free], self.hi[free])
        if change is not None:
            before = self.a.copy()
            self.a[free] = np.clip(here + change, self.lo[free], self.hi[free])
            self.follow(before)

    def improve_multipliers(self) -> None:
        """A step on the multipliers, after phi has been minimised, and one on the variables that follows it."""
        grown, stepped = self.ascend(self.objective, self.violation, *self.factor())
        if grown:
            self.A = self.penalised()
        if stepped:
            self.newton()
