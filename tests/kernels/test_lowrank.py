"""Low-rank Gram matrices against dense linear algebra and the lecture's own recursion, and as matrices to solve on."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dualgap
from dualgap import Kernel, build, make_gram, solve
from dualgap.kernels import _lowrank_selection as choosing
from dualgap.kernels.lowrank import LowRankGram, rpcholesky, sgma

METHODS = {
    "best of 59": lambda gram, rank, **k: sgma(gram, rank, **k),
    "greedy": lambda gram, rank, **k: sgma(gram, rank, selection="greedy", **k),
    "random": lambda gram, rank, **k: sgma(gram, rank, selection="random", **k),
    "rpcholesky": lambda gram, rank, **k: rpcholesky(gram, rank, **k),
}
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def points(n=150, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def rbf(X, gamma=0.3, kind="cached"):
    return make_gram(X, Kernel("rbf", gamma=gamma), kind=kind)


def dense(gram):
    return np.column_stack([gram.exact(unit) for unit in np.eye(gram.n)])


def direct(K, basis):
    """K[:, basis] K[basis, basis]^-1 K[basis, :] by a solver of linear systems."""
    return K[:, basis] @ np.linalg.solve(K[np.ix_(basis, basis)], K[basis])


def small_sample(monkeypatch, rows):
    """Measure gains on so few points that the paths for many points are taken."""
    monkeypatch.setattr(choosing, "MOST_ROWS", rows)


@each_method
@pytest.mark.parametrize("kind", ["full", "cached", "sparse", "laplacian", "poly", "precomputed", "callable"])
def test_is_the_projection_onto_the_basis(method, kind):
    X = points()
    gram = {
        "full": lambda: rbf(X, kind="full"),
        "cached": lambda: rbf(X),
        "sparse": lambda: rbf(sp.csr_matrix(np.where(np.abs(X) > 0.7, X, 0.0))),
        "laplacian": lambda: make_gram(X, Kernel("laplacian", gamma=0.3)),
        "poly": lambda: make_gram(X, Kernel("poly", gamma=0.5, coef0=1.0, degree=4)),
        "precomputed": lambda: make_gram(dense(rbf(X)), Kernel("precomputed")),
        # A linear kernel plus one: of rank 4.
        "callable": lambda: make_gram(X, Kernel("callable", function=lambda a, b: a @ b.T + 1.0)),
    }[kind]()
    K = dense(gram)
    found = method(gram, 20)
    assert found.rank == (4 if kind == "callable" else 20)
    assert len(set(found.basis)) == found.rank
    expected = direct(K, found.basis)
    np.testing.assert_allclose(found.factor @ found.factor.T, expected, atol=1e-10 * K.max())
    assert found.errors[-1] == pytest.approx(np.trace(K - expected), rel=1e-8, abs=1e-9 * np.trace(K))
    np.testing.assert_allclose(found.residual, np.diag(K - expected), atol=1e-10 * K.max())
    np.testing.assert_allclose(
        found.triangle @ found.triangle.T, K[np.ix_(found.basis, found.basis)], atol=1e-10 * K.max()
    )
    assert np.linalg.eigvalsh(K - found.factor @ found.factor.T)[0] > -1e-10 * np.trace(K)


@each_method
def test_errors_of_every_step(method):
    gram = rbf(points())
    K = dense(gram)
    found = method(gram, 30)
    expected = [np.trace(K)] + [np.trace(K - direct(K, found.basis[:t])) for t in range(1, 31)]
    np.testing.assert_allclose(found.errors, expected, rtol=1e-9)
    assert np.all(np.diff(found.errors) < 0.0)
    assert found.trace_error == found.errors[-1] / np.trace(K)
    # No basis of t functions, chosen points or not, does better than the first t eigenvectors.
    spectrum = np.linalg.eigvalsh(K)
    tails = np.array([spectrum[: gram.n - t].sum() for t in range(31)])
    assert np.all(found.errors >= tails * (1 - 1e-12))


def test_the_lectures_recursion():
    """Err and alpha updated as the lecture has it (alpha += r v'/eta, new column -r/eta), with the inverse it uses."""
    gram = rbf(points(n=60))
    K = dense(gram)
    found = sgma(gram, 12)
    basis, error = found.basis, np.trace(K)
    alpha = np.empty((60, 0))
    for t, new in enumerate(basis):
        old = basis[:t]
        v = np.linalg.solve(K[np.ix_(old, old)], K[old, new])
        eta = K[new, new] - K[new, old] @ v
        r = K[:, old] @ v - K[:, new]
        error -= r @ r / eta
        alpha = np.column_stack([alpha + np.outer(r, v) / eta, -r / eta])
        assert found.errors[t + 1] == pytest.approx(error, rel=1e-9)
    np.testing.assert_allclose(found.alpha(), alpha, atol=1e-9)
    np.testing.assert_allclose(alpha, K[:, basis] @ np.linalg.inv(K[np.ix_(basis, basis)]), atol=1e-9)
    np.testing.assert_allclose(found.factor @ found.factor.T, alpha @ K[np.ix_(basis, basis)] @ alpha.T, atol=1e-10)


def test_greedy_takes_the_best_of_all_at_every_step():
    gram = rbf(points(n=80))
    K = dense(gram)
    found = sgma(gram, 10, selection="greedy")
    for t in range(10):
        R = K - direct(K, found.basis[:t]) if t else K
        rest = np.setdiff1d(np.arange(80), found.basis[:t])
        gains = np.einsum("ij,ij->j", R, R)[rest] / np.diag(R)[rest]
        assert found.errors[t] - found.errors[t + 1] == pytest.approx(gains.max(), rel=1e-6)


def test_greedy_is_better_than_59_than_random_on_average():
    gram = rbf(points(n=400), gamma=0.2)
    mean = {
        name: np.mean([method(gram, 25, seed=seed).trace_error for seed in range(5)])
        for name, method in METHODS.items()
    }
    assert mean["greedy"] < mean["best of 59"] < mean["random"]
    assert mean["rpcholesky"] < mean["random"]


@each_method
def test_stops_on_the_trace(method):
    gram = rbf(points(n=300), gamma=0.1)
    found = method(gram, 300, trace_tol=1e-2)
    assert found.errors[-1] <= 1e-2 * found.errors[0] < found.errors[-2]
    assert found.factor.shape == (300, found.rank)
    assert found.factor.flags.c_contiguous
    np.testing.assert_allclose(found.residual, 1.0 - np.einsum("ij,ij->i", found.factor, found.factor), atol=1e-12)


@each_method
def test_stops_where_rounding_begins(method):
    """Duplicates and a kernel of low rank: no pivot twice, no division by nothing."""
    X = np.repeat(points(n=12, d=2), 5, axis=0)
    found = method(rbf(X), 60)
    assert found.rank <= 12
    assert len(np.unique(X[found.basis], axis=0)) == found.rank
    linear = method(make_gram(X, Kernel("linear")), 60)
    assert linear.rank == 2
    np.testing.assert_allclose(linear.factor @ linear.factor.T, X @ X.T, atol=1e-12)


@each_method
def test_float32(method):
    X = points(n=200).astype(np.float32)
    found = method(rbf(X), 30)
    assert found.factor.dtype == found.dtype == np.float32
    K = dense(rbf(X))
    np.testing.assert_allclose(found.factor @ found.factor.T, direct(K, found.basis), atol=2e-6)
    assert found.errors[-1] == pytest.approx(np.trace(K - direct(K, found.basis)), rel=1e-9)
    assert method(rbf(X), 5, dtype=np.float64).factor.dtype == np.float64
    weights = np.random.default_rng(1).normal(size=200)
    spread = np.zeros(200)
    spread[found.basis] = found.expand(weights)
    np.testing.assert_allclose(K @ spread, found.exact(weights), atol=3e-5)


@pytest.mark.parametrize("selection", ["best of 59", "greedy", "random"])
def test_gains_of_a_sample(monkeypatch, selection):
    """Beyond so many points gains are measured on a sample; factor and errors are still those of all points."""
    gram = rbf(points(n=500), gamma=0.2)
    K = dense(gram)
    small_sample(monkeypatch, 120)
    found = sgma(gram, 25, selection=selection)
    expected = direct(K, found.basis)
    np.testing.assert_allclose(found.factor @ found.factor.T, expected, atol=1e-10)
    assert found.errors[-1] == pytest.approx(np.trace(K - expected), rel=1e-9)
    best = np.linalg.eigvalsh(K)[:-25].sum()
    assert found.errors[-1] < (4.0 if selection == "random" else 2.5) * best
    tight = sgma(gram, 400, selection=selection, trace_tol=3e-3)
    # The candidates of greedy are the sample alone, which may not span all points so well.
    assert tight.trace_error <= 3e-3 or (selection == "greedy" and tight.rank == 120)


@pytest.mark.parametrize("selection", ["best of 59", "random"])
def test_sample_where_rounding_begins(monkeypatch, selection):
    X = np.repeat(points(n=12, d=2), 20, axis=0)
    small_sample(monkeypatch, 50)
    found = sgma(rbf(X), 60, selection=selection)
    assert 8 <= found.rank <= 12
    assert len(np.unique(X[found.basis], axis=0)) == found.rank


def test_blocks_of_rpcholesky_follow_the_sequential_distribution():
    """The second pivot given the first, by blocks of 1 and of 16 proposals, against the exact probabilities."""
    X = np.array([[0.0], [0.1], [0.2], [1.5], [3.0]])
    gram = rbf(X, gamma=1.0)
    K = dense(gram)
    expected = np.zeros((5, 5))
    for first in range(5):
        left = np.diag(K) - K[:, first] ** 2
        expected[first] = left / left.sum() / 5
    for block in (1, 16):
        counts = np.zeros((5, 5))
        for seed in range(600):
            counts[tuple(rpcholesky(gram, 2, block=block, seed=seed).basis)] += 1
        # 25 cells of up to 0.09: standard errors are below 0.012.
        assert np.abs(counts / 600 - expected).max() < 0.045


@each_method
def test_reproducible(method):
    gram = rbf(points())
    first, second, other = (method(gram, 20, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.factor, second.factor)
    assert np.array_equal(first.basis, second.basis)
    if method is not METHODS["greedy"]:
        assert not np.array_equal(first.basis, other.basis)


@given(st.integers(2, 40), st.integers(1, 50), st.integers(0, 10**6))
def test_any_small_set(n, rank, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, 2)).astype(float)  # many duplicates
    gram = rbf(X, gamma=float(rng.uniform(0.01, 3.0)))
    K = dense(gram)
    for method in METHODS.values():
        found = method(gram, rank, seed=seed)
        assert found.rank <= min(n, rank, len(np.unique(X, axis=0)))
        assert np.abs(found.factor @ found.factor.T - K).max() <= np.sqrt(found.residual.max()) + 1e-9
        assert np.linalg.eigvalsh(K - found.factor @ found.factor.T)[0] > -1e-9
        assert found.errors[-1] == pytest.approx(found.residual.sum(), abs=1e-12)


@pytest.mark.parametrize("solver", dualgap.SOLVERS)
@pytest.mark.parametrize("method", [sgma, rpcholesky])
def test_every_solver_works_on_it(solver, method):
    X = points(n=200)
    y = np.where(X[:, 0] * X[:, 1] + 0.3 * X[:, 2] > 0, 1.0, -1.0)
    low = method(rbf(X), 30)
    assert isinstance(low, dualgap.Gram)
    assert low.psd
    module = dualgap.SOLVERS[solver]
    if getattr(module, "BASELINE", False):
        pytest.skip("a baseline cannot be asked for this gap")
    rows = ((row, bias) for row in ("c_svc", "squared_hinge") for bias in (True, False))
    forms = (build(row, low, y, C=2.0, bias=bias) for row, bias in rows)
    taken = next(problem for problem in forms if module.supports(problem) is None)
    row, bias = taken.formulation, taken.k > 0
    result = solve(taken, solver, gap_tol=1e-7)
    assert result.status is dualgap.Status.CONVERGED
    matrix = make_gram(low.factor @ low.factor.T, Kernel("precomputed"))
    expected = solve(build(row, matrix, y, C=2.0, bias=bias), "smo", gap_tol=1e-7)
    assert result.certificate.dual == pytest.approx(expected.certificate.dual, rel=1e-6)


def test_members_of_the_protocol():
    low = sgma(rbf(points()), 20)
    K = low.factor @ low.factor.T
    rows, columns = np.array([3, 5, 9]), np.array([5, 80])
    np.testing.assert_allclose(low.block(rows, columns), K[np.ix_(rows, columns)], atol=1e-14)
    np.testing.assert_allclose(low.rows(rows), K[rows], atol=1e-14)
    np.testing.assert_allclose(low.diag(), np.diag(K), atol=1e-14)
    out = np.ones(150)
    low.accumulate(out, rows, np.array([1.0, -2.0, 3.0]))
    np.testing.assert_allclose(out, 1.0 + K[:, rows] @ [1.0, -2.0, 3.0], atol=1e-13)
    assert isinstance(low.separate(), LowRankGram)
    assert low.n == 150


def test_expansion_is_the_same_function():
    """Weights over all points on K~, and coefficients over the basis on K: the same values and the same norm."""
    gram = rbf(points())
    K = dense(gram)
    low = rpcholesky(gram, 25)
    weights = np.random.default_rng(0).normal(size=150)
    c = low.expand(weights)
    np.testing.assert_allclose(K[:, low.basis] @ c, low.exact(weights), atol=1e-9)
    assert c @ K[np.ix_(low.basis, low.basis)] @ c == pytest.approx(weights @ low.exact(weights), rel=1e-9)


def test_a_rank_beyond_the_points_is_all_of_them():
    gram = rbf(points(n=20), gamma=2.0)
    for method in METHODS.values():
        found = method(gram, 1000)
        assert found.rank == 20
        np.testing.assert_allclose(found.factor @ found.factor.T, dense(gram), atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "rank must be a positive whole number of basis functions; got 0"),
        ({"rank": -3}, "rank must be .*; got -3"),
        ({"rank": 2.5}, "rank must be .*; got 2.5"),
        ({"trace_tol": -0.1}, r"trace_tol must lie in \[0, 1\)"),
        ({"trace_tol": 1.0}, r"trace_tol must lie in \[0, 1\)"),
        ({"dtype": np.int32}, "dtype must be float32 or float64"),
    ],
)
@pytest.mark.parametrize("method", [sgma, rpcholesky])
def test_bad_settings(method, settings, message):
    with pytest.raises(ValueError, match=message):
        method(rbf(points(n=20)), **settings)


def test_bad_settings_of_one_method():
    with pytest.raises(ValueError, match="selection must be one of 'best of 59'"):
        sgma(rbf(points(n=20)), selection="best")
    with pytest.raises(ValueError, match="block must be a positive number"):
        rpcholesky(rbf(points(n=20)), block=0)
    with pytest.raises(ValueError, match="no positive trace"):
        sgma(make_gram(np.zeros((5, 2)), Kernel("linear")))


@each_method
def test_an_indefinite_kernel_is_refused(method):
    X = points()
    with pytest.raises(ValueError, match=r"not positive semidefinite .* use a positive semidefinite kernel"):
        method(make_gram(X, Kernel("sigmoid", gamma=1.0, coef0=1.0)), 100)
