"""Fitted estimators turned into scikit-learn's, and scikit-learn's into ours.

Nothing is trained again: support vectors, coefficients and biases move, with the parameters that both libraries have.
scikit-learn keeps its coefficients twice, as users see them and, under private names, with the signs of LIBSVM, which
for two classes are the opposite ones.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp
from sklearn import svm
from sklearn.metrics.pairwise import chi2_kernel, laplacian_kernel
from sklearn.utils.validation import check_is_fitted

from dualgap.estimators.classification import SVC, NuSVC
from dualgap.estimators.foreign import adopt_expansion, adopt_weights
from dualgap.estimators.linear_classification import LinearSVC
from dualgap.estimators.linear_outliers import LinearOneClassSVM
from dualgap.estimators.linear_regression import LinearSVR
from dualgap.estimators.outliers import OneClassSVM
from dualgap.estimators.regression import SVR, NuSVR

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KERNEL: Final[dict[Any, Any]] = {
    SVC: svm.SVC,
    NuSVC: svm.NuSVC,
    SVR: svm.SVR,
    NuSVR: svm.NuSVR,
    OneClassSVM: svm.OneClassSVM,
}
_LINEAR: Final[dict[Any, Any]] = {LinearSVC: svm.LinearSVC, LinearSVR: svm.LinearSVR}
# Kernels that scikit-learn has as functions, and not by name in its machines.
_FUNCTIONS: Final = {"laplacian": laplacian_kernel, "chi2": chi2_kernel}
# Where scikit-learn keeps the samples that a function as kernel is evaluated at.
_SAMPLES: Final = "_BaseLibSVM__Xfit"


def to_sklearn(estimator: Any) -> Any:
    """A fitted scikit-learn estimator that predicts as a fitted one of ours does.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC, LinearSVR or LinearOneClassSVM
        Fitted.

    Returns
    -------
    estimator of `sklearn.svm`
        Of the same name; a `LinearOneClassSVM` becomes a `OneClassSVM` with a linear kernel.

    Raises
    ------
    ValueError
        Where it is not fitted, or scikit-learn has no such machine.
    """
    check_is_fitted(estimator)
    if estimator.parametric_coef_.shape[1]:
        raise ValueError("scikit-learn has no semi-parametric machines; fit without parametric.")
    kind = type(estimator)
    if kind in _LINEAR:
        return _keep_features(_linear_to_sklearn(estimator, _LINEAR[kind]), estimator)
    if kind is LinearOneClassSVM:
        return _keep_features(_half_space(estimator), estimator)
    if kind not in _KERNEL:
        raise ValueError(
            f"scikit-learn has no counterpart of {kind.__name__}; use dualgap.save or to_onnx to store it."
        )
    if hasattr(estimator, "classes_") and len(estimator.classes_) > 2:
        if estimator._against_rest or estimator.approximation_ is not None:
            raise ValueError(
                "scikit-learn's SVC tells classes apart one against one, each pair by its own support vectors; fit "
                "with multi_class='ovo' and approximation=None."
            )
    return _keep_features(_machine_to_sklearn(estimator, _KERNEL[kind]), estimator)


def from_sklearn(fitted: Any) -> Any:
    """A fitted estimator of ours that predicts as a fitted one of scikit-learn does.

    Parameters
    ----------
    fitted : SVC, NuSVC, SVR, NuSVR, OneClassSVM, LinearSVC or LinearSVR of `sklearn.svm`
        Fitted.

    Returns
    -------
    estimator of this package
        Of the same name and with the same parameters. Its `certificate_` says that there is none: `fit` it for one.

    Raises
    ------
    ValueError
        Where it is none of these, or not fitted.

    Examples
    --------
    >>> import sklearn.svm
    >>> from sklearn.datasets import load_iris
    >>> import dualgap
    >>> X, y = load_iris(return_X_y=True)
    >>> theirs = sklearn.svm.SVC().fit(X, y)
    >>> ours = dualgap.from_sklearn(theirs)
    >>> bool((ours.predict(X) == theirs.predict(X)).all())
    True
    """
    for ours, theirs in (_KERNEL | _LINEAR).items():
        if type(fitted) is theirs:
            check_is_fitted(fitted)
            parameters = _shared(fitted, ours)
            if "probability" in parameters:  # by now it has several spellings of no
                parameters["probability"] = bool(fitted._probA.size)
            estimator = ours(**parameters)
            made = _weights_from if ours in _LINEAR else _machine_from
            return _keep_features(made(estimator, fitted), fitted)
    names = ", ".join(theirs.__name__ for theirs in (_KERNEL | _LINEAR).values())
    raise ValueError(f"from_sklearn takes a fitted {names} of sklearn.svm; got {type(fitted).__name__}.")


def _shared(estimator: Any, cls: Any) -> dict[str, Any]:
    """Parameters of the estimator that the class has as well."""
    names = set(cls._get_param_names())
    return {name: value for name, value in estimator.get_params(deep=False).items() if name in names}


def _keep_features(made: Any, estimator: Any) -> Any:
    if hasattr(estimator, "n_features_in_"):
        made.n_features_in_ = estimator.n_features_in_
    if hasattr(estimator, "feature_names_in_"):
        made.feature_names_in_ = estimator.feature_names_in_.copy()
    return made


# -- to scikit-learn ---------------------------------------------------------------------------------------------


def _machine_to_sklearn(estimator: Any, cls: Any) -> Any:
    parameters = _shared(estimator, cls)
    if not len(getattr(estimator, "probA_", ())):  # isotonic regression is unknown there
        parameters.pop("probability", None)
    if estimator._kernel.name in _FUNCTIONS:
        parameters["kernel"] = partial(_FUNCTIONS[estimator._kernel.name], gamma=estimator._gamma)
    made = cls(**parameters)
    binary = len(getattr(estimator, "classes_", ())) == 2
    vectors = estimator.support_vectors_
    support, shape, sparse = estimator.support_, estimator.shape_fit_, estimator._sparse
    if callable(made.kernel):
        # scikit-learn evaluates the function at all training samples; those that matter are the support vectors.
        setattr(made, _SAMPLES, vectors)
        support, shape = np.arange(len(support), dtype=np.int32), (len(support), *shape[1:])
        vectors, sparse = np.empty((0, 0)), False
    made._sparse = sparse
    made.support_ = support.copy()
    made.shape_fit_ = shape
    made.support_vectors_ = _sparse_rows(vectors) if sparse else np.ascontiguousarray(vectors, dtype=np.float64)
    made._gamma = getattr(estimator, "_gamma", 0.0)
    counts = estimator.n_support_ if hasattr(estimator, "classes_") else np.repeat(estimator.n_support_, 2)
    made._n_support = np.asarray(counts, dtype=np.int32)
    made.dual_coef_ = _coefficients(estimator._dual_coef, sparse)
    made.intercept_ = estimator.intercept_.copy()
    made._dual_coef_ = -made.dual_coef_ if binary else made.dual_coef_.copy()
    made._intercept_ = -made.intercept_ if binary else made.intercept_.copy()
    made.fit_status_ = estimator.fit_status_
    made.n_iter_ = estimator.n_iter_
    made._num_iter = np.atleast_1d(np.asarray(estimator.n_iter_, dtype=np.int32))
    made._probA = np.array(getattr(estimator, "probA_", np.empty(0)), dtype=np.float64)
    made._probB = np.array(getattr(estimator, "probB_", np.empty(0)), dtype=np.float64)
    made._effective_probability = bool(made._probA.size)
    if hasattr(estimator, "classes_"):
        made.classes_ = estimator.classes_.copy()
        made.class_weight_ = np.asarray(estimator.class_weight_, dtype=np.float64)
    elif hasattr(estimator, "offset_"):
        made.class_weight_ = np.empty(0)
        made.offset_ = estimator.offset_.copy()
    return made


def _sparse_rows(vectors: Any) -> Any:
    rows = sp.csr_matrix(vectors, dtype=np.float64, copy=True)
    rows.sort_indices()
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int32)
    return rows


def _coefficients(coefficients: NDArray[np.float64], sparse: bool) -> Any:
    """Coefficients as scikit-learn has them: its sparse ones spell out every zero, which its prediction relies on."""
    if not sparse:
        return coefficients.copy()
    rows, count = coefficients.shape
    columns = np.tile(np.arange(count, dtype=np.int32), rows)
    ends = (np.arange(rows + 1) * count).astype(np.int32)
    return sp.csr_matrix((coefficients.ravel().copy(), columns, ends), shape=(rows, count))


def _linear_to_sklearn(estimator: Any, cls: Any) -> Any:
    made = cls(**_shared(estimator, cls))
    made.coef_ = estimator.coef_.copy()
    made.intercept_ = np.copy(estimator.intercept_) if np.ndim(estimator.intercept_) else 0.0
    made.n_iter_ = estimator.n_iter_
    if hasattr(estimator, "classes_"):
        made.classes_ = estimator.classes_.copy()
    return made


def _half_space(estimator: Any) -> Any:
    """A one-class machine whose only support vector is the weights."""
    made = svm.OneClassSVM(kernel="linear", nu=estimator.nu)
    made._sparse, made._gamma, made.fit_status_ = False, 0.0, estimator.fit_status_
    made.support_ = np.zeros(1, dtype=np.int32)
    made.support_vectors_ = np.ascontiguousarray(estimator.coef_, dtype=np.float64)
    made.shape_fit_ = (1, estimator.n_features_in_)
    made._n_support = np.array([1, 1], dtype=np.int32)
    made.dual_coef_, made._dual_coef_ = np.ones((1, 1)), np.ones((1, 1))
    made.intercept_, made._intercept_ = estimator.intercept_.copy(), estimator.intercept_.copy()
    made.offset_ = estimator.offset_.copy()
    made._probA, made._probB, made.class_weight_ = np.empty(0), np.empty(0), np.empty(0)
    made._effective_probability = False
    made.n_iter_, made._num_iter = estimator.n_iter_, np.array([estimator.n_iter_], dtype=np.int32)
    return made


# -- from scikit-learn -------------------------------------------------------------------------------------------


def _machine_from(estimator: Any, fitted: Any) -> Any:
    vectors = fitted.support_vectors_
    if callable(fitted.kernel):
        vectors = getattr(fitted, _SAMPLES)[fitted.support_]
    coefficients = fitted.dual_coef_
    classes = getattr(fitted, "classes_", None)
    adopt_expansion(
        estimator,
        gamma=float(fitted._gamma),
        vectors=vectors.copy(),
        support=fitted.support_.copy(),
        coefficients=coefficients.toarray() if sp.issparse(coefficients) else np.array(coefficients),
        intercept=np.array(fitted.intercept_, dtype=np.float64),
        n_support=np.array(fitted.n_support_),
        shape=fitted.shape_fit_,
        origin="scikit-learn",
        classes=None if classes is None else classes.copy(),
    )
    if classes is not None:
        estimator.class_weight_ = np.array(fitted.class_weight_, dtype=np.float64)
        if fitted._probA.size:
            estimator.probA_, estimator.probB_ = fitted._probA.copy(), fitted._probB.copy()
    return estimator


def _weights_from(estimator: Any, fitted: Any) -> Any:
    coef = fitted.coef_.toarray() if sp.issparse(fitted.coef_) else np.array(fitted.coef_)
    classes = getattr(fitted, "classes_", None)
    intercept = np.array(fitted.intercept_, dtype=np.float64) if np.ndim(fitted.intercept_) else 0.0
    return adopt_weights(estimator, coef, intercept, "scikit-learn", None if classes is None else classes.copy())
