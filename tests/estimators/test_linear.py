"""The linear estimators: scikit-learn's answers where it has the model, proofs, and data left where it lies."""

import importlib.util
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap.crammer_singer import solve_crammer_singer
from dualgap.estimators import linear_base

IRIS, SPECIES = load_iris(return_X_y=True)
WINE, CULTIVAR = load_wine(return_X_y=True)
WINE = StandardScaler().fit_transform(WINE)
TWO, KIND = WINE[CULTIVAR > 0], CULTIVAR[CULTIVAR > 0]
DIABETES, PROGRESS = load_diabetes(return_X_y=True)
DIABETES = StandardScaler().fit_transform(DIABETES)
PROGRESS = PROGRESS / PROGRESS.std()
TIGHT = {"gap_tol": 1e-12}
THEIRS = {"tol": 1e-10, "max_iter": 1_000_000}
FOUR = {
    "LinearSVC": (dualgap.LinearSVC, {}),
    "LinearSVR": (dualgap.LinearSVR, {}),
    "LinearOneClassSVM": (dualgap.LinearOneClassSVM, {"nu": 0.3}),
    "LinearSVDD": (dualgap.LinearSVDD, {"C": 0.05}),
}
each = pytest.mark.parametrize("name", FOUR)


def make(name, **more):
    cls, parameters = FOUR[name]
    return cls(**{**parameters, **more})


def data_of(name):
    return (DIABETES, PROGRESS) if name == "LinearSVR" else (TWO + 3.0 * (name == "LinearOneClassSVM"), KIND)


def values(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


# -- against scikit-learn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(
    "parameters",
    [{}, {"C": 0.1}, {"fit_intercept": False}, {"intercept_scaling": 3.0}, {"class_weight": "balanced"},
     {"class_weight": {1: 0.3, 2: 2.5}}],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("classes", [2, 3])
def test_classifier_is_that_of_liblinear(loss, parameters, classes):
    X, y = (TWO, KIND) if classes == 2 else (WINE, CULTIVAR)
    keep = np.flatnonzero((y != 1) | (np.arange(len(y)) % 3 == 0))  # classes of different size
    X, y = X[keep], y[keep]
    ours = dualgap.LinearSVC(loss=loss, **parameters, **TIGHT).fit(X, y)
    theirs = sklearn.svm.LinearSVC(loss=loss, dual=True, **parameters, **THEIRS).fit(X, y)
    assert ours.coef_.shape == theirs.coef_.shape
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-6)
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    assert type(ours.n_iter_) is type(theirs.n_iter_) is int
    assert_array_equal(ours.classes_, theirs.classes_)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.certificate_.relative_gap <= 1e-12


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("parameters", [{}, {"epsilon": 0.2, "C": 0.1}, {"fit_intercept": False}], ids=str)
def test_regressor_is_that_of_liblinear(loss, parameters):
    ours = dualgap.LinearSVR(loss=loss, **parameters, **TIGHT).fit(DIABETES, PROGRESS)
    theirs = sklearn.svm.LinearSVR(loss=loss, dual=True, **parameters, **THEIRS).fit(DIABETES, PROGRESS)
    assert ours.coef_.shape == theirs.coef_.shape
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert np.shape(ours.intercept_) == np.shape(theirs.intercept_)
    assert_allclose(ours.predict(DIABETES), theirs.predict(DIABETES), atol=1e-4)


@pytest.mark.parametrize("data", ["iris", "digits"])
def test_several_classes(data):
    X, y = (IRIS, SPECIES) if data == "iris" else load_digits(return_X_y=True)
    X, y = X[:600] / X.max(), y[:600]
    ours, theirs = dualgap.LinearSVC().fit(X, y), sklearn.svm.LinearSVC().fit(X, y)
    assert len(ours.certificates_) == len(theirs.classes_)
    assert max(c.relative_gap for c in ours.certificates_) <= 1e-4
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.995


