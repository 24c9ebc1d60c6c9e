"""The primal-dual method on variables whose matrix is held: one-point steps, Newton on free variables, Newton on eta.

With orthonormal constraints ``U'a = c``, residual ``r = U'a - c``, multipliers lambda and a penalty rho, it minimises::

    phi(a; lambda) = 1/2 a'Ha + f'a + lambda'r + rho/2 |r|^2        over the box

by one-point steps and, now and then, by a Newton step on the free variables J, and maximises the minimum over lambda.
That dual function has the gradient r and, with the variables at bounds clamped, the full k x k Hessian ``-S, S = U_J'
(H_JJ + rho U_J U_J')^-1 U_J`` (MPD paper, eqs. 7 and 8, there diagonal and without clamping). The penalty keeps S at
most 1/rho where H_JJ is singular; a direction that no free variable can serve has S = 0, and there the step is that
of the method of multipliers, rho r. A step after which the dual function is lower is taken back and cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

from dualgap.solvers._mpd_steps import one_point_steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Free variables up to which a Newton step is worth its Cholesky factorisation (a third of a second at most).
_MOST_FREE = 2500
# One-point steps a variable before the free ones are solved by Newton's method.
_STEPS_EACH = 2
# Added to the diagonal for Newton's method, relative to its largest entry: two variables of one point have a singular
# matrix, and float32 entries may be indefinite by their rounding.
_SHIFT, _SHIFT_MORE = 1e-11, 100.0
# Eigenvalues of rho S below this count as directions that no free variable serves.
_SERVED = 1e-9
# The penalty grows by this where a step on the multipliers did not halve the residual.
_GROWTH, _HALVED, _LARGEST = 4.0, 0.5, 1e8
# The variables are settled to this share of what the residual does to the slopes; a step on the multipliers that
# brought little asks for a tenth of it, down to the least, before it is blamed on the penalty.
_SHARE, _TIGHTEN, _SHARE_LEAST = 0.3, 0.1, 1e-3
# How much a step that lowered the dual function is cut, at most and at least.
_CUT_MOST, _CUT_LEAST = 0.1, 0.7
# The dual function is known up to what the inner minimisation left; lower by this share of it is no fall.
_FALL = 1e-12


class Dense:
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
        self.H, self.U, self.lo, self.hi = H, U, lo, hi
        self.a, self.gradient = a, gradient
        self.residual, self.multipliers = residual.copy(), multipliers.copy()
        self.penalty = self.first_penalty = penalty
        self.A = self.penalised()
        self.steps = 0
        self.objective = 0.0  # since the beginning of this run
        self.violation = np.inf
        self.tried: tuple[NDArray[np.float64], ...] | None = None
        self.value_then = -np.inf
        self.felt_then = np.inf
        self.cuts = 0
        self.share = _SHARE

    def penalised(self) -> NDArray[np.float64]:
        """``H + rho UU'``."""
        return self.H + (self.penalty * self.U) @ self.U.T if self.U.shape[1] else self.H

    @property
    def slopes(self) -> NDArray[np.float64]:
        """Of phi in the variables: ``gradient + U (lambda + rho r)``."""
        return self.gradient + self.U @ self.estimate

    @property
    def estimate(self) -> NDArray[np.float64]:
        """The multipliers this point speaks for: lambda + rho r."""
        return self.multipliers + self.penalty * self.residual

    def enough(self) -> float:
        """The violation to which the variables need to be settled before the multipliers move."""
        return self.share * self.first_penalty * float(np.abs(self.U @ self.residual).max(initial=0.0))

    # -- the variables -------------------------------------------------------------------------------------------

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

    def factor(self) -> tuple[NDArray[np.intp], tuple[NDArray[np.float64], bool] | None]:
        """The free variables and the Cholesky factor of their penalised matrix; None where there are too many."""
        free = np.flatnonzero((self.a > self.lo) & (self.a < self.hi))
        if free.size == 0 or free.size > _MOST_FREE:
            return free, None
        part = self.A[np.ix_(free, free)]
        shift = _SHIFT * max(float(part.diagonal().max()), 1e-300)
        while True:
            part[np.diag_indices_from(part)] += shift
            try:
                return free, sla.cho_factor(part, lower=True, check_finite=False)
            except np.linalg.LinAlgError:
                shift *= _SHIFT_MORE

    def newton(self) -> None:
        """Newton's step on the free variables: whole and clipped where phi falls, else as far as the first bound."""
        free, factor = self.factor()
        if factor is None:
            return
        slope = self.slopes[free]
        step = -sla.cho_solve(factor, slope, check_finite=False)
        here, lo, hi = self.a[free], self.lo[free], self.hi[free]
        part = self.A[np.ix_(free, free)]
        clipped = np.clip(here + step, lo, hi) - here
        if float(clipped @ (slope + 0.5 * (part @ clipped))) > 0.0:
            with np.errstate(divide="ignore", invalid="ignore"):
                reach = np.where(step > 0.0, (hi - here) / step, np.where(step < 0.0, (lo - here) / step, np.inf))
            clipped = np.clip(here + min(1.0, float(reach.min())) * step, lo, hi) - here
            if float(clipped @ (slope + 0.5 * (part @ clipped))) > 0.0:
                return  # rounding: there is nothing to gain
        before = self.a.copy()
        self.a[free] = np.clip(here + clipped, lo, hi)
        self.follow(before)

    # -- the multipliers -----------------------------------------------------------------------------------------

    def value(self) -> float:
        """The dual function at the present multipliers, as far as phi has been minimised."""
        r = self.residual
        return self.objective + float(self.multipliers @ r) + 0.5 * self.penalty * float(r @ r)

    def ascend(self) -> None:
        """A step on the multipliers, after phi has been minimised."""
        value, size = self.value(), float(np.abs(self.residual).max(initial=0.0))
        if self.tried is not None and self.cuts < 10:
            before, step, slope = self.tried
            if value < self.value_then - _FALL * max(abs(value), abs(self.value_then)):
                # Too far: the derivative along the step has changed sign on the way. Cut where it vanishes.
                now, then = float(self.residual @ step), float(slope @ step)
                share = then / (then - now) if now < 0.0 else _CUT_LEAST
                step = min(max(share, _CUT_MOST), _CUT_LEAST) * step
                self.tried = (before, step, slope)
                self.multipliers = before + step
                self.cuts += 1
                self.share = max(_TIGHTEN * self.share, _SHARE_LEAST)
                return
        if size > _HALVED * self.felt_then and self.share > _SHARE_LEAST:
            self.share = max(_TIGHTEN * self.share, _SHARE_LEAST)
            if self.violation > self.enough():
                return  # settle the variables further before anything else
        if size > _HALVED * self.felt_then and self.penalty < _LARGEST * self.first_penalty:
            # phi changes with the penalty: lambda moves on as the method of multipliers does, which is always safe.
            self.multipliers = self.estimate
            self.penalty *= _GROWTH
            self.A = self.penalised()
            self.tried, self.felt_then, self.cuts = None, size, 0
            return
        step = self.newton_step()
        self.tried = (self.multipliers, step, self.residual.copy())
        self.value_then, self.felt_then, self.cuts = value, size, 0
        self.multipliers = self.multipliers + step
        self.newton()

    def newton_step(self) -> NDArray[np.float64]:
        """``S^-1 r`` where free variables serve the constraints, ``rho r`` elsewhere."""
        free, factor = self.factor()
        plain = self.penalty * self.residual
        if factor is None:
            return plain
        U = self.U[free]
        S = U.T @ sla.cho_solve(factor, U, check_finite=False)
        values, vectors = np.linalg.eigh(0.5 * (S + S.T))
        along = vectors.T @ self.residual
        served = values * self.penalty > _SERVED
        return vectors @ np.where(served, along / np.where(served, values, 1.0), self.penalty * along)
