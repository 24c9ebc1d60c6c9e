"""What searches over one kernel matrix a gamma share: a grid, checks, and `GridSearchCV`'s attributes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable
from sklearn.utils.validation import _check_sample_weight

from dualgap.estimators.search_folds import Folds


class SharedSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Base of the searches; `_machine` is what is tuned, `_folds` scores it, `_grid` names the values."""

    _machine: type
    _folds: type[Folds]
    estimator: Any

    def __sklearn_tags__(self) -> Any:
        """Those of a search over the estimator that None stands for."""
        if self.estimator is not None:
            return super().__sklearn_tags__()
        return type(self)(self._machine()).__sklearn_tags__()

    def _grid(self) -> dict[str, Any]:
        """Values by parameter; None for one that is not searched."""
        raise NotImplementedError

    def _run_search(self, evaluate_candidates: Any, **_: Any) -> None:
        """Candidates one by one: for machines whose fits cannot share."""
        evaluate_candidates(self._candidates())

    def _candidates(self) -> list[dict[str, Any]]:
        grid = {name: list(values) for name, values in self._grid().items() if values is not None}
        for name, values in grid.items():
            if not values:
                raise ValueError(f"{name}s is empty: pass at least one value of {name}.")
        return list(ParameterGrid(grid))

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Score all candidates on all folds and fit the best.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            Samples; for ``kernel="precomputed"`` the kernel matrix.
        y : array-like of shape (n_samples,)
            Class labels or targets.
        **params
            ``sample_weight`` and ``groups``, as in `GridSearchCV`.

        Returns
        -------
        self : object
        """
        given: Any = self.estimator
        self.estimator = self._machine() if given is None else given
        try:
            if not isinstance(self.estimator, self._machine):
                raise TypeError(
                    f"{type(self).__name__} tunes dualgap.{self._machine.__name__}; got "
                    f"{type(self.estimator).__name__}. Use GridSearchCV for others."
                )
            return self._fit_shared(X, y, params) if self._can_share(params) else super().fit(X, y, **params)
        finally:
            self.estimator = given

    def _can_share(self, params: dict[str, Any]) -> bool:
        machine = self.estimator
        plain = machine.approximation is None and machine.parametric is None and machine.callback is None
        return plain and not callable(machine.kernel) and set(params) <= {"sample_weight", "groups"}

    def _check_data(self, machine: Any, X: Any, y: Any, weight: Any) -> tuple[Any, Any]:
        """Samples and labels that have passed the estimator's own checks."""
        raise NotImplementedError

    def _fit_shared(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        candidates = self._candidates()
        for name in candidates[0]:
            for value in {candidate[name]: None for candidate in candidates}:
                clone(self.estimator).set_params(**{name: value})._validate_params()
        X, y = indexable(X, y)
        # The estimator's own checks, and its own errors.
        checked = clone(self.estimator)
        if y is None:
            return checked.fit(X, y)
        weight = params.get("sample_weight")
        if weight is not None:
            weight = _check_sample_weight(weight, X)
        points, labels = self._check_data(checked, X, y, weight)
        scorers, metric = self._get_scorers()
        self._checked_cv_orig = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        routed = self._get_routed_params_for_fit(params)
        splits = list(self._checked_cv_orig.split(X, y, **routed.splitter.split))
        self.n_splits_ = len(splits)
        folds = self._folds(self, points, np.asarray(labels), weight, splits, scorers, routed.scorer.score)
        self._keep(candidates, folds.run(candidates), scorers, metric)
        if self.refit:
            self._fit_best(X, y, weight)
        return self

    def _keep(self, candidates: list[dict[str, Any]], results: list[dict[str, Any]], scorers: Any, metric: str) -> None:
        """The attributes that `GridSearchCV` has."""
        self.cv_results_ = self._format_results(candidates, self.n_splits_, results)
        self.multimetric_ = isinstance(results[0]["test_scores"], dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(results[0]["test_scores"])
            metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
            if not callable(self.refit):
                self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = candidates[self.best_index_]
        self.scorer_ = getattr(scorers, "_scorers", scorers)

    def _fit_best(self, X: Any, y: Any, weight: Any) -> None:
        began = time.time()
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
        self.best_estimator_.fit(X, y, sample_weight=weight)
        self.refit_time_ = time.time() - began
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_
