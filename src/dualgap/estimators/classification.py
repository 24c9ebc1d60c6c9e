"""Support vector classification: `SVC` and `NuSVC`, two classes, one against one or one against the rest."""

from __future__ import annotations

import warnings
from itertools import combinations, islice
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_consistent_length

from dualgap.estimators import calibration
from dualgap.estimators.base import SHARED_CONSTRAINTS, KernelSVM, Solved
from dualgap.estimators.class_labels import encode_classes, weighted
from dualgap.estimators.parameters import documented
from dualgap.estimators.session import controlled
from dualgap.kernels.lowrank import LowRankGram

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from dualgap.formulations import Model
    from dualgap.kernels.gram import Gram


class _KernelClassifier(ClassifierMixin, KernelSVM):  # type: ignore[misc]
    """Fitting and prediction of both classifiers."""

    _against_rest = False  # set by `fit`: one task a class, or a pair of classes
    _tie_order: NDArray[np.intp] | None = None  # of a model from a LIBSVM file, whose classes come in their own order

    def _has_probability(self) -> bool:
        if not calibration.wanted(self.probability):
            raise AttributeError("predict_proba is not available when probability=False")
        return True

    @_fit_context(prefer_skip_nested_validation=True)
    @controlled
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` the kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Rescales C a sample; a sample of weight zero (or less) is left out.

        Returns
        -------
        self : object
        """
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. Pass class labels."
            )
        X, y = self._check_fit_data(X, y)
        check_consistent_length(X, y)
        frequency = self._check_weights(sample_weight, len(y))
        codes, weight = self._check_classes(y, frequency)
        self._session.open(X, weight, codes, self.classes_)
        gram, phi = self._make_gram(X, frequency), self._phi(X, len(y))
        self._tie_order = None
        self._against_rest = len(self.classes_) > 2 and getattr(self, "multi_class", "ovo") == "ovr"
        pairs = list(self._pairs())
        starts = self._starts(len(self.classes_) if self._against_rest else len(pairs), self._same(X))

        def task(number: int, gram: Gram) -> Solved:
            return self._train(number, gram, codes, weight, phi, place=number, kept=starts[number])

        sizes = np.bincount(codes, minlength=len(self.classes_))
        largest = max(int(sizes[first] + sizes[second]) for first, second in pairs)
        self._session.expect(len(starts))
        if self._against_rest:
            solved = self._solve_tasks(task, len(self.classes_), gram, len(codes))
        else:
            solved = self._solve_tasks(task, len(pairs), gram, largest)
        models = list(map(self._scaled, [one.model for one in solved]))
        if isinstance(gram, LowRankGram):
            self._assemble_over_basis(X, codes, models, gram)
        else:
            self._assemble(X, codes, models)
        self.intercept_ = np.array([model.bias for model in models])
        self.parametric_coef_ = np.array([model.parametric for model in models])
        self.n_iter_ = np.array([one.result.iterations for one in solved], dtype=np.int32)
        if calibration.wanted(self.probability):
            calibration.calibrate(self, gram, phi, codes, weight, frequency)
        else:
            calibration.forget(self)
        self._keep_results(solved, X)
        return self

    def _train(
        self,
        number: int,
        gram: Gram,
        codes: NDArray[np.intp],
        weight: NDArray[np.float64],
        phi: Any,
        *,
        place: int | None = None,
        kept: Any = None,
    ) -> Solved:
        """Solve one task: a pair of classes, or a class against the rest.

        `place` and `kept` are those of `_solve_task`: a fit beside the main ones has neither.
        """
        if self._against_rest:
            target = np.where(codes == number, 1.0, -1.0)
            return self._solve_task(gram, target, weight, phi, number=place, kept=kept)
        first, second = next(islice(self._pairs(), number, None))
        if len(self.classes_) == 2:
            return self._solve_task(gram, np.where(codes == second, 1.0, -1.0), weight, phi, number=place, kept=kept)
        points = np.flatnonzero((codes == first) | (codes == second))
        target = np.where(codes[points] == first, 1.0, -1.0)
        phi = None if phi is None else phi[points]
        return self._solve_task(gram, target, weight[points], phi, points=points, number=place, kept=kept)

    def _check_classes(self, y: Any, weight: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        self.classes_, codes, self.class_weight_ = encode_classes(y, weight, self.class_weight)
        return codes, weighted(codes, weight, self.class_weight_)

    def _pairs(self) -> Iterator[tuple[int, int]]:
        return combinations(range(len(self.classes_)), 2)

    def _scaled(self, model: Model) -> Model:
        return model

    def _assemble(self, X: Any, codes: NDArray[np.intp], models: list[Model]) -> None:
        """Arrange as LIBSVM does: support vectors by class, row j of `dual_coef_` against the j-th other class.

        Against the rest there is a row for each class, because each uses all samples.
        """
        n_classes = len(self.classes_)
        used = np.zeros(len(codes), dtype=bool)
        for model in models:
            used |= model.coefficients != 0.0
        support = np.flatnonzero(used)
        support = support[np.argsort(codes[support], kind="stable")]
        self.n_support_ = np.bincount(codes[support], minlength=n_classes).astype(np.int32)
        self._keep_support(X, support)
        if self._against_rest:
            self._dual_coef = np.array([model.coefficients[support] for model in models])
            self.dual_coef_ = self._public(self._dual_coef)
            return
        coefficients = np.zeros((n_classes - 1, support.size))
        ends = [0, *np.cumsum(self.n_support_).tolist()]
        for (first, second), model in zip(self._pairs(), models, strict=True):
            of_first, of_second = slice(ends[first], ends[first + 1]), slice(ends[second], ends[second + 1])
            coefficients[second - 1, of_first] = model.coefficients[support[of_first]]
            coefficients[first, of_second] = model.coefficients[support[of_second]]
        self._dual_coef = coefficients
        self.dual_coef_ = self._public(coefficients)

    def _assemble_over_basis(self, X: Any, codes: NDArray[np.intp], models: list[Model], gram: LowRankGram) -> None:
        """Basis points by class; a row of `dual_coef_` for each pair of classes, because each uses all of them."""
        order = np.argsort(codes[gram.basis], kind="stable")
        support = gram.basis[order]
        self.n_support_ = np.bincount(codes[support], minlength=len(self.classes_)).astype(np.int32)
        self._keep_support(X, support)
        self._dual_coef = np.array([gram.expand(model.coefficients)[order] for model in models])
        self.dual_coef_ = self._public(self._dual_coef)

    def _decision_values(self, X: Any) -> NDArray[np.float64]:
        """One column a pair, or a class; positive for the pair's first class (the second where there are two)."""
        X = self._check_predict_data(X)
        n_classes = len(self.classes_)
        free = self.intercept_ + self._free_part(X)
        if n_classes == 2 or self._against_rest or self.approximation_ is not None:
            return self._kernel_sums(X, self._dual_coef.T) + free
        ends = np.concatenate([[0], np.cumsum(self.n_support_)])
        sums = [
            self._kernel_sums(X, self._dual_coef[:, ends[c] : ends[c + 1]].T, slice(ends[c], ends[c + 1]))
            for c in range(n_classes)
        ]
        pairs = [sums[first][:, second - 1] + sums[second][:, first] for first, second in self._pairs()]
        return np.column_stack(pairs) + free

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distances to the boundaries, up to the norm of the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray
            Shape (n_samples,) for two classes; else (n_samples, n_classes) for
            ``decision_function_shape="ovr"`` (and ``multi_class="ovr"``, whatever the shape asked for) and (n_samples,
            n_classes * (n_classes - 1) / 2) for "ovo".
        """
        values = self._decision_values(X)
        if len(self.classes_) == 2:
            return values.ravel()
        if self._against_rest:
            return values
        if self.decision_function_shape == "ovr":
            return np.asarray(_ovr_decision_function(values < 0, -values, len(self.classes_)))
        return values

    def predict(self, X: Any) -> NDArray[Any]:
        """Class labels of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        values = self._decision_values(X)  # first: it is what says that a model is not fitted
        return self.classes_[self._predicted(values)]

    def _predicted(self, values: NDArray[np.float64]) -> NDArray[np.intp]:
        """Places of the predicted classes, from the decision values of all tasks."""
        if len(self.classes_) == 2:
            return (values.ravel() > 0).astype(np.intp)
        if self._against_rest:
            return np.argmax(values, axis=1)
        if self.break_ties and self.decision_function_shape == "ovr":
            scores = _ovr_decision_function(values < 0, -values, len(self.classes_))
        else:
            scores = np.zeros((values.shape[0], len(self.classes_)))
            for column, (first, second) in enumerate(self._pairs()):
                won = values[:, column] > 0
                scores[:, first] += won
                scores[:, second] += ~won
        return self._highest(scores)

    def _highest(self, scores: NDArray[np.float64]) -> NDArray[np.intp]:
        """The class with the highest score; of several the first, as the model's own library counts them."""
        if self._tie_order is None:
            return np.argmax(scores, axis=1)
        return self._tie_order[np.argmax(scores[:, self._tie_order], axis=1)]

    @available_if(_has_probability)
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes; the class that `predict` names has the largest.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            A column a class, in the order of `classes_`.
        """
        return calibration.probabilities(self, self._decision_values(X))

    @available_if(_has_probability)
    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Logarithms of `predict_proba`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
        """
        return np.log(self.predict_proba(X))

    def _linear_coef(self) -> Any:
        if len(self.classes_) == 2 or self._against_rest or self.approximation_ is not None:
            return super()._linear_coef()
        import scipy.sparse as sp

        ends = np.concatenate([[0], np.cumsum(self.n_support_)])
        rows = []
        for first, second in self._pairs():
            one, two = slice(*ends[[first, first + 1]]), slice(*ends[[second, second + 1]])
            rows.append(
                self._dual_coef[second - 1 : second, one] @ self.support_vectors_[one]
                + self._dual_coef[first : first + 1, two] @ self.support_vectors_[two]
            )
        return sp.csr_matrix(np.vstack(rows)) if self._sparse else np.vstack(rows)


_CLASSIFIER_CONSTRAINTS = {
    **SHARED_CONSTRAINTS,
    "class_weight": [StrOptions({"balanced"}), dict, None],
    "decision_function_shape": [StrOptions({"ovr", "ovo"})],
    "break_ties": ["boolean"],
    "random_state": ["random_state"],
    "probability": ["boolean", Hidden(StrOptions({"deprecated"}))],
    "calibration": [StrOptions({"sigmoid", "isotonic"})],
    "calibration_cv": [Interval(Integral, 2, None, closed="left")],
}


@documented("C", "kernel", "classifier", "multi_class", "probability")
class SVC(_KernelClassifier):
    """C-support vector classification with a certificate.

    Minimises ``1/2 |w|^2 + C sum_i w_i max(0, 1 - y_i (<w, phi(x_i)> + b))``, for more than two classes a pair of
    classes at a time, or one class against the rest. Drop-in for `sklearn.svm.SVC`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualgap import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC(C=10, gap_tol=1e-6).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= 1e-6), float(model.score(X, y)) > 0.97
    (True, True)
    """

    _row = "c_svc"
    _parameter_constraints = {
        **_CLASSIFIER_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "multi_class": [StrOptions({"ovo", "ovr"})],
    }

    def __init__(
        self,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Any = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: str = "auto",
        gap_tol: float | None = None,
        time_limit: float | None = None,
        callback: Any = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        on_interrupt: str = "raise",
        parametric: Any = None,
        n_jobs: int | None = None,
        solver_options: dict[str, Any] | None = None,
        approximation: str | None = None,
        rank: int = 200,
        approximation_options: dict[str, Any] | None = None,
        multi_class: str = "ovo",
        calibration: str = "sigmoid",
        calibration_cv: int = 5,
    ) -> None:
        self._keep_parameters(locals())


def _largest_nu(weights: NDArray[np.float64]) -> float:
    """The largest nu that two classes of these weights allow."""
    return float(2.0 * weights.min() / weights.sum())


@documented("nu", "kernel", "classifier", "probability")
class NuSVC(_KernelClassifier):
    """nu-support vector classification with a certificate.

    `nu` bounds the fraction of margin errors from above and of support vectors from below. Drop-in for
    `sklearn.svm.NuSVC`; the decision function is scaled to a margin of 1 as there.
    """

    _row = "nu_svc"
    _parameter_constraints = {
        **_CLASSIFIER_CONSTRAINTS,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        probability: Any = False,
        tol: float = 1e-3,
        cache_size: float = 200,
        class_weight: Any = None,
        verbose: Any = False,
        max_iter: int = -1,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        random_state: Any = None,
        solver: str = "auto",
        gap_tol: float | None = None,
        time_limit: float | None = None,
        callback: Any = None,
        warm_start: bool = False,
        checkpoint: Any = None,
        on_interrupt: str = "raise",
        parametric: Any = None,
        n_jobs: int | None = None,
        solver_options: dict[str, Any] | None = None,
        approximation: str | None = None,
        rank: int = 200,
        approximation_options: dict[str, Any] | None = None,
        calibration: str = "sigmoid",
        calibration_cv: int = 5,
    ) -> None:
        self._keep_parameters(locals())

    def _check_classes(self, y: Any, weight: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
        try:
            return super()._check_classes(y, weight)
        except ValueError as error:
            if "same class" not in str(error):
                raise
            raise ValueError(f"specified nu is infeasible: {error}") from None

    def _row_parameters(self, y: Any, weight: Any) -> dict[str, Any]:
        """nu, and a penalised bias where the classes of this task do not allow it with a free one.

        Two classes that do not allow nu are an error (of `build`), as in LIBSVM. Where class weights are what makes the
        difference (LIBSVM does not read them), or where it is one pair of several that share a nu, there is a machine
        all the same: with a penalised bias every nu has a solution, which leans towards the heavier class.
        """
        parameters = super()._row_parameters(y, weight)
        both = np.array([weight[y < 0].sum(), weight[y > 0].sum()])
        largest = _largest_nu(both)
        if parameters["nu"] <= largest:
            return parameters
        with np.errstate(divide="ignore", invalid="ignore"):
            unweighted = both / self.class_weight_ if len(self.classes_) == 2 else both
        if len(self.classes_) > 2 or parameters["nu"] <= _largest_nu(unweighted):
            warnings.warn(
                f"nu={self.nu!r} exceeds 2 min(n+, n-)/n = {largest:.6g} of the weights of two classes, beyond which "
                f"no margin exists with a free bias: theirs is penalised. Use a smaller nu, or other class weights.",
                UserWarning,
                stacklevel=2,
            )
            parameters["bias"] = "penalised"
        return parameters

    def _scaled(self, model: Model) -> Model:
        """Divide by the margin rho, as LIBSVM does."""
        from dataclasses import replace

        assert model.rho is not None
        if model.rho <= np.finfo(float).tiny:
            warnings.warn(
                f"The margin of NuSVC is zero at nu={self.nu!r} and tol={self.tol!r}: the decision function is left "
                f"unscaled. Ask for gap_tol=1e-6 or a smaller tol first; if the margin stays zero, the classes cannot "
                f"be told apart, and a larger nu or another kernel is needed.",
                ConvergenceWarning,
                stacklevel=6,  # the caller of fit, which is wrapped three times
            )
            return model
        return replace(
            model,
            coefficients=model.coefficients / model.rho,
            bias=model.bias / model.rho,
            parametric=model.parametric / model.rho,
        )
