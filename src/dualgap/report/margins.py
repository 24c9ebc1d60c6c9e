"""Where samples lie: margins of classifiers, residuals of regressors, decision values of detectors."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.report.runs import against_rest

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Margins:
    """One value a sample, and what the values mean.

    Attributes
    ----------
    values : ndarray, shape (n_samples,)
        Finite.
    quantity : str
        What they are, for an axis.
    title : str
        For a heading.
    marks : tuple of (float, str)
        Values that mean something, and their names.
    groups : tuple of (str, float, float, int)
        Names of ranges ``low <= value < high``, which hold every value, and how each is shown: 0 what costs most, 1
        what costs something or tells little, 2 what is as wished.
    meaning : str
        A sentence on how to read them.
    """

    values: NDArray[np.float64]
    quantity: str
    title: str
    marks: tuple[tuple[float, str], ...]
    groups: tuple[tuple[str, float, float, int], ...]
    meaning: str

    def grouped(self) -> list[tuple[str, NDArray[np.float64], int]]:
        """The values of each range, and how they are shown."""
        return [
            (name, self.values[(self.values >= low) & (self.values < high)], kind)
            for name, low, high, kind in self.groups
        ]


_WRONG = (
    ("wrong side", -np.inf, 0.0, 0),
    ("right side, within the margin", 0.0, 1.0, 1),
    ("beyond the margin", 1.0, np.inf, 2),
)


def margins_of(model: Any, X: Any, y: Any = None) -> Margins | None:
    """Where samples lie for a fitted estimator.

    Parameters
    ----------
    model : estimator of dualgap
        Fitted.
    X : array-like of shape (n_samples, n_features)
        Samples.
    y : array-like of shape (n_samples,), optional
        Their labels or targets. A classifier of two classes shows decision values without them; with more classes, and
        for regression, there is nothing to show without them.

    Returns
    -------
    Margins or None
        None where nothing can be said.
    """
    from sklearn.base import is_classifier, is_regressor

    if is_regressor(model):
        return None if y is None else _residuals(model, X, y)
    if is_classifier(model):
        return _margins(model, X, y)
    values = _finite(model.decision_function(X))
    groups = (("outliers", -np.inf, 0.0, 0), ("inliers", 0.0, np.inf, 2))
    meaning = "The decision function is positive inside the boundary; what is below zero is called an outlier."
    return Margins(values, "decision function", "Decision values", ((0.0, "boundary"),), groups, meaning)


def _residuals(model: Any, X: Any, y: Any) -> Margins:
    values = _finite(np.asarray(y, dtype=np.float64).ravel() - model.predict(X))
    # nu-regression finds its tube; that of the others is a parameter.
    width = float(getattr(model, "epsilon_", getattr(model, "epsilon", 0.0)))
    if width <= 0.0:
        sides = (("below the prediction", -np.inf, 0.0, 1), ("above the prediction", 0.0, np.inf, 2))
        meaning = "Target less prediction. The tube has no width: every error counts."
        return Margins(values, "residual", "Residuals", ((0.0, "prediction"),), sides, meaning)
    # The upper edge belongs to the tube as the lower one does.
    upper = float(np.nextafter(width, np.inf))
    groups = (
        ("below the tube", -np.inf, -width, 0),
        ("within the tube", -width, upper, 2),
        ("above the tube", upper, np.inf, 0),
    )
    meaning = f"Target less prediction. Errors within the tube of half width {width:.3g} cost nothing."
    return Margins(values, "residual", "Residuals", ((-width, "\u2212\u03b5"), (width, "\u03b5")), groups, meaning)


def _margins(model: Any, X: Any, y: Any) -> Margins | None:
    classes = model.classes_
    if y is None:
        if len(classes) > 2:
            return None
        values = _finite(model.decision_function(X))
        groups = ((f"predicted {classes[0]}", -np.inf, 0.0, 0), (f"predicted {classes[1]}", 0.0, np.inf, 2))
        marks = ((-1.0, "margin"), (0.0, "boundary"), (1.0, "margin"))
        meaning = "Without labels the values of the decision function are shown; the margin lies between -1 and 1."
        return Margins(values, "f(x)", "Decision values", marks, groups, meaning)
    y = np.asarray(y).ravel()
    known = np.isin(y, classes)
    if not known.any():
        return None
    codes = np.searchsorted(classes, y[known])
    rows = np.flatnonzero(known)
    values = _finite(_least_margins(model, X if known.all() else X[rows], codes))
    meaning = (
        "y f(x) is below 0 for mistakes. What lies at 1 or beyond costs nothing; of training samples the others are "
        "support vectors."
    )
    quantity = "margin y f(x)"
    if len(classes) > 2:
        quantity = "least margin over the tasks"
        meaning = "For each sample the least margin over the tasks that concern its class. " + meaning
    return Margins(values, quantity, "Margins", ((0.0, "boundary"), (1.0, "margin")), _WRONG, meaning)


def _least_margins(model: Any, X: Any, codes: NDArray[np.intp]) -> NDArray[np.float64]:
    """``y f(x)``, for several classes the least over the tasks that a sample takes part in."""
    count = len(model.classes_)
    if count == 2:
        return np.where(codes == 1, 1.0, -1.0) * model.decision_function(X)
    if hasattr(model, "_pairs") and not against_rest(model):
        values = model._decision_values(X)  # a column a pair, positive for its first class
        least = np.full(len(codes), np.inf)
        for column, (first, second) in enumerate(combinations(range(count), 2)):
            signed = np.where(codes == first, values[:, column], -values[:, column])
            concerned = (codes == first) | (codes == second)
            least[concerned] = np.minimum(least[concerned], signed[concerned])
        return least
    values = np.asarray(model.decision_function(X))
    own = values[np.arange(len(codes)), codes]
    others = values.copy()
    others[np.arange(len(codes)), codes] = -np.inf
    if against_rest(model):
        return np.minimum(own, -others.max(axis=1))
    return own - others.max(axis=1)


def _finite(values: Any) -> NDArray[np.float64]:
    values = np.asarray(values, dtype=np.float64).ravel()
    return values[np.isfinite(values)]