def test_exact_bias_is_the_kernel_machine():
    X, y = TWO, KIND
    ours = dualgap.LinearSVC(loss="hinge", penalize_intercept=False, **TIGHT).fit(X, y)
    kernel = dualgap.SVC(kernel="linear", **TIGHT).fit(X, y)
    theirs = sklearn.svm.SVC(kernel="linear", tol=1e-10).fit(X, y)
    assert_allclose(ours.decision_function(X), kernel.decision_function(X), atol=1e-6)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    line = dualgap.LinearSVR(epsilon=0.1, penalize_intercept=False, **TIGHT).fit(DIABETES, PROGRESS)
    other = sklearn.svm.SVR(kernel="linear", epsilon=0.1, tol=1e-10).fit(DIABETES, PROGRESS)
    assert_allclose(line.predict(DIABETES), other.predict(DIABETES), atol=1e-5)


def test_detectors_are_the_kernel_machines():
    X = TWO + 3.0
    for ours, theirs in (
        (dualgap.LinearOneClassSVM(0.3, **TIGHT), sklearn.svm.OneClassSVM(kernel="linear", nu=0.3, tol=1e-10)),
        (dualgap.LinearSVDD(0.05, **TIGHT), dualgap.SVDD(kernel="linear", C=0.05, **TIGHT)),
    ):
        ours.fit(X)
        theirs.fit(X)
        scale = np.abs(theirs.decision_function(X)).max()
        assert_allclose(ours.decision_function(X) / scale, theirs.decision_function(X) / scale, atol=1e-6)
        assert_allclose(ours.offset_, theirs.offset_, rtol=1e-6)
        away, values = ours.score_samples(X) - ours.offset_, ours.decision_function(X)
        assert_allclose(away[values != 0.0], values[values != 0.0])
        # A value of 0 stands for a sample on the boundary, up to the rounding of its score.
        assert np.abs(away[values == 0.0]).max(initial=0.0) <= 4.0 * np.finfo(np.float64).eps * np.abs(ours.offset_)
        sure = np.abs(theirs.decision_function(X)) > 1e-5 * scale
        assert_array_equal(ours.predict(X)[sure], theirs.predict(X)[sure])
    ball = dualgap.LinearSVDD(0.05, **TIGHT).fit(X)
    distance = ((X - ball.center_) ** 2).sum(axis=1)
    assert_allclose(ball.decision_function(X), ball.radius_**2 - distance, atol=1e-9 * distance.max())


def test_data_around_the_origin_has_no_half_space():
    model = dualgap.LinearOneClassSVM().fit(np.random.default_rng(0).normal(size=(300, 3)))
    assert model.status_ is dualgap.Status.CONVERGED
    assert_allclose(model.coef_, 0.0, atol=1e-9)
    assert model.certificate_.gap < 1e-8


@pytest.mark.parametrize("solver", ["newton", "dcd", "pcd", "smo", "block"])
def test_solvers(solver):
    """Those for linear models and those on kernel rows, with a penalised bias."""
    ours = dualgap.LinearSVC(solver=solver, gap_tol=1e-8, max_iter=-1, intercept_scaling=2.0).fit(TWO, KIND)
    assert ours.solver_ == solver
    assert_allclose(ours.coef_, dualgap.LinearSVC(intercept_scaling=2.0, **TIGHT).fit(TWO, KIND).coef_, atol=1e-3)


# -- weights, warm starts, limits ------------------------------------------------------------------------------------


@each
def test_a_weight_is_a_repetition(name):
    X, y = data_of(name)
    weight = np.random.default_rng(0).integers(0, 3, len(y))
    one = make(name, **TIGHT).fit(X, y, sample_weight=weight)
    two = make(name, **TIGHT).fit(X.repeat(weight, axis=0), y.repeat(weight))
    assert_allclose(values(one, X), values(two, X), atol=1e-6 * np.abs(values(two, X)).max())


