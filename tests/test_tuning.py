"""SVCSearchCV beside scikit-learn's GridSearchCV around the same estimator."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import GridSearchCV, GroupKFold, StratifiedKFold
from sklearn.utils.estimator_checks import check_estimator

from dualgap import SVC, SVR, SVCSearchCV

CS, GAMMAS = [0.1, 1.0, 10.0, 100.0], [0.05, 0.5]


def binary(n=160, seed=0):
    return make_classification(n_samples=n, n_features=6, flip_y=0.1, random_state=seed)


def both(estimator, X, y, Cs=CS, gammas=GAMMAS, fit=None, **settings):
    grid = {"C": Cs} if gammas is None else {"C": Cs, "gamma": gammas}
    ours = SVCSearchCV(estimator, Cs=Cs, gammas=gammas, **settings).fit(X, y, **(fit or {}))
    theirs = GridSearchCV(estimator, grid, **settings).fit(X, y, **(fit or {}))
    return ours, theirs


def assert_same(ours, theirs):
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    for name, values in theirs.cv_results_.items():
        if "score" in name and "time" not in name:
            np.testing.assert_allclose(ours.cv_results_[name], values, err_msg=name)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert ours.n_splits_ == theirs.n_splits_


# Solved so far that no sample is on the boundary to within the tolerance.
TIGHT = {"tol": 1e-6}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_tuning_equals_grid_search_for_two_classes(dtype):
    X, y = binary()
    X = X.astype(dtype)
    ours, theirs = both(SVC(**TIGHT), X, y, return_train_score=True)
    assert_same(ours, theirs)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.score(X, y) == theirs.score(X, y)


def test_tuning_equals_grid_search_for_three_classes():
    X, y = load_iris(return_X_y=True)
    assert_same(*both(SVC(**TIGHT), X[:, :2], np.array(["a", "b", "c"])[y], cv=3))


@pytest.mark.parametrize(
    ("estimator", "gammas"),
    [
        (SVC(kernel="linear", **TIGHT), None),
        (SVC(kernel="poly", degree=2, **TIGHT), [0.1, 0.5]),
        (SVC(class_weight="balanced", **TIGHT), ["scale", 0.1, "auto"]),
        (SVC(gap_tol=1e-7), [0.1]),
        (SVC(approximation="rpcholesky", rank=40), [0.1]),
    ],
    ids=["linear", "poly", "balanced", "gap", "approximated"],
)
def test_tuning_equals_grid_search_for_every_machine(estimator, gammas):
    X, y = binary(120, 1)
    y = np.where(np.arange(y.size) % 4 == 0, 0, y)
    assert_same(*both(estimator, X, y, gammas=gammas, Cs=[0.5, 5.0], cv=3))


def test_tuning_takes_sparse_data_and_precomputed_kernels():
    X, y = binary(100, 2)
    sparse = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
    assert_same(*both(SVC(**TIGHT), sparse, y, cv=3))
    assert_same(*both(SVC(kernel="precomputed", **TIGHT), X @ X.T, y, gammas=None, cv=3))


def test_tuning_uses_weights_groups_scores_and_unordered_values():
    X, y = binary(120, 3)
    weight = np.random.default_rng(0).uniform(0.5, 2.0, y.size)
    assert_same(*both(SVC(**TIGHT), X, y, Cs=[10.0, 0.1, 1.0], fit={"sample_weight": weight}, scoring="roc_auc"))
    groups = np.arange(y.size) // 12
    assert_same(*both(SVC(**TIGHT), X, y, fit={"groups": groups}, cv=GroupKFold(4)))
    several = {"scoring": ["accuracy", "f1"], "refit": "f1"}
    assert_same(*both(SVC(**TIGHT), X, y, cv=StratifiedKFold(3, shuffle=True, random_state=0), **several))


def test_tuning_is_the_same_on_one_thread_and_without_a_stored_matrix():
    X, y = binary(400, 4)
    reference = SVCSearchCV(SVC(**TIGHT), Cs=CS, gammas=GAMMAS, n_jobs=1).fit(X, y)
    for search in (
        SVCSearchCV(SVC(**TIGHT), Cs=CS, gammas=GAMMAS, n_jobs=2),
        SVCSearchCV(SVC(cache_size=0.5, **TIGHT), Cs=CS, gammas=GAMMAS, n_jobs=1),
    ):
        scores = search.fit(X, y).cv_results_["mean_test_score"]
        np.testing.assert_array_equal(scores, reference.cv_results_["mean_test_score"])


def test_tuning_says_what_is_wrong():
    X, y = binary(60)
    with pytest.raises(TypeError, match=r"SVCSearchCV tunes .*; got SVR"):
        SVCSearchCV(SVR()).fit(X, y)
    with pytest.raises(ValueError, match="Cs is empty"):
        SVCSearchCV(SVC(), Cs=[]).fit(X, y)
    with pytest.raises(ValueError, match="'C' parameter"):
        SVCSearchCV(SVC(), Cs=[-1.0]).fit(X, y)
    with pytest.raises(ValueError, match="'gamma' parameter"):
        SVCSearchCV(SVC(), gammas=["wide"]).fit(X, y)
    with pytest.raises(ValueError, match="greater than one"):
        SVCSearchCV(SVC()).fit(X, np.zeros(60))


@pytest.mark.filterwarnings("ignore")
def test_tuning_is_an_estimator():
    failed = [
        f"{one['check_name']}: {one['exception']}"
        for one in check_estimator(SVCSearchCV(SVC(), Cs=[1.0, 10.0], cv=2), on_fail=None)
        if one["status"] == "failed"
    ]
    assert failed == []


def test_tuning_one_class_against_the_rest():
    X, y = load_iris(return_X_y=True)
    estimator = SVC(multi_class="ovr", gap_tol=1e-8)
    ours = SVCSearchCV(estimator, Cs=[0.1, 1.0, 10.0], gammas=[0.1, 1.0], cv=3).fit(X, y)
    grid = GridSearchCV(estimator, {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0]}, cv=3).fit(X, y)
    assert ours.best_params_ == grid.best_params_
    assert ours.best_score_ == grid.best_score_


class Mistakes(SVC):
    """A machine with a score of its own."""

    def score(self, X, y, sample_weight=None):
        return -float(np.sum(self.predict(X) != y))


def test_tuning_asks_a_machine_for_its_own_score():
    X, y = binary()
    ours, theirs = both(Mistakes(**TIGHT), X, y)
    assert_same(ours, theirs)
    assert ours.best_score_ < 0.0
