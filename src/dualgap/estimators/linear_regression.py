"""Linear support vector regression: `LinearSVR`."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin, _fit_context
from sklearn.utils._param_validation import Interval, StrOptions

from dualgap.estimators.linear_base import BIAS_CONSTRAINTS, LINEAR_CONSTRAINTS, LinearSVM
from dualgap.estimators.linear_streaming import check_streamed, solve_rows
from dualgap.estimators.parameters import documented
from dualgap.estimators.session import controlled
from dualgap.kernels.row_blocks import RowBlocks

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ROWS = {"epsilon_insensitive": "eps_svr", "squared_epsilon_insensitive": "squared_eps_svr"}


@documented("tube", "C", "regression loss", "linear bias", "linear", "compatible", kind="linear")
class LinearSVR(RegressorMixin, LinearSVM):  # type: ignore[misc]
    """Linear support vector regression with a certificate.

    Minimises ``1/2 |w|^2 + C sum_i w_i max(0, |y_i - <w, x_i> - b| - epsilon)``, or the squares of these errors.
    Drop-in for `sklearn.svm.LinearSVR`.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualgap import LinearSVR
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearSVR(C=100, gap_tol=1e-6, penalize_intercept=False).fit(X, y)
    >>> bool(model.certificate_.relative_gap <= 1e-6), float(model.score(X, y)) > 0.4
    (True, True)
    """

    _parameter_constraints = {
        **LINEAR_CONSTRAINTS,
        **BIAS_CONSTRAINTS,
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "loss": [StrOptions(set(_ROWS))],
    }

    def __init__(
        self,
        *,
        epsilon: float = 0.0,
        tol: float = 1e-4,
        C: float = 1.0,
        loss: str = "epsilon_insensitive",
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        dual: bool | str = "auto",
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
            Targets; None where a RowBlocks has its own.
        sample_weight : array-like of shape (n_samples,), default=None
            Rescales C a sample; a sample of weight zero (or less) is left out.

        Returns
        -------
        self : object
        """
        if isinstance(X, RowBlocks):
            return self._fit_streamed(X, y, sample_weight)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None. Pass targets.")
        X, y = self._check_data(X, y, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        weight = self._check_weights(sample_weight, len(y))
        constant, bias = self._bias()
        self._session.open(X, weight, y)
        task = self._solve_task(
            _ROWS[self.loss],
            X,
            self._make_gram(X, constant),
            y,
            weight,
            self._phi(X, len(y)),
            bias=bias,
            kept=self._starts(1)[0],
        )
        self.coef_ = task.weights
        self.intercept_ = np.array([task.bias]) if self.fit_intercept else 0.0
        self._keep_tasks([task])
        return self

    def _fit_streamed(self, blocks: RowBlocks, y: Any, sample_weight: Any) -> Any:
        """The same over rows that are not in memory."""
        target = np.asarray(check_streamed(self, blocks, y), dtype=np.float64)
        weight = self._check_weights(sample_weight, target.size)
        result = solve_rows(self, _ROWS[self.loss], blocks, target, weight, 0)
        self._keep_starts([])
        self.coef_, self.parametric_coef_ = result.weights, np.empty((1, 0))
        self.intercept_ = np.array([result.bias]) if self.fit_intercept else 0.0
        self.n_iter_ = result.iterations
        # The caller of fit, which is wrapped three times, is one further up.
        self._keep_verdict([result.certificate], [result.history], [result.status], result.solver, shown=6)
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
        return np.asarray(self._values(self._check_new_data(X)).ravel() + self.intercept_)
