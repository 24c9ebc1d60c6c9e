"""Paths: every value is the solution that a solve of its own would find, at less cost."""

from __future__ import annotations

import doctest
import importlib
import os
import threading
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import svm
from sklearn.model_selection import KFold, cross_val_score

import dualgap
from dualgap import FORMULATIONS, Kernel, build, certify, make_gram, restart_bounds, scaled_start, solve, svm_path
from dualgap.certificate import exact_gradient
from dualgap.constraints import FEASIBLE, infeasibility
from dualgap.path import steps
from dualgap.path import walk as path_walk
from dualgap.path.grams import KeptGram, StoredGram, lasting_gram
from dualgap.solvers import _block_rounding

CS = np.geomspace(0.05, 50.0, 7)


def classes(n=90, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, np.where(X[:, 0] + X[:, 1] ** 2 + 0.4 * rng.normal(size=n) > 0.6, 1.0, -1.0)


def target_of(row, X, y):
    task = FORMULATIONS[row].task
    return {"classification": y, "regression": X[:, 0] + np.sin(2 * X[:, 1]), "outlier": None}[task]


CASES = [
    # Beyond C = 5 nu_svr takes a hundred thousand steps here, on its own as well.
    *[(row, "C", CS if row != "nu_svr" else CS[:5]) for row in FORMULATIONS if "C" in FORMULATIONS[row].parameters],
    *[(row, "nu", [0.1, 0.2, 0.35, 0.5]) for row in FORMULATIONS if "nu" in FORMULATIONS[row].parameters],
    *[(row, "epsilon", [0.0, 0.05, 0.2, 0.6]) for row in FORMULATIONS if "epsilon" in FORMULATIONS[row].parameters],
    *[(row, "gamma", [0.05, 0.2, 1.0]) for row in FORMULATIONS],
]


@pytest.mark.parametrize(("row", "parameter", "values"), CASES, ids=[f"{row}-{name}" for row, name, _ in CASES])
def test_path_values_are_those_of_separate_solves(row, parameter, values):
    X, y = classes()
    y = target_of(row, X, y)
    fixed = {"C": 2.0, "nu": 0.3, "epsilon": 0.1}
    path = svm_path(X, y, values, row=row, parameter=parameter, gamma=0.3, gap_tol=1e-7, **fixed)
    assert path.relative_gaps.max() <= 1e-7
    for k, value in enumerate(values):
        gamma = value if parameter == "gamma" else 0.3
        machine = fixed if parameter == "gamma" else {**fixed, parameter: value}
        problem = build(row, make_gram(X, Kernel("rbf", gamma=gamma)), y, **machine)
        alone = solve(problem, gap_tol=1e-7).certificate
        # Each objective is within 1e-7 of the same optimum.
        assert path.objectives[k] == pytest.approx(alone.primal, rel=3e-7, abs=1e-12)
        assert path.certificates[k].dual <= alone.primal * (1 + 1e-12)


def test_path_agrees_with_another_library():
    X, y = classes(150, 1)
    path = svm_path(X, y, CS, gamma=0.5, gap_tol=1e-9)
    for k, C in enumerate(CS):
        peer = svm.SVC(C=C, gamma=0.5, tol=1e-8).fit(X, y)
        ours = path.coefficients[k].toarray().ravel()
        theirs = np.zeros(len(y))
        theirs[peer.support_] = peer.dual_coef_[0]
        np.testing.assert_allclose(ours, theirs, atol=2e-4 * C)
        assert path.intercepts[k] == pytest.approx(peer.intercept_[0], abs=2e-3)
        assert abs(path.n_support[k] - peer.support_.size) <= 2


def test_path_keeps_the_order_of_the_values():
    X, y = classes()
    up = svm_path(X, y, [0.1, 1.0, 10.0], gap_tol=1e-6, cv=3)
    mixed = svm_path(X, y, [10.0, 0.1, 1.0], gap_tol=1e-6, cv=3)
    np.testing.assert_array_equal(mixed.values, [10.0, 0.1, 1.0])
    np.testing.assert_array_equal(mixed.objectives, up.objectives[[2, 0, 1]])
    np.testing.assert_array_equal(mixed.validation_errors, up.validation_errors[[2, 0, 1]])
    assert (mixed.coefficients != up.coefficients[[2, 0, 1]]).nnz == 0


def test_path_lies_between_the_bounds_of_the_lecture():
    X, y = classes(120, 2)
    path = svm_path(X, y, CS, gamma=0.5, gap_tol=1e-8)
    assert np.isnan(path.bounds[0]).all()
    lower, upper = path.bounds[1:].T
    assert np.all(lower <= path.objectives[1:])
    assert np.all(path.objectives[1:] <= upper * (1 + 1e-8))
    np.testing.assert_allclose(upper, path.objectives[:-1] * (CS[1] / CS[0]))


def test_path_skips_what_is_proved():
    """Separable classes: beyond some C nothing changes, and the path runs no solver there."""
    X = np.array([[0.0], [1.0], [3.0], [4.0]])
    path = svm_path(X, [-1, -1, 1, 1], [0.1, 1.0, 10.0, 100.0, 1000.0], kernel="linear", gap_tol=1e-6)
    np.testing.assert_array_equal(path.skipped, [False, False, True, True, True])
    np.testing.assert_array_equal(path.iterations[2:], 0)
    np.testing.assert_allclose(path.objectives[1:], 0.5, rtol=1e-6)
    problem = build("c_svc", make_gram(X, Kernel("linear")), [-1, -1, 1, 1], C=1000.0)
    certificate, _ = certify(problem, np.abs(path.coefficients[4].toarray().ravel()))
    assert certificate.relative_gap <= 1e-6
    assert certificate.relative_gap == pytest.approx(path.certificates[4].relative_gap, abs=1e-12)


def test_path_certificates_of_skipped_values_are_exact():
    X, y = classes(200, 3)
    values = 5.0 * (1.0 + 1e-6 * np.arange(6))
    path = svm_path(X, y, values, gamma=0.4, gap_tol=1e-4)
    assert path.skipped.sum() >= 4
    for k in np.flatnonzero(path.skipped):
        problem = build("c_svc", make_gram(X, Kernel("rbf", gamma=0.4)), y, C=values[k])
        again, _ = certify(problem, y * path.coefficients[k].toarray().ravel())
        assert again.relative_gap == pytest.approx(path.certificates[k].relative_gap, rel=1e-6)
        assert again.relative_gap <= 1e-4


def test_path_costs_less_than_separate_solves():
    X, y = classes(600, 4)
    values = np.geomspace(0.1, 10.0, 20)
    path = svm_path(X, y, values, gamma=1.0, gap_tol=1e-3)
    alone = [svm_path(X, y, [value], gamma=1.0, gap_tol=1e-3).iterations[0] for value in values]
    assert path.iterations.sum() < 0.7 * sum(alone)


def test_path_validation_equals_cross_validation():
    X, y = classes(120, 5)
    folds = KFold(4, shuffle=True, random_state=0)
    path = svm_path(X, y, [0.5, 5.0, 50.0], gamma=0.5, tol=1e-6, cv=folds)
    for k, C in enumerate(path.values):
        errors = 1.0 - cross_val_score(svm.SVC(C=C, gamma=0.5, tol=1e-6), X, y, cv=folds)
        np.testing.assert_allclose(path.fold_errors[k], errors, atol=1e-12)
    assert path.best == int(np.argmin(path.validation_errors))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("row", ["c_svc", "eps_svr", "one_class", "svdd"])
def test_path_validation_samples_are_predicted_as_the_estimators_do(row, sparse):
    X, y = classes(130, 6)
    target = target_of(row, X, y)
    truth = y if target is None else target
    form = sp.csr_matrix if sparse else np.asarray
    extra = {"C": 0.1} if row == "svdd" else {}
    parameter, values = ("nu", [0.2, 0.4]) if row == "one_class" else ("C", [0.5, 5.0])
    estimator = {"c_svc": "SVC", "eps_svr": "SVR", "one_class": "OneClassSVM", "svdd": "SVDD"}[row]
    known = None if target is None else target[:90]
    path = svm_path(
        form(X[:90]), known, values, parameter=parameter, row=row, gamma=0.5, gap_tol=1e-8,
        validation=(form(X[90:]), truth[90:]), **({} if parameter == "C" else extra),
    )  # fmt: skip
    for k, value in enumerate(values):
        model = getattr(dualgap, estimator)(gamma=0.5, gap_tol=1e-8, **{parameter: value}).fit(X[:90], known)
        predicted = model.predict(X[90:])
        wanted = np.mean((predicted - truth[90:]) ** 2) if row == "eps_svr" else np.mean(predicted != truth[90:])
        assert path.validation_errors[k] == pytest.approx(wanted, rel=1e-3)
    assert path.coefficients.shape == (2, 90)


def test_path_stops_when_the_callback_says_so():
    X, y = classes()
    seen = []

    def callback(event):
        seen.append(event)
        # The clock of an event starts with its run: the third run has begun.
        starts = sum(later.iteration <= earlier.iteration for earlier, later in pairwise(seen))
        return starts >= 2

    path = svm_path(X, y, [0.1, 1.0, 10.0, 100.0], gap_tol=1e-6, callback=callback, cv=3)
    assert 0 < len(path) < 4
    assert path.validation_errors is None
    assert [status.name for status in path.statuses] == ["CONVERGED"] * len(path)


def many(n=5000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.where(X[:, 0] + X[:, 1] ** 2 + 0.05 * rng.normal(size=n) > 0.6, 1.0, -1.0)


@pytest.fixture
def narrow_steps(monkeypatch):
    """Of each step within few variables whether that was enough."""
    seen = []

    def spy(problem, goal, *rest):
        found = within_few(problem, goal, *rest)
        seen.append(found is not None and goal.met(found.certificate))
        return found

    within_few = steps._within_few
    monkeypatch.setattr(steps, "_within_few", spy)
    return seen


@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "eps_svr"])
@pytest.mark.parametrize("goal", [{"gap_tol": 1e-4}, {"tol": 1e-3}], ids=["gap", "violation"])
def test_path_steps_within_few_variables_are_certified_as_cold_ones(row, goal, narrow_steps):
    X, y = many()
    y = target_of(row, X, y)
    values = [2.0, 2.1, 2.2]
    # One way after the other: the second one knows how slopes went on the first.
    path = svm_path(X, y, values, row=row, gamma=0.5, n_jobs=1, **goal)
    assert len(narrow_steps) == 2
    assert any(narrow_steps)
    for k, C in enumerate(values):
        problem = build(row, make_gram(X, Kernel("rbf", gamma=0.5)), y, C=C)
        # The variables from the coefficients: of a pair of regression at most one is not 0.
        weights = path.coefficients[k].toarray().ravel()[problem.index]
        cold, _ = certify(problem, np.maximum(problem.sign * weights, 0.0))
        ours = path.certificates[k]
        assert (ours.primal, ours.dual) == pytest.approx((cold.primal, cold.dual), rel=1e-12)
        # Gaps and violations are differences of such sums.
        assert ours.gap == pytest.approx(cold.gap, abs=1e-12 * cold.primal)
        assert ours.kkt_violation == pytest.approx(cold.kkt_violation, abs=1e-9)
        assert (ours.relative_gap <= 1e-4) if "gap_tol" in goal else (ours.kkt_violation <= 1e-3 * (1 + 1e-9))


