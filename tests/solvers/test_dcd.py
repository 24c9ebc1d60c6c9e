"""Dual coordinate descent: against LIBLINEAR, LIBSVM and Clarabel, and on everything rows can look like."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, OneClassSVM

import dualgap
from dualgap import build, certify, factored_gram, solve
from dualgap.constraints import infeasibility
from dualgap.kernels.linear_gram import LinearGram
from dualgap.solvers import _dcd_layout as layout
from dualgap.solvers import dcd

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from constant_gram import WithConstant
from oracles import clarabel_solution
from problems import ROWS, data, has_model_without_bias, problem

LIBLINEAR = {"tol": 1e-10, "max_iter": 1_000_000}


def sparse_text(n=400, d=300, seed=0, dtype=np.float64, index=np.int32):
    """Rows like those of documents: few of many features, unit length, one of them empty and some of them twice."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.05, format="csr", random_state=rng, data_rvs=lambda k: rng.exponential(size=k))
    X = sp.csr_matrix(X.multiply(1.0 / np.maximum(np.sqrt(X.multiply(X).sum(axis=1)), 1e-12)))
    X = sp.vstack([X, X[:20], sp.csr_matrix((1, d))]).tocsr().astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    f = X @ rng.normal(size=d)
    return X, np.where(f + 0.3 * f.std() * rng.normal(size=f.size) > 0, 1.0, -1.0), f


def weights(p, result):
    return p.gram.factor.T @ p.on_points(result.a)


@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge"])
def test_classification_equals_liblinear(row, C):
    X, y, _ = sparse_text()
    p = build(row, factored_gram(X), y, C=C, bias=False)
    result = solve(p, "dcd", gap_tol=1e-10)
    loss = {"c_svc": "hinge", "squared_hinge": "squared_hinge"}[row]
    reference = LinearSVC(loss=loss, dual=True, C=C, fit_intercept=False, **LIBLINEAR).fit(X, y)
    assert np.abs(weights(p, result) - reference.coef_.ravel()).max() < 1e-4


