"""What the estimators promise beyond scikit-learn: certificates, limits, repeatability, memory, interrupts."""

import gc
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.svm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualgap
from dualgap import SVC, SVDD, SVR, Certificate, Event, History, NuSVC, NuSVR, OneClassSVM, Status
from dualgap.kernels import fused

sys.path.insert(0, str(Path(__file__).parents[1]))
from processor import processor_seconds

ALL = (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD)
each = pytest.mark.parametrize("estimator", ALL)


def data(n=200, d=4, classes=2, seed=0):
    """Overlapping classes; as numbers they serve the regressors as well."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.5 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, classes) / classes), score)


X, Y = data()


def values(model, points=X):
    return model.decision_function(points) if hasattr(model, "decision_function") else model.predict(points)


def is_classifier(estimator):
    return estimator in (SVC, NuSVC)


# -- certificates ----------------------------------------------------------------------------------------------------


@each
def test_fitted_attributes(estimator):
    model = estimator().fit(X, Y)
    certificate = model.certificate_
    assert isinstance(certificate, Certificate)
    assert certificate.note == ""
    assert certificate.primal >= certificate.dual
    assert_allclose(certificate.gap, certificate.primal - certificate.dual, atol=1e-9 * abs(certificate.primal))
    assert 0.0 <= certificate.kkt_violation <= model.tol * (1 + 1e-6)
    assert certificate.infeasibility < 1e-12
    assert model.certificates_ == [certificate]
    assert isinstance(model.history_, History)
    assert len(model.history_) > 0
    assert all(isinstance(event, Event) for event in model.history_)
    assert model.history_[-1].iteration == np.sum(model.n_iter_)
    assert model.solver_ in dualgap.SOLVERS
    assert model.status_ is Status.CONVERGED
    assert model.fit_status_ == 0


@pytest.mark.parametrize("estimator", [SVC, NuSVC])
def test_one_certificate_a_pair_of_classes(estimator):
    points, y = data(classes=4)
    model = estimator(nu=0.4) if estimator is NuSVC else estimator()
    model.fit(points, y)
    assert len(model.certificates_) == len(model.history_) == len(model.n_iter_) == 6
    assert_allclose(model.certificate_.primal, sum(c.primal for c in model.certificates_))
    assert_allclose(model.certificate_.gap, sum(c.gap for c in model.certificates_))
    assert model.certificate_.kkt_violation == max(c.kkt_violation for c in model.certificates_)
    assert all(isinstance(history, History) for history in model.history_)


@each
@pytest.mark.parametrize("gap_tol", [1e-3, 1e-6, 1e-9])
def test_gap_tol(estimator, gap_tol):
    points, y = data(classes=3) if is_classifier(estimator) else (X, Y)
    model = estimator(gap_tol=gap_tol).fit(points, y)
    assert model.status_ is Status.CONVERGED
    assert model.certificate_.relative_gap <= gap_tol
    assert all(certificate.relative_gap <= gap_tol for certificate in model.certificates_)


def test_certificate_is_that_of_the_model():
    """Primal and dual objective, computed here from what the fitted model shows."""
    model = SVC(C=3.0, gap_tol=1e-6).fit(X, Y)
    gamma = 1.0 / (X.shape[1] * X.var())
    V = model.support_vectors_
    K = np.exp(-gamma * ((V[:, None] - V[None]) ** 2).sum(axis=2))
    beta = model.dual_coef_.ravel()
    norm = beta @ K @ beta
    margin = np.where(Y == 1, 1.0, -1.0) * model.decision_function(X)
    primal = 0.5 * norm + 3.0 * np.maximum(0.0, 1.0 - margin).sum()
    dual = np.abs(beta).sum() - 0.5 * norm
    assert_allclose(model.certificate_.primal, primal, rtol=1e-10)
    assert_allclose(model.certificate_.dual, dual, rtol=1e-10)


@each
def test_indefinite_kernel_has_no_gap(estimator):
    model = estimator(kernel="sigmoid", gamma=0.5, coef0=-0.5, max_iter=20_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a stationary point need not be within reach
        model.fit(X, Y)
    assert "indefinite" in model.certificate_.note
    assert "eigenvalue -" in model.certificate_.note
    assert np.isnan(model.certificate_.gap)
    assert np.isnan(model.certificate_.relative_gap)
    assert np.isfinite(model.certificate_.kkt_violation)
    assert model.certificate_.note in str(model.certificate_)
    assert np.all(np.isfinite(values(model)))


def test_indefinite_kernel_in_one_pair_of_classes():
    points, y = data(classes=3)
    model = SVC(kernel="sigmoid", gamma=0.5, coef0=-0.5).fit(points, y)
    assert "indefinite" in model.certificate_.note
    assert np.isnan(model.certificate_.gap)


# -- limits ----------------------------------------------------------------------------------------------------------


@each
def test_callback_sees_events(estimator):
    seen = []
    model = estimator(callback=seen.append, gap_tol=1e-6).fit(X, Y)
    assert seen == model.history_.events
    assert seen[-1].relative_gap <= 1e-6
    assert model.status_ is Status.CONVERGED


@each
def test_callback_stops(estimator):
    seen = []

    def stop(event):
        seen.append(event)
        return True

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # stopping on request is no surprise
        model = estimator(callback=stop, gap_tol=1e-12).fit(X, Y)
    assert len(seen) == 1
    assert model.status_ is Status.STOPPED
    assert model.fit_status_ == 0
    assert model.certificate_.relative_gap > 1e-12
    assert np.all(np.isfinite(values(model)))


def test_callback_stops_only_on_true():
    model = SVC(callback=lambda event: event.iteration, gap_tol=1e-6).fit(X, Y)
    assert model.status_ is Status.CONVERGED


@each
def test_max_iter(estimator):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=7\b.*Certified: relative gap") as caught:
        model = estimator(max_iter=7, gap_tol=1e-12).fit(X, Y)
    assert len(caught) == 1
    assert estimator.__name__ in str(caught[0].message)
    assert model.fit_status_ == 1
    assert model.status_ is Status.MAX_ITER
    assert np.all(np.asarray(model.n_iter_) == 7)
    assert model.certificate_.relative_gap > 1e-12
    assert np.all(np.isfinite(values(model)))


@pytest.mark.parametrize("d", [20, 400])
def test_time_limit(d):
    """Rows of many features cost more than steps: the clock must be looked at between them."""
    points, y = data(n=8000, d=d, seed=1)
    y = np.where(np.random.default_rng(0).random(len(y)) < 0.3, 1 - y, y)
    model = SVC(C=1e4, gap_tol=1e-9, time_limit=2.0, n_jobs=1)  # without a limit it takes many seconds
    # Compiles, or loads what is compiled: all that a run meets in the time that is measured.
    for _ in range(2):
        with pytest.warns(ConvergenceWarning):
            model.fit(points, y)
    model.set_params(time_limit=0.3)
    # The processor's seconds of one thread: others may be using the cores, and a second of theirs is not ours.
    began = time.process_time()
    with pytest.warns(ConvergenceWarning, match=r"time_limit=0\.3"):
        model.fit(points, y)
    assert time.process_time() - began < 0.3 + 1.0
    assert model.status_ is Status.TIME_LIMIT
    assert model.fit_status_ == 1


def test_solve_warns_as_well():
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.5))
    problem = dualgap.build("c_svc", gram, np.where(Y == 1, 1.0, -1.0))
    with pytest.warns(dualgap.NotCertifiedWarning, match="iteration limit.*Certified: relative gap"):
        result = dualgap.solve(problem, gap_tol=1e-9, max_iter=3)
    assert result.status is Status.MAX_ITER


def test_slow_is_not_stuck():
    """Unscaled features take LIBSVM half a million steps, which is slow but no stall."""
    points, y = load_wine(return_X_y=True)
    points, y = points[y > 0], y[y > 0]
    ours = SVC(kernel="linear", C=100.0).fit(points, y)
    theirs = sklearn.svm.SVC(kernel="linear", C=100.0).fit(points, y)
    assert ours.status_ is Status.CONVERGED
    assert ours.score(points, y) == theirs.score(points, y) == 1.0
    # LIBSVM's inner products of a million are off by 0.1 in float32: its objective is near ours, and above the bound.
    hinge = np.maximum(0.0, 1.0 - np.where(y == 2, 1.0, -1.0) * theirs.decision_function(points))
    primal = 0.5 * np.sum(theirs.coef_**2) + 100.0 * hinge.sum()
    assert ours.certificate_.dual <= primal
    assert ours.certificate_.primal <= 1.01 * primal


def test_features_of_any_size_end():
    """Where float64 has nothing left to give, the run says so and does not go on for ever."""
    model = SVC(kernel="linear", time_limit=20.0)
    with pytest.warns(ConvergenceWarning, match="scale the features"):
        model.fit(1e8 * X, Y)
    assert model.status_ is Status.STALLED
    assert model.certificate_.relative_gap > model.tol


def test_zero_margin_names_the_tolerance():
    """At this nu the default tolerance may leave no margin, though a smaller one tells the classes apart."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(60, 3))
    y = points[:, 0] + 0.3 * rng.normal(size=60) > 0
    assert NuSVC(nu=1e-3, gap_tol=1e-6).fit(points, y).score(points, y) == 1.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NuSVC(nu=1e-3).fit(points, y)
    assert all(re.search(r"\b(gap_)?tol\b", str(warning.message)) for warning in caught)


