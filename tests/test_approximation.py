"""What is said of the true kernel, against dense linear algebra, an exact solver and the problem itself."""

import sys
from pathlib import Path

import numpy as np
import pytest

import dualgap
from dualgap import Kernel, approximation, build, make_gram, solve
from dualgap.kernels.lowrank import rpcholesky, sgma

sys.path.insert(0, str(Path(__file__).parent))
from problems import ROWS, data, target


def exact_matrix(X, gamma=0.3):
    return make_gram(X, Kernel("rbf", gamma=gamma), kind="cached")


def solved(row, rank=25, n=120, gamma=0.3):
    """A problem over K~, its solution, and the same problem over K."""
    X, y, t = data(n)
    gram = exact_matrix(X, gamma)
    settings = {"C": 0.1 if row == "svdd" else 2.0, "nu": 0.5}
    low = sgma(gram, rank)
    p = build(row, low, target(row, y, t), **settings)
    return p, solve(p, "smo", gap_tol=1e-8), build(row, gram, target(row, y, t), **settings)


@pytest.mark.parametrize("rank", [10, 60])
@pytest.mark.parametrize("row", ROWS)
def test_brackets_the_optimum_of_the_true_kernel(row, rank):
    p, result, true = solved(row, rank)
    found = approximation.assess(p, result.a, result.eta)
    best = solve(true, "smo", gap_tol=1e-9).certificate
    assert found.dual <= best.primal
    assert found.primal >= best.dual
    assert found.exact
    assert found.dual_estimate == found.dual
    distance = (found.primal - best.primal) / max(abs(found.primal), abs(found.dual))
    assert found.true_gap >= distance * (1 - 1e-6)
    # The optimum over K~ is that of the true kernel with the function kept within the span: the same objective.
    assert found.primal == pytest.approx(result.certificate.primal, rel=1e-9)


@pytest.mark.parametrize("row", ["c_svc", "nu_svc", "one_class"])
def test_dual_objective_is_that_of_the_matrix(row):
    p, result, true = solved(row)
    K = np.column_stack([true.gram.exact(unit) for unit in np.eye(true.gram.n)])
    b = p.on_points(result.a)
    at_one = -(0.5 * b @ K @ b + p.f0 @ result.a)
    found = approximation.assess(p, result.a, result.eta)
    if row == "c_svc":  # the best multiple of a
        scale = min(1.0, -(p.f0 @ result.a) / (b @ K @ b))
        assert found.dual == pytest.approx(-(0.5 * scale**2 * b @ K @ b + scale * p.f0 @ result.a), rel=1e-10)
        assert found.dual >= at_one
    else:
        assert found.dual == pytest.approx(at_one, rel=1e-10)


@pytest.mark.parametrize("row", ["eps_svr", "nu_svr"])
def test_a_useless_basis_leaves_a_gap_of_one(row):
    """Between the solution and a point of f = 0 the dual objective never falls below that of f = 0."""
    p, result, _ = solved(row, rank=2)
    found = approximation.assess(p, result.a, result.eta)
    assert found.dual >= -1e-9
    assert found.true_gap <= 1.0


@pytest.mark.parametrize("row", ["c_svc", "nu_svr", "svdd"])
def test_bound_and_estimate_by_blocks(row, monkeypatch):
    p, result, _ = solved(row, rank=30, n=240)
    exact = approximation.assess(p, result.a, result.eta)
    used = np.count_nonzero(p.on_points(result.a))
    bounds = []
    for blocks in (2, 5, used):
        monkeypatch.setattr(approximation, "_KERNEL_VALUES", used**2 / blocks)
        found = approximation.assess(p, result.a, result.eta)
        assert not found.exact
        assert found.primal == exact.primal
        assert found.dual <= exact.dual
        assert found.true_gap_estimate <= found.true_gap
        bounds.append(found.dual)
    # Fewer kernel values prove less.
    assert bounds[0] > bounds[1] > bounds[2]


def test_estimate_is_unbiased(monkeypatch):
    p, result, _ = solved("one_class", rank=20, n=240)  # no scaling: the dual objective is linear in b'Kb
    exact = approximation.assess(p, result.a, result.eta)
    used = np.count_nonzero(p.on_points(result.a))
    monkeypatch.setattr(approximation, "_KERNEL_VALUES", used**2 / 4)
    estimates = []
    for seed in range(200):
        monkeypatch.setattr(approximation, "_SEED", seed)
        estimates.append(approximation.assess(p, result.a, result.eta).dual_estimate)
    error = np.std(estimates) / np.sqrt(200)
    assert abs(np.mean(estimates) - exact.dual) < 4 * error


def test_float32_factor_is_judged_by_kernel_values():
    """Whatever the factor's rounding, the statement is about the expansion that predicts."""
    X, y, _ = data(150)
    gram = exact_matrix(X)
    low = rpcholesky(gram, 40, dtype=np.float32)
    p = build("c_svc", low, y, C=2.0)
    result = solve(p, "smo", gap_tol=1e-6)
    found = approximation.assess(p, result.a, result.eta)
    c, K = low.expand(p.on_points(result.a)), np.column_stack([gram.exact(unit) for unit in np.eye(150)])
    f = K[:, low.basis] @ c
    losses = np.maximum(0.0, 1.0 - y * (f + result.eta[0]))
    assert found.primal == pytest.approx(0.5 * c @ f[low.basis] + 2.0 * losses.sum(), rel=1e-12)


def test_no_gap_of_an_indefinite_matrix():
    """A matrix whose first pivots show nothing of its negative eigenvalue."""
    X, y, _ = data(80)
    K = np.column_stack([exact_matrix(X).exact(unit) for unit in np.eye(80)])
    K[np.ix_([0, 1], [0, 1])] = [[1.0, 1.2], [1.2, 1.0]]
    gram = make_gram(K, Kernel("precomputed"))
    low = sgma(gram, 2, selection="random", seed=0)
    assert not {0, 1} & set(low.basis)
    p = build("c_svc", low, y, C=2.0)
    result = solve(p, "smo", gap_tol=1e-6)
    found = approximation.assess(p, result.a, result.eta)
    assert "indefinite" in found.note
    assert np.isnan(found.true_gap)
    assert "indefinite" in str(found)


def test_other_matrices_are_refused():
    X, y, _ = data(40)
    p = build("c_svc", exact_matrix(X), y)
    with pytest.raises(TypeError, match="LowRankGram; got one over a KernelGram"):
        approximation.assess(p, np.zeros(40), np.zeros(1))


def test_several_tasks_add_up():
    p, result, _ = solved("c_svc")
    one = approximation.assess(p, result.a, result.eta)
    assert approximation.combine([one]) is one
    both = approximation.combine([one, one])
    assert both.primal == 2 * one.primal
    assert both.true_gap == pytest.approx(one.true_gap)
    assert "rank 25" in str(both)
    assert dualgap.certify(p, result.a)[0].relative_gap <= 1e-8