@pytest.mark.parametrize("row", ["eps_svr", "squared_eps_svr"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_regression_equals_liblinear(row, epsilon):
    X, _, t = sparse_text()
    p = build(row, factored_gram(X), t, C=1.0, epsilon=epsilon, bias=False)
    result = solve(p, "dcd", gap_tol=1e-10)
    loss = {"eps_svr": "epsilon_insensitive", "squared_eps_svr": "squared_epsilon_insensitive"}[row]
    reference = LinearSVR(loss=loss, dual=True, C=1.0, epsilon=epsilon, fit_intercept=False, **LIBLINEAR).fit(X, t)
    assert np.abs(weights(p, result) - reference.coef_).max() < 1e-4
    # The two variables of a point are never both in use.
    half = p.n // 2
    assert np.all(np.minimum(result.a[:half], result.a[half:]) == 0.0)


@pytest.mark.parametrize("scaling", [0.5, 3.0])
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge"])
def test_penalised_bias_is_one_more_feature(row, scaling):
    X, y, _ = data(150)
    y = np.where(X[:, 0] + 0.4 > 0, 1.0, -1.0) * np.where(np.arange(150) % 11 == 0, -1.0, 1.0)
    p = build(row, WithConstant(X, scaling**2), y, C=0.5, bias=False)
    result = solve(p, "dcd", gap_tol=1e-10)
    loss = {"c_svc": "hinge", "squared_hinge": "squared_hinge"}[row]
    reference = LinearSVC(loss=loss, dual=True, C=0.5, intercept_scaling=scaling, **LIBLINEAR).fit(X, y)
    assert np.abs(weights(p, result) - reference.coef_.ravel()).max() < 1e-4
    assert scaling**2 * p.on_points(result.a).sum() == pytest.approx(reference.intercept_[0], abs=1e-4)


def rounded(n):
    """Features in eighths: LIBSVM keeps kernel values in float32, and those of these are exact."""
    X, y, t = data(n)
    return np.round(8 * X) / 8, y, t


@pytest.mark.parametrize("shift", [0.0, 3.0])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_exact_bias_equals_libsvm(C, shift):
    X, y, _ = rounded(150)
    X = X + shift
    result = solve(p := build("c_svc", factored_gram(X), y, C=C), "dcd", gap_tol=1e-12)
    reference = SVC(kernel="linear", C=C, tol=1e-10).fit(X, y)
    assert infeasibility(p, result.a) < 1e-13
    ours = X @ weights(p, result) + result.eta[0]
    assert np.abs(ours - reference.decision_function(X)).max() < 1e-6 * max(1.0, np.abs(ours).max())


def test_exact_bias_of_regression_and_outliers_equals_libsvm():
    X, _, t = rounded(120)
    p = build("eps_svr", factored_gram(X), t, C=1.0, epsilon=0.1)
    result = solve(p, "dcd", gap_tol=1e-12)
    reference = SVR(kernel="linear", C=1.0, epsilon=0.1, tol=1e-10).fit(X, t)
    assert np.abs(X @ weights(p, result) + result.eta[0] - reference.predict(X)).max() < 1e-6
    X = X + 2.0
    p = build("one_class", factored_gram(X), nu=0.305)
    result = solve(p, "dcd", gap_tol=1e-12)
    reference = OneClassSVM(kernel="linear", nu=0.305, tol=1e-10).fit(X)
    expected = reference.decision_function(X)
    assert np.abs(X @ weights(p, result) + result.eta[0] - expected).max() < 1e-6 * np.abs(expected).max()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("row", ROWS)
def test_objective_equals_clarabel(row, bias):
    if not bias and not has_model_without_bias(row):
        pytest.skip("there is no such model")
    p = problem(row, "factored", bias=bias, n=40)
    _, _, value, _ = clarabel_solution(p)
    c = solve(p, "dcd", gap_tol=1e-9).certificate
    assert c.dual == pytest.approx(-value, rel=1e-6)
    assert c.primal == pytest.approx(-value, rel=1e-6)


def test_weights_of_samples_and_points_left_out():
    X, y, _ = data(90)
    w = np.where(np.arange(90) % 3 == 0, 0.0, 1.0 + np.arange(90) / 30)
    result = solve(build("c_svc", factored_gram(X), y, sample_weight=w), "dcd", gap_tol=1e-9)
    kept = w > 0
    same = solve(build("c_svc", factored_gram(X[kept]), y[kept], sample_weight=w[kept]), "smo", gap_tol=1e-9)
    assert result.certificate.dual == pytest.approx(same.certificate.dual, rel=1e-8)


@pytest.mark.parametrize("order", ["permuted", "cyclic", "random"])
@pytest.mark.parametrize("variant", ["improved", "paper"])
def test_variants_and_orders_meet(variant, order):
    X, y, _ = sparse_text(n=150)
    p = build("c_svc", factored_gram(X), y, C=1.0, bias=False)
    if variant == "paper" and order == "permuted":
        with pytest.raises(ValueError, match="permutations are not in the report"):
            solve(p, "dcd", variant=variant, order=order)
        return
    result = solve(p, "dcd", gap_tol=1e-8, variant=variant, order=order)
    assert result.certificate.relative_gap <= 1e-8


def paper_steps(X, y, C, passes):
    """The report's algorithm, line by line."""
    a, w = np.zeros(len(y)), np.zeros(X.shape[1])
    for _ in range(passes):
        for i in range(len(y)):
            before = a[i]
            slope = y[i] * (w @ X[i]) - 1.0
            projected = min(slope, 0.0) if a[i] == 0 else max(slope, 0.0) if a[i] == C else slope
            if projected != 0.0:
                a[i] = min(max(a[i] - slope / (X[i] @ X[i]), 0.0), C)
                w += (a[i] - before) * y[i] * X[i]
    return a


def test_the_papers_steps_are_the_papers():
    X, y, _ = data(50)
    p = build("c_svc", factored_gram(X), y, C=0.5, bias=False)
    for passes in (1, 2, 7):
        result = solve(p, "dcd", tol=1e-12, max_iter=passes, variant="paper", warn=False)
        assert result.iterations == passes
        assert np.abs(result.a - paper_steps(X, y, 0.5, passes)).max() < 1e-12


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["csr", "dense", "fortran"])
def test_every_layout_is_read_as_it_is(layout, dtype, index):
    X, y, _ = sparse_text(n=120, d=60, dtype=dtype, index=index)
    if layout != "csr":
        X = np.asarray(X.toarray(), order="F" if layout == "fortran" else "C")
    p = build("c_svc", factored_gram(X), y, C=1.0, bias=False)
    assert p.gram.factor is X
    result = solve(p, "dcd", gap_tol=1e-9)
    # Certified on the user's values in float64, float32 or not.
    wide = build("c_svc", factored_gram(X.astype(np.float64)), y, C=1.0, bias=False)
    assert certify(wide, result.a)[0].relative_gap <= 1e-9
    assert p.gram.factor.dtype == dtype


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("row", ["c_svc", "eps_svr", "squared_hinge", "one_class"])
def test_nothing_but_zero_rows_and_duplicates(row, bias):
    if not bias and not has_model_without_bias(row):
        return
    X, y, t = data(40)
    X[::4] = 0.0
    X[1::4] = X[2::4]
    target = {"c_svc": y, "squared_hinge": y, "eps_svr": t, "one_class": None}[row]
    result = solve(
        build(row, factored_gram(X + (2.0 if row == "one_class" else 0.0)), target, bias=bias), "dcd", gap_tol=1e-8
    )
    assert result.certificate.relative_gap <= 1e-8
    empty = build(row, factored_gram(np.zeros((6, 2))), None if target is None else target[:6], bias=bias)
    result = solve(empty, "dcd", tol=1e-6)
    assert result.certificate.kkt_violation <= 1e-6


@given(
    st.integers(0, 10_000), st.sampled_from(["c_svc", "eps_svr", "squared_eps_svr"]), st.booleans(), st.floats(-3, 2)
)
def test_any_small_problem_is_certified(seed, row, bias, log_C):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 25)), int(rng.integers(1, 6))
    X = np.round(rng.normal(size=(n, d)), 1) * rng.integers(0, 2, size=(n, d))
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[0], y[-1] = 1.0, -1.0
    target = y if row == "c_svc" else rng.normal(size=n)
    p = build(row, factored_gram(sp.csr_matrix(X)), target, C=10.0**log_C, bias=bias)
    result = solve(p, "dcd", tol=1e-5)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.kkt_violation <= 1e-5 * (1 + 1e-8)
    assert result.certificate.infeasibility < 1e-12


