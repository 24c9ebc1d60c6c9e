"""What is particular to the block solver: its vector loops, its selection, its nested levels and its limits."""

import sys
from pathlib import Path

import numba as nb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer

import dualgap
from dualgap import Kernel, Status, build, make_gram, multipliers, solve
from dualgap.bench.semiparametric import experiment
from dualgap.certificate import exact_gradient, judge
from dualgap.constraints import InfeasibleProblemError, feasible_start, infeasibility
from dualgap.datasets import find, load
from dualgap.problem import DualQP
from dualgap.run import choose
from dualgap.solvers import block
from dualgap.solvers._block_select import gap_terms, select, thresholds
from dualgap.solvers._block_vector import GROWS, SHRINKS, STRIDE, move, partner

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution, dense_hessian
from problems import FORMULATIONS, ROWS, data, gram, problem

HUGE = 1e30

# -- vector loops ------------------------------------------------------------------------------------------------


@nb.njit
def move_all(slope, K, i, L, j, step, ways, start, count, values, places):
    move(slope, K, i, L, j, step, ways, start, count, values, places)


@nb.njit
def best_partner(slope, K, i, diagonal, own, ways, threshold, start, count):
    return partner(slope, K, i, diagonal, own, ways, threshold, start, count)


def vectors(rng, n, dtype):
    """Slopes with many equal numbers, and about half of the ways open."""
    slope = rng.integers(-4, 5, size=n).astype(dtype)
    ways = rng.integers(0, 4, size=n).astype(np.uint8)
    ways[rng.integers(n)] |= GROWS
    ways[rng.integers(n)] |= SHRINKS
    return slope, ways


