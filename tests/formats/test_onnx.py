"""ONNX models: the runtime gives the decision values and labels that the estimator gives."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import dualgap
from dualgap.formats.onnx import to_onnx

onnx = pytest.importorskip("onnx", reason="the package onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="the package onnxruntime is not installed")

KERNELS = ("linear", "poly", "rbf", "sigmoid", "laplacian", "chi2")
LABELS = {
    "two": np.array([-1.0, 1.0]),
    "three": np.array(["ash", "élan", "oak"]),
    "four": np.array([3, 5, 9, 12]),
    "truth": np.array([False, True]),
    "objects": np.array(["no", "yes"], dtype=object),
}


def samples(n=60, seed=0):
    return np.random.default_rng(seed).uniform(0, 2, size=(n, 5))


def targets(X, labels=None):
    score = X[:, 0] + 0.5 * X[:, 1] ** 2
    if labels is None:
        return score
    return LABELS[labels][np.argsort(np.argsort(score)) * len(LABELS[labels]) // len(X)]


def run(model, X):
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, {"X": X}), strict=True))


def assert_agrees(estimator, X, **options):
    found = run(to_onnx(estimator, **options), X)
    scale = 1e-10 if X.dtype == np.float64 else 1e-5
    if "prediction" in found:
        assert_allclose(found["prediction"], estimator.predict(X), rtol=scale, atol=scale)
        return
    expected = estimator.decision_function(X)
    assert found["decision_function"].shape == expected.shape
    assert_allclose(found["decision_function"], expected, rtol=scale, atol=scale * max(1.0, np.abs(expected).max()))
    assert_array_equal(found["label"], estimator.predict(X))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("name", "labels", "params"),
    [
        ("SVC", "two", {}),
        ("SVC", "four", {}),
        ("SVC", "three", {"decision_function_shape": "ovo"}),
        ("SVC", "four", {"break_ties": True}),
        ("SVC", "three", {"multi_class": "ovr"}),
        ("NuSVC", "three", {"nu": 0.2}),
        ("SVR", None, {}),
        ("NuSVR", None, {}),
        ("OneClassSVM", None, {}),
        ("SVDD", None, {"C": 0.1}),
    ],
)
def test_kernel_machines(name, labels, params, kernel):
    X = samples()
    estimator = getattr(dualgap, name)(kernel=kernel, gamma=0.2, coef0=0.1, degree=3, **params)
    assert_agrees(estimator.fit(X, targets(X, labels)), samples(50, 3))


@pytest.mark.parametrize(
    ("name", "labels", "params"),
    [
        ("LinearSVC", "two", {}),
        ("LinearSVC", "truth", {"fit_intercept": False}),
        ("LinearSVC", "objects", {"penalty": "l1"}),
        ("LinearSVC", "four", {"multi_class": "crammer_singer"}),
        ("LinearSVR", None, {}),
        ("LinearSVR", None, {"fit_intercept": False}),
        ("LinearOneClassSVM", None, {"nu": 0.3}),
        ("LinearSVDD", None, {"C": 0.1}),
    ],
)
def test_linear_machines(name, labels, params):
    X = samples()
    assert_agrees(getattr(dualgap, name)(**params).fit(X, targets(X, labels)), samples(50, 3))


def test_sparse_data_approximations_and_data_far_away():
    X, new = samples(), samples(50, 3)
    assert_agrees(dualgap.SVC().fit(sp.csr_matrix(X), targets(X, "four")), new)
    for params in ({"approximation": "sgma", "rank": 12}, {"approximation": "rpcholesky", "rank": 15}):
        assert_agrees(dualgap.SVC(**params).fit(X, targets(X, "four")), new)
        assert_agrees(dualgap.SVR(**params).fit(X, targets(X)), new)
    far = dualgap.SVC(gamma=1.0).fit(X + 1e4, targets(X, "two"))
    found = run(to_onnx(far), new + 1e4)
    assert_allclose(found["decision_function"], far.decision_function(new + 1e4), atol=1e-6)


@pytest.mark.parametrize("name", ["SVC", "SVR", "OneClassSVM", "SVDD"])
def test_precomputed_kernels(name):
    X, new = samples(), samples(50, 3)
    width = 0.5

    def gram(A, B):
        return np.exp(-width * ((A[:, None] - B) ** 2).sum(-1))

    estimator = getattr(dualgap, name)(kernel="precomputed")
    assert_agrees(estimator.fit(gram(X, X), targets(X, "three" if name == "SVC" else None)), gram(new, X))


def test_float32_samples():
    X = samples()
    for estimator in (dualgap.SVC().fit(X, targets(X, "two")), dualgap.SVR().fit(X, targets(X))):
        assert_agrees(estimator, samples(50, 3).astype(np.float32), input_dtype=np.float32)


def test_equal_votes(tmp_path):
    from dualgap.formats.libsvm_model import read_libsvm_model

    head = (
        "svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class 3\ntotal_sv 0\nrho -1 1 -1\nlabel 3 1 2\nnr_sv 0 0 0\nSV\n"
    )
    (tmp_path / "model").write_text(head)
    assert_agrees(read_libsvm_model(tmp_path / "model", n_features=1), np.zeros((4, 1)))


def test_real_data(data_folder):
    data = dualgap.datasets.load(dualgap.datasets.find("letter.t"))
    X, y = data.X.toarray()[:1000], data.y[:1000]
    assert_agrees(dualgap.SVC(C=10.0).fit(X, y.astype(int)), X)


def test_the_file_holds_the_model(tmp_path):
    X = samples()
    estimator = dualgap.SVC().fit(X, targets(X, "two"))
    model = to_onnx(estimator, tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx").read_bytes() == model.SerializeToString()
    assert onnx.load(tmp_path / "model.onnx").producer_name == "dualgap"


def test_what_cannot_be_exported_is_refused():
    X = samples()
    for estimator, words in (
        (dualgap.SVC(kernel=lambda X, Z: X @ Z.T).fit(X, targets(X, "two")), "callable kernel"),
        (dualgap.SVR(parametric=[lambda X: X[:, 0]]).fit(X, targets(X)), "parametric"),
        (dualgap.SVDD(kernel="precomputed").fit(X @ X.T), r"k\(x, x\)"),
        (dualgap.SVC(), "not fitted"),
        (object(), "to_onnx takes"),
    ):
        with pytest.raises(ValueError, match=words):
            to_onnx(estimator)
    with pytest.raises(ValueError, match="input_dtype"):
        to_onnx(dualgap.LinearSVR().fit(X, targets(X)), input_dtype=np.int32)
