"""What outlier detectors say of samples, given their scores and an offset.

Support vectors within their bounds lie exactly on the boundary, where the sign of a rounded sum is an accident of the
order of its terms. A sum of m products is known to about ``m eps`` times the sum of their absolute values; a
decision value below that is zero as far as anybody can tell, is returned as 0.0, and 0.0 is inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import OutlierMixin

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Terms beside those of the sum: the kernel function's own rounding, the offset's and those of the solution.
_FEW_MORE = 16


class Detector(OutlierMixin):  # type: ignore[misc]
    """Decision function and labels of estimators that have scores and, once fitted, `offset_`."""

    offset_: NDArray[np.float64]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Signed distance to the boundary: positive for inliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        X = self._check_new(X)
        scores = self._scores_of(X)
        values = scores - self.offset_
        terms = self._n_terms() + (X.shape[1] if hasattr(X, "shape") and len(X.shape) == 2 else 0) + _FEW_MORE
        bound = terms * np.finfo(np.float64).eps * (self._magnitude(X, scores) + np.abs(self.offset_))
        return np.where(np.abs(values) <= bound, 0.0, values)

    def score_samples(self, X: Any) -> NDArray[np.float64]:
        """The decision function without its offset: larger is more normal.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return self._scores_of(self._check_new(X))

    def _check_new(self, X: Any) -> Any:
        """Samples, validated."""
        raise NotImplementedError

    def _scores_of(self, X: Any) -> NDArray[np.float64]:
        """Scores of validated samples."""
        raise NotImplementedError

    def _n_terms(self) -> int:
        """Terms of the sum over samples."""
        raise NotImplementedError

    def _magnitude(self, X: Any, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Bounds of the sums of the absolute terms that the scores are made of."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[np.int64]:
        """+1 for inliers, -1 for outliers.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        return np.where(self.decision_function(X) >= 0, 1, -1)