def test_one_thread_is_deterministic_and_seeds_differ():
    X, y, _ = sparse_text()
    p = build("c_svc", factored_gram(X), y, bias=False)
    first, second, other = (solve(p, "dcd", gap_tol=1e-4, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first.a, second.a)
    assert first.history.column("dual") == second.history.column("dual")
    assert not np.array_equal(first.a, other.a)


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize("bias", [True, False])
def test_threads_without_locks_end_certified(monkeypatch, bias, constant):
    monkeypatch.setattr(dcd, "_WORTH_A_THREAD", 1000)
    X, y, _ = sparse_text(n=1500, d=400)
    p = build("c_svc", WithConstant(X, constant), y, C=1.0, bias=bias)
    result = solve(p, "dcd", gap_tol=1e-6, n_jobs=3)
    alone = solve(p, "dcd", gap_tol=1e-6)
    assert result.certificate.relative_gap <= 1e-6
    assert result.certificate.dual == pytest.approx(alone.certificate.dual, rel=2e-6)


def test_a_start_is_honoured_and_leaves_nothing_to_do():
    X, y, _ = sparse_text()
    p = build("c_svc", factored_gram(X), y)
    done = solve(p, "dcd", gap_tol=1e-8)
    again = solve(p, "dcd", gap_tol=1e-8, start=done.a)
    assert again.iterations < 0.2 * done.iterations
    assert again.certificate.relative_gap <= 1e-8


def test_limits_and_callbacks_are_obeyed():
    X, y, _ = sparse_text()
    p = build("c_svc", factored_gram(X), y, C=100.0)
    result = solve(p, "dcd", gap_tol=1e-12, max_iter=3, warn=False)
    assert (result.status, result.iterations) == (dualgap.Status.MAX_ITER, 3)
    assert infeasibility(p, result.a) < 1e-13
    stopped = solve(p, "dcd", gap_tol=1e-12, callback=lambda event: True, warn=False)
    assert stopped.status is dualgap.Status.STOPPED


def test_refusals_say_why():
    assert "no factor" in dcd.supports(problem("c_svc", "full"))
    assert "coupled" in dcd.supports(problem("c_svc", "factored", functions=2))
    for bad in ({"variant": "best"}, {"order": "sorted"}, {"n_jobs": 0}):
        with pytest.raises(ValueError, match=r"must be|no meaning"):
            dcd.Options(**bad)


def test_leaps_pass_by_the_creeping(data_folder):
    """Reuters creeps for thousands of passes towards 1e-6 where leaps need hundreds."""
    from dualgap.datasets import find, load

    d = load(find("reuters"))
    labels = np.unique(d.y)
    p = build("c_svc", factored_gram(d.X.astype(np.float32)), np.where(d.y == labels[-1], 1.0, -1.0), C=1.0, bias=False)
    result = solve(p, "dcd", gap_tol=1e-6)
    assert result.certificate.relative_gap <= 1e-6
    assert result.iterations < 1000


@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "eps_svr", "squared_eps_svr"])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_steps_and_leaps_keep_the_objective(row, constant):
    X, y, t = sparse_text()
    p = build(row, LinearGram(X, constant), t if "svr" in row else y, C=3.0, bias=False)
    run = dcd._Run(p, dcd.Options(tol=1e-13, max_iter=40), lambda snapshot: False, np.zeros(p.n))
    run.due = lambda: np.iinfo(np.int64).max  # no look, which would compute it anew
    while run.whole[layout.PASSES] < 40:
        run.advance()
    a = run.items.point_of_box()
    certificate, _ = certify(p, a)
    assert run.real[layout.OBJECTIVE] == pytest.approx(-certificate.dual, rel=1e-10)


