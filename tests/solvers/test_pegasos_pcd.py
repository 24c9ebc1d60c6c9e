"""The rivals of dual coordinate descent: Pegasos, a baseline, and primal coordinate descent."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.svm import LinearSVC, LinearSVR

import dualgap
from dualgap import build, certify, factored_gram, solve
from dualgap.solvers import pcd, pegasos

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))
from constant_gram import WithConstant
from oracles import clarabel_solution
from problems import data, problem

LIBLINEAR = {"tol": 1e-10, "max_iter": 1_000_000}


def classes(n=200, d=6, seed=0):
    X, y, _ = data(n, d, seed)
    return X, y


def weights(p, result):
    return p.gram.factor.T @ p.on_points(result.a)


# -- pcd ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("scaling", [0.0, 1.0, 5.0])
def test_pcd_equals_liblinear(C, scaling):
    X, y = classes()
    p = build("squared_hinge", WithConstant(X, scaling**2), y, C=C, bias=False)
    result = solve(p, "pcd", gap_tol=1e-10)
    reference = LinearSVC(
        loss="squared_hinge", dual=False, C=C, fit_intercept=scaling > 0, intercept_scaling=scaling or 1.0, **LIBLINEAR
    ).fit(X, y)
    assert np.abs(weights(p, result) - reference.coef_.ravel()).max() < 1e-4
    if scaling:
        assert scaling**2 * p.on_points(result.a).sum() == pytest.approx(reference.intercept_[0], abs=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.2])
def test_pcd_regression_equals_liblinear(epsilon):
    X, _, t = data(150)
    p = build("squared_eps_svr", factored_gram(X), t, C=2.0, epsilon=epsilon, bias=False)
    result = solve(p, "pcd", gap_tol=1e-10)
    reference = LinearSVR(
        loss="squared_epsilon_insensitive", dual=False, C=2.0, epsilon=epsilon, fit_intercept=False, **LIBLINEAR
    ).fit(X, t)
    assert np.abs(weights(p, result) - reference.coef_).max() < 1e-4


def test_pcd_equals_clarabel_and_dcd():
    p = problem("squared_hinge", "factored", bias=False)
    _, _, value, _ = clarabel_solution(p)
    result = solve(p, "pcd", gap_tol=1e-9)
    assert result.certificate.dual == pytest.approx(-value, rel=1e-7)
    assert result.certificate.dual == pytest.approx(solve(p, "dcd", gap_tol=1e-9).certificate.dual, rel=2e-9)


def test_pcd_objective_never_rises():
    """Every step has a sufficient decrease, the shortcut included."""
    X, y = classes(seed=3)
    p = build("squared_hinge", factored_gram(X * [1, 10, 0.1, 3, 1, 1]), y, C=50.0, bias=False)
    values = []
    for passes in range(1, 12):
        run = pcd._Run(p, pcd.Options(max_iter=passes), lambda snapshot: False, None)
        run.run()
        w, z = run.w, run.z
        values.append(0.5 * w @ w + 50.0 * (np.maximum(0.0, 1.0 - y * z) ** 2).sum())
        assert np.abs(z - p.gram.factor @ w).max() < 1e-9 * np.abs(z).max()
    assert np.all(np.diff(values) <= 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("layout", ["dense", "csr", "csr64"])
def test_pcd_reads_every_layout(layout, dtype):
    X, y = classes(80)
    X = (X * (np.abs(X) > 0.4)).astype(dtype)
    X[5] = 0.0
    X[:, 2] = 0.0
    A = X if layout == "dense" else sp.csr_matrix(X)
    if layout == "csr64":
        A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    result = solve(build("squared_hinge", factored_gram(A), y, bias=False), "pcd", gap_tol=1e-9)
    wide = build("squared_hinge", factored_gram(X.astype(float)), y, bias=False)
    assert certify(wide, result.a)[0].relative_gap <= 1e-9


def test_pcd_goes_on_from_a_start():
    X, y = classes()
    p = build("squared_hinge", factored_gram(X), y, C=10.0, bias=False)
    done = solve(p, "pcd", gap_tol=1e-9)
    again = solve(p, "pcd", gap_tol=1e-9, start=done.a)
    assert again.iterations < 0.5 * done.iterations


def test_pcd_refusals_say_why():
    assert "no factor" in pcd.supports(problem("squared_hinge", "full", bias=False))
    assert "penalised" in pcd.supports(problem("squared_hinge", "factored"))
    assert "squared losses" in pcd.supports(problem("c_svc", "factored", bias=False))
    assert pcd.supports(problem("squared_eps_svr", "factored", bias=False)) is None
    with pytest.raises(ValueError, match="order must be"):
        pcd.Options(order="sorted")


# -- pegasos -----------------------------------------------------------------------------------------------------


def pegasos_steps(X, y, C, drawn, radius=None):
    """The paper's figure 1 (and its projection), line by line: w after all draws."""
    n = len(y)
    rate = 1.0 / (C * n)  # lambda
    w = np.zeros(X.shape[1])
    for t, i in enumerate(drawn, 1):
        violates = y[i] * (w @ X[i]) < 1.0
        w = (1.0 - 1.0 / t) * w
        if violates:
            w = w + y[i] * X[i] / (rate * t)
        if radius is not None:
            w = min(1.0, radius / max(np.linalg.norm(w), 1e-300)) * w
    return w


