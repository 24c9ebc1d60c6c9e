"""The judge of linear machines, the weights it is given, and the data they are of."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import hinge_loss
from sklearn.svm import LinearSVC

from dualgap.bench.linear_data import generated, read_data
from dualgap.bench.linear_libraries import LIBRARIES, PEERS, LinearAssignment
from dualgap.bench.linear_problems import LinearMachine
from dualgap.bench.linear_scoring import LinearJudge, Weights, primal_objective
from dualgap.bench.packages import OURS
from dualgap.bench.samples import read_samples, subset, write_samples
from dualgap.bench.worker import _fit

X, Y = subset(*read_data("breast_cancer"), 200)
# With C = 0.1, LIBLINEAR's 300 iterations are enough.
MACHINES = [LinearMachine(loss, 0.1, intercept) for loss in ("hinge", "squared_hinge") for intercept in (False, True)]
each_machine = pytest.mark.parametrize("machine", MACHINES, ids=str)


def solved(library, machine, goal, samples=X):
    return _fit(LIBRARIES[library].prepare(samples, Y, machine, 1)(goal)).solution


def solved_apart(library, machine, goal, samples):
    """The same in a process of its own: importing snapml makes a whole process take subnormal numbers for zero."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as apart:
        return apart.submit(solved, library, machine, goal, samples).result()


def judge_of(machine, samples=X):
    judge = LinearJudge(samples, Y, machine)
    judge.refer_to(solved(OURS, machine, {"gap_tol": 1e-10, "reference": 1.0}, samples))
    return judge


@each_machine
def test_the_reference_is_the_optimum_that_liblinear_finds(machine):
    model = LinearSVC(
        loss=machine.loss, C=machine.C, fit_intercept=machine.intercept, dual=True, tol=1e-10, max_iter=10**6
    ).fit(X, Y)
    b = model.intercept_[0] if machine.intercept else 0.0
    found = primal_objective(X, Y, machine, model.coef_[0], b)
    assert judge_of(machine).dual == pytest.approx(found, rel=1e-7)


def test_the_objective_is_the_usual_one():
    w = np.linspace(-1.0, 1.0, X.shape[1])
    usual = 0.5 * (w @ w + 0.09) + 3.0 * len(Y) * hinge_loss(Y, X @ w + 0.3)
    assert primal_objective(X, Y, LinearMachine("hinge", 3.0, True), w, 0.3) == pytest.approx(usual)


@each_machine
def test_our_weights_are_as_good_as_their_proof(machine):
    judge = judge_of(machine)
    solution = solved(OURS, machine, {"gap_tol": 1e-4})
    score = judge.score(solution)
    assert 0.0 < score.gap <= score.certified + 1e-10
    assert score.certified <= 1e-4
    assert solution.claimed == (pytest.approx(primal_objective(X, Y, machine, solution.w, solution.b)), score.certified)
    with pytest.raises(ValueError, match="its certificate states a primal objective"):
        judge.score(replace(solution, w=1.01 * solution.w))
    assert solution.history[-1][1] <= 1e-4


@each_machine
@pytest.mark.parametrize("library", PEERS)
def test_weights_of_peers_are_read_as_they_are_meant(library, machine):
    reason = LIBRARIES[library].absence(machine)
    if reason:
        pytest.skip(f"{library} {reason}")
    if library == "skglm" and not os.environ.get("DUALGAP_TEST_SKGLM"):
        pytest.skip("skglm compiles for half a minute in every process; set DUALGAP_TEST_SKGLM=1 to have it tested")
    samples = sp.csr_matrix(X)
    goal = {**LIBRARIES[library].goal, **LIBRARIES[library].raised()}
    solve = solved_apart if library.startswith("snapml") else solved
    loose, tight = (
        judge_of(machine).score(solve(library, machine, {**goal, "tol": tol}, samples)) for tol in (0.3, 1e-5)
    )
    # sgd goes by the clock of its steps, and snapml's threads undo each other.
    assert tight.gap < (0.3 if library in ("sgd", "snapml", "snapml-threads") else 1e-4)
    assert tight.gap <= loose.gap
    assert tight.certified is None


def test_liblinear_says_where_its_iterations_ran_out():
    machine = LinearMachine("hinge", 1e4)
    reason = LIBRARIES["liblinear"].absence(machine)
    if reason:
        pytest.skip(f"liblinear {reason}")
    answer = _fit(LIBRARIES["liblinear"].prepare(X, Y, machine, 1)({"tol": 1e-8}))
    assert answer.warning == "reaching max number of iterations"


def test_skglm_does_not_hide_that_it_ran_out_of_iterations(monkeypatch):
    class Stub:
        def __init__(self, C, fit_intercept, tol, max_iter):
            self.max_iter, self.coef_ = max_iter, np.zeros((1, 30))

        def fit(self, samples, y):
            self.n_iter_ = min(50, self.max_iter)

    monkeypatch.setitem(sys.modules, "skglm", SimpleNamespace(LinearSVC=Stub))
    ready = LIBRARIES["skglm"].prepare(X, Y, MACHINES[0], 1)
    assert _fit(ready({"tol": 1e-4, "max_iter": 50})).warning == "all of its 50 working sets are used up"
    assert _fit(ready({"tol": 1e-4, "max_iter": 51})).warning == ""


