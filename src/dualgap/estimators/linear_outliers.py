"""Outlier detection in the space of the features: `LinearOneClassSVM` and `LinearSVDD`."""

from __future__ import annotations

from dataclasses import replace
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import _fit_context
from sklearn.utils._param_validation import Interval

from dualgap.estimators.detector import Detector
from dualgap.estimators.linear_base import LINEAR_CONSTRAINTS, LinearSVM, LinearTask
from dualgap.estimators.parameters import documented
from dualgap.estimators.session import controlled
from dualgap.kernels.factor import Factor
from dualgap.result import Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram


# Rounding of the sums of products that an objective is made of, relative to the largest they can be.
_NOTHING = 1e-12


def _accepted(task: LinearTask, gram: Gram) -> LinearTask:
    """The task, converged as well where its optimum is zero to rounding.

    That is so for data around the origin (no half-space), or that is one point (a ball of radius zero). There is then
    no relative gap to speak of, and the absolute one says all.
    """
    largest = 0.5 * float(np.abs(task.model.coefficients).sum()) ** 2 * float(gram.diag().max())
    if task.result.status is not Status.STALLED or task.result.certificate.gap > _NOTHING * largest:
        return task
    return replace(task, result=replace(task.result, status=Status.CONVERGED))


class _LinearDetector(Detector, LinearSVM):  # type: ignore[misc]
    """Fitting and prediction of both detectors."""

    _row: str

    @_fit_context(prefer_skip_nested_validation=True)
    @controlled
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training samples.
        y : Ignored
            For consistency.
        sample_weight : array-like of shape (n_samples,), default=None
            Rescales the bound of a sample; a sample of weight zero (or less) is left out.

        Returns
        -------
        self : object
        """
        X, _ = self._check_data(X)
        n = X.shape[0]
        weight = self._check_weights(sample_weight, n)
        self._session.open(X, weight)
        gram, phi = self._make_gram(X, 0.0), self._phi(X, n)
        task = self._solve_task(self._row, X, gram, None, weight, phi, bias=True, kept=self._starts(1)[0])
        # The weights' sum over samples: its terms, and what their sizes add up to.
        self._made_of = int(np.count_nonzero(task.model.coefficients))
        self._reach = float(np.abs(task.model.coefficients) @ np.sqrt(gram.diag()))
        self._keep_model(task)
        self._keep_tasks([_accepted(task, gram)])
        return self

    def _check_new(self, X: Any) -> Any:
        return self._check_new_data(X)

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        return self._scores(X)

    def _n_terms(self) -> int:
        return int(getattr(self, "_made_of", 0))  # a machine that was put together from its weights has none

    def _magnitude(self, X: Any, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """By Cauchy and Schwarz, for the sum over samples that the weights were made of."""
        own = np.sqrt(Factor(X, n_jobs=self.n_jobs).squared_norms())
        reach = getattr(self, "_reach", float(np.linalg.norm(self.coef_)))
        return np.asarray(2.0 * own * reach + own**2)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        return self._values(X).ravel()


@documented("nu", "linear", kind="linear")
class LinearOneClassSVM(_LinearDetector):
    """Linear one-class support vector machine with a certificate.

    Minimises ``1/2 |w|^2 - nu n rho + sum_i w_i max(0, rho - <w, x_i>)``: the half-space ``<w, x> >= rho`` that is
    furthest from the origin and holds all but a fraction nu of the samples. This is `OneClassSVM` with a linear kernel.
    The origin stands for the outliers: data around it has no such half-space, and the answer is w = 0.
    """

    _row = "one_class"
    _parameter_constraints = {
        **LINEAR_CONSTRAINTS,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def __init__(
        self,
        nu: float = 0.5,
        *,
        tol: float = 1e-4,
        verbose: Any = 0,
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
        cache_size: float = 200,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def _keep_model(self, task: LinearTask) -> None:
        self.coef_ = task.weights.reshape(1, -1)
        self.intercept_ = np.array([task.bias])
        self.offset_ = np.array([-task.bias])


@documented("radius", "linear", kind="linear")
class LinearSVDD(_LinearDetector):
    """Support vector data description in the space of the features: the smallest ball, with a certificate.

    Minimises ``R^2 + C sum_i w_i max(0, |x_i - c|^2 - R^2)`` over the centre c (`center_`) and the radius R
    (`radius_`); `certificate_` holds half of this objective. The decision function is ``R^2 - |x - c|^2``, that is
    ``<coef_, x> - |x|^2 + intercept_``. This is `SVDD` with a linear kernel.
    """

    _row = "svdd"
    _parameter_constraints = {
        **LINEAR_CONSTRAINTS,
        "C": [Interval(Real, 0.0, None, closed="neither")],
    }

    def __init__(
        self,
        C: float = 1.0,
        *,
        tol: float = 1e-4,
        verbose: Any = 0,
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
        cache_size: float = 200,
        solver_options: dict[str, Any] | None = None,
    ) -> None:
        self._keep_parameters(locals())

    def _keep_model(self, task: LinearTask) -> None:
        assert task.model.radius2 is not None
        self.center_ = task.weights
        # Rounding can put the radius of a single point a hair below zero.
        self.radius_ = float(np.sqrt(max(task.model.radius2, 0.0)))
        self.coef_ = 2.0 * task.weights.reshape(1, -1)
        self.intercept_ = np.array([2.0 * task.bias])
        self.offset_ = np.array([-2.0 * task.bias])

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """``2 <c, x> - |x|^2``: minus the squared distance to the centre, up to a constant."""
        values = self._values(X) + self._free_part(X)  # twice the machine's function, like the weights
        return values.ravel() - Factor(X, n_jobs=self.n_jobs).squared_norms()
