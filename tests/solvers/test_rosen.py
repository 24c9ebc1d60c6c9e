"""What is particular to gradient projection: its projections, the steps of the paper, faces, and polishing."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dualgap
from dualgap import Kernel, Status, build, make_gram, solve
from dualgap.datasets import find, load
from dualgap.kernels.gram import FullGram
from dualgap.problem import DualQP
from dualgap.solvers import _rosen_improved as improved
from dualgap.solvers import rosen
from dualgap.solvers._rosen_paper import paper_direction
from dualgap.solvers._rosen_projection import Coupled, Grouped, constraints
from dualgap.solvers._rosen_step import cone

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution
from problems import ROWS, data, problem

# Training size, C and width of k(x, z) = exp(-|x - z|^2 / width) for the six sets of the paper.
SETS = {
    "titanic": (150, 1e5, 2.0),
    "heart": (170, 3.162, 120.0),
    "breast-cancer": (200, 15.19, 50.0),
    "thyroid": (140, 10.0, 3.0),
    "diabetis": (468, 1.0, 20.0),
    "flare-solar": (666, 1.023, 30.0),
}


def partition(name, seed):
    """A seeded training part of one of the six sets."""
    size, C, width = SETS[name]
    everything = load(find(f"ratsch-{name}"))
    chosen = np.random.default_rng(seed).permutation(everything.y.size)[:size]
    gram = make_gram(everything.X.toarray()[chosen], Kernel("rbf", gamma=1.0 / width))
    return build("c_svc", gram, everything.y[chosen], C=C)


# -- projections ---------------------------------------------------------------------------------------------------


def projection_problem(seed, coupled):
    """A box, a point outside of it, and constraints that the box can meet."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 12))
    lo, hi = -rng.uniform(0.0, 1.0, n), rng.uniform(0.0, 1.0, n)
    z = 3.0 * rng.normal(size=n)
    if coupled:
        F = np.column_stack([np.ones(n), rng.normal(size=n), rng.normal(size=n)])
        made = Coupled(F)
    else:
        group = rng.integers(-1, 2, n)
        scale = np.where(group < 0, 0.0, rng.choice([-2.0, -1.0, 0.5, 1.0], n))
        F = np.column_stack([np.where(group == g, scale, 0.0) for g in range(2)])
        made = Grouped(scale, group, 2)
    return made, F, z, lo, hi, F.T @ rng.uniform(lo, hi)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.booleans())
def test_the_nearest_point_is_clarabels(seed, coupled):
    made, F, z, lo, hi, sums = projection_problem(seed, coupled)
    n = z.size
    expected, _, _, status = clarabel_solution(
        DualQP(FullGram(np.eye(n), psd=True), np.arange(n), 1.0, 0.0, -z, lo, hi, F, sums)
    )
    assert status == "Solved"
    x = made.nearest(z, lo, hi, sums)
    assert x == pytest.approx(expected, abs=1e-6)
    assert np.abs(F.T @ x - sums).max() <= 1e-14 * (1.0 + np.abs(F).sum())
    assert np.all((x >= lo) & (x <= hi))


@pytest.mark.parametrize("functions", [0, 3])
def test_short_directions_are_feasible_to_their_own_digits(functions):
    p = problem("c_svc", functions=functions)
    made = constraints(p)
    rng = np.random.default_rng(0)
    unlimited = np.full(p.n, np.inf)
    for size in (1.0, 1e-6, 1e-12):
        z = p.F @ rng.normal(size=p.k) + size * rng.normal(size=p.n)
        d = made.nearest(z, -unlimited, unlimited)
        assert 0.1 * size < np.abs(d).max() < 10.0 * size
        assert np.abs(p.F.T @ d).max() <= 1e-14 * np.abs(p.F).T.dot(np.abs(d)).max()


