"""Fitted estimators to scikit-learn and back: the same decision values, nothing trained again."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal

import dualgap

KERNELS = ("linear", "poly", "rbf", "sigmoid")
LABELS = {"two": np.array(["no", "yes"]), "four": np.array([3, 5, 9, 12])}


def samples(n=70, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 5))
    X[np.abs(X) < 0.3] = 0.0
    X[:, 0] += 2.0  # beside the origin: a linear one-class machine has no answer around it
    return X


def targets(X, labels=None):
    # Nearly linear: with a nu below the share of errors a machine has no margin, and its values are rounding.
    score = X[:, 0] + 0.5 * X[:, 1] + 0.05 * X[:, 2] ** 2
    if labels is None:
        return score
    return LABELS[labels][np.argsort(np.argsort(score)) * len(LABELS[labels]) // len(X)]


def machines(**params):
    """A name, the targets it wants, its parameters."""
    yield "SVC", "two", params
    yield "SVC", "four", {"decision_function_shape": "ovo", **params}
    yield "SVC", "four", params
    yield "NuSVC", "four", {"nu": 0.3, **params}
    yield "NuSVC", "two", {"nu": 0.3, **params}
    yield "SVR", None, params
    yield "NuSVR", None, params
    yield "OneClassSVM", None, params


CASES = [case for kernel in KERNELS for case in machines(kernel=kernel, gamma=0.2, coef0=0.3, degree=2)]
LINEAR = [
    ("LinearSVC", "two", {}),
    ("LinearSVC", "four", {"fit_intercept": False}),
    ("LinearSVC", "four", {"multi_class": "crammer_singer"}),
    ("LinearSVC", "two", {"penalty": "l1", "dual": False}),
    ("LinearSVR", None, {}),
    ("LinearSVR", None, {"fit_intercept": False}),
]


def assert_agree(one, two, X):
    for name in ("decision_function", "score_samples"):
        if hasattr(one, name):
            assert_allclose(getattr(one, name)(X), getattr(two, name)(X), rtol=1e-10, atol=1e-10)
    if hasattr(one, "classes_"):
        assert_array_equal(one.predict(X), two.predict(X))
        assert_array_equal(one.classes_, two.classes_)
    else:
        assert_allclose(one.predict(X), two.predict(X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("name", "labels", "params"), CASES)
def test_kernel_machines_go_there_and_back(name, labels, params, layout):
    X = samples()
    ours = getattr(dualgap, name)(**params).fit(layout(X), targets(X, labels))
    theirs = ours.to_sklearn()
    assert type(theirs) is getattr(sklearn.svm, name)
    new = layout(samples(40, 3))
    assert_agree(theirs, ours, new)
    assert_agree(pickle.loads(pickle.dumps(theirs)), ours, new)
    assert_agree(dualgap.from_sklearn(theirs), ours, new)
    assert_array_equal(theirs.n_support_, ours.n_support_)
    if params["kernel"] == "linear":
        assert_allclose(_dense(theirs.coef_), _dense(ours.coef_), atol=1e-12)


def _dense(array):
    return array.toarray() if sp.issparse(array) else array


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("name", "labels", "params"), CASES)
def test_machines_of_scikit_learn_come_here(name, labels, params, layout):
    X = samples()
    theirs = getattr(sklearn.svm, name)(**params).fit(layout(X), targets(X, labels))
    ours = dualgap.from_sklearn(theirs)
    assert type(ours) is getattr(dualgap, name)
    assert ours.get_params().items() >= params.items()
    assert_agree(ours, theirs, layout(samples(40, 3)))
    assert "scikit-learn" in ours.certificate_.note
    assert ours.status_ is None


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("name", "labels", "params"), LINEAR)
def test_linear_machines_both_ways(name, labels, params, layout):
    X, new = samples(), layout(samples(40, 3))
    ours = getattr(dualgap, name)(**params).fit(layout(X), targets(X, labels))
    theirs = ours.to_sklearn()
    assert_agree(theirs, ours, new)
    assert_agree(dualgap.from_sklearn(theirs), ours, new)
    trained = getattr(sklearn.svm, name)(**params, max_iter=100_000).fit(layout(X), targets(X, labels))
    assert_agree(dualgap.from_sklearn(trained), trained, new)


@pytest.mark.parametrize("kernel", ["laplacian", "chi2"])
def test_kernels_that_scikit_learn_has_as_functions(kernel):
    X, new = np.abs(samples()), np.abs(samples(40, 3))
    for name, labels, params in machines(kernel=kernel, gamma=0.3):
        ours = getattr(dualgap, name)(**params).fit(X, targets(X, labels))
        theirs = ours.to_sklearn()
        assert_agree(theirs, ours, new)
        assert_agree(dualgap.from_sklearn(theirs), ours, new)
        assert_agree(pickle.loads(pickle.dumps(theirs)), ours, new)


def product(X, Z):
    return X @ Z.T


def test_callable_and_precomputed_kernels():
    X, new = samples(), samples(40, 3)
    for name, labels, params in machines():
        y = targets(X, labels)
        ours = getattr(dualgap, name)(kernel=product, **params).fit(X, y)
        assert_agree(ours.to_sklearn(), ours, new)
        theirs = getattr(sklearn.svm, name)(kernel=product, **params).fit(X, y)
        assert_agree(dualgap.from_sklearn(theirs), theirs, new)
        ours = getattr(dualgap, name)(kernel="precomputed", **params).fit(X @ X.T, y)
        assert_agree(ours.to_sklearn(), ours, new @ X.T)
        assert_agree(dualgap.from_sklearn(ours.to_sklearn()), ours, new @ X.T)


@pytest.mark.parametrize("labels", ["two", "four"])
def test_sigmoids_move_with_the_model(labels):
    X = samples()
    ours = dualgap.SVC(probability=True, calibration_cv=3).fit(X, targets(X, labels))
    theirs = ours.to_sklearn()
    back = dualgap.from_sklearn(theirs)
    assert_array_equal(back.predict_proba(X), ours.predict_proba(X))
    # Equal but for what ours does so that predict and predict_proba agree, and LIBSVM's coarse coupling of pairs.
    assert_allclose(theirs.predict_proba(X), ours.predict_proba(X), atol=0.1)
    assert np.median(np.abs(theirs.predict_proba(X) - ours.predict_proba(X))) < 0.01
    isotonic = dualgap.SVC(probability=True, calibration="isotonic", calibration_cv=3).fit(X, targets(X, labels))
    assert not hasattr(isotonic.to_sklearn(), "predict_proba")
    assert not dualgap.from_sklearn(sklearn.svm.SVC().fit(X, targets(X, labels))).probability


def test_float32_data_approximations_and_half_spaces():
    X, new = samples().astype(np.float32), samples(40, 3)
    ours = dualgap.SVC().fit(X, targets(X, "four"))
    assert_agree(ours.to_sklearn(), dualgap.from_sklearn(ours.to_sklearn()), new)
    approximate = dualgap.SVC(approximation="rpcholesky", rank=20).fit(samples(), targets(X, "two"))
    assert_agree(approximate.to_sklearn(), approximate, new)
    half = dualgap.LinearOneClassSVM(nu=0.2).fit(samples() + 2.0)
    assert_agree(half.to_sklearn(), half, new)
    assert_allclose(half.to_sklearn().score_samples(new), half.score_samples(new))


def test_names_of_features_move_with_the_model():
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(samples(), columns=list("abcde"))
    ours = dualgap.SVC().fit(X, targets(samples(), "two"))
    theirs = ours.to_sklearn()
    assert theirs.feature_names_in_.tolist() == list("abcde")
    assert dualgap.from_sklearn(theirs).feature_names_in_.tolist() == list("abcde")
    assert_agree(theirs, ours, X)


def test_a_model_without_support_vectors():
    X = samples()
    for layout in (np.asarray, sp.csr_matrix):
        ours = dualgap.SVR(epsilon=100.0).fit(layout(X), targets(X))
        assert_agree(dualgap.from_sklearn(ours.to_sklearn()), ours, layout(X))


def test_what_has_no_counterpart_is_refused():
    X = samples()
    y = targets(X, "four")
    for model, words in (
        (dualgap.SVDD().fit(X), "no counterpart"),
        (dualgap.LinearSVDD().fit(X), "no counterpart"),
        (dualgap.SVC(multi_class="ovr").fit(X, y), "one against one"),
        (dualgap.SVC(approximation="sgma", rank=10).fit(X, y), "one against one"),
        (dualgap.SVR(parametric=[lambda X: X[:, 0]]).fit(X, targets(X)), "semi-parametric"),
        (dualgap.SVC(), "not fitted"),
    ):
        with pytest.raises(ValueError, match=words):
            model.to_sklearn()
    for thing, words in (
        (sklearn.svm.SVC(), "not fitted"),
        (sklearn.svm.l1_min_c, "from_sklearn takes"),
        (dualgap.SVC().fit(X, y), "from_sklearn takes"),
    ):
        with pytest.raises(ValueError, match=words):
            dualgap.from_sklearn(thing)


def test_a_model_from_scikit_learn_is_saved_and_written_for_libsvm(tmp_path):
    from dualgap.formats.libsvm_model import read_libsvm_model, write_libsvm_model

    X = samples()
    theirs = sklearn.svm.SVC().fit(X, targets(X, "four"))
    ours = dualgap.from_sklearn(theirs)
    dualgap.save(ours, tmp_path / "native")
    write_libsvm_model(ours, tmp_path / "text")
    for same in (dualgap.load(tmp_path / "native"), read_libsvm_model(tmp_path / "text")):
        assert_agree(same, theirs, samples(40, 3))
