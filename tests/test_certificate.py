"""The judge: bounds hold at any point, on any problem, and what has no gap is said to have none."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dualgap
from dualgap import FORMULATIONS, FullGram, Kernel, build, certify, make_gram, solve
from dualgap.certificate import exact_gradient

sys.path.insert(0, str(Path(__file__).parent))
from oracles import clarabel_solution
from problems import ROWS, data, problem


@st.composite
def awkward_problems(draw, largest_C=1e9):
    """Few points with everything that goes wrong: duplicates, zero rows, constant features, lone classes."""
    seed = draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    n, d = draw(st.integers(2, 14)), draw(st.integers(1, 3))
    X = rng.normal(size=(n, d)) * 10.0 ** draw(st.integers(-2, 2))
    flaw = draw(st.sampled_from(["none", "duplicates", "zero rows", "constant feature", "all the same", "grid"]))
    if flaw == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
    elif flaw == "zero rows":
        X[::2] = 0.0
    elif flaw == "constant feature":
        X[:, 0] = 7.0
    elif flaw == "all the same":
        X[:] = X[0]
    elif flaw == "grid":
        X = np.round(X)
    y = np.ones(n)
    y[: draw(st.integers(1, n - 1))] = -1.0  # down to one sample of a class
    rng.shuffle(y)
    row = draw(st.sampled_from(ROWS))
    C = 10.0 ** draw(st.floats(-6, np.log10(largest_C)))
    kernel = Kernel(draw(st.sampled_from(["rbf", "linear", "laplacian"])), gamma=0.5)
    settings = {"C": max(C, 1.0 / n) if row == "svdd" else C, "epsilon": draw(st.sampled_from([0.0, 0.1, 100.0]))}
    settings["nu"] = 0.9 * 2 * min((y > 0).sum(), (y < 0).sum()) / n if row == "nu_svc" else draw(st.floats(0.05, 1.0))
    target = {"classification": y, "regression": rng.normal(size=n), "outlier": None}[FORMULATIONS[row].task]
    return build(row, make_gram(X, kernel), target, **settings)


@given(awkward_problems(), st.integers(0, 3))
def test_the_optimum_lies_between_dual_and_primal_at_any_stage(p, stage):
    """Stopped anywhere, the certificate brackets what Clarabel finds."""
    with np.errstate(all="ignore"):
        _, _, value, status = clarabel_solution(p)
    result = solve(p, tol=1e-9, max_iter=3**stage, warn=False)
    c = result.certificate
    slack = 1e-6 * max(1.0, abs(value))
    if status == "Solved":
        assert c.dual <= -value + slack
        assert c.primal >= -value - slack
    assert c.gap >= 0.0
    assert c.relative_gap == pytest.approx(c.gap / max(abs(c.primal), abs(c.dual), 1e-300))


@given(awkward_problems(largest_C=1e3))
def test_awkward_problems_are_solved(p):
    result = solve(p, tol=1e-6, warn=False)
    assert result.status is dualgap.Status.CONVERGED
    assert result.certificate.kkt_violation <= 1e-6 * (1 + 1e-8)
    assert np.all(result.a >= p.lo)
    assert np.all(result.a <= p.hi)


def primal_at(p, a, eta):
    """The primal objective at given multipliers, written out from the definition, without the library's own terms."""
    slope = exact_gradient(p, a) - p.ridge * a + p.F @ eta
    least = np.empty(p.n)
    for i, (s, r, lo, hi) in enumerate(zip(slope, p.ridge, p.lo, p.hi, strict=True)):
        ends = [lo, hi] if r == 0.0 else [min(max(-s / r, lo), hi)]
        least[i] = min(0.5 * r * t * t + s * t for t in ends)
    quadratic = a @ (exact_gradient(p, a) - p.ridge * a - p.f0)
    return 0.5 * quadratic + p.e @ eta - least.sum()


@given(awkward_problems(), st.integers(0, 1000))
@example(problem("c_svc"), 0)
@example(problem("nu_svr"), 1)
@example(problem("squared_hinge"), 2)
@example(problem("eps_svr", functions=3), 3)
def test_multipliers_are_the_best(p, seed):
    """No other multipliers give a smaller primal objective for the same point."""
    rng = np.random.default_rng(seed)
    a = solve(p, tol=1e-3, max_iter=20, warn=False).a
    certificate, eta = certify(p, a)
    rounding = 1e-9 * max(1.0, abs(certificate.primal))
    assert certificate.primal == pytest.approx(primal_at(p, a, eta), abs=rounding)
    for scale in (1e-6, 1e-3, 1.0):
        other = eta + scale * rng.normal(size=eta.size)
        assert primal_at(p, a, other) >= certificate.primal - rounding


