"""MPD: the paper's algorithm, the improved one, working sets, random parts and the way back onto the constraints."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualgap
from dualgap import DualQP, Kernel, Status, build, certify, make_gram, recover, solve
from dualgap.constraints import InfeasibleProblemError, infeasibility
from dualgap.solvers import mpd
from dualgap.solvers._mpd_coarse import random_part
from dualgap.solvers._mpd_dense import Dense
from dualgap.feasibility import orthonormal, restored
from dualgap.solvers._mpd_paper import Paper
from dualgap.solvers._mpd_working_sets import WorkingSets

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution, dense_hessian
from problems import ROWS, data, gram, problem, target

PAPER_TAKES = ("c_svc", "squared_hinge", "one_class", "svdd", "eps_svr", "squared_eps_svr")


def quiet(_):
    return False


# -- the improved variant --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("functions", [0, 2, 4])
@pytest.mark.parametrize("row", ROWS)
def test_equals_clarabel_in_objective_and_multipliers(row, functions):
    p = problem(row, functions=functions)
    _, eta, value, _ = clarabel_solution(p)
    result = solve(p, "mpd", gap_tol=1e-9)
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-value, rel=1e-8)
    assert result.certificate.infeasibility < 1e-12
    # All free coefficients are the multipliers; the objective is flat in them, hence the root of its error.
    assert np.allclose(result.eta, eta, rtol=1e-3, atol=1e-3)


def test_the_solvers_own_multipliers_are_the_certificates():
    for row in ("c_svc", "eps_svr", "nu_svr", "squared_hinge"):
        p = problem(row, functions=2)
        run = WorkingSets(p, mpd.Options(tol=1e-8), quiet, None)
        outcome = run.run()
        assert outcome.status is Status.CONVERGED
        _, eta = certify(p, outcome.a)
        assert np.allclose(run.eta, eta, rtol=1e-5, atol=1e-6)
        assert np.abs(run.basis.U.T @ run.basis.U - np.eye(p.k)).max() < 1e-12


@pytest.mark.parametrize("size", [30, 60])
@pytest.mark.parametrize("row", ROWS)
def test_small_working_sets_lead_to_the_same_point(row, size):
    p = problem(row, n=90, functions=1)
    best = solve(p, "ipm", gap_tol=1e-9).certificate.dual
    result = solve(p, "mpd", gap_tol=1e-5, working_set=size)
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(best, rel=2e-5)
    assert result.certificate.infeasibility < 1e-12


@pytest.mark.parametrize("precision", ["single", "double"])
def test_precision(precision):
    p = problem("eps_svr", "float32", functions=2)
    assert solve(p, "mpd", gap_tol=1e-8, precision=precision).status is Status.CONVERGED


def test_sharper_settings_end_with_float64():
    assert mpd.sharper(mpd.Options()).precision == "double"
    assert mpd.sharper(mpd.Options(precision="double")) is None
    assert mpd.sharper(mpd.Options(variant="paper")) is None


def test_seed_chooses_the_part_and_not_the_answer():
    X, y, _ = data(300)
    p = build("c_svc", gram("full", X), y, parametric=X[:, :2])
    first, second = (solve(p, "mpd", gap_tol=1e-8, working_set=60, seed=seed) for seed in (0, 1))
    assert first.certificate.dual == pytest.approx(second.certificate.dual, rel=2e-8)
    assert first.iterations != second.iterations


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 100.0])
def test_narrow_and_wide_boxes(C):
    p = problem("eps_svr", functions=3, C=C)
    _, _, value, status = clarabel_solution(p)
    assert status == "Solved"
    assert solve(p, "mpd", gap_tol=1e-7).certificate.dual == pytest.approx(-value, rel=1e-6)


def test_redundant_constraints():
    """The bias twice over, and a function that is the sum of two others."""
    X, y, _ = data(50)
    phi = np.column_stack([np.ones(50), X[:, 0], X[:, 1], X[:, 0] + X[:, 1]])
    p = build("c_svc", gram("full", X), y, parametric=phi)
    assert orthonormal(p).c.size == 3
    plain = build("c_svc", gram("full", X), y, parametric=X[:, :2])
    result = solve(p, "mpd", gap_tol=1e-9)
    assert result.certificate.dual == pytest.approx(solve(plain, "mpd", gap_tol=1e-9).certificate.dual, rel=1e-8)
    assert result.certificate.infeasibility < 1e-12


@pytest.mark.parametrize("size", [1024, 10])
@pytest.mark.parametrize("variant", ["improved", "paper"])
def test_infeasible_problems_are_named(variant, size):
    p = problem("c_svc", functions=2)
    contradicting = replace(p, F=np.column_stack([p.F, p.F[:, 1]]), e=np.append(p.e, 1.0), columns=())
    with pytest.raises(InfeasibleProblemError):
        solve(contradicting, "mpd", variant=variant, working_set=size)


def test_out_of_reach_constraints_are_named():
    p = problem("c_svc", functions=2)
    with pytest.raises(InfeasibleProblemError):
        solve(replace(p, e=np.array([0.0, 1e6, 0.0])), "mpd")


def test_duplicates_zero_rows_and_fixed_variables():
    X, y, t = data(40)
    X[10:20] = X[0]
    X[20:25] = 0.0
    g = dualgap.factored_gram(X)
    w = np.ones(40)
    for row in ("c_svc", "eps_svr", "nu_svr"):
        p = build(row, g, target(row, y, t), C=3.0, nu=0.3, parametric=np.cos(3 * X[:, :2]), sample_weight=w)
        p = replace(p, hi=np.where(np.arange(p.n) % 7 == 3, 0.0, p.hi))
        assert solve(p, "mpd", gap_tol=1e-7).status is Status.CONVERGED


def test_indefinite_kernel_ends_at_a_stationary_point():
    X, y, _ = data(40)
    g = make_gram(X, Kernel("sigmoid", gamma=0.5, coef0=-1.0))
    result = solve(build("c_svc", g, y, parametric=X[:, :2]), "mpd", tol=1e-3, warn=False)
    assert "indefinite" in result.certificate.note
    assert result.certificate.kkt_violation <= 1e-3 * (1 + 1e-8)
    assert result.certificate.infeasibility < 1e-12


def test_start_and_limits():
    p = problem("eps_svr", n=120, functions=2)
    best = solve(p, "mpd", gap_tol=1e-9)
    assert solve(p, "mpd", gap_tol=1e-8, start=best.a).iterations == 0
    short = solve(p, "mpd", tol=1e-9, max_iter=9, warn=False)
    assert short.status is Status.MAX_ITER
    assert short.iterations <= 9
    assert short.certificate.infeasibility < 1e-12
    seen = []
    stopped = solve(p, "mpd", tol=1e-9, callback=lambda event: seen.append(event) or len(seen) == 2)
    assert stopped.status is Status.STOPPED
    assert len(seen) == 2


def test_options_are_checked():
    for options, message in (
        ({"variant": "nonsense"}, "variant must be"),
        ({"working_set": 1}, "working_set must be at least 2"),
        ({"precision": "half"}, "precision must be"),
    ):
        with pytest.raises(ValueError, match=message):
            solve(problem("c_svc"), "mpd", **options)


# -- parts -----------------------------------------------------------------------------------------------------------


def test_clamped_hessian_is_the_second_derivative_of_the_dual_function():
    """S against differences of the gradient r, where no variable changes between free and bound."""
    p = problem("c_svc", functions=2, n=40)
    basis, H = orthonormal(p), dense_hessian(p)
    run = Dense(H, basis.U, np.zeros(p.n), p.lo, p.hi, p.f0.copy(), -basis.c, np.zeros(3), 5.0)
    assert run.minimise(1e-12, 10_000)
    free, factor = run.factor()
    before, residual, step = free.copy(), run.residual.copy(), run.newton_step(basis.U[free], factor)
    A = (H + 5.0 * basis.U @ basis.U.T)[np.ix_(free, free)]
    S = basis.U[free].T @ np.linalg.solve(A, basis.U[free])
    assert np.allclose(S @ step, residual, rtol=1e-6)
    small = 1e-5 * step
    run.multipliers = run.multipliers + small
    run.minimise(1e-13, 10_000)
    assert np.array_equal(run.factor()[0], before)
    assert np.allclose(run.residual - residual, -S @ small, rtol=1e-3, atol=1e-10)


@given(st.integers(0, 10_000), st.integers(1, 4), st.floats(0.0, 0.3))
def test_restored_points_obey_the_constraints(seed, k, noise):
    rng = np.random.default_rng(seed)
    n = 40
    F = rng.normal(size=(n, k))
    lo, hi = np.zeros(n), rng.uniform(0.5, 2.0, size=n)
    inside = rng.uniform(0.1, 0.9, size=n) * hi
    g = make_gram(rng.normal(size=(n, 2)), Kernel("rbf", gamma=1.0))
    p = DualQP(g, np.arange(n), np.ones(n), np.zeros(n), np.zeros(n), lo, hi, F, F.T @ inside)
    off = np.clip(inside + noise * rng.normal(size=n) * hi, lo, hi)
    found = restored(off, lo, hi, orthonormal(p), rng.normal(size=n))
    assert infeasibility(p, found) < 1e-13
    # The way back to `inside` is one correction; the one found, in proportion to each variable's room, is no detour.
    assert np.linalg.norm(found - off) <= 10.0 * np.linalg.norm(off - inside) + 1e-12


def test_a_random_part_stands_for_all():
    p = problem("squared_eps_svr", n=80, functions=1)
    part = random_part(p, 0, 40)
    assert part.n == 40
    assert np.array_equal(np.unique(part.index, return_counts=True)[1], np.full(20, 2))  # both variables of a point
    assert part.ridge[0] == pytest.approx(p.ridge[0] / 4)
    assert random_part(problem("eps_svr", n=80), 0, 40).hi[0] == pytest.approx(4 * p_hi(80))


def p_hi(n):
    return problem("eps_svr", n=n).hi[0]


# -- the paper's variant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", PAPER_TAKES)
def test_paper_variant_converges_with_one_constraint(row):
    p = problem(row)
    _, eta, value, _ = clarabel_solution(p)
    result = solve(p, "mpd", variant="paper", tol=1e-4)
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-value, rel=1e-3)
    assert np.allclose(result.eta, eta, atol=1e-2)
    assert result.certificate.infeasibility < 1e-12


@pytest.mark.parametrize("kind", ["small cache", "element", "own class"])
def test_paper_variant_over_caches_of_few_rows(kind):
    p = problem("eps_svr", kind, functions=2)
    result = solve(p, "mpd", variant="paper", tol=1e-3)
    assert result.status is Status.CONVERGED
    assert result.history[-1].cache_misses > 0 or kind == "own class"


def test_paper_hessian_estimate_tends_to_the_inverse():
    """h_i = -f_i' H^-1 f_i with the sign corrected; the printed one has it positive."""
    p = problem("squared_hinge", functions=2)  # a ridge: H is well conditioned
    run = Paper(p, mpd.Options(variant="paper", tol=1e-9, max_iter=3000), quiet, None)
    run.run()
    exact = -np.einsum("ij,ij->j", p.F, np.linalg.solve(dense_hessian(p), p.F))
    assert np.all(run.h < 0.0)
    assert np.allclose(run.h, exact, rtol=1e-2)


