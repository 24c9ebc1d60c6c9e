"""The same answers as `sklearn.svm` wherever both exist, and the same meaning of weights where LIBSVM's is unclear.

LIBSVM keeps kernel rows in float32, so its solutions carry errors of about 1e-7 times the conditioning of the
problem; data and parameters here are chosen so that 1e-6 of the scale of the decision values is enough: features
are multiples of 1/64, whose inner products float32 holds exactly. The nu-machines have nu * n / 2 off the integers,
because at an integer the bias is not unique.
"""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import chi2_kernel, laplacian_kernel, rbf_kernel
from sklearn.preprocessing import StandardScaler, minmax_scale

import dualgap

TIGHT = 1e-10


def _blend(A, B):
    """A callable kernel that neither library has by name."""
    return 0.5 * rbf_kernel(A, B, gamma=0.2) + 0.1 * (A @ B.T)


def _round(X):
    return np.round(64.0 * X) / 64.0


def _load(name):
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X[:300] / 16.0, y[:300]
    if name == "diabetes":
        X, y = load_diabetes(return_X_y=True)
        return _round(StandardScaler().fit_transform(X[:150])), (y[:150] - y.mean()) / y.std()
    X, y = {"iris": load_iris, "wine": load_wine}[name.removeprefix("binary ")](return_X_y=True)
    X = _round(StandardScaler().fit_transform(X))
    return (X[y > 0], y[y > 0]) if name.startswith("binary") else (X, y)


DATA = {name: _load(name) for name in ("iris", "wine", "digits", "diabetes", "binary iris", "binary wine")}

KERNELS = {
    "linear": {"kernel": "linear"},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.1, "coef0": 1.0},
    "cubic": {"kernel": "poly", "gamma": "auto", "coef0": 1.0},
    "rbf": {"kernel": "rbf"},
    "rbf auto": {"kernel": "rbf", "gamma": "auto"},
    "sigmoid": {"kernel": "sigmoid", "gamma": 0.01},
    "precomputed": {"kernel": "precomputed"},
    "callable": {"kernel": _blend},
}

# Estimator, its parameters, and the data it is compared on.
CLASSIFIERS = [
    (name, parameters, data)
    for name, parameters in (("SVC", {"C": 0.7}), ("NuSVC", {"nu": 0.41}))
    for data in ("binary iris", "binary wine", "iris", "wine", "digits")
]
OTHERS = [
    ("SVR", {"C": 0.2, "epsilon": 0.15}, "diabetes"),
    ("NuSVR", {"C": 0.2, "nu": 0.43}, "diabetes"),
    ("OneClassSVM", {"nu": 0.23}, "digits"),
    ("OneClassSVM", {"nu": 0.23}, "diabetes"),
]
SHARED = [("SVC", {"C": 0.7}), ("NuSVC", {"nu": 0.41}), *((name, p) for name, p, _ in OTHERS[:3])]
ALL = [*SHARED, ("SVDD", {"C": 0.1})]


def data_of(name):
    """A data set that suits an estimator."""
    return DATA["diabetes" if name.endswith("R") else "wine"]


def make(name, parameters, **more):
    return getattr(dualgap, name)(**{"tol": TIGHT, **parameters, **more})


def pair(name, parameters):
    """The two estimators of this name; pairs of classes are compared one by one."""
    shape = {"decision_function_shape": "ovo"} if name.endswith("SVC") else {}
    parameters = {**shape, **parameters}
    return make(name, parameters), getattr(sklearn.svm, name)(tol=TIGHT, **parameters)


