"""Support vector regression: `SVR` and `NuSVR`."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_consistent_length

from dualgap.estimators.base import SHARED_CONSTRAINTS, KernelSVM
from dualgap.estimators.parameters import documented
from dualgap.estimators.session import controlled

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _KernelRegressor(RegressorMixin, KernelSVM):  # type: ignore[misc]
    """Fitting and prediction of both regressors."""

    @_fit_context(prefer_skip_nested_validation=True)
    @controlled
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            Training samples; for ``kernel="precomputed"`` the kernel matrix.
        y : array-like of shape (n_samples,)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Rescales C a sample; a sample of weight zero (or less) is left out.

        Returns
        -------
        self : object
        """
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None. Pass targets.")
        X, y = self._check_fit_data(X, y, y_numeric=True)
        check_consistent_length(X, y)
        y = np.asarray(y, dtype=np.float64)
        weight = self._check_weights(sample_weight, len(y))
        self._session.open(X, weight, y)
        gram, kept = self._make_gram(X, weight), self._starts(1, self._same(X))[0]
        solved = self._solve_task(gram, y, weight, self._phi(X, len(y)), number=0, kept=kept)
        model = solved.model
        self._keep_expansion(X, model, gram)
        self.intercept_ = np.array([model.bias])
        self.n_iter_ = solved.result.iterations
        if model.epsilon is not None:
            self.epsilon_ = model.epsilon
        self._keep_results([solved], X)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Predicted targets of samples.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._check_predict_data(X)
        return (self._kernel_sums(X, self._dual_coef.T) + self._free_part(X) + self.intercept_).ravel()


@documented("C", "epsilon", "kernel")
class SVR(_KernelRegressor):
    """epsilon-support vector regression with a certificate.

    Minimises ``1/2 |w|^2 + C sum_i w_i max(0, |y_i - <w, phi(x_i)> - b| - epsilon)``. Drop-in for
    `sklearn.svm.SVR`.
    """

    _row = "eps_svr"
    _parameter_constraints = {
        **SHARED_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
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
        epsilon: float = 0.1,
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


@documented("nu", "C", "kernel")
class NuSVR(_KernelRegressor):
    """nu-support vector regression with a certificate: the tube's width is found, not given.

    Minimises ``1/2 |w|^2 + C (nu n epsilon + sum_i max(0, |y_i - f(x_i)| - epsilon))`` over w, b and epsilon
    (`epsilon_`). Drop-in for `sklearn.svm.NuSVR`.
    """

    _row = "nu_svr"
    _parameter_constraints = {
        **SHARED_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
        kernel: Any = "rbf",
        degree: int = 3,
        gamma: Any = "scale",
        coef0: float = 0.0,
        shrinking: bool = True,
        tol: float = 1e-3,
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
