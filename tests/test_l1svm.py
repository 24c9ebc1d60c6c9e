"""L1-SVMs: against HiGHS on the whole linear program, LIBLINEAR, Clarabel; certificates, odd data, limits."""

import doctest
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from dualgap import Status, minimize_smoothed, primal_svm
from dualgap.l1svm import solve_l1_svm

sys.path.insert(0, str(Path(__file__).parent))
from composites import svm_optimum

LOSSES = ("hinge", "squared_hinge")


def made(seed, n=None, d=None):
    rng = np.random.default_rng(seed)
    n, d = n or int(rng.integers(8, 60)), d or int(rng.integers(2, 80))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1)
    X[rng.random(X.shape) < rng.choice([0.0, 0.6])] = 0.0
    w = rng.normal(size=d) * (rng.random(d) < 0.3)
    y = np.where(X @ w + rng.normal(size=n) > 0.3, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y, 10.0 ** rng.uniform(-2, 2)


def whole_program(X, y, c, lam_bias=0.0):
    """Objective, weights and bias of the linear program by HiGHS."""
    n, d = X.shape
    Z = y[:, None] * X
    A = np.hstack([-Z, Z, -y[:, None], y[:, None], -np.eye(n)])
    cost = np.concatenate([np.ones(2 * d), [lam_bias] * 2, np.broadcast_to(c, n)])
    answer = linprog(cost, A_ub=A, b_ub=-np.ones(n), method="highs")
    return answer.fun, answer.x[:d] - answer.x[d : 2 * d], answer.x[2 * d] - answer.x[2 * d + 1]


def objective(result, X, y, c, loss, lam_bias=0.0):
    slack = np.maximum(1.0 - y * (X @ result.coef + result.intercept), 0.0)
    power = slack if loss == "hinge" else slack**2
    return float(np.abs(result.coef).sum() + lam_bias * abs(result.intercept) + np.sum(c * power))


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("small", [True, False])
def test_hinge_is_the_whole_program(seed, small, monkeypatch):
    """By one program where that is small; and by rounds of the method of multipliers, whatever the size."""
    if not small:
        monkeypatch.setattr("dualgap._l1_search._SMALL", 0)
    X, y, C = made(seed)
    best, w, _ = whole_program(X, y, C)
    result = solve_l1_svm(X, y, C, gap_tol=1e-9)
    assert result.status is Status.CONVERGED
    assert result.certificate.primal == pytest.approx(best, rel=1e-9, abs=1e-9)
    assert objective(result, X, y, C, "hinge") == pytest.approx(best, rel=1e-9, abs=1e-9)
    if np.all(np.abs(w - result.coef) < 1e-6):  # the same vertex: then the same features, exactly
        assert np.array_equal(w != 0.0, result.coef != 0.0)
    assert np.count_nonzero(result.coef) <= len(y)


def test_the_support_is_the_programs():
    """Data in general position have one solution as a rule: nearly all of them must agree in every feature."""
    same = 0
    for seed in range(100, 130):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 60))
        y = np.where(X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=40) > 0, 1.0, -1.0)
        _, w, b = whole_program(X, y, 0.7)
        result = solve_l1_svm(X, y, 0.7)
        same += np.array_equal(w != 0.0, result.coef != 0.0) and abs(b - result.intercept) < 1e-8
    assert same >= 28


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("q", [1, 2])
def test_every_norm_and_power_reaches_the_optimum_of_clarabel(seed, p, q):
    X, y, C = made(seed, n=20, d=6)
    best = svm_optimum(X, y, C, p, q)
    if p == 1:
        certificate = solve_l1_svm(X, y, C, loss=LOSSES[q - 1], gap_tol=1e-9).certificate
        assert certificate.relative_gap <= 1e-9
        assert certificate.primal == pytest.approx(best, rel=1e-7, abs=1e-8)
    if p == 2 or seed < 10:
        certificate = minimize_smoothed(primal_svm(X, y, C, p=p, q=q, eps=0.1), gap_tol=1e-5).certificate
        assert certificate.primal == pytest.approx(best, rel=2e-5, abs=1e-8)
    # A bound is a bound, and a gap is never below the true one.
    assert certificate.dual <= best * (1 + 1e-7) + 1e-9
    assert certificate.gap >= certificate.primal - best * (1 + 1e-7) - 1e-9


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("scaling", [1.0, 5.0])
def test_squared_hinge_is_liblinears(seed, scaling):
    from sklearn.svm import LinearSVC

    X, y, C = made(seed)
    C = min(C, 10.0)
    ours = solve_l1_svm(X, y, C, loss="squared_hinge", bias="penalised", intercept_scaling=scaling)
    # The best of three orders: with about one in 300 LIBLINEAR's line search gives up far from the optimum.
    values = []
    for order in range(3):
        theirs = LinearSVC(
            penalty="l1",
            loss="squared_hinge",
            dual=False,
            C=C,
            tol=1e-9,
            max_iter=200_000,
            intercept_scaling=scaling,
            random_state=order,
        ).fit(X, y)
        w, b = theirs.coef_[0], theirs.intercept_[0]
        slack = np.maximum(1.0 - y * (X @ w + b), 0.0)
        values.append(np.abs(w).sum() + abs(b) / scaling + C * float(slack @ slack))
    value = min(values)
    assert ours.certificate.relative_gap <= 1e-9
    assert ours.certificate.primal <= value * (1 + 1e-9)
    assert ours.certificate.primal == pytest.approx(value, rel=1e-5)
    assert objective(ours, X, y, C, "squared_hinge", 1.0 / scaling) == pytest.approx(ours.certificate.primal, rel=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", ["free", "penalised", "none"])
def test_layouts_and_precisions_agree(loss, bias):
    X, y, _ = made(3, n=50, d=150)
    X = np.round(X, 2).astype(np.float32)
    wanted = solve_l1_svm(X.astype(np.float64), y, 0.5, loss=loss, bias=bias)
    for matrix in (X, np.asfortranarray(X), sp.csr_matrix(X), sp.csc_matrix(X), sp.coo_matrix(X), sp.csr_array(X)):
        kept = matrix.copy()
        got = solve_l1_svm(matrix, y, 0.5, loss=loss, bias=bias)
        assert got.certificate.primal == pytest.approx(wanted.certificate.primal, rel=1e-9)
        assert got.coef == pytest.approx(wanted.coef, abs=1e-7)
        assert abs(kept - matrix).sum() == 0.0
    assert wanted.intercept != 0.0 if bias == "free" else bias == "penalised" or wanted.intercept == 0.0


@pytest.mark.parametrize("loss", LOSSES)
def test_sample_weights(loss):
    X, y, _ = made(5, n=40, d=10)
    weight = np.random.default_rng(0).integers(0, 4, size=40).astype(float)
    weighted = solve_l1_svm(X, y, 0.3, loss=loss, sample_weight=weight)
    rows = np.repeat(np.arange(40), weight.astype(int))
    repeated = solve_l1_svm(X[rows], y[rows], 0.3, loss=loss)
    assert weighted.certificate.primal == pytest.approx(repeated.certificate.primal, rel=1e-9)
    assert weighted.certificate.relative_gap <= 1e-9
    assert np.all(weighted.a[weight == 0.0] == 0.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_multipliers_are_feasible_and_complementary(loss):
    X, y, _ = made(7, n=60, d=40)
    result = solve_l1_svm(X, y, 0.5, loss=loss)
    v = X.T @ (y * result.a)
    assert np.all(result.a >= 0.0)
    assert abs(y @ result.a) <= 1e-9
    assert np.all(np.abs(v) <= 1.0 + 1e-9)
    assert v[result.coef != 0.0] == pytest.approx(np.sign(result.coef[result.coef != 0.0]), abs=1e-7)
    if loss == "hinge":
        assert np.all(result.a <= 0.5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("bias", ["free", "penalised", "none"])
def test_odd_data(loss, bias):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 5))
    y = np.where(X[:, 0] > 0.0, 1.0, -1.0)
    separable = solve_l1_svm(X, y, 1e6, loss=loss, bias=bias)
    assert separable.status is Status.CONVERGED
    assert np.all(y * (X @ separable.coef + separable.intercept) >= 1.0 - 1e-3)
    nothing = solve_l1_svm(X, y, 1e-4, loss=loss, bias=bias)
    assert nothing.status is Status.CONVERGED
    assert not np.any(nothing.coef)
    doubled = np.hstack([X, X, np.zeros((30, 3)), np.ones((30, 1))])
    twice = solve_l1_svm(doubled, y, 1.0, loss=loss, bias=bias)
    once = solve_l1_svm(np.hstack([X, np.ones((30, 1))]), y, 1.0, loss=loss, bias=bias)
    assert twice.certificate.primal == pytest.approx(once.certificate.primal, rel=1e-9)
    assert twice.certificate.relative_gap <= 1e-9
    assert not np.any(twice.coef[10:13])
    alone = solve_l1_svm(X, np.ones(30), 1.0, loss=loss, bias=bias)
    assert alone.status is Status.CONVERGED
    if bias == "free":
        assert (alone.intercept, alone.certificate.primal) == (1.0, 0.0)
    empty = solve_l1_svm(np.zeros((4, 3)), np.array([1.0, -1.0, 1.0, 1.0]), 1.0, loss=loss, bias=bias)
    assert empty.status is Status.CONVERGED
    assert not np.any(empty.coef)


@pytest.mark.parametrize("loss", LOSSES)
def test_more_features_than_are_looked_at_first(loss):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 1500))
    y = np.where(X[:, :40].sum(axis=1) > 0, 1.0, -1.0)
    result = solve_l1_svm(X, y, 1.0, loss=loss, gap_tol=1e-9)
    assert result.status is Status.CONVERGED
    if loss == "hinge":
        assert result.certificate.primal == pytest.approx(whole_program(X, y, 1.0)[0], rel=1e-9)
    again = solve_l1_svm(X, y, 1.0, loss=loss, start=np.append(result.coef, result.intercept))
    assert again.certificate.primal == pytest.approx(result.certificate.primal, rel=1e-9)
    assert again.iterations < result.iterations


