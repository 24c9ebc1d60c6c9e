"""Choose the constants of linear machines: `LinearSVCSearchCV` by cross-validation, `tune_primal` by a validation part.

Both walk along ascending C and start each fit from the solution before it: the machines of neighbouring C have nearly
the same features and multipliers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _check_method_params, _check_sample_weight

from dualgap.estimators.linear_classification import LinearSVC
from dualgap.kernels.threads import share, thread_count
from dualgap.minimization import minimize_composite
from dualgap.operators import as_operator
from dualgap.primal import primal_svm

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.minimization import MinimizeResult


class LinearSVCSearchCV(BaseSearchCV):  # type: ignore[misc]
    """Choose C of a `LinearSVC` by cross-validation, each fold along ascending C from the solution before.

    Same folds, same candidates, same scores and same attributes as ``GridSearchCV(estimator, {"C": Cs})``; scores may
    differ where a sample lies on the boundary to within the solver's tolerance.

    Parameters
    ----------
    estimator : LinearSVC or None, default=None
        What is tuned, with any penalty and loss; None means ``LinearSVC()``.
    Cs : sequence of float
        Values of C.
    scoring : str, callable, list, dict or None
        As in `GridSearchCV`.
    n_jobs : int or None, default=None
        Folds side by side; None means as many as there are cores.
    refit : bool, str or callable, default=True
        Whether to fit the best candidate on all samples (with several scores: by which).
    cv : int, splitter, iterable or None
        Folds; None means five.
    verbose : int, default=0
        Print a line for each fold.
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
    >>> from sklearn.datasets import load_breast_cancer
    >>> from dualgap import LinearSVC, LinearSVCSearchCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> machine = LinearSVC(penalty="l1", loss="hinge")
    >>> search = LinearSVCSearchCV(machine, Cs=[0.01, 0.1, 1.0]).fit(X / X.max(axis=0), y)
    >>> search.best_params_, bool(search.best_score_ > 0.95)
    ({'C': 1.0}, True)
    """

    estimator: Any

    def __init__(
        self,
        estimator: Any = None,
        *,
        Cs: Sequence[float] = (0.01, 0.1, 1.0, 10.0, 100.0),
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

    def _candidates(self) -> list[dict[str, Any]]:
        if not len(self.Cs):
            raise ValueError("Cs is empty: pass at least one value of C.")
        return list(ParameterGrid({"C": list(self.Cs)}))

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Score all candidates on all folds and fit the best.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Class labels.
        **params
            ``sample_weight`` and ``groups``, as in `GridSearchCV`.

        Returns
        -------
        self : object
        """
        given: Any = self.estimator
        self.estimator = LinearSVC() if given is None else given
        try:
            if not isinstance(self.estimator, LinearSVC):
                raise TypeError(
                    f"LinearSVCSearchCV tunes dualgap.LinearSVC; got {type(self.estimator).__name__}. "
                    "Use GridSearchCV for others."
                )
            return self._fit_along(X, y, params)
        finally:
            self.estimator = given

    def _fit_along(self, X: Any, y: Any, params: dict[str, Any]) -> Any:
        candidates = self._candidates()
        for candidate in candidates:
            clone(self.estimator).set_params(**candidate)._validate_params()
        X, y = indexable(X, y)
        if y is None:
            return clone(self.estimator).fit(X, y)  # the estimator's own error
        weight = params.get("sample_weight")
        weight = None if weight is None else _check_sample_weight(weight, X)
        scorers, metric = self._get_scorers()
        self._checked_cv_orig = check_cv(self.cv, y, classifier=is_classifier(self.estimator))
        routed = self._get_routed_params_for_fit(params)
        splits = list(self._checked_cv_orig.split(X, y, **routed.splitter.split))
        self.n_splits_ = len(splits)
        order = sorted(range(len(candidates)), key=lambda k: candidates[k]["C"])
        found: list[dict[str, Any]] = [{} for _ in range(len(candidates) * len(splits))]

        def fold(number: int) -> None:
            train, test = splits[number]
            along = _Along(self, scorers, routed.scorer.score, X, y, weight, train, test)
            began = time.perf_counter()
            for k, scores in zip(order, along.run([candidates[k]["C"] for k in order]), strict=True):
                found[k * len(splits) + number] = scores
            if self.verbose:
                print(f"fold {number + 1}: {len(order)} values of C, {time.perf_counter() - began:.1f} s")

        share(fold, len(splits), thread_count(self.n_jobs))
        self._keep(candidates, found, scorers, metric)
        if self.refit:
            began = time.time()
            self.best_estimator_ = clone(self.estimator).set_params(**self.best_params_)
            self.best_estimator_.fit(X, y, sample_weight=weight)
            self.refit_time_ = time.time() - began
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        return self

    def _keep(self, candidates: list[dict[str, Any]], found: list[dict[str, Any]], scorers: Any, metric: Any) -> None:
        self.cv_results_ = self._format_results(candidates, self.n_splits_, found)
        self.multimetric_ = isinstance(found[0]["test_scores"], dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(found[0]["test_scores"])
            metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, self.cv_results_)
            if not callable(self.refit):
                self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = candidates[self.best_index_]
        self.scorer_ = getattr(scorers, "_scorers", scorers)


