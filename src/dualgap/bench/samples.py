"""Samples on their way to the libraries: files that the processes read, and small parts to warm up with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def write_samples(folder: Path, X: Any, y: Any, precisions: tuple[str, ...]) -> None:
    """Put the samples where workers read them: through a pipe they would be held twice, which spoils peak memory."""
    import scipy.sparse as sp

    for precision in precisions:
        if sp.issparse(X):
            sp.save_npz(folder / f"X.{precision}.npz", sp.csr_matrix(X, dtype=precision), compressed=False)
        else:
            np.save(folder / f"X.{precision}.npy", np.ascontiguousarray(X, dtype=precision))
    if y is not None:
        np.save(folder / "y.npy", y)


def read_samples(folder: Path, precision: str) -> tuple[Any, NDArray[Any] | None]:
    """What `write_samples` wrote: a dense array or a CSR matrix, and the labels where there are any."""
    sparse, labels = folder / f"X.{precision}.npz", folder / "y.npy"
    if sparse.exists():
        import scipy.sparse as sp

        X: Any = sp.load_npz(sparse)
    else:
        X = np.load(folder / f"X.{precision}.npy")
    return X, np.load(labels) if labels.exists() else None


def subset(X: Any, y: NDArray[Any] | None, size: int) -> tuple[Any, NDArray[Any] | None]:
    """At most `size` samples with the classes (or targets) in the proportions of the whole."""
    if X.shape[0] <= size:
        return X, y
    order = np.arange(X.shape[0]) if y is None else np.argsort(y, kind="stable")
    chosen = np.sort(order[np.linspace(0, X.shape[0] - 1, size).astype(np.intp)])
    part = X[chosen]
    return np.ascontiguousarray(part) if isinstance(part, np.ndarray) else part, None if y is None else y[chosen]