def test_path_steps_within_few_variables_see_the_others_in_slopes_computed_anew(narrow_steps, monkeypatch):
    """The solver compares its slopes with exact ones, of its own variables: the others' share must be in both."""
    monkeypatch.setattr(_block_rounding, "_ROUNDING", 1.0)
    X, y = many()
    svm_path(X, y, [2.0, 2.1, 2.2], gamma=0.5, gap_tol=1e-4, n_jobs=1)
    assert narrow_steps == [True, True]


def test_lasting_grams_beside_others_have_these_in_their_products():
    X, _ = many(300)
    gram = lasting_gram(X, Kernel("rbf", gamma=0.5), cache_size=0.5)
    if gram.fused is None:
        pytest.skip("entries are made of tiles where the CPU has the registers for it")
    weights, others = np.random.default_rng(0).normal(size=(2, 300))
    rows = np.arange(3, 300, 7)
    part = gram.beside(others)
    np.testing.assert_allclose(part.product(weights, rows), gram.product(weights + others, rows), rtol=1e-12)
    part.fused.accumulate(own := np.zeros(rows.size), np.arange(300), weights, rows)
    np.testing.assert_allclose(own, gram.product(weights, rows), atol=1e-4)


def test_path_steps_have_more_variables_once_others_have_objected(narrow_steps, monkeypatch):
    shares = []

    def spy(*arguments):
        shares.append(arguments[-1])
        return narrowed(*arguments)

    narrowed = steps.narrowed
    monkeypatch.setattr(steps, "narrowed", spy)
    # So few that the first of them cannot be enough.
    monkeypatch.setattr(steps, "NEAREST", 1e-3)
    monkeypatch.setattr(steps, "NEAREST_EXPECTED", 1e-3)
    X, y = many()
    path = svm_path(X, y, np.geomspace(0.5, 8.0, 5), gamma=0.5, gap_tol=1e-4, n_jobs=1)
    assert path.relative_gaps.max() <= 1e-4
    assert not all(narrow_steps)
    expected = 1e-3 * 2.0 ** np.cumsum([0, *(not met for met in narrow_steps[:-1])])
    assert shares == expected.tolist()