@dataclass(frozen=True, eq=False)
class _Along:
    """One fold, along ascending C."""

    owner: LinearSVCSearchCV
    scorers: Any
    score_params: Any
    X: Any
    y: Any
    weight: NDArray[np.float64] | None
    train: NDArray[np.intp]
    test: NDArray[np.intp]

    def run(self, Cs: list[float]) -> Iterator[dict[str, Any]]:
        """What `BaseSearchCV` makes its table of, a dictionary a C."""
        model = clone(self.owner.estimator).set_params(warm_start=True, n_jobs=1)
        X, y = _safe_indexing(self.X, self.train), _safe_indexing(self.y, self.train)
        weight = None if self.weight is None else self.weight[self.train]
        for C in Cs:
            began = time.perf_counter()
            try:
                model.set_params(C=C).fit(X, y, sample_weight=weight)
            except ValueError:
                if self.owner.error_score == "raise":
                    raise
                yield self._failed()
                continue
            took = time.perf_counter() - began
            began = time.perf_counter()
            scores = {"test_scores": self._score(model, self.test)}
            scored = time.perf_counter() - began
            if self.owner.return_train_score:
                scores["train_scores"] = self._score(model, self.train)
            yield {**scores, "fit_time": took, "score_time": scored, "n_test_samples": len(self.test)}

    def _score(self, model: Any, rows: NDArray[np.intp]) -> Any:
        X, y = _safe_indexing(self.X, rows), _safe_indexing(self.y, rows)
        return self.scorers(copy(model), X, y, **_check_method_params(self.X, self.score_params, rows))

    def _failed(self) -> dict[str, Any]:
        score: Any = self.owner.error_score
        names = getattr(self.scorers, "_scorers", None)
        scores = score if names is None else dict.fromkeys(names, score)
        both = {"test_scores": scores, "train_scores": scores}
        return {**both, "fit_time": 0.0, "score_time": 0.0, "n_test_samples": len(self.test)}


@dataclass(frozen=True)
class PrimalTrial:
    """One combination of constants: what it took, and the errors on the validation part."""

    C: float
    eps: float
    tol: float
    error: float
    nit: int
    n_products: int
    seconds: float


@dataclass(frozen=True)
class PrimalTuning:
    """The answer of `tune_primal`.

    Attributes
    ----------
    best : PrimalTrial
        The combination with the fewest errors; among equals the cheapest in products.
    x : ndarray
        The weights that it gave, with the bias last: of the training part.
    trials : list of PrimalTrial
        All combinations, in the order they were run.
    """

    best: PrimalTrial
    x: NDArray[np.float64]
    trials: list[PrimalTrial]


