"""Face steps of coordinate descent: their equations against dense ones, and what they are there for."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from dualgap import build, factored_gram, solve
from dualgap.kernels.linear_rows import rows_of
from dualgap.result import Status
from dualgap.solvers import dcd
from dualgap.solvers._dcd_bias import penalties
from dualgap.solvers._dcd_face import Faces
from dualgap.solvers._dcd_items import Items
from dualgap.solvers._dcd_layout import LOWER, UPPER, VALUE

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution


def counts(n=300, d=400, seed=0):
    """Rows like counts of words: a few of them a hundred times as long as the others, some of them with both labels."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.05, format="csr", random_state=rng, data_rvs=lambda k: 1.0 + rng.poisson(1.0, size=k))
    X = sp.csr_matrix(X.multiply(np.exp(1.5 * rng.normal(size=n))[:, None]))
    y = np.where(X @ rng.normal(size=d) > 0.0, 1.0, -1.0)
    y[::15] *= -1.0
    return sp.vstack([X, X[:10]]).tocsr(), np.concatenate([y, -y[:10]])


def faces_of(p):
    """Faces, items and weights at the middle of the box, all items being free."""
    rho = penalties(p) if p.k else np.empty(0)
    items = Items(p, rho)
    top = np.where(np.isfinite(items.table[:, UPPER]), items.table[:, UPPER], 2.0)
    items.table[:, VALUE] = 0.5 * (items.table[:, LOWER] + top)
    rows = rows_of(p.gram.factor)
    w = p.gram.factor.T @ items.on_points()
    return Faces(rows, items, 0.0, rho), items, w


def objective(p, items):
    a = items.point_of_box()
    return 0.5 * float(np.sum((p.gram.factor.T @ p.on_points(a)) ** 2) + p.ridge @ a**2) + float(p.f0 @ a)


@pytest.mark.parametrize("row", ["c_svc", "squared_hinge"])
@pytest.mark.parametrize("dense", [False, True])
def test_a_step_lowers_the_objective_within_the_box_and_keeps_the_weights(row, dense):
    X, y = counts()
    p = build(row, factored_gram(X.toarray() if dense else X), y, C=10.0, bias=False)
    faces, items, w = faces_of(p)
    before = objective(p, items)
    assert faces.step(np.full((2, p.n), -np.inf), w, np.zeros(1), 1e9, lambda: False)
    assert objective(p, items) < before
    assert np.all((items.table[:, VALUE] >= items.table[:, LOWER]) & (items.table[:, VALUE] <= items.table[:, UPPER]))
    np.testing.assert_allclose(w, p.gram.factor.T @ items.on_points(), atol=1e-8 * np.abs(w).max())
    assert np.all(faces.number == -1)


def test_free_items_are_solved_for_as_dense_equations_say():
    X, y = counts(60, 400)
    p = build("squared_hinge", factored_gram(X), y, C=10.0, bias=False)
    faces, items, w = faces_of(p)
    items.table[:, LOWER] = -np.inf  # nothing is cut
    for _ in range(12):  # each to a tenth of the residual
        faces.step(np.full((2, p.n), -np.inf), w, np.zeros(1), 1e9, lambda: False)
    Z = X.multiply(y[:, None]).toarray()
    expected = np.linalg.solve(Z @ Z.T + np.diag(p.ridge), -p.f0)
    np.testing.assert_allclose(items.table[:, VALUE], expected, rtol=1e-6, atol=1e-8)


def test_no_more_entries_are_read_than_passes_allow():
    X, y = counts()
    p = build("squared_hinge", factored_gram(X), y, C=10.0, bias=False)
    faces, _, w = faces_of(p)
    kept = w.copy()
    faces.step(np.full((2, p.n), -np.inf), w, np.zeros(1), X.nnz / 8.0, lambda: False)
    assert faces.entries == 0.0
    np.testing.assert_array_equal(w, kept)
    faces.step(np.full((2, p.n), -np.inf), w, np.zeros(1), X.nnz, lambda: False)
    assert 0.0 < faces.entries <= 9.0 * X.nnz