def box_point(seed):
    """A point of a C-SVC with variables at both bounds, and some gradient."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(6, 14))
    a = rng.choice([0.0, 2.0, 1.0], n) * rng.choice([1.0, 0.3], n, p=[0.8, 0.2])
    y = rng.permutation(np.where(np.arange(n) % 2 == 0, 1.0, -1.0))
    return a, y, rng.normal(size=n), np.zeros(n), np.full(n, 2.0)


def all_negative_released(a, y, g, hi):
    """Release every negative multiplier (4) at once and project: what must not be done."""
    free = (a > 0.0) & (a < hi)
    mean = (y @ (g * free)) / max(free.sum(), 1)
    multiplier = np.where(a == 0.0, 1.0, -1.0) * (g - y * mean)
    J = free | (multiplier < 0.0)
    return np.where(J, -g + y * (y @ (g * J)) / max(J.sum(), 1), 0.0)


def test_releases_together_are_feasible_and_descend():
    infeasible = 0
    for seed in range(400):
        a, y, g, lo, hi = box_point(seed)
        below, above = np.empty(a.size), np.empty(a.size)
        cone(a, lo, hi, below, above)
        d = Grouped(y, np.zeros(a.size, dtype=np.int64), 1).nearest(-g, below, above)
        assert abs(y @ d) < 1e-14 * max(1.0, np.abs(d).sum())
        assert np.all(d[a == 0.0] >= 0.0)
        assert np.all(d[a == hi] <= 0.0)
        assert -(g @ d) == pytest.approx(d @ d, rel=1e-10, abs=1e-14)
        naive = all_negative_released(a, y, g, hi)
        infeasible += bool(np.any(naive[a == 0.0] < -1e-12) or np.any(naive[a == hi] > 1e-12))
    assert infeasible > 0  # the reason for projecting onto the cone


# -- the steps of the paper ------------------------------------------------------------------------------------------


def rosens_matrices(a, y, hi, without=()):
    """``M`` of the binding constraints and the projection ``I - M'(MM')^-1 M``, as section 2 of the paper has them."""
    n = a.size
    rows = [-np.eye(n)[i] for i in range(n) if a[i] == 0.0 and i not in without]
    rows += [np.eye(n)[i] for i in range(n) if a[i] == hi[i] and i not in without]
    M = np.array([*rows, y])
    return M, np.eye(n) - M.T @ np.linalg.solve(M @ M.T, M)


def direction(a, g, lo, hi, y, tol):
    d = np.empty(a.size)
    violation = paper_direction(a, g, lo, hi, y, np.zeros(a.size, dtype=np.int64), 1, tol, d)
    return d, violation


@pytest.mark.parametrize("seed", range(20))
def test_the_direction_on_a_face_is_rosens(seed):
    a, y, g, lo, hi = box_point(seed)
    a[:2] = 1.0, 0.5  # two free variables at least
    _, P = rosens_matrices(a, y, hi)
    d, _ = direction(a, g, lo, hi, y, tol=1e-9)
    assert d == pytest.approx(-P @ g, abs=1e-13)


@pytest.mark.parametrize("seed", range(20))
def test_the_released_bound_has_the_most_negative_multiplier(seed):
    a, y, g, lo, hi = box_point(seed)
    a[0] = 1.0  # a face with free variables on which the projected gradient is zero
    free = (a > 0.0) & (a < hi)
    g[free] = 0.7 * y[free]
    bound = [i for i in range(a.size) if a[i] == 0.0] + [i for i in range(a.size) if a[i] == hi[i]]
    if (g - 0.7 * y)[bound[0]] * (1.0 if a[bound[0]] == 0.0 else -1.0) > 0.0:
        g[bound[0]] = 1.4 * y[bound[0]] - g[bound[0]]  # one multiplier is negative at least
    M, _ = rosens_matrices(a, y, hi)
    beta = -np.linalg.solve(M @ M.T, M @ g)
    assert beta[:-1].min() < 0.0
    released = bound[int(np.argmin(beta[:-1]))]
    _, P_hat = rosens_matrices(a, y, hi, without=(released,))
    d, _ = direction(a, g, lo, hi, y, tol=1e-9)
    assert d == pytest.approx(-P_hat @ g, abs=1e-13)
    assert d[released] * (1.0 if a[released] == 0.0 else -1.0) > 0.0


def test_without_free_variables_the_worst_pair_is_released():
    y = np.array([1.0, 1.0, -1.0, -1.0])
    g = np.array([-1.0, -3.0, -2.0, -0.5])
    d, violation = direction(np.zeros(4), g, np.zeros(4), np.ones(4), y, tol=1e-9)
    # d_i = y_i t, d_j = -y_j t with t = (y_j g_j - y_i g_i) / 2
    assert d == pytest.approx([0.0, 2.5, 2.5, 0.0])
    assert violation == 5.0


@pytest.mark.parametrize("kind", ["full", "small cache", "element"])
@pytest.mark.parametrize("row", ROWS)
def test_the_paper_reaches_the_same_optimum(row, kind):
    _, _, objective, _ = clarabel_solution(problem(row, n=30))
    result = solve(problem(row, kind, n=30), "rosen", tol=1e-5, variant="paper")
    assert result.status is Status.CONVERGED
    assert result.certificate.dual == pytest.approx(-objective, rel=1e-4)


def test_the_paper_is_led_to_a_gap():
    result = solve(problem("c_svc"), "rosen", gap_tol=1e-8, variant="paper")
    assert result.certificate.relative_gap <= 1e-8
    assert np.all(np.diff(result.history.column("dual")) >= -1e-12)


def test_the_paper_refuses_coupled_constraints_and_names_the_variant_that_does_not():
    p = problem("eps_svr", functions=2)
    with pytest.raises(dualgap.UnsupportedProblemError, match="coupled; variant 'improved' takes them"):
        solve(p, "rosen", variant="paper")
    assert solve(p, "rosen", tol=1e-4).status is Status.CONVERGED


# -- the improved steps ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SETS)
def test_fewer_iterations_than_keerthis_modification_2(data_folder, name):
    for seed in range(2):
        p = partition(name, seed)
        result = solve(p, "rosen", tol=1e-6)
        reference = solve(p, "smo", tol=1e-6, variant="keerthi2")
        assert result.status is Status.CONVERGED
        assert result.certificate.kkt_violation <= 1e-6
        assert result.iterations < 0.25 * reference.iterations
        assert result.certificate.dual == pytest.approx(reference.certificate.dual, rel=1e-6)


@pytest.mark.parametrize("functions", [0, 2])
@pytest.mark.parametrize("row", ["c_svc", "nu_svc", "eps_svr", "squared_hinge"])
def test_high_accuracy_stays_on_the_constraints(row, functions):
    p = problem(row, functions=functions)
    result = solve(p, "rosen", gap_tol=1e-11)
    assert result.certificate.relative_gap <= 1e-11
    assert result.certificate.infeasibility < 1e-14
    assert np.all(np.diff(result.history.column("dual")) >= -1e-12 * abs(result.certificate.dual))
    _, _, objective, _ = clarabel_solution(p)
    assert result.certificate.dual == pytest.approx(-objective, rel=1e-7)


def test_flat_directions_run_to_the_bound_that_descends():
    X = np.array([[1.0], [1.0]])
    p = build("c_svc", make_gram(X, Kernel("linear")), np.array([1.0, -1.0]), C=3.0)
    for variant in ("improved", "paper"):
        result = solve(p, "rosen", gap_tol=1e-12, variant=variant)
        assert result.a == pytest.approx([3.0, 3.0])


@pytest.mark.parametrize("variant", ["improved", "paper"])
def test_no_point_needs_both_of_its_copies(variant):
    result = solve(problem("eps_svr", C=10.0), "rosen", tol=1e-6, variant=variant)
    copies = result.a.reshape(2, -1)
    assert not np.any((copies[0] > 0.0) & (copies[1] > 0.0))


def test_hard_margins_have_no_upper_bound():
    X = np.array([[0.0, 0.0], [0.0, 1.0], [3.0, 0.0], [3.0, 1.0]])
    p = build("squared_hinge", make_gram(X, Kernel("linear")), np.array([-1.0, -1.0, 1.0, 1.0]), C=np.inf)
    result = solve(p, "rosen", tol=1e-9)
    assert result.certificate.dual == pytest.approx(0.5 * (2.0 / 3.0) ** 2, rel=1e-8)  # half of |w|^2, w = 2/3 across


@pytest.mark.parametrize("variant", ["improved", "paper"])
def test_constraints_with_coefficients_of_any_size(variant):
    plain = problem("c_svc")
    size = np.random.default_rng(0).uniform(0.1, 10.0, plain.n)
    p = DualQP(plain.gram, plain.index, plain.sign, 0.0, plain.f0, plain.lo, plain.hi, plain.F * size[:, None], [0.0])
    result = solve(p, "rosen", tol=1e-6, variant=variant)
    assert result.status is Status.CONVERGED
    _, _, objective, _ = clarabel_solution(p)
    assert result.certificate.dual == pytest.approx(-objective, rel=1e-6)


def test_boxes_far_from_the_origin():
    """Narrow boxes around large numbers: a bound is met to the rounding of the variable, not of the box."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 3))
    lo = 1000.0 + rng.uniform(size=30)
    F = rng.choice([-1.0, 1.0], 30)
    p = DualQP(make_gram(X, Kernel("rbf", gamma=0.5)), np.arange(30), 1.0, 0.0, 0.0, lo, lo + 0.1, F, F @ (lo + 0.05))
    result = solve(p, "rosen", tol=1e-8)
    assert result.status is Status.CONVERGED
    assert np.all((result.a >= p.lo) & (result.a <= p.hi))
    assert np.any(result.a == p.lo)
    _, _, objective, _ = clarabel_solution(p)
    assert result.certificate.dual == pytest.approx(-objective, rel=1e-8)


