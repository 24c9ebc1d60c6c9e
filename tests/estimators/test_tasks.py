"""Several tasks over one Gram matrix: side by side they give the model they give one after another."""

import threading
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

import dualgap
from dualgap.estimators import base
from dualgap.kernels import gram as grams

X, Y = load_digits(return_X_y=True)
X, Y = X[:500], Y[:500]


@pytest.fixture(autouse=True)
def any_task_is_worth_a_thread(monkeypatch):
    monkeypatch.setattr(base, "_WORTH_A_THREAD", 0.0)


def fitted(estimator, n_jobs, labels=Y, **parameters):
    return estimator(n_jobs=n_jobs, **parameters).fit(X[: len(labels)], labels)


def same(one, other):
    for name in ("support_", "dual_coef_", "intercept_", "n_iter_", "n_support_"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.certificates_ == other.certificates_
    assert one.certificate_ == other.certificate_
    assert one.solver_ == other.solver_


@pytest.mark.parametrize("solver", ["auto", "block"])
@pytest.mark.parametrize("estimator", [dualgap.SVC, dualgap.NuSVC])
def test_side_by_side_is_the_same_model_bit_for_bit(estimator, solver):
    parameters = {"nu": 0.1} if estimator is dualgap.NuSVC else {"C": 5.0}
    models = [fitted(estimator, n_jobs, solver=solver, gap_tol=1e-6, **parameters) for n_jobs in (1, 3)]
    assert len(models[0].certificates_) == 45
    assert max(c.relative_gap for c in models[0].certificates_) <= 1e-6
    for model in models[1:]:
        same(models[0], model)


@pytest.mark.parametrize("kernel", ["laplacian", "linear", "precomputed"])
def test_other_kernels_side_by_side(kernel):
    labels = Y % 4
    data = X @ X.T / 500.0 if kernel == "precomputed" else X
    models = [
        dualgap.SVC(kernel=kernel, gamma=0.01, C=0.1, n_jobs=n_jobs, solver="block", gap_tol=1e-5).fit(data, labels)
        for n_jobs in (1, 2)
    ]
    same(*models)


def threads_used(monkeypatch, **parameters):
    """The threads on which the tasks of a fit run, in the order of the tasks."""
    used = []
    original = base.KernelSVM._solve_task

    def watched(self, gram, y, weight, phi, **place):
        used.append((threading.current_thread().name, int(np.flatnonzero(weight)[0])))
        return original(self, gram, y, weight, phi, **place)

    monkeypatch.setattr(base.KernelSVM, "_solve_task", watched)
    model = dualgap.SVC(n_jobs=3, **parameters).fit(X, Y)
    assert len(used) == 45
    return {name for name, _ in used}, model


def test_small_tasks_run_on_several_threads(monkeypatch):
    meet = threading.Barrier(3)
    original = base.KernelSVM._solve_task

    def meeting(self, *arguments, **place):
        meet.wait(timeout=20)  # passes only when three tasks are under way at once
        return original(self, *arguments, **place)

    monkeypatch.setattr(base.KernelSVM, "_solve_task", meeting)
    dualgap.SVC(n_jobs=3).fit(X, Y % 3)


@pytest.mark.parametrize("watched", ["callback", "verbose", "smo"])
def test_tasks_that_are_watched_run_in_order(watched, monkeypatch, capsys):
    seen = []
    parameters = {
        "callback": {"callback": lambda event: seen.append((threading.current_thread().name, event)) or False},
        "verbose": {"verbose": True},
        "smo": {"solver": "smo"},
    }[watched]
    names, model = threads_used(monkeypatch, **parameters)
    assert names == {threading.current_thread().name}
    if watched == "callback":
        assert {name for name, _ in seen} == names
        assert [event for _, event in seen] == [event for history in model.history_ for event in history.events]
    same(model, fitted(dualgap.SVC, 1, solver=parameters.get("solver", "auto")))


def test_large_tasks_run_in_order(monkeypatch):
    monkeypatch.setattr(base, "_SIDE_BY_SIDE", 100)
    names, _ = threads_used(monkeypatch)
    assert names == {threading.current_thread().name}


def test_tasks_that_are_mostly_python_run_in_order(monkeypatch):
    monkeypatch.undo()
    names, _ = threads_used(monkeypatch)
    assert names == {threading.current_thread().name}


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_an_error_in_a_task_propagates(n_jobs, monkeypatch):
    count = []

    def failing(self, *arguments, **place):
        count.append(0)
        if len(count) == 5:
            raise RuntimeError("the fifth task")
        return original(self, *arguments, **place)

    original = base.KernelSVM._solve_task
    monkeypatch.setattr(base.KernelSVM, "_solve_task", failing)
    with pytest.raises(RuntimeError, match="the fifth task"):
        fitted(dualgap.SVC, n_jobs)
    assert len(count) < 45


def test_an_infeasible_pair_of_several_has_a_machine_all_the_same():
    labels = np.where(np.arange(200) < 190, 0, 1 + np.arange(200) % 2)
    models = []
    for n_jobs in (1, 2):
        with pytest.warns(UserWarning, match=r"nu=0\.9 exceeds .* = 0\.0512821 .*penalised"):
            models.append(fitted(dualgap.NuSVC, n_jobs, labels, nu=0.9))
    same(*models)
    assert models[0].certificate_.relative_gap < 1e-3


def test_ending_short_is_told_once():
    for n_jobs in (1, 2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = fitted(dualgap.SVC, n_jobs, max_iter=3, solver="block")
        assert [w.category for w in told] == [ConvergenceWarning]
        assert model.status_ is dualgap.Status.MAX_ITER
        assert model.n_iter_.max() <= 3


@pytest.mark.parametrize("solver", ["auto", "block"])
def test_the_matrix_is_computed_at_most_once(solver, monkeypatch):
    """However many tasks there are."""
    calls = []
    original = grams.full_matrix
    monkeypatch.setattr(grams, "full_matrix", lambda *arguments: calls.append(0) or original(*arguments))
    fitted(dualgap.SVC, 2, solver=solver)
    assert len(calls) <= 1
