"""Linear support vector classification: `LinearSVC`, one class against the rest or all classes at once."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.linear_model._base import LinearClassifierMixin, SparseCoefMixin
from sklearn.utils._param_validation import Interval, StrOptions

from dualgap.crammer_singer import solve_crammer_singer
from dualgap.estimators.class_labels import encode_classes, weighted
from dualgap.estimators.linear_base import BIAS_CONSTRAINTS, LINEAR_CONSTRAINTS, LinearSVM, LinearTask
from dualgap.estimators.linear_streaming import check_streamed, solve_rows
from dualgap.estimators.parameters import documented
from dualgap.estimators.session import controlled
from dualgap.kernels.row_blocks import RowBlocks

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram

_ROWS = {"hinge": "c_svc", "squared_hinge": "squared_hinge"}


@documented("penalty", "C", "linear classifier", "linear bias", "linear", "compatible", kind="linear")
class LinearSVC(LinearClassifierMixin, SparseCoefMixin, LinearSVM):  # type: ignore[misc]
    """Linear support vector classification with a certificate.

    Minimises ``1/2 |w|^2 + C sum_i w_i max(0, 1 - y_i (<w, x_i> + b))^2``, or with the hinge loss itself, or with the
    sum of the absolute weights for a penalty; for more than two classes one class against the rest at a time. Drop-in
    for `sklearn.svm.LinearSVC`.

    Notes
    -----
    `tol` is a relative duality gap: the objective is within that fraction of its optimum, which `certificate_` proves.
    LIBLINEAR's criterion of the same name and default is one of gradients, and proves nothing of the kind.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualgap import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC(loss="hinge", gap_tol=1e-6).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= 1e-6), model.coef_.shape
    (True, (3, 4))
    """

    _parameter_constraints = {
        **LINEAR_CONSTRAINTS,
        **BIAS_CONSTRAINTS,
        "penalty": [StrOptions({"l1", "l2"})],
        "loss": [StrOptions(set(_ROWS))],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "multi_class": [StrOptions({"ovr", "crammer_singer"})],
        "class_weight": [StrOptions({"balanced"}), dict, None],
    }

    def __init__(
        self,
        penalty: str = "l2",
        loss: str = "squared_hinge",
        *,
        dual: bool | str = "auto",
        tol: float = 1e-4,
        C: float = 1.0,
        multi_class: str = "ovr",
        fit_intercept: bool = True,
        intercept_scaling: float = 1,
        class_weight: Any = None,
        verbose: Any = 0,
        random_state: Any = None,
        max_iter: int = 1000,
        solver: str = "auto",
        gap_tol: float | None = None,
        time_limit: float | None = None,
        callback: Any = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        on_interrupt: str = "raise",
        parametric: Any = None,
        n_jobs: int | None = None,
        penalize_intercept: bool | str = "auto",
        cache_size: float = 200,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._keep_parameters(locals())

    @_fit_context(prefer_skip_nested_validation=True)
    @controlled
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features), or RowBlocks
            Training samples; `stream_libsvm` and `stream_rows` make a RowBlocks of what does not fit into memory.
        y : array-like of shape (n_samples,)
            Class labels; None where a RowBlocks has its own.
        sample_weight : array-like of shape (n_samples,), default=None
            Rescales C a sample; a sample of weight zero (or less) is left out.

        Returns
        -------
        self : object
        """
        if isinstance(X, RowBlocks):
            y = check_streamed(self, X, y)
            self._refuse_joint()
        elif y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Pass class labels."
            )
        else:
            X, y = self._check_data(X, y)
        weight = self._check_weights(sample_weight, X.shape[0])
        self.classes_, codes, factors = encode_classes(y, weight, self.class_weight)
        if isinstance(X, RowBlocks):
            coef, bias, results = self._fit_streamed(X, codes, weight, factors)
        else:
            coef, bias, results = self._fit_in_memory(X, codes, weight, factors)
        self.coef_ = coef
        self.intercept_ = bias if self.fit_intercept else 0.0
        self.n_iter_ = max(result.iterations for result in results)
        self._keep_verdict(
            [result.certificate for result in results],
            [result.history for result in results],
            [result.status for result in results],
            getattr(results[0], "solver", self._own_solver()),
            shown=5,  # the caller of fit, which is wrapped three times
        )
        return self

    def _fit_in_memory(
        self, X: Any, codes: NDArray[np.intp], weight: NDArray[np.float64], factors: NDArray[np.float64]
    ) -> tuple[Any, Any, list[Any]]:
        """Weights and biases, a row a class or a single one, and how they were found."""
        self._session.open(X, weight, codes, self.classes_)
        if self.multi_class == "crammer_singer":
            return self._fit_jointly(X, codes, weighted(codes, weight, factors))
        if self.penalty == "l1":
            return self._fit_sparsely(X, codes, weight, factors)
        return self._fit_tasks(X, codes, weight, factors)

    def _own_solver(self) -> str:
        return "crammer_singer" if self.multi_class == "crammer_singer" else "l1svm"

    def _penalised(self) -> bool:
        """As scikit-learn does where it has the model, which leaves the hinge loss with absolute weights."""
        if self.penalize_intercept == "auto":
            return self.multi_class == "crammer_singer" or (self.penalty, self.loss) != ("l1", "hinge")
        return bool(self.penalize_intercept)

    def _binary_tasks(
        self, codes: NDArray[np.intp], weight: NDArray[np.float64], factors: NDArray[np.float64]
    ) -> tuple[int, Callable[[int], tuple[NDArray[np.float64], NDArray[np.float64]]]]:
        """How many tasks there are, and the function that makes the targets and weights of each.

        Against the rest, a class has its weight and the rest has none, as in LIBLINEAR.
        """
        if len(factors) == 2:
            return 1, lambda number: (np.where(codes == 1, 1.0, -1.0), weighted(codes, weight, factors))

        def task(number: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
            mine = codes == number
            return np.where(mine, 1.0, -1.0), np.where(mine, factors[number] * weight, weight)

        return len(factors), task

    def _fit_tasks(
        self, X: Any, codes: NDArray[np.intp], weight: NDArray[np.float64], factors: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[Any]]:
        """Weights and biases with the squared weights for a penalty, a row a task, and how they were found."""
        count, make = self._binary_tasks(codes, weight, factors)
        constant, bias = self._bias()
        gram, phi, starts = self._make_gram(X, constant), self._phi(X, X.shape[0]), self._starts(count)

        def task(number: int, gram: Gram) -> LinearTask:
            target, task_weight = make(number)
            row, kept = _ROWS[self.loss], starts[number]
            return self._solve_task(row, X, gram, target, task_weight, phi, bias=bias, kept=kept, number=number)

        tasks = self._solve_tasks(task, count, gram)
        self._keep_starts([one.kept for one in tasks])
        self.parametric_coef_ = np.array([one.model.parametric for one in tasks])
        weights, biases = np.array([one.weights for one in tasks]), np.array([one.bias for one in tasks])
        return weights, biases, [one.result for one in tasks]

    def _refuse_joint(self) -> None:
        if self.multi_class == "crammer_singer" or self.penalty == "l1":
            raise ValueError("streamed rows are for penalty='l2' and multi_class='ovr'; load the data for the others.")

    def _fit_streamed(
        self, blocks: RowBlocks, codes: NDArray[np.intp], weight: NDArray[np.float64], factors: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[Any]]:
        """The same over rows that are not in memory, task after task."""
        count, make = self._binary_tasks(codes, weight, factors)
        self._session.expect(count)
        results = [solve_rows(self, _ROWS[self.loss], blocks, *make(number), number) for number in range(count)]
        self._keep_starts([])
        self.parametric_coef_ = np.empty((count, 0))
        return np.array([r.weights for r in results]), np.array([r.bias for r in results]), results

    def _fit_sparsely(
        self, X: Any, codes: NDArray[np.intp], weight: NDArray[np.float64], factors: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[Any]]:
        """The same with the absolute weights for a penalty."""
        from dualgap.l1svm import solve_l1_svm

        self._refuse_parametric("penalty='l1'")
        count, make = self._binary_tasks(codes, weight, factors)
        kind = ("penalised" if self._penalised() else "free") if self.fit_intercept else "none"
        self._session.expect(count)
        size = X.shape[1] + (kind != "none")
        starts, results = self._starts(count, kind), []
        for number in range(count):
            target, task_weight = make(number)
            task, kept = self._session.task(number, (size,)), starts[number]
            found = solve_l1_svm(
                X,
                target,
                float(self.C),
                loss=self.loss,
                sample_weight=task_weight,
                bias=kind,
                intercept_scaling=float(self.intercept_scaling),
                gap_tol=self._goal(),
                max_iter=self.max_iter,
                time_limit=self.time_limit,
                callback=task.callback,
                start=kept if task.start is None and np.shape(kept) == (size,) else task.start,
            )
            results.append(task.ended(np.append(found.coef, found.intercept)[:size], found))
        self._keep_starts([np.append(found.coef, found.intercept)[:size] for found in results], kind)
        weights = np.array([np.asarray(result.coef).ravel() for result in results])
        return weights, np.array([float(result.intercept) for result in results]), results

    def _fit_jointly(
        self, X: Any, codes: NDArray[np.intp], weight: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], list[Any]]:
        """All classes at once (Crammer and Singer)."""
        self._refuse_parametric("multi_class='crammer_singer'")
        if self.fit_intercept and not self._penalised():
            raise ValueError(
                "multi_class='crammer_singer' has a penalised intercept only; use penalize_intercept='auto' (or True), "
                "a larger intercept_scaling, or multi_class='ovr'."
            )
        count = len(self.classes_)
        kept = self._starts(1)[0]
        shape = (X.shape[0], count)
        task = self._session.task(0, shape)
        found = solve_crammer_singer(
            X,
            codes,
            float(self.C) * weight,
            n_classes=count,
            intercept_scaling=float(self.intercept_scaling) if self.fit_intercept else 0.0,
            gap_tol=self._goal(),
            max_iter=self.max_iter,
            time_limit=self.time_limit,
            callback=task.callback,
            start=kept if task.start is None and np.shape(kept) == shape else task.start,
            look=task.look,
        )
        result = task.ended(found.b, found)
        self._keep_starts([result.b])
        if count > 2:
            return result.coef, result.intercept, [result]
        difference = (result.coef[1] - result.coef[0]).reshape(1, -1)
        return difference, np.array([result.intercept[1] - result.intercept[0]]), [result]

    def _refuse_parametric(self, choice: str) -> None:
        if self.parametric is not None:
            raise ValueError(f"parametric is not available with {choice}; leave it out, or use penalty='l2' and 'ovr'.")
        self.parametric_coef_ = np.empty((1, 0))

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distances to the boundaries, up to the norm of the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray
            Shape (n_samples,) for two classes, positive for the second one; else (n_samples, n_classes).
        """
        values = self._values(self._check_new_data(X)) + self.intercept_
        return values.ravel() if values.shape[1] == 1 else values
