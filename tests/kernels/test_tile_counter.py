"""Products whose tiles threads take from a counter: the same bits as piece by piece."""

from __future__ import annotations

import numpy as np
import pytest

from dualgap import Kernel, make_gram
from dualgap.kernels import fused_gram
from dualgap.kernels.fused import AVAILABLE

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="this CPU has no vector tiles")


@pytest.mark.parametrize("kernel", [Kernel("rbf", gamma=0.3), Kernel("poly", gamma=0.1, degree=3, coef0=1.0)])
@pytest.mark.parametrize("share", [1.0, 0.1], ids=["dense", "sparse"])
def test_every_tile_is_taken_once(kernel, share, monkeypatch):
    monkeypatch.setattr(fused_gram, "_WORTH_THREADS", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 60)) * (rng.random(size=(3000, 60)) < share)
    few, many = np.arange(7), np.sort(rng.permutation(3000)[:2345])
    groups = [(rng.permutation(3000)[:size], rng.normal(size=size)) for size in (500, 1, 77)]
    answers = []
    for unbroken, threads in ((0.0, 1), (np.inf, 1), (np.inf, 2), (np.inf, 5)):
        monkeypatch.setattr(fused_gram, "_UNBROKEN", unbroken)
        gram = make_gram(X, kernel, n_jobs=threads).fused
        for rows in (many, few, None, many):  # memory of packed columns is used again: there is more of it than needed
            outs = [np.ones(3000 if rows is None else rows.size) for _ in groups]
            gram.accumulate_groups(outs, groups, rows)
            answers.append(np.concatenate(outs))
    for which in range(4):
        for other in answers[which + 4 :: 4]:
            np.testing.assert_array_equal(answers[which], other)
    entries = gram.block(many, groups[0][0]).astype(np.float64)
    np.testing.assert_allclose(answers[0][: many.size], 1.0 + entries @ groups[0][1], rtol=1e-3, atol=1e-3)
