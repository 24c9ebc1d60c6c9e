"""Fitted estimators as ONNX models, which run wherever an ONNX runtime does.

The models are made of plain operators (products, exponentials, comparisons) in float64, not of the SVM operators of
``ai.onnx.ml``: those compute in float32 and know four kernels. The one input is ``X``, samples by features (for a
precomputed kernel samples by training samples). The outputs are:

- classifiers: ``label``, and ``decision_function`` in the shape that the estimator gives it;
- outlier detectors: ``label`` (1 or -1) and ``decision_function``;
- regressors: ``prediction``.
"""

from __future__ import annotations

import os
from itertools import combinations
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp

import dualgap
from dualgap.atomic import atomic_write
from dualgap.estimators import SVDD, LinearSVDD
from dualgap.formats._onnx_graph import Graph
from dualgap.formats._onnx_kernels import kernel_sums, of_products, squared_norms
from dualgap.formats.model_layout import ESTIMATORS, LINEAR

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

# A serialised model has to be below this.
_MAX_BYTES: Final = 2**31 - 1


def to_onnx(estimator: Any, path: str | os.PathLike[str] | None = None, *, input_dtype: DTypeLike = np.float64) -> Any:
    """Turn a fitted estimator into an ONNX model.

    Parameters
    ----------
    estimator : estimator of this package
        Fitted, with a kernel by name (or precomputed).
    path : path-like, optional
        Where to write the model as well; a file is replaced when the new one is complete.
    input_dtype : {float64, float32}
        Of the samples. The computation is in float64 either way.

    Returns
    -------
    onnx.ModelProto
        ``SerializeToString()`` gives its bytes.

    Raises
    ------
    ImportError
        Where the package onnx is not installed: ``pip install dualgap[onnx]``.
    ValueError
        Where the estimator is not fitted, holds functions that no file can, or is too large (2 GiB) for ONNX.

    Notes
    -----
    The kernels "laplacian" and "chi2" take memory for samples by support vectors by features: pass samples in batches.
    Probabilities are not exported.

    Examples
    --------
    >>> import dualgap
    >>> from dualgap.formats.onnx import to_onnx
    >>> from sklearn.datasets import load_iris
    >>> model = dualgap.SVC().fit(*load_iris(return_X_y=True))
    >>> to_onnx(model, "iris.onnx")  # doctest: +SKIP
    """
    from sklearn.utils.validation import check_is_fitted

    if ESTIMATORS.get(type(estimator).__name__) is not type(estimator):
        raise ValueError(f"to_onnx takes one of {', '.join(ESTIMATORS)}; got {type(estimator).__name__}.")
    check_is_fitted(estimator)
    _check_exportable(estimator)
    dtype = np.dtype(input_dtype)
    if dtype not in (np.float64, np.float32):
        raise ValueError(f"input_dtype={input_dtype!r} is none of samples; use float64 or float32.")
    try:
        graph = Graph()
    except ImportError as error:
        raise ImportError("to_onnx needs the package onnx; install it with pip install dualgap[onnx].") from error
    X = "X" if dtype == np.float64 else graph.cast("X", np.float64)
    outputs = _outputs(graph, X, estimator)
    model = graph.model({"X": (dtype, [None, _width(estimator)])}, outputs, dualgap.__version__)
    if path is not None:
        with atomic_write(path) as file:
            file.write(model.SerializeToString())
    return model


def _check_exportable(estimator: Any) -> None:
    if estimator.parametric_coef_.shape[1]:
        raise ValueError("parametric functions are code, which an ONNX model does not hold; fit without parametric.")
    if isinstance(estimator, LINEAR):
        return
    if callable(estimator.kernel):
        raise ValueError(
            "a callable kernel is code, which an ONNX model does not hold; use a kernel by name, or "
            "kernel='precomputed' and evaluate the kernel before the model."
        )
    rows, columns = estimator.support_vectors_.shape
    if rows * columns * 8 > _MAX_BYTES and estimator.kernel != "linear":
        raise ValueError(
            f"{rows} support vectors of {columns} features take more than the 2 GiB that an ONNX model can hold; "
            f"use approximation= with a small rank, or dualgap.save."
        )
    if isinstance(estimator, SVDD) and estimator.kernel == "precomputed" and estimator._constant_diagonal is None:
        raise ValueError(
            "SVDD needs k(x, x) of new samples, which a precomputed kernel does not give; use another kernel."
        )


def _width(estimator: Any) -> int:
    precomputed = getattr(estimator, "kernel", None) == "precomputed"
    return int(estimator.shape_fit_[0] if precomputed else estimator.n_features_in_)


def _outputs(graph: Graph, X: str, estimator: Any) -> dict[str, tuple[Any, list[Any]]]:
    """Add what the model computes; names, types and shapes of the outputs."""
    values = _task_values(graph, X, estimator)
    if hasattr(estimator, "classes_"):
        return _classify(graph, values, estimator)
    if hasattr(estimator, "score_samples"):
        return _detect(graph, values, X, estimator)
    _flat(graph, values, "prediction")
    return {"prediction": (np.float64, [None])}