def test_wrong_weights_are_not_taken_for_good_ones():
    machine = MACHINES[0]
    judge, right = judge_of(machine), solved(OURS, MACHINES[0], {"gap_tol": 1e-4})
    assert judge.score(Weights(right.w[::-1].copy())).gap > 0.3
    assert judge.score(Weights(np.zeros_like(right.w))).gap > 0.3
    for broken in (right.w[:-1], np.full_like(right.w, np.nan)):
        with pytest.raises(ValueError, match="not finite numbers, one a feature"):
            judge.score(Weights(broken))
    with pytest.raises(ValueError, match="no reference"):
        LinearJudge(X, Y, machine).score(right)


def test_nobody_is_better_than_the_reference_can_tell():
    judge = LinearJudge(X, Y, MACHINES[0])
    coarse = judge.refer_to(solved(OURS, MACHINES[0], {"gap_tol": 1e-2, "reference": 1.0})).relative_gap
    assert coarse > 1e-8
    assert judge.score(solved(OURS, MACHINES[0], {"gap_tol": 1e-10})).gap >= coarse * (1.0 - 1e-9)


def test_single_precision_and_sparse_samples_are_judged_as_they_are():
    samples = sp.csr_matrix(X, dtype=np.float32)
    score = judge_of(MACHINES[0], samples).score(solved(OURS, MACHINES[0], {"gap_tol": 1e-6}, samples))
    assert score.gap <= score.certified + 1e-10 <= 2e-6


def test_a_seed_reaches_the_solver_that_draws():
    # More features than newton is taken for at once.
    wide = sp.csr_matrix(np.hstack([X, np.zeros((len(X), 1200))]))
    found = [solved(OURS, MACHINES[0], {"gap_tol": 1e-2, "seed": seed}, wide) for seed in (0, 0, 1)]
    assert found[0].solver.startswith("dcd")
    assert np.array_equal(found[0].w, found[1].w)
    assert not np.array_equal(found[0].w, found[2].w)


# -- samples ---------------------------------------------------------------------------------------------------


def test_sparse_samples_travel_as_they_are(tmp_path):
    samples = sp.random(50, 20, 0.2, format="csr", dtype=np.float32, random_state=0)
    write_samples(tmp_path, samples, np.ones(50), ("float32",))
    read, y = read_samples(tmp_path, "float32")
    assert read.dtype == np.float32
    assert (read != samples).nnz == 0
    assert y.sum() == 50
    part, labels = subset(read, np.r_[np.ones(25), -np.ones(25)], 10)
    assert part.shape == (10, 20)
    assert labels.sum() == 0


def test_a_process_starts_with_a_warm_up(tmp_path):
    write_samples(tmp_path, X, Y, ("float64",))
    ready, took = LinearAssignment(OURS, "float64", MACHINES[0], tmp_path, 1).start()
    assert took > 0.0
    assert _fit(ready({"gap_tol": 1e-3})).solution.w.shape == (30,)


def test_the_generated_set_is_what_it_is_said_to_be():
    samples, y = generated(5000, 2000, 20, seed=3)
    assert samples.shape == (5000, 2000)
    assert samples.dtype == np.float32
    assert samples.nnz == 5000 * 20
    indices = samples.indices.reshape(5000, 20)
    assert np.all(np.diff(indices, axis=1) > 0)  # sorted, and none twice
    assert np.allclose(np.sqrt(samples.multiply(samples).sum(axis=1)), 1.0, atol=1e-5)
    assert set(y) == {-1.0, 1.0}
    assert 0.4 < np.mean(y > 0) < 0.6
    popularity = np.sort(np.bincount(samples.indices, minlength=2000))[::-1]
    # Popularity 1 / (rank + 30): the first hundredth of the columns holds log(50 / 30) / log(2030 / 30) of everything.
    assert popularity[:20].sum() == pytest.approx(0.121 * samples.nnz, rel=0.05)
    assert popularity.min() > 0
    again, labels = generated(5000, 2000, 20, seed=3)
    assert np.array_equal(again.indices, samples.indices)
    assert np.array_equal(again.data, samples.data)
    assert np.array_equal(labels, y)
    with pytest.raises(ValueError, match="too many for 10 columns"):
        generated(5, 10, 20)


def test_quick_takes_a_small_generated_set():
    samples, y = read_data("generated", quick=True)
    assert samples.shape == (50_000, 20_000)
    assert samples.nnz == 2_500_000
    assert len(y) == 50_000


@pytest.mark.parametrize(("name", "shape"), [("news20", (15935, 62061)), ("reuters", (7770, 8315))])
def test_real_sets_are_what_the_table_says(name, shape, data_folder):
    samples, y = read_data(name)
    assert samples.shape == shape
    assert sp.issparse(samples)
    assert set(y) == {-1.0, 1.0}
