"""`minimize`: the door to the composite problem, in the manner of scipy.optimize.minimize.

It makes the problem of whatever describes it, keeps clock, limits and history, and judges the answer by a gradient that
is computed anew: a solver that never forms ``Ax`` again trusts a sum of many updates.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.composite import Composite, Descent, Progress
from dualgap.interrupts import interruptible
from dualgap.losses import make_loss
from dualgap.operators import as_operator
from dualgap.regularisers import make_regulariser
from dualgap.result import Status
from dualgap.solvers import COMPOSITE_SOLVERS

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Rounds in which a solver may claim convergence that a fresh gradient denies, before rounding is blamed.
_ROUNDS = 5
# A gradient computed anew may differ from the solver's by the rounding of its sums.
_ROUNDING = 1e-6

_MESSAGES = {
    Status.CONVERGED: "the gradient is as small as was asked for",
    Status.MAX_ITER: "the iteration limit was reached first; raise max_iter or loosen tol",
    Status.TIME_LIMIT: "the time limit was reached first; raise time_limit or loosen tol",
    Status.STOPPED: "the callback asked to stop",
    Status.STALLED: "no step decreases the objective in this arithmetic; scale the columns of A, or loosen tol",
}


@dataclass(frozen=True)
class Step:
    """One line of the history: iteration, seconds, objective, norm of the gradient, products with A and A' so far."""

    iteration: int
    seconds: float
    fun: float
    gradient_norm: float
    n_products: int


@dataclass(frozen=True)
class Intermediate(Step):
    """What the callback sees: a `Step` with the point x, which is the solver's own, to be read and not kept."""

    x: NDArray[np.float64]


@dataclass(frozen=True)
class MinimizeResult:
    """The answer of `minimize`.

    Attributes
    ----------
    x : ndarray
        The point.
    fun : float
        The objective there, computed anew.
    jac : ndarray
        The gradient there, computed anew.
    gradient_norm : float
        Its norm, which `tol` speaks of.
    nit, n_products : int
        Iterations, and products with A and with A' together, of the solver; the two products of the final check are not
        counted.
    success : bool
        Whether the goal was reached.
    status : Status
        How the run ended.
    message : str
        The same as a sentence.
    history : list of Step
        One line an iteration.
    seconds : float
        Wall time.
    method : str
        The solver that ran.
    """

    x: NDArray[np.float64]
    fun: float
    jac: NDArray[np.float64]
    gradient_norm: float
    nit: int
    n_products: int
    success: bool
    status: Status
    message: str
    seconds: float
    method: str
    history: list[Step] = field(repr=False)


def minimize(
    phi: object,
    A: Any,
    psi: object = None,
    x0: NDArray[np.float64] | None = None,
    method: str = "sesop",
    *,
    tol: float = 1e-5,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callable[[Intermediate], bool | None] | None = None,
    bias: bool = False,
    free: Sequence[int] = (),
    energy: float = 0.0,
    **options: Any,
) -> MinimizeResult:
    """Minimise ``phi(Ax) + psi(x)`` with few products with A.

    Parameters
    ----------
    phi : loss or mapping
        An object with ``value(z)``, ``gradient(z)`` and ``curvature(z)`` (second derivatives, one an entry), such as
        those in `dualgap.losses`; or ``{"name": "logistic", "y": y, "C": 1.0}``.
    A : array, sparse matrix, LinearOperator, Gram, or object with shape, matvec and rmatvec
        The matrix; neither copied nor upcast.
    psi : regulariser, str, mapping or None
        An object like phi; a name ("l2", "l1", "elastic_net", "none"); or ``{"name": "l1", "weight": 2.0, "eps":
        1e-3}``.
    x0 : ndarray or None
        Where to start; 0 when None.
    method : str
        "sesop", "cg", "tn", "nesterov", or settings with a name of their own: "sesop0", "sesop1-", "sesop1", "sesop8",
        "sesop32", "cg_fast", "cg_plain", "nesterov_plain".
    tol : float
        Norm of the gradient to reach.
    max_iter : int
        Iterations at most, -1 for no limit.
    time_limit : float or None
        Seconds at most, looked at once an iteration.
    callback : callable or None
        Called with an `Intermediate` once an iteration; returning True (or raising StopIteration) stops the run.
    bias : bool
        Whether a column of ones is appended, not stored; the last variable is then the bias, free of penalty.
    free : sequence of int
        Further variables that psi does not see.
    energy : float
        Weight of ``a'Ka`` where A is a Gram matrix.
    **options
        Settings of the solver's own (see its ``Options``).

    Returns
    -------
    MinimizeResult
        The point, the objective and the gradient there, counts and history.

    Examples
    --------
    >>> import numpy as np, dualgap
    >>> A = np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    >>> result = dualgap.minimize({"name": "squared", "y": [1.0, 2.0, 2.0]}, A, tol=1e-9)
    >>> result.success, result.x.round(6).tolist()
    (True, [1.0, 1.0])
    """
    operator = as_operator(A, bias=bias)
    hidden = (*free, -1) if bias else tuple(free)
    problem = Composite(operator, make_loss(phi), make_regulariser(psi), hidden, energy)
    return minimize_composite(
        problem, x0, method, tol=tol, max_iter=max_iter, time_limit=time_limit, callback=callback, **options
    )


