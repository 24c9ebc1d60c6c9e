"""Held-out samples of a path: rows of the same kernel matrix that have no variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.formulations import FORMULATIONS, recover

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.path.steps import Step


@dataclass(frozen=True, eq=False)
class Fold:
    """Who is trained on (weight above 0) and who is held out."""

    points: Any
    target: NDArray[np.float64] | None
    weight: NDArray[np.float64]
    held: NDArray[np.intp]
    truth: NDArray[np.float64]


def check_folds(
    row: str,
    X: Any,
    target: NDArray[np.float64] | None,
    y: Any,
    sample_weight: Any,
    validation: tuple[Any, Any] | None,
    cv: Any,
    kernel: str,
) -> list[Fold]:
    """The training set as the first fold, with the validation samples beside it, and those of `cv` after it."""
    n = X.shape[0]
    weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},); got {weight.shape}.")
    if target is not None and target.shape != (n,):
        raise ValueError(f"y has {target.size} entries where X has {n} samples.")
    if validation is not None:
        return [_beside(row, X, target, y, weight, validation, kernel)]
    nobody = np.empty(0, dtype=np.intp)
    folds = [Fold(X, target, weight, nobody, np.empty(0))]
    if cv is None:
        return folds
    if target is None:
        raise ValueError(f"cv needs labels to compare with, and {row} has none.")
    from sklearn.model_selection import check_cv

    splitter = check_cv(cv, target, classifier=FORMULATIONS[row].task == "classification")
    for train, test in splitter.split(X, target):
        inside = np.zeros(n)
        inside[train] = weight[train]
        folds.append(Fold(X, target, inside, np.asarray(test, dtype=np.intp), target[test]))
    return folds


def _beside(
    row: str, X: Any, target: Any, y: Any, weight: NDArray[np.float64], validation: tuple[Any, Any], kernel: str
) -> Fold:
    """Training and validation samples in one table, the latter without weight."""
    if kernel == "precomputed":
        raise ValueError("validation= needs the samples, and a precomputed kernel has none; use cv=.")
    other, truth = validation
    other = other.tocsr() if sp.issparse(other) else np.asarray(other, dtype=X.dtype)
    truth = np.asarray(truth).reshape(-1)
    if other.ndim != 2 or other.shape[1] != X.shape[1]:
        raise ValueError(f"validation must have the {X.shape[1]} features of X; got shape {other.shape}.")
    if other.shape[0] != truth.size:
        raise ValueError(f"validation has {other.shape[0]} samples and {truth.size} labels.")
    if sp.issparse(X) or sp.issparse(other):
        both = sp.vstack([sp.csr_matrix(X), sp.csr_matrix(other)], format="csr").astype(X.dtype)
    else:
        both = np.vstack([X, other])
    n, m = X.shape[0], other.shape[0]
    if FORMULATIONS[row].task == "classification":
        classes = np.unique(y)
        unknown = np.setdiff1d(truth, classes)
        if unknown.size:
            raise ValueError(f"validation has the label {unknown[0]!r}, which y does not have.")
        truth = np.where(truth == classes[1], 1.0, -1.0)
    truth = truth.astype(np.float64)
    filled = None if target is None else np.concatenate([target, np.where(truth > 0, 1.0, -1.0)])
    return Fold(both, filled, np.concatenate([weight, np.zeros(m)]), np.arange(n, n + m), truth)


def decision(step: Step, held: NDArray[np.intp]) -> NDArray[np.float64]:
    """The model's function at held-out samples, from the rows of the Gram matrix."""
    problem = step.problem
    model = recover(problem, step.a, step.eta)
    used = np.flatnonzero(model.coefficients)
    out = np.zeros(held.size)
    problem.gram.accumulate(out, used, model.coefficients[used], held)
    if problem.formulation == "svdd":
        # R^2 - |phi(x) - c|^2 with R^2 = a'Ka + 2 bias.
        return 2.0 * (out + model.bias) - problem.gram.diag()[held]
    return out + model.bias


def error_of(row: str, step: Step, fold: Fold) -> float:
    """Fraction of wrong signs, or mean squared error of regression."""
    values = decision(step, fold.held)
    if FORMULATIONS[row].task == "regression":
        return float(np.mean((values - fold.truth) ** 2))
    return float(np.mean(np.where(values > 0.0, 1.0, -1.0) != fold.truth))
