"""Products with a factor and the linear Gram on it, against dense NumPy in float64."""

import numpy as np
import pytest
import scipy.sparse as sp

from dualgap.kernels.factor import Factor
from dualgap.kernels.linear_gram import LinearGram

KINDS = ("dense64", "dense32", "csr64", "csr32", "csr32 long")


def matrix(kind, n=300, d=37, seed=0):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.4, rng.normal(size=(n, d)), 0.0)
    X = X.astype(np.float32 if "32" in kind else np.float64)
    if kind.startswith("dense"):
        return X
    A = sp.csr_matrix(X)
    if kind.endswith("long"):
        A.indices, A.indptr = A.indices.astype(np.int64), A.indptr.astype(np.int64)
    return A


def dense(A, constant=0.0):
    X = np.asarray(A.todense() if sp.issparse(A) else A, dtype=np.float64)
    return np.column_stack([X, np.full(len(X), constant)]) if constant else X


@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("kind", KINDS)
def test_products(kind, constant):
    A = matrix(kind)
    factor, X = Factor(A, constant), dense(A, constant)
    rng = np.random.default_rng(1)
    rows = np.sort(rng.permutation(300)[:120])
    p, c, weights = rng.normal(size=factor.d), rng.normal(size=120), rng.random(120)
    assert np.allclose(factor.products(p), X @ p, rtol=1e-12, atol=1e-12)
    assert np.allclose(factor.products(p, rows), X[rows] @ p, rtol=1e-12, atol=1e-12)
    assert np.allclose(factor.transposed(c, rows), X[rows].T @ c, rtol=1e-12, atol=1e-12)
    # Dense float32 rows are scaled and multiplied as they are: a Hessian may be rounded, a gradient may not.
    rough = 1e-5 if kind == "dense32" else 1e-12
    assert np.allclose(factor.cross(rows, weights), X[rows].T @ (weights[:, None] * X[rows]), rtol=rough, atol=rough)
    assert np.allclose(factor.cross(rows), X[rows].T @ X[rows], rtol=rough, atol=rough)
    signs = np.sign(rng.normal(size=120))
    out = np.empty(120)
    assert factor.products(p, rows, signs, out) is out
    assert np.allclose(out, signs * (X[rows] @ p), rtol=1e-12, atol=1e-12)
    some = c * (rng.random(120) < 0.5)
    assert np.allclose(factor.combined(some, signs, rows), X[rows].T @ (signs * some), rtol=1e-12, atol=1e-12)
    assert np.allclose(factor.inner(rows), X[rows] @ X[rows].T, rtol=1e-12, atol=1e-12)
    assert np.allclose(factor.inner(rows, rows[:7]), X[rows] @ X[rows[:7]].T, rtol=1e-12, atol=1e-12)
    assert np.allclose(factor.squared_norms(), (X * X).sum(axis=1), rtol=1e-12)


@pytest.mark.parametrize("kind", ["dense64", "csr32"])
def test_threads_change_nothing(kind):
    # Large enough to be shared out in many parts.
    A = matrix(kind, n=40_000, d=150)
    rng = np.random.default_rng(2)
    p, c, rows = rng.normal(size=150), rng.normal(size=40_000), np.arange(40_000)
    one, four = Factor(A, n_jobs=1), Factor(A, n_jobs=4)
    assert np.array_equal(one.products(p), four.products(p))
    assert np.array_equal(one.transposed(c, rows), four.transposed(c, rows))
    signs, some = np.sign(c), np.maximum(c, 0.0)
    assert np.array_equal(one.combined(some, signs, rows), four.combined(some, signs, rows))
    assert np.array_equal(one.cross(rows[:5000]), four.cross(rows[:5000]))


def test_nothing_chosen():
    factor = Factor(matrix("csr64"))
    none = np.zeros(0, dtype=np.intp)
    assert np.array_equal(factor.transposed(np.zeros(0), none), np.zeros(37))
    assert np.array_equal(factor.cross(none, np.zeros(0)), np.zeros((37, 37)))
    assert np.array_equal(factor.combined(np.zeros(3), np.ones(3), np.arange(3)), np.zeros(37))


@pytest.mark.parametrize("kind", KINDS)
def test_linear_gram_is_the_matrix(kind):
    A = matrix(kind)
    gram, X = LinearGram(A, 0.5), dense(A)
    K = X @ X.T + 0.5
    rng = np.random.default_rng(3)
    rows, weights = np.array([5, 2, 200]), rng.normal(size=300) * (rng.random(300) < 0.5)
    out = np.ones(300)
    gram.accumulate(out, rows, np.array([1.0, -2.0, 0.5]))
    assert np.allclose(gram.diag(), np.diag(K))
    assert np.allclose(gram.rows(rows), K[rows])
    assert np.allclose(gram.block(rows, rows[:2]), K[np.ix_(rows, rows[:2])])
    assert np.allclose(out, 1.0 + K[:, rows] @ [1.0, -2.0, 0.5])
    assert np.allclose(gram.exact(weights), K @ weights)
    assert np.allclose(gram.exact(weights, rows), K[rows] @ weights)


def test_negative_constant_is_refused():
    with pytest.raises(ValueError, match="constant must not be negative; got -1"):
        LinearGram(np.eye(3), -1.0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [1, 7, 8, 22, 64, 65, 130])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cross_products_by_tiles_and_by_blas(dtype, d, weighted):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(700, d)).astype(dtype)
    rows = np.sort(rng.permutation(700)[:601])  # more than one block, the last of them not full
    weights = rng.random(601) if weighted else None
    wide = X[rows].astype(np.float64)
    expected = wide.T @ (wide if weights is None else weights[:, None] * wide)
    square = Factor(X).cross(rows, weights)
    assert np.allclose(square, expected, rtol=1e-12, atol=1e-11)
    assert np.array_equal(square, square.T)
