"""What all kernel estimators share: parameters, the Gram matrix, one solved task, kernel sums for prediction."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from inspect import Parameter, signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import _num_samples, check_array, check_is_fitted, validate_data

from dualgap import approximation
from dualgap.certificate import exact_gradient
from dualgap.estimators.certified import RUN_CONSTRAINTS, CertifiedEstimator
from dualgap.estimators.plain_arrays import plain
from dualgap.finish import finish
from dualgap.formulations import FORMULATIONS, Model, build, parametric_values, recover
from dualgap.kernels.contraction import contract
from dualgap.kernels.functions import NAMES, Kernel
from dualgap.kernels.gram import entry_cost, make_gram
from dualgap.kernels.lowrank import APPROXIMATIONS, LowRankGram
from dualgap.kernels.points import prepare
from dualgap.kernels.threads import one_blas_thread, share, thread_count
from dualgap.kernels.variance import weighted_variance
from dualgap.path.starts import scaled_start
from dualgap.result import Result
from dualgap.run import FEW, solve_under

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dualgap.approximation import Approximation
    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP

# scikit-learn's own limits, so that its users meet the same errors.
SHARED_CONSTRAINTS: dict[str, Any] = {
    **RUN_CONSTRAINTS,
    "kernel": [StrOptions(set(NAMES)), callable],
    "degree": [Interval(Integral, 0, None, closed="left")],
    "gamma": [StrOptions({"scale", "auto"}), Interval(Real, 0.0, None, closed="left")],
    "coef0": [Interval(Real, None, None, closed="neither")],
    "shrinking": ["boolean"],
    "approximation": [StrOptions(set(APPROXIMATIONS)), None],
    "rank": [Interval(Integral, 1, None, closed="left")],
    "approximation_options": [dict, None],
}


# Entries of a sparse matrix of few rows that may be filled in: 8 MB of float64.
_FEW_ENTRIES = 1 << 20
# Points of a task up to which tasks run side by side: two blocks of the block solver, whose steps are one thread's.
_SIDE_BY_SIDE = 4096
# Multiplications of a task's whole matrix from which on they do: compiled code then takes longer than a task's Python
# (a millisecond), which is one thread's at a time. Two threads took 63 ms for 45 pairs of 360 points, one took 46.
_WORTH_A_THREAD = 3e7


# What C=inf stands for: more than a coefficient of samples that can be separated in float64 comes to.
_HARD = 1e10


def _is_table(X: Any) -> bool:
    """Whether X has rows and columns of numbers; a callable kernel may take anything else with a length."""
    return sp.issparse(X) or (getattr(X, "ndim", 0) == 2 and (not hasattr(X, "dtype") or X.dtype.kind in "fiub"))


def _sequence(X: Any) -> Any:
    """Strings, graphs, ...: an array of objects, which is not ours to convert."""
    if hasattr(X, "dtype"):
        return X
    try:
        return np.asarray(X)
    except ValueError:
        objects = np.empty(len(X), dtype=object)
        objects[:] = X
        return objects


def _canonical(X: Any) -> Any:
    """Sparse rows sorted and without duplicates; the user's own matrix is left as it is."""
    if sp.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _as_dense(X: Any) -> Any:
    """Few sparse samples as dense ones: the same arithmetic, so that both give the same coefficients."""
    small = sp.issparse(X) and X.shape[0] <= FEW and X.shape[0] * X.shape[1] <= _FEW_ENTRIES
    return X.toarray() if small else X


@dataclass(frozen=True, eq=False)
class Solved:
    """One task: how it was solved, the model, and what that is worth for the true kernel where it is approximated."""

    result: Result
    model: Model
    assessment: Approximation | None


