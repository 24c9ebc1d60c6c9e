"""What outlier detectors say of samples, given their scores and an offset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import OutlierMixin

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Detector(OutlierMixin):  # type: ignore[misc]
    """Decision function and labels of estimators that have `score_samples` and, once fitted, `offset_`."""

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
        return self.score_samples(X) - self.offset_

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
