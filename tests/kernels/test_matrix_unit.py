"""The matrix unit and dot-product instructions: used only where they may be, as exact as they say, in every layout."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dualgap
from dualgap.kernels import fused_gram, matrix_source, matrix_unit
from dualgap.kernels._matrix_unit_levels import SIXTEEN_BITS, TWO_DIGITS, find_levels
from dualgap.kernels.functions import Kernel
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.matrix_source import MatrixSource
from dualgap.kernels.tile_source import TileSource
from dualgap.kernels.word_source import WordSource

sys.path.insert(0, str(Path(__file__).parents[1]))
from tiles import KERNELS, LAYOUTS, SHAPES, bound, bound_of, check, fused_gram_of, plain, points, within

needs_matrix_unit = pytest.mark.skipif(
    not matrix_unit.available(), reason="this CPU has no matrix unit (AMX), or the system does not grant it"
)
needs_unit = pytest.mark.skipif(
    not (matrix_unit.available() or matrix_unit.has_word_products()),
    reason="this CPU has neither a matrix unit (AMX) nor dot-product instructions (VNNI), or they are turned off",
)
PRODUCTS = sorted(name for name in KERNELS if name not in ("laplacian", "chi2"))
# Levels of one byte, and of two digits.
STEPS = {"levels": 200.0, "digits": 2000.0}
# Dot-product instructions are for levels alone.
KINDS = (pytest.param("pieces", marks=needs_matrix_unit), *STEPS)


@pytest.fixture
def always(monkeypatch):
    """Use what there is whether it is worth it or not."""
    use_always(monkeypatch)


def use_always(monkeypatch):
    monkeypatch.setattr(matrix_source, "_worth_it", lambda X, levels, sparse: True)
    monkeypatch.setattr(matrix_source, "_precise", lambda X, levels: True)
    monkeypatch.setattr(matrix_source, "_WORD_FEATURES", 1)


def data(n, d, layout, kind, seed=0, dtype=np.float64):
    """Rows whose numbers are whole multiples of 1/200 or 1/2000, or any."""
    X = points(n, d, layout, np.float64, seed)
    if kind in STEPS:
        numbers = X.data if sp.issparse(X) else X
        numbers[...] = np.ceil(STEPS[kind] * numbers) / STEPS[kind]
    return X.astype(dtype)


def made_by_the_unit(gram, kind):
    source = gram._single
    if isinstance(source, TileSource) or source.levels is None:
        return isinstance(source, MatrixSource) and kind == "pieces"
    return source.levels.planes == {"pieces": 0, "levels": 1, "digits": 3 if matrix_unit.available() else 2}[kind]


def kept_rows(source):
    return len(source.levels.bytes if isinstance(source, WordSource) else source.kept)


# -- entries ---------------------------------------------------------------------------------------------------------


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_entries_and_products_equal_the_formula(name, layout, kind, dtype):
    for n, columns, d in SHAPES:
        gram = check(KERNELS[name], data(n, d, layout, kind, n, dtype), columns)
        assert made_by_the_unit(gram, kind) or n * d < 500  # few numbers may well be levels by chance, or all zero


@needs_unit
@given(
    st.sampled_from(PRODUCTS),
    st.sampled_from(LAYOUTS),
    st.sampled_from(("pieces", *STEPS) if matrix_unit.available() else tuple(STEPS)),
    st.integers(1, 220),
    st.integers(1, 200),
    st.integers(1, 140),
    st.sampled_from([0, 10**8]),
)
def test_shapes_of_any_size(name, layout, kind, n, columns, d, budget):
    with pytest.MonkeyPatch.context() as patch:
        use_always(patch)
        check(KERNELS[name], data(n, d, layout, kind, d), columns, budget)


def worst_numbers(rng, shape):
    """Numbers that bf16 pieces represent badly: all low bits set or just above a tie, of very different sizes."""
    mantissa = rng.choice([0x7F7FFF, 0x00FFFF, 0x018001, 0x3FFFFF, 0x008080], size=shape).astype(np.uint32)
    exponent = rng.integers(110, 140, size=shape).astype(np.uint32)
    return (exponent << 23 | mantissa).view(np.float32) * rng.choice([-1.0, 1.0], size=shape)


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("d", [1, 31, 33, 300, 784])
@pytest.mark.parametrize(
    "what", [*(pytest.param(what, marks=needs_matrix_unit) for what in ("normal", "positive", "worst")), *STEPS]
)
def test_sums_are_as_exact_as_stated(what, d):
    rng = np.random.default_rng(d)
    X = {
        "normal": lambda: rng.normal(size=(100, d)),
        "positive": lambda: rng.uniform(0.5, 1.0, size=(100, d)),
        "worst": lambda: worst_numbers(rng, (100, d)).astype(np.float64),
        "levels": lambda: rng.integers(0, 256, size=(100, d)) / 255.0,
        "digits": lambda: rng.integers(0, 1001, size=(100, d)) / 1000.0,
    }[what]()
    gram = fused_gram_of(X, Kernel("linear"))
    assert made_by_the_unit(gram, what if what in STEPS else "pieces")
    norms = np.linalg.norm(X, axis=1)
    within(gram.block(np.arange(100), None), X @ X.T, gram.sum_error * np.outer(norms, norms) * (1 + 1e-9))


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_levels_give_distances_without_cancellation(layout):
    """Rows far from the origin that differ in one level: float32 norms alone would lose the difference."""
    d, kernel = 400, Kernel("rbf", gamma=1e-4)
    K = np.full((40, d), 250.0) if layout == "dense" else np.where(np.arange(d) % 9 == 0, 250.0, np.zeros((40, d)))
    K[np.arange(40), 9 * np.arange(40)] += np.arange(40) % 6
    K[-1, -1] = 0.0
    X = sp.csr_matrix(K) if layout == "csr" else K
    gram = fused_gram_of(X, kernel)
    assert made_by_the_unit(gram, "levels")
    apart = np.sum((K[:, None] - K[None]) ** 2, axis=2)
    block = gram.block(np.arange(40), None)
    assert block == pytest.approx(np.exp(-kernel.gamma * apart), rel=1e-6)
    assert np.all(np.diag(block) == 1.0)


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_symmetric_block_is_symmetric_and_its_diagonal_one(layout, kind):
    for n in (1, 63, 197):
        X = data(n, 140, layout, kind)
        gram = fused_gram_of(X, KERNELS["rbf"])
        rows = np.random.default_rng(0).permutation(n)
        square, other = gram.block(rows, rows), gram.block(rows, rows.copy())
        assert np.array_equal(square, square.T)
        assert np.array_equal(np.triu(square), np.triu(other))
        assert np.all(np.diag(square) == 1.0)
        within(square, other, 2 * bound_of(gram, X)[np.ix_(rows, rows)])


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("budget", [0, 10**8], ids=["packed each time", "packed once"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_number_of_threads_changes_no_bit(layout, kind, budget, monkeypatch):
    monkeypatch.setattr(fused_gram, "_WORTH_THREADS", 0)
    X, rng = data(700, 100, layout, kind), np.random.default_rng(3)
    rows, w = rng.permutation(700)[:333], rng.normal(size=333)
    answers = []
    for threads in (1, 2, 3, 7, 1):
        gram = fused_gram_of(X, KERNELS["rbf"], budget=budget, n_jobs=threads)
        assert made_by_the_unit(gram, kind)
        out, part = np.zeros(700), np.zeros(333)
        gram.accumulate(out, rows, w)
        gram.accumulate(part, rows, w, rows)
        answers.append((gram.block(rows, None), gram.block(rows, rows), out, part))
    for answer in answers[1:]:
        for first, other in zip(answers[0], answer, strict=True):
            assert np.array_equal(first, other)


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_the_budget_holds_changes_no_bit(layout, kind):
    X, rows = data(200, 100, layout, kind, dtype=np.float32), np.arange(150)
    poor, rich = (fused_gram_of(X, KERNELS["rbf"], budget=budget) for budget in (0, 10**8))
    assert kept_rows(poor._single) == 0
    assert kept_rows(rich._single) == (0 if layout == "csr" and kind == "pieces" else 200)
    assert np.array_equal(poor.block(rows, None), rich.block(rows, None))
    assert np.array_equal(poor.exact(np.ones(200)), rich.exact(np.ones(200)))


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("size", [1e-15, 1e-9, 1e9, 1e15])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["rbf", "sigmoid"])
def test_tiny_and_huge_data_give_no_nan(name, kind, size):
    gram = fused_gram_of(size * data(60, 100, "dense", kind), KERNELS[name])
    block = gram.block(np.arange(60), None)
    assert np.all(np.isfinite(block))
    assert np.all(np.abs(block) <= 1.0 + 3e-7)
    if name == "rbf":
        assert np.all(np.diag(block) == 1.0)


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", STEPS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_exact_levels_serve_proofs_as_well(name, kind, monkeypatch):
    """Sums in whole numbers are as good in float64: as good as the vector tiles', which are not asked."""
    X, w = data(150, 90, "dense", kind), np.random.default_rng(0).normal(size=150)
    expected = fused_gram_of(X, KERNELS[name]).double()
    gram = fused_gram_of(X, KERNELS[name])
    monkeypatch.setattr(FusedGram, "_exact_source", lambda self: pytest.fail("the matrix unit could do this"))
    K = plain(KERNELS[name], X)
    off = bound(KERNELS[name], X, np.float64) + 1e-14 * np.abs(K)
    within(gram.exact(w), K @ w, off @ np.abs(w))
    within(gram.exact(w), expected.block(np.arange(150), None) @ w, 2 * off @ np.abs(w))