@pytest.mark.parametrize("loss", LOSSES)
def test_limits_and_callback(loss):
    X, y, _ = made(11, n=200, d=600)
    assert solve_l1_svm(X, y, loss=loss, time_limit=1e-6).status is Status.TIME_LIMIT
    few = solve_l1_svm(X, y, loss=loss, max_iter=2)
    assert few.status is Status.MAX_ITER
    assert few.certificate.relative_gap > 1e-6
    assert few.certificate.gap >= 0.0
    seen = []
    stopped = solve_l1_svm(X, y, loss=loss, callback=lambda event: seen.append(event) or True)
    assert stopped.status is Status.STOPPED
    assert len(seen) == len(stopped.history) == 1
    whole = solve_l1_svm(X, y, loss=loss, tol=1e-6)
    assert whole.certificate.kkt_violation <= 1e-6
    assert whole.history[-1].n_support == np.count_nonzero(whole.coef)


def test_bad_input():
    X, y, _ = made(0, n=10, d=3)
    for arguments, message in (
        ({"loss": "logistic"}, "loss must be"),
        ({"bias": "maybe"}, "bias must be"),
        ({"C": 0.0}, "C must be"),
        ({"C": np.nan}, "C must be"),
        ({"gap_tol": -1.0}, "gap_tol must be"),
        ({"intercept_scaling": 0.0}, "intercept_scaling must be"),
        ({"max_iter": 0}, "max_iter must be"),
        ({"sample_weight": np.ones(3)}, "sample_weight must hold 10"),
        ({"sample_weight": -np.ones(10)}, "non-negative"),
        ({"start": np.zeros(3)}, "start must be 4"),
    ):
        with pytest.raises(ValueError, match=message):
            solve_l1_svm(X, y, **arguments)
    with pytest.raises(ValueError, match="labels of"):
        solve_l1_svm(X, np.arange(10.0))
    with pytest.raises(ValueError, match="10 labels"):
        solve_l1_svm(X, y[:5])
    with pytest.raises(ValueError, match="finite"):
        solve_l1_svm(np.where(X > 1.0, np.nan, X), y)
    with pytest.raises(TypeError, match="array or a sparse"):
        solve_l1_svm(X.tolist(), y)


def test_example_in_docstring():
    results = doctest.testmod(importlib.import_module("dualgap.l1svm"))
    assert (results.attempted > 0, results.failed) == (True, 0)
