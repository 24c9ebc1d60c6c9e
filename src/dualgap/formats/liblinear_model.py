"""Models in LIBLINEAR's text format, to and from its programs `train` and `predict`.

A file has lines of a name and values, and then a line of weights for each feature::

    solver_type L2R_L2LOSS_SVC_DUAL
    nr_class 3              2 where there are no classes
    label 1 2 3             the classes, in the order of the columns
    nr_feature 13
    bias 1                  value of the constant feature whose weights follow last; negative: there is none
    rho 0.5                 of one-class machines: what is taken off
    w
    0.25 -1 0.5             a weight a class; one alone, for the first class, where there are two (but for MCSVM_CS)
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp

from dualgap.atomic import atomic_write
from dualgap.estimators import LinearOneClassSVM, LinearSVC, LinearSVR
from dualgap.estimators.foreign import adopt_weights
from dualgap.formats.model_text import (
    Header,
    integer_labels,
    number_text,
    parse_numbers,
    read_model_text,
    row_text,
)
from dualgap.tensors import ModelFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_JOINTLY: Final = "MCSVM_CS"
_ONE_CLASS: Final = "ONECLASS_SVM"
# Solver types that are support vector machines, and the parameters of ours that they stand for.
_TYPES: Final[dict[str, tuple[Any, dict[str, Any]]]] = {
    "L2R_L2LOSS_SVC_DUAL": (LinearSVC, {"loss": "squared_hinge", "dual": True}),
    "L2R_L2LOSS_SVC": (LinearSVC, {"loss": "squared_hinge", "dual": False}),
    "L2R_L1LOSS_SVC_DUAL": (LinearSVC, {"loss": "hinge", "dual": True}),
    "L1R_L2LOSS_SVC": (LinearSVC, {"penalty": "l1", "loss": "squared_hinge", "dual": False}),
    _JOINTLY: (LinearSVC, {"multi_class": "crammer_singer"}),
    "L2R_L2LOSS_SVR": (LinearSVR, {"loss": "squared_epsilon_insensitive", "dual": False}),
    "L2R_L2LOSS_SVR_DUAL": (LinearSVR, {"loss": "squared_epsilon_insensitive", "dual": True}),
    "L2R_L1LOSS_SVR_DUAL": (LinearSVR, {"loss": "epsilon_insensitive", "dual": True}),
    _ONE_CLASS: (LinearOneClassSVM, {}),
}
_LINES: Final = ("solver_type", "nr_class", "label", "nr_feature", "bias", "rho", "w")


def write_liblinear_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted linear estimator as a model file of LIBLINEAR, all at once.

    LIBLINEAR's `predict` then gives the labels and values that the estimator gives. Numbers are written so that
    the same float64 come back.

    Parameters
    ----------
    estimator : LinearSVC, LinearSVR or LinearOneClassSVM
        Fitted. One-class machines are known to LIBLINEAR from version 2.40 on.
    path : path-like
        The file, in a directory that exists; replaced when the new one is complete.

    Raises
    ------
    ValueError
        Where it is not fitted, or LIBLINEAR has no such model. The message names the remedy.
    OSError
        Where the system cannot write there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from dualgap import LinearSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LinearSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.model")
    ...     write_liblinear_model(model, path)
    ...     same = read_liblinear_model(path)
    >>> bool((same.decision_function(X) == model.decision_function(X)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    kind = _kind(estimator)
    check_is_fitted(estimator)
    if estimator.parametric_coef_.shape[1]:
        raise ValueError("LIBLINEAR has no semi-parametric functions; fit without parametric.")
    coef = estimator.coef_.toarray() if sp.issparse(estimator.coef_) else np.atleast_2d(estimator.coef_)
    intercept = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64).reshape(-1), len(coef))
    lines = [f"solver_type {kind}"]
    labels = integer_labels(estimator.classes_, "LIBLINEAR") if hasattr(estimator, "classes_") else []
    if len(labels) == 2:
        labels.reverse()  # the one column of weights is for the first class
        if kind == _JOINTLY:
            coef, intercept = np.vstack((coef / 2, -coef / 2)), np.concatenate((intercept / 2, -intercept / 2))
    lines.append(f"nr_class {len(labels) or 2}")
    if labels:
        lines.append("label " + " ".join(map(str, labels)))
    lines.append(f"nr_feature {coef.shape[1]}")
    # A constant feature of 1, whatever the estimator was trained with: its weight is then the bias to the last digit.
    biased = kind != _ONE_CLASS and bool(np.any(intercept) or estimator.fit_intercept)
    lines.append(f"bias {1 if biased else -1}")
    if kind == _ONE_CLASS:
        lines.append(f"rho {number_text(-intercept[0])}")
    weights = np.vstack((coef.T, intercept)) if biased else coef.T
    lines += ["w", *(row_text(row) + " " for row in weights.tolist())]
    with atomic_write(path) as file:
        file.write(("\n".join(lines) + "\n").encode("ascii"))


def read_liblinear_model(path: str | os.PathLike[str]) -> Any:
    """Read a model file of LIBLINEAR as a fitted estimator.

    Parameters
    ----------
    path : path-like
        Written by LIBLINEAR, by `write_liblinear_model`, or of any other origin: nothing in it is believed.

    Returns
    -------
    LinearSVC, LinearSVR or LinearOneClassSVM
        Predicts as LIBLINEAR's `predict` does. Classes are int64, in order; `certificate_` says that there is none; C,
        nu and epsilon are not in the file and have their defaults.

    Raises
    ------
    ModelFileError
        A ValueError: the file is truncated, damaged, or no support vector machine of LIBLINEAR.
    OSError
        Where the system cannot read it.
    """
    content = read_model_text(path)
    try:
        return _restore(Header(content, _LINES, b"w", "LIBLINEAR"))
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}; write or copy the model again") from error


def _kind(estimator: Any) -> str:
    """The solver type that has the estimator's penalty and loss."""
    if type(estimator) is LinearOneClassSVM:
        return _ONE_CLASS
    if type(estimator) is LinearSVC:
        if estimator.multi_class == "crammer_singer":
            return _JOINTLY
        asked = (estimator.penalty, estimator.loss)
        if asked == ("l1", "hinge"):
            raise ValueError(
                "LIBLINEAR has no machine of penalty='l1' and loss='hinge'; store the model with dualgap.save or "
                "to_onnx, or fit with loss='squared_hinge'."
            )
        if asked == ("l1", "squared_hinge"):
            return "L1R_L2LOSS_SVC"
        if asked == ("l2", "hinge"):
            return "L2R_L1LOSS_SVC_DUAL"
        return "L2R_L2LOSS_SVC" if estimator.dual is False else "L2R_L2LOSS_SVC_DUAL"
    if type(estimator) is LinearSVR:
        if estimator.loss == "epsilon_insensitive":
            return "L2R_L1LOSS_SVR_DUAL"
        return "L2R_L2LOSS_SVR" if estimator.dual is False else "L2R_L2LOSS_SVR_DUAL"
    raise ValueError(
        f"a LIBLINEAR model is one of LinearSVC, LinearSVR, LinearOneClassSVM; got {type(estimator).__name__}: use "
        f"write_libsvm_model for a kernel machine, or dualgap.save."
    )


