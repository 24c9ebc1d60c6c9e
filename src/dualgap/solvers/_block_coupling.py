"""Equality constraints that do not fall apart into groups, by the method of multipliers.

With columns G (scaled like the variables) and right-hand side e, each outer step minimises::

    1/2 u'Hu + f'u + lambda'(G'u - e) + rho/2 |G'u - e|^2

which is the same problem with the kernel ``K + rho GG'``, and then sets ``lambda += rho (G'u - e)``. The last, tiny
residual is removed by moving the free variables, so that solutions are feasible to rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.constraints import feasible_start
from dualgap.multipliers import best_multipliers

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Multipliers are renewed once the violation is below this share of what the residual does to the slopes.
_SHARE = 0.3
# A residual below this share of the sums it is made of is rounding.
_ROUNDING = 1e-14
# Renewals after which it is asked whether the constraints can be met at all: most runs need ten, and the question is a
# linear program that may take seconds.
_PATIENCE = 50
# Newton steps for the feasible point: it is piecewise linear in few variables.
_NEWTON = 50


class Coupling:
    """The coupled constraints of one run: multipliers, penalty and current residual.

    Parameters
    ----------
    problem : DualQP
        What is solved.
    columns : ndarray of int
        Its constraints that are coupled; none makes every method below do nothing.
    scale : ndarray
        ``u = scale * a``.
    diagonal : ndarray
        Of H in the variables u; the penalty's curvature is made like its mean.
    u, gradient : ndarray
        The start and its gradient ``Hu + f``.
    estimate : bool
        Whether the start is good enough to read multipliers off it.
    """

    def __init__(
        self,
        problem: DualQP,
        columns: NDArray[np.intp],
        scale: NDArray[np.float64],
        diagonal: NDArray[np.float64],
        u: NDArray[np.float64],
        gradient: NDArray[np.float64],
        estimate: bool,
    ) -> None:
        self.empty = columns.size == 0
        self.G = problem.F[:, columns] / scale[:, None]
        self.e = problem.e[columns]
        self.multipliers = np.zeros(columns.size)
        if self.empty:
            return
        if estimate:
            slope = gradient * scale - problem.ridge * (u / scale)
            self.multipliers = best_multipliers(problem, slope)[columns]
        self.penalty = float(diagonal.mean()) / max(float(np.mean(np.sum(self.G**2, axis=1))), 1e-300)
        self.residual = self.G.T @ u - self.e
        self.problem, self.renewals = problem, 0

    def diagonal(self) -> NDArray[np.float64] | float:
        """What the penalty adds to the diagonal."""
        return 0.0 if self.empty else self.penalty * np.sum(self.G**2, axis=1)

    def slopes(self) -> NDArray[np.float64] | float:
        """What multipliers and penalty add to the gradient."""
        return 0.0 if self.empty else self.G @ (self.multipliers + self.penalty * self.residual)

    def add_to(self, matrix: NDArray[Any], variables: NDArray[np.intp]) -> None:
        """Add the penalty's part to a block of H."""
        if not self.empty:
            part = np.sqrt(self.penalty) * self.G[variables]
            matrix += (part @ part.T).astype(matrix.dtype)

    def change(
        self, moved: NDArray[np.intp], delta: NDArray[np.float64], where: NDArray[np.intp]
    ) -> NDArray[np.float64] | float:
        """What a move does to the gradient through the penalty."""
        return 0.0 if self.empty else self.penalty * (self.G[where] @ (self.G[moved].T @ delta))

    def move(
        self, moved: NDArray[np.intp], delta: NDArray[np.float64], where: NDArray[np.intp]
    ) -> NDArray[np.float64] | float:
        """As `change`, and the residual follows."""
        if self.empty:
            return 0.0
        self.residual = self.residual + self.G[moved].T @ delta
        return self.change(moved, delta, where)

    def due(self, violation: float, tol: float) -> bool:
        """Whether the residual, and no longer the violation, is what keeps the solution away."""
        if self.empty:
            return False
        felt = self.penalty * float(np.abs(self.G @ self.residual).max())
        return felt > tol and violation <= max(_SHARE * felt, tol)

    def renew(self) -> NDArray[np.float64]:
        """Renew the multipliers; returns what that adds to the gradient."""
        self.renewals += 1
        if self.renewals == _PATIENCE:
            feasible_start(self.problem)  # raises where no point obeys the constraints
        step = self.penalty * self.residual
        self.multipliers = self.multipliers + step
        return np.asarray(self.G @ step)

    def feasible(
        self,
        u: NDArray[np.float64],
        lo: NDArray[np.float64],
        hi: NDArray[np.float64],
        group: NDArray[np.int64],
        n_groups: int,
    ) -> NDArray[np.float64]:
        """The point nearest to `u` on all constraints, moving free variables alone where that suffices.

        ``u + w`` with ``w = M y`` clipped to the box, M the constraints' columns (sums of the groups among them):
        Newton's method on ``M'(u + w) = M'u + missing``.
        """
        if self.empty:
            return u
        sums = np.column_stack([(group == g).astype(np.float64) for g in range(n_groups)] + [self.G])
        target = sums.T @ u
        target[n_groups:] = self.e
        size = np.maximum(np.abs(sums).T @ np.abs(u), 1.0)
        best, best_off = u, float(np.max(np.abs(sums.T @ u - target) / size))
        for movable in ((u > lo) & (u < hi), np.ones(u.size, dtype=bool)):
            columns, y = sums * movable[:, None], np.zeros(sums.shape[1])
            for _ in range(_NEWTON):
                moved = np.clip(u + columns @ y, lo, hi)
                missing = target - sums.T @ moved
                off = float(np.max(np.abs(missing) / size))
                if off < best_off:
                    best, best_off = moved, off
                if off <= _ROUNDING:
                    return best
                inside = movable & (u + columns @ y >= lo) & (u + columns @ y <= hi)
                jacobian = sums[inside].T @ sums[inside]
                y = y + np.linalg.lstsq(jacobian, missing, rcond=None)[0]
        return best