def test_path_steps_expect_slopes_to_go_on_as_they_went(monkeypatch):
    """What decides which variables are taken is nearer to the slopes at the solution than those at the start are."""
    X, y = many()
    expected, slopes = [], []

    def spy_few(problem, goal, start, at, began, trend, wider):
        expected.append((at.gradient + problem.F @ at.eta, trend))
        return within_few(problem, goal, start, at, began, trend, wider)

    def spy_step(self, value, problem):
        step = one_step(self, value, problem)
        product, _ = steps._product(step.problem, step.a)
        slopes.append(product + step.problem.f0 + step.problem.F @ step.eta)
        return step

    within_few, one_step = steps._within_few, steps.Walker.step
    monkeypatch.setattr(steps, "_within_few", spy_few)
    monkeypatch.setattr(steps.Walker, "step", spy_step)
    # From the middle up, then down from it.
    svm_path(X, y, np.geomspace(0.5, 8.0, 5), gamma=0.5, gap_tol=1e-4, n_jobs=1)
    assert [trend is None for _, trend in expected] == [True, False, False, False]
    for (start, trend), found in zip(expected[1:], slopes[2:], strict=True):
        near = np.abs(found) < 0.5
        assert np.mean((trend - found)[near] ** 2) < 0.5 * np.mean((start - found)[near] ** 2)


