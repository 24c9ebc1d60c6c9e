"""Equality constraints on an orthonormal basis, and the way back onto them from a point near by.

``F'a = e`` is the same as ``U'a = c`` with orthonormal U, from the singular values of F. All constraints then have one
scale, and redundant ones are gone. Multipliers lambda of U are those of F by ``F eta = U lambda``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.constraints import feasible_start

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

# Singular values below this share of the largest are constraints that say the same twice.
_REDUNDANT = 1e-12
# A residual below this share of the sums it is made of is rounding; below the second one it is not worth taking
# variables off their bounds.
_ROUNDING, _WORTH_LEAVING = 1e-15, 1e-14
# Variables at bounds that may move first, a constraint, and how their number grows where that does not do.
_FIRST_MORE = 8
# Newton steps onto the constraints: it is piecewise linear in few unknowns.
_NEWTON = 30


@dataclass(frozen=True)
class Basis:
    """``U'a = c``.

    Attributes
    ----------
    U : ndarray, shape (n, r)
        Orthonormal columns.
    c : ndarray, shape (r,)
        Right-hand sides.
    to_eta : ndarray, shape (k, r)
        ``eta = to_eta @ multipliers``, the least ones where constraints are redundant.
    """

    U: NDArray[np.float64]
    c: NDArray[np.float64]
    to_eta: NDArray[np.float64]

    def residual(self, a: NDArray[np.float64]) -> NDArray[np.float64]:
        """``U'a - c``."""
        return self.U.T @ a - self.c

    def multipliers(self, F: NDArray[np.float64], eta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Lambda with ``U lambda = F eta``."""
        return self.U.T @ (F @ eta)


def orthonormal(problem: DualQP, scale: NDArray[np.float64] | None = None) -> Basis:
    """The constraints of a problem on an orthonormal basis, where wanted for variables ``u = scale * a``.

    Raises
    ------
    InfeasibleProblemError
        Where they contradict each other.
    """
    if problem.k == 0:
        return Basis(np.empty((problem.n, 0)), np.empty(0), np.empty((0, 0)))
    F = problem.F if scale is None else problem.F / scale[:, None]
    U, values, Vt = np.linalg.svd(F, full_matrices=False)
    kept = values > _REDUNDANT * max(float(values[0]), 1e-300)
    U, values, Vt = U[:, kept], values[kept], Vt[kept]
    c = (Vt @ problem.e) / values
    if np.abs(Vt.T @ (values * c) - problem.e).max() > 1e-10 * max(1.0, float(np.abs(problem.e).max())):
        feasible_start(problem)  # raises, and says which
    return Basis(np.ascontiguousarray(U), c, Vt.T / values)


def restored(
    a: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    basis: Basis,
    slope: NDArray[np.float64],
) -> NDArray[np.float64]:
    """A point near `a` with ``U'a = c``.

    Free variables move, in proportion to their room; where that does not do, so do variables at bounds, those whose
    slopes are nearest to zero first: they cost least.
    """
    if basis.c.size == 0:
        return a
    width = np.where(np.isfinite(hi), hi - lo, np.maximum(1.0, np.abs(a)))
    room = np.minimum(a - lo, np.where(np.isfinite(hi), hi - a, width))
    size = float((np.abs(basis.U).T @ np.abs(a)).max()) + float(np.abs(basis.c).max())
    enough = _ROUNDING * size
    a, off = _moved(a, lo, hi, basis, np.flatnonzero(room > 0.0), room, enough)
    if off <= _WORTH_LEAVING * size:
        return a
    order = np.argsort(np.where(width > 0.0, np.abs(slope), np.inf), kind="stable")
    count = _FIRST_MORE * (basis.c.size + 1)
    while off > enough:
        a, off = _moved(a, lo, hi, basis, order[:count], width, enough)
        if count >= a.size:
            break
        count *= _FIRST_MORE
    return a


def _moved(
    a: NDArray[np.float64],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    basis: Basis,
    movable: NDArray[np.intp],
    weight: NDArray[np.float64],
    enough: float,
) -> tuple[NDArray[np.float64], float]:
    """The best of ``a + W U y`` clipped to the box, W the squared weights of the movable: Newton's method on y."""
    off = float(np.abs(basis.residual(a)).max())
    if off <= enough or movable.size == 0:
        return a, off
    U, here, lo, hi = basis.U[movable], a[movable], lo[movable], hi[movable]
    columns = (weight[movable] ** 2)[:, None] * U
    columns /= max(float(np.abs(columns).max()), 1e-300)
    others = basis.residual(a) - U.T @ here
    best, y = a, np.zeros(basis.c.size)
    for _ in range(_NEWTON):
        wanted = here + columns @ y
        moved = np.clip(wanted, lo, hi)
        missing = -(others + U.T @ moved)
        if float(np.abs(missing).max()) < off:
            best, off = a.copy(), float(np.abs(missing).max())
            best[movable] = moved
            if off <= enough:
                break
        inside = (wanted >= lo) & (wanted <= hi)
        y = y + np.linalg.lstsq(U[inside].T @ columns[inside], missing, rcond=None)[0]
    return best, off
