"""How well predictions agree with labels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Scores:
    """Named scores, and for classes how often each was taken for each."""

    values: dict[str, float] = field(default_factory=dict)
    confusion: tuple[list[str], NDArray[np.int64]] | None = None


def number(value: Any) -> str:
    """A label or a value as text: whole numbers without a point, others with all their digits."""
    if isinstance(value, str):
        return value
    real = float(value)
    return str(int(real)) if real.is_integer() else repr(real)


def score(model: Any, X: Any, y: Any) -> Scores:
    """Scores of a model's predictions for samples with labels."""
    return compare(model, model.predict(X), y)


def compare(model: Any, predicted: Any, y: Any) -> Scores:
    """Scores of predictions; of outlier detectors the fraction found, and agreement with labels +1 and -1."""
    import numpy as np
    from sklearn.base import is_classifier, is_regressor

    if is_regressor(model):
        return _regression(predicted, y)
    if is_classifier(model):
        return _classification(model.classes_, predicted, y)
    scores = {"fraction of outliers": float(np.mean(predicted < 0))}
    if y is not None and y.dtype.kind != "U" and np.all(np.abs(y) == 1.0):
        scores["agreement with the labels"] = float(np.mean(predicted == y))
    return Scores(scores)


def _regression(predicted: Any, y: Any) -> Scores:
    import numpy as np

    if y is None or y.dtype.kind == "U":
        return Scores()
    squared = float(np.mean((y - predicted) ** 2))
    spread = float(np.var(y))
    scores = {"R2": 1.0 - squared / spread} if spread > 0 else {}
    return Scores({**scores, "mean squared error": squared})


def _classification(classes: Any, predicted: Any, y: Any) -> Scores:
    import numpy as np

    # Labels of another kind, text beside numbers, can never agree.
    if y is None or (y.dtype.kind == "U") != (classes.dtype.kind in "UO"):
        return Scores()
    labels = np.union1d(classes, y)
    matrix = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(matrix, (np.searchsorted(labels, y), np.searchsorted(labels, predicted)), 1)
    accuracy = float(np.trace(matrix) / len(y))
    return Scores({"accuracy": accuracy}, ([number(label) for label in labels], matrix))
