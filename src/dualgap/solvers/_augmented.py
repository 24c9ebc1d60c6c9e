"""An augmented Lagrangian of few equality constraints: its multipliers, and Newton's method on both sides of it.

With orthonormal constraints ``U'a = c``, residual ``r = U'a - c``, multipliers lambda and a penalty rho, a solver
minimises over the box, by whatever steps it has::

    phi(a; lambda) = 1/2 a'Ha + f'a + lambda'r + rho/2 |r|^2

and lambda goes where that minimum is largest. This dual function has the gradient r and, with the variables at bounds
clamped, the full k x k Hessian ``-S, S = U_J' (H_JJ + rho U_J U_J')^-1 U_J`` over the free variables J (MPD paper,
eqs. 7 and 8, there diagonal and without clamping). The penalty keeps S at most 1/rho where H_JJ is singular; a
direction that no free variable can serve has S = 0, and there the step is that of the method of multipliers, rho r. A
step after which the dual function is lower is taken back and cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # A Cholesky factor as scipy hands it out.
    Factor = tuple[NDArray[np.float64], bool]

# Free variables up to which a Newton step is worth its Cholesky factorisation (a third of a second at most).
MOST_FREE = 2500
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
# How much a step that lowered the dual function is cut, at most and at least, and how often.
_CUT_MOST, _CUT_LEAST, _CUTS = 0.1, 0.7, 10
# The dual function is known up to what the inner minimisation left; lower by this share of it is no fall.
_FALL = 1e-12


def natural_penalty(U: NDArray[np.float64], diagonal: NDArray[np.float64]) -> float:
    """A penalty as curved as H, whose diagonal is given."""
    return float(diagonal.mean()) / max(float(np.mean(np.sum(U**2, axis=1))), 1e-300)


def steep_penalty(U: NDArray[np.float64], width: NDArray[np.float64], slopes: NDArray[np.float64]) -> float:
    """A penalty that lets slopes feel a residual of the size of the box, whose finite widths are given."""
    size = np.abs(U)
    reach = float((size.T @ np.where(np.isfinite(width), width, 0.0)).max()) * float(size.mean())
    return float(np.abs(slopes).mean()) / reach if reach > 0.0 else 0.0


def cholesky(matrix: NDArray[np.float64]) -> Factor:
    """The Cholesky factor of a semidefinite matrix, its diagonal (changed in place) raised as far as that takes."""
    shift = _SHIFT * max(float(matrix.diagonal().max()), 1e-300)
    while True:
        matrix[np.diag_indices_from(matrix)] += shift
        try:
            factor: Factor = sla.cho_factor(matrix, lower=True, check_finite=False)
            return factor
        except np.linalg.LinAlgError:
            shift *= _SHIFT_MORE


def newton_change(
    matrix: NDArray[np.float64],
    factor: Factor,
    slope: NDArray[np.float64],
    here: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
) -> NDArray[np.float64] | None:
    """Newton's step on free variables: whole and clipped where phi falls, else as far as the first bound.

    None where even that brings nothing, by rounding.
    """
    step = -sla.cho_solve(factor, slope, check_finite=False)
    clipped = np.clip(here + step, lo, hi) - here
    if float(clipped @ (slope + 0.5 * (matrix @ clipped))) <= 0.0:
        return np.asarray(clipped)
    with np.errstate(divide="ignore", invalid="ignore"):
        reach = np.where(step > 0.0, (hi - here) / step, np.where(step < 0.0, (lo - here) / step, np.inf))
    clipped = np.clip(here + min(1.0, float(reach.min())) * step, lo, hi) - here
    if float(clipped @ (slope + 0.5 * (matrix @ clipped))) <= 0.0:
        return np.asarray(clipped)
    return None


class Multipliers:
    """Multipliers and penalty of one run, and the way they change.

    Parameters
    ----------
    U : ndarray, shape (n, r)
        Rows of the orthonormal constraints.
    residual, multipliers : ndarray, shape (r,)
        ``U'a - c`` over all variables, and lambda.
    penalty : float
        Rho to begin with.
    """

    def __init__(
        self,
        U: NDArray[np.float64],
        residual: NDArray[np.float64],
        multipliers: NDArray[np.float64],
        penalty: float,
    ) -> None:
        self.U = U
        self.residual, self.multipliers = residual.copy(), multipliers.copy()
        self.penalty = self.first_penalty = penalty
        self.share = _SHARE
        # The last step, its multipliers before, and residual and dual function there.
        self.tried: tuple[NDArray[np.float64], ...] | None = None
        self.value_then, self.size_then = -np.inf, np.inf
        self.cuts = 0

    @property
    def estimate(self) -> NDArray[np.float64]:
        """The multipliers this point speaks for: lambda + rho r."""
        return self.multipliers + self.penalty * self.residual

    def enough(self) -> float:
        """The violation to which the variables need to be settled before the multipliers move."""
        return self.share * self.first_penalty * float(np.abs(self.U @ self.residual).max(initial=0.0))

    def ascend(
        self, objective: float, violation: float, free: NDArray[np.intp], factor: Factor | None
    ) -> tuple[bool, bool]:
        """A step on the multipliers, after phi has been minimised.

        Parameters
        ----------
        objective, violation : float
            ``1/2 a'Ha + f'a``, up to a constant, and the worst slope of phi.
        free, factor : ndarray of int and Cholesky factor
            The free variables and their penalised matrix; None where there are none, or too many.

        Returns
        -------
        penalty, step : bool
            Whether the penalty has grown, and whether the multipliers took a new Newton step.
        """
        r = self.residual
        size = float(np.abs(r).max(initial=0.0))
        value = objective + float(self.multipliers @ r) + 0.5 * self.penalty * float(r @ r)
        if self.tried is not None and self.cuts < _CUTS:
            before, step, slope = self.tried
            if value < self.value_then - _FALL * max(abs(value), abs(self.value_then)):
                # Too far: the derivative along the step has changed sign on the way. Cut where it vanishes.
                now, then = float(r @ step), float(slope @ step)
                share = then / (then - now) if now < 0.0 else _CUT_LEAST
                step = min(max(share, _CUT_MOST), _CUT_LEAST) * step
                self.tried = (before, step, slope)
                self.multipliers = before + step
                self.cuts += 1
                self.share = max(_TIGHTEN * self.share, _SHARE_LEAST)
                return False, False
        if size > _HALVED * self.size_then and self.share > _SHARE_LEAST:
            self.share = max(_TIGHTEN * self.share, _SHARE_LEAST)
            if violation > self.enough():
                return False, False  # settle the variables further before anything else
        if size > _HALVED * self.size_then and self.penalty < _LARGEST * self.first_penalty:
            # phi changes with the penalty: lambda moves on as the method of multipliers does, which is always safe.
            self.multipliers = self.estimate
            self.penalty *= _GROWTH
            self.tried, self.size_then, self.cuts = None, size, 0
            return True, False
        step = self.penalty * r if factor is None else self.newton_step(self.U[free], factor)
        self.tried = (self.multipliers, step, r.copy())
        self.value_then, self.size_then, self.cuts = value, size, 0
        self.multipliers = self.multipliers + step
        return False, True

    def newton_step(self, U: NDArray[np.float64], factor: Factor) -> NDArray[np.float64]:
        """``S^-1 r`` where free variables, whose rows are `U`, serve the constraints, ``rho r`` elsewhere."""
        S = U.T @ sla.cho_solve(factor, U, check_finite=False)
        values, vectors = np.linalg.eigh(0.5 * (S + S.T))
        along = vectors.T @ self.residual
        served = values * self.penalty > _SERVED
        return np.asarray(vectors @ np.where(served, along / np.where(served, values, 1.0), self.penalty * along))
