"""A time limit is kept by every solver: within a second, counted in the process's own."""

from __future__ import annotations

import doctest
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import dualgap
from dualgap import Kernel, build, make_gram, solve
from dualgap import pace as pace_module
from dualgap.pace import Pace, proof_seconds
from dualgap.result import Status
from dualgap.solvers import COMPOSITE_SOLVERS, SOLVERS, ipm

sys.path.insert(0, str(Path(__file__).parent))
from processor import processor_seconds

LIMIT = 0.3
# What each takes: the row, whether the kernel is linear, the bias, and samples where the method cannot take them all.
TAKES = {
    "ipm": ("c_svc", False, True, 3000),
    "adatron": ("c_svc", False, False, None),
    "sor": ("c_svc", False, False, None),
    "dcd": ("c_svc", True, False, None),
    "newton": ("c_svc", True, True, None),
    "pegasos": ("c_svc", True, False, None),
    "pcd": ("squared_hinge", True, False, None),
}


def noisy(n, d=20):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.where(rng.random(n) < 0.2, -1.0, 1.0) * np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0.0, 1.0, -1.0)


def problem_for(name, n):
    row, linear, bias, most = TAKES.get(name, ("c_svc", False, True, None))
    X, y = noisy(min(n, most or n))
    kernel = Kernel("linear") if linear else Kernel("rbf", gamma=0.05)
    return build(row, make_gram(X, kernel, n_jobs=1), y, C=100.0, bias=bias)


@pytest.mark.parametrize("name", SOLVERS)
def test_time_limits_are_kept(name):
    with threadpool_limits(1):
        solve(problem_for(name, 300), name, gap_tol=1e-13, time_limit=0.1, warn=False)  # compiles
        problem = problem_for(name, 12_000)
        before = processor_seconds(os.getpid())
        result = solve(problem, name, gap_tol=1e-13, time_limit=LIMIT, warn=False)
        assert processor_seconds(os.getpid()) - before < LIMIT + 1.0
    # What converges, or knows that it cannot, may do so before.
    assert result.status in (Status.TIME_LIMIT, Status.CONVERGED, Status.STALLED, Status.MAX_ITER)
    if name in ("smo", "ipm", "rosen", "mpd", "adatron", "sor", "decomposition", "chunking"):
        assert result.status is Status.TIME_LIMIT
    assert result.certificate.infeasibility < 1e-9


@pytest.mark.parametrize("name", COMPOSITE_SOLVERS)
def test_time_limits_of_smooth_problems_are_kept(name):
    X, y = noisy(60_000, 40)
    loss = {"name": "logistic", "y": y, "C": 1e4}
    small = {"name": "logistic", "y": y[:200], "C": 1e4}
    with threadpool_limits(1):
        dualgap.minimize(small, X[:200], "l2", method=name, tol=1e-300, time_limit=0.1)
        before = processor_seconds(os.getpid())
        dualgap.minimize(loss, X, "l2", method=name, tol=1e-300, max_iter=10**9, time_limit=LIMIT)
        assert processor_seconds(os.getpid()) - before < LIMIT + 1.0


def test_steps_that_would_not_be_done_in_time_are_not_begun():
    """A factorisation of 4000 rows takes more than half a second on any core."""
    X, y = noisy(4000)
    problem = build("c_svc", make_gram(X, Kernel("rbf", gamma=0.05), n_jobs=1), y, C=1.0)
    result = solve(problem, "ipm", gap_tol=1e-9, time_limit=0.05, warn=False)
    assert result.status is Status.TIME_LIMIT
    assert result.iterations == 0
    assert "would have gone beyond" in result.status.message


def test_interior_point_steps_are_broken_off(monkeypatch):
    """What is asked for within a factorisation is answered there, with the point from before the step."""
    monkeypatch.setattr(ipm, "_LOOK_EACH", 0.0)
    X, y = noisy(1200)
    problem = build("c_svc", make_gram(X, Kernel("rbf", gamma=0.05), n_jobs=1), y, C=1.0)
    events = []

    def callback(event):
        events.append(event)
        return len([one for one in events if one.iteration == 2]) == 3

    result = solve(problem, "ipm", gap_tol=1e-9, callback=callback, warn=False)
    assert result.status is Status.STOPPED
    assert result.iterations == 2
    # The first of them is told before the step, the others from within it.
    assert [one.relative_gap for one in events[-3:]] == [events[-3].relative_gap] * 3
    assert result.certificate.relative_gap == pytest.approx(events[-3].relative_gap, rel=1e-6)


def test_time_is_put_by_for_the_certificate():
    pace = Pace(10.0)
    assert not pace.over(6.0, proof=4.0)
    assert pace.over(6.1, proof=4.5)
    # Half of the limit at most.
    assert not Pace(10.0).over(5.4, proof=1e6)
    assert Pace(10.0).over(5.6, proof=1e6)
    assert not Pace(None).over(1e9, ahead=1e9, proof=1e9)


def test_certificates_are_foretold_by_their_kernel_entries():
    X, y = noisy(400)
    kernel = build("c_svc", make_gram(X, Kernel("rbf", gamma=0.05), kind="cached", n_jobs=1), y)
    wide = build("c_svc", make_gram(np.tile(X, 40), Kernel("rbf", gamma=0.05), kind="cached", n_jobs=1), y)
    assert proof_seconds(kernel, 0) == 0.0
    assert proof_seconds(kernel, 200) == pytest.approx(2 * proof_seconds(kernel, 100))
    assert proof_seconds(wide, 100) > 10 * proof_seconds(kernel, 100)
    assert proof_seconds(build("c_svc", make_gram(X, Kernel("linear")), y), 100) == 0.0


def test_examples_run():
    assert doctest.testmod(pace_module).failed == 0
