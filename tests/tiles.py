"""Kernel matrices made of tiles, beside the plain formula: data of every layout, and how far entries may be off."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from dualgap.kernels.functions import Kernel, tile
from dualgap.kernels.fused_gram import FusedGram
from dualgap.kernels.points import prepare
from dualgap.kernels.tile_source import TileSource, fusable

KERNELS = {
    "linear": Kernel("linear"),
    "rbf": Kernel("rbf", gamma=0.4),
    **{f"poly{degree}": Kernel("poly", gamma=0.3, coef0=0.7, degree=degree) for degree in (0, 1, 2, 3, 5)},
    "sigmoid": Kernel("sigmoid", gamma=0.3, coef0=-0.5),
    "laplacian": Kernel("laplacian", gamma=0.2),
    "chi2": Kernel("chi2", gamma=0.6),
}
LAYOUTS = ("dense", "zeros", "csr")
# Rows, chosen columns, features: single ones, none a multiple of a tile, and more than a block of sparse features.
SHAPES = ((1, 1, 1), (7, 3, 2), (65, 33, 31), (199, 130, 70), (50, 49, 131), (97, 65, 260))
UNIT = {np.dtype(np.float32): 2.0**-24, np.dtype(np.float64): 2.0**-53}
EXPONENTIAL = {np.dtype(np.float32): 3e-7, np.dtype(np.float64): 2e-15}


def points(n, d, layout, dtype=np.float64, seed=0):
    """Non-negative rows (chi2 takes no others), nine tenths zeros unless dense; row 0 of a sparse matrix is empty."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n, d))
    if layout != "dense":
        X = np.where(rng.uniform(size=(n, d)) < 0.1, X, 0.0)
        X[0] = 0.0
    X = X.astype(dtype)
    return sp.csr_matrix(X) if layout == "csr" else X


def plain(kernel, X):
    """The kernel matrix in float64 as `functions.tile` makes it."""
    p = prepare(X.astype(np.float64), kernel)
    return tile(kernel, p, p)


def bound(kernel, X, dtype, rounding=None):
    """How far entries may be off when data and sums are rounded to `dtype`: a share of the sums of absolute terms."""
    A = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    unit, d = UNIT[np.dtype(dtype)], A.shape[1]
    rounding = (d + 8) * unit if rounding is None else rounding + 8 * unit
    K = plain(kernel, X)
    if kernel.name in ("rbf", "laplacian", "chi2"):
        if kernel.name == "rbf":
            half = 0.5 * np.sum(A * A, axis=1)
            terms = 2.0 * (A @ A.T + half[:, None] + half)
        else:
            size = np.sum(A, axis=1)
            terms = size[:, None] + size
        return K * (np.expm1(4.0 * kernel.gamma * rounding * terms) + EXPONENTIAL[np.dtype(dtype)] + 2 * unit) + 1e-30
    gamma, coef0 = (1.0, 0.0) if kernel.name == "linear" else (kernel.gamma, kernel.coef0)
    off = 4.0 * rounding * (gamma * (np.abs(A) @ np.abs(A).T) + abs(coef0)) + 1e-30
    if kernel.name == "linear":
        return off
    if kernel.name == "sigmoid":
        return off + 2.0 * EXPONENTIAL[np.dtype(dtype)]
    base = np.abs(gamma * (A @ A.T) + coef0) + off
    return kernel.degree * base ** max(kernel.degree - 1, 0) * off + 8 * kernel.degree * unit * base**kernel.degree


def fused_gram_of(X, kernel, *, budget=10**8, n_jobs=2):
    p = prepare(X, kernel)
    assert fusable(kernel, p)
    return FusedGram(p, kernel, budget, n_jobs)


def bound_of(gram, X):
    """The bound for a matrix's own float32 entries: the matrix unit states how far its sums may be off."""
    rounding = None if isinstance(gram._single, TileSource) else gram.sum_error
    return bound(gram.kernel, X, np.float32, rounding)


def within(found, expected, off):
    assert np.all(np.isfinite(found))
    wrong = np.abs(found - expected) > off
    assert not np.any(wrong), f"{np.max(np.abs(found - expected) / np.maximum(off, 1e-300)):.3g} times the bound"


def check(kernel, X, n_columns, budget=10**8):
    """`block`, `accumulate` and `exact` of one matrix, which is returned."""
    n = X.shape[0]
    rng = np.random.default_rng(1)
    gram = fused_gram_of(X, kernel, budget=budget)
    K, single, double = plain(kernel, X), bound_of(gram, X), bound(kernel, X, np.float64)
    everything, chosen = np.arange(n), rng.permutation(n)[: min(n, n_columns)]
    some = np.ix_(chosen, everything)

    block = gram.block(chosen, None)
    assert block.dtype == np.float32
    within(block, K[some], single[some])
    assert np.array_equal(block, gram.block(chosen, everything))
    within(gram.block(everything, chosen), K[some].T, single[some].T)
    in_double = gram.double().block(chosen, None)
    assert in_double.dtype == np.float64
    within(in_double, K[some], double[some])

    # Six products are summed in float32, the rest in float64.
    w = rng.normal(size=chosen.size)
    sums = (single + 16 * UNIT[np.dtype(np.float32)] * np.abs(K))[:, chosen] @ np.abs(w)
    out = np.ones(n)
    gram.accumulate(out, chosen, w)
    within(out - 1.0, K[:, chosen] @ w, sums + 1e-15)
    for rows in (chosen[::-1].copy(), everything):
        part = np.zeros(rows.size)
        gram.accumulate(part, chosen, w, rows)
        within(part, K[np.ix_(rows, chosen)] @ w, sums[rows])

    v = np.where(rng.uniform(size=n) < 0.7, rng.normal(size=n), 0.0)
    sums = (double + 16 * UNIT[np.dtype(np.float64)] * n * np.abs(K)) @ np.abs(v)
    within(gram.exact(v), K @ v, sums + 1e-300)
    within(gram.exact(v, chosen), (K @ v)[chosen], sums[chosen] + 1e-300)
    return gram
