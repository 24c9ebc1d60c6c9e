"""SVRSearchCV beside scikit-learn's GridSearchCV around the same estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_diabetes, make_regression
from sklearn.model_selection import GridSearchCV, GroupKFold
from sklearn.utils.estimator_checks import check_estimator

from dualgap import SVC, SVR, SVRSearchCV

CS, GAMMAS, EPSILONS = [0.1, 1.0, 10.0], [0.05, 0.5], [0.05, 0.3]
# Solved so far that scores agree to the digits that are compared.
TIGHT = {"gap_tol": 1e-9}


def curved(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] ** 2 + 0.1 * rng.normal(size=n)


def both(estimator, X, y, Cs=CS, gammas=GAMMAS, epsilons=EPSILONS, fit=None, **settings):
    grid = {"C": Cs, "gamma": gammas, "epsilon": epsilons}
    grid = {name: values for name, values in grid.items() if values is not None}
    ours = SVRSearchCV(estimator, Cs=Cs, gammas=gammas, epsilons=epsilons, **settings).fit(X, y, **(fit or {}))
    theirs = GridSearchCV(estimator, grid, **settings).fit(X, y, **(fit or {}))
    return ours, theirs


def assert_same(ours, theirs):
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    for name, values in theirs.cv_results_.items():
        if "score" in name and "time" not in name:
            np.testing.assert_allclose(ours.cv_results_[name], values, rtol=1e-4, atol=1e-5, err_msg=name)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert ours.n_splits_ == theirs.n_splits_


def test_search_equals_grid_search():
    X, y = curved()
    ours, theirs = both(SVR(**TIGHT), X, y, return_train_score=True, cv=4)
    assert_same(ours, theirs)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == theirs.score(X, y)
    assert ours.best_estimator_.epsilon == ours.best_params_["epsilon"]


@pytest.mark.parametrize(
    ("estimator", "gammas", "epsilons"),
    [
        (SVR(kernel="linear", **TIGHT), None, [0.1, 0.5]),
        (SVR(kernel="poly", degree=2, coef0=1.0, **TIGHT), [0.1, 0.5], None),
        (SVR(**TIGHT), ["scale", 0.1, "auto"], [0.2]),
        (SVR(approximation="rpcholesky", rank=40, **TIGHT), [0.1], [0.1]),
        (SVR(solver="smo", **TIGHT), [0.1], [0.0, 0.1]),
    ],
    ids=["linear", "poly", "words", "approximated", "smo"],
)
def test_search_equals_grid_search_for_every_machine(estimator, gammas, epsilons):
    X, y = curved(90, 1)
    assert_same(*both(estimator, X, y, gammas=gammas, epsilons=epsilons, Cs=[0.5, 5.0], cv=3))


def test_search_takes_sparse_data_and_precomputed_kernels():
    X, y = curved(90, 2)
    assert_same(*both(SVR(**TIGHT), sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0)), y, cv=3))
    assert_same(*both(SVR(kernel="precomputed", **TIGHT), X @ X.T, y, gammas=None, cv=3))


def test_search_uses_weights_groups_scores_and_unordered_values():
    X, y = curved(100, 3)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    settings = {"Cs": [10.0, 0.1, 1.0], "scoring": "neg_mean_absolute_error"}
    assert_same(*both(SVR(**TIGHT), X, y, fit={"sample_weight": weight}, **settings))
    assert_same(*both(SVR(**TIGHT), X, y, fit={"groups": np.arange(y.size) // 12}, cv=GroupKFold(4)))
    several = {"scoring": ["r2", "neg_mean_squared_error"], "refit": "r2"}
    assert_same(*both(SVR(**TIGHT), X, y, cv=3, **several))


def test_search_is_the_same_on_one_thread_and_without_a_stored_matrix():
    X, y = curved(300, 4)
    grid = {"Cs": CS, "gammas": [0.3], "epsilons": [0.1]}
    reference = SVRSearchCV(SVR(**TIGHT), n_jobs=1, **grid).fit(X, y).cv_results_["mean_test_score"]
    two = SVRSearchCV(SVR(**TIGHT), n_jobs=2, **grid).fit(X, y).cv_results_["mean_test_score"]
    unstored = SVRSearchCV(SVR(cache_size=0.5, **TIGHT), n_jobs=1, **grid).fit(X, y).cv_results_["mean_test_score"]
    np.testing.assert_array_equal(two, reference)
    np.testing.assert_allclose(unstored, reference, rtol=1e-6)


def test_search_of_real_data_finds_what_grid_search_finds():
    X, y = load_diabetes(return_X_y=True)
    ours, theirs = both(SVR(gap_tol=1e-7), X, y, Cs=[10.0, 100.0, 1000.0], gammas=["scale"], epsilons=[1.0, 10.0])
    assert_same(ours, theirs)
    assert ours.best_score_ > 0.4


def test_search_says_what_is_wrong():
    X, y = make_regression(50, 3, random_state=0)
    with pytest.raises(TypeError, match=r"SVRSearchCV tunes .*SVR; got SVC"):
        SVRSearchCV(SVC()).fit(X, y)
    with pytest.raises(ValueError, match="epsilons is empty"):
        SVRSearchCV(SVR(), epsilons=[]).fit(X, y)
    with pytest.raises(ValueError, match="'epsilon' parameter"):
        SVRSearchCV(SVR(), epsilons=[-1.0]).fit(X, y)
    with pytest.raises(ValueError, match="at least one non-zero"):
        SVRSearchCV(SVR()).fit(X, y, sample_weight=np.zeros(50))


@pytest.mark.filterwarnings("ignore")
def test_search_is_an_estimator():
    failed = [
        f"{one['check_name']}: {one['exception']}"
        for one in check_estimator(SVRSearchCV(SVR(), Cs=[1.0, 10.0], cv=2), on_fail=None)
        if one["status"] == "failed"
    ]
    assert failed == []
