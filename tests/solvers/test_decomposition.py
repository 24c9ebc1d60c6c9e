"""What is particular to decomposition: how working sets are chosen and solved, and that any of them converges."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dualgap
from dualgap import Kernel, build, make_gram, solve
from dualgap.solvers import decomposition
from dualgap.solvers._decomposition_rows import WorkingRows
from dualgap.solvers._decomposition_select import Chooser
from dualgap.solvers._violation import coupled_violation, grouped_violation
from dualgap.solvers._working_set import balanced, by_gradient, gap_shares

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution, dense_hessian
from problems import data, gram, problem

RECIPES = tuple(itertools.product(("improved", "paper"), ("gradient", "gap"), ("smo", "ipm")))


def violation_at(p, a):
    gradient = dense_hessian(p) @ a + p.f0
    groups = p.groups
    inverse = np.divide(1.0, groups.scale, out=np.zeros(p.n), where=groups.scale != 0.0)
    return grouped_violation(gradient, a, p.lo, p.hi, inverse, groups.group, groups.rhs.size), gradient


# -- it solves ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "selection", "inner"), RECIPES)
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "nu_svc", "eps_svr"])
def test_small_sets_reach_the_optimum_of_clarabel(row, variant, selection, inner):
    p = problem(row, n=40)
    result = solve(p, "decomposition", gap_tol=1e-7, variant=variant, selection=selection, inner=inner, working_set=12)
    *_, optimum, _ = clarabel_solution(p)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-optimum, rel=2e-7)
    assert result.certificate.infeasibility < 1e-13
    assert result.iterations > 1


@pytest.mark.parametrize("variant", ["improved", "paper"])
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "one_class", "nu_svr"])
def test_coupled_constraints_reach_the_optimum_of_clarabel(row, variant):
    p = problem(row, n=40, functions=2)
    assert p.groups is None
    result = solve(p, "decomposition", gap_tol=1e-6, variant=variant, working_set=20)
    *_, optimum, _ = clarabel_solution(p)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-optimum, rel=2e-6)
    assert result.certificate.infeasibility < 1e-13
    assert result.iterations > 1


@pytest.mark.parametrize("q", [2, 3, 7])
@pytest.mark.parametrize("row", ["c_svc", "nu_svr", "svdd"])
def test_tiny_sets_converge(row, q):
    result = solve(problem(row, n=30), "decomposition", tol=1e-4, working_set=q)
    assert result.status is dualgap.Status.CONVERGED


def test_with_two_variables_it_is_smo():
    p = problem("c_svc", n=120)
    ours = solve(p, "decomposition", tol=1e-3, working_set=2, shrinking=False)
    smo = solve(p, "smo", tol=1e-3, shrinking=False)
    assert ours.iterations == smo.iterations
    assert ours.a == pytest.approx(smo.a, abs=1e-12)


@given(
    seed=st.integers(0, 10_000),
    q=st.integers(2, 30),
    C=st.sampled_from([0.1, 1.0, 100.0]),
    variant=st.sampled_from(["improved", "paper"]),
    selection=st.sampled_from(["gradient", "gap"]),
)
def test_any_size_and_rule_agree_with_smo(seed, q, C, variant, selection):
    p = problem("c_svc", n=30, seed=seed, C=C)
    one = solve(p, "decomposition", gap_tol=1e-6, working_set=q, variant=variant, selection=selection)
    other = solve(p, "smo", gap_tol=1e-6)
    assert one.certificate.dual == pytest.approx(other.certificate.dual, rel=2e-6)


@pytest.mark.parametrize("inner", ["smo", "ipm"])
def test_duplicate_points_and_fixed_variables(inner):
    X, y, _ = data(40)
    X, y = np.vstack([X, X, X[:5]]), np.concatenate([y, y, -y[:5]])
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=0.3)), y, C=3.0)
    p = replace(p, hi=np.where(np.arange(p.n) % 7 == 0, 0.0, p.hi))
    result = solve(p, "decomposition", gap_tol=1e-7, inner=inner, working_set=10)
    assert result.status is dualgap.Status.CONVERGED
    assert np.all(result.a[::7] == 0.0)


def test_float32_rows_are_no_limit_to_the_gap():
    p = problem("c_svc", "float32", n=150, C=100.0)
    result = solve(p, "decomposition", gap_tol=1e-9, working_set=20)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-9


def test_indefinite_kernels_are_for_pairs_only():
    X, y, _ = data(60)
    p = build("c_svc", make_gram(X, Kernel("sigmoid", gamma=0.5, coef0=-1.0)), y)
    assert "indefinite" in decomposition.supports(p, decomposition.Options(inner="ipm"))
    result = solve(p, "decomposition", tol=1e-3, working_set=10)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.note


# -- how sets are chosen -----------------------------------------------------------------------------------------


@given(seed=st.integers(0, 10_000), q=st.sampled_from([2, 4, 6]), groups=st.integers(1, 2))
def test_gradient_rule_is_the_steepest_direction(seed, q, groups):
    """Against all directions with entries -1, 0, 1: no feasible one with q nonzeros is steeper (Joachims' rule)."""
    rng = np.random.default_rng(seed)
    n = 6
    group = rng.integers(0, groups, n)
    a = rng.choice([0.0, 0.5, 1.0], n)
    gradient = rng.normal(size=n)
    inverse = rng.choice([-1.0, 1.0], n)
    v = grouped_violation(gradient, a, np.zeros(n), np.ones(n), inverse, group, groups)
    chosen = by_gradient(v, group, q, np.ones(n, dtype=bool))
    assert np.unique(chosen).size == chosen.size <= q

    def best(members):
        slope = 0.0
        for moves in itertools.product((-1, 0, 1), repeat=len(members)):
            d = np.zeros(n)
            d[list(members)] = moves
            feasible = np.all((d <= 0) | (a < 1)) and np.all((d >= 0) | (a > 0))
            sums = np.bincount(group, weights=d / inverse, minlength=groups)
            if feasible and np.all(sums == 0.0):
                slope = min(slope, float(gradient @ d))
        return slope

    steepest = min(best(members) for members in itertools.combinations(range(n), q))
    assert best(chosen) == pytest.approx(steepest, abs=1e-12)


def test_shares_add_up_to_the_gap():
    for row in ("c_svc", "squared_hinge", "nu_svc", "eps_svr"):
        p = problem(row, n=40)
        a = solve(p, "smo", tol=0.3).a
        v, gradient = violation_at(p, a)
        share = gap_shares(v, a, p.lo, p.hi, p.groups.scale, p.ridge)
        theta = 0.5 * (v.up + v.low)  # the multipliers the pulls are measured from
        eta = p.groups.eta(theta)
        s = gradient - p.ridge * a + p.F @ eta
        with np.errstate(invalid="ignore", divide="ignore"):
            t = np.where(p.ridge > 0, np.clip(-s / p.ridge, p.lo, p.hi), np.where(s < 0, p.hi, p.lo))
        q = a @ (gradient - p.f0 - p.ridge * a)
        primal = q / 2 + p.e @ eta - np.sum(p.ridge * t**2 / 2 + s * t)
        dual = -(q / 2 + p.f0 @ a + np.sum(p.ridge * a**2) / 2)
        assert np.all(share >= 0.0)
        assert share.sum() == pytest.approx(primal - dual, rel=1e-9, abs=1e-10)


def test_an_endless_descent_has_a_finite_share():
    p = problem("squared_hinge", n=20)  # taken without its ridge: a hard margin
    v, _ = violation_at(p, np.zeros(p.n))
    share = gap_shares(v, np.zeros(p.n), p.lo, p.hi, p.groups.scale, np.zeros(p.n))
    assert np.all(np.isfinite(share))
    assert share.max() > 0.0


def test_balance_gives_each_side_half_and_what_the_other_leaves():
    score = np.array([9.0, 8.0, 7.0, 6.0, 1.0, 0.5, 0.0])
    side = np.array([True, True, True, True, False, False, False])
    open_ = np.ones(7, dtype=bool)
    assert list(balanced(score, side, 4, open_)) == [0, 1, 4, 5]
    assert list(balanced(score, side, 6, open_)) == [0, 1, 2, 3, 4, 5]
    open_[4:] = False
    assert list(balanced(score, side, 3, open_)) == [0, 1, 2]


def test_a_set_in_which_nothing_can_move_gets_the_maximal_violating_pair():
    """All that violate most are drawn the same way: the lecture's rule alone would stand still."""
    n = 12
    a = np.zeros(n)
    group, y = np.zeros(n, dtype=np.int64), np.where(np.arange(n) < 8, 1.0, -1.0)
    p = build("c_svc", make_gram(np.eye(n), Kernel("linear")), y)
    run = decomposition._Run(p, decomposition.Options(variant="paper"), lambda _: False, a, p.f0.copy())
    # Positive labels at 0 with large gradients pull, negative ones at 0 are settled but for the last.
    gradient = np.where(y > 0, -np.linspace(5, 4, n), np.linspace(3, 1, n))
    v = grouped_violation(gradient, a, p.lo, p.hi, 1.0 / y, group, 1)
    run.variables.gradient[:] = gradient
    chosen = Chooser(4, "gap", paper=True).choose(v, run.variables)
    assert set(v.steepest) <= set(chosen)
    assert chosen.size <= 4


def test_improved_sets_hold_the_worst_pair_and_part_of_the_last_set():
    p = problem("c_svc", n=80)
    seen = []

    class Watched(Chooser):
        def choose(self, violation, variables):
            chosen = super().choose(violation, variables)
            seen.append((violation, variables.active[chosen], variables.active[violation.steepest]))
            return chosen

    run = decomposition._Run(
        p, decomposition.Options(working_set=10, tol=1e-4), lambda _: False, np.zeros(p.n), p.f0.copy()
    )
    run.chooser = Watched(10, "gradient", paper=False)
    assert run.run().status is dualgap.Status.CONVERGED
    assert len(seen) > 5
    for _, chosen, steepest in seen:
        assert chosen.size <= 10
        assert set(steepest) <= set(chosen)
    overlaps = [np.intersect1d(one[1], two[1]).size for one, two in itertools.pairwise(seen)]
    assert max(overlaps) >= 4


def test_steepest_direction_of_coupled_constraints():
    p = problem("c_svc", n=50, functions=2)
    v, _ = coupled_violation(p, np.zeros(p.n), p.f0, None)
    assert 0 < v.steepest.size <= p.k + 1
    assert p.F[v.steepest].T @ v.direction == pytest.approx(0.0, abs=1e-13)
    assert p.f0[v.steepest] @ v.direction < 0.0
    assert np.all(v.direction >= -1e-9)  # everything is at its lower bound
    optimum, *_ = clarabel_solution(p)
    optimum = np.where(optimum < 1e-8, p.lo, np.where(optimum > p.hi - 1e-8, p.hi, optimum))
    settled, _ = coupled_violation(p, optimum, dense_hessian(p) @ optimum + p.f0, None)
    assert settled.worst < 1e-6


def test_one_constraint_makes_the_steepest_direction_the_maximal_violating_pair():
    from dualgap.solvers._violation import _steepest_direction

    p = problem("c_svc", n=50)
    a = solve(p, "smo", tol=0.5).a
    v, _ = violation_at(p, a)
    # In the variables a themselves a pull is that of c a, times c.
    support, _ = _steepest_direction(v.pull * p.groups.scale, a < p.hi, a > p.lo, p.F)
    assert set(support) == set(v.steepest)


# -- rows, limits, refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "cached", "small cache", "element", "float32", "own class"])
def test_rows_of_every_store(kind):
    X, *_ = data(30)
    K = gram(kind, X)
    rows = WorkingRows(K)
    points = np.array([2, 3, 5, 8, 13, 21, 27, 28, 29])
    whole = np.column_stack([K.exact(unit) for unit in np.eye(30)])
    near = 1e-5 if kind == "float32" else 1e-12
    assert rows.block(points) == pytest.approx(whole[np.ix_(points, points)], abs=near)
    weights, out = np.arange(1.0, 10.0), np.zeros(30)
    rows.add(out, points, weights)
    assert out == pytest.approx(whole[:, points] @ weights, abs=100 * near)
    hits, misses = rows.counts
    assert hits + misses >= points.size


def test_rows_stay_in_the_cache():
    p = problem("c_svc", "cached", n=100)
    result = solve(p, "decomposition", tol=1e-5, working_set=10)
    last = result.history[-1]
    assert last.cache_misses <= 100  # whole rows, each computed once at most
    assert last.cache_hits > last.cache_misses
    assert last.kernel_evaluations <= 100 * 100 + 100 * 100  # and a product when all variables come back


def test_a_small_cache_shortens_rows_and_forgets():
    X, y, _ = data(400)
    K = make_gram(X, Kernel("rbf", gamma=0.3), kind="cached", cache_size=60 * 400 * 8 / 1e6)
    result = solve(build("c_svc", K, y, C=2.0), "decomposition", gap_tol=1e-6, working_set=20)
    assert result.status is dualgap.Status.CONVERGED
    assert result.history[-1].cache_misses > 60


def test_limits_and_callbacks_leave_a_feasible_point():
    p = problem("nu_svc", n=80)
    stopped = solve(p, "decomposition", working_set=4, tol=1e-8, callback=lambda event: event.iteration >= 3)
    assert stopped.status is dualgap.Status.STOPPED
    assert stopped.certificate.infeasibility < 1e-13
    short = solve(p, "decomposition", working_set=4, tol=1e-8, max_iter=5, warn=False)
    assert short.status is dualgap.Status.MAX_ITER
    assert short.iterations == 5
    assert short.certificate.infeasibility < 1e-13


def test_a_long_inner_program_is_reported_from_within(monkeypatch):
    monkeypatch.setattr(decomposition, "_LOOK_UPDATES", 64)
    events = []
    p = problem("c_svc", n=60, C=100.0)
    solve(p, "decomposition", variant="paper", tol=1e-3, callback=lambda event: events.append(event.iteration))
    assert max(events.count(i) for i in set(events)) > 2
    stopped = solve(p, "decomposition", variant="paper", callback=lambda event: len(events) > 0)
    assert stopped.status is dualgap.Status.STOPPED


def test_start_is_used():
    p = problem("eps_svr", n=60)
    solved = solve(p, "decomposition", gap_tol=1e-8, working_set=10)
    again = solve(p, "decomposition", gap_tol=1e-6, working_set=10, start=solved.a)
    assert again.iterations <= 1


def test_what_it_refuses():
    p = problem("c_svc", functions=2)
    with pytest.raises(dualgap.UnsupportedProblemError, match="inner='ipm' takes them"):
        solve(p, "decomposition", inner="smo")
    for wrong in ({"variant": "fast"}, {"selection": "random"}, {"inner": "qp"}, {"working_set": 1}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            solve(problem("c_svc"), "decomposition", **wrong)


@pytest.mark.parametrize(("name", "C", "gamma"), [("heart", 3.16, 1 / 120), ("german", 3.16, 1 / 55)])
def test_real_data_agree_with_libsvm(data_folder, name, C, gamma):
    from sklearn.svm import SVC

    from dualgap.datasets import load

    dataset = load(Path(data_folder) / f"ratsch-{name}.svm.xz")
    X, y = np.asarray(dataset.X.todense() if hasattr(dataset.X, "todense") else dataset.X), dataset.y
    y = np.where(y > 0, 1.0, -1.0)
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=gamma)), y, C=C)
    result = solve(p, "decomposition", gap_tol=1e-6)
    peer = SVC(C=C, gamma=gamma, tol=1e-6).fit(X, y)
    a = np.zeros(y.size)
    a[peer.support_] = np.abs(peer.dual_coef_[0])
    assert result.certificate.dual == pytest.approx(dualgap.certify(p, a)[0].dual, rel=2e-6)


@pytest.mark.parametrize("selection", ["gradient", "gap"])
@pytest.mark.parametrize("inner", ["smo", "ipm"])
def test_pairs_of_close_points_do_not_stand_still(inner, selection):
    """The partner of the largest decrease may violate far less than the worst: the pair must move nevertheless."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(15, 2)), 4, axis=0) + 1e-3 * rng.normal(size=(60, 2))
    y = np.where(rng.normal(size=60) > 0, 1.0, -1.0)
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=1.0)), y, C=10.0)
    result = solve(p, "decomposition", tol=1e-3, working_set=2, inner=inner, selection=selection)
    assert result.status is dualgap.Status.CONVERGED
