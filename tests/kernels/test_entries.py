"""Entries as the block solver asks for them: with and without kept rows, from any Gram; grams for several threads."""

import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dualgap.kernels import fused
from dualgap.kernels.entries import Entries
from dualgap.kernels.functions import Kernel, tile
from dualgap.kernels.gram import FullGram, make_gram
from dualgap.kernels.points import prepare
from dualgap.kernels.row_cache import RowCache

sys.path.insert(0, str(Path(__file__).parents[1]))
from problems import GRAMS, data, gram

N = 60
DEAR = np.random.default_rng(0).uniform(size=(N, 200))
RBF = Kernel("rbf", gamma=0.05)


def dear_gram(capacity):
    """A matrix whose entries are dear, with room for some of its rows."""
    made = make_gram(DEAR, RBF, kind="cached")
    made.kept_rows = None if capacity == 0 else RowCache(N, capacity)
    return made


def matrix_of(X):
    p = prepare(X, RBF)
    return tile(RBF, p, p)


def exact_matrix(made):
    return np.column_stack([made.exact(unit) for unit in np.eye(made.n)])


requests = st.lists(
    st.tuples(
        st.lists(st.integers(0, N - 1), min_size=1, max_size=40, unique=True),
        st.lists(st.integers(0, N - 1), min_size=1, max_size=40, unique=True),
    ),
    min_size=1,
    max_size=6,
)


@given(requests, st.sampled_from([1, 2, 7, 30, N]))
def test_a_tiny_cache_changes_nothing(asked, capacity):
    kept, plain = (Entries(dear_gram(c), "single", keep=True) for c in (capacity, 0))
    assert kept.rows_kept
    assert not plain.rows_kept
    for first, second in asked:
        rows, columns = np.array(first), np.array(second)
        blocks = [np.empty((rows.size, columns.size), dtype=np.float32) for _ in range(2)]
        weights = np.cos(np.arange(rows.size))
        sums = [np.ones(columns.size) for _ in range(2)]
        for entries, block, out in zip((kept, plain), blocks, sums, strict=True):
            entries.block(rows, columns, block)
            entries.accumulate(out, rows, weights, columns)
        assert blocks[0] == pytest.approx(blocks[1], rel=1e-6)
        assert sums[0] == pytest.approx(sums[1], rel=1e-5, abs=1e-5)


def test_rows_that_are_kept_are_computed_once():
    entries = Entries(dear_gram(N), "single", keep=True)
    rows = np.arange(N)
    block, out = np.empty((N, N), dtype=np.float32), np.zeros(N)
    entries.block(rows, rows, block)
    assert entries.evaluations == N * N
    for _ in range(3):
        entries.block(rows[:20], rows, block[:20])
        entries.accumulate(out, rows, np.ones(N), rows)
    assert entries.evaluations == N * N


def test_rows_of_points_that_come_twice_are_computed_once():
    """Regression has two variables a point."""
    entries = Entries(dear_gram(N), "single", keep=True)
    twice = np.repeat(np.arange(N), 2)
    block = np.empty((2 * N, 2 * N), dtype=np.float32)
    for _ in range(3):
        entries.block(twice, twice, block)
    assert entries.evaluations == N * N
    assert np.array_equal(block[::2, ::2], block[1::2, 1::2])


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("kind", GRAMS)
def test_every_kind_of_gram(kind, precision):
    made = gram(kind, data(N)[0])
    entries = Entries(made, precision, keep=True)
    K, rng = exact_matrix(made), np.random.default_rng(1)
    rows, columns, weights = rng.permutation(N)[:25], rng.permutation(N)[:33], rng.normal(size=25)
    off = 1e-5 if precision == "single" or kind == "float32" else 1e-12
    block = np.empty((25, 33), dtype=np.float32 if precision == "single" else np.float64)
    entries.block(rows, columns, block)
    assert block == pytest.approx(K[np.ix_(rows, columns)], rel=off, abs=off)
    out = np.ones(33)
    entries.accumulate(out, rows, weights, columns)
    assert out == pytest.approx(1.0 + K[np.ix_(columns, rows)] @ weights, rel=5 * off, abs=5 * off)
    entries.accumulate(out, rows[:0], weights[:0], columns)


