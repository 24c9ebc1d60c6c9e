"""Blocks that grow: the same solutions as from whole matrices, of fewer entries, and nothing else changed."""

import gc
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

import dualgap
from dualgap import Kernel, Status, build, make_gram, solve
from dualgap.kernels import fused, row_on_demand
from dualgap.solvers import _block_growing, block
from dualgap.solvers._block_growing import GrowingBlock
from dualgap.solvers._block_select import thresholds
from dualgap.solvers._block_vector import STRIDE

sys.path.insert(0, str(Path(__file__).parents[1]))
from oracles import clarabel_solution
from problems import FORMULATIONS, ROWS, problem

needs_tiles = pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has no tiles, of which rows are made")


@pytest.fixture
def no_demand(monkeypatch):
    """No block whose rows compiled code makes for itself, as where their columns fill more than a cache."""
    monkeypatch.setattr(row_on_demand, "_CACHED", 0)


@pytest.fixture
def growing(monkeypatch, no_demand):
    """Let all blocks grow, eight rows at a time."""
    monkeypatch.setattr(block, "_GROWN", 0.0)
    monkeypatch.setattr(block, "_GROWN_ENTRY", 0.0)
    monkeypatch.setattr(_block_growing, "_BATCH", 8)
    made = []
    before = GrowingBlock.steps
    monkeypatch.setattr(GrowingBlock, "steps", lambda self, *a: made.append(self) or before(self, *a))
    return made


def pair_of_classes(n=600, d=130, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, d)) + 0.35 * y[:, None]
    return X, y


@needs_tiles
@pytest.mark.parametrize("row", ROWS)
def test_same_optimum_as_clarabel(row, growing, monkeypatch):
    monkeypatch.setattr(block, "_ALL", 0.0)  # those that do not start at 0 begin with a part of all otherwise
    p = problem(row, n=150 // FORMULATIONS[row].copies)
    _, _, optimum, status = clarabel_solution(p)
    assert status == "Solved"
    result = solve(p, "block", gap_tol=1e-8)
    assert result.status is Status.CONVERGED
    assert -result.certificate.dual == pytest.approx(optimum, rel=1e-7, abs=1e-7)
    assert growing


@needs_tiles
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("bias", [True, False])
def test_few_rows_are_made(bias, precision, monkeypatch, no_demand):
    X, y = pair_of_classes()
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=2e-3)), y, C=1.0, bias=bias)
    found = {}
    for least in (0.0, np.inf):
        monkeypatch.setattr(block, "_GROWN", least)
        found[least] = solve(p, "block", tol=1e-5, precision=precision)
    grown, whole = found[0.0], found[np.inf]
    assert grown.certificate.kkt_violation <= 1e-5 * (1 + 1e-9)
    assert grown.certificate.dual == pytest.approx(whole.certificate.dual, rel=1e-6)
    assert grown.kernel_evaluations < 0.6 * whole.kernel_evaluations


@needs_tiles
def test_runs_are_the_same_whatever_the_threads(growing):
    X, y = pair_of_classes()
    a = [
        solve(build("c_svc", make_gram(X, Kernel("rbf", gamma=2e-3), n_jobs=jobs), y, C=1.0), "block", tol=1e-4).a
        for jobs in (1, 2)
    ]
    assert growing
    assert np.array_equal(*a)


@needs_tiles
def test_iterations_are_limited(growing):
    X, y = pair_of_classes()
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=2e-3)), y, C=1.0)
    result = solve(p, "block", tol=1e-6, max_iter=17, warn=False)
    assert growing
    assert result.status is Status.MAX_ITER
    assert result.iterations == 17


@needs_tiles
def test_memory_goes_with_the_run(growing):
    X, y = pair_of_classes(300)
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=2e-3)), y, C=1.0)
    gc.collect()
    gc.disable()
    try:
        solve(p, "block", tol=1e-3)
        held = [weakref.ref(one) for one in growing]
        assert held
        growing.clear()
        assert all(one() is None for one in held)
    finally:
        gc.enable()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(6))
def test_steps_lead_to_the_goal_from_any_point(seed, dtype):
    """Variables alone, a group, and a filled-up stride; slopes follow the moves, and only rows that were made move."""
    rng = np.random.default_rng(seed)
    sizes = np.array([STRIDE, 2 * STRIDE, STRIDE])
    segments = np.concatenate([[0], np.cumsum(sizes)])
    q = int(segments[-1])
    A = rng.normal(size=(q, 40))
    H = (A @ A.T / 40 + np.eye(q)).astype(dtype).astype(np.float64)
    lo, hi = np.zeros(q), rng.uniform(0.5, 2.0, size=q)
    filling = np.zeros(q, dtype=bool)
    filling[-5:] = True
    u = np.where(rng.uniform(size=q) < 0.3, 0.5 * hi, 0.0)
    lo[filling] = hi[filling] = u[filling]
    linear = rng.normal(size=q)
    before, slope = u.copy(), (H @ u + linear).astype(dtype)
    asked = []

    def make(which, rows):
        asked.extend(which)
        rows[:] = H[which]

    grown = GrowingBlock(np.arange(q), filling, segments, np.diag(H), np.full((q, q), np.nan, dtype=dtype), make)
    done = grown.steps(slope, u, lo, hi, 1e-3, 100_000)
    group = np.repeat([-1, 0, 1], sizes)
    gradient = H @ u + linear
    assert 0 < done < 100_000
    assert thresholds(gradient, u, lo, hi, group, 2)[2] <= 2e-3
    assert slope == pytest.approx(gradient, abs=1e-4)
    assert np.all((u >= lo) & (u <= hi))
    for g in (0, 1):
        assert u[group == g].sum() == pytest.approx(before[group == g].sum(), rel=1e-12)
    moved = np.flatnonzero(u != before)
    assert len(asked) == len(set(asked)) == grown.made
    assert set(moved) <= set(asked)
    assert not filling[asked].any()
    assert np.array_equal(grown.matrix[grown.rows(moved)], H[moved].astype(dtype))


@needs_tiles
def test_one_against_one_is_solved_by_growing_blocks(growing):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(3), 150)
    X = rng.normal(size=(450, 100)) + rng.normal(size=(3, 100))[y]
    model = dualgap.SVC(gamma=2e-3, gap_tol=1e-6, n_jobs=2).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-6
    assert len(growing) >= 3


@needs_tiles
@pytest.mark.parametrize(("n", "d", "grows"), [(1200, 130, True), (300, 130, False), (1200, 4, False)])
def test_blocks_grow_where_entries_are_many_and_dear(n, d, grows, monkeypatch, no_demand):
    made = []
    before = GrowingBlock.steps
    monkeypatch.setattr(GrowingBlock, "steps", lambda self, *a: made.append(self) or before(self, *a))
    X, y = pair_of_classes(n, d)
    solve(build("c_svc", make_gram(X, Kernel("rbf", gamma=2e-3)), y), "block", tol=1e-2)
    assert bool(made) == grows
