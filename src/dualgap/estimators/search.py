"""`SVCSearchCV`: a grid of C and gamma by cross-validation, over one kernel matrix a gamma.

`GridSearchCV` fits every fold for every C and every gamma from nothing; see `search_folds` for what is shared here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.estimators.calibration import wanted
from dualgap.estimators.classification import SVC
from dualgap.estimators.search_folds import Folds
from dualgap.estimators.shared_search import SharedSearchCV

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.estimators.search_folds import Task


class _Pairs(Folds):
    """Folds of a classifier: a task for each pair of classes."""

    def _tasks(self, shape: Any, train: Any) -> list[Task]:
        codes, weight = shape._check_classes(self.y[train], self.weight[train])
        everyone, inside = self._everyone(train, codes, -1.0), self._everyone(train, weight, 0.0)
        two = len(shape.classes_) == 2
        return [
            (
                np.where(everyone == (second if two else first), 1.0, -1.0),
                np.where((everyone == first) | (everyone == second), inside, 0.0),
            )
            for first, second in shape._pairs()
        ]

    def _answer(self, model: Any, values: NDArray[np.float64]) -> None:
        model._decision_values = lambda _: values

    def _own_score(self, model: Any, y: NDArray[Any]) -> float | None:
        own = type(model)
        if own.score is not SVC.score or own.predict is not SVC.predict:
            return None  # that of somebody who knows better
        return float(np.mean(model.predict(None) == y))


class SVCSearchCV(SharedSearchCV):
    """Choose C and gamma of an `SVC` by cross-validation, several times faster than `GridSearchCV`.

    Same folds, same candidates, same scores and same attributes as
    ``GridSearchCV(estimator, {"C": Cs, "gamma": gammas})``; scores may differ where a sample lies on the boundary to
    within the solver's tolerance.

    Parameters
    ----------
    estimator : SVC or None, default=None
        What is tuned; None means ``SVC()``. With `approximation`, `parametric`, a callback or ``multi_class="ovr"`` the
        candidates are fitted one by one, as `GridSearchCV` does.
    Cs : sequence of float
        Values of C.
    gammas : sequence of {"scale", "auto"} or float, or None
        Values of gamma; None leaves that of the estimator. "scale" is that of each fold.
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
    >>> from sklearn.datasets import load_iris
    >>> from dualgap import SVC, SVCSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SVCSearchCV(SVC(), Cs=[0.1, 1.0, 10.0], gammas=[0.01, 0.1, 1.0]).fit(X, y)
    >>> len(search.cv_results_["params"]), bool(search.best_score_ > 0.96)
    (9, True)
    """

    _machine, _folds = SVC, _Pairs

    def __init__(
        self,
        estimator: Any = None,
        *,
        Cs: Sequence[float] = (0.01, 0.1, 1.0, 10.0, 100.0),
        gammas: Sequence[Any] | None = None,
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

    def _grid(self) -> dict[str, Any]:
        return {"C": self.Cs, "gamma": self.gammas}

    def _can_share(self, params: dict[str, Any]) -> bool:
        svc = self.estimator
        return super()._can_share(params) and svc.multi_class == "ovo" and not wanted(svc.probability)

    def _check_data(self, machine: Any, X: Any, y: Any, weight: Any) -> tuple[Any, Any]:
        points, labels = machine._check_fit_data(X, y)
        try:
            machine._check_classes(labels, machine._check_weights(weight, len(labels)))
        except ValueError as error:
            if weight is None:
                raise
            # What weights have left out is said to be their doing.
            raise ValueError(f"sample_weight or class labels: {error}") from error
        return points, labels