@needs_unit
@pytest.mark.usefixtures("always")
def test_levels_that_are_off_by_more_than_rounding_prove_nothing():
    k = np.random.default_rng(0).integers(0, 256, size=(150, 90))
    for X in ((k / 255).astype(np.float32), np.round(k / 255, 6)):
        gram = fused_gram_of(X, KERNELS["rbf"])
        assert made_by_the_unit(gram, "levels")
        assert gram._single.exactly() is None


@needs_unit
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_two_digits_up_to_the_largest_sums(name):
    """Squared distances just below 2^31, and digits of every size: nothing is lost in float64."""
    rng = np.random.default_rng(0)
    K = rng.choice([0, 1, 127, 128, 129, 255, 256, 16_255, 16_256, 16_382, 16_383], size=(150, 8)).astype(np.float64)
    K[:, 4:] = 0.0
    K[:3], K[1, :4], K[2, 4:] = 0.0, 16_383.0, 16_383.0
    kernel = Kernel(name, gamma=1e-9)
    gram = fused_gram_of(K, kernel)
    assert made_by_the_unit(gram, "digits")
    assert gram._single.levels.norms.max() < 2**30
    inner = (K[:, None] * K[None]).sum(axis=2)
    apart = ((K[:, None] - K[None]) ** 2).sum(axis=2)
    assert apart.max() > 0.99 * 2**31
    expected = inner if name == "linear" else np.exp(-kernel.gamma * apart)
    assert gram.block(np.arange(150), None) == pytest.approx(expected, rel=1e-6)
    for i in range(3):
        assert gram.exact(np.eye(150)[i]) == pytest.approx(expected[i], rel=1e-15, abs=0.0)


