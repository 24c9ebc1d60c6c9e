"""How well predictions agree with labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.report.runs import label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Confusion = tuple[list[str], NDArray[np.int64]]


def scores_of(model: Any, X: Any, y: Any) -> tuple[dict[str, float], Confusion | None]:
    """Named scores of a model's predictions, and for classes how often each was taken for each.

    Parameters
    ----------
    model : estimator of dualgap
        Fitted.
    X : array-like
        Samples.
    y : array-like or None
        Their labels or targets; without them a detector still tells the fraction of outliers.
    """
    from sklearn import metrics
    from sklearn.base import is_classifier, is_regressor

    if y is not None:
        y = np.asarray(y).ravel()
    if is_regressor(model):
        if y is None:
            return {}, None
        predicted = model.predict(X)
        values = {
            "R2": float(metrics.r2_score(y, predicted)),
            "mean squared error": float(metrics.mean_squared_error(y, predicted)),
            "mean absolute error": float(metrics.mean_absolute_error(y, predicted)),
        }
        return values, None
    if not is_classifier(model):
        predicted = model.predict(X)
        values = {"fraction of outliers": float(np.mean(predicted < 0))}
        if y is not None and y.dtype.kind in "iufb" and np.all(np.abs(y.astype(np.float64)) == 1.0):
            values["agreement with the labels"] = float(np.mean(predicted == y))
        return values, None
    # Labels of another kind, text beside numbers, can never agree.
    if y is None or (y.dtype.kind in "UO") != (model.classes_.dtype.kind in "UO"):
        return {}, None
    predicted = model.predict(X)
    labels = np.union1d(model.classes_, y)
    matrix = metrics.confusion_matrix(y, predicted, labels=labels)
    return {"accuracy": float(np.mean(predicted == y))}, ([label(one) for one in labels], matrix)