def test_an_indefinite_kernel_ends_at_a_stationary_point():
    X, y, _ = data(80, seed=2)
    p = build("c_svc", make_gram(X, Kernel("sigmoid", gamma=1.0, coef0=1.0)), y, C=1.0)
    for variant in ("improved", "paper"):
        result = solve(p, "rosen", tol=1e-5, variant=variant)
        assert "indefinite" in result.certificate.note
        assert result.certificate.kkt_violation <= 1e-5


@pytest.mark.parametrize("row", ["c_svc", "nu_svc", "eps_svr", "one_class"])
def test_few_releases_at_a_time(row, monkeypatch):
    monkeypatch.setattr(improved, "_RELEASED", 8)
    for functions in (0, 2):
        p = problem(row, functions=functions)
        result = solve(p, "rosen", gap_tol=1e-8)
        assert result.status is Status.CONVERGED


def test_counts_are_those_of_the_run():
    cached = solve(problem("c_svc", "cached"), "rosen", tol=1e-5)
    last = cached.history[-1]
    assert cached.iterations == last.iteration > 0
    assert last.kernel_evaluations == last.cache_misses * 60
    assert last.cache_hits > 0
    stored = solve(problem("c_svc", "full"), "rosen", tol=1e-5)
    assert stored.kernel_evaluations == cached.kernel_evaluations