def test_a_margin_of_zero_is_said_where_fit_was_called():
    """Labels that are noise: no linear machine has a margin at this nu."""
    rng = np.random.default_rng(0)
    with pytest.warns(ConvergenceWarning, match="margin of NuSVC is zero") as caught:
        NuSVC(nu=0.3, kernel="linear").fit(rng.normal(size=(60, 5)), rng.integers(0, 2, 60))
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_margin_of_rounding_is_zero(kernel, size):
    """Every sample in both classes: nothing tells them apart, and a margin of 1e-31 is not to be divided by."""
    points = size * np.random.default_rng(0).normal(size=(40, 3))
    twice, y = np.vstack([points, points]), np.repeat([0, 1], 40)
    for nu in (0.3, 0.5):
        with pytest.warns(ConvergenceWarning, match="margin of NuSVC is zero"):
            model = NuSVC(nu=nu, kernel=kernel, gamma=0.5).fit(twice, y)
        assert np.abs(model.dual_coef_).max() <= 1.0
    # Small features have small margins, which are margins all the same.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small = NuSVC(nu=0.2, kernel="linear").fit(points, points[:, 0] > 0)
    assert small.score(points, points[:, 0] > 0) == 1.0


def test_verbose(capsys):
    SVC(verbose=True).fit(X, Y)
    assert "[dualgap]" in capsys.readouterr().out
    SVC().fit(X, Y)
    assert capsys.readouterr().out == ""