@interruptible
def minimize_composite(
    problem: Composite,
    x0: NDArray[np.float64] | None = None,
    method: str = "sesop",
    *,
    tol: float = 1e-5,
    max_iter: int = 10_000,
    time_limit: float | None = None,
    callback: Callable[[Intermediate], bool | None] | None = None,
    **options: Any,
) -> MinimizeResult:
    """`minimize` for a problem that is a `Composite` already."""
    if not tol > 0.0:
        raise ValueError(f"tol must be a positive number; got {tol!r}.")
    if time_limit is not None and not time_limit > 0.0:
        raise ValueError(f"time_limit must be a positive number of seconds or None; got {time_limit!r}.")
    start = _start(problem, x0)
    module, settings = choose_method(method, dict(options, tol=tol, max_iter=max_iter))
    reason = module.supports(problem, settings)
    if reason is not None:
        raise ValueError(f"method={method!r} cannot take this problem: {reason}.")
    keeper = _Keeper(time_limit, callback)
    descent, gradient, fun = _until_borne_out(problem, module, settings, keeper, start)
    norm = float(np.linalg.norm(gradient))
    status = keeper.reason or descent.status
    if norm <= tol * (1.0 + _ROUNDING):
        status = status if status is Status.STOPPED else Status.CONVERGED
    elif status is Status.CONVERGED:
        status = Status.STALLED
    return MinimizeResult(
        x=descent.x,
        fun=fun,
        jac=gradient,
        gradient_norm=norm,
        nit=keeper.iterations + descent.iterations,
        n_products=keeper.products + descent.n_products,
        success=status is Status.CONVERGED,
        status=status,
        message=_MESSAGES[status],
        seconds=keeper.elapsed(),
        method=method,
        history=keeper.history,
    )


def choose_method(method: str, options: dict[str, Any]) -> tuple[ModuleType, Any]:
    """The solver of this name, or of this preset, and its settings.

    Raises
    ------
    ValueError
        Where there is no such method, or it does not take an option.
    """
    name = method.lower()
    for solver, module in COMPOSITE_SOLVERS.items():
        presets = getattr(module, "PRESETS", {})
        if name != solver and name not in presets:
            continue
        known = {f.name for f in fields(module.Options)}
        unknown = sorted(set(options) - known)
        if unknown:
            raise ValueError(f"Unknown option {unknown[0]!r} for method {name!r}; it takes {', '.join(sorted(known))}.")
        return module, module.Options(**{**presets.get(name, {}), **options})
    names = [n for s, m in COMPOSITE_SOLVERS.items() for n in (s, *getattr(m, "PRESETS", {}))]
    raise ValueError(f"Unknown method {method!r}; choose one of {', '.join(names)}.")


def _start(problem: Composite, x0: NDArray[np.float64] | None) -> NDArray[np.float64] | None:
    if x0 is None:
        return None
    start = np.asarray(x0, dtype=np.float64)
    if start.shape != (problem.n,) or not np.all(np.isfinite(start)):
        raise ValueError(f"x0 must be {problem.n} finite numbers; its shape is {start.shape}.")
    return start


def _until_borne_out(
    problem: Composite, module: ModuleType, settings: Any, keeper: _Keeper, start: NDArray[np.float64] | None
) -> tuple[Descent, NDArray[np.float64], float]:
    """Run the solver; where a fresh gradient denies its claim, run on from there."""
    for rounds in range(_ROUNDS):
        descent = module.solve(problem, keeper.remaining(settings), keeper, start)
        z = np.asarray(problem.operator.matvec(descent.x), dtype=np.float64)
        gradient = problem.gradient(descent.x, z)
        claimed = descent.status is Status.CONVERGED
        if not claimed or np.linalg.norm(gradient) <= settings.tol * (1.0 + _ROUNDING) or rounds == _ROUNDS - 1:
            break
        keeper.next_round(descent)
        start = descent.x
    return descent, gradient, problem.value(descent.x, z)


class _Keeper:
    """Clock, limits and history; called by the solver once an iteration."""

    def __init__(self, time_limit: float | None, callback: Callable[[Intermediate], bool | None] | None) -> None:
        self.time_limit, self.callback = time_limit, callback
        self.history: list[Step] = []
        self.reason: Status | None = None
        self.iterations = self.products = 0
        self.began = time.perf_counter()

    def elapsed(self) -> float:
        return time.perf_counter() - self.began

    def next_round(self, descent: Descent) -> None:
        """What a round has used counts on, with the two products that checked it: they led to another round."""
        self.iterations += descent.iterations
        self.products += descent.n_products + 2

    def remaining(self, settings: Any) -> Any:
        if settings.max_iter < 0 or self.iterations == 0:
            return settings
        return replace(settings, max_iter=max(0, settings.max_iter - self.iterations))

    def __call__(self, progress: Progress) -> bool:
        p = progress
        line = (p.iteration + self.iterations, self.elapsed(), p.value, p.gradient_norm, p.n_products + self.products)
        self.history.append(Step(*line))
        if self.callback is not None:
            try:
                if self.callback(Intermediate(*line, x=p.x)) is True:
                    self.reason = Status.STOPPED
            except StopIteration:
                self.reason = Status.STOPPED
        if self.reason is None and self.time_limit is not None and self.elapsed() >= self.time_limit:
            self.reason = Status.TIME_LIMIT
        return self.reason is not None