def test_path_from_the_middle_is_the_same_path_by_neighbours(narrow_steps):
    X, y = many()
    values = np.geomspace(0.5, 8.0, 6)
    wanted = values[[3, 0, 5, 1, 4, 2]]
    path = svm_path(X, y, wanted, gamma=0.5, gap_tol=1e-4)
    np.testing.assert_array_equal(path.values, wanted)
    assert path.relative_gaps.max() <= 1e-4
    assert len(narrow_steps) == 5
    # The first of all has no bounds; those above it come from below, those below it from above.
    order = np.argsort(wanted)
    bounds, objectives = path.bounds[order], path.objectives[order]
    assert np.isnan(bounds).all(axis=1).tolist() == [False, False, False, True, False, False]
    ratio = values[1] / values[0]
    np.testing.assert_allclose(bounds[4:, 1], ratio * objectives[3:-1])
    np.testing.assert_allclose(bounds[:3, 1], objectives[1:4])
    rest = np.array([0, 1, 2, 4, 5])
    assert np.all(bounds[rest, 0] <= objectives[rest])
    assert np.all(objectives[rest] <= bounds[rest, 1] * (1 + 1e-4))


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("row", ["c_svc", "eps_svr"])
def test_both_ways_from_the_middle_at_once_are_the_same_path(row, n_jobs, monkeypatch):
    asked = []

    def spy(walker, ways, gram, threads):
        asked.append(threads)
        return both_ways(walker, ways, gram, threads)

    both_ways = path_walk.both_ways
    monkeypatch.setattr(path_walk, "both_ways", spy)
    X, y = many()
    y = target_of(row, X, y)
    values, held = np.geomspace(0.5, 8.0, 6), slice(0, 500)
    both, alone = (
        svm_path(X, y, values, row=row, gamma=0.5, gap_tol=1e-5, validation=(X[held], y[held]), n_jobs=jobs)
        for jobs in (n_jobs, 1)
    )
    assert asked == [n_jobs]
    assert max(both.relative_gaps.max(), alone.relative_gaps.max()) <= 1e-5
    np.testing.assert_allclose(both.objectives, alone.objectives, rtol=1e-5)
    np.testing.assert_allclose(both.validation_errors, alone.validation_errors, atol=5e-3)
    np.testing.assert_array_equal(np.isnan(both.bounds), np.isnan(alone.bounds))


@pytest.mark.parametrize("worse", ["upper", "lower"])
def test_an_error_on_one_way_from_the_middle_ends_the_other(worse, monkeypatch):
    """Whichever thread it comes up in, it arrives here, and no thread goes on walking."""
    taken = []

    def step(self, value, problem):
        if value == 1.0:
            return one_step(self, value, problem)
        if (value > 1.0) == (worse == "upper"):
            raise RuntimeError(f"no way beyond {value:g}")
        taken.append(value)
        time.sleep(0.02)
        return None

    one_step = steps.Walker.step
    monkeypatch.setattr(steps.Walker, "step", step)
    X, y = many()
    values = np.geomspace(1e-3, 1e2, 201)
    values[120] = 1.0
    with pytest.raises(RuntimeError, match="no way beyond"):
        svm_path(X, y, values, gamma=0.5, gap_tol=1e-1, n_jobs=2)
    assert len(taken) < 50
    ended = len(taken)
    time.sleep(0.1)
    assert len(taken) == ended


