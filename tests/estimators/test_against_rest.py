"""One class against the rest with kernels: scikit-learn's wrapper gives the same model, one Gram matrix serves all."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris, load_wine
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap.kernels import gram as grams

X, Y = load_wine(return_X_y=True)
X = np.round(64.0 * StandardScaler().fit_transform(X)) / 64.0


@pytest.mark.parametrize(
    "parameters", [{"kernel": "rbf"}, {"kernel": "linear"}, {"kernel": "poly", "coef0": 1.0}], ids=str
)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_same_as_the_wrapper(parameters, layout):
    data = layout(X)
    ours = dualgap.SVC(multi_class="ovr", tol=1e-10, **parameters).fit(data, Y)
    theirs = OneVsRestClassifier(sklearn.svm.SVC(tol=1e-10, **parameters)).fit(data, Y)
    assert ours.decision_function(data).shape == (len(Y), 3)
    scale = np.abs(theirs.decision_function(data)).max()
    assert_allclose(ours.decision_function(data) / scale, theirs.decision_function(data) / scale, atol=1e-6)
    assert_array_equal(ours.predict(data), theirs.predict(data))
    assert ours.dual_coef_.shape == (3, ours.n_support_.sum())
    assert ours.n_support_.shape == (3,)
    assert ours.intercept_.shape == (3,)
    assert len(ours.certificates_) == 3
    assert_array_equal(Y[ours.support_], np.repeat([0, 1, 2], ours.n_support_))
    if parameters["kernel"] == "linear":
        coef = ours.coef_.toarray() if sp.issparse(ours.coef_) else ours.coef_
        assert_allclose(X @ coef.T + ours.intercept_, ours.decision_function(data), atol=1e-9)


def test_two_classes_are_a_pair():
    kept = Y > 0
    one, two = (dualgap.SVC(multi_class=way).fit(X[kept], Y[kept]) for way in ("ovr", "ovo"))
    assert_array_equal(one.decision_function(X), two.decision_function(X))
    assert one.dual_coef_.shape == two.dual_coef_.shape


def test_class_weight_is_a_sample_weight():
    by_class = dualgap.SVC(multi_class="ovr", gamma=0.1, class_weight={0: 2.0}).fit(X, Y)
    by_sample = dualgap.SVC(multi_class="ovr", gamma=0.1).fit(X, Y, sample_weight=np.where(Y == 0, 2.0, 1.0))
    assert_array_equal(by_class.decision_function(X), by_sample.decision_function(X))


def test_one_matrix_serves_all(monkeypatch):
    calls = []
    original = grams.full_matrix
    monkeypatch.setattr(grams, "full_matrix", lambda *arguments: calls.append(0) or original(*arguments))
    dualgap.SVC(multi_class="ovr").fit(X, Y)
    assert len(calls) <= 1


@pytest.mark.parametrize("approximation", [None, "rpcholesky"])
def test_model_files(approximation, tmp_path):
    flowers, species = load_iris(return_X_y=True)
    model = dualgap.SVC(multi_class="ovr", approximation=approximation, rank=30).fit(flowers, species)
    dualgap.save(model, tmp_path / "model")
    same = dualgap.load(tmp_path / "model")
    assert same.multi_class == "ovr"
    assert_array_equal(same.decision_function(flowers), model.decision_function(flowers))
    assert_array_equal(same.predict(flowers), model.predict(flowers))
    assert same.certificates_ == model.certificates_
    with pytest.raises(ValueError, match="multi_class='ovo' was set after the fit"):
        dualgap.save(model.set_params(multi_class="ovo"), tmp_path / "other")