@pytest.mark.parametrize("projection", [False, True])
def test_pegasos_steps_are_the_papers(projection):
    X, y = classes(60)
    C = 0.05
    p = build("c_svc", factored_gram(X), y, C=C, bias=False)
    run = pegasos._Run(p, pegasos.Options(projection=projection, seed=4), lambda snapshot: False, None)
    run.one_pass()
    run.one_pass()
    rng = np.random.default_rng(4)
    drawn = np.concatenate([rng.integers(60, size=60), rng.integers(60, size=60)])
    expected = pegasos_steps(X, y, C, drawn, np.sqrt(60 * C) if projection else None)
    factor, _, t, norm2 = run.state
    assert factor * run.u / t == pytest.approx(expected, rel=1e-9)
    if projection:
        assert np.sqrt(norm2) / t == pytest.approx(np.linalg.norm(expected), rel=1e-9)
    # The counts stand for w.
    unclipped = run.counts * run.unit * factor / t
    assert X.T @ (y * unclipped) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("options", [{}, {"order": "permuted"}, {"batch": 7}, {"projection": True, "batch": 3}])
def test_pegasos_gap_falls_and_is_never_claimed_too_small(options):
    X, y = classes(300)
    p = build("c_svc", WithConstant(X, 1.0), y, C=0.02, bias=False)
    gaps = []
    for passes in (2, 20, 400):
        result = solve(p, "pegasos", gap_tol=1e-9, max_iter=passes, warn=False, **options)
        assert result.status is dualgap.Status.MAX_ITER
        assert result.iterations == passes
        assert np.all((result.a >= p.lo) & (result.a <= p.hi))
        gaps.append(certify(p, result.a)[0].relative_gap)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.1


def test_pegasos_stops_when_a_modest_gap_is_certified():
    X, y = classes(300)
    p = build("c_svc", factored_gram(sp.csr_matrix(X.astype(np.float32))), y, C=0.02, bias=False)
    result = solve(p, "pegasos", gap_tol=0.05, max_iter=1000, order="permuted")
    assert result.status is dualgap.Status.CONVERGED
    assert certify(p, result.a)[0].relative_gap <= 0.05
    assert result.iterations < 1000


def test_pegasos_ends_by_itself():
    p = problem("c_svc", "factored", bias=False)
    with pytest.warns(dualgap.NotCertifiedWarning, match="ended short"):
        result = solve(p, "pegasos", tol=1e-6)
    assert (result.status, result.iterations) == (dualgap.Status.MAX_ITER, 100)


def test_pegasos_keeps_a_better_start():
    p = problem("c_svc", "factored", bias=False)
    best = solve(p, "dcd", gap_tol=1e-9)
    result = solve(p, "pegasos", gap_tol=1e-12, max_iter=3, start=best.a, warn=False)
    assert result.certificate.relative_gap <= 1e-8


def test_pegasos_refusals_say_why():
    assert "no factor" in pegasos.supports(problem("c_svc", "full", bias=False))
    assert "penalised" in pegasos.supports(problem("c_svc", "factored"))
    assert "hinge loss only" in pegasos.supports(problem("squared_hinge", "factored", bias=False))
    for bad in ({"batch": 0}, {"order": "cyclic"}):
        with pytest.raises(ValueError, match="for solver 'pegasos'"):
            pegasos.Options(**bad)
