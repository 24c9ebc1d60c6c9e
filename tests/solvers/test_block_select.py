"""Choosing active sets: who is near to moving, and the largest scores without sorting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.solvers._block_select import eagerness, largest

NUMBERS = st.one_of(st.floats(-1e3, 1e3), st.sampled_from([-np.inf, np.inf, 0.0, -0.0, 1.0, -1.0, 1e-300]))


@given(st.lists(NUMBERS, min_size=1, max_size=200), st.data())
def test_the_largest_are_taken_and_hardly_more(values, data):
    scores = np.array(values)
    count = data.draw(st.integers(1, scores.size))
    taken = largest(scores, count)
    assert np.all(np.diff(taken) > 0)
    assert taken.size >= count
    least = np.sort(scores)[scores.size - count]
    assert set(np.flatnonzero(scores >= least)) <= set(taken)
    if np.isfinite(least):
        assert np.all(scores[taken] >= least - 2.0**-20 * max(abs(least), 2.0**-1022))
    else:
        assert np.all(scores[taken] >= least)


@pytest.mark.parametrize("count", [1, 1000, 30_000, 99_999])
def test_the_largest_of_many(count):
    scores = np.random.default_rng(count).normal(size=100_000)
    taken = largest(scores, count)
    assert np.array_equal(np.sort(scores[taken])[-count:], np.sort(scores)[-count:])
    assert taken.size <= count + 3


def test_eagerness_by_its_definition():
    rng = np.random.default_rng(0)
    n = 300
    gradient, group = rng.normal(size=n), rng.integers(-1, 2, size=n)
    lo, hi = np.zeros(n), np.where(rng.random(n) < 0.1, 0.0, 1.0)
    u = np.clip(rng.choice([0.0, 0.4, 1.0], size=n), lo, hi)
    middle = np.array([0.0, 0.3, -0.2])
    aside = rng.random(n) < 0.2
    slope = gradient - middle[group + 1]
    score = np.maximum(np.where(u < hi, -slope, -np.inf), np.where(u > lo, slope, -np.inf))
    score[(u < hi) & (u > lo)] = np.inf
    expected_aside = aside | (score < -0.8)
    eager, near, violating = eagerness(gradient, u, lo, hi, group, middle, aside, -0.8)
    assert np.array_equal(aside, expected_aside)
    assert np.array_equal(eager, np.where(expected_aside, -np.inf, score))
    assert near == np.count_nonzero(~expected_aside)
    assert violating == np.count_nonzero((score > 0.0) & ~expected_aside)