def values(model, X):
    """Decision values, or predictions of a regressor."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


def assert_same(ours, theirs, tolerance=1e-6):
    """Equal up to `tolerance` of the scale of the values."""
    ours, theirs = (np.asarray(v.toarray() if sp.issparse(v) else v) for v in (ours, theirs))
    assert_allclose(ours, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("name", "parameters", "data"), CLASSIFIERS + OTHERS)
def test_decision_values(name, parameters, data, kernel):
    X, y = DATA[data]
    if (name, kernel) == ("OneClassSVM", "linear") and data == "diabetes":
        X = X + 3.0  # around the origin no half-space separates, and the optimum is exactly 0
    elif name == "OneClassSVM" and kernel in ("sigmoid", "callable") and data == "diabetes":
        X = minmax_scale(X)  # likewise
    train = test = X
    if kernel == "precomputed":
        K = rbf_kernel(np.vstack([X, X[::3] * 0.9]), X, gamma=1.0 / X.shape[1])
        K = K.astype(np.float32).astype(np.float64)  # what LIBSVM keeps of it
        train, test = K[: len(X)], K[len(X) :]
    else:
        test = X[::3] * 0.9
    ours, theirs = (model.fit(train, y) for model in pair(name, {**parameters, **KERNELS[kernel]}))
    assert_same(values(ours, train), values(theirs, train))
    assert_same(values(ours, test), values(theirs, test))
    if hasattr(ours, "score_samples"):
        assert_same(ours.score_samples(test), theirs.score_samples(test))
        assert_same(ours.offset_, theirs.offset_)
    sure = np.abs(values(theirs, test)) > 1e-5  # a value of 0 has no sign
    if not name.endswith("R"):
        sure = sure if sure.ndim == 1 else sure.all(axis=1)
        assert_array_equal(ours.predict(test)[sure], theirs.predict(test)[sure])


@pytest.mark.parametrize(("name", "parameters"), SHARED)
@pytest.mark.parametrize(
    ("kernel", "function"), [("laplacian", laplacian_kernel), ("chi2", chi2_kernel)], ids=["laplacian", "chi2"]
)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_kernels_that_libsvm_lacks(name, parameters, kernel, function, layout):
    X, y = data_of(name)
    X = minmax_scale(X)

    def call(A, B):
        return function(A, B, gamma=0.3)

    theirs = pair(name, {**parameters, "kernel": call})[1].fit(X, y)
    ours = pair(name, {**parameters, "kernel": kernel, "gamma": 0.3})[0].fit(layout(X), y)
    assert_same(values(ours, layout(X[::2] * 0.9)), values(theirs, X[::2] * 0.9))


# Not iris: it holds a flower twice, and their coefficients are not unique.
@pytest.mark.parametrize(
    ("name", "parameters", "data"),
    [
        *((name, parameters, data) for name, parameters in SHARED[:2] for data in ("binary wine", "wine")),
        *((name, parameters, "diabetes") for name, parameters in SHARED[2:]),
    ],
)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_attributes(name, parameters, data, kernel):
    X, y = DATA[data]
    if kernel == "precomputed":
        X = rbf_kernel(X, gamma=0.1)
    elif name == "OneClassSVM":
        X = X + 3.0
    ours, theirs = (model.fit(X, y) for model in pair(name, {**parameters, "kernel": kernel}))
    assert_array_equal(ours.support_, theirs.support_)
    assert ours.support_.dtype == theirs.support_.dtype
    assert_array_equal(ours.n_support_, theirs.n_support_)
    assert ours.n_support_.dtype == theirs.n_support_.dtype
    assert ours.support_vectors_.shape == theirs.support_vectors_.shape
    assert_array_equal(ours.support_vectors_, theirs.support_vectors_)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape
    # Coefficients answer to errors of the kernel with the inverse of its smallest eigenvalue in play.
    assert_same(ours.dual_coef_, theirs.dual_coef_, 1e-4)
    assert ours.intercept_.shape == theirs.intercept_.shape
    assert_allclose(ours.intercept_, theirs.intercept_, rtol=1e-5, atol=1e-6)
    assert type(ours.n_iter_) is type(theirs.n_iter_)
    if isinstance(theirs.n_iter_, np.ndarray):
        assert ours.n_iter_.dtype == theirs.n_iter_.dtype
        assert ours.n_iter_.shape == theirs.n_iter_.shape
    assert ours.fit_status_ == theirs.fit_status_ == 0
    assert ours.shape_fit_ == theirs.shape_fit_ == X.shape
    assert ours.n_features_in_ == theirs.n_features_in_
    if name.endswith("SVC"):
        assert_array_equal(ours.classes_, theirs.classes_)
        assert_array_equal(ours.class_weight_, theirs.class_weight_)
    assert hasattr(ours, "coef_") == hasattr(theirs, "coef_") == (kernel == "linear")
    if kernel == "linear":
        assert_same(ours.coef_, theirs.coef_, 1e-5)
        with pytest.raises(ValueError, match="read-only"):
            ours.coef_[0, 0] = 1.0


@pytest.mark.parametrize(("name", "parameters"), SHARED)
def test_sparse_attributes(name, parameters):
    X, y = DATA["digits"]
    if name == "NuSVR":
        X, y = X[:80], y[:80]
    X = sp.csr_matrix(X)
    ours, theirs = (model.fit(X, y) for model in pair(name, {**parameters, "kernel": "linear"}))
    for attribute in ("dual_coef_", "support_vectors_", "coef_"):
        one, two = getattr(ours, attribute), getattr(theirs, attribute)
        assert sp.issparse(one)
        assert sp.issparse(two)
        assert one.shape == two.shape
        assert_same(one, two, 1e-5)


@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
@pytest.mark.parametrize("data", ["binary wine", "wine", "digits"])
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_decision_function_shape(name, data, shape):
    X, y = DATA[data]
    parameters = {"decision_function_shape": shape} | ({"nu": 0.41} if name == "NuSVC" else {})
    ours, theirs = (model.fit(X, y) for model in pair(name, parameters))
    one, two = ours.decision_function(X), theirs.decision_function(X)
    classes = len(np.unique(y))
    columns = classes if shape == "ovr" else classes * (classes - 1) // 2
    assert one.shape == two.shape == ((len(X),) if classes == 2 else (len(X), columns))
    assert_same(one, two)


@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_break_ties(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 2)), np.arange(120) % 5
    grid = rng.normal(size=(2000, 2))
    parameters = {"break_ties": True, "decision_function_shape": "ovr", "gamma": 3.0}
    parameters |= {"nu": 0.63} if name == "NuSVC" else {}
    ours, theirs = (model.fit(X, y) for model in pair(name, parameters))
    broken = ours.predict(grid)
    assert_array_equal(broken, theirs.predict(grid))
    assert_array_equal(broken, ours.classes_[np.argmax(ours.decision_function(grid), axis=1)])
    unbroken = ours.set_params(break_ties=False).predict(grid)
    assert_array_equal(unbroken, theirs.set_params(break_ties=False).predict(grid))
    assert np.any(unbroken != broken)


@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
@pytest.mark.parametrize(
    "labels", [["setosa", "versicolor", "virginica"], [7, -3, 100], [2.0, 0.0, 1.0]], ids=["text", "integers", "floats"]
)
def test_labels_of_any_kind(name, labels):
    X, y = DATA["iris"]
    y = np.array(labels)[y]
    parameters = {"nu": 0.41} if name == "NuSVC" else {}
    ours, theirs = (model.fit(X, y) for model in pair(name, parameters))
    assert_array_equal(ours.classes_, theirs.classes_)
    predicted = ours.predict(X)
    assert predicted.dtype == theirs.predict(X).dtype
    assert_array_equal(predicted, theirs.predict(X))
    assert_same(ours.decision_function(X), theirs.decision_function(X))


@pytest.mark.parametrize(("name", "parameters"), SHARED)
def test_score(name, parameters):
    X, y = data_of(name)
    ours, theirs = (model.fit(X, y) for model in pair(name, parameters))
    if name == "OneClassSVM":
        assert not hasattr(ours, "score")
        sure = np.abs(theirs.decision_function(X)) > 1e-5  # not the points on the boundary
        assert_array_equal(ours.fit_predict(X)[sure], theirs.fit_predict(X)[sure])
        return
    assert_allclose(ours.score(X, y), theirs.score(X, y), rtol=1e-6)
    weight = np.linspace(0.0, 2.0, len(X))
    assert_allclose(ours.score(X, y, weight), theirs.score(X, y, weight), rtol=1e-6)


# -- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "parameters"), SHARED)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_sample_weight(name, parameters, kernel):
    X, y = data_of(name)
    if name == "OneClassSVM":
        X = X + 3.0
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(X))
    weight[::7] = 0.0
    # gamma="scale" counts weights here, and samples there: see test_scale_counts_by_weight.
    parameters = {**parameters, "kernel": kernel, "gamma": "auto"}
    ours, theirs = (model.fit(X, y, sample_weight=weight) for model in pair(name, parameters))
    assert_same(values(ours, X), values(theirs, X))
    # scikit-learn's support_ counts in the samples that LIBSVM has left; ours counts in all of them.
    assert_array_equal(ours.support_, np.flatnonzero(weight)[theirs.support_])


@pytest.mark.parametrize("data", ["binary wine", "iris", "wine"])
@pytest.mark.parametrize(
    ("class_weight", "weighted"),
    # With sample weights scikit-learn balances by count, dualgap by weight: see test_balanced_counts_by_weight.
    [({1: 5.0}, False), ({1: 5.0}, True), ({1: 0.3, 2: 2.5}, False), ({1: 0.3, 2: 2.5}, True), ("balanced", False)],
)
def test_class_weight(data, class_weight, weighted):
    X, y = DATA[data]
    keep = np.flatnonzero((y != 1) | (np.arange(len(y)) % 3 == 0))  # classes of different size
    X, y = X[keep], y[keep]
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(X)) if weighted else None
    parameters = {"class_weight": class_weight, "gamma": "auto" if weighted else "scale"}
    ours, theirs = (model.fit(X, y, sample_weight=weight) for model in pair("SVC", parameters))
    assert_allclose(ours.class_weight_, theirs.class_weight_, rtol=1e-14)
    assert_same(ours.decision_function(X), theirs.decision_function(X))


@pytest.mark.parametrize("name", ["SVC", "NuSVC"])
def test_class_weight_is_a_sample_weight(name):
    """LIBSVM ignores class_weight for NuSVC; here it means the same for both."""
    X, y = DATA["wine"]
    parameters = {"gamma": 0.1, **({"nu": 0.17} if name == "NuSVC" else {})}
    by_class = make(name, parameters, class_weight={0: 1.5, 2: 0.7}).fit(X, y)
    by_sample = make(name, parameters).fit(X, y, sample_weight=np.array([1.5, 1.0, 0.7])[y])
    assert_array_equal(by_class.decision_function(X), by_sample.decision_function(X))


def test_balanced_counts_by_weight():
    X, y = DATA["wine"]
    weight = np.random.default_rng(2).integers(0, 4, len(X))
    parameters = {"class_weight": "balanced", "gamma": 0.1}
    weighted = make("SVC", parameters).fit(X, y, sample_weight=weight)
    repeated = make("SVC", parameters).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(weighted.class_weight_, repeated.class_weight_, rtol=1e-12)
    assert_same(weighted.decision_function(X), repeated.decision_function(X))


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_scale_counts_by_weight(layout):
    X, y = DATA["diabetes"]
    weight = np.random.default_rng(5).integers(0, 4, len(X))
    weighted = dualgap.SVR().fit(layout(X), y, sample_weight=weight)
    repeated = dualgap.SVR().fit(layout(X.repeat(weight, axis=0)), y.repeat(weight))
    assert_allclose(weighted._gamma, repeated._gamma, rtol=1e-13)
    theirs = sklearn.svm.SVR().fit(layout(X.repeat(weight, axis=0)), y.repeat(weight))
    assert repeated._gamma == theirs._gamma
    equal = dualgap.SVR().fit(layout(X), y, sample_weight=np.full(len(X), 0.3))
    assert equal._gamma == sklearn.svm.SVR().fit(layout(X), y)._gamma


def exact(name, parameters):
    """An estimator run to a gap of 1e-12."""
    return getattr(dualgap, name)(gap_tol=1e-12, gamma=0.1, **parameters)


@pytest.mark.parametrize(("name", "parameters"), ALL)
def test_zero_weight_is_absence(name, parameters):
    X, y = data_of(name)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(X))
    weight[::4], weight[1::11] = 0.0, -1.0
    kept = weight > 0
    weighted = exact(name, parameters).fit(X, y, sample_weight=weight)
    without = exact(name, parameters).fit(X[kept], y[kept], sample_weight=weight[kept])
    assert_same(values(weighted, X), values(without, X))
    assert_array_equal(weighted.support_, np.flatnonzero(kept)[without.support_])
    assert_allclose(weighted.certificate_.primal, without.certificate_.primal, rtol=1e-10)


@pytest.mark.parametrize(("name", "parameters"), ALL)
def test_integer_weight_is_repetition(name, parameters):
    X, y = data_of(name)
    weight = np.random.default_rng(4).integers(0, 4, len(X))
    if name == "SVDD":
        parameters = {"C": 0.013}  # some points outside the ball
    weighted = exact(name, parameters).fit(X, y, sample_weight=weight)
    repeated = exact(name, parameters).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_same(values(weighted, X), values(repeated, X))
    assert_allclose(weighted.certificate_.primal, repeated.certificate_.primal, rtol=1e-10)


def test_a_class_without_weight_is_absent():
    X, y = DATA["wine"]
    weight = np.where(y == 1, 0.0, 1.0)
    whole = exact("SVC", {}).fit(X, y, sample_weight=weight)
    part = exact("SVC", {}).fit(X[y != 1], y[y != 1])
    assert_array_equal(whole.predict(X), part.predict(X))


# -- layouts ---------------------------------------------------------------------------------------------------------


def _wide(matrix):
    """64-bit indices, which scikit-learn's support vector machines refuse."""
    matrix = sp.csr_matrix(matrix)
    return sp.csr_matrix(
        (matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64)), shape=matrix.shape
    )


