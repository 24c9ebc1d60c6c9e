"""Estimators trained on low-rank kernel matrices."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.utils._param_validation import InvalidParameterError

import dualgap
from dualgap import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM

ESTIMATORS = {
    "SVC": lambda **k: SVC(C=2.0, **k),
    "NuSVC": lambda **k: NuSVC(nu=0.3, **k),
    "SVR": lambda **k: SVR(C=2.0, **k),
    "NuSVR": lambda **k: NuSVR(C=2.0, **k),
    "OneClassSVM": lambda **k: OneClassSVM(nu=0.3, **k),
    "SVDD": lambda **k: SVDD(C=0.02, **k),
}
each_estimator = pytest.mark.parametrize("name", ESTIMATORS)
each_method = pytest.mark.parametrize("method", ["sgma", "rpcholesky"])


def samples(name, n=200, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    if name in ("SVC", "NuSVC"):
        return X, np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] + 0.1 * rng.normal(size=n) > 0, 1, 0)
    if name in ("SVR", "NuSVR"):
        return X, np.sin(X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=n)
    return X, None


def values(model, X):
    return model.predict(X) if isinstance(model, SVR | NuSVR) else model.decision_function(X)


@each_method
@each_estimator
def test_full_rank_is_the_exact_machine(name, method):
    X, y = samples(name)
    make = ESTIMATORS[name]
    exact = make(gap_tol=1e-9).fit(X, y)
    model = make(gap_tol=1e-9, approximation=method, rank=1000).fit(X, y)
    assert exact.approximation_ is None
    assert model.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-8)
    np.testing.assert_allclose(values(model, X), values(exact, X), atol=1e-4 * np.abs(values(exact, X)).max())
    assert model.approximation_.true_gap < 1e-7
    assert model.approximation_.trace_error < 1e-10


@each_method
@each_estimator
def test_low_rank(name, method):
    """Fewer basis functions: a certified solution of the restricted machine, and a proved gap for the true kernel."""
    X, y = samples(name)
    best = ESTIMATORS[name](gap_tol=1e-9).fit(X, y).certificate_
    gaps = []
    for rank in (15, 60, 120):
        model = ESTIMATORS[name](gap_tol=1e-7, approximation=method, rank=rank).fit(X, y)
        found = model.approximation_
        assert model.certificate_.relative_gap <= 1e-7
        assert (found.method, found.rank) == (method, rank)
        assert found.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
        assert found.dual <= best.primal
        assert found.primal >= best.dual
        assert model.support_vectors_.shape == (rank, 3)
        assert model.dual_coef_.shape == (1, rank)
        np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
        assert model.n_support_.sum() == rank
        gaps.append(found.true_gap)
    assert gaps[0] > gaps[1] > gaps[2]


@each_estimator
def test_the_expansion_is_the_function_that_was_trained(name):
    """At the training points f = G w + b, G the factor of the matrix trained on; the objective is its own."""
    X, y = samples(name)
    model = ESTIMATORS[name](gap_tol=1e-9, gamma=0.3, approximation="sgma", rank=25).fit(X, y)
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.3))
    low = dualgap.kernels.lowrank.sgma(gram, 25)
    order = np.argsort(model.support_)
    np.testing.assert_array_equal(np.sort(low.basis), model.support_[order])
    row = {"SVC": "c_svc", "NuSVC": "nu_svc", "SVR": "eps_svr", "NuSVR": "nu_svr", "OneClassSVM": "one_class"}.get(name)
    if row is None:  # distances from the centre, by hand
        c, K = model.dual_coef_.ravel(), dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.3), kind="full").matrix
        B = model.support_
        distances = 1.0 - 2.0 * K[:, B] @ c + c @ K[np.ix_(B, B)] @ c
        np.testing.assert_allclose(model.decision_function(X), model.radius_**2 - distances, atol=1e-9)
        losses = np.maximum(0.0, distances - model.radius_**2)
        assert 0.5 * (model.radius_**2 + 0.02 * losses.sum()) == pytest.approx(model.certificate_.primal, rel=1e-8)
        return
    labels = None if y is None else (np.where(y == 1, 1.0, -1.0) if name in ("SVC", "NuSVC") else y)
    p = dualgap.build(row, low, labels, C=2.0, nu=0.3 if name in ("NuSVC", "OneClassSVM") else 0.5)
    result = dualgap.solve(p, gap_tol=1e-9)
    recovered = dualgap.recover(p, result.a, result.eta)
    trained = low.exact(recovered.coefficients) + recovered.bias
    if name == "NuSVC":
        trained = trained / recovered.rho
    np.testing.assert_allclose(values(model, X), trained, atol=1e-8 * np.abs(trained).max())


@each_method
def test_several_classes(method):
    X, y = load_iris(return_X_y=True)
    exact = SVC(gap_tol=1e-9).fit(X, y)
    model = SVC(gap_tol=1e-9, approximation=method, rank=150).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), atol=1e-5)
    model = SVC(gap_tol=1e-6, approximation=method, rank=12, decision_function_shape="ovo").fit(X, y)
    assert model.dual_coef_.shape == (3, 12)
    assert model.n_support_.sum() == 12
    np.testing.assert_array_equal(np.bincount(y[model.support_], minlength=3), model.n_support_)
    assert np.all(np.diff(y[model.support_]) >= 0)
    assert model.decision_function(X).shape == (150, 3)
    assert model.score(X, y) > 0.95
    assert len(model.certificates_) == 3
    # One statement for all three pairs, that of their sum.
    assert model.approximation_.primal == pytest.approx(model.certificate_.primal, rel=1e-9)
    assert 0.0 < model.approximation_.true_gap < 1.0
    linear = SVC(kernel="linear", approximation=method, rank=12).fit(X, y)
    np.testing.assert_allclose(linear.coef_, np.vstack([c @ linear.support_vectors_ for c in linear.dual_coef_]))
    np.testing.assert_allclose(
        X @ linear.coef_.T + linear.intercept_,
        linear.set_params(decision_function_shape="ovo").decision_function(X),
        atol=1e-9,
    )


def test_several_classes_side_by_side_are_the_same():
    """More than 256 samples a pair: tasks run beside each other, each with a matrix of its own."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = rng.integers(0, 3, size=600)
    one, two = (SVC(approximation="sgma", rank=30, n_jobs=jobs).fit(X, y) for jobs in (1, 2))
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    assert one.approximation_ == two.approximation_