@each
def test_warm_start(name):
    X, y = data_of(name)
    cold = make(name, **TIGHT).fit(X, y)
    model = make(name, warm_start=True, **TIGHT).fit(X, y)
    first = model.n_iter_
    again = model.fit(X, y)
    assert again.n_iter_ < first
    assert_allclose(values(again, X), values(cold, X), atol=1e-6 * np.abs(values(cold, X)).max())
    # Another parameter, then data of another shape: a start must never cost correctness.
    other = {"nu": 0.4} if name == "LinearOneClassSVM" else {"C": 0.3}
    moved = model.set_params(**other).fit(X, y)
    fresh = make(name, **other, **TIGHT).fit(X, y)
    assert_allclose(values(moved, X), values(fresh, X), atol=1e-6 * np.abs(values(fresh, X)).max())
    model.fit(X[::2], y[::2])
    assert model.certificate_.relative_gap <= 1e-12


@pytest.mark.parametrize("bias", [True, False])
def test_warm_start_with_either_bias(bias):
    model = dualgap.LinearSVC(loss="hinge", penalize_intercept=bias, warm_start=True, **TIGHT).fit(WINE, CULTIVAR)
    for C in (0.1, 3.0):
        model.set_params(C=C).fit(WINE, CULTIVAR)
        fresh = dualgap.LinearSVC(loss="hinge", C=C, penalize_intercept=bias, **TIGHT).fit(WINE, CULTIVAR)
        assert_allclose(model.decision_function(WINE), fresh.decision_function(WINE), atol=1e-5)


def test_ending_short_is_told():
    with pytest.warns(ConvergenceWarning, match="LinearSVC ended short of its tolerance.*max_iter=1"):
        model = dualgap.LinearSVC(loss="hinge", max_iter=1).fit(TWO, KIND)
    assert model.status_ is dualgap.Status.MAX_ITER
    assert model.certificate_.relative_gap > 1e-4


def test_coordinate_descent_hands_over(recwarn):
    """With many features "auto" begins with passes, and their limit is no end."""
    rng = np.random.default_rng(0)
    X = sp.random(300, 1500, density=0.02, random_state=0, format="csr")
    y = rng.integers(0, 2, 300)
    with pytest.warns(ConvergenceWarning):
        dualgap.LinearSVC(loss="hinge", solver="dcd", max_iter=20, gap_tol=1e-9).fit(X, y)
    recwarn.clear()
    model = dualgap.LinearSVC(loss="hinge", max_iter=20, gap_tol=1e-9).fit(X, y)
    assert model.solver_ == "dcd+newton"
    assert model.certificate_.relative_gap <= 1e-9
    assert not [w for w in recwarn if issubclass(w.category, ConvergenceWarning)]


def test_callback_and_time_limit():
    seen = []
    model = dualgap.LinearSVC(loss="hinge", callback=lambda event: seen.append(event) or True).fit(WINE, CULTIVAR)
    assert model.status_ is dualgap.Status.STOPPED
    assert seen
    with pytest.warns(ConvergenceWarning, match="time limit"):
        dualgap.LinearSVC(multi_class="crammer_singer", time_limit=1e-6).fit(WINE, CULTIVAR)


def test_small_tasks_run_side_by_side(monkeypatch):
    meet = threading.Barrier(3)
    original = linear_base.LinearSVM._solve_task

    def meeting(self, *arguments, **more):
        meet.wait(timeout=20)  # passes only when three tasks are under way at once
        return original(self, *arguments, **more)

    monkeypatch.setattr(linear_base.LinearSVM, "_solve_task", meeting)
    together = dualgap.LinearSVC(loss="hinge", n_jobs=3).fit(WINE, CULTIVAR)
    monkeypatch.undo()
    alone = dualgap.LinearSVC(loss="hinge", n_jobs=1).fit(WINE, CULTIVAR)
    assert_array_equal(together.coef_, alone.coef_)


# -- data ------------------------------------------------------------------------------------------------------------


@each
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_sparse_is_dense(name, index):
    X, y = data_of(name)
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    rows = sp.csr_matrix(X)
    rows.indices, rows.indptr = rows.indices.astype(index), rows.indptr.astype(index)
    one, two = make(name, **TIGHT).fit(rows, y), make(name, **TIGHT).fit(X, y)
    assert_allclose(values(one, rows), values(two, X), atol=1e-6 * np.abs(values(two, X)).max())