def every_way(n):
    return np.full(n, GROWS | SHRINKS, dtype=np.uint8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_move_equals_numpy(dtype):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, count = 5 * STRIDE, int(rng.integers(1, 4)) * STRIDE
        start = int(rng.integers(0, 3)) * STRIDE
        K = rng.integers(-3, 4, size=(4, n)).astype(dtype)
        slope, ways = vectors(rng, n, dtype)
        i, j = rng.integers(4, size=2)
        step = dtype(rng.integers(-2, 3))
        expected = slope.copy()
        part = slice(start, start + count)
        expected[part] += step * (K[i] - K[j])[part]
        values, places = np.empty(2, dtype=dtype), np.empty(2, dtype=np.int64)
        ways[part][0] |= GROWS
        ways[part][-1] |= SHRINKS
        move_all(slope, K.ravel(), i * n, K.ravel(), j * n, step, ways, start, count, values, places)
        assert np.array_equal(slope, expected)  # whole numbers: nothing rounds
        grow = np.where(ways & GROWS, expected, HUGE)[part]
        shrink = np.where(ways & SHRINKS, expected, -HUGE)[part]
        assert list(values) == [grow.min(), shrink.max()]
        assert list(places) == [start + grow.argmin(), start + shrink.argmax()]  # the first of equal ones


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_of_equal_extremes_is_found_wherever_it_lies(dtype):
    n = 4 * STRIDE
    K, ways = np.zeros((1, n), dtype=dtype), every_way(n)
    for first in (0, 1, 15, 16, STRIDE - 1, STRIDE, 2 * STRIDE + 17, n - 1):
        slope = np.zeros(n, dtype=dtype)
        slope[first:] = 1.0
        values, places = np.empty(2, dtype=dtype), np.empty(2, dtype=np.int64)
        move_all(slope, K.ravel(), 0, K.ravel(), 0, dtype(0.0), ways, 0, n, values, places)
        assert (values[1], places[1]) == (1.0, first)
        move_all(-slope, K.ravel(), 0, K.ravel(), 0, dtype(0.0), ways, 0, n, values, places)
        assert (values[0], places[0]) == (-1.0, first)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_variables_have_no_extremes_and_undefined_ones_a_place_all_the_same(dtype):
    n = 2 * STRIDE
    K, ways, slope = np.zeros((1, n), dtype=dtype), every_way(n), np.ones(n, dtype=dtype)
    values, places = np.empty(2, dtype=dtype), np.full(2, -1)
    move_all(slope, K.ravel(), 0, K.ravel(), 0, dtype(1.0), ways, n, 0, values, places)
    assert values[0] > HUGE
    assert values[1] < -HUGE
    assert list(places) == [n, n]
    slope[STRIDE:] = np.nan
    move_all(slope, K.ravel(), 0, K.ravel(), 0, dtype(1.0), ways, STRIDE, STRIDE, values, places)
    assert list(places) == [STRIDE, STRIDE]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_partner_is_as_good_as_the_best_to_the_reciprocals_accuracy(dtype):
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, count, start = 4 * STRIDE, 2 * STRIDE, STRIDE
        A = rng.normal(size=(n, 6)) * 10.0 ** rng.uniform(-3, 3)
        K = (A @ A.T).astype(dtype)
        diagonal = np.diag(K).copy()
        slope, ways = rng.normal(size=n).astype(dtype), vectors(rng, n, dtype)[1]
        part = slice(start, start + count)
        ways[part][np.argmax(slope[part])] |= SHRINKS
        i = int(rng.integers(start, start + count))
        m = slope[part].min()
        found = best_partner(slope, K.ravel(), i * n, diagonal, diagonal[i], ways, m, start, count)
        ends = diagonal[i].astype(np.float64) + diagonal
        curvature = np.maximum(ends - 2.0 * K[i], 1e-6 * ends)
        gain = np.where(ways & SHRINKS, np.maximum(slope - m, 0.0).astype(np.float64) ** 2 / curvature, -1.0)
        assert start <= found < start + count
        assert ways[found] & SHRINKS
        assert gain[found] >= 0.96 * gain[part].max()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_of_equal_partners_the_first_is_taken_and_barred_ones_never(dtype):
    n = 3 * STRIDE
    K, diagonal, slope = np.eye(n, dtype=dtype), np.ones(n, dtype=dtype), np.ones(n, dtype=dtype)
    for first in (1, 17, STRIDE, 2 * STRIDE + 5, n - 1):
        ways = np.full(n, GROWS, dtype=np.uint8)
        ways[first:] |= SHRINKS
        assert best_partner(slope, K.ravel(), 0, diagonal, diagonal[0], ways, dtype(0.0), 0, n) == first
        assert best_partner(slope, K.ravel(), 0, dtype(1.0), diagonal[0], ways, dtype(0.0), 0, n) == first


# -- thresholds and selection ------------------------------------------------------------------------------------


@st.composite
def states(draw):
    """Slopes, a point in a box with many variables at its bounds, and groups (some empty, some variables in none)."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, n_groups = draw(st.integers(1, 300)), draw(st.integers(0, 6))
    lo = -rng.uniform(0, 2, size=n)
    hi = lo + rng.uniform(0, 3, size=n) * (rng.uniform(size=n) < 0.95)
    where = rng.integers(3, size=n)
    u = np.where(where == 0, lo, np.where(where == 1, hi, 0.5 * (lo + hi)))
    gradient = rng.normal(size=n) * 10.0 ** rng.uniform(-6, 2, size=n) if draw(st.booleans()) else rng.normal(size=n)
    return gradient, u, lo, hi, rng.integers(-1, n_groups, size=n) if n_groups else np.full(n, -1), n_groups


@given(states())
def test_thresholds_equal_numpy(state):
    gradient, u, lo, hi, group, n_groups = state
    least, most, worst = thresholds(gradient, u, lo, hi, group, n_groups)
    alone = group < 0
    violations = [0.0, *-gradient[alone & (u < hi)], *gradient[alone & (u > lo)]]
    assert least[0] == most[0] == 0.0
    for g in range(n_groups):
        grow, shrink = gradient[(group == g) & (u < hi)], gradient[(group == g) & (u > lo)]
        if grow.size and shrink.size:
            assert (least[g + 1], most[g + 1]) == (grow.min(), shrink.max())
            violations.append(shrink.max() - grow.min())
        else:  # one threshold, and it is met
            assert least[g + 1] == most[g + 1] == (grow.min() if grow.size else shrink.max() if shrink.size else 0.0)
    assert worst == max(violations)


@given(states(), st.integers(2, 80), st.integers(0, 40))
def test_selected_are_few_different_and_the_worst(state, want, n_kept):
    gradient, u, lo, hi, group, n_groups = state
    low, high, _ = thresholds(gradient, u, lo, hi, group, n_groups)
    middle = 0.5 * (low + high)
    kept = np.random.default_rng(1).permutation(u.size)[: min(n_kept, want // 2)]
    chosen, mask = np.full(want, -1), np.zeros(u.size, dtype=np.uint8)
    count = select(gradient, u, lo, hi, group, middle, kept, want, chosen, mask)
    chosen = chosen[:count]
    assert count <= want
    assert np.array_equal(chosen[: kept.size], kept)
    assert np.unique(chosen).size == count
    assert not mask.any()
    slope = gradient - middle[group + 1]
    sides = [
        (group == g) & way for g in range(-1, n_groups) for way in ((slope < 0) & (u < hi), (slope > 0) & (u > lo))
    ]
    violators = np.any(sides, axis=0)
    new = np.setdiff1d(chosen, kept)
    assert np.all(violators[new])
    waiting = [np.setdiff1d(np.flatnonzero(side), kept) for side in sides]
    assert new.size == min(want - kept.size, sum(w.size for w in waiting))  # no room is left unused
    if want - kept.size >= len(sides):
        for members in waiting:
            taken = np.intersect1d(members, new)
            assert taken.size or not members.size
            if taken.size:
                # The histogram's resolution: any of the highest bin of 512.
                assert np.abs(slope[taken]).max() >= (511 / 512) ** 2 * np.abs(slope[members]).max()
                left = np.setdiff1d(members, taken)
                if left.size:
                    bin_width = (np.sqrt(np.abs(slope[taken]).min()) + np.sqrt(np.abs(slope[members]).max()) / 512) ** 2
                    assert np.abs(slope[left]).max() <= bin_width * (1 + 1e-12)


def test_the_worst_pair_is_selected_however_many_groups_there_are():
    """With more groups than room the pair that violates most must not be left out: nothing else would ever move."""
    n_groups, rng = 20, np.random.default_rng(0)
    group = np.arange(40) % n_groups
    gradient = np.where(np.arange(40) < 20, -1.0, 1.0) * rng.uniform(0.1, 0.2, size=40)
    gradient[[15, 35]] = -5.0, 5.0
    u, lo, hi = np.zeros(40), -np.ones(40), np.ones(40)
    low, high, _ = thresholds(gradient, u, lo, hi, group, n_groups)
    chosen = np.full(16, -1)
    kept = np.arange(8)
    count = select(gradient, u, lo, hi, group, 0.5 * (low + high), kept, 16, chosen, np.zeros(40, dtype=np.uint8))
    assert {15, 35} <= set(chosen[:count].tolist())


@pytest.mark.parametrize("row", ROWS)
def test_gap_terms_equal_the_certificates_gap(row):
    """At the certificate's own multipliers, in variables whose groups are plain sums."""
    p = problem(row, n=40)
    a = solve(p, "smo", tol=0.3, warn=False).a
    gradient = exact_gradient(p, a)
    certificate, eta = judge(p, a, gradient)
    run = block._Run(p, block.Options(), lambda snapshot: False, a)
    theta = p.groups.directions @ eta
    middle = np.zeros(run.n_groups + 1)
    for g in range(run.n_groups):
        first = np.flatnonzero(p.groups.group == g)[0]
        middle[g + 1] = -theta[g] * p.groups.scale[first] / run.scale[first]
    gap = gap_terms(run.gradient, run.u, run.lo, run.hi, run.ridge, run.group, middle)
    assert certificate.gap > 0.0
    assert gap == pytest.approx(certificate.gap, rel=1e-9)


@given(st.integers(0, 10**6), st.booleans())
def test_multipliers_of_many_variables_are_those_of_sorting_all(seed, ordered):
    """The threshold is selected by partition; all kinks in order say where it must be."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9000))
    y = np.where(rng.uniform(size=n) < rng.uniform(0.01, 0.99), 1.0, -1.0)
    slope = rng.normal(size=n) * 10.0 ** rng.uniform(-3, 3)
    if ordered:
        slope, y = np.round(np.sort(slope), 1), np.sort(y)
    p = DualQP(
        gram=dualgap.kernels.gram.FullGram(np.eye(1)), index=np.zeros(n, dtype=int), sign=y, ridge=0.0, f0=-1.0, lo=0.0,
        hi=rng.choice([0.5, 1.0, 30.0], size=n), F=y, e=np.zeros(1),
    )  # fmt: skip
    found = multipliers.best_multipliers(p, slope)
    order = np.argsort(-slope * y, kind="stable")
    kinks = (-slope * y)[order]
    derivative = np.cumsum(p.hi[order]) - p.hi[y > 0.0].sum()
    rounding = 1e-13 * p.hi.sum()
    first = min(np.searchsorted(derivative, -rounding), n - 1)
    last = min(np.searchsorted(derivative, rounding, side="right"), n - 1)
    assert found == pytest.approx(0.5 * (kinks[first] + kinks[last]), rel=1e-12, abs=1e-12)


# -- solutions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("functions", [0, 2], ids=["plain", "semi-parametric"])
@pytest.mark.parametrize("row", ROWS)
def test_same_optimum_as_clarabel(row, functions):
    p = problem(row, n=150 // FORMULATIONS[row].copies, functions=functions)
    _, _, optimum, status = clarabel_solution(p)
    assert status == "Solved"
    check_optimum(solve(p, "block", gap_tol=1e-8, block_size=32), optimum)


@pytest.mark.parametrize("row", ROWS)
def test_same_optimum_from_nested_levels(row):
    """Blocks of 64 in active sets of some hundreds of 600 variables; Clarabel would take five seconds for each."""
    p = problem(row, n=600 // FORMULATIONS[row].copies)
    optimum = -solve(p, "smo", gap_tol=1e-9).certificate.dual
    check_optimum(solve(p, "block", gap_tol=1e-8, block_size=64), optimum)


@pytest.mark.parametrize("row", ROWS)
def test_coupled_constraints_at_nested_levels(row):
    p = problem(row, n=600 // FORMULATIONS[row].copies, functions=2)
    result = solve(p, "block", gap_tol=1e-8, block_size=64)
    check_optimum(result, 0.5 * result.a @ dense_hessian(p) @ result.a + p.f0 @ result.a)


@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_the_semi_parametric_experiment(C):
    """Narrow boxes and many free variables, which first-order steps on the multipliers do not manage."""
    p = experiment(120, C)
    _, _, optimum, status = clarabel_solution(p)
    assert status == "Solved"
    check_optimum(solve(p, "block", gap_tol=1e-8), optimum)


def test_repeated_constraints():
    """The bias twice over, and a function that is the sum of two others."""
    X, y, _ = data(50)
    phi = np.column_stack([np.ones(50), X[:, 0], X[:, 1], X[:, 0] + X[:, 1]])
    plain = build("c_svc", gram("full", X), y, parametric=X[:, :2])
    _, _, optimum, status = clarabel_solution(plain)
    assert status == "Solved"
    check_optimum(solve(build("c_svc", gram("full", X), y, parametric=phi), "block", gap_tol=1e-8), optimum)


def check_optimum(result, optimum):
    assert result.status is Status.CONVERGED
    assert 0.0 <= result.certificate.relative_gap <= 1e-8
    assert result.certificate.infeasibility < 1e-12
    assert result.certificate.dual == pytest.approx(-optimum, rel=1e-8)
    assert result.certificate.primal == pytest.approx(-optimum, rel=1e-8 + 1e-9)


@pytest.mark.parametrize("row", [row for row in ROWS if FORMULATIONS[row].task != "outlier"])
def test_without_bias_variables_move_alone(row):
    p = problem(row, n=200, bias=False)
    result = solve(p, "block", gap_tol=1e-8, block_size=64)
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(solve(p, "ipm", gap_tol=1e-9).certificate.dual, rel=1e-8)


@pytest.mark.parametrize("row", ROWS)
def test_float32_entries_are_no_limit_to_the_gap(row, monkeypatch):
    """Not even with double precision out of reach."""
    monkeypatch.setattr(block, "sharper", lambda options: None)
    result = solve(problem(row, n=300), "block", gap_tol=1e-10, block_size=64)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-10


@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "nu_svr"])
def test_double_precision_from_the_start(row):
    result = solve(problem(row, n=300), "block", gap_tol=1e-11, block_size=64, precision="double")
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-11


@pytest.mark.parametrize("size", [2, 3, 5, 8, 63, 1000])
@pytest.mark.parametrize("row", ["c_svc", "nu_svc", "squared_eps_svr", "one_class"])
def test_blocks_of_any_size(row, size):
    p = problem(row, n=80)
    result = solve(p, "block", gap_tol=1e-5, block_size=size)
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(solve(p, "smo", gap_tol=1e-7).certificate.dual, rel=2e-5)


def test_many_groups():
    """One constraint for every ten variables, more groups than a block has room for."""
    rng = np.random.default_rng(0)
    n, n_groups = 300, 30
    X = rng.normal(size=(n, 3))
    F = np.zeros((n, n_groups))
    F[np.arange(n), np.arange(n) % n_groups] = 1.0
    p = DualQP(
        gram=make_gram(X, Kernel("rbf", gamma=0.5)), index=np.arange(n), sign=1.0, ridge=0.0, f0=rng.normal(size=n),
        lo=0.0, hi=1.0, F=F, e=np.full(n_groups, 2.5),
    )  # fmt: skip
    expected = solve(p, "smo", gap_tol=1e-9).certificate.dual
    for size in (2048, 32):
        result = solve(p, "block", gap_tol=1e-7, block_size=size)
        assert result.status is Status.CONVERGED
        assert result.certificate.dual == pytest.approx(expected, rel=1e-6)


def test_few_violators_that_a_random_part_misses():
    """Two targets outside a wide tube: the random first active set holds nothing that could move."""
    rng = np.random.default_rng(0)
    n = 1500
    X, t = rng.normal(size=(n, 3)), 0.01 * rng.normal(size=n)
    t[[17, 1011]] = 1.0, -1.0
    p = build("eps_svr", make_gram(X, Kernel("rbf", gamma=0.5)), t, C=1.0, epsilon=0.2)
    result = solve(p, "block", gap_tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-6
    assert np.count_nonzero(result.a) >= 2


def test_large_c_on_a_separable_toy():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(300, 2)) + 4.0 * y[:, None]
    for kernel in (Kernel("linear"), Kernel("rbf", gamma=0.1)):
        p = build("c_svc", make_gram(X, kernel), y, C=1e6)
        result = solve(p, "block", gap_tol=1e-7)
        assert result.status is Status.CONVERGED
        expected = solve(p, "smo", gap_tol=1e-7, warn=False).certificate.dual  # stalls at 1e-6
        assert result.certificate.dual == pytest.approx(expected, rel=1e-5)
        assert result.a.max() < 1e6


def test_two_equal_points_of_different_labels():
    p = build("c_svc", make_gram(np.ones((2, 1)), Kernel("linear")), np.array([1.0, -1.0]), C=3.0)
    result = solve(p, "block", gap_tol=1e-12)
    assert result.a == pytest.approx([3.0, 3.0])
    assert result.certificate.primal == pytest.approx(6.0)


def test_one_variable():
    p = build("one_class", make_gram(np.ones((1, 2)), Kernel("rbf")), nu=0.5)
    result = solve(p, "block", gap_tol=1e-9)
    assert result.status is Status.CONVERGED
    assert result.a == pytest.approx([0.5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unscaled_linear_data_converge_through_double_precision(dtype):
    """Entries up to 2e7 and a curvature of 1: float32 has no digits left for it."""
    X, y = load_breast_cancer(return_X_y=True)
    p = build("c_svc", make_gram(X.astype(dtype), Kernel("linear")), np.where(y == 1, 1.0, -1.0), C=1.0)
    result = solve(p, "block", gap_tol=1e-3)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-3


@pytest.mark.parametrize("features", [3, 120], ids=["cheap entries", "dear entries"])
@pytest.mark.parametrize("row", ["c_svc", "eps_svr"])
def test_a_budget_of_one_megabyte_is_enough(row, features):
    X, y, t = data(1200, d=features)
    target = y if row == "c_svc" else t
    expected = solve(build(row, make_gram(X, Kernel("rbf", gamma=0.5 / features)), target), "block", gap_tol=1e-6)
    gram = make_gram(X, Kernel("rbf", gamma=0.5 / features), cache_size=1.0)
    result = solve(build(row, gram, target), "block", gap_tol=1e-6, block_size=200)
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(expected.certificate.dual, rel=1e-6)
    model = dualgap.SVC(cache_size=1, solver="block") if row == "c_svc" else dualgap.SVR(cache_size=1, solver="block")
    assert model.fit(X, target).status_ is Status.CONVERGED


def test_kept_rows_give_the_same_answer_for_two_variables_a_point():
    """Regression over dear entries: rows are kept, and every point is asked for twice."""
    X, _, t = data(700, d=120)
    gram = make_gram(X, Kernel("rbf", gamma=0.004))
    p = build("eps_svr", gram, t, C=5.0)
    result = solve(p, "block", gap_tol=1e-7, block_size=256)
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(solve(p, "smo", gap_tol=1e-8).certificate.dual, rel=1e-7)


@pytest.mark.parametrize("row", ["c_svc", "nu_svr"])
def test_reproducible_bit_for_bit_for_a_seed_and_any_number_of_threads(row, monkeypatch):
    monkeypatch.setattr(dualgap.kernels.fused_gram, "_WORTH_THREADS", 0)
    X, y, t = data(900, d=100)
    answers = []
    for n_jobs in (1, 1, 2, 3):
        gram = make_gram(X, Kernel("rbf", gamma=0.005), n_jobs=n_jobs)
        p = build(row, gram, y if row == "c_svc" else t, C=10.0, nu=0.4)
        answers.append(solve(p, "block", gap_tol=1e-6, block_size=256, seed=7))
    for other in answers[1:]:
        assert np.array_equal(other.a, answers[0].a)
        assert np.array_equal(other.eta, answers[0].eta)
        assert other.iterations == answers[0].iterations
        assert other.kernel_evaluations == answers[0].kernel_evaluations


def test_start_is_used():
    p = problem("eps_svr", n=300)
    first = solve(p, "block", gap_tol=1e-9)
    second = solve(p, "block", gap_tol=1e-8, start=first.a)
    assert second.iterations < 0.1 * first.iterations
    assert second.status is Status.CONVERGED


# -- limits ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("functions", [0, 2], ids=["plain", "semi-parametric"])
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("events", [1, 4])
def test_a_callback_stops_at_once_on_a_feasible_point(row, functions, events):
    seen = []

    def callback(event):
        seen.append(event)
        return len(seen) == events

    p = problem(row, n=400, functions=functions)
    result = solve(p, "block", gap_tol=1e-12, block_size=32, callback=callback)
    assert result.status is Status.STOPPED
    assert len(seen) == len(result.history) == events
    assert result.iterations == seen[-1].iteration
    assert infeasibility(p, result.a) < 1e-9
    assert result.certificate.primal >= result.certificate.dual


@pytest.mark.parametrize("most", [0, 1, 7, 500])
def test_no_more_steps_than_allowed(most):
    with pytest.warns(dualgap.NotCertifiedWarning, match="iteration limit"):
        result = solve(problem("c_svc", n=400), "block", gap_tol=1e-12, block_size=64, max_iter=most)
    assert result.status is Status.MAX_ITER
    assert result.iterations == most
    assert result.certificate.infeasibility < 1e-12


def test_the_time_limit_ends_a_run():
    X, y, _ = data(3000, seed=1)
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=5.0)), y, C=1e5)
    with pytest.warns(dualgap.NotCertifiedWarning, match="time limit"):
        result = solve(p, "block", gap_tol=1e-13, block_size=128, time_limit=0.05)
    assert result.status is Status.TIME_LIMIT
    assert result.certificate.infeasibility < 1e-12
    assert result.certificate.relative_gap > 1e-13


@pytest.mark.parametrize("at", [1, 3])
def test_an_interrupt_from_a_callback_propagates(at):
    seen = []

    def callback(event):
        seen.append(event)
        if len(seen) == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve(problem("c_svc", n=400), "block", gap_tol=1e-10, block_size=32, callback=callback)
    assert len(seen) == at
    assert solve(problem("c_svc"), "block", gap_tol=1e-8).status is Status.CONVERGED


@pytest.mark.parametrize("row", ["c_svc", "nu_svc", "squared_hinge", "eps_svr"])
@pytest.mark.parametrize("functions", [0, 2], ids=["plain", "semi-parametric"])
def test_a_stall_is_reported_and_never_silent(row, functions):
    result = solve(problem(row, n=120, functions=functions), "block", gap_tol=1e-17, warn=False)
    assert result.status in (Status.STALLED, Status.CONVERGED)
    assert (result.status is Status.CONVERGED) == (result.certificate.relative_gap <= 1e-17)
    assert result.certificate.relative_gap < 1e-10


def custom(F, e, n=40, seed=0):
    rng = np.random.default_rng(seed)
    gram = make_gram(rng.normal(size=(n, 3)), Kernel("rbf", gamma=0.5))
    f0 = rng.normal(size=n)
    return DualQP(gram=gram, index=np.arange(n), sign=1.0, ridge=0.0, f0=f0, lo=0.0, hi=1.0, F=F, e=np.asarray(e))


@pytest.mark.parametrize("goal", [{"gap_tol": 1e-6}, {"tol": 1e-3}], ids=["gap", "tol"])
def test_coupled_constraints_that_cannot_be_met_are_an_error(goal):
    """sum a = 10 and sum w a = 30, where w <= 2: 20 is the most."""
    w = np.random.default_rng(1).uniform(1, 2, size=40)
    p = custom(np.column_stack([np.ones(40), w]), [10.0, 30.0])
    assert p.groups is None
    with pytest.raises(InfeasibleProblemError, match="cannot be met within the box"):
        solve(p, "block", **goal)


def test_separate_constraints_that_cannot_be_met_are_an_error():
    with pytest.raises(InfeasibleProblemError, match="cannot be met within the box"):
        solve(custom(np.ones(40), [41.0]), "block")


def test_coupled_constraints_are_met_where_they_can_be():
    rng = np.random.default_rng(1)
    F = np.column_stack([np.ones(40), rng.uniform(1, 2, size=40), rng.normal(size=40)])
    p = custom(F, F.T @ rng.uniform(0.0, 1.0, size=40))
    assert infeasibility(p, feasible_start(p)) < 1e-9
    result = solve(p, "block", gap_tol=1e-8)
    assert result.status is Status.CONVERGED
    assert result.certificate.infeasibility < 1e-12
    assert result.certificate.dual == pytest.approx(solve(p, "ipm", gap_tol=1e-9).certificate.dual, rel=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 1}, "block_size must be at least 2 for solver 'block'; got 1"),
        ({"precision": "half"}, "precision must be 'single' or 'double' for solver 'block'; got 'half'"),
        ({"shrinking": True}, "Unknown option 'shrinking' for solver 'block'; it takes block_size"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        solve(problem("c_svc"), "block", **options)


def test_options_have_a_description_each():
    for name in block.Options.__dataclass_fields__:
        assert f"{name} :" in (block.Options.__doc__ or "")


def test_auto_takes_smo_for_few_variables_and_callables_and_block_otherwise():
    assert choose(problem("c_svc", n=256), "auto")[0] == "smo"
    assert choose(problem("c_svc", n=257), "auto")[0] == "block"
    assert choose(problem("eps_svr", n=128), "auto")[0] == "smo"
    assert choose(problem("eps_svr", n=129), "auto")[0] == "block"
    assert choose(problem("c_svc", n=60, functions=2), "auto")[0] == "mpd"  # coupled: not for smo
    X, y, _ = data(300)
    gram = make_gram(X, Kernel("callable", function=lambda X, Z: X @ Z.T), kind="cached")
    assert choose(build("c_svc", gram, y), "auto")[0] == "smo"
    assert dualgap.SVC().fit(X, y).solver_ == "block"
    assert dualgap.SVC().fit(X[:200], y[:200]).solver_ == "smo"


def test_ijcnn1_reaches_its_gap(data_folder):
    data = load(find("ijcnn1"))
    p = build("c_svc", make_gram(data.X[:5000], Kernel("rbf", gamma=2.0)), data.y[:5000], C=32.0)
    result = solve(p, "block", gap_tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-6