def test_path_steps_within_few_variables_stop_when_the_callback_says_so(narrow_steps):
    X, y = many()
    seen = []

    def callback(event):
        seen.append(event)
        return sum(later.iteration < earlier.iteration for earlier, later in pairwise(seen)) == 1

    path = svm_path(X, y, [0.2, 0.4, 0.8], gamma=0.5, gap_tol=1e-3, callback=callback)
    assert len(path) == 1
    assert len(narrow_steps) == 1
    assert np.isfinite([event.relative_gap for event in seen[1:]]).any()


@pytest.mark.parametrize("most", [3, None])
def test_both_ways_at_once_with_a_callback_that_takes_mixed_events(most, monkeypatch):
    """One thread at a time tells it, and nobody after it has asked for the end; what is complete is in its place."""
    inside, seen, after, walked = threading.Lock(), [], [], []

    def callback(event):
        assert inside.acquire(blocking=False)
        time.sleep(0.005)
        seen.append(threading.get_ident())
        if most is not None and len(walked) > most:
            after.append(event)
        inside.release()
        return bool(after)

    def step(self, value, problem):
        walked.append(value)
        return one_step(self, value, problem)

    one_step = steps.Walker.step
    monkeypatch.setattr(steps.Walker, "step", step)
    X, y = many()
    values = np.geomspace(0.5, 8.0, 8)
    wanted = values[[3, 0, 7, 5, 1, 6, 4, 2]]
    path = svm_path(X, y, wanted, gamma=0.5, gap_tol=1e-4, n_jobs=2, callback=callback, mixed_events=True)
    assert len(set(seen)) == 2
    assert path.relative_gaps.max() <= 1e-4
    whole = dict(zip(wanted, svm_path(X, y, wanted, gamma=0.5, gap_tol=1e-4, n_jobs=1).objectives, strict=True))
    np.testing.assert_allclose(path.objectives, [whole[value] for value in path.values], rtol=2e-4)
    assert path.values.tolist() == [value for value in wanted if value in path.values]
    if most is None:
        assert len(path) == 8
    else:
        assert len(after) == 1
        assert 1 <= len(path) <= 6
        assert not np.isnan(path.objectives).any()


def test_path_rounding_of_bounds_makes_no_rows(monkeypatch):
    """C (C'/C) may round: the start is then a multiple of the last solution all the same."""
    X, y = classes(400, 8)
    gram = lasting_gram(X, Kernel("rbf", gamma=0.5), cache_size=0.5)
    counted = []
    exact = type(gram.fused).exact if gram.fused is not None else None
    if exact is None:
        pytest.skip("entries are made of tiles where the CPU has the registers for it")
    made = lambda self, weights, rows=None: (counted.append(np.count_nonzero(weights)), exact(self, weights, rows))[1]  # noqa: E731
    monkeypatch.setattr(type(gram.fused), "exact", made)
    # Quotients that round: the product of each with the C before is not the C after.
    values = [0.1, 0.1 * 1.1, 0.1 * 1.1 * 1.1]
    problems = ((C, build("c_svc", gram, y, C=C)) for C in values)
    for step in steps.walk(problems, steps.Goal(gap_tol=1e-6), ratios=True):
        bounded = np.count_nonzero(step.a == step.problem.hi)
        assert bounded > 50
    assert all(number < 50 for number in counted[1:])


@given(
    row=st.sampled_from(sorted(FORMULATIONS)),
    ratio=st.floats(0.2, 5.0),
    nu=st.floats(0.05, 0.6),
    known=st.booleans(),
    seed=st.integers(0, 5),
)
@settings(max_examples=60, deadline=None)
def test_scaled_starts_are_feasible(row, ratio, nu, known, seed):
    X, y = classes(40, seed)
    gram = make_gram(X, Kernel("rbf", gamma=0.5))
    old = build(row, gram, target_of(row, X, y), C=1.0, nu=0.3)
    a = solve(old, tol=1e-2).a
    new = build(row, gram, target_of(row, X, y), C=ratio, nu=nu)
    product = exact_gradient(old, a) - old.f0 - old.ridge * a if known else None
    start = scaled_start(new, a, product)
    assert infeasibility(new, start) <= FEASIBLE
    assert np.all(start >= new.lo)
    assert np.all(start <= new.hi)
    assert solve(new, start=start, tol=1e-3).status.name == "CONVERGED"


