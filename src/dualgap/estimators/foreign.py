"""Fitted estimators made of numbers that another library has found: they predict, and prove nothing."""

from __future__ import annotations

from math import nan
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.certificate import combine
from dualgap.kernels.functions import Kernel
from dualgap.result import Certificate, History

if TYPE_CHECKING:
    from numpy.typing import NDArray


def adopt_verdict(estimator: Any, tasks: int, origin: str) -> None:
    """Fitted attributes that tell of the training: there is nothing to tell but where the model is from.

    Parameters
    ----------
    estimator : estimator
        Of this package; its attributes are set.
    tasks : int
        Binary tasks that it was made of.
    origin : str
        The library that has trained it, as `solver_` names it.
    """
    note = f"trained by {origin}, whose model does not hold what a certificate is computed from"
    estimator.certificates_ = [Certificate(nan, nan, nan, nan, nan, nan, note) for _ in range(tasks)]
    estimator.certificate_ = combine(estimator.certificates_)
    histories = [History() for _ in range(tasks)]
    estimator.history_ = histories[0] if tasks == 1 else histories
    estimator.solver_ = origin
    estimator.status_ = None
    estimator.fit_status_ = 0


def adopt_expansion(
    estimator: Any,
    *,
    gamma: float,
    vectors: Any,
    support: NDArray[Any],
    coefficients: NDArray[np.float64],
    intercept: NDArray[np.float64],
    n_support: NDArray[Any],
    shape: tuple[int, ...],
    origin: str,
    classes: NDArray[Any] | None = None,
) -> Any:
    """Make a kernel estimator a fitted one.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR or OneClassSVM
        With its parameters.
    gamma : float
        The number that the parameter of that name stands for.
    vectors : ndarray or CSR matrix, shape (m, features)
        Support vectors; for a precomputed kernel of shape (0, 0).
    support : ndarray, shape (m,)
        Their numbers among the training samples.
    coefficients : ndarray
        In this package's signs: for two classes positive values speak for the second one.
    intercept : ndarray
        One a task, added to the sums.
    n_support : ndarray
        Support vectors of each class, or of all.
    shape : tuple of int
        Of the training data.
    origin : str
        The library that has trained it.
    classes : ndarray, optional
        Of a classifier, in order.

    Returns
    -------
    estimator
        The same one.
    """
    tasks = len(intercept)
    if callable(estimator.kernel):
        estimator._kernel = Kernel("callable", function=estimator.kernel)
    else:
        degree = estimator.degree
        estimator._kernel = Kernel(estimator.kernel, gamma=gamma, coef0=float(estimator.coef0), degree=degree)
    estimator._gamma = gamma
    estimator.shape_fit_ = shape
    if len(shape) == 2:
        estimator.n_features_in_ = shape[1]
    estimator.support_ = np.asarray(support, dtype=np.int32)
    estimator.support_vectors_ = vectors
    estimator._sparse = sp.issparse(vectors)
    estimator._dual_coef = np.ascontiguousarray(coefficients, dtype=np.float64)
    estimator.dual_coef_ = estimator._public(estimator._dual_coef)
    estimator.n_support_ = np.asarray(n_support, dtype=np.int32)
    estimator.intercept_ = np.asarray(intercept, dtype=np.float64)
    estimator.parametric_coef_ = np.empty((tasks, 0))
    estimator.approximation_ = None
    estimator.n_iter_ = 0
    if classes is not None:
        estimator.classes_ = classes
        estimator.class_weight_ = np.ones(len(classes))
        estimator._against_rest = False
        estimator._tie_order = None
        if hasattr(estimator, "calibration"):  # what a fit without probabilities leaves
            estimator.probA_, estimator.probB_ = np.empty(0), np.empty(0)
            estimator.calibration_thresholds_ = []
        estimator.n_iter_ = np.zeros(tasks, dtype=np.int32)
    elif hasattr(estimator, "score_samples"):
        estimator.offset_ = -estimator.intercept_
    adopt_verdict(estimator, tasks, origin)
    return estimator


def adopt_weights(
    estimator: Any,
    coef: NDArray[np.float64],
    intercept: Any,
    origin: str,
    classes: NDArray[Any] | None = None,
) -> Any:
    """Make a linear estimator a fitted one.

    Parameters
    ----------
    estimator : LinearSVC, LinearSVR or LinearOneClassSVM
        With its parameters.
    coef : ndarray
        Weights, of the shape that the estimator has itself.
    intercept : ndarray or float
        One a task, or 0.0 without a bias.
    origin : str
        The library that has trained it.
    classes : ndarray, optional
        Of a classifier, in order.

    Returns
    -------
    estimator
        The same one.
    """
    jointly = getattr(estimator, "multi_class", "ovr") == "crammer_singer"
    tasks = 1 if jointly or coef.ndim == 1 else coef.shape[0]
    estimator.coef_ = np.ascontiguousarray(coef, dtype=np.float64)
    estimator.intercept_ = intercept
    estimator.n_features_in_ = coef.shape[-1]
    estimator.parametric_coef_ = np.empty((tasks, 0))
    estimator.n_iter_ = 0
    if classes is not None:
        estimator.classes_ = classes
    elif hasattr(estimator, "score_samples"):
        estimator.offset_ = -np.asarray(intercept, dtype=np.float64)
    adopt_verdict(estimator, tasks, origin)
    return estimator