@each
def test_single_precision_is_kept(name):
    X, y = data_of(name)
    single = X.astype(np.float32)
    one, two = make(name, gap_tol=1e-10).fit(single, y), make(name, gap_tol=1e-10).fit(single.astype(np.float64), y)
    assert one.coef_.dtype == np.float64
    assert_allclose(values(one, single), values(two, X), atol=1e-4 * np.abs(values(two, X)).max())


@each
def test_memory_maps_are_read_where_they_lie(name, tmp_path):
    """A fit and a prediction take less memory than a copy of the data would."""
    n, d = 60_000, 300
    X = np.memmap(tmp_path / "X", dtype=np.float32, mode="w+", shape=(n, d))
    rng = np.random.default_rng(0)
    X[:] = rng.normal(size=(n, d)) + 3.0 * (name == "LinearOneClassSVM")
    X.flush()
    y = np.sign(X[:, 0] + X[:, 1] + rng.normal(size=n)) if name != "LinearSVR" else X[:, 0] + rng.normal(size=n)
    readable = np.memmap(tmp_path / "X", dtype=np.float32, mode="r", shape=(n, d))
    model = make(name, tol=1e-2)
    if name == "LinearSVDD":
        model.set_params(C=1e-3)
    # Compiled for data that cannot be written to: compilers take memory, too.
    model.fit(readable[:2000], y[:2000], **({"sample_weight": np.full(2000, 100.0)} if name == "LinearSVDD" else {}))
    values(model, readable[:100])
    tracemalloc.start()
    try:
        values(model.fit(readable, y), readable)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n * d * 4  # no copy, let alone one in float64
    assert model.certificate_.relative_gap <= 1e-2


def test_sparsify():
    model = dualgap.LinearSVC().fit(WINE, CULTIVAR)
    before = model.decision_function(WINE)
    assert_allclose(model.sparsify().decision_function(WINE), before)
    assert sp.issparse(model.coef_)
    assert_allclose(model.densify().decision_function(sp.csr_matrix(WINE)), before)


def test_semi_parametric():
    X = DIABETES[:, :3]
    y = X[:, 0] + 50.0 * np.sin(3.0 * DIABETES[:, 4])
    X = np.column_stack([X, DIABETES[:, 4]])
    model = dualgap.LinearSVR(C=0.1, parametric=lambda Z: np.sin(3.0 * Z[:, 3]), **TIGHT).fit(X, y)
    assert_allclose(model.parametric_coef_, 50.0, atol=0.1)
    assert np.abs(model.predict(X) - y).max() < 1.0


# -- all classes at once ---------------------------------------------------------------------------------------------


def joint_objective(model, X, y, C, weight=1.0):
    scores = model.decision_function(X) + 1.0
    scores[np.arange(len(y)), y] -= 1.0
    loss = scores.max(axis=1) - scores[np.arange(len(y)), y]
    return 0.5 * ((model.coef_**2).sum() + (model.intercept_**2).sum()) + C * float(np.sum(weight * loss))


@pytest.mark.parametrize("C", [0.1, 1.0])
@pytest.mark.parametrize("data", ["iris", "wine"])
def test_crammer_singer(data, C):
    X, y = (IRIS, SPECIES) if data == "iris" else (WINE, CULTIVAR)
    ours = dualgap.LinearSVC(multi_class="crammer_singer", C=C, gap_tol=1e-9).fit(X, y)
    theirs = sklearn.svm.LinearSVC(multi_class="crammer_singer", C=C, **THEIRS).fit(X, y)
    assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)
    assert ours.certificate_.relative_gap <= 1e-9
    assert_allclose(ours.certificate_.primal, joint_objective(ours, X, y, C), rtol=1e-9)
    assert ours.certificate_.primal <= joint_objective(theirs, X, y, C) * (1.0 + 1e-9)
    assert ours.certificate_.dual <= ours.certificate_.primal


