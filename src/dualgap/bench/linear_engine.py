"""How dualgap solves the linear problems of the comparison: by its public `LinearSVC`, as a user would.

The reference that everybody is measured by is the exception: it comes from `solve`, because the judge recomputes its
certificate from the dual variables, which the estimator does not publish.
"""

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
# The goal of a run that is to be a reference has this key.
REFERENCE = "reference"


def prepare_ours(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int) -> Callable[[Goal], Fit]:
    """The estimator; checking the samples, solving and the certificate are all inside the clock."""

    def ready(goal: Goal) -> Fit:
        if REFERENCE in goal:
            return Fit(lambda: _refer(X, y, machine, threads, goal), lambda found: found)
        from dualgap.estimators import LinearSVC

        solver = _SOLVERS[int(goal.get("solver", 0))]
        model = LinearSVC(
            loss=machine.loss,
            C=machine.C,
            fit_intercept=machine.intercept,
            gap_tol=goal["gap_tol"],
            max_iter=-1,
            time_limit=goal.get("time_limit"),
            solver=solver,
            solver_options=_seed(X, y, machine, solver, goal),
            n_jobs=threads,
        )
        return Fit(lambda: model.fit(X, y), _read)

    return ready


def _seed(X: Any, y: NDArray[np.float64], machine: LinearMachine, solver: str, goal: Goal) -> dict[str, Any]:
    """The seed as an option, where there is one and the solver draws anything."""
    if "seed" not in goal:
        return {}
    options = choose(linear_problem(X, y, machine), solver)[1].Options
    return {"seed": int(goal["seed"])} if "seed" in {f.name for f in fields(options)} else {}


def _read(model: Any) -> Weights:
    certificate = model.certificate_
    return Weights(
        np.ravel(model.coef_).astype(np.float64),
        float(np.ravel(model.intercept_)[0]) if model.fit_intercept else 0.0,
        claimed=(certificate.primal, certificate.relative_gap),
        history=thinned(model.history_.events),
        solver=model.solver_,
    )


def _refer(X: Any, y: NDArray[np.float64], machine: LinearMachine, threads: int, goal: Goal) -> Weights:
    """The weights of a run whose dual variables come along."""
    problem = linear_problem(X, y, machine, threads)
    result: Result = solve(problem, gap_tol=goal["gap_tol"], time_limit=goal.get("time_limit"), warn=False)
    used = np.flatnonzero(result.a)
    gram: Any = problem.gram
    weights = gram.operator.transposed((y * result.a)[used], used)
    b = float(weights[-1]) if machine.intercept else 0.0
    return Weights(weights[: X.shape[1]], b, result.a, history=thinned(result.history.events), solver=result.solver)
