"""Bounds of the error of float32 entries: never exceeded, and small enough to be of use."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from dualgap import Kernel
from dualgap.kernels import error_bound, fused, matrix_unit
from dualgap.kernels.bounded_product import bounded_product, by_distance
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.matrix_source import MatrixSource
from dualgap.kernels.points import prepare
from dualgap.kernels.tile_source import TileSource
from dualgap.kernels.vectors import _EXP2
from dualgap.kernels.word_source import WordSource

needs_tiles = pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has no vector registers that tiles are made for")


def test_the_polynomial_keeps_its_bound():
    # The arithmetic of the tiles, step by step: a multiply-add in float64 rounded to float32 once.
    fraction = np.unique(np.linspace(-0.5, 0.5, 2_000_001).astype(np.float32))
    value = np.full_like(fraction, _EXP2[32][0])
    for coefficient in np.array(_EXP2[32][1:], dtype=np.float32):
        value = (value.astype(np.float64) * fraction + float(coefficient)).astype(np.float32)
    off = np.abs(value / np.exp2(fraction.astype(np.float64)) - 1.0).max()
    assert 0.3 * error_bound.EXP2_ERROR < off < error_bound.EXP2_ERROR


def check(X, gamma, weights):
    """Returns errors and their bounds, relative to the absolute sums."""
    kernel = Kernel("rbf", gamma=gamma)
    gram = FusedGram(prepare(X, kernel), kernel, 10**8, 1)
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    # By differences, in extended precision where the machine has it.
    squared = cdist(dense, dense, "sqeuclidean")
    K = np.exp(-gamma * squared)
    rows = np.arange(dense.shape[0])
    product, error = bounded_product(gram, weights, rows)
    sums = K @ np.abs(weights)
    off = np.abs(product - K @ weights)
    allowed = error + 1e-13 * (1.0 + gamma * squared.max()) * sums
    assert np.all(off <= allowed), f"{np.max(off / allowed):.3g} times the bound"
    part = rows[1::3]
    again = bounded_product(gram, weights, part)
    np.testing.assert_allclose(again[0], product[part], rtol=1e-12, atol=1e-300)
    return off / sums, error / sums


@needs_tiles
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(2, 150),
    d=st.integers(1, 90),
    log_gamma=st.floats(-4.0, 1.5),
    layout=st.sampled_from(["float64", "float32", "sparse", "zeros", "offset", "ill-scaled", "outliers", "twins"]),
    size=st.sampled_from([1.0, 1e-30, 1e30]),
)
def test_no_sum_is_further_off_than_its_bound(seed, n, d, log_gamma, layout, size):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if layout == "float32":
        X = X.astype(np.float32)
    elif layout in ("sparse", "zeros"):
        X[rng.uniform(size=(n, d)) < 0.85] = 0.0
        X = sp.csr_matrix(X) if layout == "sparse" else X
    elif layout == "offset":
        X += 1e4 * rng.normal(size=d)
    elif layout == "ill-scaled":
        X *= 10.0 ** rng.uniform(-8.0, 1.0, size=d)
    elif layout == "outliers":
        X[:: max(1, n // 3)] *= 20.0
    else:
        X[n // 2 :] = X[: n - n // 2]
    weights = size * rng.normal(size=n) * 10.0 ** rng.uniform(-6.0, 0.0, size=n)
    weights[rng.uniform(size=n) < 0.4] = 0.0
    weights[0] = size
    check(X, 10.0**log_gamma / d, weights)


@needs_tiles
@pytest.mark.parametrize("d", [5, 22, 54, 300])
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_bounds_are_of_use(d, layout):
    rng = np.random.default_rng(d)
    X = rng.normal(size=(700, d))
    if layout == "sparse":
        X = sp.csr_matrix(np.where(rng.uniform(size=X.shape) < 0.1, X, 0.0))
    off, error = check(X, 1.0 / (2 * d), rng.normal(size=700))
    # About d units of float32's last place, half a unit for each term of a product.
    assert error.max() < (4 * d + 40) * error_bound.UNIT
    assert off.max() > 0.0


@pytest.mark.parametrize("block", [0, 4, 128])
def test_terms_of_sparse_sums_are_rounded_as_often_as_is_said(block):
    rng = np.random.default_rng(block)
    X = sp.random(60, 20, density=0.3, format="csr", random_state=rng)
    X.sort_indices()
    most = np.zeros(20, dtype=np.int64)
    for row in X:
        # What `_tile_products.sparse_terms_summed` does, a sum being the features whose terms are in it.
        rounded, total = np.zeros(20, dtype=np.int64), []
        if block == 0:
            for k in row.indices:
                total.append(k)
                rounded[total] += 1
        for first in range(0, 20 if block else 0, block or 1):
            chains = [total, []]
            inside = [k for k in row.indices if first <= k < first + block]
            for turn, k in enumerate(inside):
                chains[turn % 2].append(k)
                rounded[chains[turn % 2]] += 1
            total = chains[0] + chains[1]
            if inside:
                rounded[total] += 1
        most = np.maximum(most, rounded)
    found = np.zeros(20, dtype=np.int64)
    error_bound.most_roundings(X.indices, X.indptr, block, found)
    np.testing.assert_array_equal(found, most)


@needs_tiles
def test_features_that_are_hardly_ever_zero_are_centred_among_sparse_ones():
    rng = np.random.default_rng(0)
    X = np.zeros((500, 60))
    X[:, :5] = 10.0 + rng.normal(size=(500, 5))
    X[np.arange(500), rng.integers(5, 60, size=500)] = 1.0
    weights = rng.normal(size=500)
    _, error = check(X, 0.1, weights)
    X[:, :5] -= 10.0
    _, less = check(X, 0.1, weights)
    np.testing.assert_allclose(error, less, rtol=0.05)


@needs_tiles
def test_far_points_do_not_spoil_the_bound_of_others():
    rng = np.random.default_rng(0)
    X, weights = rng.normal(size=(1500, 10)), rng.normal(size=1500)
    _, usual = check(X, 0.05, weights)
    X[::100] *= 100.0
    _, error = check(X, 0.05, weights)
    near = np.ones(1500, dtype=bool)
    near[::100] = False
    assert np.median(error[near]) < 3.0 * np.median(usual)


@pytest.mark.parametrize(
    ("spread", "sizes"),
    [
        (np.full(2000, 1e-3), [2000]),
        (np.linspace(1e-3, 1.2e-3, 2000), [2000]),
        (np.where(np.arange(2000) < 1985, 1e-3, 3e-3), [1985, 15]),
        (np.geomspace(1e-4, 1.0, 2000), [1000, 800, 200]),
    ],
)
def test_points_with_like_spreads_are_one_part(spread, sizes):
    order = np.random.default_rng(0).permutation(2000)
    shuffled = np.empty(2000)
    shuffled[order] = spread
    parts = by_distance(np.arange(2000), error_bound.EntryError(shuffled, np.ones(2000), np.zeros(2000)))
    assert [part.size for part in parts] == sizes
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(2000))
    assert all(shuffled[a].max() <= shuffled[b].min() for a, b in pairwise(parts))


@needs_tiles
def test_what_is_beyond_float32_has_no_bound():
    X = 1e3 * np.random.default_rng(0).normal(size=(50, 3))
    kernel = Kernel("rbf", gamma=10.0)
    gram = FusedGram(prepare(X, kernel), kernel, 10**8, 1)
    assert np.isinf(bounded_product(gram, np.ones(50), np.arange(50))[1]).all()
    other = Kernel("poly", gamma=1.0)
    assert FusedGram(prepare(X, other), other, 10**8, 1).entry_error() is None


@needs_tiles
@pytest.mark.skipif(
    not (matrix_unit.available() or matrix_unit.has_word_products()),
    reason="this CPU has neither a matrix unit nor dot-product instructions",
)
@pytest.mark.parametrize(
    "layout",
    [
        *(
            pytest.param(
                pieces, marks=pytest.mark.skipif(not matrix_unit.available(), reason="this CPU has no matrix unit")
            )
            for pieces in ("pieces", "sparse pieces")
        ),
        *("rounded levels", "rounded digits", "exact levels", "exact digits"),
    ],
)
@pytest.mark.parametrize("d", [97, 400])
def test_entries_of_the_matrix_unit_keep_their_bound(layout, d):
    rng = np.random.default_rng(d)
    most = 1000 if "digits" in layout else 255
    X = rng.normal(size=(300, d)) if "pieces" in layout else rng.integers(0, most + 1, size=(300, d)) / most
    if layout == "sparse pieces":
        X = sp.csr_matrix(np.where(rng.uniform(size=X.shape) < 0.5, X, 0.0))
    elif "rounded" in layout:
        X = X.astype(np.float32)
    kernel = Kernel("rbf", gamma=1.0 / d)
    gram = FusedGram(prepare(X, kernel), kernel, 10**8, 1)
    assert isinstance(gram._single, MatrixSource | WordSource)
    # Where levels are exact, float64 entries are made of them as well.
    assert isinstance(gram._proof_source(), TileSource) == ("exact" not in layout)
    off, error = check(X, 1.0 / d, rng.normal(size=300))
    assert 0.0 < off.max() < error.max() < 1e-3
