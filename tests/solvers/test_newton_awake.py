"""Rounds of `newton` that read only the rows whose answers may change: the same solution, whatever was expected."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dualgap import build, solve
from dualgap.kernels.linear_gram import LinearGram
from dualgap.solvers import _newton_awake as module
from dualgap.solvers import _newton_steps, newton
from dualgap.solvers._newton_awake import awake
from dualgap.solvers._newton_steps import factor_of


@pytest.fixture(autouse=True)
def small_is_worth_it(monkeypatch):
    monkeypatch.setattr(module, "_LEAST", 0)


def hinge(n=900, d=12, *, sparse=False, constant=0.0, C=3.0, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.6, rng.normal(size=(n, d)), 0.0)
    y = np.where(X[:, 0] + 0.8 * rng.normal(size=n) > 0.0, 1.0, -1.0)
    return build("c_svc", LinearGram(sp.csr_matrix(X) if sparse else X, constant, 1), y, C=C, bias=False)


def spied(monkeypatch, moved=None):
    """Count the rounds that had some asleep, and the times that one of these had to change; maybe expect otherwise."""
    seen = {"narrow": 0, "changed": 0, "rows": 0}

    def choose(*arguments):
        some = awake(*arguments[:-1], arguments[-1] if moved is None or not np.isfinite(arguments[-1]) else moved)
        seen["narrow"] += some is not None
        seen["rows"] = max(seen["rows"], 0 if some is None else some.variables.size)
        return some

    wake = newton._Run._wake

    def woken(self):
        changed = wake(self)
        seen["changed"] += changed
        return changed

    monkeypatch.setattr(_newton_steps, "awake", choose)
    monkeypatch.setattr(newton._Run, "_wake", woken)
    return seen


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("constant", [0.0, 1.0])
def test_the_solution_is_the_same(sparse, constant, monkeypatch):
    problem = hinge(sparse=sparse, constant=constant)
    whole = hinge(sparse=sparse, constant=constant)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_LEAST", 10**9)
        expected = solve(whole, "newton", gap_tol=1e-11)
    seen = spied(monkeypatch)
    result = solve(problem, "newton", gap_tol=1e-11)
    assert seen["narrow"] > 0
    assert result.certificate.relative_gap <= 1e-11
    assert abs(result.certificate.primal - expected.certificate.primal) <= 1e-9 * expected.certificate.primal


def test_those_who_should_not_have_slept_are_found(monkeypatch):
    """With nobody expected to move, only free variables are awake; the others are found to change, and followed."""
    seen = spied(monkeypatch, moved=0.0)
    result = solve(hinge(), "newton", gap_tol=1e-11)
    assert seen["narrow"] > 0
    assert seen["changed"] > 0
    assert result.certificate.relative_gap <= 1e-11


def test_sums_over_the_others_follow_the_weights():
    problem = hinge()
    factor, rng = factor_of(problem.gram, 1), np.random.default_rng(3)
    top, kappa = float(problem.hi[0]), 0.05
    a, w = rng.random(problem.n) * top, 0.3 * rng.normal(size=factor.d)
    s = problem.sign * factor.products(w) + problem.f0
    raw = a - s / kappa
    t = np.clip(raw, 0.0, top)
    v = factor.combined(t, problem.sign, problem.index)
    least = top * float(np.minimum(s, 0.0).sum())
    some = awake(problem, factor, (raw, s, t, w, v), kappa, least, 0.1)
    assert some is not None
    others = np.setdiff1d(np.arange(problem.n), some.variables)
    assert 0 < some.variables.size < problem.n
    assert set(t[others]) <= {0.0, top}  # whoever is within the box is awake
    further = w + 0.001 * rng.normal(size=w.size)
    moved = problem.sign * factor.products(further) + problem.f0
    assert np.array_equal(np.clip(a - moved / kappa, 0.0, top)[others], t[others])
    assert some.least_of_others(further) == pytest.approx(float(t[others] @ moved[others]), rel=1e-10)


def test_too_many_awake_are_not_worth_it():
    problem = hinge(n=300)
    factor = factor_of(problem.gram, 1)
    zero = np.zeros(problem.n)
    state = zero, problem.f0, zero, np.zeros(factor.d), np.zeros(factor.d)
    assert awake(problem, factor, state, 1.0, 0.0, 1.0) is None
    assert awake(problem, factor, state, 1.0, 0.0, np.inf) is None