# -- levels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("low", "step", "most"), [(0.0, 1 / 255, 255), (0.0, 1.0, 1), (-1.0, 2 / 15, 15), (3.0, 0.01, 200), (0.0, 1e-7, 9)]
)
def test_levels_are_found(low, step, most, dtype):
    k = np.random.default_rng(0).integers(0, most + 1, size=(300, 40))
    k[0, :2] = (0, most)
    found = find_levels((low + k * step).astype(dtype), shifted=True, threads=2)
    assert found.low == pytest.approx(low, abs=1e-6)
    assert found.step == pytest.approx(step, rel=1e-6)
    assert np.array_equal(found.norms, np.sum(k * k, axis=1))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("low", "step", "most"), [(-1.0, 0.001, 2000), (0.0, 0.01, 16_383), (0.0, 1.0, 256)])
def test_levels_of_two_digits_are_found(low, step, most, dtype):
    k = np.random.default_rng(0).integers(0, most + 1, size=(3000, 3))
    k[0, :2] = (0, most)
    X = (low + k * step).astype(dtype)
    assert find_levels(X, shifted=True, threads=2) is None
    found = find_levels(X, shifted=True, threads=2, budget=10**6, most=TWO_DIGITS)
    assert found.planes == 3
    assert found.low == pytest.approx(low, abs=1e-6)
    assert found.step == pytest.approx(step, rel=1e-6)
    assert np.array_equal(found.norms, np.sum(k * k, axis=1))
    high, small, both = found.bytes[:, :3], found.bytes[:, 64:67], found.bytes[:, 128:131]
    assert np.array_equal(128 * high.astype(int) + small, k)
    assert np.array_equal(both, high + small)