def tune_primal(
    X: Any,
    y: NDArray[np.float64],
    X_validation: Any,
    y_validation: NDArray[np.float64],
    *,
    Cs: Sequence[float] = (0.01, 0.1, 1.0, 10.0, 100.0),
    epsilons: Sequence[float] = (1e-1, 1e-2, 1e-3),
    tols: Sequence[float] = (1e-1, 1e-3, 1e-5),
    p: int = 1,
    q: int = 1,
    method: str = "sesop",
    max_iter: int = 5000,
    callback: Callable[[PrimalTrial], None] | None = None,
) -> PrimalTuning:
    """Choose C, the smoothing and the stopping constant as the SESOP paper does: by errors on a validation part.

    Every combination is trained on (X, y) and judged on the validation part (section 2.4). Runs of one C and eps are
    one run: a smaller tol goes on where the larger one ended. The first of a C starts from the solution for the C
    before.

    Parameters
    ----------
    X, y : array or sparse matrix, ndarray
        The training part; labels +1 and -1.
    X_validation, y_validation : array or sparse matrix, ndarray
        The validation part. Errors on it are not those to be expected of new samples: a third part measures these.
    Cs, epsilons, tols : sequence of float
        Weights of the losses, smoothings (see `primal_svm`), and norms of the gradient to stop at.
    p, q : {1, 2}
        Norm of the weights and power of the slacks.
    method : str
        Solver, as in `minimize`.
    max_iter : int
        Iterations of a run at most.
    callback : callable or None
        Called with each trial.

    Returns
    -------
    PrimalTuning
        The best combination, its weights, and all trials.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap import tune_primal
    >>> X = np.random.default_rng(0).normal(size=(120, 5)); y = np.where(X[:, 0] + 0.1 * X[:, 1] > 0, 1.0, -1.0)
    >>> found = tune_primal(X[:80], y[:80], X[80:], y[80:], Cs=[0.1, 1.0], epsilons=[0.1, 0.01], tols=[1e-1, 1e-3])
    >>> len(found.trials), found.best.error <= 0.05
    (8, True)
    """
    for name, values in (("Cs", Cs), ("epsilons", epsilons), ("tols", tols)):
        if not len(values) or not all(np.isfinite(value) and value > 0.0 for value in values):
            raise ValueError(f"{name} must be positive numbers, at least one; got {list(values)!r}.")
    held_out = as_operator(X_validation, bias=True)
    targets = np.asarray(y_validation, dtype=np.float64)
    if targets.shape != (held_out.shape[0],):
        raise ValueError(f"y_validation must hold {held_out.shape[0]} labels; its shape is {targets.shape}.")
    trials: list[PrimalTrial] = []
    kept: dict[PrimalTrial, NDArray[np.float64]] = {}
    starts: dict[float, NDArray[np.float64]] = {}
    best: PrimalTrial | None = None
    for C, eps in product(sorted(Cs), sorted(epsilons, reverse=True)):
        x, nit, products, seconds = starts.get(eps), 0, 0, 0.0
        problem = primal_svm(X, y, C, p=p, q=q, eps=eps)
        for tol in sorted(tols, reverse=True):
            run: MinimizeResult = minimize_composite(problem, x, method, tol=tol, max_iter=max_iter)
            x, nit = run.x, nit + run.nit
            products, seconds = products + run.n_products, seconds + run.seconds
            error = float(np.mean(np.where(held_out.matvec(x) > 0.0, 1.0, -1.0) != targets))
            trial = PrimalTrial(float(C), float(eps), float(tol), error, nit, products, seconds)
            trials.append(trial)
            if callback is not None:
                callback(trial)
            if best is None or (error, products) < (best.error, best.n_products):
                best, kept = trial, {trial: x}
        assert x is not None
        starts[eps] = x
    assert best is not None
    return PrimalTuning(best, kept[best], trials)
