"""The plane as a fitted estimator of two features divides it."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.report.runs import label

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Cells of the grid; at 5 units a cell the steps of a slanting boundary are not seen at reading distance.
COLUMNS, ROWS = 96, 64
# Samples and support vectors drawn at most: more hide the boundary they lie around, and make the page heavy.
MOST_POINTS, MOST_SUPPORT = 600, 300
# Share of the data's range that is shown around it.
_AROUND = 0.06


@dataclass(frozen=True, eq=False)
class Plane:
    """What a drawing of the boundary needs.

    Attributes
    ----------
    x, y : ndarray
        Coordinates of the grid.
    regions : ndarray of int, shape (len(y), len(x))
        Index of the predicted class.
    values : ndarray of shape (len(y), len(x)) or None
        The decision function, where there is a single one.
    names : list of str
        The classes.
    axes : tuple of (str, str)
        Names of the two features.
    points : ndarray, shape (m, 2)
        Samples to draw.
    codes : ndarray of int, shape (m,)
        Their classes; -1 where unknown.
    support : ndarray, shape (s, 2)
        Support vectors to mark; none for linear machines, which do not keep them.
    margin : bool
        Whether the decision function is +-1 at the edges of a margin.
    hidden : tuple of (int, int)
        How many samples and support vectors there are beyond those to draw.
    """

    x: Floats
    y: Floats
    regions: NDArray[np.intp]
    values: Floats | None
    names: list[str]
    axes: tuple[str, str]
    points: Floats
    codes: NDArray[np.intp]
    support: Floats
    margin: bool
    hidden: tuple[int, int]


def plane_of(model: Any, X: Any = None, y: Any = None) -> Plane | None:
    """The plane of a classifier or detector of two features; None for anything else.

    Parameters
    ----------
    model : estimator of dualgap
        Fitted.
    X, y : array-like, optional
        Samples to draw, and their labels. Without samples the support vectors tell where to look.
    """
    from sklearn.base import is_classifier, is_regressor

    if getattr(model, "n_features_in_", 0) != 2 or is_regressor(model):
        return None
    if getattr(model, "kernel", "") == "precomputed":
        return None
    support = _dense(getattr(model, "support_vectors_", np.empty((0, 2))))
    points = np.empty((0, 2)) if X is None else _dense(X)
    everything = np.vstack([points, support])
    if not everything.size:
        return None
    bare = _nameless(model)
    low, high = everything.min(axis=0), everything.max(axis=0)
    room = _AROUND * np.where(high > low, high - low, 1.0)
    across, up = (np.linspace(low[k] - room[k], high[k] + room[k], (COLUMNS, ROWS)[k]) for k in (0, 1))
    grid = np.column_stack([part.ravel() for part in np.meshgrid(across, up)])
    classes = model.classes_ if is_classifier(model) else np.array([-1, 1])
    values = bare.decision_function(grid) if len(classes) == 2 else None
    predicted = bare.predict(grid) if values is None else classes[(values >= 0).astype(np.intp)]
    names = [label(one) for one in classes] if is_classifier(model) else ["outlier", "inlier"]
    codes = _codes(bare, classes, points, y) if len(points) else np.empty(0, dtype=np.intp)
    kept, marked = _evenly(len(points), MOST_POINTS), _evenly(len(support), MOST_SUPPORT)
    shape = (ROWS, COLUMNS)
    return Plane(
        across,
        up,
        np.searchsorted(classes, predicted).reshape(shape),
        None if values is None else np.asarray(values).reshape(shape),
        names,
        _feature_names(model),
        points[kept],
        codes[kept],
        support[marked],
        is_classifier(model),
        (len(points) - kept.size, len(support) - marked.size),
    )


def _dense(X: Any) -> Floats:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64).reshape(-1, 2)


def _nameless(model: Any) -> Any:
    """The estimator as if it had been fitted on an array, so that points of a grid need no names of columns."""
    bare = copy(model)
    vars(bare).pop("feature_names_in_", None)
    return bare


def _codes(model: Any, classes: Any, points: Any, y: Any) -> NDArray[np.intp]:
    """Places of the labels among the classes; a detector's samples have those that it gives them."""
    labels = model.predict(points) if y is None or not hasattr(model, "classes_") else np.asarray(y).ravel()
    codes = np.searchsorted(classes, labels).clip(max=len(classes) - 1)
    return np.where(classes[codes] == labels, codes, -1)


def _feature_names(model: Any) -> tuple[str, str]:
    first, second = getattr(model, "feature_names_in_", ("feature 1", "feature 2"))
    return str(first), str(second)


def _evenly(total: int, most: int) -> NDArray[np.intp]:
    """At most so many places, spread over all."""
    return (
        np.unique(np.linspace(0, total - 1, min(total, most)).round().astype(np.intp))
        if total
        else np.empty(0, dtype=np.intp)
    )


def level_line(values: Floats, x: Floats, y: Floats, level: float) -> list[tuple[Floats, Floats]]:
    """Segments of the line on which a function on a grid has a value (marching squares).

    Parameters
    ----------
    values : ndarray, shape (len(y), len(x))
        The function.
    x, y : ndarray
        The grid.
    level : float
        The value.

    Returns
    -------
    list of (start, end)
        Points of two coordinates.
    """
    segments = []
    above = values >= level
    mixed = above[:-1, :-1].astype(int) + above[1:, :-1] + above[:-1, 1:] + above[1:, 1:]
    for i, j in zip(*np.nonzero((mixed > 0) & (mixed < 4)), strict=True):
        # Corners in a circle; a side between a corner above and one below is crossed where the line through both is.
        corners = [(i, j), (i, j + 1), (i + 1, j + 1), (i + 1, j)]
        crossed = []
        for (a, b), (c, d) in zip(corners, corners[1:] + corners[:1], strict=True):
            if above[a, b] != above[c, d]:
                share = (level - values[a, b]) / (values[c, d] - values[a, b])
                crossed.append(np.array([x[b] + share * (x[d] - x[b]), y[a] + share * (y[c] - y[a])]))
        # Four crossings are a saddle: either way of pairing them is as good at this size.
        segments += [(crossed[k], crossed[k + 1]) for k in range(0, len(crossed), 2)]
    return segments