def test_crammer_singer_where_passes_creep():
    """Digits as they are: 0 to 16. The default tolerance is met within the default limit."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    model = dualgap.LinearSVC(multi_class="crammer_singer").fit(X, y)
    assert model.certificate_.relative_gap <= 1e-4
    assert model.status_ is dualgap.Status.CONVERGED


def test_crammer_singer_of_two_classes_and_weights():
    ours = dualgap.LinearSVC(multi_class="crammer_singer", gap_tol=1e-9).fit(TWO, KIND)
    theirs = sklearn.svm.LinearSVC(multi_class="crammer_singer", **THEIRS).fit(TWO, KIND)
    assert ours.coef_.shape == theirs.coef_.shape == (1, TWO.shape[1])
    assert_allclose(ours.decision_function(TWO), theirs.decision_function(TWO), atol=1e-4)
    weight = np.random.default_rng(0).integers(0, 3, len(CULTIVAR))
    parameters = {"multi_class": "crammer_singer", "class_weight": {0: 0.5}, "gap_tol": 1e-10}
    one = dualgap.LinearSVC(**parameters).fit(WINE, CULTIVAR, sample_weight=weight)
    two = dualgap.LinearSVC(**parameters).fit(WINE.repeat(weight, axis=0), CULTIVAR.repeat(weight))
    assert_allclose(one.coef_, two.coef_, atol=1e-4)


def test_crammer_singer_warm_start_and_sparse():
    model = dualgap.LinearSVC(multi_class="crammer_singer", warm_start=True, gap_tol=1e-8).fit(WINE, CULTIVAR)
    coef = model.coef_
    assert model.fit(WINE, CULTIVAR).n_iter_ == 0
    rows = dualgap.LinearSVC(multi_class="crammer_singer", gap_tol=1e-8).fit(sp.csr_matrix(WINE), CULTIVAR)
    assert_allclose(rows.coef_, coef, atol=1e-3)
    nothing = np.vstack([WINE, np.zeros((2, WINE.shape[1]))])
    result = solve_crammer_singer(nothing, np.r_[CULTIVAR, 0, 1], C=0.5, gap_tol=1e-6)
    assert result.certificate.relative_gap <= 1e-6
    assert_allclose(result.b.sum(axis=1), 0.5)
    assert result.b.min() >= 0.0
    for bad in ({"C": -1.0}, {"n_classes": 2}):
        with pytest.raises(ValueError, match="must"):
            solve_crammer_singer(WINE, CULTIVAR, **bad)


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"multi_class": "crammer_singer", "penalize_intercept": False}, "penalised intercept only"),
        ({"multi_class": "crammer_singer", "parametric": np.sin}, "parametric is not available"),
        ({"penalty": "l3"}, "'penalty' parameter of LinearSVC"),
        ({"intercept_scaling": 0.0}, "'intercept_scaling' parameter of LinearSVC"),
        ({"solver_options": {"tol": 1.0}}, "solver_options holds 'tol'"),
        ({"solver": "dcd", "parametric": lambda Z: Z[:, 0], "penalize_intercept": False}, "coupled"),
    ],
)
def test_refusals(parameters, message):
    with pytest.raises(ValueError, match=message):
        dualgap.LinearSVC(**parameters).fit(WINE, CULTIVAR)


@pytest.mark.skipif(importlib.util.find_spec("dualgap.l1svm") is None, reason="dualgap.l1svm is not there")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_absolute_weights(loss):
    model = dualgap.LinearSVC("l1", loss, C=0.1, gap_tol=1e-6).fit(WINE, CULTIVAR)
    assert model.coef_.shape == (3, WINE.shape[1])
    assert np.any(model.coef_ == 0.0)
    assert model.certificate_.relative_gap <= 1e-6
    if loss == "squared_hinge":
        theirs = sklearn.svm.LinearSVC("l1", loss, C=0.1, dual=False, **THEIRS).fit(WINE, CULTIVAR)
        assert_allclose(model.coef_, theirs.coef_, atol=1e-3)


@pytest.mark.parametrize("name", FOUR)
def test_documentation_names_every_parameter(name):
    cls = FOUR[name][0]
    _, _, rest = cls.__doc__.partition("Parameters\n")
    for parameter in cls().get_params():
        assert f"    {parameter} : " in rest, parameter
    assert "certificate_ : Certificate" in rest
