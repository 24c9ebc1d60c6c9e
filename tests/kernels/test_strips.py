"""Rows that a solver has left are as good for a certificate as entries made for it."""

import numpy as np
import pytest

from dualgap import Kernel, build, certify, make_gram, solve
from dualgap.kernels import fused, row_on_demand
from dualgap.kernels.bounded_product import bounded_product
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.points import prepare
from dualgap.kernels.strips import Strips

_KERNEL = Kernel("rbf", gamma=0.02)


def _samples(n, levels=True, features=70):
    rng = np.random.default_rng(3)
    y = np.where(rng.uniform(size=n) < 0.5, 1.0, -1.0)
    X = rng.normal(size=(n, features)) + 0.2 * y[:, None]
    return (np.round(X * 16) / 16 if levels else X), y


needs_tiles = pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has no vector registers that tiles are made for")


@needs_tiles
@pytest.mark.parametrize("levels", [True, False])
def test_a_product_of_rows_that_are_there_keeps_the_bound(levels):
    X, _ = _samples(300, levels)
    gram = FusedGram(prepare(X, _KERNEL), _KERNEL, 10**8, 1)
    columns = np.arange(250)
    strips = Strips(gram, columns)
    strips.make(np.array([200, 3, 7]))
    strips.make(np.array([40]))
    before = gram.evaluations
    weights = np.zeros(300)
    weights[[3, 40, 200]] = 0.5, -2.0, 1.5
    rows = np.setdiff1d(columns, np.flatnonzero(weights))
    assert strips.cover(np.flatnonzero(weights), rows)
    product, error = bounded_product(gram, weights, rows, strips)
    assert gram.evaluations == before
    off = np.abs(product - gram.exact(weights, rows))
    assert np.all(off <= error)
    assert 0.0 < error.max() < 1e-4


@needs_tiles
def test_what_is_not_there_is_made():
    X, _ = _samples(300)
    gram = FusedGram(prepare(X, _KERNEL), _KERNEL, 10**8, 1)
    strips = Strips(gram, np.arange(250))
    rows = strips.make(np.array([5, 6]))
    rows[[0, 1], [5, 6]] = 7.0  # the diagonal is not read
    weights = np.zeros(300)
    weights[[5, 6]] = 1.0
    for wanted, more in ((np.arange(240, 260), 0), (np.arange(10, 20), 8), (np.arange(10), 0)):
        weights[8] = more
        product, error = bounded_product(gram, weights, wanted, strips)
        assert np.all(np.abs(product - gram.exact(weights, wanted)) <= error)


@needs_tiles
@pytest.mark.parametrize("row", ["c_svc", "squared_hinge", "nu_svc"])
def test_certificates_read_the_rows_of_the_last_run_alone(row, monkeypatch):
    monkeypatch.setattr(row_on_demand, "_CACHED", 0)  # rows that compiled code makes for itself are not left
    X, y = _samples(700, levels=False, features=150)
    gram = make_gram(X, _KERNEL)
    problem = build(row, gram, y, C=3.0, nu=0.3)
    result = solve(problem, "block", gap_tol=1e-5)
    assert gram.source.strips is not None
    exact, _ = certify(problem, result.a, screen=False)
    for name in ("primal", "dual", "relative_gap", "kkt_violation"):
        assert getattr(result.certificate, name) == pytest.approx(getattr(exact, name), rel=1e-9, abs=1e-13)
    gram.forget()
    assert gram.source.strips is None