def test_a_callable_kernel_has_entries_too():
    made = make_gram(DEAR, Kernel("callable", function=lambda X, Z: X @ Z.T), kind="cached")
    entries = Entries(made, "single", keep=True)
    block = np.empty((3, N), dtype=np.float32)
    entries.block(np.array([5, 1, 5]), np.arange(N), block)
    assert block == pytest.approx(DEAR[[5, 1, 5]] @ DEAR.T, rel=1e-6)


def test_rows_are_kept_where_entries_are_dear_and_the_budget_holds_them():
    dear = np.random.default_rng(0).uniform(size=(N, 2000))  # for a matrix unit, too, which makes those of 200 cheap
    cheap = make_gram(dear[:, :3], RBF, kind="cached")
    assert cheap.kept_rows is None or not fused.AVAILABLE
    assert make_gram(dear, RBF, kind="cached").kept_rows.values.shape == (N, N)
    assert make_gram(dear, RBF, kind="cached", cache_size=0.01).kept_rows is None
    assert not Entries(make_gram(dear, RBF), "single", keep=False).rows_kept
    # Kept rows are float32: nothing for whoever wants more.
    assert not Entries(make_gram(dear, RBF), "double", keep=True).rows_kept


# -- several threads ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["full", "cached"])
def test_separate_grams_share_the_data_and_nothing_that_changes(kind):
    made = make_gram(DEAR, RBF, kind=kind)
    other = made.separate()
    first, second = (g.source if kind == "full" else g for g in (made, other))
    assert first is not second
    assert first.points is second.points
    assert first._last_product is not second._last_product
    if fused.AVAILABLE:
        assert first.fused is not second.fused
        assert second.fused.threads == 1
    w = np.random.default_rng(0).normal(size=N)
    assert np.array_equal(made.exact(w), other.exact(w))


def test_separate_grams_give_right_products_side_by_side():
    made = make_gram(DEAR, RBF)
    K = matrix_of(DEAR)
    wrong = []

    def use(own, seed):
        rng = np.random.default_rng(seed)
        w = rng.normal(size=N)
        for _ in range(300):
            w[rng.integers(N, size=2)] = rng.normal(size=2)
            if not np.allclose(own.exact(w), K @ w, rtol=1e-10, atol=1e-10):
                wrong.append(seed)

    threads = [threading.Thread(target=use, args=(made.separate(), seed)) for seed in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
    finally:
        sys.setswitchinterval(interval)
    assert wrong == []


def test_a_precomputed_matrix_is_its_own_separate():
    made = FullGram(np.eye(4))
    assert made.separate() is made


# -- products that only pay for what has changed ------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, N - 1), st.floats(-2, 2), st.booleans()), min_size=1, max_size=150))
def test_corrected_products_equal_new_ones(changes):
    made = make_gram(DEAR[:, :4], RBF, kind="cached")
    K = matrix_of(DEAR[:, :4])
    w, rows = np.ones(N), np.arange(0, N, 3)
    for point, value, part in changes:
        w[point] = value
        found = made.exact(w, rows if part else None)
        assert found == pytest.approx((K @ w)[rows] if part else K @ w, rel=1e-12, abs=1e-12)
        found[:] = np.nan  # ours to change


def test_a_product_remembers_no_digits_it_has_lost():
    """A huge weight that is gone again leaves its rounding behind, unless the product is made anew."""
    made = make_gram(DEAR[:, :4], RBF, kind="cached")
    K = matrix_of(DEAR[:, :4])
    w = np.ones(N)
    w[0] = 1e12
    made.exact(w)
    w[0] = 0.0
    assert made.exact(w) == pytest.approx(K @ w, rel=1e-12)
