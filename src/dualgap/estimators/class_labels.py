"""Class labels of a fit: encoded as numbers, with the weight of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode_classes(
    y: Any, weight: NDArray[np.float64], class_weight: Any
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]:
    """The classes, each sample's place among them, and each class's weight.

    Raises
    ------
    ValueError
        Where fewer than two classes are left, or a weight is negative.
    """
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class")
    present = np.bincount(codes, weights=weight, minlength=len(classes))
    if np.count_nonzero(present) < 2:
        raise ValueError(
            "Invalid input - all samples with positive weights belong to the same class: "
            "all samples from all but one class have zero or negative weights."
        )
    if isinstance(
        class_weight, str
    ):  # "balanced": by weight and not by count, so that a weight of two is a sample twice
        with np.errstate(divide="ignore"):
            factors = np.where(present > 0, present.sum() / (len(classes) * present), 1.0)
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=y)
    if not np.all(factors >= 0.0) or np.count_nonzero(present * factors) < 2:
        raise ValueError(f"class_weight must not be negative and must leave two classes; got {class_weight!r}.")
    return classes, codes, factors
