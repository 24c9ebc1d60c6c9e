"""Products with single rows, dense and CSR, against numpy."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest
import scipy.sparse as sp

from dualgap.kernels.linear_rows import FUSED, add_row, combination, dot_row, margins, rows_of

# Below and above every width that is multiplied at once, and where something is left over.
_WIDTHS = (1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 22, 31, 32, 33, 40, 63, 64, 65, 123)


@nb.njit(fastmath=FUSED)
def _dot(indptr, indices, values, i, w):
    return dot_row(indptr, indices, values, i, w)


@nb.njit(fastmath=FUSED)
def _add(indptr, indices, values, i, scale, w):
    add_row(indptr, indices, values, i, scale, w)


def _matrix(d, dtype, sparse):
    rng = np.random.default_rng(d)
    dense = (rng.normal(size=(5, d)) * (rng.random((5, d)) < 0.6)).astype(dtype)
    return dense.astype(np.float64), (sp.csr_matrix(dense) if sparse else dense)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_are_multiplied_and_added_in_float64(dtype, sparse):
    for d in _WIDTHS:
        dense, A = _matrix(d, dtype, sparse)
        arrays = rows_of(A).arrays
        # What lies behind the weights must stay: masked entries are not written.
        room = np.full(d + 16, 7.0)
        room[:d] = np.random.default_rng(1).normal(size=d)
        w = room[:d]
        for i in range(5):
            bound = 4 * d * np.finfo(np.float64).eps * (np.abs(dense[i]) @ np.abs(w))
            assert abs(_dot(*arrays, i, w) - dense[i] @ w) <= bound
            expected = w + 0.3 * dense[i]
            _add(*arrays, i, 0.3, w)
            np.testing.assert_allclose(w, expected, rtol=4 * np.finfo(np.float64).eps, atol=1e-15)
        assert np.all(room[d:] == 7.0)


@pytest.mark.parametrize("sparse", [False, True])
def test_products_with_all_rows(sparse):
    dense, A = _matrix(22, np.float32, sparse)
    rows, rng = rows_of(A), np.random.default_rng(2)
    w, c = rng.normal(size=22), rng.normal(size=5)
    np.testing.assert_allclose(margins(rows, w), dense @ w, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(combination(rows, c), dense.T @ c, rtol=1e-13, atol=1e-13)
