"""Sequential subspace optimisation: each iteration minimises over a few directions at once, without products.

Problem (see `dualgap.composite`)::

    min_x  f(x) = phi(Ax) + psi(x)

Steps (SESOP paper, section 3). Iteration k minimises ``f(x_k + D alpha)`` over alpha (eq. 30) by Newton's method, where
the columns of D, normalised, are

    1. the gradient g_k, or M g_k with a preconditioner M
    2. Nemirovski's two: ``x_k - x_0`` and ``sum of w_i g_i`` with the weights (27), which make the rate O(1/k^2)
    3. `steps` previous steps x_{k-i+1} - x_{k-i} (28)
    4. `gradients` previous gradients (29)

``A D`` is kept beside D and combined as D is, so that the search in the subspace costs no product (34).

That every ``v = Ad`` in store still belongs to its d is checked at each gradient: ``v'u`` must be ``d'(A'u)``. What has
been lost to rounding is dropped, and ``Ax`` itself, where it has drifted, is computed anew: the only further products.

A kernel machine with the norm of feature space (``psi = 0``, ``energy a'Ka``) has the gradient ``K(u + 2 energy a)`` in
its coefficients, and ``u + 2 energy a`` in feature space itself: K^{-1} is the preconditioner, and costs less than
nothing, for ``K(u + 2 energy a)`` is the sum of ``Ku`` and ``Ka``, which are there. One product an iteration is left.

Cost of an iteration: one product with A and one with A' (one alone in feature space), and O((m + n) M^2) for each
Newton step in a subspace of M directions; memory 2 M vectors. With `steps=1` and without Nemirovski's directions it is
the conjugate gradient method once the objective is quadratic. Use it for large or structured A, where products are what
costs.
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
from dualgap.solvers import _sesop_subspace as subspace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.composite import Composite

# The paper's names: SESOPi keeps i previous steps; a minus sign leaves Nemirovski's directions out.
PRESETS: dict[str, dict[str, Any]] = {
    "sesop0": {"steps": 0, "nemirovski": True},
    "sesop1-": {"steps": 1, "nemirovski": False},
    "sesop1": {"steps": 1, "nemirovski": True},
    "sesop8": {"steps": 8, "nemirovski": True},
    "sesop32": {"steps": 32, "nemirovski": True},
}
# Iterations without progress after which float64 has no more to give; one full turn of the default subspace.
_PATIENCE = 10


# A direction whose product with A is found wrong by this share is not kept, and Ax that is wrong by the second share is
# computed anew. Rounding alone is 1e-15; half of the digits are enough to search in a subspace, not to know where one
# is.
_WRONG, _DRIFTED = 1e-8, 1e-11


@dataclass(frozen=True)
class Options:
    """Settings of `sesop`.

    Attributes
    ----------
    tol : float
        Norm of the gradient to reach.
    max_iter : int
        Iterations at most; -1 for no limit.
    steps : int
        Previous steps in the subspace (the paper's s1).
    gradients : int
        Previous gradients in the subspace (s2).
    nemirovski : bool
        Whether the two directions of Nemirovski belong to it.
    preconditioner : ndarray, callable or None
        M, as a diagonal or as ``M(g)``: an approximation of the inverse Hessian.
    feature_space : bool
        Whether the gradient of a kernel machine is that of feature space, without a product of its own; False means
        that in the coefficients.
    subspace_tol : float
        How far the gradient in the subspace falls at each iteration, relatively. With eight steps or more a hundredth
        takes as few iterations; with one, the conjugacy of the steps is lost by it (madelon does not converge).
    subspace_steps : int
        Newton steps an iteration at most.
    """

    tol: float = 1e-5
    max_iter: int = -1
    steps: int = 8
    gradients: int = 0
    nemirovski: bool = True
    preconditioner: NDArray[np.float64] | Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    feature_space: bool = True
    subspace_tol: float = 1e-4
    subspace_steps: int = 30

    def __post_init__(self) -> None:
        for name in ("steps", "gradients"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative; got {getattr(self, name)!r}.")
        if self.subspace_steps < 1:
            raise ValueError(f"subspace_steps must be at least 1; got {self.subspace_steps!r}.")
        if not 0.0 < self.subspace_tol < 1.0:
            raise ValueError(f"subspace_tol must lie between 0 and 1; got {self.subspace_tol!r}.")


def supports(problem: Composite, options: Options | None = None) -> str | None:
    """None, or why the problem is not for this solver."""
    if options is None or options.preconditioner is None or callable(options.preconditioner):
        return None
    diagonal = np.asarray(options.preconditioner)
    if diagonal.shape != (problem.n,) or not np.all(diagonal > 0.0) or not np.all(np.isfinite(diagonal)):
        return f"a diagonal preconditioner is {problem.n} positive numbers, one a variable"
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
    directions = _Directions(problem, options, x, z)
    in_feature_space = options.feature_space and options.preconditioner is None and _has_feature_space(problem)
    iteration, at_rest, drifted = 0, Standstill(_PATIENCE), _DRIFTED
    flattest, least = x, np.inf
    while True:
        u, r = problem.slopes(x, z)
        back = A.rmatvec(u)
        if _mismatch(x, z, u, back) > drifted:
            z = A.matvec(x)
            u, r = problem.slopes(x, z)
            back = A.rmatvec(u)
            drifted = max(drifted, 10.0 * _mismatch(x, z, u, back))  # what A's own products leave is no drift
        directions.check(u, back)
        gradient = back + r
        value, norm = problem.value(x, z), float(np.linalg.norm(gradient))
        if norm < least:
            flattest, least = x, norm
        status = None
        if callback(Progress(iteration, x, value, norm, A.products)):
            status = Status.STOPPED
        elif norm <= options.tol:
            status = Status.CONVERGED
        elif 0 <= options.max_iter <= iteration:
            status = Status.MAX_ITER
        elif at_rest(value, norm):
            status = Status.STALLED
        if status is Status.STALLED:
            # Steps within rounding lead back and forth, and what is left of z = Ax with them. The flattest comes first,
            # so that it is also taken where the last one has no objective.
            x = min((flattest, x), key=lambda point: problem.value(point, A.matvec(point)))
        if status is not None:
            return Descent(x, iteration, A.products, status)
        if in_feature_space:
            d, image = _feature_gradient(problem, x, z, u, back)
        else:
            d = _preconditioned(gradient, options)
            image = A.matvec(d)
        D, V = directions.with_gradient(x, z, d, image)
        alpha = subspace.minimise(problem, x, z, D, V, options.subspace_tol, options.subspace_steps)
        step, image = alpha @ D, alpha @ V
        directions.remember(step, image)
        x, z = x + step, z + image
        iteration += 1


def _has_feature_space(problem: Composite) -> bool:
    """Whether the norm of feature space is all that is penalised."""
    weights = [getattr(problem.regulariser, name, 1.0) for name in ("l1", "l2")]
    return problem.energy > 0.0 and not any(np.any(weight) for weight in weights)


def _feature_gradient(
    problem: Composite,
    x: NDArray[np.float64],
    z: NDArray[np.float64],
    u: NDArray[np.float64],
    back: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The gradient in feature space, by its coefficients, and its product with A; the bias has its own, as ever."""
    m = problem.m
    d = back.copy()
    d[:m] = u + 2.0 * problem.energy * x[:m]
    image = back[:m] + 2.0 * problem.energy * problem.quadratic(x, z)[:m]
    return d, image + d[m:].sum()


def _mismatch(
    x: NDArray[np.float64], z: NDArray[np.float64], u: NDArray[np.float64], back: NDArray[np.float64]
) -> float:
    """How far ``z'u`` is from ``x'back``, relatively; they are equal where ``z = Ax`` and ``back = A'u``."""
    size = float(np.linalg.norm(z) * np.linalg.norm(u))
    return abs(float(x @ back - z @ u)) / size if size > 0.0 else 0.0


def _preconditioned(gradient: NDArray[np.float64], options: Options) -> NDArray[np.float64]:
    if options.preconditioner is None:
        return gradient
    if callable(options.preconditioner):
        return np.asarray(options.preconditioner(gradient), dtype=np.float64)
    return np.asarray(options.preconditioner * gradient)


class _Directions:
    """The rows of D and of their products, in fixed places: gradient, Nemirovski's two, steps, gradients.

    A row is normalised when it is put in, and its product by the same factor. Rows that do not exist yet (the first
    iterations have no history) are left out of what `with_gradient` returns (the paper's note 3).

    A step is a sum of rows. Where these cancel, the step and its product are rounded each in its own way, and once they
    are normalised they no longer belong together; as steps are made of steps, such errors grow from one to the next.
    The product ``A'u`` that every iteration computes tells them, at no further product (`check`).
    """

    def __init__(self, problem: Composite, options: Options, x0: NDArray[np.float64], z0: NDArray[np.float64]) -> None:
        self.options = options
        self.x0, self.z0 = x0, z0
        self.first_step = 3 if options.nemirovski else 1
        self.first_gradient = self.first_step + options.steps
        places = self.first_gradient + options.gradients
        self.D, self.V = np.zeros((places, problem.n)), np.zeros((places, problem.m))
        self.there = np.zeros(places, dtype=bool)
        self.weight = 0.0
        self.sum, self.sum_image = np.zeros(problem.n), np.zeros(problem.m)
        self.iteration = 0

    def _put(self, place: int, d: NDArray[np.float64], image: NDArray[np.float64]) -> None:
        size = float(np.linalg.norm(d))
        self.there[place] = size > 0.0
        if size > 0.0:
            np.divide(d, size, out=self.D[place])
            np.divide(image, size, out=self.V[place])

    def with_gradient(
        self, x: NDArray[np.float64], z: NDArray[np.float64], d: NDArray[np.float64], image: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The subspace at x, `d` being the (preconditioned) gradient there and `image` its product."""
        options = self.options
        if options.gradients and self.iteration > 0:
            # The gradient of the last iteration is still in its place.
            place = self.first_gradient + (self.iteration - 1) % options.gradients
            self.D[place], self.V[place], self.there[place] = self.D[0], self.V[0], self.there[0]
        self._put(0, d, image)
        if options.nemirovski:
            self.weight = 1.0 if self.iteration == 0 else 0.5 + sqrt(0.25 + self.weight**2)
            self.sum += self.weight * d
            self.sum_image += self.weight * image
            if self.iteration > 0:  # before, the one is zero and the other the gradient
                self._put(1, x - self.x0, z - self.z0)
                self._put(2, self.sum, self.sum_image)
        return (self.D, self.V) if self.there.all() else (self.D[self.there], self.V[self.there])

    def remember(self, step: NDArray[np.float64], image: NDArray[np.float64]) -> None:
        """Keep a step, in the place of the oldest."""
        if self.options.steps and np.any(step):
            self._put(self.first_step + self.iteration % self.options.steps, step, image)
        self.iteration += 1

    def check(self, u: NDArray[np.float64], back: NDArray[np.float64]) -> None:
        """Drop directions d whose stored product v is not Ad: then ``v'u`` is not ``d'back``, back being A'u."""
        off = np.abs(self.D @ back - self.V @ u)
        sizes = np.linalg.norm(self.V, axis=1) * float(np.linalg.norm(u))
        # The gradient's product is the last that was computed: what it is off by is the rounding of A's own products.
        rounding = float(off[0] / sizes[0]) if sizes[0] > 0.0 else 0.0
        self.there &= off <= max(_WRONG, 10.0 * rounding) * sizes
