"""Symmetric blocks of which half the entries are made: the same products as with all of them."""

import numpy as np
import pytest
import scipy.sparse as sp

from dualgap import Kernel
from dualgap.kernels import fused, fused_gram
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.points import prepare
from dualgap.kernels.symmetric import symmetric_product

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
    one, many = (symmetric_product(gram._exact_source(), chosen, w, threads) for threads in (1, 3))
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
    monkeypatch.setattr(fused_gram, "symmetric_product", lambda *a: calls.append(1) or symmetric_product(*a))
    for rows, wanted in zip(choices, expected, strict=True):
        np.testing.assert_allclose(gram.exact(w, rows), wanted, rtol=1e-12, atol=1e-12)
    assert len(calls) == 3
