"""How data sets are made ready, the same in all comparisons: reading, labels of two classes, scaling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Largest value of a pixel.
WHITE = 255.0


def read_file(name: str) -> tuple[Any, NDArray[np.float64]]:
    """Samples (a CSR matrix: the files are LIBSVM text) and labels of a set that `dualgap.datasets.find` knows."""
    from dualgap.datasets import find, load

    data = load(find(name))
    assert data.y is not None
    return data.X, data.y.astype(np.float64)


def signs(chosen: NDArray[np.bool_]) -> NDArray[np.float64]:
    """+1 where chosen, -1 elsewhere."""
    return np.where(chosen, 1.0, -1.0)


def standardised(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Columns of mean 0 and deviation 1; one that never varies is left at zero."""
    spread = X.std(axis=0)
    scaled = X - X.mean(axis=0)
    scaled /= np.where(spread > 0.0, spread, 1.0)
    return scaled


def breast_cancer() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The set that is bundled with scikit-learn, so that the commands can be tried without any file."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return standardised(X), signs(y == 1)
