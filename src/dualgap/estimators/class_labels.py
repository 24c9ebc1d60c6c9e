"""Class labels of a fit: encoded as numbers, with the weight of each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba as nb
import numpy as np
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Labels that are whole numbers no further apart are looked up in a table, which stays in the first-level cache.
_TABLE = 4096
# Floats beyond this are not all whole numbers of their own.
_WHOLE = 2.0**53
# What scikit-learn takes for a regression target: more classes than this share of the samples, of more than so many.
_MANY, _SAMPLES = 0.5, 20


def encode_classes(
    y: Any, weight: NDArray[np.float64], class_weight: Any
) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.float64]]:
    """The classes, each sample's place among them, and each class's weight.

    Raises
    ------
    ValueError
        Where fewer than two classes are left, or a weight is negative.
    """
    classes, codes = distinct_labels(y)
    if len(classes) < 2:
        raise ValueError(f"The number of classes has to be greater than one; got {len(classes)} class")
    present = _class_sums(codes, weight, len(classes))
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
    elif class_weight is None:
        factors = np.ones(len(classes))
    else:
        factors = compute_class_weight(class_weight, classes=classes, y=classes)
    if not np.all(factors >= 0.0) or np.count_nonzero(present * factors) < 2:
        raise ValueError(f"class_weight must not be negative and must leave two classes; got {class_weight!r}.")
    return classes, codes, factors


def weighted(codes: NDArray[np.intp], weight: NDArray[np.float64], factors: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights of samples, each times that of its class; the same array where no class has one."""
    return weight if np.all(factors == 1.0) else weight * factors[codes]


def distinct_labels(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The distinct labels in order, and each sample's place among them.

    Raises
    ------
    ValueError
        Where these are no class labels.
    """
    if not isinstance(y, np.ndarray) or y.ndim != 1:
        y = column_or_1d(y, warn=True)
    found = _from_table(y)
    if found is not None:
        return found
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    return classes, codes


def _from_table(y: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]] | None:
    """As `distinct_labels` for whole numbers that are near each other, without a sort; None for anything else."""
    kind = y.dtype.kind
    if kind not in "biuf" or y.dtype.itemsize > 8 or y.size == 0 or (kind == "u" and y.dtype.itemsize == 8):
        return None
    numbers = np.ascontiguousarray(y, dtype=np.float64 if kind == "f" else np.int64)
    place, codes = np.full(_TABLE, -1, dtype=np.int64), np.empty(y.size, dtype=np.intp)
    least, count = _encode(numbers, place, codes)
    if count == 0 or (count > 2 and y.size > _SAMPLES and count > round(_MANY * y.size)):
        return None
    return (least + np.flatnonzero(place >= 0)).astype(y.dtype), codes


@nb.njit(cache=True, nogil=True)
def _encode(labels, place, codes):  # type: ignore[no-untyped-def]
    """Put the place of every label among all into `codes`; the least label and how many there are, 0 if it cannot be.

    `place` holds, for every number from the least label on, its place among the labels, or -1.
    """
    wrong = 0
    for i in range(labels.size):
        whole = -_WHOLE < labels[i] < _WHOLE
        codes[i] = np.int64(labels[i]) if whole else 0
        wrong += (not whole) | (codes[i] != labels[i])
    if wrong:
        return 0, 0
    least = most = codes[0]
    for i in range(labels.size):
        least, most = min(least, codes[i]), max(most, codes[i])
    if most - least >= place.size:
        return 0, 0
    for i in range(labels.size):
        codes[i] -= least
        place[codes[i]] = 0
    count = 0
    for k in range(place.size):
        if place[k] == 0:
            place[k] = count
            count += 1
    for i in range(labels.size):
        codes[i] = place[codes[i]]
    return least, count


@nb.njit(cache=True, nogil=True)
def _class_sums(codes, weight, count):  # type: ignore[no-untyped-def]
    """The weight of every class, from four sums each: one would have to wait for itself at every sample."""
    sums = np.zeros((4, count))
    for i in range(codes.size):
        sums[i & 3, codes[i]] += weight[i]
    return sums.sum(axis=0)
