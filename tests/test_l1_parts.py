"""Parts of the search for an L1-SVM: chosen columns, Newton matrices brought up to date, coordinate descent."""

import numpy as np
import pytest
import scipy.sparse as sp

from dualgap._l1_columns import DenseColumns, SparseColumns, signed_columns
from dualgap._l1_descent import descend
from dualgap._l1_factor import factored, solved
from dualgap._l1_newton import Pieces, _brought_up, _stopped
from dualgap.l1svm import solve_l1_svm
from dualgap.regularisers import Penalty


def scattered(seed, n=60, d=200, share=0.05):
    """A sparse matrix by columns, and labels of which one in five is positive."""
    rng = np.random.default_rng(seed)
    X = sp.random(n, d, share, format="csc", random_state=rng, data_rvs=lambda size: rng.uniform(0.2, 1.0, size))
    return X, np.where(np.arange(n) % 5 == 0, 1.0, -1.0)


def wanted_columns(X, y, chosen, bias):
    Z = y[:, None] * X.toarray().astype(np.float64)[:, chosen]
    return np.hstack([Z, y[:, None]]) if bias else Z


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize(("share", "kind"), [(0.005, SparseColumns), (0.5, DenseColumns)])
def test_chosen_columns_are_those_of_scipy(bias, dtype, index, share, kind):
    X, y = scattered(0, share=share)
    X = X.astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    chosen = np.array([3, 4, 50, 120, 199])
    Z = signed_columns(X, y, chosen, bias)
    assert isinstance(Z, kind)
    wanted = wanted_columns(X, y, chosen, bias)
    made = Z.array if isinstance(Z, DenseColumns) else Z.matrix.toarray()
    assert np.array_equal(made, wanted)
    rows = signed_columns(X, y, chosen, bias, sparse=True)
    assert isinstance(rows, SparseColumns)
    assert np.array_equal(rows.matrix.toarray(), wanted)
    assert rows.matrix.has_sorted_indices
    w, a = np.arange(wanted.shape[1]) - 2.0, np.linspace(0.0, 1.0, y.size)
    for one in (Z, rows):
        assert one.shape == wanted.shape
        assert one.times(w) == pytest.approx(wanted @ w)
        assert one.back(a) == pytest.approx(wanted.T @ a)
        assert one.squares(a) == pytest.approx((wanted**2).T @ a)


def test_no_column_at_all():
    X, y = scattered(1)
    assert signed_columns(X, y, np.zeros(0, dtype=np.intp), True, sparse=True).matrix.toarray().ravel().tolist() == (
        y.tolist()
    )
    assert signed_columns(X, y, np.zeros(0, dtype=np.intp), False).shape == (y.size, 0)


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("changed", [0, 3, 40])
def test_a_newton_matrix_brought_up_to_date_is_the_one_made_anew(sparse, changed):
    X, y = scattered(2, share=0.2)
    columns = np.arange(0, 200, 9)
    Z = signed_columns(X, y, columns, True, sparse=True)
    if not sparse:
        Z = DenseColumns(np.asfortranarray(Z.matrix.toarray()))
    before = np.where(np.arange(60) < 45, 2.0, 0.0)
    after = before.copy()
    after[20 : 20 + changed] = 2.0 - after[20 : 20 + changed]
    H = Z.weighted_gram(before)
    assert _brought_up(Z, H, before, after) == pytest.approx(Z.weighted_gram(after), abs=1e-13)
    assert _brought_up(Z, np.empty((0, 0)), np.empty(0), after) == pytest.approx(Z.weighted_gram(after), abs=1e-13)


@pytest.mark.parametrize("cap", [np.inf, 0.7])
def test_the_loss_in_pieces(cap):
    """Slopes are derivatives of the value, and curvatures those of the slopes."""
    rng = np.random.default_rng(3)
    a0, sigma, t = rng.uniform(0.0, 0.5, 50), rng.uniform(0.5, 2.0, 50), rng.normal(size=50)
    sigma[:3] = 0.0
    loss = Pieces(a0, sigma, cap)
    assert loss.slope(t) == pytest.approx(np.clip(a0 + sigma * t, 0.0, cap))
    step = 1e-6
    for i in range(50):
        moved = np.zeros(50)
        moved[i] = step
        slope = (loss.value(t + moved) - loss.value(t - moved)) / (2 * step)
        assert slope == pytest.approx(loss.slope(t)[i], abs=1e-6)
        bend = (loss.slope(t + moved) - loss.slope(t - moved))[i] / (2 * step)
        assert bend == pytest.approx(loss.curvature(t)[i], abs=1e-6)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("started", [True, False])