def _task_values(graph: Graph, X: str, estimator: Any) -> str:
    """The decision values, a column a task, with their biases."""
    if isinstance(estimator, LINEAR):
        stored: Any = estimator.coef_
        coef = stored.toarray() if sp.issparse(stored) else np.atleast_2d(stored)
        sums = graph.add("MatMul", X, graph.constant(coef.T))
        bias = np.broadcast_to(np.asarray(estimator.intercept_, dtype=np.float64).reshape(-1), len(coef))
    else:
        weights, bias = _weights(estimator), np.asarray(estimator.intercept_)
        if isinstance(estimator, SVDD):
            weights = 2.0 * weights
        sums = kernel_sums(graph, X, estimator, weights)
    return graph.add("Add", sums, graph.constant(bias))


def _weights(estimator: Any) -> NDArray[np.float64]:
    """Coefficients of the support vectors, a column a task."""
    coefficients = estimator._dual_coef
    classes = len(getattr(estimator, "classes_", ()))
    if classes <= 2 or estimator._against_rest or estimator.approximation_ is not None:
        return coefficients.T
    ends = np.concatenate([[0], np.cumsum(estimator.n_support_)])
    weights = np.zeros((coefficients.shape[1], classes * (classes - 1) // 2))
    for pair, (first, second) in enumerate(combinations(range(classes), 2)):
        one, two = slice(*ends[[first, first + 1]]), slice(*ends[[second, second + 1]])
        weights[one, pair] = coefficients[second - 1, one]
        weights[two, pair] = coefficients[first, two]
    return weights


def _flat(graph: Graph, column: str, name: str) -> None:
    graph.add("Reshape", column, graph.constant([-1], np.int64), output=name)


def _detect(graph: Graph, values: str, X: str, estimator: Any) -> dict[str, tuple[Any, list[Any]]]:
    if isinstance(estimator, SVDD) and estimator._constant_diagonal is not None:
        values = graph.add("Sub", values, graph.constant(estimator._constant_diagonal))
    elif isinstance(estimator, SVDD):
        values = graph.add("Sub", values, of_products(graph, squared_norms(graph, X), estimator._kernel))
    elif isinstance(estimator, LinearSVDD):
        values = graph.add("Sub", values, squared_norms(graph, X))
    _flat(graph, values, "decision_function")
    inside = graph.add("GreaterOrEqual", "decision_function", graph.constant(0.0))
    place = graph.cast(inside, np.int64)
    graph.add("Gather", graph.constant([-1, 1], np.int64), place, output="label")
    return {"label": (np.int64, [None]), "decision_function": (np.float64, [None])}


def _classify(graph: Graph, values: str, estimator: Any) -> dict[str, tuple[Any, list[Any]]]:
    count = len(estimator.classes_)
    labels = _labels(estimator.classes_)
    shape: list[Any] = [None]
    if count == 2:
        _flat(graph, values, "decision_function")
        place = graph.cast(graph.add("Greater", "decision_function", graph.constant(0.0)), np.int64)
    else:
        one_a_class = isinstance(estimator, LINEAR) or estimator._against_rest
        scores, votes = (values, values) if one_a_class else _votes(graph, values, estimator)
        shape.append(count if one_a_class or scores != values else count * (count - 1) // 2)
        graph.add("Identity", scores, output="decision_function")
        order = None if one_a_class else estimator._tie_order
        if order is not None:
            votes, labels = graph.add("Gather", votes, graph.constant(order, np.int64), axis=1), labels[order]
        place = graph.add("ArgMax", votes, axis=1, keepdims=0)
    graph.add("Gather", graph.constant(labels, labels.dtype), place, output="label")
    return {"label": (labels.dtype, [None]), "decision_function": (np.float64, shape)}


def _labels(classes: NDArray[Any]) -> NDArray[Any]:
    """Labels in a type that ONNX has."""
    if classes.dtype.kind in "UO":
        return classes.astype(object)
    return classes.astype({"b": np.bool_, "f": np.float64}.get(classes.dtype.kind, np.int64))


def _votes(graph: Graph, values: str, estimator: Any) -> tuple[str, str]:
    """The decision function in the estimator's shape, and what decides between classes, from the values of pairs."""
    count = len(estimator.classes_)
    pairs = list(combinations(range(count), 2))
    first, second = np.zeros((len(pairs), count)), np.zeros((len(pairs), count))
    for pair, (one, two) in enumerate(pairs):
        first[pair, one] = second[pair, two] = 1.0
    difference, base = graph.constant(first - second), graph.constant(second.sum(axis=0))

    def counted(won: str) -> str:
        return graph.add("Add", graph.add("MatMul", graph.cast(won, np.float64), difference), base)

    votes = counted(graph.add("Greater", values, graph.constant(0.0)))
    if estimator.decision_function_shape == "ovo":
        return values, votes
    # As scikit-learn has it: votes, and a little of the summed values that never outweighs one.
    confidence = graph.add("MatMul", values, difference)
    size = graph.add("Add", graph.add("Abs", confidence), graph.constant(1.0))
    share = graph.add("Div", confidence, graph.add("Mul", size, graph.constant(3.0)))
    scores = graph.add("Add", counted(graph.add("GreaterOrEqual", values, graph.constant(0.0))), share)
    return scores, scores if estimator.break_ties else votes
