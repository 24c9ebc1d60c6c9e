"""Nonzero words sixteen at a time are those that one at a time finds."""

import numpy as np
import pytest

from dualgap.kernels import matrix_unit
from dualgap.kernels._word_nonzeros import nonzero_words
from dualgap.kernels.packing import nonzeros_in_order

pytestmark = pytest.mark.skipif(not matrix_unit.has_word_products(), reason="this CPU has no dot-product instructions")


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("count", "words"), [(1, 1), (7, 16), (50, 40), (100, 130), (49, 300)])
def test_words_and_their_places(count, words, share):
    rng = np.random.default_rng(words)
    rows = rng.integers(1, 2**31, (2 * count, words + 5)).astype(np.int32) * (
        rng.uniform(size=(2 * count, words + 5)) < share
    )
    rows = rows.astype(np.int32)
    points = rng.permutation(2 * count)[:count]
    values, which, starts = nonzero_words(rows, points, words)
    plain = np.ascontiguousarray(rows[:, :words])
    counts = np.count_nonzero(plain, axis=1)
    expected = nonzeros_in_order(plain, counts, points, np.zeros(plain.shape[1]), np.int32(1), np.dtype(np.int32), 1)
    assert np.array_equal(starts, expected[2])
    assert np.array_equal(values[: starts[-1]], expected[0][: starts[-1]])
    assert np.array_equal(which[: starts[-1]], expected[1][: starts[-1]])