def test_descent_comes_close_and_names_the_features_that_count(bias, started):
    X, y = scattered(4, n=300, d=900, share=0.03)
    c, lam, kind = np.full(300, 1.0), np.ones(900 + bias), "penalised" if bias else "none"
    best = solve_l1_svm(X, y, 1.0, loss="squared_hinge", bias=kind)
    start = np.zeros(900 + bias)
    if started:
        start[:900] = 0.9 * best.coef
    x, chosen = descend(X, y, c, lam, start, bias, lambda: False)
    slack = np.maximum(1.0 - y * (X @ x[:900] + (x[900] if bias else 0.0)), 0.0)
    assert np.abs(x).sum() + slack @ slack <= 1.02 * best.certificate.primal
    assert np.all(np.isin(np.flatnonzero(x[:900]), chosen))
    selected = np.flatnonzero(best.coef)
    assert np.count_nonzero(np.isin(selected, chosen)) >= 0.9 * selected.size


def test_descent_ends_when_it_is_told():
    X, y = scattered(5)
    x, _ = descend(X, y, np.ones(60), np.ones(201), np.zeros(201), True, lambda: True)
    assert not np.any(x[:200])
    assert x[200] < 0.0  # the bias comes first, and most labels are negative


def test_whole_numbers_are_samples_as_good_as_any():
    rng = np.random.default_rng(6)
    X = sp.csr_matrix(rng.integers(0, 3, size=(40, 30)))
    y = np.where(rng.random(40) < 0.4, 1.0, -1.0)
    whole = solve_l1_svm(X, y, 0.3, loss="squared_hinge")
    floats = solve_l1_svm(X.astype(np.float64), y, 0.3, loss="squared_hinge")
    assert np.array_equal(whole.coef, floats.coef)


def test_a_newton_step_that_holds_weights_at_zero_is_the_best_such_step():
    rng = np.random.default_rng(7)
    A = rng.normal(size=(40, 12))
    H = A.T @ A
    old = np.full(12, 0.3)
    residual = H @ rng.normal(size=12)
    held = np.arange(12) < 10
    d = np.linalg.solve(H, residual)
    crossing = held & (old + d <= 0.0)
    assert crossing.any()
    aside, done = _stopped(factored(lambda: H.copy()), d, old, held, crossing)
    zero = held & (old + aside <= 0.0)
    assert done
    assert np.array_equal(aside[zero], -old[zero])
    moving = ~zero
    wanted = np.linalg.solve(H[np.ix_(moving, moving)], residual[moving] + H[np.ix_(moving, zero)] @ old[zero])
    assert aside[moving] == pytest.approx(wanted, abs=1e-9)
    # No weight crosses: the step is as it was.
    same, done = _stopped(factored(lambda: H.copy()), d, 100.0 + old, held, np.zeros(12, dtype=bool))
    assert done
    assert np.array_equal(same, d)


def test_a_factor_of_a_matrix_without_full_rank():
    A = np.ones((5, 3))
    factor = factored(lambda: A.T @ A)
    x = solved(factor, np.full(3, 5.0))
    assert A.T @ A @ x == pytest.approx(np.full(3, 5.0), rel=1e-6)
    with pytest.raises(np.linalg.LinAlgError, match="no Cholesky factor"):
        factored(lambda: np.array([[1.0, 5.0], [5.0, 1.0]]))


def test_a_penalty_without_squares_is_one_with_squares_of_no_weight():
    """The shorter formulas for absolute values alone, against those for both where squares have a tiny weight."""
    rng = np.random.default_rng(8)
    x, v = rng.normal(size=30) * (rng.random(30) < 0.5), rng.uniform(-1.0, 1.0, 30)
    v[:3], l1 = 0.0, rng.uniform(1.0, 2.0, 30)
    alone, both = Penalty(l1=l1), Penalty(l1=l1, l2=np.where(np.arange(30) == 29, 1e-300, 0.0))
    assert alone.excess(x, v) == pytest.approx(both.excess(x, v), abs=1e-15)
    v[29], x[29] = 0.0, 0.0
    assert alone.reach(v) == both.reach(v) == np.min(l1[3:29] / np.abs(v[3:29]))
    assert alone.reach(np.zeros(30)) == np.inf
