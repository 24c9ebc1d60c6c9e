"""Leaps between pair steps: against dense linear algebra, their bounds and sums, and what they save."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dualgap import Kernel, Status, build, make_gram, solve
from dualgap.solvers import _block_pairs, block
from dualgap.solvers._block_leap import leap, leaping_steps
from dualgap.solvers._block_vector import STRIDE

N = 4 * STRIDE


def _matrix(seed: int, dtype: type, gamma: float = 0.3) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(N, 3))
    squares = np.sum((X[:, None] - X[None]) ** 2, axis=2)
    return np.ascontiguousarray(np.exp(-gamma * squares), dtype=dtype)


def _whole(K: np.ndarray) -> tuple[object, ...]:
    """A matrix all of whose rows are there, as pair steps take it."""
    return K, np.arange(len(K)), np.diag(K).copy(), ()


def _segments(groups: int) -> np.ndarray:
    return np.concatenate([[0], np.linspace(0, N, groups + 1).astype(int)]) if groups else np.array([0, N])


def _sums(values: np.ndarray, segments: np.ndarray) -> np.ndarray:
    return np.array([values[a:b].sum() for a, b in pairwise(segments[1:])])


def _ways(rng: np.random.Generator, K: np.ndarray, segments: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    ways = rng.normal(size=(2, N))
    for begin, end in pairwise(segments[1:]):
        ways[:, begin:end] -= ways[:, begin:end].mean(axis=1, keepdims=True)
    return ways, (ways @ K.astype(np.float64)).astype(K.dtype)


@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("count", [1, 2])
def test_the_least_point_of_a_plane(groups, count):
    rng, K, segments = np.random.default_rng(3), _matrix(3, np.float64), _segments(groups)
    ways, images = _ways(rng, K, segments)
    slope = rng.normal(size=N)
    D = ways[:count].T.copy()
    expected = D @ np.linalg.solve(D.T @ K @ D, -D.T @ slope)
    u, wide = np.zeros(N), np.full(N, 1e3)
    after = slope.copy()
    assert leap(_whole(K), after, u, -wide, wide, segments, ways, images, count)
    assert u == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())
    assert after == pytest.approx(slope + K @ u, abs=1e-9 * np.abs(slope).max())
    assert np.abs(_sums(u, segments)).max(initial=0.0) <= 1e-14 * np.abs(u).sum()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("groups", [0, 1, 2])
def test_leaps_stay_in_the_box_keep_sums_and_fall(groups, seed):
    """From a point with variables at bounds, in a box that the least point of the plane leaves."""
    rng, K, segments = np.random.default_rng(seed), _matrix(seed, np.float64), _segments(groups)
    lo, hi = -rng.uniform(0.5, 3.0, size=N), rng.uniform(0.5, 3.0, size=N)
    u = np.clip(0.8 * rng.normal(size=N), lo, hi)
    slope = K @ (rng.normal(size=N) + u)
    ways, images = _ways(rng, K, segments)
    before, slopes = u.copy(), slope.copy()
    taken = leap(_whole(K), slope, u, lo, hi, segments, ways, images, 2)
    if not taken:
        assert np.array_equal(u, before)
        assert np.array_equal(slope, slopes)
        return
    assert np.all((lo <= u) & (u <= hi))
    assert np.all((u == before)[(before == lo) | (before == hi)])
    moved = u - before
    assert np.abs(_sums(moved, segments)).max(initial=0.0) <= 1e-13 * np.abs(moved).sum()
    assert slope == pytest.approx(slopes + K @ moved, abs=1e-9 * np.abs(slopes).max())
    assert moved @ (slopes + 0.5 * K @ moved) < 0.0


def test_most_of_these_leaps_are_taken():
    taken = 0
    for seed in range(20):
        rng, K, segments = np.random.default_rng(seed), _matrix(seed, np.float64), _segments(1)
        lo, hi = -rng.uniform(2.0, 6.0, size=N), rng.uniform(2.0, 6.0, size=N)
        u = np.clip(rng.normal(size=N), lo, hi)
        ways, images = _ways(rng, K, segments)
        taken += leap(_whole(K), K @ (rng.normal(size=N) + u), u, lo, hi, segments, ways, images, 2)
    assert taken >= 15


@pytest.mark.parametrize(("dtype", "tol"), [(np.float32, 1e-3), (np.float64, 1e-6)])
@pytest.mark.parametrize("groups", [0, 1, 2])
def test_leaping_steps_end_where_steps_do_after_fewer(dtype, tol, groups):
    rng, K, segments = np.random.default_rng(5), _matrix(5, dtype), _segments(groups)
    K[np.diag_indices(N)] += dtype(1e-2)
    f, hi = rng.normal(size=N), np.full(N, 50.0)
    ends, counts = [], []
    for method in (_block_pairs.steps, leaping_steps):
        u, slope = np.zeros(N), f.astype(dtype)
        counts.append(method(_whole(K), slope, u, -hi, hi, segments, tol, 10**6))
        H = K.astype(np.float64)
        ends.append(0.5 * u @ H @ u + f @ u)
        assert np.all(np.abs(u) <= hi)
        assert np.abs(_sums(u, segments)).max(initial=0.0) <= 1e-11
    assert ends[1] == pytest.approx(ends[0], rel=10.0 * tol)
    assert counts[1] < 0.8 * counts[0]


@pytest.mark.parametrize("most", [0, 1, N, N + 1, N + 100])
def test_no_more_steps_than_allowed(most):
    rng, K, segments = np.random.default_rng(5), _matrix(5, np.float32), _segments(1)
    u, slope, hi = np.zeros(N), rng.normal(size=N).astype(np.float32), np.full(N, 50.0)
    assert leaping_steps(_whole(K), slope, u, -hi, hi, segments, 1e-6, most) == most


def test_leaps_save_steps_of_a_whole_run(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2600, 4))
    y = np.where(np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=2600) > 0.0, 1.0, -1.0)
    p = build("c_svc", make_gram(X, Kernel("rbf", gamma=0.5)), y, C=100.0)
    leaping = solve(p, "block", tol=1e-3)
    monkeypatch.setattr(block, "leaping_steps", _block_pairs.steps)
    walking = solve(p, "block", tol=1e-3)
    assert leaping.status is walking.status is Status.CONVERGED
    assert leaping.certificate.infeasibility <= 1e-12
    assert leaping.certificate.dual == pytest.approx(walking.certificate.dual, rel=1e-3)
    assert leaping.iterations < 0.8 * walking.iterations
