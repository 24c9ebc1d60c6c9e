"""Choosing C of linear machines: beside GridSearchCV, with its folds, candidates and scores; and the paper's way."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from typer.testing import CliRunner

from dualgap import SVC, LinearSVC, LinearSVCSearchCV, tune_primal
from dualgap.cli import app

CS = [10.0, 0.01, 0.1, 1.0]  # not in order: results are in the order they are asked for


def binary(seed=0):
    return make_classification(n_samples=120, n_features=20, n_informative=5, flip_y=0.05, random_state=seed)


def both(machine, X, y, fit=None, **settings):
    ours = LinearSVCSearchCV(machine, Cs=CS, **settings).fit(X, y, **(fit or {}))
    theirs = GridSearchCV(machine, {"C": CS}, **settings).fit(X, y, **(fit or {}))
    return ours, theirs


@pytest.mark.parametrize("machine", [("l1", "hinge"), ("l1", "squared_hinge"), ("l2", "squared_hinge")])
def test_scores_are_those_of_grid_search(machine):
    X, y = binary()
    model = LinearSVC(*machine, gap_tol=1e-8)
    ours, theirs = both(model, X, y, return_train_score=True)
    assert set(ours.cv_results_) == set(theirs.cv_results_)
    assert ours.cv_results_["params"] == theirs.cv_results_["params"]
    for name, values in theirs.cv_results_.items():
        if "score" in name and "time" not in name and "rank" not in name:
            # Where the optimum is not unique (the hinge), another start may lead to another of them.
            np.testing.assert_allclose(ours.cv_results_[name], values, atol=0.04 if machine[1] == "hinge" else 1e-12)
    if machine[1] == "squared_hinge":
        assert ours.best_params_ == theirs.best_params_
    assert ours.best_params_["C"] == ours.best_estimator_.C
    assert ours.n_splits_ == theirs.n_splits_ == 5


def test_sparse_samples_several_classes_weights_and_scores():
    X, y = load_iris(return_X_y=True)
    weight = np.linspace(0.5, 2.0, len(y))
    settings = {"cv": StratifiedKFold(3), "scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"}
    model = LinearSVC("l1", gap_tol=1e-9)
    ours, theirs = both(model, sp.csr_matrix(X), np.array(["a", "b", "c"])[y], {"sample_weight": weight}, **settings)
    for name in ("mean_test_accuracy", "mean_test_f1_macro"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-12)
    assert ours.best_index_ == theirs.best_index_


def test_what_cannot_be_tuned_is_said():
    X, y = binary()
    with pytest.raises(TypeError, match="LinearSVCSearchCV tunes"):
        LinearSVCSearchCV(SVC()).fit(X, y)
    with pytest.raises(ValueError, match="Cs is empty"):
        LinearSVCSearchCV(Cs=[]).fit(X, y)


def test_a_warm_start_is_used_and_changes_nothing():
    X, y = binary()
    model = LinearSVC("l1", warm_start=True, gap_tol=1e-9).fit(X, y)
    again = model.set_params(C=1.0).fit(X, y)
    cold = LinearSVC("l1", gap_tol=1e-9).fit(X, y)
    np.testing.assert_allclose(again.coef_, cold.coef_, atol=1e-9)
    assert again.n_iter_ < cold.n_iter_
    model.set_params(fit_intercept=False).fit(X, y)  # another number of variables: the start is not taken
    assert model.certificate_.relative_gap <= 1e-9


def test_the_papers_tuning_takes_the_fewest_errors():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), np.where(y == 1, 1.0, -1.0)
    seen = []
    found = tune_primal(
        X[:300], y[:300], X[300:450], y[300:450], Cs=[1.0, 0.01], epsilons=[0.1, 0.01], tols=[1.0, 1e-3],
        callback=seen.append,
    )  # fmt: skip
    assert seen == found.trials
    assert len(found.trials) == 8
    assert found.best.error == min(trial.error for trial in found.trials)
    assert np.mean(np.where(X[300:450] @ found.x[:-1] + found.x[-1] > 0, 1, -1) != y[300:450]) == found.best.error
    for first, second in zip(found.trials[::2], found.trials[1::2], strict=True):  # tol goes on where it ended
        assert (first.C, first.eps) == (second.C, second.eps)
        assert first.tol > second.tol
        assert first.n_products <= second.n_products
    with pytest.raises(ValueError, match="tols must be positive"):
        tune_primal(X, y, X, y, tols=[0.0])
    with pytest.raises(ValueError, match="y_validation must hold"):
        tune_primal(X, y, X, y[:5])


def test_command(tmp_path):
    X, y = binary()
    file, scores = tmp_path / "data.csv", tmp_path / "scores.json"
    np.savetxt(file, np.column_stack([y, X]), delimiter=",")
    command = ["tune", str(file), "--linear", "--penalty", "l1", "--loss", "hinge", "-C", "0.01:1:3", "--cv", "3"]
    answer = CliRunner().invoke(app, [*command, "--label-column", "0", "--json", str(scores)])
    assert answer.exit_code == 0, answer.output
    assert "features" in answer.output
    kept = json.loads(scores.read_text())
    assert [row["C"] for row in kept["candidates"]] == pytest.approx([0.01, 0.1, 1.0])
    assert CliRunner().invoke(app, ["tune", str(file), "--penalty", "l1"]).exit_code != 0
    assert CliRunner().invoke(app, ["tune", str(file), "--linear", "--loss", "nothing"]).exit_code != 0
