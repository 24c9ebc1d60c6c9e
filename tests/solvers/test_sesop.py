"""SESOP itself: conjugate gradients on quadratics, Nemirovski's rate, its modes, lost rank, drift."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.linalg import cg

import dualgap
from dualgap.composite import Composite
from dualgap.losses import Hinge, Squared
from dualgap.minimization import choose_method, minimize_composite
from dualgap.operators import as_operator
from dualgap.regularisers import Penalty
from dualgap.result import Status
from dualgap.solvers import _sesop_subspace as subspace
from dualgap.solvers import sesop

sys.path.insert(0, str(Path(__file__).parents[1]))
from composites import data, lbfgs, problem, quadratic


def values(p, method, iterations, **options):
    result = minimize_composite(p, method=method, tol=1e-300, max_iter=iterations, **options)
    return np.array([step.fun for step in result.history])


@pytest.mark.parametrize("method", ["sesop1-", "sesop1", "sesop8", "cg_fast"])
def test_conjugate_gradients_on_a_quadratic(method):
    # Later, or with a larger condition, rounding parts all implementations of conjugate gradients.
    A, p = quadratic(condition=100.0)
    right = A.T @ p.loss.y
    expected = []
    cg(A.T @ A, right, rtol=1e-14, maxiter=20, callback=lambda x: expected.append(p.value(x, A @ x)))
    ours = values(p, method, 20)[1:]
    assert len(ours) == 20
    assert ours[-1] < 1e-3 * ours[0]  # the least value is 0
    assert ours == pytest.approx(np.array(expected), rel=1e-5)


def test_more_previous_steps_are_no_worse_on_a_quadratic():
    _, p = quadratic(condition=1e4, seed=3)
    assert np.all(values(p, "sesop8", 30) <= values(p, "sesop0", 30) + 1e-12)


@pytest.mark.parametrize("method", ["sesop0", "sesop1", "sesop8"])
def test_nemirovskis_rate(method):
    """``f(x_k) - f* <= 2 L |x_0 - x*|^2 / k^2``, on Nesterov's quadratic, the worst of its size.

    There no method is below ``3 L |x_0 - x*|^2 / (32 (k + 1)^2)`` after k = (n - 1)/2 iterations.
    """
    n = 301
    D = np.eye(n) - np.diag(np.ones(n - 1), -1)
    A = np.vstack([D, np.zeros((1, n))])
    A[-1, -1] = -1.0
    target = np.zeros(n + 1)
    target[0] = 1.0
    p = Composite(as_operator(A), Squared(target), Penalty())
    solution = np.linalg.lstsq(A, target, rcond=None)[0]
    least = p.value(solution, A @ solution)
    L = 2.0 * np.linalg.norm(A, 2) ** 2
    f = values(p, method, 150) - least
    k = np.arange(1, 151)
    assert np.all(f[1:] <= 2.0 * L * (solution @ solution) / k**2)
    assert f[150] >= 3.0 * L * (solution @ solution) / (32.0 * 151**2)


@pytest.mark.parametrize(
    "options",
    [
        {"steps": 0, "nemirovski": False},
        {"steps": 0, "nemirovski": False, "gradients": 5},
        {"steps": 3, "gradients": 3},
        {"steps": 40, "gradients": 40},
        {"preconditioner": np.linspace(0.5, 2.0, 9)},
        {"preconditioner": lambda g: 0.3 * g},
        {"subspace_steps": 1},
    ],
)
def test_every_mode_descends_to_the_optimum(options):
    p = problem("hinge", "l1")
    best = minimize_composite(p, method="tn", tol=1e-8).fun
    result = minimize_composite(p, method="sesop", tol=1e-5, max_iter=5000, **options)
    assert result.success
    assert result.fun == pytest.approx(best, rel=1e-8)


def test_the_right_preconditioner_makes_a_quadratic_easy():
    A, p = quadratic(condition=1e6)
    inverse = np.linalg.inv(A.T @ A)
    assert minimize_composite(p, method="sesop1", tol=1e-8, preconditioner=lambda g: inverse @ g).nit <= 3
    assert minimize_composite(p, method="sesop1", tol=1e-8).nit > 10


def test_directions_that_have_become_parallel():
    p = problem("logistic")
    rng = np.random.default_rng(0)
    x, z = np.zeros(p.n), np.zeros(p.m)
    d = rng.normal(size=p.n)
    D = np.array([d, 2 * d, d * (1 + 1e-15), rng.normal(size=p.n)])
    V = np.array([p.operator.matvec(row) for row in D])
    alpha = subspace.minimise(p, x, z, D, V, 1e-10, 50)
    there = alpha @ D
    gradient = p.gradient(there, p.operator.matvec(there))
    assert np.abs(D @ gradient).max() < 1e-7


def test_normalised_directions_keep_their_products():
    p = problem("hinge", "l1")
    kept = sesop._Directions(p, sesop.Options(steps=3, gradients=2), np.zeros(p.n), np.zeros(p.m))
    rng = np.random.default_rng(0)
    x = np.zeros(p.n)
    for _ in range(8):
        d = rng.normal(size=p.n) * 10.0 ** rng.integers(-5, 5)
        D, V = kept.with_gradient(x, p.operator.matvec(x), d, p.operator.matvec(d))
        assert np.linalg.norm(D, axis=1) == pytest.approx(np.ones(len(D)))
        assert pytest.approx(np.array([p.operator.matvec(row) for row in D]), abs=1e-9) == V
        alpha = rng.normal(size=len(D))
        step = alpha @ D
        kept.remember(step, alpha @ V)
        x = x + step
    assert D.shape == (1 + 2 + 3 + 2, p.n)


def test_a_direction_with_a_wrong_product_is_dropped():
    p = problem("hinge", "l1", n=30)
    kept = sesop._Directions(p, sesop.Options(steps=2), np.zeros(p.n), np.zeros(p.m))
    rng = np.random.default_rng(0)
    for _ in range(3):
        d, step = rng.normal(size=p.n), rng.normal(size=p.n)
        kept.with_gradient(step, p.operator.matvec(step), d, p.operator.matvec(d))
        kept.remember(step, p.operator.matvec(step))
    u = rng.normal(size=p.m)
    kept.check(u, p.operator.rmatvec(u))
    assert kept.there.all()
    kept.V[3] += 1e-6 * rng.normal(size=p.m)
    kept.check(u, p.operator.rmatvec(u))
    assert kept.there.tolist() == [True, True, True, False, True]


def test_float32_products_are_no_drift():
    p = problem("logistic")

    class Single:
        shape = p.operator.shape

        def matvec(self, x):
            return p.operator.matvec(x).astype(np.float32)

        def rmatvec(self, u):
            return p.operator.rmatvec(u).astype(np.float32)

    q = Composite(Single(), p.loss, p.regulariser, free=(-1,))
    result = minimize_composite(q, method="sesop8", tol=1e-3, max_iter=500)
    assert result.success
    assert result.n_products <= 2 * result.nit + 12


def test_products_do_not_drift():
    """After a thousand iterations without forming ``Ax``, the gradient computed anew is the solver's own."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 30)) * np.geomspace(1e-3, 1.0, 30)
    y = np.where(rng.random(60) > 0.5, 1.0, -1.0)
    p = Composite(as_operator(X, bias=True), Hinge(y, eps=1e-3), Penalty(l1=0.01, eps=1e-3), free=(-1,))
    result = minimize_composite(p, method="sesop1", tol=1e-12, max_iter=1000)
    assert result.gradient_norm == pytest.approx(result.history[-1].gradient_norm, rel=1e-3, abs=1e-10)


