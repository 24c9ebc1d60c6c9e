"""Kept rows: the least recently used make room, never those asked for now, and values stay right."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.kernels.row_cache import RowCache, add_rows, gather

N = 20
MATRIX = np.random.default_rng(0).normal(size=(N, N)).astype(np.float32)


class Counting:
    """Computes rows of `MATRIX` and remembers which."""

    def __init__(self):
        self.computed = []

    def __call__(self, points, out):
        assert out.shape == (len(points), N)
        self.computed.extend(points.tolist())
        out[...] = MATRIX[points]


def held(cache):
    return set(np.flatnonzero(cache.slot >= 0).tolist())


def check_values(cache):
    present = np.flatnonzero(cache.slot >= 0)
    slots = cache.slot[present]
    assert np.array_equal(cache.values[slots], MATRIX[present])
    assert np.unique(slots).size == slots.size


requests = st.lists(st.lists(st.integers(0, N - 1), min_size=1, max_size=8, unique=True), min_size=1, max_size=25)


@given(requests, st.integers(1, N))
def test_least_recently_used_make_room(asked, capacity):
    """Against a plain list of requests: what is held, what is computed, how much there is."""
    cache, compute = RowCache(N, capacity), Counting()
    used_at, expected = {}, []
    for clock, points in enumerate(asked):
        cache.load(np.array(points), compute)
        present = [point for point in points if point in used_at]
        for point in present:
            used_at[point] = clock
        missing = [point for point in points if point not in used_at]
        for point in missing:
            if len(used_at) == capacity:
                oldest = min(used_at, key=used_at.get)
                if used_at[oldest] == clock:
                    break  # all of them are asked for now
                # Which of several equally old ones goes is not promised: follow the cache.
                gone = [p for p, at in used_at.items() if at == used_at[oldest] and p not in held(cache)]
                del used_at[gone[0] if gone else oldest]
            used_at[point] = clock
            expected.append(point)
        assert held(cache) == set(used_at)
        assert len(held(cache)) <= capacity
        check_values(cache)
    assert compute.computed == expected


@given(requests, st.integers(1, N))
def test_what_is_asked_for_now_stays(asked, capacity):
    cache, compute = RowCache(N, capacity), Counting()
    for points in asked:
        before = held(cache)
        cache.load(np.array(points), compute)
        assert before & set(points) <= held(cache)
        assert len(set(points) & held(cache)) == min(len(points), capacity)


def test_more_than_fit_are_held_as_far_as_they_fit():
    cache, compute = RowCache(N, 6), Counting()
    cache.load(np.arange(N), compute)
    assert held(cache) == set(range(6))
    cache.load(np.arange(10, N), compute)
    assert held(cache) == set(range(10, 16))
    check_values(cache)


def test_many_rows_at_once():
    """More than are computed together, into places that do not lie side by side."""
    n = 500
    matrix = np.random.default_rng(1).normal(size=(n, n)).astype(np.float32)

    def compute(points, out):
        out[...] = matrix[points]

    cache = RowCache(n, 300)
    cache.load(np.arange(0, 300), compute)
    cache.load(np.arange(0, 300, 2), compute)  # the odd ones are now the older
    cache.load(np.arange(350, 490), compute)
    assert np.all(cache.slot[np.arange(0, 300, 2)] >= 0)
    assert np.all(cache.slot[np.arange(350, 490)] >= 0)
    present = np.flatnonzero(cache.slot >= 0)
    assert present.size == 300
    assert np.array_equal(cache.values[cache.slot[present]], matrix[present])


def test_complete_when_every_row_is_here():
    cache, compute = RowCache(N, N), Counting()
    cache.load(np.arange(N - 1), compute)
    assert not cache.complete
    cache.load(np.array([N - 1, 0]), compute)
    assert cache.complete
    cache.load(np.arange(N), compute)
    assert compute.computed == list(range(N))
    check_values(cache)


@given(st.lists(st.lists(st.integers(0, N - 1), min_size=1, max_size=30), min_size=1, max_size=10), st.integers(1, N))
def test_points_asked_for_twice_take_one_place(asked, capacity):
    """Regression has two variables a point, and blocks are filled up with copies of their last variable."""
    cache, compute = RowCache(N, capacity), Counting()
    for points in asked:
        before = held(cache)
        cache.load(np.array(points), compute)
        assert before & set(points) <= held(cache)
        assert len(held(cache) & set(points)) == min(len(set(points)), capacity)
        assert cache.complete == (len(held(cache)) == N)
        check_values(cache)


def test_an_interrupted_computation_leaves_the_rest_in_order():
    cache, compute = RowCache(N, 5), Counting()
    cache.load(np.arange(5), compute)

    def interrupted(points, out):
        out[...] = np.nan
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.load(np.array([7, 8]), interrupted)
    check_values(cache)
    for points in ([9, 10, 11, 12, 13], [1, 2, 3, 4, 5]):
        cache.load(np.array(points), compute)
        assert held(cache) == set(points)
        check_values(cache)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("chosen", [False, True])
def test_weighted_rows_are_added(chosen, count, threads):
    """Longer rows than a thread's piece."""
    n, rng = 9000, np.random.default_rng(2)
    cache = RowCache(n, 10)
    rows = rng.normal(size=(10, n)).astype(np.float32)

    def compute(points, out):
        out[...] = rows[points]

    cache.load(np.arange(10), compute)
    which, weights = rng.permutation(10)[:count], rng.normal(size=count)
    columns = rng.permutation(n)[:8500] if chosen else None
    out = np.ones(8500 if chosen else n)
    cache.add(out, cache.slot[which], weights, columns, threads)
    expected = 1.0 + weights @ rows[which].astype(np.float64)
    assert out == pytest.approx(expected[columns] if chosen else expected, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gather_and_add_take_any_dtype(dtype):
    rng = np.random.default_rng(3)
    values = rng.normal(size=(12, 15)).astype(dtype)
    which, columns, weights = rng.integers(12, size=7), rng.integers(15, size=9), rng.normal(size=7)
    out = np.empty((7, 9), dtype=dtype)
    gather(values, which, columns, out)
    assert np.array_equal(out, values[np.ix_(which, columns)])
    sums = np.zeros(9)
    add_rows(values, which, weights, columns, sums)
    assert sums == pytest.approx(weights @ values[np.ix_(which, columns)], rel=1e-5)


def test_part_of_the_columns_is_added_from_where_it_begins():
    rng = np.random.default_rng(4)
    values, which, weights = rng.normal(size=(12, 15)), rng.integers(12, size=7), rng.normal(size=7)
    sums = np.zeros(6)
    add_rows(values, which, weights, None, sums, 5)
    assert sums == pytest.approx(weights @ values[which, 5:11], rel=1e-12)
