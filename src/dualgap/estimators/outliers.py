"""Outlier detection: `OneClassSVM` and `SVDD`."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _num_samples

from dualgap.estimators.base import SHARED_CONSTRAINTS, KernelSVM
from dualgap.estimators.detector import Detector
from dualgap.estimators.parameters import documented
from dualgap.estimators.session import controlled
from dualgap.kernels.functions import diagonal
from dualgap.kernels.lowrank import LowRankGram
from dualgap.kernels.points import prepare

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.formulations import Model
    from dualgap.kernels.gram import Gram


class _OutlierDetector(Detector, KernelSVM):  # type: ignore[misc]
    """Fitting and prediction of both detectors."""

    @_fit_context(prefer_skip_nested_validation=True)
    @controlled
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` the kernel matrix.
        y : Ignored
            For consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Rescales the bound of a sample; a sample of weight zero (or less) is left out.

        Returns
        -------
        self : object
        """
        X, _ = self._check_fit_data(X, None)
        n = _num_samples(X)
        weight = self._check_weights(sample_weight, n)
        self._session.open(X, weight)
        gram, kept = self._make_gram(X, weight), self._starts(1, self._same(X))[0]
        solved = self._solve_task(gram, None, weight, self._phi(X, n), number=0, kept=kept)
        self._keep_expansion(X, solved.model, gram)
        self.n_iter_ = solved.result.iterations
        self._keep_model(solved.model, gram)
        self._keep_results([solved], X)
        return self

    def _check_new(self, X: Any) -> Any:
        return self._check_predict_data(X)

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        return self._scores((self._kernel_sums(X, self._dual_coef.T) + self._free_part(X)).ravel(), X)

    def _n_terms(self) -> int:
        return int(self._dual_coef.size)

    def _magnitude(self, X: Any, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """By Cauchy and Schwarz: |k(x, z)| is at most the root of k(x, x) k(z, z)."""
        coefficients = np.abs(self._dual_coef).ravel()
        if self.kernel == "precomputed":
            return np.asarray(np.abs(X[:, self.support_]) @ coefficients)
        if callable(self.kernel) or self.kernel == "sigmoid":  # neither has such a bound
            return np.abs(scores) + float(coefficients.sum()) * float(self.kernel == "sigmoid")
        norms, own = (np.sqrt(diagonal(self._kernel, prepare(Z, self._kernel))) for Z in (self.support_vectors_, X))
        return np.asarray(2.0 * own * float(coefficients @ norms) + own**2)

    def _scores(self, sums: NDArray[np.float64], X: Any) -> NDArray[np.float64]:
        return sums


@documented("nu", "kernel")
class OneClassSVM(_OutlierDetector):
    """One-class support vector machine with a certificate.

    Minimises ``1/2 |w|^2 - nu n rho + sum_i w_i max(0, rho - <w, phi(x_i)>)`` (scikit-learn's scaling).
    Drop-in for `sklearn.svm.OneClassSVM`.
    """

    _row = "one_class"
    _parameter_constraints = {
        **SHARED_CONSTRAINTS,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        nu: float = 0.5,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: Any = False,
        max_iter: int = -1,
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
    ) -> None:
        self._keep_parameters(locals())

    def _keep_model(self, model: Model, gram: Gram) -> None:
        self.intercept_ = np.array([model.bias])
        self.offset_ = np.array([-model.bias])


@documented("radius", "kernel")
class SVDD(_OutlierDetector):
    """Support vector data description: the smallest ball around the data, with a certificate.

    Minimises ``R^2 + C sum_i w_i max(0, |phi(x_i) - c|^2 - R^2)`` over the centre c and the radius R (`radius_`);
    `certificate_` holds half of this objective. The decision function is ``R^2 - |phi(x) - c|^2``.
    """

    _row = "svdd"
    _parameter_constraints = {
        **SHARED_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="right")],
    }

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        tol: float = 1e-3,
        C: float = 1.0,
        shrinking: bool = True,
        cache_size: float = 200,
        verbose: Any = False,
        max_iter: int = -1,
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
    ) -> None:
        self._keep_parameters(locals())

    def _keep_model(self, model: Model, gram: Gram) -> None:
        assert model.radius2 is not None
        # Rounding can put the radius of a single point a hair below zero.
        self.radius_ = float(np.sqrt(max(model.radius2, 0.0)))
        self.intercept_ = np.array([2.0 * model.bias])
        self.offset_ = np.array([-2.0 * model.bias])
        own = (gram.kernel_gram if isinstance(gram, LowRankGram) else gram).diag()
        self._constant_diagonal = float(own[0]) if np.ptp(own) == 0.0 else None

    def _scores(self, sums: NDArray[np.float64], X: Any) -> NDArray[np.float64]:
        """``2 sum_i a_i k(x_i, x) - k(x, x)``: minus the squared distance to the centre, up to a constant."""
        if self._constant_diagonal is not None:
            return 2.0 * sums - self._constant_diagonal
        if self.kernel == "precomputed":
            raise ValueError(
                "SVDD needs k(x, x) of the new samples, which a precomputed matrix does not hold unless its diagonal "
                "is constant; use a callable kernel, or normalise the kernel matrix."
            )
        return 2.0 * sums - diagonal(self._kernel, prepare(X, self._kernel))
