"""The data sets of ``dualgap bench linear``: what is read from files, and a large sparse one that is generated."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dualgap.bench.preparation import WHITE, breast_cancer, read_file, signs, standardised

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Labelled: TypeAlias = tuple[Any, NDArray[np.float64]]

# Rows made at a time: some hundred megabytes of drafts.
_CHUNK = 100_000
# Of 1 / (rank + shift), the popularity of columns: with 30 the most frequent one is in every fifth row or so, as the
# commonest words that are not stop words are.
_SHIFT = 30.0
# Labels that are turned round, so that no margin is free of violations.
_NOISE = 0.05


def _news20() -> Labelled:
    X, y = read_file("news20")
    return X, signs(y <= 10)  # ten of twenty groups


def _mnist() -> Labelled:
    X, y = read_file("mnist")
    return X / WHITE, signs(y % 2 == 1)


def _covtype() -> Labelled:
    X, y = read_file("covtype")
    return standardised(X.toarray(order="C")), signs(y == 2)


def generated(n: int, d: int, row: int, seed: int = 0) -> Labelled:
    """A sparse set like a collection of texts: `row` nonzeros in each row, float32, rows of length 1.

    The columns in the order of their popularity are cut into `row` strata, as wide as popularity 1 / (rank + shift)
    says; each row takes one column of each stratum, so that no column is drawn twice. The labels are those of a random
    linear function, 5 % of them turned round.

    Parameters
    ----------
    n, d, row : int
        Rows, columns, nonzeros of a row.
    seed : int
        Of everything.

    Returns
    -------
    X : CSR matrix of float32, shape (n, d)
    y : ndarray of +1 and -1
    """
    import scipy.sparse as sp

    rng = np.random.default_rng(seed)
    edges = _SHIFT * (1.0 + d / _SHIFT) ** (np.arange(row + 1) / row) - _SHIFT
    # Every stratum has a column of its own, whatever the rounding.
    edges = np.maximum(np.round(edges).astype(np.int64), np.arange(row + 1))
    edges[-1] = d
    widths = np.diff(edges)
    if d < row or widths.min() < 1:
        raise ValueError(f"{row} nonzeros a row are too many for {d} columns.")
    place = rng.permutation(d).astype(np.int32)
    truth = rng.standard_normal(d).astype(np.float32)
    indices = np.empty((n, row), dtype=np.int32)
    values = np.empty((n, row), dtype=np.float32)
    y = np.empty(n)
    for begin in range(0, n, _CHUNK):
        end = min(begin + _CHUNK, n)
        drawn = edges[:-1] + (rng.random((end - begin, row)) * widths).astype(np.int64)
        columns = np.sort(place[drawn], axis=1)
        # Weights of words: positive, some much larger than others.
        weights = np.exp(0.5 * rng.standard_normal((end - begin, row), dtype=np.float32))
        weights /= np.linalg.norm(weights, axis=1, keepdims=True)
        turned = signs(rng.random(end - begin) >= _NOISE)
        y[begin:end] = turned * signs((weights * truth[columns]).sum(axis=1) > 0.0)
        indices[begin:end], values[begin:end] = columns, weights
    X = sp.csr_matrix((values.ravel(), indices.ravel(), np.arange(0, n * row + 1, row)), shape=(n, d))
    X.has_sorted_indices = True
    return X, y


# Rows, columns and nonzeros of a row of the generated set, and of the small one that --quick takes instead.
FULL, SMALL = (1_000_000, 100_000, 50), (50_000, 20_000, 50)

_READ: dict[str, Callable[[], Labelled]] = {
    "a9a": lambda: read_file("a9a"),
    "reuters": lambda: read_file("reuters"),
    "news20": _news20,
    "mnist": _mnist,
    "ijcnn1": lambda: read_file("ijcnn1"),
    "covtype": _covtype,
    "generated": lambda: generated(*FULL),
    "generated small": lambda: generated(*SMALL),
    "breast_cancer": breast_cancer,
}


@lru_cache(maxsize=1)  # the problems of a set follow each other
def read_data(name: str, quick: bool = False) -> Labelled:
    """Samples (a CSR matrix, or an array in C order) and labels +1 and -1 of a set, checked."""
    X, y = _READ["generated small" if quick and name == "generated" else name]()
    values: Any = X if isinstance(X, np.ndarray) else X.data
    if not np.all(np.isfinite(values)):
        raise ValueError(f"data set {name}: has values that are not finite; read the file anew.")
    return X, y
