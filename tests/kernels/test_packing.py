"""Rows packed for tiles: every number where the tiles look for it, to the last bit."""

import numpy as np
import pytest

from dualgap.kernels import packing
from dualgap.kernels.functions import Kernel
from dualgap.kernels.packing import pack_dense
from dualgap.kernels.tile_source import TileSource


def by_formula(X, points, centre, scale, width, dtype):
    """The same by whole arrays."""
    groups = -(-points.size // width)
    packed = np.zeros((groups, X.shape[1], width), dtype=dtype)
    values = ((X[points].astype(np.float64) - centre) * scale).astype(dtype)
    for group, begin in enumerate(range(0, points.size, width)):
        some = values[begin : begin + width]
        packed[group, :, : len(some)] = some.T
    return packed.ravel()


def packed(X, points, width, dtype):
    centre, half = X.mean(axis=0, dtype=np.float64), np.arange(len(X), dtype=dtype)
    groups = -(-points.size // width)
    out, out_half = np.full(groups * width * X.shape[1], np.nan, dtype=dtype), np.full(groups * width, np.nan, dtype)
    pack_dense(X, points, centre, 0.3, half, width, 0, groups, out, out_half)
    np.testing.assert_array_equal(out_half[: points.size], half[points])
    np.testing.assert_array_equal(out_half[points.size :], 0)
    np.testing.assert_array_equal(out, by_formula(X, points, centre, 0.3, width, dtype))


@pytest.mark.parametrize("features", [1, 7, 8, 9, 22, 40, 75])
@pytest.mark.parametrize("width", [6, 16, 32, 64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("of", [np.float32, np.float64])
def test_dense_rows_any_shape(features, width, dtype, of):
    generator = np.random.default_rng(features)
    X = generator.normal(size=(150, features)).astype(of)
    packed(X, generator.permutation(150)[:131], width, dtype)


@pytest.mark.parametrize("of", [np.int64, np.uint8])
def test_dense_rows_of_whole_numbers(of):
    X = np.random.default_rng(0).integers(0, 200, size=(80, 19)).astype(of)
    packed(X, np.arange(80), 64, np.float32)


def test_rows_that_are_not_side_by_side():
    X = np.random.default_rng(0).normal(size=(80, 19))
    packed(np.asfortranarray(X), np.arange(80), 64, np.float32)
    packed(np.repeat(X, 2, axis=1)[:, ::2], np.arange(80), 64, np.float32)
    packed(np.repeat(X, 2, axis=0)[::2], np.arange(80), 64, np.float32)
    packed(X, np.arange(160)[::2] // 2, 64, np.float32)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("features", [5, 128, 300])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("centred", [False, True])
def test_nonzeros_in_order_are_all_there_whatever_the_threads(threads, features, share, centred):
    rng = np.random.default_rng(features)
    apart = rng.normal(size=(400, features))
    centre = np.zeros(features)
    if centred:  # halves, whose sums are exact
        apart, centre = np.copysign(np.ceil(np.abs(apart)), apart), 0.5 * rng.integers(-3, 4, size=features)
    apart *= rng.random((400, features)) < share
    X = apart + centre
    points = rng.integers(400, size=389)
    counts = np.empty(400, dtype=np.int64)
    packing.row_nonzeros(X, centre, 0, 400, counts)
    assert np.array_equal(counts, np.count_nonzero(apart, axis=1))
    values, which, starts = packing.nonzeros_in_order(X, counts, points, centre, 2.0, np.dtype(np.float64), threads)
    blocks = -(-features // packing.FEATURES)
    rebuilt = np.zeros((-(-points.size // packing.SPARSE_ROWS) * packing.SPARSE_ROWS, features))
    for s in range(starts.size - 1):
        chunk, within = divmod(s, blocks * packing.SPARSE_ROWS)
        block, row = divmod(within, packing.SPARSE_ROWS)
        run = slice(starts[s], starts[s + 1])
        assert np.all(which[run] // packing.FEATURES == block)
        rebuilt[chunk * packing.SPARSE_ROWS + row, which[run]] = values[run]
    assert starts[-1] == values.size == counts[points].sum()
    assert np.array_equal(rebuilt[: points.size], 2.0 * apart[points])
    assert not rebuilt[points.size :].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("features", "share"), [(1, 0.5), (20, 0.1), (54, 0.3), (128, 0.9), (128, 0.0)])
def test_kept_nonzeros_are_those_in_order(features, share, dtype):
    rng = np.random.default_rng(features)
    X = np.where(rng.uniform(size=(300, features)) < share, rng.normal(size=(300, features)), 0.0)
    counts, centre = np.count_nonzero(X, axis=1), np.zeros(features)
    kept = packing.KeptNonzeros(X, counts, centre, 1.5, np.dtype(dtype), 2)
    for points in (np.arange(300), rng.integers(0, 300, size=100), np.array([7]), np.arange(0)):
        expected = packing.nonzeros_in_order(X, counts, points, centre, 1.5, np.dtype(dtype), 1)
        for found, wanted in zip(kept.of(points), expected, strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [6, 64])
def test_sources_pack_the_same_bits_whether_nonzeros_are_kept_or_not(dtype, width):
    rng = np.random.default_rng(width)
    X = np.where(rng.uniform(size=(300, 54)) < 0.2, rng.normal(size=(300, 54)), 0.0)
    X[:, :5] = 3.0 + rng.normal(size=(300, 5))  # filled features, which are centred
    kernel = Kernel("rbf", gamma=0.7)
    kept, none = (TileSource(X, kernel, dtype, sparse=True, threads=1, keep=keep) for keep in (10**6, 0))
    assert kept.single_rows(np.arange(2)) is not None
    assert none.single_rows(np.arange(2)) is None
    points = rng.integers(0, 300, size=131)
    groups = -(-points.size // width)
    found = []
    for source in (kept, none):
        values, half = np.full(groups * width * 54, np.nan, dtype=dtype), np.full(groups * width, np.nan, dtype=dtype)
        source._pack(points, width, 0, 1, values, half)
        source._pack(points, width, 1, groups, values, half)
        found.append((values, half))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    expected = by_formula(X, points, none.centre, none.formula.scale, width, dtype)
    np.testing.assert_array_equal(found[0][0], expected)