def test_scaled_start_takes_the_best_multiple():
    X, y = classes(60, 7)
    gram = make_gram(X, Kernel("rbf", gamma=0.5))
    old = build("c_svc", gram, y, C=1.0)
    a = solve(old, gap_tol=1e-8).a
    new = build("c_svc", gram, y, C=3.0)
    product = exact_gradient(old, a) - old.f0
    dual = certify(new, scaled_start(new, a, product))[0].dual
    assert all(dual >= certify(new, t * a)[0].dual - 1e-9 for t in np.linspace(0.0, 3.0, 31))
    with pytest.raises(ValueError, match="one entry for each of the 60 variables"):
        scaled_start(new, a[:5])


def test_restart_bounds_hold_both_ways_and_only_where_they_are_proved():
    X, y = classes(60, 8)
    gram = make_gram(X, Kernel("rbf", gamma=0.5))
    problem = build("c_svc", gram, y, C=2.0)
    certificate = solve(problem, gap_tol=1e-6).certificate
    for C in (0.3, 2.0, 9.0):
        optimum = solve(build("c_svc", gram, y, C=C), gap_tol=1e-9).certificate
        lower, upper = restart_bounds(problem, certificate, C / 2.0)
        assert lower <= optimum.primal
        assert optimum.dual <= upper
    assert np.isnan(restart_bounds(build("one_class", gram), certificate, 2.0)).all()


def test_lasting_grams_are_the_matrix_itself():
    X, _ = classes(70)
    kernel = Kernel("rbf", gamma=0.5)
    reference = make_gram(X, kernel)
    weights = np.random.default_rng(0).normal(size=70)
    for gram, kind in (
        (lasting_gram(X, kernel), StoredGram),
        (lasting_gram(X.astype(np.float32).astype(np.float64), kernel, cache_size=0.01), KeptGram),
    ):
        assert isinstance(gram, kind)
        np.testing.assert_allclose(gram.exact(weights), reference.exact(weights), rtol=1e-5)
        gram.remember(2.0 * weights, None, 2.0 * gram.exact(weights))
        change = np.where(np.arange(70) < 3, 1.0, 0.0)
        gram.forget()
        expected = gram.separate().exact(2.0 * weights + change)
        np.testing.assert_allclose(gram.exact(2.0 * weights + change), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"values": []}, "values is empty"),
        ({"values": [1.0, -2.0]}, "not negative"),
        ({"values": [0.0, 1.0]}, "C must be positive"),
        ({"parameter": "nu"}, "c_svc does not read nu"),
        ({"parameter": "width"}, "parameter must be one of"),
        ({"parameter": "gamma", "kernel": "linear"}, "has no gamma"),
        ({"row": "svc"}, "Unknown row"),
        ({"y": np.arange(90) % 3}, "y has 3"),
        ({"y": None}, "needs y"),
        ({"y": np.ones(5)}, "y has 1"),
        ({"cv": 3, "validation": (np.zeros((2, 3)), [1, -1])}, "not both"),
        ({"validation": (np.zeros((2, 4)), [1, -1])}, "3 features"),
        ({"validation": (np.zeros((2, 3)), [1, 7])}, "label"),
        ({"sample_weight": [1.0]}, "sample_weight must have shape"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_path_says_what_is_wrong(settings, message):
    X, y = classes()
    arguments = {"y": y, "values": [1.0, 2.0], **settings}
    with pytest.raises(ValueError, match=message):
        svm_path(X, **arguments)


@pytest.mark.parametrize("name", ["dualgap.path.walk", "dualgap.path.starts", "dualgap.estimators.search"])
def test_path_examples_run(name):
    results = doctest.testmod(importlib.import_module(name))
    assert results.attempted > 0
    assert results.failed == 0


def test_path_on_real_data():
    folder = os.environ.get("DUALGAP_DATA")
    if not folder:
        pytest.skip("DUALGAP_DATA is not set")
    data = dualgap.datasets.load(Path(folder) / "heart_scale.svm.xz")
    path = svm_path(data.X, data.y, np.geomspace(0.01, 1000.0, 20), gap_tol=1e-6)
    assert path.relative_gaps.max() <= 1e-6
    assert path.skipped.any()
