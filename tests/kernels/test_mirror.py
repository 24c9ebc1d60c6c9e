"""The other triangle by squares in registers: every size, whole or in pieces."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from dualgap.kernels.mirror import mirror


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 31, 64, 100, 129])
def test_the_lower_triangle_becomes_the_upper_one(n, dtype):
    matrix = np.random.default_rng(n).normal(size=(n, n)).astype(dtype)
    expected = np.triu(matrix) + np.triu(matrix, 1).T
    mirror(matrix, 0, n)
    np.testing.assert_array_equal(matrix, expected)


@pytest.mark.parametrize("ends", [(0, 3, 70, 100), (0, 16, 48, 100), (0, 0, 1, 99, 100)])
def test_pieces_make_the_whole_whatever_their_order(ends):
    matrix = np.random.default_rng(0).normal(size=(100, 100)).astype(np.float32)
    expected = np.triu(matrix) + np.triu(matrix, 1).T
    for begin, end in list(pairwise(ends))[::-1]:
        mirror(matrix, begin, end)
    np.testing.assert_array_equal(matrix, expected)