@pytest.mark.parametrize("variant", ["improved", "paper"])
def test_start_is_used(variant):
    p = problem("eps_svr")
    first = solve(p, "rosen", tol=1e-6, variant=variant)
    second = solve(p, "rosen", tol=1e-5, variant=variant, start=first.a)
    assert second.iterations <= 0.1 * first.iterations


@pytest.mark.parametrize("variant", ["improved", "paper"])
def test_limits_and_callbacks(variant):
    p = problem("c_svc", C=100.0)
    with pytest.warns(dualgap.NotCertifiedWarning, match="iteration limit"):
        result = solve(p, "rosen", gap_tol=1e-9, max_iter=7, variant=variant)
    assert result.iterations == 7
    assert result.certificate.infeasibility < 1e-14
    stopped = solve(p, "rosen", gap_tol=1e-9, variant=variant, callback=lambda event: event.iteration > 0)
    assert stopped.status is Status.STOPPED
    with pytest.raises(ValueError, match="variant must be 'improved' or 'paper' for solver 'rosen'; got 'newton'"):
        solve(p, "rosen", variant="newton")


def test_options_have_a_description_each():
    for name in rosen.Options.__dataclass_fields__:
        assert f"{name} :" in (rosen.Options.__doc__ or "")


def test_the_history_ends_where_a_run_at_the_end_of_its_arithmetic_does():
    result = solve(problem("nu_svr"), "rosen", tol=1e-300, warn=False)
    assert result.status is Status.STALLED
    assert result.history[-1].iteration == result.iterations