@pytest.mark.parametrize("C", [10.0, 1000.0])
def test_squared_hinge_on_counts_ends_at_clarabels_optimum_where_passes_alone_creep(C, monkeypatch):
    X, y = counts(150, 200)
    p = build("squared_hinge", factored_gram(X), y, C=C, bias=False)
    result = solve(p, "dcd", gap_tol=1e-9, max_iter=10_000)
    assert result.status is Status.CONVERGED
    _, _, value, _ = clarabel_solution(p)
    assert -result.certificate.dual == pytest.approx(value, rel=1e-6)
    monkeypatch.setattr(dcd, "Faces", lambda *_: None)
    alone = solve(p, "dcd", gap_tol=1e-9, max_iter=10_000, warn=False)
    assert alone.certificate.relative_gap > 1e-3


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("row", ["c_svc", "eps_svr", "squared_eps_svr"])
def test_other_losses_and_an_exact_bias_end_at_the_same_optimum_as_newton(row, bias):
    X, y = counts(150, 200)
    target = y if row == "c_svc" else y * 3.0 + 0.5
    more = {} if row == "c_svc" else {"epsilon": 0.1}
    p = build(row, factored_gram(X), target, C=1.0, bias=bias, **more)
    ours, reference = (solve(p, name, gap_tol=1e-8) for name in ("dcd", "newton"))
    assert ours.status is Status.CONVERGED
    assert ours.certificate.primal == pytest.approx(reference.certificate.primal, rel=1e-7)


@pytest.mark.parametrize(
    ("row", "before", "now", "promising"),
    [
        ("c_svc", 0.5, 0.1, True),  # 0.1 * 0.1 / 0.5 is the goal itself
        ("c_svc", 0.4, 0.1, False),
        ("c_svc", 0.1, 0.1, False),  # nothing was gained
        ("squared_hinge", 0.5, 0.1, False),  # with a ridge a step is worth its price near the goal, too
    ],
)
def test_a_step_is_left_out_where_passes_are_about_to_arrive(row, before, now, promising):
    X, y = counts()
    p = build(row, factored_gram(X), y, C=1.0, bias=False)
    run = dcd._Run(p, dcd.Options(gap_tol=0.02 * (1.0 + 1e-12)), lambda snapshot: False, np.zeros(p.n))
    run.before, run.relative = before, now
    assert run.promising() is promising
    run.near = dcd._NEVER  # passes that go by the violation know no gap
    assert not run.promising()


def test_hinge_on_counts_takes_steps_until_passes_arrive(monkeypatch):
    X, y = counts()
    p = build("c_svc", factored_gram(X), y, C=10.0, bias=False)
    gaps, steps, step = [1.0], [], Faces.step

    def noted(*arguments):
        steps.append((gaps[-2], gaps[-1]))
        return step(*arguments)

    monkeypatch.setattr(Faces, "step", noted)
    goal = 1e-6
    result = solve(p, "dcd", gap_tol=goal, callback=lambda event: gaps.append(event.relative_gap))
    assert result.status is Status.CONVERGED
    looks = list(pairwise(gaps))[:-1]
    assert steps
    assert steps == [(before, now) for before, now in looks if now**2 > goal * before]


def test_a_stop_within_a_face_step_is_heard(monkeypatch):
    monkeypatch.setattr("dualgap.solvers._dcd_face.CHUNK", 1)  # asked after every product
    X, y = counts()
    p = build("squared_hinge", factored_gram(X), y, C=1000.0, bias=False)
    seen = []

    def callback(snapshot):
        seen.append(snapshot.gradient is None)
        return seen[-1]

    outcome = dcd.solve(p, dcd.Options(tol=1e-10), callback)
    assert outcome.status is Status.STOPPED
    assert seen.count(True) == 1
    assert not seen[-1]  # what is handed back has been reported
    assert np.all(outcome.a >= 0.0)