def _doubled(matrix):
    """Every entry as the sum of two, columns in descending order, and stored zeros: allowed, and seen in the wild."""
    matrix = np.asarray(matrix)
    n, d = matrix.shape
    columns = np.tile(np.repeat(np.arange(d)[::-1], 2), n)
    data = np.stack([0.25 * matrix[:, ::-1], 0.75 * matrix[:, ::-1]], axis=2).ravel()
    return sp.csr_matrix((data, columns, np.arange(n + 1) * 2 * d), shape=(n, d))


LAYOUTS = {
    "csr 32-bit": sp.csr_matrix,
    "csr 64-bit": _wide,
    "csr array": sp.csr_array,
    "csc": sp.csc_matrix,
    "coo": sp.coo_matrix,
    "csr not canonical": _doubled,
    "fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "list": lambda X: X.tolist(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "sigmoid", "laplacian", "chi2"])
def test_layouts_are_equal(layout, kernel):
    X, y = DATA["digits"]
    X, y = X[y < 3], y[y < 3]
    parameters = {"kernel": kernel, "gamma": 0.03, "coef0": 1.0 if kernel == "poly" else 0.0}
    dense = make("SVC", parameters).fit(X, y)
    other = make("SVC", parameters).fit(LAYOUTS[layout](X), y)
    expected = dense.decision_function(X)
    assert_same(other.decision_function(LAYOUTS[layout](X)), expected, 1e-8)
    # A model takes either layout, however it was fitted.
    assert_same(other.decision_function(X), expected, 1e-8)
    assert_same(dense.decision_function(LAYOUTS[layout](X)), expected, 1e-8)


@pytest.mark.parametrize(("name", "parameters"), ALL)
@pytest.mark.parametrize("wide", [False, True], ids=["32-bit", "64-bit"])
def test_sparse_is_dense(name, parameters, wide):
    X, y = data_of(name)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    layout = _wide if wide else sp.csr_matrix
    dense, sparse = make(name, parameters).fit(X, y), make(name, parameters).fit(layout(X), y)
    assert_same(values(sparse, layout(X)), values(dense, X), 1e-8)
    assert_array_equal(sparse.support_, dense.support_)
    assert_same(sparse.dual_coef_, dense.dual_coef_, 1e-6)


@pytest.mark.parametrize(("name", "parameters"), ALL)
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf", "laplacian", "chi2"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_float32_is_close(name, parameters, kernel, layout):
    X, y = data_of(name)
    X = minmax_scale(X)
    parameters = {**parameters, "kernel": kernel, "gamma": 0.3, "tol": 1e-5}
    double = make(name, parameters).fit(layout(X), y)
    single = make(name, parameters).fit(layout(X.astype(np.float32)), y)
    assert single.support_vectors_.dtype == np.float32
    expected = values(double, layout(X))
    assert_allclose(values(single, layout(X.astype(np.float32))), expected, atol=2e-4 * max(1.0, np.ptp(expected)))


WORDS = ["aab", "abb", "aaa", "bbb", "cab", "acb", "bba", "aba"]


@pytest.mark.parametrize("layout", [list, np.array, lambda words: np.array(words, dtype=object)[:, None]])
def test_callable_kernel_on_text(layout):
    """A callable may take anything with a length, as in scikit-learn."""
    y = np.array([0, 1, 0, 1, 0, 1, 1, 0])

    def common(A, B):
        A, B = np.ravel(A), np.ravel(B)
        return np.array([[sum(min(a.count(c), b.count(c)) for c in "abc") for b in B] for a in A], dtype=float)

    words = layout(WORDS)
    ours, theirs = (model.fit(words, y) for model in pair("SVC", {"kernel": common}))
    assert_same(ours.decision_function(words), theirs.decision_function(words))
    assert ours.shape_fit_ == theirs.shape_fit_


def _gaussian(A, B):
    A, B = np.asarray(A), np.asarray(B)
    return np.exp(-0.1 * ((A[:, None] - B[None]) ** 2).sum(axis=2))


@pytest.mark.parametrize("layout", [np.asarray, pd.DataFrame, np.ndarray.tolist], ids=["array", "frame", "list"])
@pytest.mark.parametrize("name", ["SVC", "OneClassSVM"])
def test_callable_kernel_on_tables(name, layout):
    X, y = data_of(name)
    ours, theirs = (model.fit(layout(X), y) for model in pair(name, {"kernel": _gaussian}))
    assert_same(values(ours, layout(X)), values(theirs, layout(X)))


def test_callable_kernel_on_sparse():
    X, y = DATA["wine"]
    X = sp.csr_matrix(X)
    ours, theirs = (model.fit(X, y) for model in pair("SVC", {"kernel": lambda A, B: A @ B.T}))
    assert_same(ours.decision_function(X), theirs.decision_function(X))
    assert type(ours.dual_coef_) is type(theirs.dual_coef_)
    assert_same(ours.dual_coef_, theirs.dual_coef_, 1e-5)


# -- odd but legal problems ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["SVC", "SVR"])
def test_all_samples_are_one(name):
    X, y = np.ones((10, 2)), np.arange(10) % 2
    ours, theirs = (model.fit(X, y) for model in pair(name, {}))
    assert_allclose(values(ours, X), values(theirs, X), atol=1e-12)


def test_contradictory_samples():
    X, y = DATA["binary iris"]
    X, y = np.vstack([X, X]), np.concatenate([y, 3 - y])
    assert_allclose(make("SVC", {}).fit(X, y).decision_function(X), 0.0, atol=1e-8)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_no_support_vectors(layout, kernel):
    X, y = DATA["diabetes"]
    ours, theirs = (model.fit(layout(X), y) for model in pair("SVR", {"epsilon": 100.0, "kernel": kernel}))
    assert ours.support_.shape == theirs.support_.shape == (0,)
    assert ours.dual_coef_.shape == theirs.dual_coef_.shape == (1, 0)
    assert_allclose(ours.predict(layout(X)), theirs.predict(layout(X)), rtol=1e-12)
    if kernel == "linear":
        assert ours.coef_.shape == (1, X.shape[1])
        assert abs(ours.coef_).max() == 0.0


def test_few_samples():
    two = np.array([[0.0], [1.0]])
    ours, theirs = (model.fit(two, [0, 1]) for model in pair("SVC", {}))
    assert_allclose(ours.decision_function(two), theirs.decision_function(two), rtol=1e-6)
    ours, theirs = (model.fit(two[1:]) for model in pair("OneClassSVM", {}))
    assert_allclose(ours.decision_function(two), theirs.decision_function(two), atol=1e-6)
    ball = make("SVDD", {"gamma": 1.0}).fit(two[1:])
    assert ball.radius_ == 0.0
    assert_allclose(ball.decision_function(two), [2.0 * np.exp(-1.0) - 2.0, 0.0], atol=1e-12)


def test_bias_and_offset_of_the_data_do_not_matter():
    """Kernels of differences see nothing of a shift, and squared distances are not lost to it."""
    X, y = DATA["wine"]
    near, far = (make("SVC", {"gamma": 0.1}).fit(points, y) for points in (X, X + 4096.0))
    assert_same(far.decision_function(X + 4096.0), near.decision_function(X), 1e-9)


def test_infinite_price_allows_no_errors():
    X, y = DATA["binary wine"]
    hard = dualgap.SVC(C=np.inf, gamma=0.1).fit(X, y)
    assert (np.where(y == 2, 1.0, -1.0) * hard.decision_function(X)).min() >= 1.0 - 1e-9
    assert_array_equal(hard.decision_function(X), dualgap.SVC(C=1e10, gamma=0.1).fit(X, y).decision_function(X))
    assert_same(
        hard.decision_function(X), sklearn.svm.SVC(C=np.inf, gamma=0.1, tol=TIGHT).fit(X, y).decision_function(X)
    )


@pytest.mark.parametrize(
    "model",
    [
        dualgap.OneClassSVM(nu=0.31),
        dualgap.SVDD(C=0.02),
        dualgap.OneClassSVM(nu=0.31, kernel="poly", coef0=1.0),
        dualgap.LinearOneClassSVM(nu=0.31),
        dualgap.LinearSVDD(C=0.02),
    ],
    ids=str,
)
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
def test_the_boundary_is_inside(model, layout):
    """Samples on the boundary, to rounding: at least as many as have a free coefficient, and exactly on it."""
    X, _ = DATA["iris"]
    X = layout(np.unique(X + 3.0, axis=0))
    found = model.fit(X).decision_function(X)
    zero = found == 0.0
    bound = getattr(model, "C", 1.0)
    shares = np.ravel(sp.csr_matrix(getattr(model, "dual_coef_", [[0.5 * bound]])).toarray()) / bound
    assert zero.sum() >= np.count_nonzero(shares < 1.0 - 1e-9) >= 1
    assert_array_equal(model.predict(X)[zero], 1)
    scale = np.abs(found).max()
    assert np.abs(found[~zero]).min() > 1e-12 * scale  # nothing in between
    assert_allclose(model.score_samples(X)[zero], model.offset_[0], rtol=1e-12, atol=1e-12 * scale)
    few = X[:7]
    assert_array_equal(model.decision_function(few) == 0.0, zero[:7])  # in whatever order sums are made


def test_class_weights_under_which_nu_is_infeasible():
    X, y = DATA["binary wine"]
    with pytest.warns(UserWarning, match=r"nu=0\.4 exceeds .*penalised"):
        model = dualgap.NuSVC(nu=0.4, class_weight={1: 100.0}).fit(X, y)
    assert model.certificate_.relative_gap < 1e-9
    assert np.mean(model.predict(X) == 1) > np.mean(dualgap.NuSVC(nu=0.4).fit(X, y).predict(X) == 1)
    # Without class weights it is LIBSVM's error.
    for machine in (dualgap.NuSVC(nu=0.9), sklearn.svm.NuSVC(nu=0.9)):
        with pytest.raises(ValueError, match="nu is infeasible"):
            machine.fit(X, y, sample_weight=np.where(y == 1, 100.0, 1.0))