class KernelSVM(CertifiedEstimator):
    """Base of the kernel estimators; `_row` names the formulation."""

    _row: str

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        tags.input_tags.positive_only = self.kernel == "chi2"
        return tags

    # -- data ----------------------------------------------------------------------------------------------------

    def _check_fit_data(self, X: Any, y: Any, **checks: Any) -> tuple[Any, Any]:
        """Validated X (float32 stays float32) and y."""
        if sp.issparse(X) and self.kernel == "precomputed":
            raise TypeError("Sparse precomputed kernels are not supported.")
        if callable(self.kernel) and not _is_table(X):
            return _sequence(X), y
        if plain(X, y):
            checked = validate_data(self, X, y, skip_check_array=True)
            return self._checked(*checked)
        targets = {} if y is None else {"y": y}
        checked = validate_data(
            self,
            X,
            dtype=[np.float64, np.float32] if not callable(self.kernel) else None,
            order="C",
            accept_sparse="csr",
            accept_large_sparse=True,
            **targets,
            **checks,
        )
        return self._checked(*checked) if targets else self._checked(checked, None)

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Validated samples as the kernel takes them."""
        X = _canonical(X)
        if self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"Precomputed matrix must be a square matrix. Input is a {X.shape[0]}x{X.shape[1]} matrix."
            )
        self._check_chi2(X)
        return X, y

    def _check_chi2(self, X: Any) -> None:
        if self.kernel == "chi2" and (X.min() if X.shape[0] else 0) < 0:
            raise ValueError(
                f"Negative values in data passed to {type(self).__name__}: kernel='chi2' is defined for "
                f"non-negative features only; shift the data (MinMaxScaler) or use kernel='laplacian'."
            )

    def _check_predict_data(self, X: Any) -> Any:
        check_is_fitted(self)
        if callable(self.kernel) and not _is_table(X):
            return _sequence(X)
        if self.kernel == "precomputed":
            X = check_array(X, dtype=[np.float64, np.float32], order="C")
            if X.shape[1] != self.shape_fit_[0]:
                raise ValueError(
                    f"X.shape[1] = {X.shape[1]} should be equal to {self.shape_fit_[0]}, "
                    f"the number of samples at training time"
                )
            return X
        X = validate_data(
            self,
            X,
            dtype=[np.float64, np.float32] if not callable(self.kernel) else None,
            order="C",
            accept_sparse="csr",
            accept_large_sparse=True,
            reset=False,
        )
        X = _canonical(X)
        self._check_chi2(X)
        return X

    # -- fitting -------------------------------------------------------------------------------------------------

    def _make_kernel(self, X: Any, weight: Any = None) -> Kernel:
        """The kernel with `gamma` resolved as scikit-learn does; a weight counts as so many repetitions."""
        if callable(self.kernel):
            return Kernel("callable", function=self.kernel)
        gamma = self.gamma
        if self.kernel == "precomputed":
            gamma = 0.0
        elif gamma == "scale":
            variance = weighted_variance(X, weight)
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        elif gamma == "auto":
            gamma = 1.0 / X.shape[1]
        self._gamma = float(gamma)
        return Kernel(self.kernel, gamma=self._gamma, coef0=float(self.coef0), degree=int(self.degree))

    def _make_gram(self, X: Any, weight: Any = None) -> Gram:
        self._kernel = self._make_kernel(X, weight)
        options = dict(self.solver_options or {})
        gram = make_gram(
            _as_dense(X),
            self._kernel,
            cache_size=self.cache_size,
            cache=options.get("cache", "row"),
            n_jobs=self.n_jobs,
        )
        return gram if self.approximation is None else self._approximate(gram)

    def _approximate(self, gram: Gram) -> LowRankGram:
        """The low-rank matrix to train on."""
        make, options = APPROXIMATIONS[self.approximation], self.approximation_options or {}
        known = [
            name for name, parameter in signature(make).parameters.items() if parameter.kind is Parameter.KEYWORD_ONLY
        ]
        for name in options:
            if name not in known:
                raise ValueError(
                    f"approximation_options holds {name!r}, which approximation={self.approximation!r} does not take; "
                    f"it takes {', '.join(known)} (and its rank from the parameter rank)."
                )
        return make(gram, self.rank, **options)

    def _solve_task(
        self,
        gram: Gram,
        y: Any,
        weight: Any,
        phi: Any,
        *,
        points: NDArray[np.intp] | None = None,
        number: int | None = None,
        kept: Any = None,
    ) -> Solved:
        """Build, solve and recover one task; the table says which of C, nu and epsilon it reads.

        `points` are its samples (None: all), `number` is its place in the checkpoint (None: none), `kept` a solution of
        another fit to start from.
        """
        parameters = self._row_parameters(y, weight)
        problem = build(self._row, gram, y, sample_weight=weight, parametric=phi, points=points, **parameters)
        callback = self._session.callback(number)
        result = solve_under(
            self._session.control(number),
            problem,
            self.solver,
            tol=self.tol,
            gap_tol=self.gap_tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=callback,
            start=self._start(problem, kept),
            offered={"shrinking": self.shrinking},
            **self._options(),
        )
        low_rank = isinstance(gram, LowRankGram)
        if self.solver == "auto" and self.gap_tol is None and not low_rank:
            result = finish(problem, result, max_iter=self.max_iter, callback=callback)
        assessment = approximation.assess(problem, result.a, result.eta) if low_rank else None
        return Solved(result, recover(problem, result.a, result.eta), assessment)

    def _row_parameters(self, y: Any, weight: Any) -> dict[str, Any]:
        """Which of C, nu and epsilon a task reads, and their values for it."""
        values = {name: float(getattr(self, name)) for name in FORMULATIONS[self._row].parameters}
        return {name: _HARD if value == np.inf else value for name, value in values.items()}

    def _start(self, problem: DualQP, kept: Any) -> NDArray[np.float64] | None:
        """A feasible point near the solution of another fit to as many variables."""
        if kept is None or kept.shape != (problem.n,):
            return None
        # The product costs as much as a certificate, and says how far to go along the ray from 0 through the solution.
        product = exact_gradient(problem, kept) - problem.ridge * kept - problem.f0
        return scaled_start(problem, kept, product)

    def _solve_tasks(self, task: Callable[[int, Gram], Solved], count: int, gram: Gram, largest: int) -> list[Solved]:
        """Solve independent tasks over one Gram matrix: side by side where they are small, else one after another.

        One after another they share the rows that are kept, and each uses all threads. A small task cannot keep two
        threads busy, so that it gets one; callbacks and lines of progress are then not wanted to arrive mixed. Very
        small ones are mostly Python, which threads would only take from each other.
        """
        threads = thread_count(self.n_jobs)
        watched = self._session.watched
        blocks = self.solver == "block" or (self.solver == "auto" and largest > FEW)
        blocks = blocks and not callable(self.kernel)  # a user's function may not expect several threads
        # Each task would set the limit and lift it again, a tenth of a millisecond each.
        with one_blas_thread() if blocks and count > 1 else nullcontext():
            if count == 1 or threads == 1 or watched or largest > _SIDE_BY_SIDE or not blocks:
                return [task(number, gram) for number in range(count)]
            if largest**2 * entry_cost(getattr(gram, "fused", None) or gram) < _WORTH_A_THREAD:
                alone = gram.separate()  # type: ignore[attr-defined]
                return [task(number, alone) for number in range(count)]
            solved: list[Any] = [None] * count

            def piece(number: int) -> None:
                solved[number] = task(number, gram.separate())  # type: ignore[attr-defined]

            share(piece, count, threads)
            return solved

    def _same(self, X: Any) -> Any:
        """What must be equal for the solutions of one fit to be starts of the next: the shape and the classes."""
        classes = getattr(self, "classes_", None)
        shape = X.shape if hasattr(X, "shape") else (_num_samples(X),)
        return shape, None if classes is None else classes.tolist()

    def _keep_results(self, solved: list[Solved], X: Any) -> None:
        """Fitted attributes that tell how good the solution is."""
        results = [one.result for one in solved]
        self._keep_starts([result.a for result in results], self._same(X))
        assessments = [one.assessment for one in solved if one.assessment is not None]
        self.approximation_ = approximation.combine(assessments) if assessments else None
        self.shape_fit_ = X.shape if hasattr(X, "shape") else (_num_samples(X),)
        self._keep_verdict(
            [result.certificate for result in results],
            [result.history for result in results],
            [result.status for result in results],
            results[0].solver,
            shown=6,  # the caller of fit, which is wrapped three times
        )

    def _keep_support(self, X: Any, support: NDArray[np.intp]) -> None:
        self.support_ = support.astype(np.int32)
        self._sparse = sp.issparse(X)
        if self.kernel == "precomputed":
            self.support_vectors_ = np.empty((0, 0), dtype=X.dtype)
        else:
            vectors = X[support]
            # A matrix whatever the samples are, as in scikit-learn; what a callable kernel gets is left as it is.
            as_matrix = self._sparse and not callable(self.kernel)
            self.support_vectors_ = sp.csr_matrix(vectors) if as_matrix else vectors

    def _keep_expansion(self, X: Any, model: Model, gram: Gram) -> None:
        """The kernel expansion of an estimator with a single task: over the support vectors, or over the basis."""
        if isinstance(gram, LowRankGram):
            support, coefficients = gram.basis, gram.expand(model.coefficients)
        else:
            support = np.flatnonzero(model.coefficients)
            coefficients = model.coefficients[support]
        self._keep_support(X, support)
        self._dual_coef = coefficients.reshape(1, -1)
        self.dual_coef_ = self._public(self._dual_coef)
        self.n_support_ = np.array([support.size], dtype=np.int32)
        self.parametric_coef_ = model.parametric.reshape(1, -1)

    def _public(self, coefficients: NDArray[np.float64]) -> Any:
        """Coefficients as users see them: sparse where the data was."""
        return sp.csr_matrix(coefficients) if self._sparse and not callable(self.kernel) else coefficients.copy()

    # -- prediction ----------------------------------------------------------------------------------------------

    def _kernel_sums(self, X: Any, weights: NDArray[np.float64], chosen: slice = slice(None)) -> NDArray[np.float64]:
        """``K(X, support vectors) @ weights`` for some of the support vectors; `weights` has a row each."""
        out = np.zeros((_num_samples(X), weights.shape[1]))
        if weights.shape[0] == 0:
            return out
        if self.kernel == "precomputed":
            out += X[:, self.support_[chosen]] @ weights
            return out
        vectors = prepare(self.support_vectors_[chosen], self._kernel, centred=not sp.issparse(X))
        contract(self._kernel, prepare(X, self._kernel, vectors), vectors, weights, out, n_jobs=self.n_jobs)
        return out

    def _free_part(self, X: Any) -> NDArray[np.float64]:
        """The semi-parametric part of the decision function, a column a task."""
        if self.parametric_coef_.shape[1] == 0:
            return np.zeros((1, self.parametric_coef_.shape[0]))
        return parametric_values(self.parametric, X, _num_samples(X)) @ self.parametric_coef_.T

    @property
    def coef_(self) -> Any:
        """Weights of the features, for a linear kernel."""
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        coef = self._linear_coef()
        # Read-only, because writing to it would not change predictions.
        (coef.data if sp.issparse(coef) else coef).flags.writeable = False
        return coef

    def _linear_coef(self) -> Any:
        product = self._dual_coef @ self.support_vectors_
        return sp.csr_matrix(product) if self._sparse else np.asarray(product)
