"""Equality constraints that do not fall apart into groups, by an augmented Lagrangian (`_augmented`).

Each outer step minimises, over the box alone::

    1/2 u'Hu + f'u + lambda'(U'u - c) + rho/2 |U'u - c|^2

which is the same problem with the kernel ``K + rho UU'``, U an orthonormal basis of the constraints; then lambda takes
a Newton step. The last, tiny residual is removed by moving variables, so that solutions are feasible to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.constraints import feasible_start
from dualgap.feasibility import orthonormal, restored
from dualgap.multipliers import best_multipliers
from dualgap.solvers._augmented import Multipliers, natural_penalty, steep_penalty

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP
    from dualgap.solvers._augmented import Factor

# A residual counts as met when restoring it would change slopes by less than this share of the goal.
_MET_SHARE = 0.1
# Renewals after which a residual that has not fallen by a tenth will not fall. Only then is it asked whether the
# constraints can be met at all: most runs need ten, and the question is a linear program that may take seconds.
_FELL, _PATIENCE = 0.9, 30
# What violation and residual must have fallen to for another report.
_TOLD_SHARE = 0.1


class Coupling(Multipliers):
    """The coupled constraints of one run: multipliers, penalty and current residual.

    Parameters
    ----------
    problem : DualQP
        What is solved; one whose constraints fall apart into groups makes every method below do nothing.
    scale : ndarray
        ``u = scale * a``.
    diagonal : ndarray
        Of H in the variables u.
    u, gradient : ndarray
        The start and its gradient ``Hu + f``.
    """

    def __init__(
        self,
        problem: DualQP,
        scale: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        u: NDArray[np.float64],
        gradient: NDArray[np.float64],
    ) -> None:
        self.empty = problem.groups is not None
        if self.empty:
            return
        self.problem, self.scale = problem, scale
        self.basis = orthonormal(problem, scale)
        U = self.basis.U
        eta = best_multipliers(problem, gradient * scale - problem.ridge * (u / scale))
        multipliers = self.basis.multipliers(problem.F / scale[:, None], eta)
        self.natural = natural_penalty(U, diagonal)
        width = (problem.hi - problem.lo) * np.abs(scale)
        penalty = max(self.natural, steep_penalty(U, width, gradient + U @ multipliers))
        super().__init__(U, self.basis.residual(u), multipliers, penalty)
        self.least, self.waited, self.told = np.inf, 0, np.inf

    def diagonal(self) -> NDArray[np.float64] | float:
        """What the penalty adds to the diagonal."""
        return 0.0 if self.empty else self.penalty * np.sum(self.U**2, axis=1)

    def slopes(self) -> NDArray[np.float64] | float:
        """What multipliers and penalty add to the gradient."""
        return 0.0 if self.empty else self.U @ self.estimate

    def add_to(self, matrix: NDArray[Any], variables: NDArray[np.intp]) -> None:
        """Add the penalty's part to a block of H."""
        if not self.empty:
            part = np.sqrt(self.penalty) * self.U[variables]
            matrix += (part @ part.T).astype(matrix.dtype)

    def change(
        self, moved: NDArray[np.intp], delta: NDArray[np.float64], where: NDArray[np.intp]
    ) -> NDArray[np.float64] | float:
        """What a move does to the gradient through the penalty."""
        return 0.0 if self.empty else self.penalty * (self.U[where] @ (self.U[moved].T @ delta))

    def move(
        self, moved: NDArray[np.intp], delta: NDArray[np.float64], where: NDArray[np.intp]
    ) -> NDArray[np.float64] | float:
        """As `change`, and the residual follows."""
        if self.empty:
            return 0.0
        self.residual = self.residual + self.U[moved].T @ delta
        return self.change(moved, delta, where)

    def met(self, tol: float) -> bool:
        """Whether restoring the constraints would hardly change the slopes."""
        return self.empty or self.felt() <= _MET_SHARE * tol

    def felt(self) -> float:
        """How much slopes change, roughly, when the residual is removed."""
        return self.natural * float(np.abs(self.U @ self.residual).max())

    def worth_telling(self, violation: float) -> bool:
        """Whether violation and residual are a tenth of what they were when this was last so.

        In between the gap says little: it is that of a point off the constraints, and dear to compute.
        """
        if self.empty:
            return True
        now = max(violation, self.felt())
        if now > _TOLD_SHARE * self.told:
            return False
        self.told = now
        return True

    def due(self, violation: float, tol: float) -> bool:
        """Whether the residual, and no longer the violation, is what keeps the solution away."""
        return not self.met(tol) and violation <= max(self.enough(), tol)

    def renew(
        self, u: NDArray[np.float64], objective: float, violation: float, free: NDArray[np.intp], factor: Factor | None
    ) -> tuple[bool, bool]:
        """Renew the multipliers as `ascend` does; the residual is summed afresh."""
        self.residual = self.basis.residual(u)
        size = float(np.abs(self.residual).max())
        self.waited = 0 if size < _FELL * self.least else self.waited + 1
        self.least = min(self.least, size)
        return self.ascend(objective, violation, free, factor)

    def exhausted(self) -> bool:
        """Whether the multipliers have been renewed for long without a smaller residual.

        Raises
        ------
        InfeasibleProblemError
            Where that is because no point obeys the constraints.
        """
        if self.empty or self.waited < _PATIENCE:
            return False
        feasible_start(self.problem)
        return True

    def feasible(
        self,
        u: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        slope: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """A point near `u` on the constraints."""
        return u if self.empty else restored(u, lo, hi, self.basis, slope)
