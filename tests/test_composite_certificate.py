"""The certificate against HiGHS and Clarabel: it never claims less than the true distance, and it is tight."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dualgap
from dualgap import certify_composite, primal_svm
from dualgap.composite import Composite
from dualgap.losses import Hinge, Logistic
from dualgap.minimization import minimize_composite
from dualgap.operators import as_operator
from dualgap.regularisers import Penalty

sys.path.insert(0, str(Path(__file__).parent))
from composites import NAMES, REGULARISERS, data, lbfgs, problem, svm_optimum

SVMS = [(p, q, kernel) for p in (1, 2) for q in (1, 2) for kernel in (False, True)]
OPTIMA = {}


def machine(p, q, kernel, seed=0):
    X, y, _ = data(30, 4, seed=seed)
    A = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.2)) if kernel else X
    if (p, q, kernel, seed) not in OPTIMA:
        OPTIMA[p, q, kernel, seed] = svm_optimum(A.matrix if kernel else X, y, 1.5, p, q, kernel)
    return primal_svm(A, y, 1.5, p=p, q=q, eps=0.05), OPTIMA[p, q, kernel, seed]


@settings(max_examples=80)
@given(st.sampled_from(SVMS), st.integers(0, 3), st.integers(0, 10**6), st.booleans(), st.floats(-3, 2))
def test_the_optimum_lies_between(svm, seed, noise, given_dual, size):
    p, best = machine(*svm, seed)
    rng = np.random.default_rng(noise)
    x = rng.normal(size=p.n) * 10.0**size
    dual = rng.normal(size=p.m) * 10.0**size if given_dual else None
    certificate, u = certify_composite(p, x, dual)
    slack = 1e-8 * best
    assert certificate.dual <= best + slack
    assert certificate.primal >= best - slack
    assert certificate.gap >= certificate.primal - best - slack
    assert certificate.gap == pytest.approx(certificate.primal - certificate.dual, rel=1e-6, abs=1e-9)
    feasible(p, u)


def feasible(p, u):
    low, high = p.loss.bounds()
    assert np.all(u >= low)
    assert np.all(u <= high)
    back = p.operator.rmatvec(u)
    assert abs(back[-1]) <= 1e-10 * max(1.0, np.abs(u).sum())
    if np.any(p.regulariser.l1):
        assert np.abs(back[:-1]).max() <= 1.0 + 1e-12


@pytest.mark.parametrize(("p", "q", "kernel"), SVMS)
def test_tight_at_the_optimum(p, q, kernel):
    P, best = machine(p, q, kernel)
    result = dualgap.minimize_smoothed(P, gap_tol=1e-7)
    again, u = certify_composite(P, result.x, result.dual)
    assert again.relative_gap <= 1.5e-7
    assert again.primal == pytest.approx(best, rel=2e-7)
    assert u == pytest.approx(result.dual, abs=1e-6)
    feasible(P, u)


def test_gap_at_the_smoothed_optimum_is_as_derived():
    """At most ``eps (d/4 + C n/8)`` for p = q = 1."""
    X, y, _ = data(40, 6)
    for eps in (0.3, 0.03, 0.003):
        P = primal_svm(X, y, 2.0, eps=eps)
        x = minimize_composite(P, method="tn", tol=1e-10).x
        certificate, _ = certify_composite(P, x)
        assert 0.0 < certificate.gap <= eps * (6 / 4 + 2.0 * 40 / 8)


@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("name", NAMES)
def test_every_loss_and_regulariser_has_a_certificate(name, regulariser):
    p = problem(name, regulariser)
    x = lbfgs(p)
    certificate, _ = certify_composite(p, x)
    smooth = regulariser == "l2" and name not in ("hinge", "epsilon_insensitive")
    assert 0.0 <= certificate.relative_gap < (1e-8 if smooth else 0.2)
    far, _ = certify_composite(p, x + 1.0)
    assert far.dual <= certificate.primal * (1 + 1e-9)
    assert far.gap >= far.primal - certificate.primal


def test_several_free_coordinates():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 5))
    X[:, 4] = 1.0
    y = np.where(X[:, 0] + rng.normal(size=50) > 0.3, 1.0, -1.0)
    p = Composite(as_operator(X), Hinge(y, eps=1e-3), Penalty(l2=1.0), free=(1, 4))
    x = minimize_composite(p, method="tn", tol=1e-8).x
    certificate, u = certify_composite(p, x)
    assert certificate.relative_gap < 1e-2
    assert np.abs(X[:, [1, 4]].T @ u).max() < 1e-10


def test_no_certificate_where_there_is_none():
    X, y, _ = data(30, 4)
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.2))
    both = Composite(as_operator(gram), Logistic(y), Penalty(l2=1.0), energy=1.0)
    with pytest.raises(TypeError, match="energy and a penalty"):
        certify_composite(both, np.zeros(30))
    with pytest.raises(ValueError, match="30 finite"):
        certify_composite(primal_svm(X, y), np.zeros(5), np.zeros(3))


def test_sample_weights_of_zero_and_one_class():
    X, y, _ = data(30, 4)
    weight = np.where(np.arange(30) < 5, 0.0, 1.0)
    without = dualgap.minimize_smoothed(primal_svm(X[5:], y[5:]), gap_tol=1e-6)
    with_zero = dualgap.minimize_smoothed(primal_svm(X, y, sample_weight=weight), gap_tol=1e-6)
    assert with_zero.certificate.primal == pytest.approx(without.certificate.primal, rel=2e-6)
    alone = dualgap.minimize_smoothed(primal_svm(X, np.ones(30)), gap_tol=1e-6, max_rounds=40)
    assert alone.certificate.primal == pytest.approx(0.0, abs=1e-2)
