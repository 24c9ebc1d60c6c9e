"""Truncated Newton: Newton's equations solved by conjugate gradients, roughly, then a step with backtracking.

Problem (see `dualgap.composite`)::

    min_x  f(x) = phi(Ax) + psi(x)

Steps: conjugate gradients on ``(A' diag(phi'') A + diag(psi'')) d = -g`` until the residual is below
``min(1/2, sqrt(|g|)) |g|``, which makes the outer convergence superlinear; then Armijo's rule on ``f(x + t d)``. ``A
d`` is put together from the inner products, so the line search costs none.

Cost of an iteration: one product with A and one with A' for each inner step, and one with A' for the gradient. Memory:
five vectors of each length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dualgap.composite import Descent, Progress, Standstill
from dualgap.line_search import Ray
from dualgap.operators import Counted
from dualgap.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

# Armijo's share of the promised decrease, and halvings of a step at most.
_SUFFICIENT, _HALVINGS = 1e-4, 50
# Iterations without progress after which float64 has no more to give.
_PATIENCE = 3
# Differences of the objective below this, relative to it, are rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Options:
    """Settings of `tn`.

    Attributes
    ----------
    tol : float
        Norm of the gradient to reach.
    max_iter : int
        Newton iterations at most; -1 for no limit.
    inner : int
        Inner conjugate gradient steps an iteration at most.
    """

    tol: float = 1e-5
    max_iter: int = -1
    inner: int = 250

    def __post_init__(self) -> None:
        if self.inner < 1:
            raise ValueError(f"inner must be at least 1; got {self.inner!r}.")


def supports(problem: Composite, options: Options | None = None) -> str | None:
    """None: it takes every smooth problem."""
    return None


def solve(
    problem: Composite,
    options: Options,
    callback: Callable[[Progress], bool],
    start: NDArray[np.float64] | None = None,
) -> Descent:
    """Minimise from `start` (0 when None)."""
    A = Counted(problem.operator)
    x = np.zeros(problem.n) if start is None else np.array(start, dtype=np.float64)
    z = A.matvec(x) if np.any(x) else np.zeros(problem.m)
    iteration, at_rest = 0, Standstill(_PATIENCE)
    while True:
        gradient = problem.gradient(x, z, A)
        value, norm = problem.value(x, z), float(np.linalg.norm(gradient))
        status = None
        if callback(Progress(iteration, x, value, norm, A.products)):
            status = Status.STOPPED
        elif norm <= options.tol:
            status = Status.CONVERGED
        elif 0 <= options.max_iter <= iteration:
            status = Status.MAX_ITER
        elif at_rest(value, norm):
            status = Status.STALLED
        if status is not None:
            return Descent(x, iteration, A.products, status)
        d, v = _newton_direction(problem, A, x, z, gradient, min(0.5, norm**0.5) * norm, options.inner)
        t = _backtrack(Ray(problem, x, z, d, v), value, float(gradient @ d))
        x, z = x + t * d, z + t * v
        iteration += 1


def _newton_direction(
    problem: Composite,
    A: Counted,
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    gradient: NDArray[np.float64],
    goal: float,
    inner: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Conjugate gradients from 0 on Newton's equations: the direction and its product with A."""
    h, k = problem.curvatures(x, z)
    d, v = np.zeros(problem.n), np.zeros(problem.m)
    residual = -gradient
    p, size = residual, float(residual @ residual)
    for _ in range(min(inner, 2 * problem.n)):
        q = A.matvec(p)
        Hp = A.rmatvec(h * q) + k * p
        if problem.energy:
            Hp += 2.0 * problem.energy * problem.quadratic(p, q)
        bent = float(p @ Hp)
        # No curvature to speak of along p: what is there so far descends, and if nothing is, p itself does.
        if bent <= np.finfo(float).eps * float(p @ p) * float(h.max() + k.max()):
            return (d, v) if np.any(d) else (p, q)
        t = size / bent
        d, v = d + t * p, v + t * q
        residual = residual - t * Hp
        before, size = size, float(residual @ residual)
        if size <= goal**2:
            break
        p = residual + size / before * p
    return d, v


def _backtrack(ray: Ray, value: float, slope: float) -> float:
    """Armijo's rule; where the decrease is below rounding, a flatter slope at the trial decides."""
    t = 1.0
    for _ in range(_HALVINGS):
        trial, at = ray(t)
        if trial <= value + _SUFFICIENT * t * slope:
            return t
        if trial <= value + _ROUNDING * abs(value) and abs(at) < 0.9 * abs(slope):
            return t
        t *= 0.5
    return 0.0
