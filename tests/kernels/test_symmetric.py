"""Symmetric blocks of which half the entries are made: the same products as with all of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from dualgap import Kernel
from dualgap.kernels import fused, fused_gram
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.points import prepare
from dualgap.kernels.symmetric import symmetric_products

pytestmark = pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has no vector registers that tiles are made for")
KERNELS = {
    "rbf": Kernel("rbf", gamma=0.1),
    "poly": Kernel("poly", gamma=0.1, coef0=1.0, degree=3),
    "laplacian": Kernel("laplacian", gamma=0.05),
}


def make(kernel, n, d, layout, n_jobs=1):
    X = np.random.default_rng(n + d).normal(size=(n, d))
    if layout != "dense":
        X[np.random.default_rng(0).uniform(size=X.shape) < 0.9] = 0.0
        X = sp.csr_matrix(X) if layout == "csr" else X
    return FusedGram(prepare(X, kernel), kernel, 10**8, n_jobs)


@pytest.mark.parametrize("layout", ["dense", "csr", "zeros"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("count", [1, 5, 6, 7, 31, 32, 33, 47, 48, 49, 97, 200, 250])
def test_half_the_entries_give_the_whole_product(name, layout, count):
    gram = make(KERNELS[name], 250, 140 if layout != "dense" else 9, layout)
    rng = np.random.default_rng(count)
    chosen = np.sort(rng.permutation(250)[:count])
    w = rng.normal(size=count)
    K = gram.double().block(chosen, chosen)
    [one], [many] = (symmetric_products(gram._exact_source(), [(chosen, w)], threads) for threads in (1, 3))
    np.testing.assert_allclose(one, K @ w, rtol=1e-13, atol=1e-13 * (np.abs(K) @ np.abs(w)).max())
    assert np.array_equal(one, many)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_exact_products_make_use_of_it(layout, monkeypatch):
    gram = make(KERNELS["rbf"], 300, 40, layout, n_jobs=2)
    rng = np.random.default_rng(1)
    w = np.where(rng.uniform(size=300) < 0.4, rng.normal(size=300), 0.0)
    used = np.flatnonzero(w)
    extra = np.unique(np.concatenate([used, rng.permutation(300)[:40]]))
    choices = (None, used, extra, used[1:], extra[::-1].copy(), np.repeat(used, 2), np.array([3]))
    expected = [gram.exact(w, rows) for rows in choices]
    monkeypatch.setattr(fused_gram, "_WORTH_HALVING", 0.0)
    calls = []
    monkeypatch.setattr(fused_gram, "symmetric_products", lambda *a: calls.append(1) or symmetric_products(*a))
    for rows, wanted in zip(choices, expected, strict=True):
        np.testing.assert_allclose(gram.exact(w, rows), wanted, rtol=1e-12, atol=1e-12)
    assert len(calls) == 3


@pytest.mark.parametrize("layout", ["dense", "csr", "zeros"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("counts", [(1, 3), (250, 140, 7), (192, 192), (31, 400)])
def test_groups_have_sums_of_their_own(name, layout, counts):
    gram = make(KERNELS[name], 600, 140 if layout != "dense" else 9, layout)
    rng = np.random.default_rng(len(counts))
    chosen = np.split(rng.permutation(600)[: sum(counts)], np.cumsum(counts)[:-1])
    groups = [(points, rng.normal(size=points.size)) for points in chosen]
    K = gram.double().block(np.concatenate(chosen), None)
    source = gram._single
    one, many = (symmetric_products(source, groups, threads) for threads in (1, 3))
    assert np.array_equal(one, many)
    for sums, (points, weights) in zip(one, groups, strict=True):
        size = (np.abs(K[:, points]) @ np.abs(weights)).max()
        np.testing.assert_allclose(sums, K[:, points] @ weights, rtol=0.0, atol=2e-5 * size)


@pytest.mark.parametrize("layout", ["dense", "csr"])
def test_products_of_many_points_make_use_of_it(layout, monkeypatch):
    rng = np.random.default_rng(1)
    some = rng.permutation(300)[:120]
    groups = [(some[:50], rng.normal(size=50)), (some[:0], np.zeros(0)), (some[50:], rng.normal(size=70))]
    mixed = np.sort(np.concatenate([some, rng.permutation(300)[:100]]))  # some rows are there twice
    choices = (None, np.arange(300), np.unique(mixed), mixed, some[::-1].copy(), some[1:])

    def products():
        gram = make(KERNELS["rbf"], 300, 40, layout, n_jobs=2)
        found = [np.ones((3, 300 if rows is None else rows.size)) for rows in choices]
        for outs, rows in zip(found, choices, strict=True):
            gram.accumulate_groups(list(outs), groups, rows)
        return found, gram.evaluations

    expected, all_made = products()
    monkeypatch.setattr(fused_gram, "_WORTH_HALVING_SINGLE", 0.0)
    calls = []
    monkeypatch.setattr(fused_gram, "symmetric_products", lambda *a: calls.append(1) or symmetric_products(*a))
    halved, made = products()
    for outs, wanted in zip(halved, expected, strict=True):
        np.testing.assert_allclose(outs, wanted, rtol=1e-5, atol=1e-5)
    assert len(calls) == 3  # where none is missing, and rows are in order
    assert made == all_made - 3 * (120 * 119 // 2)


def test_points_that_are_there_twice_are_not_halved(monkeypatch):
    monkeypatch.setattr(fused_gram, "_WORTH_HALVING_SINGLE", 0.0)
    monkeypatch.setattr(fused_gram, "symmetric_products", lambda *_: pytest.fail("halved"))
    gram, points, weights = make(KERNELS["rbf"], 100, 9, "dense"), np.array([3, 5, 3]), np.array([1.0, 2.0, 4.0])
    sums = np.zeros(100)
    gram.accumulate(sums, points, weights)
    np.testing.assert_allclose(sums, gram.double().block(np.arange(100), points) @ weights, rtol=1e-5)
