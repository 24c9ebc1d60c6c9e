"""Kernel values against scikit-learn's, Grams of every kind against each other, caches and their budget."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import pairwise

import dualgap
from dualgap.kernels.cache import HITS, MISSES, ElementStore, RowStore
from dualgap.kernels.entries import Entries
from dualgap.kernels.functions import Kernel, tile
from dualgap.kernels.gram import Gram, KernelGram, factored_gram, make_gram, row_store
from dualgap.kernels.points import prepare

FORMULAS = {
    "linear": lambda X, Z: X @ Z.T,
    "poly": lambda X, Z: pairwise.polynomial_kernel(X, Z, degree=3, gamma=0.4, coef0=1.5),
    "rbf": lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.4),
    "sigmoid": lambda X, Z: pairwise.sigmoid_kernel(X, Z, gamma=0.4, coef0=1.5),
    "laplacian": lambda X, Z: pairwise.laplacian_kernel(X, Z, gamma=0.4),
    "chi2": lambda X, Z: pairwise.chi2_kernel(X, Z, gamma=0.4),
}


def points(n=40, d=7, seed=0):
    X = np.random.default_rng(seed).uniform(size=(n, d))
    return np.where(X > 0.4, X, 0.0)


def kernel(name):
    return Kernel(name, gamma=0.4, coef0=1.5, degree=3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("layout", ["dense", "csr32", "csr64"])
@pytest.mark.parametrize("name", FORMULAS)
def test_values_equal_scikit_learn(name, layout, dtype):
    X, Z = points(), points(25, seed=1)
    expected = FORMULAS[name](X, Z)
    A, B = X.astype(dtype), Z.astype(dtype)
    if layout != "dense":
        A, B = sp.csr_matrix(A), sp.csr_matrix(B)
        index = np.int64 if layout == "csr64" else np.int32
        for M in (A, B):
            M.indices, M.indptr = M.indices.astype(index), M.indptr.astype(index)
    columns = prepare(B, kernel(name))
    block = tile(kernel(name), prepare(A, kernel(name), like=columns), columns)
    assert block.dtype == dtype
    assert block == pytest.approx(expected, rel=1e-12 if dtype == np.float64 else 2e-5)


@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", FORMULAS)
def test_rows_blocks_and_products_agree(name, layout):
    X = points(300)
    X = sp.csr_matrix(X) if layout == "csr" else X
    full = make_gram(X, kernel(name), kind="full")
    cached = make_gram(X, kernel(name), kind="cached")
    chosen = np.array([3, 250, 17, 3])
    weights = np.random.default_rng(2).normal(size=300)
    assert isinstance(full, Gram)
    assert isinstance(cached, Gram)
    assert cached.rows(chosen) == pytest.approx(full.rows(chosen), rel=1e-12)
    assert cached.block(chosen, chosen) == pytest.approx(full.block(chosen, chosen), rel=1e-12)
    assert cached.diag() == pytest.approx(full.diag(), rel=1e-12)
    for gram in (full, cached):
        expected = full.matrix @ weights
        assert gram.exact(weights) == pytest.approx(expected, rel=1e-10, abs=1e-10)
        assert gram.exact(weights, chosen) == pytest.approx(expected[chosen], rel=1e-10, abs=1e-10)
        out = np.ones(300)
        gram.accumulate(out, chosen[:3], weights[:3])
        assert out == pytest.approx(1 + full.matrix[:, chosen[:3]] @ weights[:3], rel=1e-10)
        part = np.zeros(4)
        gram.accumulate(part, chosen[:3], weights[:3], rows=chosen)
        assert part == pytest.approx((full.matrix[:, chosen[:3]] @ weights[:3])[chosen], rel=1e-10)


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 5, 6, 7, 12, 2.5])
def test_powers(degree):
    X = points()
    k = Kernel("poly", gamma=0.5, coef0=1.0, degree=degree)
    p = prepare(X, k)
    assert tile(k, p, p) == pytest.approx((0.5 * X @ X.T + 1.0) ** degree, rel=1e-13)


def test_factored_gram_is_a_product():
    A = np.random.default_rng(0).normal(size=(50, 4))
    gram = factored_gram(A)
    assert gram.factor is A
    assert gram.rows(np.arange(50)) == pytest.approx(A @ A.T)
    out = np.ones(50)
    gram.accumulate(out, np.array([], dtype=np.intp), np.array([]))
    assert np.all(out == 1.0)


def test_float32_is_not_upcast_and_its_exact_product_is_float64():
    X = points(200).astype(np.float32)
    gram = make_gram(X, kernel("rbf"), kind="cached")
    assert gram.rows(np.array([0])).dtype == np.float32
    w = np.random.default_rng(1).normal(size=200)
    expected = pairwise.rbf_kernel(X.astype(np.float64), gamma=0.4) @ w
    assert gram.exact(w) == pytest.approx(expected, rel=1e-13, abs=1e-13)


def test_diagonal_is_exact_far_from_the_origin():
    X = points(50) + 1e4
    gram = make_gram(X, kernel("rbf"), kind="cached")
    rows = gram.rows(np.arange(50))
    assert np.all(np.diag(rows) == 1.0)
    assert rows == pytest.approx(pairwise.rbf_kernel(points(50), gamma=0.4), rel=1e-9)


def test_points_of_different_centres_are_not_mixed():
    with pytest.raises(ValueError, match="different centres"):
        tile(kernel("rbf"), prepare(points(), kernel("rbf")), prepare(points(seed=1), kernel("rbf")))


def test_callable_kernel_must_return_a_value_a_pair():
    gram = make_gram(points(), Kernel("callable", function=lambda X, Z: X @ Z.T))
    assert gram.rows(np.array([1]))[0] == pytest.approx(points() @ points()[1])
    with pytest.raises(ValueError, match=r"returned shape \(40,\) for 40 x 40 points"):
        make_gram(points(), Kernel("callable", function=lambda X, Z: X[:, 0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "gauss"}, "Unknown kernel 'gauss'; choose one of linear, poly, rbf"),
        ({"name": "rbf", "gamma": -1.0}, "gamma must be non-negative; got -1.0"),
        ({"name": "callable", "function": 3}, "needs a function"),
    ],
)
def test_bad_kernels(arguments, message):
    with pytest.raises(ValueError, match=message):
        Kernel(**arguments)


# -- caches ------------------------------------------------------------------------------------------------------


def store_over(matrix, rows, kind=RowStore):
    computed = []

    def compute(point, columns):
        computed.append(point)
        row = matrix[point]
        return row.copy() if columns is None else row[columns]

    return kind(compute, matrix.shape[0], matrix.dtype, rows * matrix[0].nbytes), computed


@given(st.lists(st.integers(0, 19), min_size=1, max_size=80), st.integers(2, 20))
def test_row_cache_is_least_recently_used(requests, capacity):
    """Against a plain list: the same rows are held, and a row is computed exactly when it is not."""
    matrix = np.random.default_rng(0).normal(size=(20, 20))
    store, computed = store_over(matrix, capacity)
    recent, expected = [], []
    for point in requests:
        store.load(np.array([point]))
        if point in recent:
            recent.remove(point)
        else:
            expected.append(point)
        recent.append(point)
        recent = recent[-capacity:]
        assert np.array_equal(store.values[store.slot[point]], matrix[point])
        assert set(np.flatnonzero(store.slot >= 0)) == set(recent)
    assert computed == expected


@given(st.lists(st.integers(0, 19), min_size=1, max_size=20), st.lists(st.booleans(), min_size=20, max_size=20))
def test_restricted_rows_keep_their_entries(requests, mask):
    matrix = np.random.default_rng(0).normal(size=(20, 20))
    columns = np.flatnonzero(np.array(mask) | (np.arange(20) == 5))
    store, computed = store_over(matrix, 8)
    for point in requests:
        store.load(np.array([point]))
    held = np.flatnonzero(store.slot >= 0)
    store.restrict(columns)
    for point in held:
        assert np.array_equal(store.values[store.slot[point]], matrix[point][columns])
    before = len(computed)
    store.load(np.array([7]))
    assert np.array_equal(store.values[store.slot[7]], matrix[7][columns])
    assert len(computed) == before + (7 not in held)
    fewer = columns[::2]
    store.restrict(fewer)
    assert np.array_equal(store.values[store.slot[7]], matrix[7][fewer])
    store.reset()
    store.load(np.array([7]))
    assert np.array_equal(store.values[store.slot[7]], matrix[7])


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(0, 19)), min_size=1, max_size=30))
def test_element_cache_returns_the_values(requests):
    matrix = np.random.default_rng(0).normal(size=(20, 20))
    matrix = matrix + matrix.T
    store, _ = store_over(matrix, 6, ElementStore)
    for i, j in requests:
        columns = np.unique([i, j, (i + j) % 20])
        store.load(np.array([i, j]), columns)
        for point in (i, j):
            assert np.array_equal(store.values[store.slot[point]][columns], matrix[point][columns])
    total = store.counts[HITS] + store.counts[MISSES]
    assert total > 0


def test_element_cache_hits():
    matrix = np.eye(20)
    store, computed = store_over(matrix, 30, ElementStore)
    store.load(np.array([1, 2]), np.arange(10))
    store.load(np.array([1, 2]), np.arange(10))
    assert store.counts[HITS] >= 20
    assert len(computed) == 2


def test_budget_too_small_is_named_with_the_remedy():
    gram = make_gram(points(1000), kernel("rbf"), kind="cached", cache_size=0.01)
    with pytest.raises(ValueError, match=r"cache_size is too small: 0.01 MB cannot hold two rows .* at least 0.016"):
        gram.rows(np.array([0]))
    with pytest.raises(ValueError, match="cannot hold the full 1000 x 1000 kernel matrix; set cache_size to at l"):
        make_gram(points(1000), kernel("rbf"), kind="full", cache_size=1)


@pytest.mark.parametrize("cache", ["row", "element"])
@pytest.mark.parametrize("megabytes", [2.0, 5.0, 20.0])
def test_memory_stays_within_the_budget(megabytes, cache):
    """All rows are asked for; what is allocated stays within the budget and a tenth."""
    X = np.random.default_rng(0).normal(size=(3000, 5))
    gram = make_gram(X, kernel("rbf"), kind="cached", cache_size=megabytes, cache=cache)
    tracemalloc.start()
    try:
        store = row_store(gram)
        for point in range(0, 3000, 7):
            store.load(np.array([point]))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(gram, KernelGram)
    assert gram.nbytes <= 1.0 * megabytes * 1e6
    # Beside the entries: the slot map and a few vectors of length n.
    assert peak <= 1.1 * megabytes * 1e6 + 10 * 8 * 3000


@pytest.mark.parametrize(
    ("n", "megabytes", "divisible"),
    [(1000, 1.0, 0.5), (1000, 200.0, 200.0), (50_000, 60.0, 40.0), (50_000, 30.0, 15.0)],
)
def test_blocks_leave_room_in_the_budget_for_the_vectors_of_a_fit(n, megabytes, divisible):
    """480 bytes a point and 8 MB are not divided, of what is 0.7 are in use at a time; half the budget at least is."""
    gram = make_gram(np.zeros((n, 1), dtype=np.float32), kernel("rbf"), kind="cached", cache_size=megabytes)
    assert isinstance(gram, KernelGram)
    assert gram.divisible == pytest.approx(divisible * 1e6)
    assert Entries(gram, "single", keep=False).largest_block() == int(np.sqrt(0.5 * gram.divisible / 4))
    if n == 1000:
        stored = make_gram(np.zeros((n, 1)), kernel("rbf"), cache_size=megabytes)
        assert stored.divisible == gram.divisible


def test_a_stored_linear_matrix_knows_its_rows():
    """So that hard linear problems reach the solvers that work on features, whatever their size."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5)) * np.logspace(0, 3, 5)
    y = np.where(X[:, 0] + rng.normal(size=400) > 0, 1.0, -1.0)
    gram = dualgap.make_gram(X, dualgap.Kernel("linear"))
    assert isinstance(gram, dualgap.FullGram)
    assert np.array_equal(gram.factor, X)
    assert dualgap.make_gram(X, dualgap.Kernel("rbf")).factor is None
    result = dualgap.solve(dualgap.build("c_svc", gram, y, C=10.0), tol=1e-6)
    assert result.solver in ("newton", "dcd", "dcd+newton")
    assert result.certificate.kkt_violation <= 1e-6 * (1 + 1e-8)
