"""Statistics of weighted samples: a weight of two is the same sample twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray


def weighted_variance(X: Any, weight: NDArray[np.float64] | None = None) -> float:
    """The variance of all entries of X, those of a row counted by its weight.

    Equal weights give the number that scikit-learn's ``gamma="scale"`` is made of, bit for bit.
    """
    if weight is None or np.all(weight == weight[0]):
        if sp.issparse(X):
            return float(X.multiply(X).mean() - X.mean() ** 2)
        return float(X.var(dtype=np.float64))
    shares = weight / (weight.sum() * X.shape[1])
    if sp.issparse(X):
        mean = float(shares @ np.asarray(X.sum(axis=1, dtype=np.float64)).ravel())
        return float(shares @ np.asarray(X.multiply(X).sum(axis=1, dtype=np.float64)).ravel()) - mean**2
    mean = float(shares @ X.sum(axis=1, dtype=np.float64))
    return float(shares @ ((X - mean) ** 2).sum(axis=1, dtype=np.float64))