def _restore(header: Header) -> Any:
    kind = header.choice("solver_type", _TYPES)
    cls, parameters = _TYPES[kind]
    count, features = header.natural("nr_class"), header.natural("nr_feature")
    bias = header.number("bias")
    if count < 2 or features < 1 or (count > 2 and cls is not LinearSVC):
        raise ModelFileError("nr_class or nr_feature is out of range")
    columns = count if kind == _JOINTLY or count > 2 else 1
    weights = _read_weights(header, features + (bias >= 0), columns)
    with np.errstate(over="ignore"):  # what overflows is found below
        intercept: Any = weights[:, features] * bias if bias >= 0 else np.zeros(columns)
    if not np.all(np.isfinite(intercept)):
        raise ModelFileError("the bias is not finite")
    weights = weights[:, :features]
    if kind == _ONE_CLASS:
        intercept = intercept - header.number("rho")
        return adopt_weights(LinearOneClassSVM(), weights, intercept, "liblinear")
    estimator = cls(fit_intercept=bias >= 0, intercept_scaling=bias if bias > 0 else 1.0, **parameters)
    if cls is LinearSVR:
        return adopt_weights(estimator, weights[0], intercept if bias >= 0 else 0.0, "liblinear")
    labels = header.labels(count)
    order = np.argsort(labels)
    if columns == 1:  # for the first class, where ours is for the second in order
        sign = 1.0 if order[1] == 0 else -1.0
        weights, intercept = sign * weights, sign * intercept
    else:
        weights, intercept = weights[order], intercept[order]
        if count == 2:
            with np.errstate(over="ignore"):
                weights, intercept = weights[1:] - weights[:1], intercept[1:] - intercept[:1]
    if not (np.all(np.isfinite(weights)) and np.all(np.isfinite(intercept))):
        raise ModelFileError("the difference of two weights is not finite")
    classes = np.array(labels, dtype=np.int64)[order]
    return adopt_weights(estimator, weights, intercept if bias >= 0 else 0.0, "liblinear", classes)


def _read_weights(header: Header, rows: int, columns: int) -> NDArray[np.float64]:
    """Weights, a row a class."""
    # Two bytes at least for each: a count that is too large ends here, before anything is made of it.
    if rows * columns * 2 > len(header.body) + 1:
        raise ModelFileError(f"has fewer than the {rows} lines of {columns} weights that it announces")
    tokens = header.body.split()
    if len(tokens) != rows * columns:
        raise ModelFileError(f"has {len(tokens)} weights where {rows} lines of {columns} are announced")
    return np.ascontiguousarray(parse_numbers(tokens, "a weight").reshape(rows, columns).T)
