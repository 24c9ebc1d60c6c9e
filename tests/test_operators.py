"""Products with matrices of every kind; no copies, no upcasting."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator

import dualgap
from dualgap.operators import Counted, as_operator, exact


class Own:
    """A user's own map."""

    def __init__(self, A):
        self.A, self.shape = A, A.shape

    def matvec(self, x):
        return self.A @ x

    def rmatvec(self, u):
        return self.A.T @ u


MAKERS = {
    "array": lambda A: A,
    "fortran": np.asfortranarray,
    "float32": lambda A: A.astype(np.float32),
    "fortran float32": lambda A: np.asfortranarray(A.astype(np.float32)),
    "strided float32": lambda A: np.repeat(A.astype(np.float32), 2, axis=1)[:, ::2],
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "coo": sp.coo_matrix,
    "csr float32": lambda A: sp.csr_matrix(A.astype(np.float32)),
    "csc float32": lambda A: sp.csc_matrix(A.astype(np.float32)),
    "csr array": sp.csr_array,
    "integers": lambda A: A.astype(int),
    "linear operator": aslinearoperator,
    "own": Own,
}


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("kind", MAKERS)
def test_products(kind, bias):
    rng = np.random.default_rng(0)
    A = np.round(rng.normal(size=(23, 11)) * 4)  # whole numbers: float32 holds them exactly
    operator = as_operator(MAKERS[kind](A), bias=bias)
    full = np.column_stack([A, np.ones(23)]) if bias else A
    assert tuple(operator.shape) == full.shape
    x, u = rng.normal(size=full.shape[1]), rng.normal(size=23)
    assert operator.matvec(x) == pytest.approx(full @ x, rel=1e-13, abs=1e-13)
    assert operator.rmatvec(u) == pytest.approx(full.T @ u, rel=1e-13, abs=1e-13)


@pytest.mark.parametrize("kind", ["float32", "csr float32", "csc float32", "fortran float32"])
def test_float32_is_not_upcast_and_bias_does_not_copy(kind):
    A = np.random.default_rng(0).normal(size=(500, 400)).astype(np.float32)
    operator = as_operator(MAKERS[kind](A), bias=True)
    x, u = np.ones(401), np.ones(500)
    operator.matvec(x), operator.rmatvec(u)  # compile
    tracemalloc.start()
    operator.matvec(x), operator.rmatvec(u)
    as_operator(MAKERS["array"](A), bias=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < A.nbytes / 2


def test_kernel_matrices():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.3), kind="cached")
    K = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    operator = as_operator(gram, bias=True)
    x, u = rng.normal(size=41), rng.normal(size=40)
    assert operator.matvec(x) == pytest.approx(K @ x[:-1] + x[-1], rel=1e-10)
    assert operator.rmatvec(u) == pytest.approx([*(K @ u), u.sum()], rel=1e-10)
    assert exact(operator).matvec(x) == pytest.approx(K @ x[:-1] + x[-1], rel=1e-12)
    assert operator.quadratic(x, operator.matvec(x)) == pytest.approx([*(K @ x[:-1]), 0.0], rel=1e-10)


def test_products_are_counted():
    A = Counted(as_operator(np.eye(3)))
    A.matvec(np.ones(3)), A.matvec(np.ones(3)), A.rmatvec(np.ones(3))
    assert (A.forward, A.backward, A.products) == (2, 1, 3)


@pytest.mark.parametrize(
    ("A", "error", "message"),
    [
        (np.ones(3), ValueError, "two-dimensional"),
        (np.array([[np.nan]]), ValueError, "finite"),
        (sp.csr_matrix([[np.inf]]), ValueError, "finite"),
        ("matrix", TypeError, "must be an array"),
    ],
)
def test_bad_matrices(A, error, message):
    with pytest.raises(error, match=message):
        as_operator(A)
