"""Nonlinear conjugate gradients after Polak and Ribiere, with and without products in the line search.

Problem (see `dualgap.composite`)::

    min_x  f(x) = phi(Ax) + psi(x)

Steps: ``d_k = -g_k + max(0, g_k'(g_k - g_{k-1}) / |g_{k-1}|^2) d_{k-1}``, then a line search along d_k by cubic
interpolation of values and slopes. `fast` stores ``A d`` and searches without products (SESOP paper, eq. 34); otherwise
each trial costs two.

Cost of an iteration: one product with A and one with A' (`fast`); else two for each trial. Memory: four vectors of each
length. It is the method that SESOP is compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.composite import Descent, Progress, Standstill
from dualgap.line_search import Ray, minimum_on_ray
from dualgap.operators import Counted
from dualgap.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

PRESETS: dict[str, dict[str, Any]] = {"cg_fast": {"fast": True}, "cg_plain": {"fast": False}}
# Where trials cost products, a slope of a tenth ends the search; where they cost none, it goes on.
_LOOSE, _TIGHT = 0.1, 1e-4
# Iterations without progress after which float64 has no more to give.
_PATIENCE = 10
# Trials with products at most, each two of them.
_TRIALS = 12


@dataclass(frozen=True)
class Options:
    """Settings of `cg`.

    Attributes
    ----------
    tol : float
        Norm of the gradient to reach.
    max_iter : int
        Iterations at most; -1 for no limit.
    fast : bool
        Whether the line search works on stored products (eq. 34).
    """

    tol: float = 1e-5
    max_iter: int = -1
    fast: bool = True


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
    gradient = problem.gradient(x, z, A)
    d, iteration, at_rest = -gradient, 0, Standstill(_PATIENCE)
    search = _stored if options.fast else _plain
    length = 1.0 / max(float(np.linalg.norm(gradient)), np.finfo(float).tiny)
    while True:
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
        slope = float(gradient @ d)
        if slope >= 0.0:  # no descent: begin again with the gradient
            d, slope = -gradient, -(norm**2)
        t, x, z, after = search(problem, A, x, z, d, slope, gradient, length)
        if t == 0.0:  # a direction that leads nowhere is replaced by the gradient
            d = -gradient
        else:
            beta = max(0.0, float(after @ (after - gradient)) / norm**2)
            d = -after + beta * d
            length = t * slope / min(float(after @ d), -np.finfo(float).tiny)
            length = float(np.clip(length, 0.1 * t, 10.0 * t))
        gradient = after
        iteration += 1


_Found = tuple[float, "NDArray[np.float64]", "NDArray[np.float64]", "NDArray[np.float64]"]


def _stored(
    problem: Composite,
    A: Counted,
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    d: NDArray[np.float64],
    slope: float,
    gradient: NDArray[np.float64],
    length: float,
) -> _Found:
    """Search along d with ``v = Ad`` stored: one product before, one for the gradient after."""
    v = A.matvec(d)
    ray = Ray(problem, x, z, d, v)
    bent = ray.curvature()
    t = minimum_on_ray(ray, problem.value(x, z), slope, -slope / bent if bent > 0.0 else length, tolerance=_TIGHT)
    x, z = x + t * d, z + t * v
    return t, x, z, problem.gradient(x, z, A)


def _plain(
    problem: Composite,
    A: Counted,
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    d: NDArray[np.float64],
    slope: float,
    gradient: NDArray[np.float64],
    length: float,
) -> _Found:
    """Search along d with two products a trial; the gradient of the accepted one is kept."""
    seen: dict[float, tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]] = {0.0: (x, z, gradient)}

    def trial(t: float) -> tuple[float, float]:
        there = x + t * d
        product = A.matvec(there)
        after = problem.gradient(there, product, A)
        seen[t] = (there, product, after)
        return problem.value(there, product), float(after @ d)

    t = minimum_on_ray(trial, problem.value(x, z), slope, length, tolerance=_LOOSE, trials=_TRIALS)
    return (t, *seen[t])