def test_levels_of_sixteen_bits_are_found():
    k = np.random.default_rng(0).integers(0, 32_768, size=(3000, 1))
    k[0], k[1] = 0, 32_767
    X = 0.25 * k
    assert find_levels(X, shifted=True, threads=2, most=TWO_DIGITS) is None
    found = find_levels(X, shifted=True, threads=2, budget=10**6, most=SIXTEEN_BITS)
    assert found.planes == 2
    assert found.step == 0.25
    assert np.array_equal(found.norms, k[:, 0] ** 2)
    assert np.array_equal(found.sums, k[:, 0])
    assert np.array_equal(found.bytes.view(np.int16)[:, 0], k[:, 0])


def test_two_digits_are_found_in_few_rounded_numbers():
    """Where Euclid divides, the rounding of float32 grows to more than a quarter of a step."""
    for seed in range(30):
        k = np.random.default_rng(seed).integers(0, 2001, size=(20, 20))
        X = (k / 2000).astype(np.float32)
        found = find_levels(X, shifted=False, threads=1, most=TWO_DIGITS)
        assert found.step == pytest.approx(1 / 2000, rel=1e-6)


def test_the_step_of_two_digits_is_the_largest():
    k = np.random.default_rng(0).choice([0, 6, 10, 15_000], size=(200, 4))
    assert find_levels(k.astype(float), shifted=False, threads=1, most=TWO_DIGITS).step == 2.0


def test_rows_too_long_for_whole_sums_have_no_levels():
    k = np.random.default_rng(0).integers(0, 16_384, size=(500, 3))
    assert find_levels(k.astype(float), shifted=True, threads=1, most=TWO_DIGITS) is not None
    k = np.hstack([k, np.full((500, 3), 16_383)])
    assert find_levels(k.astype(float), shifted=True, threads=1, most=TWO_DIGITS) is None


@pytest.mark.parametrize("kind", STEPS)
def test_the_least_number_need_not_be_in_the_sample(kind):
    X = 1.0 + data(3000, 30, "dense", kind)
    X[:, 0] = 1.1  # the first row, of every sample, has more
    X[1, 7] = 1.0 - 3.0 / STEPS[kind]
    found = find_levels(X, shifted=True, threads=1, most=TWO_DIGITS)
    assert found.low == X.min()
    assert found.step == pytest.approx(1.0 / STEPS[kind], rel=1e-9)
    for number in (np.nan, -np.inf, np.inf):
        X[1, 7] = number
        assert find_levels(X, shifted=True, threads=1, most=TWO_DIGITS) is None


def test_levels_that_rounding_has_moved_too_far_are_refused():
    """In float32 3000.01 is off by 1e-4, a hundredth of the step."""
    X = (3000.0 + 0.01 * np.random.default_rng(0).integers(0, 201, size=(300, 40))).astype(np.float32)
    assert find_levels(X, shifted=True, threads=1) is None


