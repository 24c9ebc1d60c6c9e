"""Rows that compiled code makes for itself: the same as by tiles, for every kind of data, once each."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest

from dualgap import Kernel, build, make_gram, solve
from dualgap.kernels import row_on_demand
from dualgap.kernels.fused import AVAILABLE, tile_columns
from dualgap.kernels.row_on_demand import need_row
from dualgap.solvers._block_leap import leap

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this CPU has no vector tiles")

Q = 4 * tile_columns(np.float32)


@nb.njit
def _rows_of(maker, wanted, rows, slot, diagonal):
    for i in wanted:
        need_row(maker, i, i, rows, slot, diagonal)


@nb.njit
def _rows_in_pairs(maker, wanted, rows, slot, diagonal):
    for i in wanted:
        need_row(maker, i, i + 1, rows, slot, diagonal)


def _data(kind: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    if kind == "dense":
        return rng.normal(size=(2 * Q, 7))
    if kind == "sparse":
        return rng.normal(size=(2 * Q, 60)) * (rng.random(size=(2 * Q, 60)) < 0.1)
    if kind == "two blocks":  # more features than `packing.FEATURES`
        return rng.normal(size=(2 * Q, 300)) * (rng.random(size=(2 * Q, 300)) < 0.05)
    if kind == "levels":
        return rng.integers(0, 16, size=(2 * Q, 16)) / 15.0
    return (rng.random(size=(2 * Q, 123)) < 0.1).astype(float)  # "one-hot"


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize("kind", ["dense", "sparse", "two blocks", "levels", "one-hot"])
def test_rows_are_those_of_the_tiles(kind, lasting, double):
    X = _data(kind)
    fused = make_gram(X, Kernel("rbf", gamma=0.5), n_jobs=1).fused
    fused = fused.double() if double else fused
    points = np.random.default_rng(1).permutation(len(X))[:Q]
    expected = fused.block(points, points)
    maker = fused.row_maker(points, lasting=lasting)
    if maker is None:
        pytest.skip("the matrix unit makes these entries")
    rows, slot = np.full((Q, Q), np.nan, dtype=fused.dtype), np.full(Q, -1)
    diagonal = np.full(Q, 2.0, dtype=fused.dtype)
    wanted = np.array([5, Q - 1, 0, 5, 49, 5])
    _rows_of(maker, wanted, rows, slot, diagonal)
    assert np.flatnonzero(slot >= 0).tolist() == [0, 5, 49, Q - 1]
    assert slot[[5, Q - 1, 0, 49]].tolist() == [0, 1, 2, 3]  # in the order in which they were asked for
    for i in (5, Q - 1, 0, 49):
        row, like = rows[slot[i]].copy(), expected[i].copy()
        assert row[i] == 2.0
        row[i] = like[i] = 1.0
        assert np.array_equal(row, like)
    assert np.all(np.isnan(rows[4:]))


@pytest.mark.parametrize("kind", ["dense", "sparse", "two blocks", "levels", "one-hot"])
def test_another_row_goes_along_where_it_has_not_been_made(kind):
    X = _data(kind)
    fused = make_gram(X, Kernel("rbf", gamma=0.5), n_jobs=1).fused
    points = np.random.default_rng(2).permutation(len(X))[:Q]
    maker = fused.row_maker(points, lasting=False)
    if maker is None:
        pytest.skip("the matrix unit makes these entries")
    rows, slot = np.full((Q, Q), np.nan, dtype=np.float32), np.full(Q, -1)
    _rows_in_pairs(maker, np.array([6, 5, 7, 47]), rows, slot, np.ones(Q, dtype=np.float32))
    made = np.flatnonzero(slot >= 0)
    assert made.tolist() == [5, 6, 7, 47, 48]  # 6 with 7; 5 alone, since 6 is there; nothing for 7; 47 with 48
    expected = fused.block(points, points)[made]
    expected[np.arange(5), made] = 1.0
    assert np.array_equal(rows[slot[made]], expected)
    assert np.all(np.isnan(rows[5:]))


@pytest.mark.parametrize("kernel", [Kernel("laplacian", gamma=0.3), Kernel("chi2", gamma=0.3)])
def test_other_exponentials(kernel):
    X = np.abs(_data("dense"))
    fused = make_gram(X, kernel, n_jobs=1).fused
    points = np.arange(Q)
    maker = fused.row_maker(points, lasting=False)
    rows, slot = np.empty((Q, Q), dtype=np.float32), np.full(Q, -1)
    _rows_of(maker, np.array([3, 17]), rows, slot, np.ones(Q, dtype=np.float32))
    np.testing.assert_allclose(rows[:2], fused.block(points, points)[[3, 17]], rtol=1e-6)


def test_no_maker_where_the_whole_is_made_sooner(monkeypatch):
    X = _data("dense")
    points = np.arange(Q)
    assert make_gram(X, Kernel("poly", gamma=0.5), n_jobs=1).fused.row_maker(points, lasting=False) is None
    many = make_gram(X, Kernel("rbf", gamma=0.5), n_jobs=64).fused
    assert many.row_maker(points, lasting=False) is None
    monkeypatch.setattr(row_on_demand, "_CACHED", 4 * 7 * Q - 1)
    assert make_gram(X, Kernel("rbf", gamma=0.5), n_jobs=1).fused.row_maker(points, lasting=False) is None


def test_a_maker_that_lasts_survives_the_next_one():
    X = _data("dense")
    fused = make_gram(X, Kernel("rbf", gamma=0.5), n_jobs=1).fused
    points, others = np.arange(Q), np.arange(Q, 2 * Q)
    maker = fused.row_maker(points, lasting=True)
    fused.row_maker(others, lasting=False)
    fused.block(others, others)
    rows, slot = np.empty((Q, Q), dtype=np.float32), np.full(Q, -1)
    _rows_of(maker, np.array([9]), rows, slot, np.ones(Q, dtype=np.float32))
    assert np.array_equal(rows[0], fused.block(points, points)[9])


def test_whoever_has_moved_has_a_row():
    """Leaps move some variables by no more than rounding: their rows are read afterwards all the same."""
    beside = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        fused = make_gram(rng.normal(size=(Q, 3)), Kernel("rbf", gamma=0.5), n_jobs=1).fused
        K = fused.block(np.arange(Q), np.arange(Q)).astype(np.float64)
        rows, slot = np.full((Q, Q), np.nan, dtype=np.float32), np.full(Q, -1)
        diagonal, maker = np.ones(Q, dtype=np.float32), fused.row_maker(np.arange(Q), lasting=False)
        _rows_of(maker, np.arange(40), rows, slot, diagonal)
        ways = np.zeros((2, Q))
        ways[0, :40] = rng.normal(size=40)
        ways[0, :40] -= ways[0, :40].mean()
        slope = (K @ rng.normal(size=Q)).astype(np.float32)
        u, hi = np.where(np.arange(Q) < 40, rng.normal(size=Q), 0.0), np.full(Q, 1e3)
        before = u.copy()
        images = (ways @ K).astype(np.float32)
        assert leap((rows, slot, diagonal, maker), slope, u, -hi, hi, np.array([0, 0, Q]), ways, images, 1)
        moved = u != before
        assert np.all(slot[moved] >= 0)
        assert np.all(np.isfinite(rows[slot[moved]]))
        beside += np.count_nonzero(moved[40:])
    assert beside > 0  # what sums missed by rounding was taken from somebody else


def test_a_small_budget_ends_at_the_same_point_as_a_large_one():
    """Where the rows of all moved variables are read: memory that nobody wrote to would be noticed."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(320, 4))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=320) > 0.0, 1.0, -1.0)
    duals = []
    for cache_size in (0.5, 100.0) * 10:
        gram = make_gram(X, Kernel("rbf", gamma=0.5), cache_size=cache_size, n_jobs=1)
        duals.append(solve(build("c_svc", gram, y, C=100.0), "block", tol=1e-6).certificate.dual)
    np.testing.assert_allclose(duals, duals[1], rtol=1e-7)


@pytest.mark.parametrize("row", ["c_svc", "eps_svr"])
def test_a_run_makes_fewer_entries_and_ends_at_the_same_point(row, monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(5000, 5))
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=5000) > 0.0, 1.0, -1.0)
    results = []
    for most in (4, 0):
        monkeypatch.setattr(row_on_demand, "_MOST_THREADS", most)
        gram = make_gram(X, Kernel("rbf", gamma=0.5), n_jobs=1)
        results.append(solve(build(row, gram, y, C=1.0), "block", tol=1e-4))
    demanded, whole = results
    assert demanded.iterations == whole.iterations
    np.testing.assert_array_equal(demanded.a, whole.a)
    assert demanded.kernel_evaluations < whole.kernel_evaluations