# -- polishing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["smo", "block", "auto"])
@pytest.mark.parametrize("row", ["c_svc", "nu_svr"])
def test_polish_goes_on_from_the_first_solution(row, first):
    p = problem(row)
    result = solve(p, first, gap_tol=1e-10, polish="rosen")
    assert result.solver == ("smo" if first == "auto" else first) + "+rosen"
    assert result.status is Status.CONVERGED
    assert result.certificate.relative_gap <= 1e-10
    begun = solve(p, result.solver.partition("+")[0], tol=1e-2, warn=False)
    steps = result.history.column("iteration")
    assert steps == sorted(steps)
    assert steps[-1] == result.iterations > begun.iterations
    assert begun.history[-1].iteration in steps
    after = result.history.column("dual")[len(begun.history) :]  # entries of block are float32: what it believes wavers
    assert len(after) > 1
    assert np.all(np.diff(after) >= -1e-12 * abs(result.certificate.dual))


def test_polish_to_a_violation_takes_fewer_steps_than_pairs_alone():
    p = problem("c_svc", C=1000.0)
    polished = solve(p, "smo", tol=1e-8, polish="rosen")
    assert polished.certificate.kkt_violation <= 1e-8 * (1 + 1e-8)
    assert polished.iterations < solve(p, "smo", tol=1e-8).iterations


def test_limits_count_both_solvers_together():
    p = problem("c_svc", C=1000.0)
    first = solve(p, "smo", tol=1e-2).iterations
    for limit, solver in ((first // 2, "smo"), (first + 3, "smo+rosen")):
        result = solve(p, "smo", tol=1e-8, polish="rosen", max_iter=limit, warn=False)
        assert result.iterations == limit
        assert result.solver == solver
        assert result.status is Status.MAX_ITER


def test_a_callback_stops_before_polishing():
    result = solve(problem("c_svc"), "smo", tol=1e-8, polish="rosen", callback=lambda event: True)
    assert result.status is Status.STOPPED
    assert result.solver == "smo"
    assert len(result.history) == 1


def test_polish_says_what_it_cannot_do():
    with pytest.raises(dualgap.UnknownSolverError, match="Unknown solver 'wax' for polish; choose one of block, smo"):
        solve(problem("c_svc"), "smo", polish="wax")
    with pytest.raises(ValueError, match="polish='smo' is the solver that runs first"):
        solve(problem("c_svc"), "smo", polish="smo")
    with pytest.raises(dualgap.UnsupportedProblemError, match="polish='smo' cannot take this problem"):
        solve(problem("c_svc", functions=2), "block", polish="smo")


def test_estimators_polish_by_their_solver_options():
    X, y, _ = data(80)
    plain = dualgap.SVC(C=10.0, gap_tol=1e-10).fit(X, y)
    polished = dualgap.SVC(C=10.0, gap_tol=1e-10, solver="smo", solver_options={"polish": "rosen"}).fit(X, y)
    assert polished.solver_ == "smo+rosen"
    assert polished.certificate_.relative_gap <= 1e-10
    assert polished.decision_function(X) == pytest.approx(plain.decision_function(X), abs=1e-6)
