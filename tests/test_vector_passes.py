"""Compiled passes over the vectors of a problem, against the same in NumPy."""

import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dualgap
from dualgap._vector_passes import (
    ascending,
    certificate_terms,
    distance_from_doubt,
    in_box,
    nonzero,
    positive_weights,
    signed_gradient,
    target_fault,
)
from dualgap.certificate import exact_gradient, judge
from dualgap.constraints import infeasibility
from dualgap.kernels.linear_gram import LinearGram

sys.path.insert(0, str(Path(__file__).parent))
from problems import ROWS, data, problem


@pytest.mark.parametrize("k", [0, 1, 2])
def test_distances_from_doubt(k):
    rng = np.random.default_rng(k)
    n = 300
    lo, hi = np.zeros(n), rng.choice([0.0, 1.0, np.inf], size=n)
    a = np.where(rng.uniform(size=n) < 0.4, lo, np.where(np.isfinite(hi), hi, 0.5))
    gradient, f0, F = rng.normal(size=n), rng.normal(size=n), rng.normal(size=(n, k))
    gradient[:2] = np.nan, np.inf
    low, high = rng.normal(size=k), rng.normal(size=k)
    one, other = F @ low, F @ high
    down = np.where(a == lo, gradient + np.minimum(one, other), -np.inf)
    up = np.where(a == hi, -gradient - np.maximum(one, other), -np.inf)
    rounding = 1e-3 * (np.abs(gradient) + np.abs(f0) + np.maximum(np.abs(one), np.abs(other)))
    with np.errstate(invalid="ignore"):
        expected = np.where(lo == hi, np.inf, np.maximum(down, up) - rounding)
    assert_allclose(distance_from_doubt(a, gradient, f0, lo, hi, F, low, high, 1e-3), expected, rtol=1e-12)


def terms(p, a, gradient, eta):
    residual, sums = p.e.copy(), np.zeros(p.k)
    found = certificate_terms(a, gradient, p.f0, p.ridge, p.lo, p.hi, p.F, eta, residual, sums)
    return *found, residual, sums


@pytest.mark.parametrize("n", [60, 700])
@pytest.mark.parametrize("functions", [0, 2])
@pytest.mark.parametrize("row", ROWS)
def test_terms_of_a_certificate(row, functions, n):
    p = problem(row, functions=functions, n=n)
    rng = np.random.default_rng(1)
    most = np.where(np.isfinite(p.hi), p.hi, 2.0)
    a = np.clip(rng.uniform(-0.5, 1.5, size=p.n), 0.0, 1.0) * most
    gradient, eta = exact_gradient(p, a), rng.normal(size=p.k)
    brackets, violation, energy, outside, residual, sums = terms(p, a, gradient, eta)
    s = gradient - p.ridge * a + p.F @ eta
    curved = p.ridge > 0.0
    t = np.clip(-s / np.where(curved, p.ridge, 1.0), p.lo, p.hi)
    t = np.where(curved, t, np.where(s < 0.0, p.hi, p.lo))
    assert_allclose(brackets, ((0.5 * p.ridge * a**2 + s * a) - (0.5 * p.ridge * t**2 + s * t)).sum(), rtol=1e-10)
    full = s + p.ridge * a
    expected = max(full[a > p.lo].max(initial=0.0), (-full[a < p.hi]).max(initial=0.0))
    assert_allclose(violation, expected, rtol=1e-12)
    assert_allclose(energy, a @ (gradient + p.f0), rtol=1e-10)
    assert outside == 0.0
    assert_allclose(residual, p.e - p.F.T @ a, atol=1e-10 * max(1.0, np.abs(a).sum()))
    assert_allclose(sums, np.abs(p.F).T @ np.abs(a), rtol=1e-12)


def test_point_outside_the_box():
    p = problem("c_svc")
    a = np.zeros(p.n)
    a[3], a[5] = -0.25, p.hi[5] + 0.5
    assert terms(p, a, p.f0, np.zeros(p.k))[3] == 0.5
    assert judge(p, a, p.f0)[0].infeasibility == infeasibility(p, a) >= 0.5
    assert not in_box(a, p.lo, p.hi)
    assert in_box(np.clip(a, p.lo, p.hi), p.lo, p.hi)
    assert not in_box(np.full(p.n, np.nan), p.lo, p.hi)


def test_overflow_proves_nothing():
    p = problem("c_svc")
    gradient = p.f0.copy()
    gradient[7] = np.nan
    brackets, violation, *_ = terms(p, np.zeros(p.n), gradient, np.zeros(p.k))
    assert np.isnan(brackets)
    assert np.isnan(violation)


def test_infinite_bound_without_ridge():
    p = problem("c_svc")
    hi = p.hi.copy()
    hi[2] = np.inf
    q = dualgap.DualQP(p.gram, p.index, p.sign, 0.0, p.f0, p.lo, hi, p.F, p.e)
    found = terms(q, np.zeros(p.n), -np.ones(p.n), np.zeros(p.k))
    assert found[0] == found[1] == np.inf


def test_what_is_wrong_with_targets_and_weights():
    assert target_fault(np.array([1.0, -1.0]), True) == 0
    assert target_fault(np.array([1.0, 0.5]), False) == 0
    assert target_fault(np.array([1.0, 0.5]), True) == 2
    for bad in (np.nan, np.inf, -np.inf):
        assert target_fault(np.array([1.0, bad]), False) == 1
        assert target_fault(np.array([0.5, bad]), True) == 1
        assert positive_weights(np.array([1.0, bad])) == -1
    assert positive_weights(np.array([1.0, 0.0, 2.0])) == 2
    assert positive_weights(np.array([1.0, -1e-300])) == -1


