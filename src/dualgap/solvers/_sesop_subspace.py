"""Newton's method in the subspace of SESOP: no products with A, since ``A D`` is stored (SESOP paper, eqs. 30, 34)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg as sla

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

# Eigenvalues of the scaled Hessian (whose entries are at most 1) that are lost in rounding, with a margin of a
# thousand; a slope along such an eigenvector that is noise; and the curvature it is given where it is not.
_LOST, _NOISE, _FLAT = 1e-12, 1e-6, 1e-6
# Armijo's share of the decrease that the slope promises.
_SUFFICIENT = 1e-4
# Halvings of a Newton step after which it is given up.
_HALVINGS = 40
# Differences of the objective below this, relative to it, are rounding.
_ROUNDING = 1e-14


def minimise(
    problem: Composite,
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    D: NDArray[np.float64],
    V: NDArray[np.float64],
    tolerance: float,
    steps: int,
) -> NDArray[np.float64]:
    """The coefficients of the best point of ``x + span(D)``.

    Parameters
    ----------
    problem : Composite
        What is minimised.
    x, z : ndarray
        The point and ``Ax``.
    D, V : ndarray, shapes (M, n) and (M, m)
        Directions, one a row, and their products with A.
    tolerance : float
        Stop when the gradient in the subspace has fallen to this share of what it was.
    steps : int
        Newton steps at most.

    Returns
    -------
    ndarray, shape (M,)
        Coefficients; zero where no step descends.
    """
    alpha = np.zeros(D.shape[0])
    form = 2.0 * problem.energy * (D @ problem.quadratic(D, V).T) if problem.energy else 0.0
    value = problem.value(x, z)
    u, r = problem.slopes(x, z)
    gradient = V @ u + D @ r
    goal = tolerance * float(np.linalg.norm(gradient))
    for _ in range(steps):
        h, k = problem.curvatures(x, z)
        # W W' is symmetric, which BLAS uses; a curvature below 0 is rounding, since the problem is convex.
        bent_V, bent_D = V * np.sqrt(np.maximum(h, 0.0)), D * np.sqrt(np.maximum(k, 0.0))
        step = _newton_step(bent_V @ bent_V.T + bent_D @ bent_D.T + form, gradient)
        dx, dz = step @ D, step @ V
        length, trial = _length(problem, x, z, dx, dz, value, float(step @ gradient))
        if length == 0.0:
            break
        alpha += length * step
        x, z = x + length * dx, z + length * dz
        stuck, value = trial > value - _ROUNDING * abs(value), trial
        u, r = problem.slopes(x, z)
        before, gradient = float(np.linalg.norm(gradient)), V @ u + D @ r
        size = float(np.linalg.norm(gradient))
        if size <= goal or (stuck and size > 0.5 * before):  # in rounding only the gradient tells progress
            break
    return alpha


def _newton_step(H: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
    """``-H^-1 gradient`` for a positive semidefinite H, scaled to a unit diagonal, on what is not lost in rounding.

    Where directions have become parallel, combinations of them vanish: there the Hessian and the gradient are noise,
    and large coefficients would cancel to a step whose product with A is noise too. Flat parts with a slope that is
    none get a curvature of their own.
    """
    diagonal = np.diag(H)
    # A direction without curvature keeps its scale.
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, max(float(diagonal.max()), np.finfo(float).tiny)))
    spectrum, vectors = sla.eigh(scale[:, None] * H * scale, check_finite=False)
    slopes = vectors.T @ (scale * gradient)
    flat = spectrum <= _LOST * max(float(spectrum[-1]), 0.0)
    falling = np.abs(slopes) > _NOISE * float(np.linalg.norm(slopes))
    curvature = np.where(flat, _FLAT, spectrum)
    return np.asarray(-scale * (vectors @ np.where(flat & ~falling, 0.0, slopes / curvature)))


def _length(
    problem: Composite,
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    dx: NDArray[np.float64],
    dz: NDArray[np.float64],
    value: float,
    slope: float,
) -> tuple[float, float]:
    """A step length by backtracking, and the objective there; 0 where there is none.

    Armijo's rule; where the decrease is below the rounding of the objective, the slope at the trial decides: a convex
    function that still falls there has fallen all the way, and one that is flatter there has come closer.
    """
    length = 1.0
    for _ in range(_HALVINGS):
        xt, zt = x + length * dx, z + length * dz
        trial = problem.value(xt, zt)
        if trial <= value + _SUFFICIENT * length * slope:
            return length, trial
        if trial <= value + _ROUNDING * abs(value):
            u, r = problem.slopes(xt, zt)
            if abs(float(u @ dz + r @ dx)) < 0.9 * abs(slope):
                return length, trial
        length *= 0.5
    return 0.0, value
