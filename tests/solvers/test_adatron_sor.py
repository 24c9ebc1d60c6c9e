"""The single-variable methods: without a bias, with a penalised one, and what they refuse."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC, LinearSVR

import dualgap
from dualgap import Kernel, build, certify, make_gram, recover, solve
from dualgap.kernels.shifted import ShiftedGram

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution
from problems import GRAMS, data, gram, problem, target

NAMES = ("adatron", "sor")
BOXES = ("c_svc", "squared_hinge", "eps_svr", "squared_eps_svr")
VARIANTS = ("improved", "paper")


@pytest.mark.parametrize("bias", [False, "penalised"])
@pytest.mark.parametrize("row", BOXES)
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", NAMES)
def test_equals_clarabel(name, variant, row, bias):
    p = problem(row, bias=bias, n=40)
    _, _, value, _ = clarabel_solution(p)
    result = solve(p, name, gap_tol=1e-8, variant=variant)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-value, rel=1e-7)


@pytest.mark.parametrize("omega", [0.3, 1.0, 1.5, 1.9])
def test_every_omega_leads_to_the_same_point(omega):
    p = problem("c_svc", bias=False)
    best = solve(p, "smo", gap_tol=1e-10).certificate.dual
    for variant in VARIANTS:
        assert solve(p, "sor", gap_tol=1e-7, omega=omega, variant=variant).certificate.dual == pytest.approx(best)


def test_paper_sor_is_the_textbook_sweep():
    """A few steps by hand, in plain numpy, in the order of the variables."""
    X, y, _ = data(12, seed=4)
    g = make_gram(X, Kernel("rbf", gamma=0.5), kind="full")
    p = build("c_svc", g, y, C=1.0, bias=False)
    H = y[:, None] * g.matrix * y
    a, steps = np.zeros(12), 0
    for _ in range(3):
        for i in range(12):
            slope = H[i] @ a - 1.0
            if (slope < 0 and a[i] < 1.0) or (slope > 0 and a[i] > 0.0):
                a[i] = np.clip(a[i] - 1.3 * slope / H[i, i], 0.0, 1.0)
                steps += 1
    found = solve(p, "sor", variant="paper", omega=1.3, tol=1e-12, max_iter=steps, warn=False)
    assert found.iterations == steps
    assert np.allclose(found.a, a, atol=1e-12)


def test_paper_adatron_is_the_classical_rule():
    X, y, _ = data(12, seed=4)
    g = make_gram(X, Kernel("linear"), kind="full")
    p = build("c_svc", g, y, C=1.0, bias=False)
    rate = 0.5 / g.diag().max()
    a = np.zeros(12)
    for i in range(12):
        f = g.matrix[i] @ (y * a)
        a[i] = np.clip(a[i] + rate * (1.0 - y[i] * f), 0.0, 1.0)
    found = solve(p, "adatron", variant="paper", rate=rate, tol=1e-12, max_iter=12, warn=False)
    assert np.allclose(found.a, a, atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0.05, 1.95))
def test_steps_never_raise_the_objective(seed, omega):
    p = problem("eps_svr", n=15, seed=seed % 50, bias=False)
    duals = []
    solve(p, "sor", tol=1e-4, omega=omega, seed=seed, max_iter=300, warn=False, callback=lambda e: duals.append(e.dual))
    assert np.all(np.diff(duals) >= -1e-9 * np.abs(duals[1:]))


def test_a_rate_that_diverges_is_refused():
    p = problem("c_svc", bias=False)
    with pytest.raises(dualgap.UnsupportedProblemError, match="use rate < 2"):
        solve(p, "adatron", variant="paper", rate=2.0)
    assert solve(p, "adatron", variant="paper", rate=1.9, tol=1e-3).status is dualgap.Status.CONVERGED


@pytest.mark.parametrize("name", NAMES)
def test_constraints_are_refused_with_advice(name):
    with pytest.raises(dualgap.UnsupportedProblemError, match=r"bias=False or bias='penalised'.*'mpd'"):
        solve(problem("c_svc"), name)
    with pytest.raises(dualgap.UnsupportedProblemError, match="2 equality constraints"):
        solve(problem("nu_svc"), name)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sor", {"omega": 2.0}, "omega must lie between 0 and 2"),
        ("sor", {"variant": "nonsense"}, "variant must be"),
        ("adatron", {"variant": "nonsense"}, "variant must be"),
        ("adatron", {"variant": "paper", "rate": -1.0}, "rate must be a positive number"),
        ("adatron", {"rate": 0.1}, "rate is for variant='paper'"),
    ],
)
def test_options_are_checked(name, options, message):
    with pytest.raises(ValueError, match=message):
        solve(problem("c_svc", bias=False), name, **options)


@pytest.mark.parametrize("name", NAMES)
def test_start_is_honoured_and_limits_are_kept(name):
    p = problem("c_svc", bias=False, n=200)
    best = solve(p, name, gap_tol=1e-8)
    assert solve(p, name, gap_tol=1e-7, start=best.a).iterations == 0
    short = solve(p, name, tol=1e-8, max_iter=7, warn=False)
    assert short.status is dualgap.Status.MAX_ITER
    assert short.iterations == 7


@pytest.mark.parametrize("name", NAMES)
def test_shrinking_comes_back(name):
    """Enough points and steps for variables to be set aside, over a cache of few rows."""
    X, y, _ = data(400, seed=2)
    g = make_gram(X, Kernel("rbf", gamma=0.3), kind="cached", cache_size=0.3)
    p = build("c_svc", g, y, C=10.0, bias=False)
    result = solve(p, name, gap_tol=1e-6)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.dual == pytest.approx(solve(p, "block", gap_tol=1e-7).certificate.dual, rel=1e-6)


# -- the penalised bias ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", GRAMS)
def test_shifted_gram_is_the_matrix_plus_a_constant(kind):
    X, _, _ = data(20)
    base = gram(kind, X)
    shifted = ShiftedGram(base, 2.5)
    rows, columns = np.array([3, 0, 7]), np.array([1, 3])
    assert np.allclose(shifted.block(rows, columns), base.block(rows, columns) + 2.5)
    assert np.allclose(shifted.rows(rows), base.rows(rows) + 2.5)
    assert np.allclose(shifted.diag(), base.diag() + 2.5)
    weights = np.random.default_rng(0).normal(size=20)
    assert np.allclose(shifted.exact(weights), base.exact(weights) + 2.5 * weights.sum())
    assert np.allclose(shifted.exact(weights, rows), shifted.exact(weights)[rows])
    out = np.ones(3)
    shifted.accumulate(out, columns, weights[columns], rows)
    assert np.allclose(out, 1.0 + (base.block(rows, columns) + 2.5) @ weights[columns], rtol=1e-6)
    with pytest.raises(ValueError, match="constant must be finite and non-negative"):
        ShiftedGram(base, -1.0)


def test_penalised_bias_is_liblinears():
    """scikit-learn's LinearSVC and LinearSVR penalise their intercept: LIBLINEAR, written by nobody here."""
    X, y, t = data(80)
    g = dualgap.factored_gram(X)
    p = build("squared_hinge", g, y, C=0.7, bias="penalised")
    m = recover(p, (r := solve(p, "sor", gap_tol=1e-12)).a, r.eta)
    peer = LinearSVC(C=0.7, tol=1e-12, max_iter=1_000_000).fit(X, y)
    assert m.bias == pytest.approx(peer.intercept_[0], rel=1e-5)
    assert np.allclose(X.T @ m.coefficients, peer.coef_[0], rtol=1e-4, atol=1e-6)
    p = build("eps_svr", g, t, C=0.7, epsilon=0.1, bias="penalised")
    m = recover(p, (r := solve(p, "adatron", gap_tol=1e-10)).a, r.eta)
    peer = LinearSVR(C=0.7, epsilon=0.1, tol=1e-9, max_iter=1_000_000).fit(X, t)
    assert m.bias == pytest.approx(peer.intercept_[0], rel=1e-3)


@pytest.mark.parametrize("solver", ["block", "smo", "ipm", "mpd", "adatron", "sor"])
def test_every_solver_takes_a_penalised_bias(solver):
    X, y, t = data(50)
    for row in ("c_svc", "eps_svr"):
        p = build(row, gram("full", X), target(row, y, t), bias="penalised")
        result = solve(p, solver, gap_tol=1e-7)
        assert certify(p, result.a)[0].relative_gap <= 1e-7


def test_penalised_bias_where_it_has_no_meaning():
    X, _, _ = data(20)
    with pytest.raises(ValueError, match="trivial solution"):
        build("one_class", gram("full", X), bias="penalised")
    with pytest.raises(ValueError, match="bias must be True, False or 'penalised'"):
        build("c_svc", gram("full", X), np.ones(20), bias="punished")