def test_levels_written_with_six_digits_are_found():
    k = np.random.default_rng(0).integers(0, 256, size=(300, 40))
    assert np.array_equal(
        find_levels(np.round(k / 255, 6), shifted=False, threads=1).norms, np.sum(k * k, axis=1)
    )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("fault", ["one between", "too many", "negative", "nan", "inf"])
def test_one_number_that_is_no_level_is_seen(layout, fault):
    X = data(3000, 30, layout, "levels")
    number = {"one between": 0.5025, "too many": 256 / 200, "negative": -1 / 200, "nan": np.nan, "inf": np.inf}[fault]
    (X.data if layout == "csr" else X.reshape(-1))[777] = number
    assert find_levels(X, shifted=False, threads=2) is None


def test_zeros_alone_have_no_levels():
    assert find_levels(np.zeros((5, 3)), shifted=True, threads=1) is None
    assert find_levels(sp.csr_matrix((5, 3)), shifted=True, threads=1) is None


# -- where it is used ------------------------------------------------------------------------------------------------


@needs_matrix_unit
def test_it_is_used_where_it_is_faster():
    rbf = KERNELS["rbf"]
    assert isinstance(fused_gram_of(data(300, 200, "dense", "pieces"), rbf)._single, MatrixSource)
    assert isinstance(fused_gram_of(data(300, 200, "csr", "levels"), rbf)._single, MatrixSource)
    assert isinstance(fused_gram_of(data(300, 8, "dense", "pieces"), rbf)._single, TileSource)
    assert isinstance(fused_gram_of(data(300, 200, "dense", "pieces"), KERNELS["laplacian"])._single, TileSource)
    few = sp.random(300, 10_000, density=0.002, format="csr", random_state=0)
    assert isinstance(fused_gram_of(few, rbf)._single, TileSource)


needs_word_products = pytest.mark.skipif(
    matrix_unit.available() or not matrix_unit.has_word_products(),
    reason="this CPU has no dot-product instructions (VNNI), or a matrix unit that is used in their place",
)


@needs_word_products
def test_dot_products_serve_levels_alone():
    rbf = KERNELS["rbf"]
    for layout in LAYOUTS:
        for kind in STEPS:
            source = fused_gram_of(data(300, 200, layout, kind), rbf)._single
            assert isinstance(source, WordSource)
            assert source.sparse == (layout != "dense")
    assert isinstance(fused_gram_of(data(300, 200, "dense", "pieces"), rbf)._single, TileSource)
    assert isinstance(fused_gram_of(data(300, 200, "dense", "levels"), KERNELS["laplacian"])._single, TileSource)
    assert isinstance(fused_gram_of(data(300, 8, "dense", "levels"), rbf)._single, TileSource)
    # Six decimals are less than float32 holds: few features are no reason to lose the others,
    rounded = np.round(data(300, 30, "dense", "levels") * 200 / 255, 6)
    assert isinstance(fused_gram_of(rounded, rbf)._single, TileSource)
    # unless sums of float32 numbers are off by as much.
    few = np.round(-1.0 + 2.0 * np.round(15.0 * data(300, 30, "dense", "levels")) / 15.0, 6)
    gram = fused_gram_of(few, rbf)
    assert isinstance(gram._single, WordSource)
    # Bounds are proved with the tiles all the same, and with exact levels themselves.
    assert isinstance(gram.proving()._single, TileSource)
    exact = fused_gram_of(data(300, 30, "dense", "levels"), rbf)
    assert exact.proving() is exact


