"""Every solver of the composite problem on every loss and regulariser: SciPy's optimum, and an honest count."""

import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import dualgap
from dualgap.composite import Composite
from dualgap.composite_certificate import certify_composite
from dualgap.losses import make_loss
from dualgap.minimization import choose_method, minimize_composite
from dualgap.operators import as_operator
from dualgap.regularisers import Penalty
from dualgap.smoothing import minimize_smoothed

sys.path.insert(0, str(Path(__file__).parents[1]))
from composites import NAMES, REGULARISERS, composite_optimum, data, lbfgs, loss, problem

METHODS = (
    "sesop0",
    "sesop1-",
    "sesop1",
    "sesop8",
    "sesop32",
    "cg_fast",
    "cg_plain",
    "tn",
    "nesterov",
    "nesterov_plain",
)
# What the mildly conditioned problems of this file take at most, by a margin.
MOST = {"nesterov": 3000, "nesterov_plain": 20_000, "sesop0": 3000}


# One of each family, and the other presets.
SOLVERS = ("sesop8", "cg_fast", "tn", "nesterov")
VARIANTS = ("sesop0", "sesop1-", "sesop1", "sesop32", "cg_plain")


class Tally:
    """A map that counts for itself."""

    def __init__(self, A):
        self.A, self.shape, self.forward, self.backward = A, A.shape, 0, 0

    def matvec(self, x):
        self.forward += 1
        return self.A.matvec(x)

    def rmatvec(self, u):
        self.backward += 1
        return self.A.rmatvec(u)


@pytest.fixture(scope="module")
def optimum():
    known = {}

    def find(name, regulariser):
        if (name, regulariser) not in known:
            p = problem(name, regulariser)
            x = lbfgs(p)
            known[name, regulariser] = p.value(x, p.operator.matvec(x))
        return known[name, regulariser]

    return find


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("regulariser", REGULARISERS)
@pytest.mark.parametrize("name", NAMES)
def test_optimum_of_scipy(name, regulariser, method, optimum):
    p = problem(name, regulariser)
    result = minimize_composite(p, method=method, tol=1e-5, max_iter=MOST.get(method, 1500))
    assert result.success, (result.status, result.gradient_norm)
    assert result.gradient_norm <= 1e-5 * (1 + 1e-6)
    # A gradient of 1e-5 leaves an error of some 1e-10 / curvature.
    assert result.fun == pytest.approx(optimum(name, regulariser), rel=1e-8)
    z = p.operator.matvec(result.x)
    assert result.fun == p.value(result.x, z)


@pytest.mark.parametrize(
    "method", ["sesop0", "sesop1-", "sesop1", "sesop8", "sesop32", "cg_fast", "nesterov", "nesterov_plain"]
)
@pytest.mark.parametrize("start", [False, True])
def test_one_product_each_way_an_iteration(method, start):
    large = problem("hinge", n=50)
    tally = Tally(large.operator)
    p = Composite(tally, large.loss, large.regulariser, free=(-1,))
    module, settings = choose_method(method, {"tol": 1e-300, "max_iter": 17})
    x0 = np.ones(p.n) if start else None
    seen = []
    descent = module.solve(p, settings, lambda s: bool(seen.append((s.iteration, s.n_products))), x0)
    assert descent.iterations == 17
    assert tally.forward == 17 + start
    assert tally.backward == 17 + 1
    assert descent.n_products == tally.forward + tally.backward
    assert seen == [(k, 2 * k + 1 + start) for k in range(18)]


@pytest.mark.parametrize("method", ["cg_plain", "tn"])
def test_other_products_are_counted_as_they_are(method):
    tally = Tally(problem("logistic").operator)
    p = Composite(tally, loss("logistic"), problem("logistic").regulariser, free=(-1,))
    module, settings = choose_method(method, {"tol": 1e-8, "max_iter": 50})
    descent = module.solve(p, settings, lambda s: False)
    assert descent.n_products == tally.forward + tally.backward
    if method == "tn":  # inner steps both ways, and one gradient an iteration
        assert tally.backward == tally.forward + descent.iterations + 1


@pytest.mark.parametrize("method", METHODS)
def test_deterministic_bit_for_bit(method):
    first, second = (minimize_composite(problem("hinge", "l1"), method=method, max_iter=60) for _ in range(2))
    assert np.array_equal(first.x, second.x)
    assert first.n_products == second.n_products


