"""`SVCSearchCV`: a grid of C and gamma by cross-validation, over one kernel matrix a gamma.

`GridSearchCV` fits every fold for every C and every gamma from nothing. Here all folds read one kernel matrix over all
samples (a fold has no variables for the samples it holds out), solutions are carried along ascending C, and held-out
samples are predicted from rows of the same matrix.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from dualgap.estimators.classification import SVC
from dualgap.formulations import build
from dualgap.kernels.threads import share, thread_count
from dualgap.path.grams import lasting_gram
from dualgap.path.held_out import decision
from dualgap.path.steps import Goal, walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.functions import Kernel
    from dualgap.kernels.gram import Gram

# Training samples of a fold up to which folds run side by side: beyond, one solve keeps all threads busy.
_SIDE_BY_SIDE = 4096


class SVCSearchCV(BaseSearchCV):  # type: ignore[misc]
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

    estimator: Any

    def __sklearn_tags__(self) -> Any:
        """Those of a search over the estimator that None stands for."""
        if self.estimator is not None:
            return super().__sklearn_tags__()
        return type(self)(SVC()).__sklearn_tags__()

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

    def _run_search(self, evaluate_candidates: Any, **_: Any) -> None:
        """Candidates one by one: for machines whose fits cannot share."""
        evaluate_candidates(self._candidates())

    def _candidates(self) -> list[dict[str, Any]]:
        grid: dict[str, list[Any]] = {"C": list(self.Cs)}
        if self.gammas is not None:
            grid["gamma"] = list(self.gammas)
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
            Class labels.
        **params
            ``sample_weight`` and ``groups``, as in `GridSearchCV`.

        Returns
        -------
        self : object
        """
        given: Any = self.estimator
        self.estimator = SVC() if given is None else given
        try:
            if not isinstance(self.estimator, SVC):
                raise TypeError(
                    f"SVCSearchCV tunes dualgap.SVC; got {type(self.estimator).__name__}. Use GridSearchCV for others."
                )
            return self._fit_shared(X, y, params) if self._can_share(X, params) else super().fit(X, y, **params)
        finally:
            self.estimator = given

    def _can_share(self, X: Any, params: dict[str, Any]) -> bool:
        svc = self.estimator
        plain = svc.approximation is None and svc.parametric is None and svc.callback is None
        plain = plain and svc.multi_class == "ovo"
        return plain and not callable(svc.kernel) and set(params) <= {"sample_weight", "groups"}

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
        points, labels = checked._check_fit_data(X, y)
        weight = params.get("sample_weight")
        if weight is not None:
            weight = _check_sample_weight(weight, X)
        _check_labels(checked, labels, weight)
        scorers, metric = self._get_scorers()
        self._checked_cv_orig = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        routed = self._get_routed_params_for_fit(params)
        groups = routed.splitter.split
        splits = list(self._checked_cv_orig.split(X, y, **groups))
        self.n_splits_ = len(splits)
        results = _Search(self, points, np.asarray(labels), weight, splits, scorers, routed.scorer.score).run(
            candidates
        )
        self.cv_results_ = self._format_results(candidates, len(splits), results)
        self.multimetric_ = isinstance(results[0]["test_scores"], dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(results[0]["test_scores"])
            metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
            if not callable(self.refit):
                self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = candidates[self.best_index_]
        if self.refit:
            self._fit_best(X, y, weight)
        self.scorer_ = getattr(scorers, "_scorers", scorers)
        return self

    def _fit_best(self, X: Any, y: Any, weight: Any) -> None:
        began = time.time()
        self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
        self.best_estimator_.fit(X, y, sample_weight=weight)
        self.refit_time_ = time.time() - began
        if hasattr(self.best_estimator_, "feature_names_in_"):
            self.feature_names_in_ = self.best_estimator_.feature_names_in_


def _check_labels(svc: SVC, labels: Any, weight: Any) -> None:
    """The estimator's own checks of classes; what weights have left out is said to be their doing."""
    try:
        svc._check_classes(labels, svc._check_weights(weight, len(labels)))
    except ValueError as error:
        if weight is None:
            raise
        raise ValueError(f"sample_weight or class labels: {error}") from error


class _Search:
    """All candidates on all folds."""

    def __init__(
        self,
        owner: SVCSearchCV,
        X: Any,
        y: NDArray[Any],
        weight: Any,
        splits: list[Any],
        scorers: Any,
        score_params: Any,
    ) -> None:
        self.owner, self.X, self.y, self.splits, self.scorers = owner, X, y, splits, scorers
        # Newer versions of scikit-learn weigh scores as well.
        self.score_params = score_params
        self.weight = np.ones(len(y)) if weight is None else np.maximum(weight, 0.0)
        self.svc: SVC = owner.estimator
        self.threads = thread_count(owner.n_jobs)

    def run(self, candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """What `BaseSearchCV` makes its table of: a dictionary a candidate and fold."""
        found: list[dict[str, Any]] = [{} for _ in range(len(candidates) * len(self.splits))]
        for gamma in dict.fromkeys(candidate.get("gamma", self.svc.gamma) for candidate in candidates):
            mine = [k for k, candidate in enumerate(candidates) if candidate.get("gamma", self.svc.gamma) == gamma]
            mine.sort(key=lambda k: candidates[k]["C"])
            began = time.perf_counter()
            grams = self._grams(gamma)

            def fold(number: int, mine: list[int] = mine, gamma: Any = gamma, grams: list[Gram] = grams) -> None:
                Cs = [candidates[k]["C"] for k in mine]
                for k, scores in zip(mine, self._along(number, gamma, grams[number], Cs), strict=True):
                    found[k * len(self.splits) + number] = scores

            share(fold, len(self.splits), self.threads if self._largest() <= _SIDE_BY_SIDE else 1)
            if self.owner.verbose:
                print(f"gamma={gamma}: {len(mine)} values of C, {time.perf_counter() - began:.1f} s")
        return found

    def _grams(self, gamma: Any) -> list[Gram]:
        """A Gram matrix a fold: the same one, unless gamma depends on the training samples."""
        made: dict[Kernel, Gram] = {}
        kernels = []
        for train, _ in self.splits:
            model = clone(self.svc).set_params(gamma=gamma)
            kernel = (
                model._make_kernel(self.X[train], self.weight[train])
                if gamma == "scale"
                else model._make_kernel(self.X)
            )
            if kernel not in made:
                made[kernel] = lasting_gram(
                    self.X, kernel, cache_size=self.svc.cache_size, n_jobs=self.owner.n_jobs, all_rows=True
                )
            kernels.append(kernel)
        grams = [made[kernel] for kernel in kernels]
        if self.threads == 1 or self._largest() > _SIDE_BY_SIDE:
            return grams
        # Folds that run side by side share what is stored, and nothing that changes.
        return [gram.separate() for gram in grams]  # type: ignore[attr-defined]

    def _largest(self) -> int:
        """Training samples of the largest fold."""
        return max(len(train) for train, _ in self.splits)

    def _along(self, number: int, gamma: Any, gram: Gram, Cs: list[float]) -> Iterator[dict[str, Any]]:
        train, test = self.splits[number]
        inside = np.zeros(len(self.y))
        try:
            shape = clone(self.svc).set_params(gamma=gamma)
            codes, weight = shape._check_classes(self.y[train], self.weight[train])
        except ValueError:
            if self.owner.error_score == "raise":
                raise
            yield from (self._failed(test) for _ in Cs)
            return
        inside[train] = weight
        everyone = np.full(len(self.y), -1)
        everyone[train] = codes
        pairs = list(shape._pairs())
        rows = np.concatenate([test, train]) if self.owner.return_train_score else np.asarray(test)
        walks = [self._pair(gram, everyone, inside, pair, len(shape.classes_), Cs) for pair in pairs]
        for C in Cs:
            began = time.perf_counter()
            steps = [next(walk) for walk in walks]
            fitted = time.perf_counter()
            values = np.column_stack([decision(step, rows) for step in steps])
            yield self._scored(shape, C, values, test, train, fitted - began)

    def _pair(
        self, gram: Gram, codes: NDArray[Any], weight: NDArray[np.float64], pair: tuple[int, int], n: int, Cs: Any
    ) -> Iterator[Any]:
        """Solutions for ascending C of the task of two classes."""
        first, second = pair
        target = np.where(codes == (second if n == 2 else first), 1.0, -1.0)
        inside = np.where((codes == first) | (codes == second), weight, 0.0)
        goal = Goal(
            self.svc.solver,
            self.svc.tol,
            self.svc.gap_tol,
            {key: value for key, value in (self.svc.solver_options or {}).items() if key != "cache"},
            self.svc.max_iter,
            self.svc.time_limit,
            warn=False,
        )
        problems = ((float(C), build(self.svc._row, gram, target, C=float(C), sample_weight=inside)) for C in Cs)
        return walk(problems, goal, ratios=True)

    def _scored(
        self, shape: SVC, C: float, values: NDArray[np.float64], test: Any, train: Any, fit_time: float
    ) -> dict[str, Any]:
        began = time.perf_counter()
        scores = {"test_scores": self._score(shape, C, values[: len(test)], test)}
        score_time = time.perf_counter() - began
        if self.owner.return_train_score:
            scores["train_scores"] = self._score(shape, C, values[len(test) :], train)
        return {**scores, "fit_time": fit_time, "score_time": score_time, "n_test_samples": len(test)}

    def _score(self, shape: SVC, C: float, values: NDArray[np.float64], rows: Any) -> Any:
        """Scores of a model whose decision values for these rows are known already."""
        model: Any = copy(shape)  # scikit-learn's clone takes as long as a small fit
        model.C = C
        model._decision_values = lambda _: values
        X = self.X[rows]
        return self.scorers(model, X, self.y[rows], **_check_method_params(self.X, self.score_params, rows))

    def _failed(self, test: Any) -> dict[str, Any]:
        score: Any = self.owner.error_score
        names = getattr(self.scorers, "_scorers", None)
        scores = score if names is None else dict.fromkeys(names, score)
        both = {"test_scores": scores, "train_scores": scores}
        return {**both, "fit_time": 0.0, "score_time": 0.0, "n_test_samples": len(test)}
