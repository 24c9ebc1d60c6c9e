"""Kernel sums as ONNX operators: ``K(X, support vectors) @ weights``, in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.formats._onnx_graph import Graph
    from dualgap.kernels.functions import Kernel


def kernel_sums(graph: Graph, X: str, estimator: Any, weights: NDArray[np.float64]) -> str:
    """The sums, a column for each column of `weights`."""
    kernel = estimator._kernel
    if kernel.name == "precomputed":
        chosen = graph.add("Gather", X, graph.constant(estimator.support_, np.int64), axis=1)
        return graph.add("MatMul", chosen, graph.constant(weights))
    vectors = estimator.support_vectors_
    if kernel.name == "linear":
        coef = vectors.T @ weights
        return graph.add("MatMul", X, graph.constant(coef.toarray() if sp.issparse(coef) else coef))
    dense = (vectors.toarray() if sp.issparse(vectors) else vectors).astype(np.float64)
    if len(dense) == 0:  # a product over nothing is zero, and not every runtime has one
        return graph.add("MatMul", X, graph.constant(np.zeros((dense.shape[1], weights.shape[1]))))
    return graph.add("MatMul", _values(graph, X, dense, kernel), graph.constant(weights))


def _values(graph: Graph, X: str, vectors: NDArray[np.float64], kernel: Kernel) -> str:
    """The kernel values, a column a vector."""
    if kernel.name in ("laplacian", "chi2"):
        distances = _summed_distances(graph, X, vectors, kernel.name)
        return graph.add("Exp", graph.add("Mul", distances, graph.constant(-kernel.gamma)))
    if kernel.name == "rbf":
        distances = _squared_distances(graph, X, vectors)
        return graph.add("Exp", graph.add("Mul", distances, graph.constant(-kernel.gamma)))
    # gamma is in the vectors: a runtime that fuses a product with a scale may keep the scale in float32.
    return _of_scaled(graph, graph.add("MatMul", X, graph.constant(kernel.gamma * vectors.T)), kernel)


def of_products(graph: Graph, products: str, kernel: Kernel) -> str:
    """Values of a kernel that depends on inner products."""
    if kernel.name == "linear":
        return products
    return _of_scaled(graph, graph.add("Mul", products, graph.constant(kernel.gamma)), kernel)


def _of_scaled(graph: Graph, scaled: str, kernel: Kernel) -> str:
    inner = graph.add("Add", scaled, graph.constant(kernel.coef0))
    if kernel.name == "poly":
        return graph.add("Pow", inner, graph.constant(float(kernel.degree)))
    return graph.add("Tanh", inner)


def squared_norms(graph: Graph, X: str) -> str:
    """``|x|^2`` of each row, as a column."""
    return graph.sum(graph.add("Mul", X, X), axis=1, keepdims=True)


def _squared_distances(graph: Graph, X: str, vectors: NDArray[np.float64]) -> str:
    # Measured from the middle of the vectors: far from the origin the terms would cancel.
    middle = vectors.mean(axis=0)
    centred = vectors - middle
    rows = graph.add("Sub", X, graph.constant(middle))
    products = graph.add("MatMul", rows, graph.constant(-2.0 * centred.T))
    total = graph.add(
        "Add", graph.add("Add", products, squared_norms(graph, rows)), graph.constant((centred**2).sum(1))
    )
    return graph.add("Max", total, graph.constant(0.0))


def _summed_distances(graph: Graph, X: str, vectors: NDArray[np.float64], name: str) -> str:
    """Distances that are sums over features; the terms of all pairs are in memory at once."""
    rows = graph.add("Unsqueeze", X, graph.constant([1], np.int64))
    columns = graph.constant(vectors[None, :, :])
    terms = graph.add("Sub", rows, columns)
    if name == "laplacian":
        return graph.sum(graph.add("Abs", terms), axis=2, keepdims=False)
    # Where both are zero the numerator is, too: any divisor will do.
    both = graph.add("Max", graph.add("Add", rows, columns), graph.constant(float(np.finfo(float).tiny)))
    return graph.sum(graph.add("Div", graph.add("Mul", terms, terms), both), axis=2, keepdims=False)
