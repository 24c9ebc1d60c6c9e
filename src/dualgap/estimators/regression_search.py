"""`SVRSearchCV`: a grid of C, gamma and epsilon by cross-validation, over one kernel matrix a gamma."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.estimators.regression import SVR
from dualgap.estimators.search_folds import Folds
from dualgap.estimators.shared_search import SharedSearchCV

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.estimators.search_folds import Task


class _Single(Folds):
    """Folds of a regressor: one task."""

    def _tasks(self, shape: Any, train: Any) -> list[Task]:
        weight = shape._check_weights(self.weight[train], len(train))
        return [(self.y.astype(np.float64), self._everyone(train, weight, 0.0))]

    def _answer(self, model: Any, values: NDArray[np.float64]) -> None:
        def predict(_: Any) -> NDArray[np.float64]:  # scikit-learn's scorers look at the name
            return values.ravel()

        model.predict = predict


class SVRSearchCV(SharedSearchCV):
    """Choose C, gamma and epsilon of an `SVR` by cross-validation, with one kernel matrix a gamma.

    Same folds, same candidates and same attributes as
    ``GridSearchCV(estimator, {"C": Cs, "epsilon": epsilons, "gamma": gammas})``, and the same scores to within the
    solver's tolerance. What is saved is mostly kernel entries: much with hundreds of features, little with ten.

    Parameters
    ----------
    estimator : SVR or None, default=None
        What is tuned; None means ``SVR()``. With `approximation`, `parametric` or a callback the candidates are fitted
        one by one, as `GridSearchCV` does.
    Cs : sequence of float
        Values of C.
    gammas : sequence of {"scale", "auto"} or float, or None
        Values of gamma; None leaves that of the estimator. "scale" is that of each fold.
    epsilons : sequence of float or None
        Values of epsilon; None leaves that of the estimator.
    scoring : str, callable, list, dict or None
        As in `GridSearchCV`.
    n_jobs : int or None, default=None
        Threads; None means all cores.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate on all samples (with several scores: by which).
    cv : int, splitter, iterable or None
        Folds; None means five.
    verbose : int, default=0
        Print a line for each gamma.
    error_score : "raise" or float, default=nan
        Score of candidates that cannot be fitted.
    return_train_score : bool, default=False
        Whether `cv_results_` holds scores of the training samples.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, scorer_, n_splits_, refit_time_
        As in `GridSearchCV`. The times of `cv_results_` are those along the path: a fit is that from the C before.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from dualgap import SVR, SVRSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = SVRSearchCV(SVR(), Cs=[10.0, 100.0, 1000.0], epsilons=[1.0, 10.0]).fit(X, y)
    >>> len(search.cv_results_["params"]), sorted(search.best_params_)
    (6, ['C', 'epsilon'])
    """

    _machine, _folds = SVR, _Single

    def __init__(
        self,
        estimator: Any = None,
        *,
        Cs: Sequence[float] = (0.01, 0.1, 1.0, 10.0, 100.0),
        gammas: Sequence[Any] | None = None,
        epsilons: Sequence[float] | None = None,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: Any = np.nan,
        return_train_score: bool = False,
    ) -> None:
        super().__init__(
            estimator=estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.Cs = Cs
        self.gammas = gammas
        self.epsilons = epsilons

    def _grid(self) -> dict[str, Any]:
        return {"C": self.Cs, "gamma": self.gammas, "epsilon": self.epsilons}

    def _check_data(self, machine: Any, X: Any, y: Any, weight: Any) -> tuple[Any, Any]:
        points, target = machine._check_fit_data(X, y, y_numeric=True)
        machine._check_weights(weight, len(target))
        return points, target