def test_figure_1():
    """Two Gaussians of 20 points each, box 1000 / 40: a few updates of eta; the paper has four in 630 steps."""
    rng = np.random.default_rng(0)
    y = np.repeat([1.0, -1.0], 20)
    X = rng.normal(size=(40, 2)) + 0.5 * np.sqrt(2.0) * y[:, None] * np.array([1.0, 0.0])
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=0.5)), y, C=1000.0 / 40)
    run = Paper(p, mpd.Options(variant="paper", tol=0.01), quiet, None)
    outcome = run.run()
    assert outcome.status is Status.CONVERGED
    assert 1 <= run.renewals <= 50
    assert 100 <= outcome.iterations <= 20_000
    certificate, eta = certify(p, outcome.a)
    assert certificate.kkt_violation <= 0.01
    assert run.eta[0] == pytest.approx(eta[0], abs=0.05)


def test_improved_takes_what_stops_the_papers():
    """nu-SVR: its second constraint lies in the null space of H, where the paper's Hessian has no limit."""
    p = problem("nu_svr")
    assert solve(p, "mpd", tol=1e-3).status is Status.CONVERGED
    assert solve(p, "mpd", variant="paper", tol=1e-3, max_iter=20_000, warn=False).status is not Status.CONVERGED


def test_recovered_model_has_the_coefficients_of_its_functions():
    """A target that is its functions, noise aside: the kernel has nothing to do."""
    X, _, _ = data(80)
    t = 0.7 * X[:, 0] - 1.5 * np.sin(3 * X[:, 1]) + 0.25
    phi = [lambda X: X[:, 0], lambda X: np.sin(3 * X[:, 1])]
    p = build("eps_svr", gram("full", X), t, C=10.0, epsilon=0.0, parametric=phi, X=X)
    result = solve(p, "mpd", tol=1e-9, warn=False)
    m = recover(p, result.a, result.eta)
    assert np.allclose(m.parametric, [0.7, -1.5], atol=1e-7)
    assert m.bias == pytest.approx(0.25, abs=1e-7)
