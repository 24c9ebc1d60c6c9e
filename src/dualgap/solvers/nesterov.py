"""Nesterov's accelerated gradient method.

Problem (see `dualgap.composite`)::

    min_x  f(x) = phi(Ax) + psi(x)

Steps (Nesterov 1983): ``x_{k+1} = y_k - g(y_k) / L``, ``y_{k+1} = x_{k+1} + (s_k - 1)/s_{k+1} (x_{k+1} - x_k)``,
``s_{k+1} = 1/2 + sqrt(1/4 + s_k^2)`` (the weights (27) of the SESOP paper). L is doubled until the step decreases f by
``|g|^2 / (2L)`` at least. With ``A g`` stored, and ``A y`` combined as y is, trials cost no product. `restart` forgets
the momentum where it points uphill (O'Donoghue and Candes 2015): the rate becomes that of the strong convexity which
there is near the solution, without knowing it. The preset "nesterov_plain" is the paper's method, without.

Cost of an iteration: one product with A and one with A' (the paper counts three: it does not store ``A g``). It is a
baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.composite import Descent, Progress, Standstill
from dualgap.operators import Counted
from dualgap.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

PRESETS: dict[str, dict[str, Any]] = {"nesterov_plain": {"restart": False}}
# Doublings of L after which no step descends: 2^200 is beyond every scale.
_DOUBLINGS = 200
# Iterations without progress after which float64 has no more to give: many, since momentum lets the objective rise.
_PATIENCE = 500
# Differences of the objective below this, relative to it, are rounding.
_ROUNDING = 1e-14


@dataclass(frozen=True)
class Options:
    """Settings of `nesterov`.

    Attributes
    ----------
    tol : float
        Norm of the gradient to reach.
    max_iter : int
        Iterations at most; -1 for no limit.
    restart : bool
        Whether momentum that points uphill is forgotten.
    """

    tol: float = 1e-5
    max_iter: int = -1
    restart: bool = True


def supports(problem: Composite, options: Options | None = None) -> str | None:
    """None: it takes every smooth problem."""
    return None


def solve(
    problem: Composite,
    options: Options,
    callback: Callable[[Progress], bool],
    start: NDArray[np.float64] | None = None,
) -> Descent:
    """Minimise from `start` (0 when None); points y, where gradients are known, are what is returned."""
    A = Counted(problem.operator)
    x = np.zeros(problem.n) if start is None else np.array(start, dtype=np.float64)
    z = A.matvec(x) if np.any(x) else np.zeros(problem.m)
    y, zy = x, z
    s, L, iteration, at_rest = 1.0, 0.0, 0, Standstill(_PATIENCE)
    while True:
        gradient = problem.gradient(y, zy, A)
        value, norm = problem.value(y, zy), float(np.linalg.norm(gradient))
        status = None
        if callback(Progress(iteration, y, value, norm, A.products)):
            status = Status.STOPPED
        elif norm <= options.tol:
            status = Status.CONVERGED
        elif 0 <= options.max_iter <= iteration:
            status = Status.MAX_ITER
        elif at_rest(value, norm):
            status = Status.STALLED
        if status is not None:
            return Descent(y, iteration, A.products, status)
        image = A.matvec(gradient)
        L = _lipschitz(problem, y, zy, gradient, image, value, norm, L)
        if L == 0.0:
            return Descent(y, iteration, A.products, Status.STALLED)
        before, z_before = x, z
        x, z = y - gradient / L, zy - image / L
        if options.restart and gradient @ (x - before) > 0.0:
            s = 1.0
        following = 0.5 + sqrt(0.25 + s * s)
        momentum = (s - 1.0) / following
        y, zy = x + momentum * (x - before), z + momentum * (z - z_before)
        s = following
        iteration += 1


def _lipschitz(
    problem: Composite,
    y: NDArray[np.float64],
    zy: NDArray[np.float64],
    gradient: NDArray[np.float64],
    image: NDArray[np.float64],
    value: float,
    norm: float,
    L: float,
) -> float:
    """L, doubled until a step of 1/L decreases the objective by ``|g|^2 / (2L)``; 0 where nothing does.

    The first is the curvature along the first gradient. L never falls, as the rate of the method asks for.
    """
    if L == 0.0:
        h, k = problem.curvatures(y, zy)
        L = (float(h @ (image * image)) + float(k @ (gradient * gradient))) / norm**2
        if problem.energy:
            L += 2.0 * problem.energy * float(gradient @ problem.quadratic(gradient, image)) / norm**2
        L = max(L, np.finfo(float).tiny)
    for _ in range(_DOUBLINGS):
        trial = problem.value(y - gradient / L, zy - image / L)
        if trial <= value - 0.5 * norm**2 / L + _ROUNDING * abs(value):
            return L
        L *= 2.0
    return 0.0