# -- repeatability ---------------------------------------------------------------------------------------------------


def state(model):
    return [np.asarray(getattr(model, name)) for name in ("dual_coef_", "intercept_", "support_", "n_iter_")]


# 1000 points are stored as a whole; 2100 are not: rows are cached and the products threaded.
SIZES = [*((estimator, 1000) for estimator in ALL), (SVC, 2100), (SVR, 2100)]


@pytest.mark.parametrize(("estimator", "n"), SIZES)
def test_deterministic(estimator, n):
    points, y = data(n=n)
    one, two = (estimator(tol=0.01).fit(points, y) for _ in range(2))
    for first, second in zip(state(one), state(two), strict=True):
        assert_array_equal(first, second)
    assert_array_equal(values(one, points), values(two, points))
    assert one.certificate_ == two.certificate_


@pytest.mark.parametrize(("estimator", "n"), SIZES)
def test_threads_do_not_matter(estimator, n):
    points, y = data(n=n)
    one, two = (estimator(n_jobs=jobs, tol=0.01).fit(points, y) for jobs in (1, 2))
    assert_allclose(values(one, points), values(two, points), rtol=0, atol=1e-12 * max(1.0, np.abs(values(one)).max()))


@each
def test_order_of_fits_does_not_matter(estimator):
    """Nothing of an earlier fit is left in a later one."""
    again = estimator().fit(*data(n=50, d=2, classes=3, seed=5)).fit(X, Y)
    fresh = estimator().fit(X, Y)
    assert vars(again).keys() == vars(fresh).keys()
    for first, second in zip(state(again), state(fresh), strict=True):
        assert_array_equal(first, second)


@each
def test_pickle(estimator):
    model = estimator().fit(X, Y)
    text = pickle.dumps(model)
    other = pickle.loads(text)
    assert_array_equal(values(other), values(model))
    assert other.certificate_ == model.certificate_
    assert other.status_ is model.status_
    assert repr(other.history_) == repr(model.history_)  # looks between two gradients have no gap: nan
    # The kernel matrix, its cache and the samples that are no support vectors stay behind.
    assert len(text) < 2 * model.support_vectors_.nbytes + 40_000


@each
def test_clone(estimator):
    functions = [np.sin]
    model = estimator(gap_tol=1e-5, parametric=functions, solver_options={"shrinking": False}, time_limit=3.0)
    other = clone(model)
    assert other is not model
    assert other.get_params().keys() == model.get_params().keys()
    assert other.get_params()["parametric"] == functions
    assert not hasattr(clone(estimator().fit(X, Y)), "support_")