@each_method
@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array])
def test_sparse_is_dense(method, container):
    X, y = samples("SVC")
    X = np.where(np.abs(X) > 0.6, X, 0.0)
    settings = {"approximation": method, "rank": 20, "gap_tol": 1e-9, "gamma": 0.3}
    dense, sparse = SVC(**settings).fit(X, y), SVC(**settings).fit(container(X), y)
    assert sp.issparse(sparse.support_vectors_)
    np.testing.assert_array_equal(dense.support_, sparse.support_)
    np.testing.assert_allclose(sparse.decision_function(container(X)), dense.decision_function(X), atol=1e-6)


@each_method
def test_float32(method):
    X, y = samples("SVC")
    settings = {"approximation": method, "rank": 30, "gap_tol": 1e-6, "gamma": 0.3}
    single = SVC(**settings).fit(X.astype(np.float32), y)
    assert single.certificate_.relative_gap <= 1e-6
    assert single.approximation_.primal == pytest.approx(single.certificate_.primal, rel=1e-4)
    assert SVC(**settings, approximation_options={"dtype": "float32"}).fit(X, y).approximation_.true_gap < 1.0


@each_method
def test_precomputed_and_callable_are_the_kernel_they_compute(method):
    X, y = samples("SVC")
    K = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.3), kind="full").matrix
    settings = {"approximation": method, "rank": 20, "gap_tol": 1e-9}
    named = SVC(gamma=0.3, **settings).fit(X, y)
    pre = SVC(kernel="precomputed", **settings).fit(K, y)
    called = SVC(kernel=lambda a, b: np.exp(-0.3 * ((a[:, None] - b[None]) ** 2).sum(-1)), **settings).fit(X, y)
    for model, points in ((pre, K), (called, X)):
        np.testing.assert_array_equal(model.support_, named.support_)
        np.testing.assert_allclose(model.decision_function(points), named.decision_function(X), atol=1e-6)
        assert model.approximation_.true_gap == pytest.approx(named.approximation_.true_gap, rel=1e-6)


