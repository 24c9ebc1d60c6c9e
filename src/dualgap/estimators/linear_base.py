"""What the linear estimators share: data that is neither copied nor upcast, one solved task, weights, warm starts."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.extmath import safe_sparse_dot
from sklearn.utils.validation import check_is_fitted, validate_data

from dualgap.constraints import feasible_start
from dualgap.estimators.certified import RUN_CONSTRAINTS, CertifiedEstimator
from dualgap.estimators.linear_streaming import streamed_values
from dualgap.estimators.plain_arrays import keep_width, plain
from dualgap.finish import finish
from dualgap.formulations import FORMULATIONS, Model, build, parametric_values, recover
from dualgap.kernels.factor import Factor
from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import make_gram
from dualgap.kernels.linear_gram import LinearGram
from dualgap.kernels.row_blocks import RowBlocks
from dualgap.kernels.shifted import ShiftedGram
from dualgap.kernels.threads import one_blas_thread, share, thread_count
from dualgap.run import solve_under
from dualgap.solvers import SOLVERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP
    from dualgap.result import Result

LINEAR_CONSTRAINTS: dict[str, Any] = RUN_CONSTRAINTS
BIAS_CONSTRAINTS: dict[str, Any] = {
    "fit_intercept": ["boolean"],
    "intercept_scaling": [Interval(Real, 0.0, None, closed="neither")],
    "penalize_intercept": ["boolean", StrOptions({"auto"})],
    "dual": ["boolean", StrOptions({"auto"})],
    "random_state": ["random_state"],
}

# Solvers that work on the weights of the features; the others ask for rows of the kernel matrix.
_ON_WEIGHTS = ("auto", "newton", "dcd", "pcd", "pegasos")
# Entries of the data up to which tasks run side by side: a product with it is then one thread's work.
_SIDE_BY_SIDE = 2_000_000
# Rows of float32 data that are multiplied at a time in float64.
_ROWS = 4096


@dataclass(frozen=True, eq=False)
class LinearTask:
    """One solved task: how it was solved, weights, model, and where the next fit may start."""

    result: Result
    weights: NDArray[np.float64]
    bias: float
    model: Model
    kept: Kept | None


@dataclass(frozen=True, eq=False)
class Kept:
    """A solution for the next fit, in the units that its problem gives its variables."""

    shares: NDArray[np.float64]

    @staticmethod
    def of(problem: DualQP, a: NDArray[np.float64]) -> Kept:
        """Keep a solution."""
        return Kept(a / _units(problem))

    def start(self, problem: DualQP) -> NDArray[np.float64] | None:
        """A feasible point of another problem; None where it has other variables."""
        if self.shares.shape != (problem.n,):
            return None
        return feasible_start(problem, self.shares * _units(problem))


def _units(problem: DualQP) -> NDArray[np.float64]:
    """What variables grow with: C, unless their sum is given."""
    if np.any(problem.e):
        return np.ones(problem.n)
    return np.where(problem.ridge > 0.0, 1.0 / np.where(problem.ridge > 0.0, problem.ridge, 1.0), problem.hi)


class LinearSVM(CertifiedEstimator):
    """Base of the linear estimators."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # -- data ----------------------------------------------------------------------------------------------------

    def _check_data(self, X: Any, y: Any = None, *, reset: bool = True, **checks: Any) -> tuple[Any, Any]:
        """Validated X and y. Rows in C order or CSR are used where they lie: float32 stays float32."""
        if reset and plain(X, y):
            keep_width(self, X)
        else:
            targets = {} if y is None else {"y": y}
            checked = validate_data(
                self,
                X,
                dtype=[np.float64, np.float32],
                order="C",
                accept_sparse="csr",
                accept_large_sparse=True,
                reset=reset,
                **targets,
                **checks,
            )
            X, y = checked if targets else (checked, None)
        if sp.issparse(X) and not X.has_canonical_format:
            X = X.copy()  # the user's own matrix is left as it is
            X.sum_duplicates()
        return X, y

    def _check_new_data(self, X: Any) -> Any:
        check_is_fitted(self)
        if isinstance(X, RowBlocks):
            if X.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                    f"features as input."
                )
            return X
        return self._check_data(X, reset=False)[0]

    # -- fitting -------------------------------------------------------------------------------------------------

    def _goal(self) -> float:
        """The relative gap to reach."""
        return float(self.tol if self.gap_tol is None else self.gap_tol)

    def _penalised(self) -> bool:
        """Whether the bias is penalised like a weight."""
        return self.penalize_intercept is True or self.penalize_intercept == "auto"

    def _bias(self) -> tuple[float, bool]:
        """What is added to the kernel for a penalised bias, and whether there is one that is not penalised."""
        if not self.fit_intercept:
            return 0.0, False
        return (float(self.intercept_scaling) ** 2, False) if self._penalised() else (0.0, True)

    def _make_gram(self, X: Any, constant: float) -> Gram:
        if self.solver in _ON_WEIGHTS:
            return LinearGram(X, constant, self.n_jobs)
        cache = (self.solver_options or {}).get("cache", "row")
        gram = make_gram(X, Kernel("linear"), cache_size=self.cache_size, cache=cache, n_jobs=self.n_jobs)
        return ShiftedGram(gram, constant) if constant > 0.0 else gram

    def _solve_task(
        self, row: str, X: Any, gram: Gram, y: Any, weight: Any, phi: Any, *, bias: bool, kept: Any, number: int = 0
    ) -> LinearTask:
        """Build, solve and recover one task; the table says which of C, nu and epsilon it reads."""
        parameters: dict[str, Any] = {name: float(getattr(self, name)) for name in FORMULATIONS[row].parameters}
        problem = build(row, gram, y, sample_weight=weight, parametric=phi, bias=bias, **parameters)
        threads = gram.operator.threads if isinstance(gram, LinearGram) else self.n_jobs
        callback = self._session.callback(number)
        result = solve_under(
            self._session.control(number),
            problem,
            self.solver,
            tol=self.tol,
            gap_tol=self._goal(),
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=callback,
            start=kept.start(problem) if isinstance(kept, Kept) else None,
            offered={"n_jobs": threads},
            **self._options(),
        )
        if self.solver == "auto" and self.gap_tol is None:
            result = finish(problem, result, max_iter=self.max_iter, callback=callback)
        model = recover(problem, result.a, result.eta)
        free = model.bias
        if isinstance(gram, LinearGram):  # `recover` knows of the other kind
            weights = gram.weights(model.coefficients)
            free += gram.constant * float(model.coefficients.sum())
        else:
            used = np.flatnonzero(model.coefficients)
            weights = Factor(X, n_jobs=threads).transposed(model.coefficients[used], used)
        return LinearTask(result, weights, free, model, Kept.of(problem, result.a) if self.warm_start else None)

    def _solve_tasks(self, task: Callable[[int, Gram], LinearTask], count: int, gram: Gram) -> list[LinearTask]:
        """Solve independent tasks over one Gram matrix: side by side where they are small, else one after another.

        Callbacks and lines of progress are not wanted to arrive mixed.
        """
        threads = thread_count(self.n_jobs)
        watched = self._session.watched
        self._session.expect(count)
        small = isinstance(gram, LinearGram) and gram.n * gram.operator.row_length <= _SIDE_BY_SIDE
        solved: list[Any] = [None] * count

        def piece(number: int) -> None:
            solved[number] = task(number, gram.separate())  # type: ignore[attr-defined]

        # Each task would set the limit and lift it again.
        own = self.solver == "auto" or getattr(SOLVERS[self.solver], "OWN_THREADS", False)
        with one_blas_thread() if own and count > 1 else nullcontext():
            if count == 1 or threads == 1 or watched or not small:
                return [task(number, gram) for number in range(count)]
            share(piece, count, threads)
        return solved

    def _keep_tasks(self, tasks: list[LinearTask]) -> None:
        """Fitted attributes of solved tasks but for the weights."""
        self._keep_starts([task.kept for task in tasks])
        self.parametric_coef_ = np.array([task.model.parametric for task in tasks])
        results = [task.result for task in tasks]
        self.n_iter_ = max(result.iterations for result in results)
        self._keep_verdict(
            [result.certificate for result in results],
            [result.history for result in results],
            [result.status for result in results],
            results[0].solver,
            shown=6,  # the caller of fit, which is wrapped three times
        )

    # -- prediction ----------------------------------------------------------------------------------------------

    def _values(self, X: Any) -> NDArray[np.float64]:
        """``X coef_'`` and the semi-parametric part, a column a task, in float64."""
        coef = self.coef_ if self.coef_.ndim == 2 else self.coef_.reshape(1, -1)
        if isinstance(X, RowBlocks):
            return streamed_values(X, self._values, coef.shape[0])
        if sp.issparse(X) or sp.issparse(coef) or X.dtype == np.float64:
            values = np.asarray(safe_sparse_dot(X, coef.T, dense_output=True), dtype=np.float64)
        else:  # a product of both types would make a float64 copy of all rows
            values = np.empty((X.shape[0], coef.shape[0]))
            for first in range(0, X.shape[0], _ROWS):
                values[first : first + _ROWS] = X[first : first + _ROWS].astype(np.float64) @ coef.T
        return values + self._free_part(X)

    def _free_part(self, X: Any) -> NDArray[np.float64]:
        """The semi-parametric part of the decision function, a column a task."""
        if self.parametric_coef_.shape[1] == 0:
            return np.zeros((1, self.parametric_coef_.shape[0]))
        return parametric_values(self.parametric, X, X.shape[0]) @ self.parametric_coef_.T