@each
def test_parameters(estimator):
    model = estimator()
    assert model.set_params(gap_tol=1e-7, kernel="linear", cache_size=11) is model
    parameters = model.get_params()
    assert (parameters["gap_tol"], parameters["kernel"], parameters["cache_size"]) == (1e-7, "linear", 11)
    assert {"solver", "time_limit", "callback", "parametric", "n_jobs", "solver_options"} <= parameters.keys()
    before = {name: value for name, value in parameters.items() if name != "gap_tol"}
    model.set_params(gap_tol=None).fit(X, Y)
    assert {name: value for name, value in model.get_params().items() if name != "gap_tol"} == before
    with pytest.raises(ValueError, match="Invalid parameter 'speed'"):
        model.set_params(speed=1)


def test_default_parameters_are_scikit_learns():
    for name in ("SVC", "NuSVC", "SVR", "NuSVR", "OneClassSVM"):
        theirs = getattr(sklearn.svm, name)().get_params()
        theirs.pop("probability", None)  # deprecated there
        ours = getattr(dualgap, name)().get_params()
        assert {key: ours[key] for key in theirs} == theirs


@each
def test_parameters_changed_after_a_fit_do_not_change_the_model(estimator):
    model = estimator(kernel="poly", coef0=1.0, gamma=0.2, degree=2).fit(X, Y)
    before = values(model)
    model.set_params(gamma=5.0, degree=5, coef0=0.0)
    assert_array_equal(values(model), before)


# -- input -----------------------------------------------------------------------------------------------------------