def test_an_indefinite_kernel_is_refused():
    X, y = samples("SVC")
    with pytest.raises(ValueError, match="not positive semidefinite"):
        SVC(kernel="sigmoid", gamma=1.0, coef0=1.0, approximation="sgma", rank=100).fit(X, y)


def test_options_reach_the_method():
    X, y = samples("SVC")
    model = SVC(approximation="rpcholesky", rank=150, approximation_options={"trace_tol": 0.1, "block": 4}).fit(X, y)
    assert model.approximation_.rank < 150
    assert model.approximation_.trace_error <= 0.1
    greedy = SVC(approximation="sgma", rank=20, approximation_options={"selection": "greedy"}).fit(X, y)
    assert (
        greedy.approximation_.trace_error
        < SVC(approximation="sgma", rank=20, approximation_options={"selection": "random"})
        .fit(X, y)
        .approximation_.trace_error
    )


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"rank": 0}, InvalidParameterError, "'rank' parameter .* Got 0"),
        ({"rank": 2.5}, InvalidParameterError, "'rank' parameter .* Got 2.5"),
        ({"approximation": "nystroem"}, InvalidParameterError, "'approximation' parameter .* Got 'nystroem'"),
        ({"approximation_options": "greedy"}, InvalidParameterError, "'approximation_options' parameter"),
        ({"approximation_options": {"rank": 3}}, ValueError, "holds 'rank'.* it takes trace_tol, selection"),
        ({"approximation_options": {"block": 3}}, ValueError, "holds 'block', which approximation='sgma' does not"),
        ({"approximation_options": {"selection": "all"}}, ValueError, "selection must be one of"),
        ({"approximation_options": {"trace_tol": 2}}, ValueError, "trace_tol must lie in"),
    ],
)
@each_estimator
def test_bad_settings(name, settings, error, message):
    X, y = samples(name, n=30)
    with pytest.raises(error, match=message):
        ESTIMATORS[name](**{"approximation": "sgma", **settings}).fit(X, y)


@each_estimator
def test_clone_pickle_and_file(name, tmp_path):
    X, y = samples(name, n=80)
    model = ESTIMATORS[name](approximation="sgma", rank=15, approximation_options={"selection": "greedy"})
    assert clone(model).get_params() == model.get_params()
    model.fit(X, y)
    dualgap.save(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), dualgap.load(tmp_path / "model")):
        np.testing.assert_array_equal(values(again, X), values(model, X))
        assert again.approximation_ == model.approximation_
    # The matrix trained on does not stay behind.
    assert len(pickle.dumps(model)) < 30_000


def test_file_of_several_classes(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = SVC(approximation="rpcholesky", rank=20).fit(X, y)
    dualgap.save(model, tmp_path / "model")
    again = dualgap.load(tmp_path / "model")
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))


def test_a_file_with_another_approximation_is_refused(tmp_path):
    from dualgap.tensors import ModelFileError, read_tensors, write_tensors

    X, y = load_iris(return_X_y=True)
    path = tmp_path / "model"
    dualgap.save(SVC(approximation="sgma", rank=20).fit(X, y), path)
    arrays, metadata = read_tensors(path)
    for old, new, message in (
        ('"method": "sgma"', '"method": "other"', "of no known method"),
        ('"method": "sgma"', '"method": []', "of no known method"),
        ('"rank": 20', '"rank": 21', "not that of the support vectors"),
    ):
        assert old in metadata["fit"]
        write_tensors(path, dict(arrays), {**metadata, "fit": metadata["fit"].replace(old, new)})
        with pytest.raises(ModelFileError, match=message):
            dualgap.load(path)


def test_semiparametric_part_is_free():
    X, y = samples("SVR")
    model = SVR(approximation="sgma", rank=15, solver="ipm", gap_tol=1e-6, parametric=[lambda X: X[:, 1]]).fit(X, y)
    assert model.parametric_coef_.shape == (1, 1)
    assert model.certificate_.relative_gap <= 1e-6
    assert model.approximation_.true_gap <= 1.0