@needs_word_products
@pytest.mark.parametrize("layout", ["dense", "csr"])
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_bytes_up_to_the_largest_sums(name, layout):
    """The most features and levels that int32 sums hold: nothing is lost in float64."""
    d, rng = 16_384, np.random.default_rng(0)
    K = rng.integers(0, 256, size=(40, d)).astype(np.float64)
    if layout == "csr":
        K[:, rng.permutation(d)[: d - 500]] = 0.0
    K[1], K[2], K[3], K[4, ::2] = 255.0, 0.0, 1.0, 255.0
    kernel = Kernel(name, gamma=1e-9)
    gram = fused_gram_of(sp.csr_matrix(K) if layout == "csr" else K, kernel)
    assert isinstance(gram._single, WordSource)
    assert gram._single.sparse == (layout == "csr")
    assert gram._single.levels.norms.max() > 0.99 * 2**30
    inner, norms = K @ K.T, np.sum(K * K, axis=1)
    expected = inner if name == "linear" else np.exp(-kernel.gamma * (norms[:, None] + norms - 2.0 * inner))
    assert gram.block(np.arange(40), None) == pytest.approx(expected, rel=1e-6)
    for i in range(5):
        assert gram.exact(np.eye(40)[i]) == pytest.approx(expected[i], rel=2e-15, abs=0.0)


@needs_word_products
@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_sixteen_bits_up_to_the_largest_level(name):
    K = np.array([0, 1, 255, 256, 257, 32_766, 32_767] * 10, dtype=np.float64)[:, None]
    K[0], kernel = 17.0, Kernel(name, gamma=1e-9)
    gram = fused_gram_of(K, kernel)
    assert gram._single.pairs
    expected = K @ K.T if name == "linear" else np.exp(-kernel.gamma * (K - K.T) ** 2)
    assert gram.block(np.arange(70), None) == pytest.approx(expected, rel=1e-6)
    for i in range(7):
        assert gram.exact(np.eye(70)[i]) == pytest.approx(expected[i], rel=1e-15, abs=0.0)


@needs_word_products
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", STEPS)
def test_half_of_a_symmetric_block_is_enough(layout, kind, monkeypatch):
    X, w = data(300, 70, layout, kind), np.random.default_rng(1).normal(size=300)
    answers = []
    for least in (0.0, np.inf):
        monkeypatch.setattr(fused_gram, "_WORTH_HALVING", least)
        gram = fused_gram_of(X, KERNELS["rbf"])
        assert isinstance(gram._single, WordSource)
        answers.append(gram.exact(w))
    assert answers[0] == pytest.approx(answers[1], rel=1e-13, abs=1e-13)


@needs_unit
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_certifies_its_gap(kind):
    X = data(400, 120, "dense", kind)
    y = np.where(X[:, :60].sum(axis=1) > X[:, 60:].sum(axis=1), 1, -1)
    model = dualgap.SVC(solver="block", C=10.0, gamma=0.3, gap_tol=1e-6).fit(X, y)
    assert model.status_ is dualgap.Status.CONVERGED
    assert model.certificate_.relative_gap <= 1e-6


# -- detection -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", ["darwin", "win32"])
def test_other_systems_are_not_asked(system, monkeypatch):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(matrix_unit.ctypes, "CDLL", lambda name: pytest.fail("no such call on this system"))
    assert not matrix_unit._permitted()


@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="Linux on x86-64 alone is asked")
def test_a_refusal_is_taken(monkeypatch):
    class Refusing:
        class syscall:  # noqa: N801 - the name of libc's function
            def __new__(cls, *arguments):
                return -1

    monkeypatch.setattr(matrix_unit.ctypes, "CDLL", lambda name: Refusing)
    assert not matrix_unit._permitted()


AVAILABLE = """
from dualgap.kernels import matrix_unit
print(matrix_unit.available() or matrix_unit.has_word_products())
"""


def available_with(**settings):
    run = subprocess.run(
        [sys.executable, "-c", AVAILABLE], env={**os.environ, **settings}, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip() == "True"


def test_it_can_be_turned_off():
    assert not available_with(DUALGAP_MATRIX_UNIT="0")


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="not an x86 CPU")
def test_code_for_another_cpu_does_not_use_it():
    assert not available_with(NUMBA_CPU_NAME="skylake-avx512", NUMBA_CPU_FEATURES="+avx512f,+avx2,+fma")
