"""Products that are kept while weights move: what they return, and the proof of how far they are off."""

import numpy as np
import pytest
import scipy.sparse as sp

import dualgap
from dualgap import SVC, SVR, Kernel, certify, make_gram
from dualgap.kernels import fused, running_product
from dualgap.kernels.entries import Entries
from dualgap.kernels.running_product import RunningProduct

needs_tiles = pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has no vector registers that tiles are made for")

N = 900


def data(kind):
    rng = np.random.default_rng(3)
    if kind == "outliers":  # several parts by their distance from the centre
        return rng.standard_normal((N, 8)) * np.where(np.arange(N) % 50 == 0, 10.0, 1.0)[:, None]
    if kind == "levels":
        return rng.integers(0, 256, size=(N, 40)) / 255.0
    if kind == "sparse":
        return sp.random(N, 60, density=0.2, format="csr", random_state=4)
    if kind == "wide":
        return sp.random(N, 40_000, density=2e-4, format="csr", random_state=4)
    return rng.standard_normal((N, 12))


def set_up(kind="dense", start=None, *, prove=True, kernel=None):
    X = data(kind)
    gram = make_gram(X, kernel or Kernel("rbf", gamma=1.0 / X.shape[1]), kind="cached")
    weights = np.zeros(N) if start is None else start
    return gram, Entries(gram, "single", keep=False).running(np.arange(N), weights, prove=prove)