def test_points_in_order():
    assert ascending(np.arange(5))
    assert ascending(np.array([3]))
    assert not ascending(np.array([0, 1, 1]))
    assert not ascending(np.array([0, 2, 1]))


def test_what_a_problem_knows_of_itself():
    flat, squared = problem("c_svc"), problem("squared_hinge")
    assert (flat.whole, flat.ridgeless, flat.curved, flat.bounded) == (True, True, False, True)
    assert (squared.ridgeless, squared.curved, squared.bounded) == (False, True, False)
    pairs = problem("eps_svr")
    assert not pairs.whole
    a = np.random.default_rng(0).uniform(size=flat.n)
    expected = np.bincount(flat.index, weights=flat.sign * a, minlength=flat.gram.n)
    assert np.array_equal(flat.on_points(a), expected)


def test_index_outside_the_matrix():
    p = problem("c_svc")
    for wrong in (-1, p.gram.n):
        index = p.index.copy()
        index[4] = wrong
        with pytest.raises(ValueError, match=rf"index must lie in \[0, {p.gram.n}\)"):
            dualgap.DualQP(p.gram, index, p.sign, p.ridge, p.f0, p.lo, p.hi, p.F, p.e)


@pytest.mark.parametrize("row", ["c_svc", "nu_svc", "eps_svr", "one_class"])
@pytest.mark.parametrize("functions", [0, 2])
def test_some_points_are_those_of_weight_above_zero(row, functions):
    X, y, t = data()
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.3))
    target = {"c_svc": y, "nu_svc": y, "eps_svr": t, "one_class": None}[row]
    points = np.flatnonzero(np.arange(60) % 3 > 0)
    weight = np.where(np.arange(60) % 3 > 0, 1.0 + np.arange(60) % 2, 0.0)
    phi = np.column_stack([X[:, 0], X[:, 1] ** 2]) if functions else None
    one = dualgap.build(row, gram, target, sample_weight=weight, parametric=phi)
    other = dualgap.build(
        row,
        gram,
        None if target is None else target[points],
        sample_weight=weight[points],
        parametric=None if phi is None else phi[points],
        points=points,
    )
    for name in ("index", "sign", "ridge", "f0", "lo", "hi", "F", "e"):
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    assert one.columns == other.columns


def test_problem_keeps_no_array_of_the_callers():
    X, y, _ = data()
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.3))
    weight = np.ones(60)
    p = dualgap.build("c_svc", gram, y, sample_weight=weight)
    sign, hi = p.sign.copy(), p.hi.copy()
    y *= -1.0
    weight *= 2.0
    assert np.array_equal(p.sign, sign)
    assert np.array_equal(p.hi, hi)


@pytest.mark.parametrize("values", [[], [0.0, -0.0], [1.0, 0.0, np.nan, -2.0, 0.0], [0.0, 5e-324]])
def test_places_that_are_not_zero(values):
    assert np.array_equal(nonzero(np.array(values)), np.flatnonzero(values))


def test_gradient_of_signs_and_places():
    rng = np.random.default_rng(0)
    product, sign, ridge, f0, a = rng.normal(size=(5, 9))
    expected = sign * product + ridge * a + f0
    assert np.array_equal(signed_gradient(product, np.zeros(0, dtype=np.intp), sign, ridge, f0, a), expected)
    place = rng.permutation(9)
    expected = sign * product[place] + ridge * a + f0
    assert np.array_equal(signed_gradient(product, place, sign, ridge, f0, a), expected)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sign", 0.5, "sign must be"),
        ("sign", np.nan, "sign must be"),
        ("ridge", -1.0, "ridge must be"),
        ("ridge", np.inf, "ridge must be"),
        ("ridge", np.nan, "ridge must be"),
        ("f0", np.inf, "f0 must be"),
        ("f0", np.nan, "f0 must be"),
        ("lo", -np.inf, "lo must be finite"),
        ("lo", 5.0, "lo must not exceed hi"),
        ("hi", np.nan, "lo must not exceed hi"),
        ("F", np.nan, "F must be finite"),
        ("e", np.inf, "e must be finite"),
    ],
)
def test_faults_of_a_problem(name, value, message):
    p = problem("c_svc")
    parts = {part: getattr(p, part).copy() for part in ("index", "sign", "ridge", "f0", "lo", "hi", "F", "e")}
    parts[name].flat[-1] = value
    with pytest.raises(ValueError, match=message):
        dualgap.DualQP(p.gram, **parts)


@pytest.mark.parametrize("constant", [0.0, 2.0])
def test_weights_of_a_linear_gram(constant):
    X, _, _ = data()
    gram = LinearGram(X, constant)
    rng = np.random.default_rng(0)
    for _ in range(2):
        c = np.where(rng.uniform(size=60) < 0.5, rng.normal(size=60), 0.0)
        assert_allclose(gram.exact(c), (X @ X.T + constant) @ c, rtol=1e-11, atol=1e-11)
        assert_allclose(gram.weights(c), X.T @ c, rtol=1e-12, atol=1e-13)
        c[:] = 2.0 * c  # the same array with other numbers
        assert_allclose(gram.weights(c), X.T @ c, rtol=1e-12, atol=1e-13)
        assert_allclose(gram.exact(c, np.arange(5)), (X[:5] @ X.T + constant) @ c, rtol=1e-11, atol=1e-11)
    gram.forget()
    assert not gram.exact(np.zeros(60)).any()
