"""Cross products by bytes: whole numbers without any rounding, however many rows there are and whoever adds them up."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dualgap import LinearSVC
from dualgap.kernels import level_cross as module
from dualgap.kernels import level_rows as packing
from dualgap.kernels.factor import Factor
from dualgap.kernels.level_rows import level_rows
from dualgap.kernels.linear_gram import LinearGram
from dualgap.solvers._newton_steps import factor_of

pytestmark = pytest.mark.skipif(not module.available(), reason="the CPU has no products of bytes")


@pytest.fixture(autouse=True)
def small_is_worth_it(monkeypatch):
    monkeypatch.setattr(packing, "_WORTH_PACKING", 0)


def levels(n, d, seed=0, filled=0.4):
    rng = np.random.default_rng(seed)
    k = rng.integers(0, 256, size=(n, d)) * (rng.random((n, d)) < filled)
    k[:, : d // 2] = 0 if n < 4 else k[:, : d // 2]
    return k.astype(np.int64)


def crossed(k, step, chosen, threads):
    rows = level_rows(sp.csr_matrix(k * step))
    assert rows is not None
    assert rows.in_blocks
    out = np.full((k.shape[1], k.shape[1]), np.nan)
    module.level_cross(rows, np.asarray(chosen, dtype=np.intp), threads, out)
    return out


@pytest.mark.parametrize("d", [5, 48, 49, 130, 780])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 257, 700])
def test_sums_are_exact(d, count):
    k = levels(900, d)
    k[5, 0] = 1
    chosen = np.random.default_rng(1).permutation(900)[:count]
    out = crossed(k, 1.0, chosen, 1)
    assert np.array_equal(out, (k[chosen].T @ k[chosen]).astype(np.float64))


def test_the_step_is_put_back():
    k = levels(300, 70)
    out = crossed(k, 1.0 / 255.0, np.arange(300), 1)
    assert np.allclose(out, (k.T @ k) / 255.0**2, rtol=1e-14, atol=0.0)
    assert np.array_equal(out, out.T)


def test_the_largest_levels_do_not_overflow():
    """As many rows as one int32 sum may have, each as large, and turned as far, as a byte can be."""
    n = module._SUMMED
    k = np.full((8, 16), 255, dtype=np.int64)
    k[:, ::2] = 0  # 255 * (0 - 128) is the sum that is furthest from zero
    k[7, 2] = 1
    out = crossed(k, 1.0, np.zeros(n, dtype=np.intp), 1)
    assert np.array_equal(out, float(n) * np.outer(k[0], k[0]))


def test_rows_may_be_shared_out_in_any_way(monkeypatch):
    k = levels(3000, 60)
    alone = crossed(k, 1.0 / 3.0, np.arange(3000), 1)
    assert np.array_equal(alone, crossed(k, 1.0 / 3.0, np.arange(3000), 2))
    monkeypatch.setattr(module, "_SUMMED", 1024)
    assert np.array_equal(alone, crossed(k, 1.0 / 3.0, np.arange(3000), 1))
    assert np.array_equal(alone, crossed(k, 1.0 / 3.0, np.arange(3000), 2))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_a_factor_takes_them_where_they_pay(sparse, constant):
    k = levels(400, 200, filled=0.6)
    A = sp.csr_matrix(k / 255.0) if sparse else k / 255.0
    gram = LinearGram(A, constant, 1)
    quick, plain = factor_of(gram, 1), Factor(A, constant**0.5, 1)
    assert quick._levels is not None
    assert plain._levels is None
    assert quick.cross_cost() < plain.cross_cost()
    rows = np.arange(0, 400, 3)
    assert np.allclose(quick.cross(rows), plain.cross(rows), rtol=1e-12, atol=1e-12)
    weights = np.linspace(0.1, 1.0, rows.size)
    assert np.allclose(quick.cross(rows, weights), plain.cross(rows, weights), rtol=1e-12, atol=1e-12)
    p, c = np.linspace(-1.0, 1.0, quick.d), np.linspace(-1.0, 2.0, rows.size)
    assert np.allclose(quick.products(p, rows), plain.products(p, rows), rtol=1e-12, atol=1e-12)
    assert np.allclose(quick.transposed(c, rows), plain.transposed(c, rows), rtol=1e-12, atol=1e-12)
    signs = np.where(c > 0.0, 1.0, -1.0)
    assert np.allclose(quick.combined(c, signs, rows), plain.combined(c, signs, rows), rtol=1e-12, atol=1e-12)


def test_short_rows_are_left_as_they_are():
    k = levels(300, 400, filled=0.02)
    assert factor_of(LinearGram(sp.csr_matrix(k / 255.0)), 1)._levels is None


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("intercept", [False, True])
def test_machines_are_the_same(loss, intercept, monkeypatch):
    k = levels(600, 90, filled=0.5)
    X = sp.csr_matrix(k / 255.0)
    y = np.where((k[:, 0] + k[:, 50] - k[:, 20]) > 30, 1, -1)
    settings = {"loss": loss, "C": 10.0, "fit_intercept": intercept, "gap_tol": 1e-10, "solver": "newton"}
    quick = LinearSVC(**settings).fit(X, y)
    monkeypatch.setattr(module, "available", lambda: False)
    plain = LinearSVC(**settings).fit(X, y)
    assert quick.certificate_.relative_gap <= 1e-10
    assert np.allclose(quick.coef_, plain.coef_, rtol=1e-3, atol=1e-4)
