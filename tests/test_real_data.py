"""Real data at moderate size: convergence, and scikit-learn's answer."""

import numpy as np
import pytest
import sklearn.svm

import dualgap
from dualgap import Kernel, build, make_gram, solve
from dualgap.datasets import find, load


@pytest.mark.parametrize(
    ("name", "C", "gamma"), [("heart_scale", 2.0, 0.1), ("ijcnn1", 32.0, 2.0), ("a9a", 1.0, 0.0081)]
)
def test_svc_equals_scikit_learn(data_folder, name, C, gamma):
    data = load(find(name))
    rows = slice(0, 3000)
    X, y = data.X[rows], data.y[rows]
    ours = dualgap.SVC(C=C, gamma=gamma, tol=1e-6).fit(X, y)
    theirs = sklearn.svm.SVC(C=C, gamma=gamma, tol=1e-6).fit(X, y)
    assert ours.status_ is dualgap.Status.CONVERGED
    assert ours.certificate_.relative_gap < 1e-6
    # LIBSVM keeps kernel rows in float32
    assert ours.decision_function(X) == pytest.approx(theirs.decision_function(X), abs=2e-5)


def test_regression_equals_scikit_learn(data_folder):
    data = load(find("abalone"))
    X = data.X.toarray()[:1500]
    X = (X - X.mean(0)) / X.std(0)
    y = data.y[:1500]
    ours = dualgap.SVR(C=10.0, tol=1e-6).fit(X, y)
    theirs = sklearn.svm.SVR(C=10.0, tol=1e-6).fit(X, y)
    assert ours.predict(X) == pytest.approx(theirs.predict(X), abs=1e-4)
    assert ours.certificate_.relative_gap < 1e-6


def test_second_order_selection_needs_fewer_steps_than_keerthis_modification_2(data_folder):
    data = load(find("ratsch-heart"))
    gram = make_gram(data.X.toarray(), Kernel("rbf", gamma=1.0 / 120.0))
    p = build("c_svc", gram, data.y, C=3.162)
    steps = {v: solve(p, "smo", tol=1e-3, variant=v).iterations for v in ("second_order", "keerthi1", "keerthi2")}
    assert steps["second_order"] < steps["keerthi2"] < steps["keerthi1"]


def test_twenty_six_classes(data_folder):
    data = load(find("letter"))
    X, y = data.X.toarray()[:2500], data.y[:2500]
    ours = dualgap.SVC(C=10.0, gamma=4.0, gap_tol=1e-4).fit(X, y)
    theirs = sklearn.svm.SVC(C=10.0, gamma=4.0).fit(X, y)
    assert len(ours.certificates_) == 325
    assert max(c.relative_gap for c in ours.certificates_) <= 1e-4
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.999