@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "eps_svr", "squared_eps_svr"])
@pytest.mark.parametrize("goal", [1e-2, 1e-4, 1e-6])
def test_passes_look_up_when_the_gap_is_there(row, goal):
    """The gap that passes believe in is near enough to the true one for a look or three, wherever the goal is."""
    X, y, t = sparse_text(n=2000)
    p = build(row, LinearGram(X), t if "svr" in row else y, C=0.3, bias=False)
    result = solve(p, "dcd", gap_tol=goal)
    assert result.certificate.relative_gap <= goal
    passes = result.iterations
    assert len(result.history) <= 3 + passes // 8
    # Not much more than was asked for: one pass does not gain four digits here.
    assert result.certificate.relative_gap >= 1e-4 * goal


@pytest.mark.parametrize(
    ("row", "features", "C", "passes"),
    [
        ("c_svc", 40, 100.0, (4, 12)),
        ("c_svc", 40, 3e-3, (8, 16)),
        ("c_svc", 1200, 100.0, (8, 11)),
        ("squared_hinge", 1200, 100.0, (8, 16)),
    ],
)
def test_looks_come_when_they_are_of_use(monkeypatch, row, features, C, passes):
    monkeypatch.setattr(dcd, "_ENTRIES_BETWEEN", 1)  # small problems are not looked at less often
    monkeypatch.setattr(dcd.Faces, "step", lambda *_: True)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, features)) * np.logspace(0, 1, features)
    y = np.where(rng.random(600) < 0.5, 1.0, -1.0)
    p = build(row, factored_gram(X), y, C=C, bias=False)
    first = []

    def callback(snapshot):
        if snapshot.gradient is not None:
            first.append(round(snapshot.effort / dcd.pass_seconds(p)))
        return len(first) == 2

    dcd.solve(p, dcd.Options(tol=1e-13, gap_tol=1e-12), callback)
    assert np.all(np.abs(np.subtract(first, passes)) <= 1)  # in passes over all items, the last one begun being ended
