"""Rows in blocks of bytes: the same matrix as before, and none where the values are not levels."""

from __future__ import annotations

import numba as nb
import numpy as np
import pytest
import scipy.sparse as sp

from dualgap import LinearSVC, build, solve
from dualgap.kernels import level_rows as module
from dualgap.kernels.level_rows import level_rows
from dualgap.kernels.linear_gram import LinearGram
from dualgap.kernels.linear_rows import FUSED, add_row, combination, dot_row, margins, rows_of


@nb.njit(fastmath=FUSED)
def _dot(indptr, indices, values, i, w):
    return dot_row(indptr, indices, values, i, w)


@nb.njit(fastmath=FUSED)
def _add(indptr, indices, values, i, scale, w):
    add_row(indptr, indices, values, i, scale, w)


@pytest.fixture(autouse=True)
def small_is_worth_it(monkeypatch):
    monkeypatch.setattr(module, "_WORTH_PACKING", 0)


def pictures(n=40, d=60, seed=0, step=1.0 / 255.0):
    """Grey levels: strokes of a few neighbouring columns, two in a row, and a row of nothing."""
    rng = np.random.default_rng(seed)
    levels = np.zeros((n, d))
    for i in range(1, n):
        for begin in rng.integers(0, d, size=3):
            width = levels[i, begin : begin + 9].size
            levels[i, begin : begin + 9] = rng.integers(1, 256, size=width)
    levels[1, :9] = 255.0
    return levels * step if step != 1.0 / 255.0 else levels / 255.0


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("d", [1, 7, 8, 9, 60, 64, 600])
def test_products_are_those_of_the_matrix(d, sparse):
    X = pictures(d=d)
    rows = level_rows(sp.csr_matrix(X) if sparse else X)
    assert rows.in_blocks
    assert rows.d == -(-d // 8) * 8
    rng = np.random.default_rng(1)
    w = np.zeros(rows.d)
    w[:d] = rng.normal(size=d)
    c = rng.normal(size=X.shape[0])
    np.testing.assert_allclose(margins(rows, w), X @ w[:d], rtol=1e-13, atol=1e-13)
    total = combination(rows, c)
    np.testing.assert_allclose(total[:d], X.T @ c, rtol=1e-13, atol=1e-13)
    assert np.all(total[d:] == 0.0)
    for i in (0, 1, X.shape[0] - 1):
        assert _dot(*rows.arrays, i, w) == pytest.approx(X[i] @ w[:d], rel=1e-13, abs=1e-13)
        expected = w[:d] + 0.3 * X[i]
        _add(*rows.arrays, i, 0.3, w)
        np.testing.assert_allclose(w[:d], expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("step", [1.0, 0.1, 2.0**-8, 3e-7])
def test_any_step_will_do(step):
    X = pictures(step=step)
    rows = level_rows(sp.csr_matrix(X))
    w = np.zeros(rows.d)
    w[:60] = 1.0
    np.testing.assert_allclose(margins(rows, w), X.sum(axis=1), rtol=1e-13)


def test_large_matrices_are_packed_piece_by_piece(monkeypatch):
    X = sp.csr_matrix(pictures())
    whole = level_rows(X)
    monkeypatch.setattr(module, "CHUNK", 100)
    for one, other in zip(level_rows(X).arrays, whole.arrays, strict=True):
        np.testing.assert_array_equal(one, other)


def changed(value):
    X = sp.csr_matrix(pictures())
    X.data[X.nnz // 2 + 1] = value
    return X


@pytest.mark.parametrize("sampled", [10, 4000])
def test_what_is_not_of_this_kind_is_left_alone(monkeypatch, sampled):
    monkeypatch.setattr(module, "_SAMPLED", sampled)  # the value that is none is seen at once, or in the pass
    X = sp.csr_matrix(pictures())
    backwards = X.copy()
    backwards.indices, backwards.data = X.indices.copy(), X.data.copy()
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        backwards.indices[part] = X.indices[part][::-1]
    backwards.has_sorted_indices = False
    lonely = sp.csr_matrix(np.kron(np.eye(40), np.r_[1.0, np.zeros(8)]))
    assert level_rows(X) is not None
    for other in (
        X.astype(np.float32),
        X.tocsc(),
        backwards,
        changed(0.5001 / 255.0),
        changed(-1.0 / 255.0),
        changed(256.0 / 255.0),
        changed(np.nan),
        changed(np.inf),
        sp.csr_matrix(np.random.default_rng(0).normal(size=(40, 60))),
        sp.csr_matrix((40, 60)),
        sp.csr_matrix((X.data, X.indices, X.indptr), shape=(40, 8 * 70_000)),
    ):
        assert level_rows(other) is None
    monkeypatch.setattr(module, "_SLACK", 0)
    assert level_rows(lonely) is None
    monkeypatch.setattr(module, "_WORTH_PACKING", 10_000)
    assert level_rows(X) is None


def test_a_value_that_is_no_level_is_found_in_dense_rows_too():
    X = pictures()
    X[39, 59] = 0.5001 / 255.0
    assert level_rows(X) is None


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge"])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_coordinate_descent_ends_at_the_same_optimum(C, row, sparse):
    X = pictures(300, 60)
    y = np.where(X @ np.random.default_rng(2).normal(size=60) > 0.0, 1.0, -1.0)
    y[::11] *= -1.0
    A = sp.csr_matrix(X) if sparse else X
    gram = LinearGram(A, 1.0)
    assert gram.quick_rows.in_blocks
    plain = LinearGram(A, 1.0)
    plain.__dict__["quick_rows"] = rows_of(A)
    ours, other = (solve(build(row, g, y, C=C, bias=False), "dcd", gap_tol=1e-9) for g in (gram, plain))
    assert ours.certificate.relative_gap <= 1e-9
    assert ours.certificate.primal == pytest.approx(other.certificate.primal, rel=2e-9)


def test_the_estimator_is_as_good_with_blocks():
    X = pictures(300, 60)
    y = X @ np.random.default_rng(2).normal(size=60) > 0.0
    model = LinearSVC(loss="hinge", C=1.0, gap_tol=1e-8, max_iter=-1).fit(sp.csr_matrix(X), y)
    assert model.certificate_.relative_gap <= 1e-8
    assert model.coef_.shape == (1, 60)
    assert model.solver_.startswith("dcd")
    assert model.score(X, y) > 0.9