class Walk:
    """Random rounds of a solver over a running product: an active set, moves within it, and what is outside it."""

    def __init__(self, gram, product, weights, seed):
        self.gram, self.product, self.weights = gram, product, weights.copy()
        self.rng = np.random.default_rng(seed)
        self.left = np.zeros(N, dtype=bool)

    def round(self, *, moves=3, told=True, leave=0):
        rng, before = self.rng, self.gram.product(self.weights)
        here = np.flatnonzero(~self.left)
        active = np.sort(rng.permutation(here)[: here.size // 3])
        twice = np.concatenate([active, active[::2]])  # two variables of a point
        self.product.narrow(twice, whole=False)
        for _ in range(moves):
            some = rng.choice(active, size=40, replace=False)
            delta = rng.standard_normal(some.size)
            if told:
                sums = self.product.move(some, delta)
                expected = self.of(some, delta)[twice]
                np.testing.assert_allclose(sums, expected, atol=1e-4)
            self.weights[some] += delta
        outside = np.setdiff1d(here, active)
        rest = np.concatenate([outside[leave:], active[:20]])  # and some whose other variable is active
        self.left[outside[:leave]] = True
        change = self.product.widen(self.weights, rest)
        np.testing.assert_allclose(change, (self.gram.product(self.weights) - before)[rest], atol=1e-4)

    def of(self, points, delta):
        weights = np.zeros(N)
        weights[points] = delta
        return self.gram.product(weights)

    def check(self, weights=None, most=2e-3):
        weights = self.weights if weights is None else weights
        product, error = self.product.at(weights, np.arange(N))
        off = np.abs(product - self.gram.product(weights))
        assert np.all(off <= error)
        assert 0.0 < off.max() < error.max() < most
        return error


@needs_tiles
@pytest.mark.parametrize("kind", ["dense", "outliers", "levels", "sparse", "wide"])
@pytest.mark.parametrize("seed", range(3))
def test_errors_of_moves_are_within_their_bound(kind, seed):
    gram, product = set_up(kind)
    walk = Walk(gram, product, np.zeros(N), seed)
    for leave in (0, 60, 0, 100, 30):
        walk.round(leave=leave)
        walk.check()
    # Some hundred components have missed something and are brought up to date without being part of the account.
    assert np.count_nonzero(walk.left) == 190
    before = product.product.copy()
    product.end()
    assert product._entries is None
    walk.check()
    np.testing.assert_array_equal(product.product, before)


@needs_tiles
def test_moves_that_nobody_told_are_made_up_for():
    gram, product = set_up()
    walk = Walk(gram, product, np.zeros(N), 0)
    for told in (True, False, True, False):
        walk.round(told=told, leave=40)
        walk.check()
    # So are weights that have changed since the last round.
    other = walk.weights.copy()
    other[::7] -= 1.0
    walk.check(other)
    walk.check(np.random.default_rng(1).standard_normal(N))
    walk.check()


@needs_tiles
def test_few_points_far_out_do_not_spoil_the_bound_of_all():
    gram, product = set_up("outliers")
    walk = Walk(gram, product, np.zeros(N), 1)
    walk.round()
    assert product._proof.travel.shape[0] > 1
    error = walk.check()
    bound = gram.fused.entry_error()
    travel = product._proof.travel.sum(axis=0)
    assert np.median(error / (travel * bound.relative(np.arange(N), np.arange(N)))) < 0.1


@needs_tiles
def test_components_left_behind_stay_there():
    gram, product = set_up()
    walk = Walk(gram, product, np.zeros(N), 2)
    walk.round(leave=10)
    gone = np.flatnonzero(walk.left)
    with pytest.raises(ValueError, match="left behind"):
        product.narrow(gone[:3], whole=False)
    product.narrow(np.flatnonzero(~walk.left)[:50], whole=False)
    with pytest.raises(ValueError, match="left behind"):
        product.widen(walk.weights, gone)


@needs_tiles
def test_copies_of_weights_are_limited(monkeypatch):
    monkeypatch.setattr(running_product, "_MOST_LEFT", 3)
    gram, product = set_up()
    walk = Walk(gram, product, np.zeros(N), 4)
    for _ in range(6):
        walk.round(leave=20)
        walk.check()
    assert len(product._left) == 3


@needs_tiles
@pytest.mark.parametrize("bounded", [False, True])
def test_a_start_that_is_known_may_be_proved(bounded):
    rng = np.random.default_rng(5)
    start = np.where(rng.uniform(size=N) < 0.2, rng.standard_normal(N), 0.0)
    gram = make_gram(data("dense"), Kernel("rbf", gamma=0.1), kind="cached")
    entries = Entries(gram, "single", keep=False)
    assert entries.running(np.arange(N), start, prove=True)._proof is None  # nobody knows the product
    assert gram.running is None
    if bounded:
        gram.bounded(start, None, start != 0.0, always=True)
    else:
        gram.exact(start)
    product = entries.running(np.arange(N), start, prove=True)
    assert gram.running is product
    walk = Walk(gram, product, start, 6)
    walk.round(leave=50)
    walk.check()


@needs_tiles
def test_no_proof_without_a_bound():
    for kernel in (Kernel("poly", gamma=0.1, degree=3), Kernel("linear")):
        gram, product = set_up(kernel=kernel)
        assert product._proof is None
        assert gram.running is None
    gram, product = set_up(prove=False)
    walk = Walk(gram, product, np.zeros(N), 7)
    for leave in (0, 30, 30):
        walk.round(leave=leave)
    assert gram.running is None


@needs_tiles
@pytest.mark.parametrize(
    "machine", [SVC(C=10.0, gamma=0.3, gap_tol=1e-5), SVR(C=3.0, gamma=0.3, epsilon=0.2, gap_tol=1e-5)]
)
def test_certificates_read_what_the_solver_kept(monkeypatch, machine):
    rng = np.random.default_rng(8)
    X = rng.standard_normal((6000, 10))
    target = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(6000)
    y = np.sign(target) if isinstance(machine, SVC) else target
    seen = []
    at = RunningProduct.at

    def watched(self, weights, points):
        product, error = at(self, weights, points)
        off = np.abs(product - self._proof.gram.exact(weights, points))
        seen.append((points.size, float((off / error).max()), float(np.median(error))))
        return product, error

    monkeypatch.setattr(RunningProduct, "at", watched)
    machine.fit(X, y)
    assert machine.solver_ == "block"
    assert len(seen) == 1
    size, worst, typical = seen[0]
    assert size > 500
    assert worst <= 1.0
    assert typical < 0.05
    gram = make_gram(X, Kernel("rbf", gamma=0.3))
    row, settings = ("c_svc", {"C": 10.0}) if isinstance(machine, SVC) else ("eps_svr", {"C": 3.0, "epsilon": 0.2})
    problem = dualgap.build(row, gram, y, **settings)
    result = dualgap.solve(problem, "block", gap_tol=1e-5)
    exact, _ = certify(problem, result.a, screen=False)
    for name in ("primal", "dual", "gap", "kkt_violation"):
        np.testing.assert_allclose(getattr(result.certificate, name), getattr(exact, name), rtol=1e-6, atol=1e-9)
