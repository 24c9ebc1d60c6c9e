"""How dualgap solves the linear problems of the comparison: the one place to change when that does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.bench.linear_scoring import Weights, linear_problem
from dualgap.bench.packages import Fit, thinned
from dualgap.run import choose, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.bench.linear_problems import LinearMachine
    from dualgap.bench.packages import Goal
    from dualgap.result import Result

# "auto" goes from one to the other as it sees fit: both are to be compiled before the clock runs. Goals hold numbers.
_SOLVERS = ("auto", "dcd", "newton")
WARM_UP: tuple[Goal, ...] = tuple({"gap_tol": 1e-4, "solver": float(k)} for k in range(len(_SOLVERS)))


def prepare_ours(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int) -> Callable[[Goal], Fit]:
    """The engine; the Gram matrix, the problem and the weights are inside the clock, as they are in an estimator."""

    def fit(goal: Goal) -> tuple[Result, NDArray[np.float64]]:
        problem = linear_problem(X, y, machine, threads)
        solver = _SOLVERS[int(goal.get("solver", 0))]
        options: dict[str, Any] = {}
        # Not every solver draws anything.
        if "seed" in goal and "seed" in {f.name for f in fields(choose(problem, solver)[1].Options)}:
            options["seed"] = int(goal["seed"])
        result = solve(problem, solver, gap_tol=goal["gap_tol"], time_limit=goal.get("time_limit"), **options)
        used = np.flatnonzero(result.a)
        gram: Any = problem.gram
        return result, gram.operator.transposed((y * result.a)[used], used)

    def read(found: tuple[Result, NDArray[np.float64]]) -> Weights:
        result, weights = found
        b = float(weights[-1]) if machine.intercept else 0.0
        return Weights(weights[: X.shape[1]], b, result.a, thinned(result.history.events), result.solver)

    return lambda goal: Fit(lambda: fit(goal), read)
