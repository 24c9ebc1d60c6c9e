"""What is particular to the interior point solver: its core on arrays, its linear algebra, its variants and limits."""

import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.svm import LinearSVC

import dualgap
from dualgap import Kernel, Status, build, factored_gram, make_gram, solve
from dualgap.constraints import InfeasibleProblemError, infeasibility
from dualgap.datasets import find, load
from dualgap.problem import DualQP
from dualgap.solvers import _ipm_cholesky as cholesky
from dualgap.solvers import ipm
from dualgap.solvers._interior import DenseSystem, Iterate, Newton, interior_point, restore
from dualgap.solvers._ipm_factored import FactoredKernel
from dualgap.solvers._ipm_lecture import LectureIterate
from dualgap.solvers._ipm_points import DenseKernel, PointSystem

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution
from problems import ROWS, Plain, data, has_model_without_bias, problem

# -- the core on plain arrays ------------------------------------------------------------------------------------


def program(n, k, seed, rank=None, infinite=0.0, fixed=0.0, C=1.0):
    """A convex program with a feasible point; `infinite` and `fixed` are shares of the variables."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, rank or n))
    H, f0 = A @ A.T / A.shape[1], -np.abs(rng.normal(size=n))
    lo, hi = np.zeros(n), np.full(n, C)
    hi[rng.uniform(size=n) < infinite] = np.inf
    held = rng.uniform(size=n) < fixed
    lo[held] = hi[held] = rng.uniform(size=held.sum())
    F = rng.normal(size=(n, k))
    inside = lo + np.where(np.isfinite(hi), hi - lo, 1.0) * rng.uniform(size=n)
    return H, f0, lo, hi, F, F.T @ inside


def check_optimal(H, f0, lo, hi, F, e, a, eta, tol=1e-8):
    """The conditions of optimality, written out."""
    assert np.all(a >= lo)
    assert np.all(a <= hi)
    assert np.all(np.abs(F.T @ a - e) <= 1e-12 * (np.abs(F).T @ np.abs(a) + 1e-300))
    slope = H @ a + f0 + F @ eta
    assert np.all(slope[(a > lo) & (lo < hi)] <= tol)
    assert np.all(slope[(a < hi) & (lo < hi)] >= -tol)


@given(
    n=st.integers(1, 40),
    k=st.integers(0, 4),
    seed=st.integers(0, 10_000),
    rank=st.sampled_from([None, 1, 3]),
    infinite=st.sampled_from([0.0, 0.4]),
    fixed=st.sampled_from([0.0, 0.3]),
    C=st.sampled_from([1e-3, 1.0, 1e4]),
)
def test_core_finds_the_optimum_of_any_small_program(n, k, seed, rank, infinite, fixed, C):
    if infinite and rank:
        infinite = 0.0  # a program without curvature and without bounds may have no optimum
    p = program(n, min(k, n - 1), seed, rank, infinite, fixed, C)
    a, eta, converged = interior_point(*p, 1e-8, 60)
    assert converged
    check_optimal(*p, a, eta)


@pytest.mark.parametrize("k", [0, 1, 3])
def test_core_equals_clarabel(k):
    H, f0, lo, hi, F, e = p = program(60, k, 5, rank=20, C=2.0)
    ones = np.ones(60)
    whole = DualQP(Plain(H), np.arange(60), ones, 0.0 * ones, f0, lo, hi, F, e)
    _, _, expected, status = clarabel_solution(whole)
    a, _, converged = interior_point(*p, 1e-10, 60)
    assert converged
    assert status == "Solved"
    assert 0.5 * a @ H @ a + f0 @ a == pytest.approx(expected, rel=1e-9)


def test_core_returns_a_feasible_point_however_few_iterations():
    for limit in range(4):
        p = program(50, 2, 1)
        _, _, lo, hi, F, e = p
        a, _, converged = interior_point(*p, 1e-12, limit)
        assert not converged
        assert np.all((a >= lo) & (a <= hi))
        assert np.abs(F.T @ a - e).max() < 1e-12


def test_core_with_everything_fixed():
    a, eta, converged = interior_point(np.eye(2), -np.ones(2), np.ones(2), np.ones(2), np.ones((2, 1)), np.array([2.0]))
    assert converged
    assert list(a) == [1.0, 1.0]
    assert eta.shape == (1,)
    with pytest.raises(InfeasibleProblemError):
        interior_point(np.eye(2), -np.ones(2), np.ones(2), np.ones(2), np.ones((2, 1)), np.array([3.0]))


SUMS = np.column_stack([np.ones(5), np.arange(5.0)])


@pytest.mark.parametrize(
    ("F", "e"), [(SUMS[:, :1], [6.0]), (SUMS, [2.0, 9.0]), (SUMS[:, [0, 0]], [2.0, 3.0]), (-SUMS, [1.0, 0.0])]
)
def test_core_names_infeasible_constraints(F, e):
    with pytest.raises(InfeasibleProblemError, match="cannot be met within the box"):
        interior_point(np.eye(5), -np.ones(5), np.zeros(5), np.ones(5), F, np.array(e))


@pytest.mark.parametrize(
    ("F", "e", "expected"),
    [
        (SUMS[:, :1], [5.0], np.ones(5)),
        (SUMS[:, :1], [0.0], np.zeros(5)),
        (SUMS, [5.0, 10.0], np.ones(5)),
        (SUMS[:, [0, 0]], [2.0, 2.0], np.full(5, 0.4)),  # the same constraint twice
    ],
)
def test_core_takes_constraints_without_room(F, e, expected):
    a, _, converged = interior_point(np.eye(5), -np.ones(5), np.zeros(5), np.ones(5), F, np.array(e))
    assert converged
    assert a == pytest.approx(expected, abs=1e-12)


def test_restoring_moves_only_what_may_move():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(30, 2))
    lo, hi = np.zeros(30), np.where(np.arange(30) % 3 == 0, np.inf, 1.0)
    a = rng.uniform(0.2, 0.8, size=30)
    before, movable = a.copy(), np.arange(30) < 20
    e = F.T @ (a + np.where(movable, 0.1 * rng.normal(size=30), 0.0))
    assert restore(a, movable, lo, hi, F, e)
    assert np.abs(F.T @ a - e).max() < 1e-13
    assert np.array_equal(a[20:], before[20:])
    assert not restore(a, np.zeros(30, dtype=bool), lo, hi, F, e + 1.0)


# -- directions --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Iterate, LectureIterate])
@pytest.mark.parametrize("infinite", [0.0, 0.5])
def test_a_direction_solves_the_whole_linearised_system(kind, infinite):
    """All equations at once, unreduced, by LU: stationarity, constraints, and one product for every bound."""
    H, f0, lo, hi, F, e = program(12, 2, 3, infinite=infinite)
    iterate = kind(DenseSystem(H, F), f0, lo, hi, F, e, 1.0)
    for _ in range(3):
        iterate.step()
    n, k, m = 12, 2, iterate.slack.size
    upper = np.eye(n)[iterate.upper]
    signs = np.vstack([np.eye(n), -upper])  # changes of the slacks per change of a
    wanted = np.random.default_rng(0).normal(size=m)
    whole = np.zeros((n + k + m, n + k + m))
    whole[:n, :n], whole[:n, n : n + k], whole[n : n + k, :n] = H, F, F.T
    whole[:n, n + k :] = -signs.T
    whole[n + k :, :n] = iterate.price[:, None] * signs
    whole[n + k :, n + k :] = np.diag(iterate.slack)
    expected = np.linalg.solve(whole, np.concatenate([-iterate.off, iterate.missing, wanted]))
    theta = signs.T**2 @ (iterate.price / iterate.slack)
    iterate.system.factorise(theta)
    newton = Newton(iterate, theta)
    move = iterate._toward(newton, wanted, 1.0, iterate._toward(newton, wanted, 1.0))
    assert move.a == pytest.approx(expected[:n], rel=1e-9, abs=1e-12)
    assert move.eta == pytest.approx(expected[n : n + k], rel=1e-9, abs=1e-12)
    assert move.price == pytest.approx(expected[n + k :], rel=1e-8, abs=1e-10)


def test_the_lectures_mu_and_step():
    H, f0, lo, hi, F, e = program(20, 1, 0)
    iterate = LectureIterate(DenseSystem(H, F), f0, lo, hi, F, e, 1.0)
    for _ in range(8):
        slack, price = iterate.slack, iterate.price
        assert iterate.step()
        # No step goes further than 0.95 of the way to the boundary, and one that could goes to its end.
        left = min((iterate.slack / slack).min(), (iterate.price / price).min())
        assert left >= 0.05 * (1 - 1e-9)
        assert iterate.length == 1.0 or left == pytest.approx(0.05)


# -- linear algebra ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 5, 300, 1100])
@pytest.mark.parametrize("threads", [1, 3])
def test_tiled_cholesky_equals_numpy(n, threads):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n))
    M = A @ A.T + n * np.eye(n)
    L = M.copy()
    L[np.triu_indices(n, 1)] = np.nan  # never read
    assert cholesky.factorise(L, threads)
    assert np.allclose(np.tril(L), np.linalg.cholesky(M), rtol=1e-10, atol=1e-10)
    right = rng.normal(size=(n, 2))
    assert np.allclose(M @ cholesky.solve(L, right), right, atol=1e-9)


@pytest.mark.parametrize("n", [5, 1100])
def test_tiled_cholesky_says_what_is_not_definite(n):
    M = np.eye(n)
    M[n - 2, n - 2] = -1.0
    assert not cholesky.factorise(M, 2)


def woodbury(A, d, right):
    """The textbook formula."""
    inner = np.eye(A.shape[1]) + A.T @ (A / d[:, None])
    return right / d - A @ np.linalg.solve(inner, A.T @ (right / d)) / d


@pytest.mark.parametrize("form", ["dense", "csr", "thin csr", "float32"])
@pytest.mark.parametrize("columns", [0, 2])
def test_factored_solution_is_stable_where_woodburys_is_not(form, columns):
    """Twenty free points with a diagonal that vanishes, as at the end of a run; the residual tells."""
    rng = np.random.default_rng(1)
    n, r = 5000, 150 if form == "thin csr" else 25
    A = rng.normal(size=(n, r))
    if form.endswith("csr"):
        A = np.where(rng.uniform(size=(n, r)) < (0.04 if form == "thin csr" else 0.5), A, 0.0)
    A = A.astype(np.float32) if form == "float32" else A
    G = rng.normal(size=(n, columns))
    d = 10.0 ** rng.uniform(0, 10, size=n)
    free = rng.choice(n, 20, replace=False)
    d[free] = 1e-13
    kernel = FactoredKernel(sp.csr_matrix(A) if form.endswith("csr") else A, np.arange(n), 2)
    kernel.factorise(d, G)
    right = np.zeros(n)
    right[free] = rng.normal(size=20)
    B = np.hstack([A.astype(np.float64), G])

    def residual(x):
        return np.abs(B @ (B.T @ x) + d * x - right).max()

    stable = kernel.solve(right)
    assert residual(stable) < 1e-10
    assert residual(woodbury(B, d, right)) > 1e3 * residual(stable)
    assert kernel.thin == (form == "thin csr")
    assert np.allclose(kernel.product(stable), B[:, :r] @ (B[:, :r].T @ stable), atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_factored_kernel_takes_chosen_rows(form):
    rng = np.random.default_rng(2)
    A, rows = rng.normal(size=(50, 4)), np.array([3, 7, 8, 20, 44])
    kernel = FactoredKernel(form(A), rows, 1)
    K = A[rows] @ A[rows].T
    b = rng.normal(size=5)
    assert kernel.product(b) == pytest.approx(K @ b)
    kernel.factorise(np.ones(5), np.zeros((5, 0)))
    assert kernel.solve(b) == pytest.approx(np.linalg.solve(K + np.eye(5), b))


@pytest.mark.parametrize("held", [False, True])
def test_points_with_several_variables_or_none(held):
    """The reduction to points against the full matrix over variables."""
    rng = np.random.default_rng(3)
    A = rng.normal(size=(6, 6))
    K = A @ A.T
    at = np.array([0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5])
    at = at[[0, 1, 3, 4, 6, 8, 9]] if held else at
    n = at.size
    sign, ridge, theta = np.where(np.arange(n) % 2 == 0, 1.0, -1.0), rng.uniform(size=n), rng.uniform(size=n)
    # The first column acts on the coefficients, the second does not.
    F = np.column_stack([sign * rng.normal(size=6)[at], rng.normal(size=n)])
    system = PointSystem(DenseKernel(Plain(K), np.arange(6), 1), at, sign, ridge, F)
    H = sign[:, None] * K[np.ix_(at, at)] * sign + np.diag(ridge)
    x = rng.normal(size=n)
    assert system.product(x) == pytest.approx(H @ x)
    assert system.rho[0] > 0.0
    assert system.rho[1] == 0.0
    system.factorise(theta)
    expected = np.linalg.solve(H + np.diag(theta) + (F * system.rho) @ F.T, F)
    assert system.solve(F) == pytest.approx(expected, abs=1e-10)


# -- the solver --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ipm.VARIANTS)
@pytest.mark.parametrize("functions", [0, 2])
@pytest.mark.parametrize("row", ROWS)
def test_ten_digits_on_a_factor(row, functions, variant):
    p = problem(row, "factored", n=200, functions=functions)
    result = solve(p, "ipm", gap_tol=1e-10, variant=variant)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-10
    assert result.certificate.infeasibility < 1e-12
    assert result.iterations < 60
    assert result.kernel_evaluations == 0  # nothing but products with the factor


def test_a_factor_gives_the_answer_of_the_matrix():
    rng = np.random.default_rng(4)
    A = rng.normal(size=(400, 12))
    y = np.where(A[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0)
    thin = sp.csr_matrix(np.where(rng.uniform(size=A.shape) < 0.3, A, 0.0))
    for factor in (A, A.astype(np.float32), thin):
        p = build("c_svc", factored_gram(factor), y, C=5.0)
        dense = factor.toarray() if sp.issparse(factor) else factor.astype(np.float64)
        whole = build("c_svc", make_gram(dense @ dense.T, Kernel("precomputed")), y, C=5.0)
        ours, theirs = solve(p, "ipm", gap_tol=1e-10), solve(whole, "ipm", gap_tol=1e-10)
        assert ours.certificate.dual == pytest.approx(theirs.certificate.dual, rel=1e-9)
        assert ours.kernel_evaluations == 0
        assert theirs.kernel_evaluations == 400 * 400


def test_a_stored_linear_kernel_is_seen_as_a_factor():
    X, y, _ = data(300)
    gram = make_gram(X, Kernel("linear"), kind="full")
    assert gram.factor is not None
    assert solve(build("c_svc", gram, y), "ipm", gap_tol=1e-10).kernel_evaluations == 0


def test_more_than_5000_points():
    rng = np.random.default_rng(5)
    A = rng.normal(size=(6000, 8))
    y = np.where(A[:, 0] + 0.5 * rng.normal(size=6000) > 0, 1.0, -1.0)
    result = solve(build("c_svc", factored_gram(A), y, C=10.0), "ipm", gap_tol=1e-10)
    assert result.status is Status.CONVERGED
    refused = build("c_svc", make_gram(A, Kernel("rbf", gamma=0.1), kind="cached"), y)
    with pytest.raises(dualgap.UnsupportedProblemError, match="6000 points, and the kernel has no factor"):
        solve(refused, "ipm")
    wide = build("c_svc", factored_gram(sp.csr_matrix((6000, 5001))), y)
    assert "rank 5001" in ipm.supports(wide)


@pytest.mark.parametrize("shape", ["plain", "no bias"])
@pytest.mark.parametrize("row", ROWS)
def test_the_lectures_rules_reach_the_same_optimum(row, shape):
    if shape == "no bias" and not has_model_without_bias(row):
        return
    p = problem(row, bias=shape == "plain")
    lecture, ours = (solve(p, "ipm", gap_tol=1e-9, variant=v) for v in ("paper", "improved"))
    assert lecture.status is Status.CONVERGED
    assert lecture.certificate.dual == pytest.approx(ours.certificate.dual, rel=2e-9)
    assert lecture.iterations >= ours.iterations
    assert solve(p, "ipm", tol=1e-6, variant="paper").certificate.kkt_violation <= 1e-6 * (1 + 1e-8)


def test_unknown_variant():
    with pytest.raises(ValueError, match="variant must be one of improved, paper; got 'new'"):
        solve(problem("c_svc"), "ipm", variant="new")


def test_duplicates_of_every_point():
    """Half of the curvature is missing, and optima form a face."""
    X, y, _ = data(150)
    for factor in (np.vstack([X, X]), np.vstack([X, X, X])[:, :2]):
        labels = np.tile(y, factor.shape[0] // y.size)
        for C in (0.1, 100.0):
            result = solve(build("c_svc", factored_gram(factor), labels, C=C), "ipm", gap_tol=1e-10)
            assert result.status is Status.CONVERGED


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scale_of_kernel_and_target_does_not_matter(scale):
    X, y, t = data(120)
    K = make_gram(X, Kernel("rbf", gamma=0.3)).matrix
    for row, target in (("c_svc", y), ("eps_svr", scale * t), ("one_class", None), ("nu_svr", scale * t)):
        p = build(row, make_gram(scale * K, Kernel("precomputed")), target, C=2.0, nu=0.4, epsilon=0.1 * scale)
        # At 1e6 float64 leaves c_svc a gap of 1e-9: slopes of order one are differences of terms of that size.
        result = solve(p, "ipm", gap_tol=1e-8)
        assert result.status is Status.CONVERGED
        assert result.iterations < 30


def sums(F, e, hi=1.0, kind="full"):
    """A program over 60 points with constraints of its own."""
    X, _, _ = data(60)
    gram = factored_gram(X) if kind == "factored" else make_gram(X, Kernel("rbf", gamma=0.3))
    return DualQP(gram, np.arange(60), np.ones(60), 0.0, -1.0, 0.0, hi, F, e)


ONES, RAMP = np.ones(60), np.arange(60.0)


@pytest.mark.parametrize("kind", ["full", "factored"])
@pytest.mark.parametrize("variant", ipm.VARIANTS)
@pytest.mark.parametrize(
    ("F", "e"),
    [(ONES, [61.0]), (ONES, [-1.0]), (np.column_stack([ONES, RAMP]), [30.0, 1400.0])],
    ids=["much", "little", "coupled"],
)
def test_infeasible_problems_are_named(F, e, variant, kind):
    with pytest.raises(InfeasibleProblemError, match="cannot be met within the box"):
        solve(sums(F, e, kind=kind), "ipm", variant=variant)


def test_too_large_a_nu_is_named():
    with pytest.raises(ValueError, match="nu"):
        solve(problem("nu_svc", nu=0.99), "ipm")
    with pytest.raises(InfeasibleProblemError, match="cannot be met"):
        solve(problem("nu_svc", functions=2, nu=0.8), "ipm")


@pytest.mark.parametrize("variant", ipm.VARIANTS)
@pytest.mark.parametrize(
    ("F", "e"),
    [(ONES, [60.0]), (ONES, [0.0]), (np.column_stack([ONES, RAMP]), [60.0, RAMP.sum()])],
    ids=["top", "bottom", "two"],
)
def test_a_corner_of_the_box_is_a_solution_too(F, e, variant):
    result = solve(sums(F, e), "ipm", gap_tol=1e-8, variant=variant, warn=False)
    assert np.all(result.a == (1.0 if e[0] else 0.0))
    assert result.certificate.infeasibility < 1e-12


def test_the_largest_nu():
    _, y, _ = data(60)
    largest = 2.0 * min(np.sum(y > 0), np.sum(y < 0)) / 60
    result = solve(problem("nu_svc", nu=largest), "ipm", gap_tol=1e-9)
    assert result.status is Status.CONVERGED
    rare = 1.0 if np.sum(y > 0) < 30 else -1.0
    assert np.all(result.a[y == rare] == 1.0)


def test_fixed_variables_stay():
    X, y, _ = data(80)
    for gram in (make_gram(X, Kernel("rbf", gamma=0.3)), factored_gram(X)):
        lo, hi = np.zeros(80), np.full(80, 2.0)
        lo[:8], hi[:8] = 0.5, 0.5
        p = DualQP(gram, np.arange(80), y, 0.0, -1.0, lo, hi, y, 0.0)
        result = solve(p, "ipm", gap_tol=1e-10)
        assert result.status is Status.CONVERGED
        assert np.all(result.a[:8] == 0.5)
        assert result.certificate.dual == pytest.approx(-clarabel_solution(p)[2], rel=1e-9)


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("kind", ["full", "factored"])
@pytest.mark.parametrize("functions", [0, 2])
def test_limits_leave_a_feasible_point(limit, kind, functions):
    p = problem("eps_svr", kind, functions=functions)
    result = solve(p, "ipm", gap_tol=1e-10, max_iter=limit, warn=False)
    assert result.status is Status.MAX_ITER
    assert result.iterations == limit
    assert infeasibility(p, result.a) < 1e-9
    stopped = solve(p, "ipm", gap_tol=1e-10, callback=lambda event: event.iteration == limit)
    assert stopped.status is Status.STOPPED
    assert infeasibility(p, stopped.a) < 1e-9


def test_an_optimum_of_zero_ends_the_run():
    """Two classes on the same points: the margin of nu-SVC is 0, and no relative gap is ever small."""
    X, _, _ = data(40)
    y = np.tile([1.0, -1.0], 40)
    p = build("nu_svc", make_gram(np.repeat(X, 2, axis=0), Kernel("rbf", gamma=0.3)), y, nu=0.5)
    result = solve(p, "ipm", gap_tol=1e-10, warn=False)
    assert result.certificate.gap < 1e-10
    assert result.iterations < 2000


# -- real data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "C", "sigma"),
    [("ratsch-heart", 3.162, 120.0), ("ratsch-diabetis", 1.0, 20.0), ("ratsch-german", 3.162, 55.0)],
)
@pytest.mark.parametrize("variant", ipm.VARIANTS)
def test_ten_digits_on_raetschs_sets(data_folder, name, C, sigma, variant):
    read = load(find(name))
    p = build("c_svc", make_gram(read.X.toarray(), Kernel("rbf", gamma=1.0 / sigma)), read.y, C=C)
    result = solve(p, "ipm", gap_tol=1e-10, variant=variant)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-10
    assert result.iterations < 25


def test_ten_digits_on_a_digit_of_usps(data_folder):
    read = load(find("usps"))
    X, digits = read.X.toarray()[:1000], read.y[:1000]
    for gamma in (1.0 / 256.0, 0.01):
        p = build("c_svc", make_gram(X, Kernel("rbf", gamma=gamma)), np.where(digits == digits[0], 1.0, -1.0), C=10.0)
        result = solve(p, "ipm", gap_tol=1e-10)
        assert result.status is Status.CONVERGED
        assert result.certificate.relative_gap <= 1e-10
        assert result.iterations < 25
        # Variables that are not needed are exactly zero.
        pairs = solve(p, "smo", gap_tol=1e-8)
        assert np.count_nonzero(result.a) <= 1.05 * np.count_nonzero(pairs.a)


def test_a_degenerate_optimum(data_folder):
    """Regression on labels: most points end exactly on the tube's edge, where slack and price both vanish."""
    read = load(find("a9a"))
    for C in (0.01, 1.0):
        p = build("eps_svr", make_gram(read.X[:2000], Kernel("linear"), kind="cached"), read.y[:2000], C=C)
        assert solve(p, "ipm", gap_tol=1e-9).status is Status.CONVERGED


@pytest.mark.filterwarnings("ignore:Liblinear failed to converge")  # it comes close enough to be compared with
def test_ten_digits_on_a_sparse_linear_kernel(data_folder):
    read = load(find("a9a"))
    X, y = read.X[:8000], read.y[:8000]
    p = build("c_svc", make_gram(X, Kernel("linear"), kind="cached"), y, C=1.0, bias=False)
    result = solve(p, "ipm", gap_tol=1e-10)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-10
    theirs = LinearSVC(loss="hinge", fit_intercept=False, tol=1e-2).fit(X, y).coef_[0]
    primal = 0.5 * theirs @ theirs + np.maximum(0.0, 1.0 - y * (X @ theirs)).sum()
    assert result.certificate.primal <= primal * (1 + 1e-10)
    assert result.certificate.primal == pytest.approx(primal, rel=1e-3)
