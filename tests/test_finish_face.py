"""Compiled steps of `finish` against NumPy's linear algebra."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dualgap._finish_face import minimise_on_face, signed_matrix


@pytest.mark.parametrize("k", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_minimiser_inside_the_box_solves_the_system(n, k):
    rng = np.random.default_rng(n + k)
    A = rng.normal(size=(n, n + 2))
    H, f0, F = A @ A.T + np.eye(n), rng.normal(size=n), rng.normal(size=(n, min(k, n)))
    inside = rng.normal(size=n)
    e, a = F.T @ inside, np.zeros(n)
    assert minimise_on_face(H, f0, F, e, np.full(n, -1e3), np.full(n, 1e3), a)
    m = F.shape[1]
    system = np.block([[H, F], [F.T, np.zeros((m, m))]])
    assert_allclose(a, np.linalg.solve(system, np.concatenate([-f0, e]))[:n], rtol=1e-8, atol=1e-10)


def test_bounds_that_are_met_are_kept():
    H, f0, hi = np.eye(3), np.array([-0.5, -5.0, 0.2]), np.array([1.0, 1.0, 1.0])
    a = np.array([0.1, 0.1, 0.0])  # the last one is at its bound, and stays there
    assert minimise_on_face(H, f0, np.zeros((3, 0)), np.zeros(0), np.zeros(3), hi, a)
    assert_allclose(a, [0.5, 1.0, 0.0])


def test_constraints_that_depend_on_each_other():
    H, f0 = np.eye(4), np.array([-1.0, -2.0, -3.0, -4.0])
    F = np.ones((4, 2))
    a = np.full(4, 0.5)
    assert minimise_on_face(H, f0, F, np.array([2.0, 2.0]), np.full(4, -9.0), np.full(4, 9.0), a)
    assert_allclose(a, [-1.0, 0.0, 1.0, 2.0], atol=1e-9)


def test_indefinite_block_leads_nowhere():
    H = np.array([[1.0, 2.0], [2.0, 1.0]])
    a = np.full(2, 0.5)
    assert not minimise_on_face(H, np.zeros(2), np.zeros((2, 0)), np.zeros(0), np.zeros(2), np.ones(2), a)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signed_matrix_is_symmetric(dtype):
    rng = np.random.default_rng(0)
    matrix, place = rng.normal(size=(6, 6)).astype(dtype), np.array([0, 2, 5, 2])
    sign, ridge = np.array([1.0, -1.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0, 2.0])
    block = matrix.astype(np.float64)[np.ix_(place, place)]
    expected = np.outer(sign, sign) * 0.5 * (block + block.T) + np.diag(ridge)
    assert_allclose(signed_matrix(matrix, place, sign, ridge), expected, rtol=1e-15)
