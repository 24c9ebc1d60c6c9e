"""Points: what takes a pass over all data is done when it is asked for, once, and not for entries made of tiles."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

import dualgap
from dualgap.kernels import fused, points
from dualgap.kernels.functions import Kernel
from dualgap.kernels.points import prepare
from dualgap.kernels.tile_source import TileSource, pack_columns

RBF = Kernel("rbf", gamma=0.1)


@pytest.fixture
def passes(monkeypatch):
    """How often norms were computed."""
    made = []
    before = points._squared_norms
    monkeypatch.setattr(points, "_squared_norms", lambda X, centre: made.append(centre) or before(X, centre))
    return made


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_norms_are_made_once_and_when_they_are_asked_for(offset, passes):
    X = np.random.default_rng(0).normal(size=(50, 4)) + offset
    found = prepare(X, RBF)
    assert (found.n, found.dtype, passes) == (50, np.float64, [])
    centre = X.mean(axis=0) if offset else np.zeros(4)
    assert found.norms == pytest.approx(np.sum((X - centre) ** 2, axis=1))
    assert (found.data is X) == (offset == 0.0)
    assert found.take(slice(0, 3)).norms == pytest.approx(found.norms[:3])
    assert len(passes) == (2 if offset else 1)


def test_they_can_be_pickled_before_and_after():
    X = np.random.default_rng(0).normal(size=(50, 4))
    found = prepare(X, RBF)
    early = pickle.loads(pickle.dumps(found))
    assert np.array_equal(early.norms, found.norms)
    assert np.array_equal(pickle.loads(pickle.dumps(found)).norms, found.norms)


@pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has no tiles")
def test_the_block_solver_does_without(passes):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2500, 4)), np.where(np.arange(2500) % 2 == 0, 1, -1)
    model = dualgap.SVC(solver="block", gamma=0.1).fit(X, y)
    assert model.status_ is dualgap.Status.CONVERGED
    assert passes == []


@pytest.mark.skipif(not fused.AVAILABLE, reason="this CPU has no tiles")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("csr", [False, True])
def test_norms_of_sparse_rows_are_added_up_as_their_tiles_do(csr, dtype):
    """To the last bit, so that no point is apart from itself; rows without a nonzero, or with an odd number of them."""
    rng = np.random.default_rng(0)
    X = np.where(rng.uniform(size=(300, 700)) < rng.uniform(0.0, 0.3, size=(300, 1)), rng.normal(size=(300, 700)), 0.0)
    X[7] = 0.0
    source = TileSource(sp.csr_matrix(X) if csr else X, RBF, dtype, sparse=True, threads=1)
    everything, tiles = np.arange(300), -(-300 // source.width)
    out = np.empty((300, 300), dtype=dtype)
    source.write(
        (fused.DOT, fused.POWER, 1, 700), dtype(0.0), source.rows(everything), pack_columns(source, everything, tiles),
        0, tiles, source.tile(), False, 300, 300, out.reshape(-1), 0,
    )  # fmt: skip
    assert np.array_equal(np.diag(out) * dtype(0.5), source.half)