@pytest.mark.parametrize("method", METHODS)
def test_descent_is_monotone_and_starts_at_the_start(method):
    p = problem("logistic", "elastic_net")
    x0 = np.linspace(-1, 1, p.n)
    result = minimize_composite(p, x0, method, tol=1e-7, max_iter=300)
    values = [step.fun for step in result.history]
    assert values[0] == p.value(x0, p.operator.matvec(x0))
    if not method.startswith("nesterov"):  # accelerated methods are not monotone
        assert all(b <= a + 1e-12 * abs(a) for a, b in pairwise(values))


@pytest.mark.parametrize("method", ["sesop8", "cg_fast", "cg_plain", "tn"])
def test_kernel_problem_in_feature_space(method):
    X, y, _ = data(40, 3)
    gram = dualgap.make_gram(X, dualgap.Kernel("rbf", gamma=0.2))
    p = dualgap.primal_svm(gram, y, C=1.0, p=2, q=2)
    result = minimize_composite(p, method=method, tol=1e-3, max_iter=3000)
    # The library's own dual solver: there is no 1/2 before |w|^2 here, so its C is half of this one.
    dual = dualgap.solve(dualgap.build("squared_hinge", gram, y, C=0.5), gap_tol=1e-9)
    assert result.fun == pytest.approx(2 * dual.certificate.primal, rel=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_a_start_at_the_optimum_takes_no_iteration(method):
    p = problem("squared")
    x = lbfgs(p)
    assert minimize_composite(p, x, method, tol=1e-4).nit == 0


def test_operators_that_are_not_arrays_give_the_same(optimum):
    import scipy.sparse as sp
    from scipy.sparse.linalg import aslinearoperator

    X, _, _ = data()
    p = problem("squared_hinge")
    for A in (sp.csr_matrix(X), sp.csc_matrix(X), aslinearoperator(X), X.astype(np.float32)):
        other = Composite(as_operator(A, bias=True), p.loss, p.regulariser, free=(-1,))
        assert minimize_composite(other).fun == pytest.approx(optimum("squared_hinge", "l2"), rel=1e-6)


def drawn(name, seed):
    """A random problem of this loss: samples, targets, weights and constants."""
    rng = np.random.default_rng(1000 * NAMES.index(name) + seed)
    X = rng.normal(size=(16, 4)) * rng.uniform(0.5, 2.0, 4)
    of_targets = name in ("squared", "epsilon_insensitive")
    f = X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=16)
    y = f if of_targets else np.where(f > 0, 1.0, -1.0)
    constants = {"tube": 0.3} if name == "epsilon_insensitive" else {"delta": 0.7} if name == "huber_hinge" else {}
    smoothing = {"eps": 0.1} if name in ("hinge", "epsilon_insensitive") else {}
    return X, make_loss({"name": name, "y": y, "C": rng.uniform(0.2, 2.0, 16), **constants, **smoothing})


@pytest.mark.parametrize("seed", range(17))
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("name", NAMES)
def test_certified_optimum_of_clarabel(name, norm, seed):
    """204 random problems: every loss, both norms; every solver on each, and their other presets by turns."""
    X, phi = drawn(name, seed)
    best = composite_optimum(X, phi, float(norm == 1), float(norm == 2))
    psi = Penalty(l1=1.0, eps=0.1) if norm == 1 else Penalty(l2=1.0)
    p = Composite(as_operator(X, bias=True), phi, psi, free=(-1,))
    smooth = norm == 2 and not hasattr(phi, "kinks")
    for method in (*SOLVERS, VARIANTS[seed % len(VARIANTS)]):
        if smooth:
            result = minimize_composite(p, method=method, tol=1e-6, max_iter=20_000)
            certificate, _ = certify_composite(p, result.x)
        else:
            result = minimize_smoothed(p, gap_tol=1e-4, method=method)
            certificate = result.certificate
            assert result.success, (method, result.message)
        assert certificate.relative_gap <= (1e-6 if smooth else 1e-4), method
        assert certificate.primal == pytest.approx(best, rel=1e-6 if smooth else 1.1e-4, abs=1e-7), method
        assert certificate.dual <= best * (1 + 1e-7) + 1e-7, method
        assert certificate.gap >= certificate.primal - best - 1e-7 * (1 + abs(best)), method
