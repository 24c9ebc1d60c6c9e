"""How fast a fit could be at best: the time for the kernel values between samples and support vectors."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.kernels.functions import Kernel
from dualgap.kernels.gram import make_gram

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Kernel values of a measurement: some 30 milliseconds, long against what starting threads takes (with 20 million,
# ijcnn1 was measured at twice the cost of a long product).
_VALUES = 100_000_000
# Products of a measurement of BLAS, which are written to memory.
_PRODUCTS = 20_000_000
# The least time of so many is what the machine can do when nothing else disturbs it; one before them packs the columns.
_TRIES = 5
# Rows of the product that BLAS is timed with: as many as a large block has.
_PRODUCT_ROWS = 2048


def floor(entries: int, nanoseconds: float | None) -> float | None:
    """Seconds for `entries` kernel values at `nanoseconds` each; None where the cost of one is not known.

    `entries` is n times the number of support vectors (summed over the pairs of classes): every solver computes at
    least these once, since the gradient of the solution is made of them.
    """
    return None if nanoseconds is None else entries * nanoseconds * 1e-9


def entry_nanoseconds(X: NDArray[Any], gamma: float) -> float:
    """What one RBF kernel value of these samples costs dualgap's engine on this machine, with all its threads."""
    n = X.shape[0]
    columns = np.linspace(0, n - 1, min(n, max(_VALUES // n, 1))).astype(np.intp)
    gram = make_gram(X, Kernel("rbf", gamma=gamma), kind="cached")
    engine = gram if gram.fused is None else gram.fused
    # One of the columns is not among the rows: each entry is made, where half of a symmetric block would be.
    rows, weights = np.arange(1, n), np.ones(columns.size)
    out = np.zeros(rows.size)
    return _least_seconds(lambda: engine.accumulate(out, columns, weights, rows)) / (rows.size * columns.size) * 1e9


def product_nanoseconds(X: NDArray[Any]) -> float:
    """What the inner product alone of one such value costs BLAS in float32 (SGEMM), with all its threads."""
    rows = np.ascontiguousarray(X[: min(X.shape[0], _PRODUCT_ROWS)], dtype=np.float32)
    columns = np.ascontiguousarray(X[: min(X.shape[0], _PRODUCTS // rows.shape[0])], dtype=np.float32)
    out = np.empty((rows.shape[0], columns.shape[0]), dtype=np.float32)
    return _least_seconds(lambda: np.matmul(rows, columns.T, out=out)) / out.size * 1e9


def _least_seconds(action: Callable[[], Any]) -> float:
    action()
    times = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        action()
        times.append(time.perf_counter() - began)
    return min(times)
