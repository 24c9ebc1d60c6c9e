"""Tiles of kernel entries: every kernel, layout, precision and shape against the plain path, on every kind of CPU."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numba as nb
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numba.core import types
from numba.extending import intrinsic

from dualgap.kernels import fused, fused_gram
from dualgap.kernels.contraction import contract
from dualgap.kernels.functions import Kernel
from dualgap.kernels.points import prepare
from dualgap.kernels.tile_source import fusable
from dualgap.kernels.vectors import DOUBLE, SINGLE, exp2, pointer, vector_of

sys.path.insert(0, str(Path(__file__).parents[1]))
from tiles import KERNELS, LAYOUTS, SHAPES, bound, bound_of, check, fused_gram_of, plain, points, within

needs_tiles = pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has neither AVX-512 nor AVX2 with FMA")


@needs_tiles
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_entries_and_products_equal_the_formula(name, layout, dtype):
    for n, columns, d in SHAPES:
        check(KERNELS[name], points(n, d, layout, dtype, seed=n), columns)


@needs_tiles
@given(
    st.sampled_from(sorted(KERNELS)),
    st.sampled_from(LAYOUTS),
    st.integers(1, 200),
    st.integers(1, 200),
    st.integers(1, 70),
    st.sampled_from([0, 10**8]),
)
def test_shapes_of_any_size(name, layout, n, columns, d, budget):
    check(KERNELS[name], points(n, d, layout, seed=d), columns, budget)


@needs_tiles
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_the_plain_path_gives_the_same_products(name, layout):
    kernel, X = KERNELS[name], points(150, 40, layout)
    p = prepare(X, kernel)
    w = np.random.default_rng(2).normal(size=150)
    expected = np.zeros(150)
    contract(kernel, p, p, w, expected, exact=True)
    off = (bound(kernel, X, np.float64) + 1e-13 * np.abs(plain(kernel, X))) @ np.abs(w)
    within(fused_gram_of(X, kernel).exact(w), expected, off)


@needs_tiles
@pytest.mark.parametrize("d", [3, 59, 140])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", KERNELS)
def test_a_symmetric_block_equals_the_one_of_two_arguments(name, layout, d, monkeypatch):
    """Where entries are dear only one triangle is computed; here always."""
    monkeypatch.setattr(fused_gram, "_WORTH_MIRRORING", 0.0)
    monkeypatch.setattr(fused_gram, "_CHEAP", 0.0)
    for n in (1, 63, 197):
        gram = fused_gram_of(points(n, d, layout), KERNELS[name])
        rows = np.random.default_rng(0).permutation(n)
        square, other = gram.block(rows, rows), gram.block(rows, rows.copy())
        assert np.array_equal(square, square.T)
        assert np.array_equal(np.triu(square), np.triu(other))
        within(square, other, 2 * bound_of(gram, points(n, d, layout))[np.ix_(rows, rows)])


@needs_tiles
@pytest.mark.parametrize("budget", [0, 10**8], ids=["packed each time", "packed once"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["rbf", "laplacian"])
def test_the_number_of_threads_changes_no_bit(name, layout, budget, monkeypatch):
    monkeypatch.setattr(fused_gram, "_WORTH_THREADS", 0)
    X, rng = points(700, 45, layout), np.random.default_rng(3)
    rows, w = rng.permutation(700)[:333], rng.normal(size=333)
    answers = []
    for threads in (1, 2, 3, 7):
        gram = fused_gram_of(X, KERNELS[name], budget=budget, n_jobs=threads)
        out, part = np.zeros(700), np.zeros(333)
        gram.accumulate(out, rows, w)
        gram.accumulate(part, rows, w, rows)
        answers.append((gram.block(rows, None), gram.block(rows, rows), out, part, gram.exact(out)))
    for answer in answers[1:]:
        for first, other in zip(answers[0], answer, strict=True):
            assert np.array_equal(first, other)


@needs_tiles
def test_packed_columns_are_those_asked_for():
    """Three choices of columns are kept; a fourth takes the place of one of them."""
    kernel, X = KERNELS["rbf"], points(150, 5, "dense")
    gram, rng = fused_gram_of(X, kernel), np.random.default_rng(0)
    K, w = plain(kernel, X), rng.normal(size=150)
    choices = [None, *(rng.permutation(150)[:size] for size in (120, 60, 150, 10))]
    for turn in rng.integers(len(choices), size=40):
        rows = choices[turn]
        out = np.zeros(150 if rows is None else rows.size)
        gram.accumulate(out, np.arange(150), w, rows)
        assert out == pytest.approx((K if rows is None else K[rows]) @ w, rel=1e-5, abs=1e-4)


@needs_tiles
def test_nothing_to_multiply_changes_nothing():
    gram = fused_gram_of(points(20, 3, "dense"), KERNELS["rbf"])
    out, none = np.ones(20), np.zeros(0, dtype=np.intp)
    gram.accumulate(out, none, np.zeros(0))
    gram.accumulate(np.zeros(0), np.arange(3), np.ones(3), none)
    assert np.all(out == 1.0)
    assert np.all(gram.exact(np.zeros(20)) == 0.0)


@needs_tiles
@pytest.mark.parametrize("change", ["unsorted", "int64", "empty rows at the end"])
def test_csr_in_any_state(change):
    X = points(80, 50, "csr")
    expected = X.toarray()
    if change == "unsorted":
        for i in range(80):
            part = slice(X.indptr[i], X.indptr[i + 1])
            X.indices[part], X.data[part] = X.indices[part][::-1].copy(), X.data[part][::-1].copy()
        X.has_sorted_indices = False
    elif change == "int64":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    else:
        X = sp.vstack([X, sp.csr_matrix((3, 50))]).tocsr()
        expected = X.toarray()
    block = fused_gram_of(X, KERNELS["rbf"]).block(np.arange(X.shape[0]), None)
    assert block == pytest.approx(plain(KERNELS["rbf"], expected), rel=1e-5)


@needs_tiles
@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_diagonal_of_distances_is_one_and_nothing_is_above(name, layout):
    X = points(130, 40, layout)
    if layout == "dense":
        X = X + 1e3
    gram = fused_gram_of(X, KERNELS[name])
    rows = np.arange(130)
    for block, unit in ((gram.block(rows, None), 2e-5), (gram.double().block(rows, None), 2e-13)):
        assert np.diag(block) == pytest.approx(1.0, abs=unit)
        assert block.max() <= 1.0 + 3e-7


@needs_tiles
@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2", "sigmoid"])
@pytest.mark.parametrize("size", [1e3, 1e9, 1e15])
def test_huge_distances_give_tiny_entries_and_no_nan(name, size):
    X = size * points(60, 4, "dense")
    gram = fused_gram_of(X, KERNELS[name])
    rows = np.arange(60)
    for block, tiny in ((gram.block(rows, None), 2.0**-99), (gram.double().block(rows, None), 2.0**-999)):
        assert np.all(np.isfinite(block))
        if name == "sigmoid":
            assert np.all(block == 1.0)
        elif size > 1e6:
            assert np.max(block[~np.eye(60, dtype=bool)]) <= tiny
        assert np.all(np.abs(block) <= 1.0 + 3e-7)


def test_a_kernel_that_has_no_tiles_is_not_fusable():
    X = points(10, 3, "dense")
    for kernel in (Kernel("poly", degree=2.5), Kernel("callable", function=lambda X, Z: X @ Z.T)):
        assert not fusable(kernel, prepare(X, kernel))
    wide = sp.csr_matrix((3, 100_000))
    assert not fusable(KERNELS["laplacian"], prepare(wide, KERNELS["laplacian"]))


@needs_tiles
@pytest.mark.parametrize("name", ["linear", "rbf", "poly3", "sigmoid"])
def test_more_features_than_a_packed_tile_holds(name):
    """Text: 20 000 features, a few dozen of them in a row."""
    rng = np.random.default_rng(0)
    X = sp.random(67, 20_000, density=0.003, format="csr", random_state=rng)
    if not fusable(KERNELS[name], prepare(X, KERNELS[name])):
        pytest.skip("rows of so many features take the plain path")
    check(KERNELS[name], X, 33)


# -- the exponential ---------------------------------------------------------------------------------------------


@intrinsic
def _exp2_at(typing, x, out, at):
    v = vector_of(x)

    def generate(context, b, _signature, arguments):
        value = v.load(b, pointer(context, b, x, arguments[0], arguments[2]))
        v.store(b, exp2(b, v, [value])[0], pointer(context, b, out, arguments[1], arguments[2]))
        return context.get_dummy_value()

    return types.void(x, out, types.int64), generate


@nb.njit
def _exp2_of(x, out, lanes):
    for at in range(0, x.size, lanes):
        _exp2_at(x, out, at)


def exp2_of(x):
    padded = np.zeros(-(-x.size // 16) * 16, dtype=x.dtype)
    padded[: x.size] = x
    out = np.empty_like(padded)
    _exp2_of(padded, out, (SINGLE if x.dtype == np.float32 else DOUBLE).lanes)
    return out[: x.size]


@pytest.mark.parametrize(
    ("dtype", "least", "most", "worst"), [(np.float32, -100, 127, 3e-7), (np.float64, -1000, 1023, 2e-15)]
)
def test_exponential_to_its_stated_error(dtype, least, most, worst):
    rng = np.random.default_rng(0)
    whole = np.arange(least, most, dtype=dtype)
    x = np.concatenate([whole, whole + dtype(0.5), rng.uniform(least, most, 200_000), rng.uniform(-2, 0, 200_000)])
    x = x.astype(dtype)
    expected = np.exp2(x.astype(np.longdouble))
    assert np.max(np.abs(exp2_of(x).astype(np.longdouble) / expected - 1)) <= worst
    assert np.array_equal(exp2_of(whole), np.exp2(whole))  # no rounding at whole numbers, 1 at 0


@pytest.mark.parametrize(("dtype", "least"), [(np.float32, -100), (np.float64, -1000)])
def test_exponential_of_what_is_below_stays_tiny_and_normal(dtype, least):
    x = np.array([least, least - 1, least - 1e4, -1e30, -np.inf], dtype=dtype)
    assert np.all(exp2_of(x) == np.exp2(np.float64(least)))


# -- other CPUs --------------------------------------------------------------------------------------------------

TILES_AGREE = """
import numpy as np
from dualgap.kernels import fused, vectors
from dualgap.kernels.contraction import contract
from dualgap.kernels.functions import Kernel
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.points import prepare
assert fused.AVAILABLE and not vectors.AVX512 and fused.tile_columns(np.float32) == 16
rng = np.random.default_rng(0)
X, kernel = rng.normal(size=(75, 7)), Kernel("rbf", gamma=0.3)
points = prepare(X, kernel)
gram = FusedGram(points, kernel, 10**8, 1)
w, found, expected = rng.normal(size=75), np.zeros(75), np.zeros(75)
contract(kernel, points, points, w, expected, exact=True, n_jobs=1)
gram.accumulate(found, np.arange(75), w)
assert np.abs(found - expected).max() < 1e-5, found - expected
assert np.abs(gram.block(np.arange(75), None) @ w - expected).max() < 1e-5
print("agree")
"""

PLAIN_FIT = """
import numpy as np, dualgap
from dualgap.kernels import fused
assert not fused.AVAILABLE
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 3)).astype(np.float32)
y = np.where(X[:, 0] + 0.5 * rng.normal(size=60) > 0, 1, -1)
model = dualgap.SVC(solver="block", gap_tol=1e-7).fit(X, y)
assert model.solver_ == "block" and model.status_ is dualgap.Status.CONVERGED, model.status_
assert model.certificate_.relative_gap <= 1e-7
print("agree")
"""


def on_another_cpu(script, folder, name, features):
    """Run a script compiled for another CPU, its cache apart."""
    settings = {"NUMBA_CPU_NAME": name, "NUMBA_CPU_FEATURES": features, "NUMBA_CACHE_DIR": str(folder)}
    run = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **settings}, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.strip() == "agree"


needs_x86 = pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="not an x86 CPU")


@needs_tiles
@needs_x86
def test_tiles_agree_with_the_plain_path_on_avx2(tmp_path):
    on_another_cpu(TILES_AGREE, tmp_path, "haswell", "+sse4.2,+avx,+avx2,+fma,+bmi,+bmi2,+popcnt")


@needs_x86
def test_without_tiles_the_block_solver_still_certifies_its_gap(tmp_path):
    on_another_cpu(PLAIN_FIT, tmp_path, "generic", "")