def test_all_variables_at_bounds_gives_the_middle_of_the_interval():
    """No free support vector: the bias is an interval, and its midpoint is taken."""
    X = np.array([[-1.0], [1.0]])
    p = build("c_svc", make_gram(X, Kernel("linear")), np.array([-1.0, 1.0]), C=0.1)
    result = solve(p, gap_tol=1e-12)
    assert result.a == pytest.approx([0.1, 0.1])
    # f(x) = 0.2 x + b; any b in [-0.8, 0.8] is optimal
    assert result.eta == pytest.approx([0.0], abs=1e-12)


@pytest.mark.parametrize("functions", [1, 2, 5])
@pytest.mark.parametrize("row", ROWS)
def test_multipliers_of_coupled_constraints(row, functions):
    """Found from the point alone, they equal Clarabel's where these are unique."""
    p = problem(row, functions=functions)
    a, eta, value, _ = clarabel_solution(p)
    certificate, found = certify(p, a)
    assert certificate.primal == pytest.approx(-value, rel=1e-8)
    assert found == pytest.approx(-eta if np.dot(found, eta) < 0 else eta, abs=1e-4 * max(1.0, np.abs(eta).max()))


def test_infeasible_points_are_reported_and_pay_for_it():
    p = problem("c_svc")
    best = solve(p, gap_tol=1e-10)
    nudged = best.a.copy()
    nudged[np.flatnonzero((best.a > 0.01) & (best.a < 1.99))[:3]] += 3e-4
    certificate, _ = certify(p, nudged)
    assert certificate.infeasibility > 1e-5
    assert certificate.dual <= best.certificate.primal + 1e-6
    assert certificate.primal >= best.certificate.dual - 1e-9
    with pytest.raises(ValueError, match="start is not feasible: it misses the box or F'a = e by"):
        solve(p, start=nudged)
    off = best.a.copy()
    off[np.flatnonzero(p.F[:, 0] > 0)] = 0.0
    certificate, _ = certify(p, off)
    assert certificate.infeasibility > 0.1
    outside, _ = certify(p, best.a + 5.0)
    assert outside.infeasibility >= 5.0 - 2.0


def test_indefinite_kernel_has_no_gap_and_says_why():
    X, y, _ = data(80)
    p = build("c_svc", make_gram(X, Kernel("sigmoid", gamma=2.0, coef0=1.0)), y)
    result = solve(p, tol=1e-4)
    c = result.certificate
    assert result.status is dualgap.Status.CONVERGED
    assert "indefinite" in c.note
    assert np.isnan([c.primal, c.dual, c.gap, c.relative_gap]).all()
    assert c.kkt_violation <= 1e-4
    assert "no duality gap" in str(c)


def test_unknown_kernels_are_examined():
    X, y, _ = data(40)
    K = make_gram(X, Kernel("rbf", gamma=0.3)).matrix
    good, _ = certify(build("c_svc", FullGram(K.copy()), y), np.zeros(40))
    assert good.note == ""
    bad, _ = certify(build("c_svc", FullGram(K - 2 * np.eye(40)), y), np.zeros(40))
    assert "eigenvalue" in bad.note
    skew = K.copy()
    skew[0, 1] += 1.0
    lopsided, _ = certify(build("c_svc", FullGram(skew), y), np.zeros(40))
    assert "not symmetric" in lopsided.note


def test_float32_on_uncentred_data_is_not_believed():
    """Entries from float32 far from the origin: a gap believed small must be true in float64."""
    X, y, _ = data(200)
    shifted = (X + 1000.0).astype(np.float32)
    p = build("c_svc", make_gram(shifted, Kernel("rbf", gamma=0.3), kind="cached"), y, C=10.0)
    result = solve(p, gap_tol=1e-6)
    exact = build("c_svc", make_gram(shifted.astype(np.float64), Kernel("rbf", gamma=0.3)), y, C=10.0)
    certificate, _ = certify(exact, result.a)
    assert certificate.relative_gap <= 1e-6


def test_squared_hinge_gap_is_finite():
    result = solve(problem("squared_hinge"), tol=1e-2)
    assert np.isfinite(result.certificate.gap)
    assert result.certificate.relative_gap < 1e-2


def test_contradicting_constraints_are_named():
    p = problem("c_svc")
    gram = p.gram
    q = dualgap.DualQP(
        gram, p.index, p.sign, p.ridge, p.f0, p.lo, p.hi, np.column_stack([p.F, p.F]), np.array([0.0, 1.0])
    )
    with pytest.raises(dualgap.InfeasibleProblemError, match="contradict"):
        solve(q)


def test_unreachable_sums_are_named():
    p = problem("one_class")
    q = dualgap.DualQP(p.gram, p.index, p.sign, p.ridge, p.f0, p.lo, p.hi, p.F, np.array([1e6]))
    with pytest.raises(dualgap.InfeasibleProblemError, match="cannot be met within the box"):
        solve(q)