def test_bad_options():
    p = problem("logistic")
    for options, message in (
        ({"steps": -1}, "steps"),
        ({"subspace_tol": 0.0}, "subspace_tol"),
        ({"subspace_steps": 0}, "subspace_steps"),
        ({"preconditioner": np.ones(3)}, "preconditioner"),
        ({"preconditioner": -np.ones(p.n)}, "positive"),
        ({"depth": 3}, "Unknown option 'depth'"),
    ):
        with pytest.raises(ValueError, match=message):
            minimize_composite(p, method="sesop", **options)


@pytest.mark.skipif(
    not os.environ.get("DUALGAP_DATA"), reason="DUALGAP_DATA is not set: this test needs a real data set"
)
def test_sesop8_converges_on_madelon_sooner_than_conjugate_gradients():
    from dualgap import primal_svm
    from dualgap.datasets import find, load

    data = load(find("madelon"))
    X = data.X.toarray()[:500] if hasattr(data.X, "toarray") else data.X[:500]
    p = primal_svm(X / np.abs(X).max(axis=0), data.y[:500], C=1.0, eps=0.1)
    sesop8 = minimize_composite(p, method="sesop8", max_iter=5000)
    fast = minimize_composite(p, method="cg_fast", max_iter=800)
    assert sesop8.success
    assert sesop8.n_products <= fast.n_products


@pytest.mark.parametrize("q", [1, 2])
@pytest.mark.parametrize("bias", [False, True])
def test_the_gradient_of_feature_space_takes_one_product_an_iteration(q, bias):
    """K^-1 is its preconditioner: the same optimum, from far fewer iterations of half the products each."""
    X, y, _ = data(60, 3)
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.2))
    p = dualgap.primal_svm(gram, y, C=2.0, p=2, q=q, eps=0.1, bias=bias)
    products = []

    class Seen:
        shape = p.operator.shape

        def matvec(self, x):
            products.append("forward")
            return p.operator.matvec(x)

        def rmatvec(self, u):
            products.append("back")
            return p.operator.rmatvec(u)

        def quadratic(self, x, z):
            return p.operator.quadratic(x, z)

    seen = Composite(Seen(), p.loss, p.regulariser, p.free, p.energy)
    module, settings = choose_method("sesop8", {"tol": 1e-5, "max_iter": 500})
    descent = module.solve(seen, settings, lambda s: False)
    assert descent.status is Status.CONVERGED
    assert descent.n_products == len(products)
    # One for each gradient; the few forward ones are where Ax had drifted.
    assert products.count("back") <= descent.iterations + 1 + products.count("forward")
    assert products.count("forward") <= 2
    plain = minimize_composite(p, method="sesop8", tol=1e-3, max_iter=5000, feature_space=False)
    assert p.value(descent.x, p.operator.matvec(descent.x)) <= plain.fun * (1 + 1e-9)
    assert descent.n_products < 0.2 * plain.n_products


def test_with_a_penalty_on_coefficients_the_gradient_is_theirs():
    X, y, _ = data(40, 3)
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.2))
    p = dualgap.primal_svm(gram, y, C=1.0, p=2, q=2)
    both = Composite(p.operator, p.loss, Penalty(l2=0.1), p.free, p.energy)
    x = lbfgs(both)
    result = minimize_composite(both, method="sesop8", tol=1e-5)
    assert result.success
    assert result.fun == pytest.approx(both.value(x, both.operator.matvec(x)), rel=1e-8)
