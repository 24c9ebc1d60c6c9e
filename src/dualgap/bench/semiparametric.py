"""The MPD paper's experiment: semi-parametric regression from m = 50 to m = 100 000 (section 6, figure 2).

Data: x uniform on [0, 10], ``y = sin(x) + sinc(2 pi (x - 5)) + noise``, ``sinc(z) = sin(z) / z``, the noise uniform
with standard deviation 0.2 (added once; the print adds it twice). Model: ``f(x) = <w, k(x, .)> + beta_1 sin(x) + beta_2
sinc(2 pi (x - 5))`` with epsilon 0.05 and box C / m, for C around 1. Both coefficients are 1 in truth. The paper does
not say which kernel; here it is ``exp(-|x - x'|^2)``, as wide as the target's slowest feature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.formulations import build, recover
from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import make_gram
from dualgap.run import solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.problem import DualQP

SIZES = (50, 500, 5000, 20_000, 100_000)
PENALTIES = (0.1, 1.0, 10.0)
_NOISE = 0.2
_EPSILON = 0.05
_GAMMA = 1.0
# The paper's thresholds of slopes and constraints.
_TOL = 0.01


@dataclass(frozen=True)
class Figures:
    """What one run of the experiment gave.

    Attributes
    ----------
    m, C, solver
        Size, penalty and who solved it.
    status : str
        How it ended.
    seconds : float
        Of the run, the certificate included.
    iterations, kernel_evaluations : int
        As the solver counts them.
    beta : tuple of float
        The coefficients of both functions.
    relative_gap, kkt_violation, infeasibility : float
        As certified.
    support : int
        Points with a coefficient.
    """

    m: int
    C: float
    solver: str
    status: str
    seconds: float
    iterations: int
    kernel_evaluations: int
    beta: tuple[float, ...]
    relative_gap: float
    kkt_violation: float
    infeasibility: float
    support: int


def functions(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The two parametric functions, one a column."""
    return np.column_stack([np.sin(x), np.sinc(2.0 * (x - 5.0))])  # numpy's sinc(z) is sin(pi z) / (pi z)


def samples(m: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Inputs and targets."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, size=m)
    half_width = _NOISE * np.sqrt(3.0)  # of a uniform distribution with this standard deviation
    return x, functions(x).sum(axis=1) + rng.uniform(-half_width, half_width, size=m)


def experiment(m: int, C: float = 1.0, *, seed: int = 0, bias: bool = False, cache_size: float = 200.0) -> DualQP:
    """The problem of size m.

    Parameters
    ----------
    m : int
        Samples; the problem has twice as many variables.
    C : float
        Penalty of the mean loss: the box is C / m, as in the paper's table 1.
    seed : int
        Of the samples.
    bias : bool
        Whether a constant is a third free function; the paper has none.
    cache_size : float
        Budget in megabytes for kernel entries.
    """
    x, y = samples(m, seed)
    gram = make_gram(x[:, None], Kernel("rbf", gamma=_GAMMA), cache_size=cache_size)
    return build("eps_svr", gram, y, C=C / m, epsilon=_EPSILON, bias=bias, parametric=functions(x))


def measure(
    m: int,
    C: float = 1.0,
    solver: str = "mpd",
    *,
    seed: int = 0,
    cache_size: float = 200.0,
    tol: float = _TOL,
    gap_tol: float | None = None,
    time_limit: float | None = None,
    **options: Any,
) -> Figures:
    """Solve the problem of size m and say what came of it."""
    problem = experiment(m, C, seed=seed, cache_size=cache_size)
    result = solve(problem, solver, tol=tol, gap_tol=gap_tol, time_limit=time_limit, warn=False, **options)
    model = recover(problem, result.a, result.eta)
    return Figures(
        m=m,
        C=C,
        solver=result.solver,
        status=result.status.name,
        seconds=result.seconds,
        iterations=result.iterations,
        kernel_evaluations=result.kernel_evaluations,
        beta=tuple(float(value) for value in model.parametric),
        relative_gap=result.certificate.relative_gap,
        kkt_violation=result.certificate.kkt_violation,
        infeasibility=result.certificate.infeasibility,
        support=int(np.count_nonzero(model.coefficients)),
    )