@each
def test_pandas(estimator):
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    weight = pd.Series(np.linspace(0.5, 1.5, len(X)), index=np.arange(len(X))[::-1])
    model = estimator().fit(frame, pd.Series(Y), sample_weight=weight)
    assert_array_equal(model.feature_names_in_, ["a", "b", "c", "d"])
    plain = estimator().fit(X, Y, sample_weight=weight.to_numpy())
    assert not hasattr(plain, "feature_names_in_")
    assert_array_equal(values(model, frame), values(plain))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[["b", "a", "c", "d"]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(X)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
@each
def test_float32_stays(estimator, layout):
    model = estimator().fit(layout(X.astype(np.float32)), Y)
    assert model.support_vectors_.dtype == np.float32
    assert values(model, layout(X.astype(np.float32))).dtype == np.float64
    assert estimator().fit(layout(X), Y).support_vectors_.dtype == np.float64
    integers = estimator().fit(layout(np.round(X).astype(np.int64)), Y)
    assert integers.support_vectors_.dtype == np.float64


def _unsorted(points):
    matrix = sp.csr_matrix(points)
    matrix.indices = matrix.indices.reshape(points.shape)[:, ::-1].ravel().copy()
    matrix.data = matrix.data.reshape(points.shape)[:, ::-1].ravel().copy()
    matrix.has_sorted_indices = False
    return matrix


def _buffers(points):
    return [points.data, points.indices, points.indptr] if sp.issparse(points) else [points]


KERNELS = ("linear", "poly", "rbf", "sigmoid", "laplacian", "chi2", "precomputed")


def _input(layout, kernel):
    points = np.abs(X) + 0.1
    return points @ points.T + 0.0 if kernel == "precomputed" else layout(points)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("layout", [np.array, sp.csr_matrix, _unsorted], ids=["dense", "sparse", "unsorted"])
def test_input_is_left_alone(layout, kernel):
    points, y, weight = _input(layout, kernel), Y.copy(), np.linspace(-0.2, 2.0, len(X))
    before = [buffer.copy() for buffer in [*_buffers(points), y, weight]]
    model = SVC(kernel=kernel, gamma=0.1).fit(points, y, sample_weight=weight)
    model.predict(points)
    SVR(kernel=kernel, gamma=0.1).fit(points, y, sample_weight=weight).predict(points)
    for buffer, copy in zip([*_buffers(points), y, weight], before, strict=True):
        assert_array_equal(buffer, copy)
    if kernel != "precomputed":
        assert not np.shares_memory(_buffers(model.support_vectors_)[0], _buffers(points)[0])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("layout", [np.array, sp.csr_matrix, _unsorted], ids=["dense", "sparse", "unsorted"])
def test_read_only_input(layout, kernel):
    """Memory maps, and what joblib hands to its workers."""
    points, y, weight = _input(layout, kernel), Y.copy(), np.ones(len(X))
    expected = (
        SVC(kernel=kernel, gamma=0.1).fit(points.copy(), y, sample_weight=weight).decision_function(points.copy())
    )
    for buffer in [*_buffers(points), y, weight]:
        buffer.flags.writeable = False
    model = SVC(kernel=kernel, gamma=0.1).fit(points, y, sample_weight=weight)
    assert_array_equal(model.decision_function(points), expected)


def test_pipeline():
    model = make_pipeline(StandardScaler(), SVC(gap_tol=1e-6))
    points = 100.0 * X + 1000.0
    assert model.fit(points, Y).score(points, Y) > 0.8
    weighted = model.fit(points, Y, svc__sample_weight=np.linspace(0.0, 2.0, len(X)))
    assert weighted[-1].certificate_.relative_gap <= 1e-6


def test_cross_validation_of_a_precomputed_kernel():
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    scores = cross_val_score(SVC(kernel="precomputed"), K, Y)
    assert_array_equal(scores, cross_val_score(SVC(gamma=0.3), X, Y))


def test_parametric_part():
    """An unpenalised slope is found whatever C, and carries on where the kernel has died away."""
    rng = np.random.default_rng(0)
    points = rng.uniform(-1.0, 1.0, size=(150, 1))
    y = 40.0 * points[:, 0] + np.sin(6.0 * points[:, 0])
    model = SVR(kernel="rbf", gamma=20.0, C=1.0, parametric=[lambda A: A[:, 0]], gap_tol=1e-8).fit(points, y)
    assert model.certificate_.relative_gap <= 1e-8
    assert model.parametric_coef_.shape == (1, 1)
    assert_allclose(model.parametric_coef_, 40.0, atol=1.5)
    far = np.array([[50.0], [-50.0]])
    assert_allclose(model.predict(far), model.parametric_coef_[0, 0] * far[:, 0] + model.intercept_[0], rtol=1e-12)
    assert np.abs(model.predict(points) - y).max() < 1.0


# -- memory and interrupts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["smo", "block"])
def test_cache_size_is_a_budget(solver):
    n, d, megabytes = 6000, 20, 20
    points, y = data(n=n, d=d)
    SVC().fit(points[:100], y[:100])  # modules and compiled code are no part of it
    gc.collect()
    tracemalloc.start()
    model = SVC(cache_size=megabytes, tol=0.1, n_jobs=1, solver=solver).fit(points, y)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    vectors = 60 * 8 * n  # some thirty vectors of the solver, their compact copies, and those of the certificate
    tiles = 3 * 256 * 1024 * 8  # one tile of kernel values with its temporaries
    assert peak < 1.1 * megabytes * 1e6 + vectors + tiles + points.nbytes
    if solver == "smo":
        assert model.history_[-1].cache_misses > 0


PEAK = """
import numpy as np
from dualgap import SVC
from dualgap.bench.worker import forget_peak, peak_bytes

rng = np.random.default_rng(0)
X = np.zeros((20_000, 40))
X[:, :8] = rng.random((20_000, 8))
X[np.arange(20_000), rng.integers(8, 40, 20_000)] = 1.0  # a category of 32
y = np.sin(6.0 * X[:, :4].sum(axis=1)) + rng.normal(scale=0.5, size=20_000) > 0.0
model = SVC(C=10.0, gamma=2.0, cache_size=24, tol=0.1, n_jobs=2).fit(X[:3000], y[:3000])
before = forget_peak()
model.fit(X, y)
assert model.support_.size > 10_000
print(peak_bytes() - before)
"""


@pytest.mark.skipif(not fused.AVAILABLE, reason="without vector code a matrix of up to 32 MB is stored")
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no peak of a fit alone on this system")
def test_all_that_a_fit_needs_is_within_the_budget_and_a_tenth():
    """Vectors, packed data and support vectors as well: some 1.2 kB a sample are enough."""
    ran = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert 0 < int(ran.stdout) < 1.1 * 24e6


def test_cache_goes_with_the_fit():
    """The rows are given back at once, not when the garbage collector next passes by."""
    points, y = data(n=2500, d=4)
    SVC().fit(points[:100], y[:100])
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        model = SVC(cache_size=30, tol=0.1).fit(points, y)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    finally:
        gc.enable()
    assert held < model.support_vectors_.nbytes + 3e6


INTERRUPTED = """
import signal
import numpy as np
from dualgap import SVC

signal.signal(signal.SIGINT, signal.default_int_handler)  # a parent may have had it ignored
rng = np.random.default_rng(0)
X, y = rng.normal(size=(12_000, 50)), rng.integers(0, 2, 12_000)
SVC(tol=10.0).fit(X[:100], y[:100])
print("begun", flush=True)
try:
    SVC(C=1e4, gap_tol=1e-9).fit(X, y)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send to a child there")
def test_interrupt():
    with subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            time.sleep(1.0)  # into the fit
            assert process.poll() is None
            used = processor_seconds(process.pid)
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert processor_seconds(process.pid) - used < 1.0
            process.communicate(timeout=20)
            assert process.returncode == 0
        finally:
            process.kill()
