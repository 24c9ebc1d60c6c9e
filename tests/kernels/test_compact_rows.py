"""Rows of two-byte columns and float32 values: the same products, or none at all."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import dualgap.kernels.compact_rows as compact
from dualgap import LinearSVC, build, solve
from dualgap.kernels.compact_rows import compact_rows
from dualgap.kernels.linear_gram import LinearGram
from dualgap.kernels.linear_rows import combination, margins, rows_of


def counts(n=400, d=3000, seed=0):
    """Rows like texts: few words each, most of them once, negative numbers among them."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, 0.02, "csr", random_state=rng)
    X.data = rng.integers(1, 900, X.nnz) * 0.125 * rng.choice([-1.0, 1.0], X.nnz)
    return X


@pytest.fixture(autouse=True)
def any_size_is_worth_it(monkeypatch):
    monkeypatch.setattr(compact, "_WORTH_PACKING", 0)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_products_are_the_same_bit_for_bit(index):
    X = counts()
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    rows, packed, rng = rows_of(X), compact_rows(X), np.random.default_rng(1)
    assert packed is not None
    assert (packed.indices.dtype, packed.values.dtype) == (np.uint16, np.float32)
    assert packed.indptr is X.indptr
    w, c = rng.normal(size=3000), rng.normal(size=400)
    np.testing.assert_array_equal(margins(packed, w), margins(rows, w))
    np.testing.assert_array_equal(combination(packed, c), combination(rows, c))


def test_the_last_column_that_two_bytes_can_name():
    for d, fits in ((1 << 16, True), ((1 << 16) + 1, False)):
        X = sp.csr_matrix((np.ones(2), np.array([0, d - 1]), np.array([0, 2])), shape=(1, d))
        packed = compact_rows(X)
        assert (packed is not None) == fits
        if packed is not None:
            assert packed.indices.tolist() == [0, d - 1]


@pytest.mark.parametrize("value", [0.1, 1e300, 1e-300, 1.0 + 2.0**-40, np.nan])
@pytest.mark.parametrize("place", [0, 5000, -1])
def test_one_value_that_float32_cannot_hold_is_found_wherever_it_is(value, place):
    X = counts()
    assert X.nnz > 5000
    X.data[place] = value
    assert compact_rows(X) is None


def test_other_matrices_are_left_alone(monkeypatch):
    X = counts()
    assert compact_rows(X.toarray()) is None
    assert compact_rows(X.astype(np.float32)) is None
    assert compact_rows(X.tocsc()) is None
    monkeypatch.setattr(compact, "_WORTH_PACKING", X.nnz + 1)
    assert compact_rows(X) is None


@pytest.mark.parametrize(("row", "bias"), [("c_svc", False), ("squared_hinge", False), ("c_svc", True)])
def test_coordinate_descent_takes_the_same_steps(row, bias):
    X = counts()
    y = np.where(X @ np.random.default_rng(2).normal(size=3000) > 0.0, 1.0, -1.0)
    y[::7] *= -1.0
    gram, plain = LinearGram(X), LinearGram(X)
    assert gram.quick_rows.values.dtype == np.float32
    plain.__dict__["quick_rows"] = rows_of(X)
    ours, other = (solve(build(row, g, y, C=1.0, bias=bias), "dcd", gap_tol=1e-8) for g in (gram, plain))
    assert ours.certificate.relative_gap <= 1e-8
    assert ours.iterations == other.iterations
    np.testing.assert_array_equal(ours.a, other.a)


def test_the_estimator_leaves_the_data_as_it_was():
    X = counts()
    y = X @ np.random.default_rng(2).normal(size=3000) > 0.0
    before = X.copy()
    model = LinearSVC(loss="hinge", C=0.1, gap_tol=1e-7, max_iter=-1).fit(X, y)
    assert model.certificate_.relative_gap <= 1e-7
    assert model.solver_.startswith("dcd")
    np.testing.assert_array_equal(X.data, before.data)
    assert X.data.dtype == np.float64
