"""Every support vector machine of the papers as a row of one table.

With sample weights w, in the notation of `dualgap.problem` (``1`` is the vector of ones)::

    row              copies  sign  f0         box      ridge     F columns          e
    c_svc            1       y     -1         0, Cw    0         y                  0
    squared_hinge    1       y     -1         0, inf   1/(2Cw)   y                  0
    nu_svc           1       y     0          0, w     0         y; 1               0; nu sum w
    one_class        1       1     0          0, w     0         1                  nu sum w
    svdd             1       1     -K_ii/2    0, Cw    0         1                  1
    eps_svr          2       +-    -+y + eps  0, Cw    0         +-                 0
    squared_eps_svr  2       +-    -+y + eps  0, inf   1/(2Cw)   +-                 0
    nu_svr           2       +-    -+y        0, Cw    0         +-; 1              0; nu C sum w

Without a bias its column is dropped (one_class and svdd have no model without theirs). A penalised bias, 1/2 (|w|^2 +
b^2) in place of 1/2 |w|^2, drops it as well and adds 1 to the kernel: then ``b = sum_i sign_i a_i``. This is another
model than one with a free bias. A semi-parametric model adds one column ``sign * phi_j(x)`` with e = 0 a function
phi_j (MPD paper, section 6); its multiplier is the coefficient. Samples of weight 0 are left out. The primal
objective of a row is the usual one (1/2 |w|^2 + C sum loss); of svdd it is half of R^2 + C sum xi.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap._vector_passes import NOT_A_SIGN, NOT_FINITE, positive_weights, target_fault
from dualgap.kernels.shifted import ShiftedGram
from dualgap.problem import DualQP
from dualgap.screening import known_product

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram


@dataclass(frozen=True)
class Formulation:
    """One row: what the machine is for and which parameters it reads.

    Attributes
    ----------
    name, title : str
        Key and plain name.
    task : {"classification", "regression", "outlier"}
        What `y` must be: +1/-1, real numbers, or absent.
    copies : int
        Variables a sample.
    squared : bool
        Whether the loss is squared (ridge in place of an upper bound).
    second : str
        Name of the second multiplier ("rho", "epsilon") or "".
    parameters : tuple of str
        Which of C, nu, epsilon it reads.
    """

    name: str
    title: str
    task: str
    copies: int = 1
    squared: bool = False
    second: str = ""
    parameters: tuple[str, ...] = ("C",)


FORMULATIONS: dict[str, Formulation] = {
    row.name: row
    for row in (
        Formulation("c_svc", "C-support vector classification", "classification"),
        Formulation("squared_hinge", "classification with squared hinge loss", "classification", squared=True),
        Formulation("nu_svc", "nu-support vector classification", "classification", second="rho", parameters=("nu",)),
        Formulation("one_class", "one-class support vector machine", "outlier", parameters=("nu",)),
        Formulation("svdd", "support vector data description", "outlier"),
        Formulation("eps_svr", "epsilon-support vector regression", "regression", 2, parameters=("C", "epsilon")),
        Formulation(
            "squared_eps_svr",
            "regression with squared epsilon-insensitive loss",
            "regression",
            2,
            squared=True,
            parameters=("C", "epsilon"),
        ),
        Formulation(
            "nu_svr", "nu-support vector regression", "regression", 2, second="epsilon", parameters=("C", "nu")
        ),
    )
}


@dataclass(frozen=True)
class Model:
    """A decision function ``f(x) = sum_i coefficients_i k(x_i, x) + bias + sum_j parametric_j phi_j(x)``.

    Attributes
    ----------
    coefficients : ndarray, shape (gram.n,)
        One a data point.
    bias : float
        0 where the model has none; for one_class minus rho. A penalised one is found from the coefficients.
    rho : float or None
        Margin of nu_svc (f is not divided by it), threshold of one_class.
    epsilon : float or None
        Tube width found by nu_svr.
    radius2 : float or None
        Squared radius of svdd; there ``f(x) = 2 (sum_i coefficients_i k(x_i, x)) - k(x, x)`` up to ``bias``.
    parametric : ndarray
        Coefficients of the functions phi_j.
    """

    coefficients: NDArray[np.float64]
    bias: float
    rho: float | None
    epsilon: float | None
    radius2: float | None
    parametric: NDArray[np.float64]


def build(
    row: str,
    gram: Gram,
    y: Any = None,
    *,
    C: float = 1.0,
    nu: float = 0.5,
    epsilon: float = 0.1,
    sample_weight: Any = None,
    class_weight: Mapping[float, float] | None = None,
    bias: bool | str = True,
    parametric: Any = None,
    X: Any = None,
    points: NDArray[np.intp] | None = None,
) -> DualQP:
    """The dual problem of a row of the table.

    Parameters
    ----------
    row : str
        Key of `FORMULATIONS`.
    gram : Gram
        Kernel matrix over the samples.
    y : array-like, shape (n,)
        +1/-1 for classification, targets for regression, None for outlier models.
    C, nu, epsilon : float
        Parameters, read where the row has them.
    sample_weight : array-like or None
        Non-negative; rescales C (or the box) a sample.
    class_weight : mapping or None
        Weights of the labels +1 and -1, multiplied into the sample weights.
    bias : bool or "penalised"
        Whether the model has a bias (its constraint), or one that is penalised like the weights (no constraint; the
        kernel plus 1).
    parametric : sequence of callables, array of shape (n, p), or None
        Functions phi_j, called with `X`, or their values at the samples.
    X : array or None
        The samples, needed where `parametric` holds callables.
    points : ndarray of intp, shape (n,), or None
        The samples, as points of the Gram matrix; all of them, in order, where None.

    Returns
    -------
    DualQP
    """
    if row not in FORMULATIONS:
        raise ValueError(f"Unknown formulation {row!r}; choose one of {', '.join(FORMULATIONS)}.")
    spec = FORMULATIONS[row]
    if bias not in (True, False, "penalised"):
        raise ValueError(f"bias must be True, False or 'penalised'; got {bias!r}.")
    if bias == "penalised":
        gram = ShiftedGram(gram)
    _check_parameters(spec, C=C, nu=nu, epsilon=epsilon)
    n = gram.n if points is None else len(points)
    target = _check_target(spec, y, n)
    weight, count = _weights(target, n, sample_weight, class_weight)
    if count == 0:
        raise ValueError("sample_weight leaves no sample: at least one weight must be positive.")
    phi = parametric_values(parametric, X, n)
    used = np.arange(n) if points is None else np.array(points, dtype=np.intp)
    if count < n:
        left = np.flatnonzero(weight)
        used, phi, target, weight = used[left], phi[left], target[left], weight[left]

    sign, f0, F, e, names = _row(spec, gram, used, target, weight, C, nu, epsilon, bias is True)
    hi, ridge = _box(spec, weight, C)
    ridges = _copied(ridge, spec.copies)
    columns = [*F, *(sign * _copied(phi[:, j], spec.copies) for j in range(phi.shape[1]))]
    names = [*names, *(f"phi{j}" for j in range(phi.shape[1]))]
    return DualQP(
        gram=gram,
        index=_copied(used, spec.copies),
        sign=sign,
        ridge=ridges,
        f0=f0,
        lo=np.zeros(sign.size) if spec.squared else ridges,  # zeros, which need not be there twice
        hi=_copied(hi, spec.copies),
        F=_side_by_side(columns, sign.size),
        e=np.concatenate([e, np.zeros(phi.shape[1])]),
        columns=tuple(names),
        formulation=row,
    )


def _copied(values: NDArray[Any], copies: int) -> NDArray[Any]:
    """The values of the samples for all variables."""
    return values if copies == 1 else np.tile(values, copies)


def _side_by_side(columns: list[NDArray[np.float64]], n: int) -> NDArray[np.float64]:
    """Columns as a matrix of n rows; a single one is not copied."""
    return columns[0].reshape(n, 1) if len(columns) == 1 else np.column_stack(columns) if columns else np.empty((n, 0))


def recover(problem: DualQP, a: NDArray[np.float64], eta: NDArray[np.float64]) -> Model:
    """The model of a solution: coefficients from `a`, everything else from the multipliers `eta`."""
    coefficients = problem.on_points(a)
    found = dict(zip(problem.columns, (float(value) for value in eta), strict=True))
    bias = found.get("bias", 0.0)
    if isinstance(problem.gram, ShiftedGram):  # a penalised bias is a feature that is 1 everywhere
        bias += problem.gram.constant * float(coefficients.sum())
    rho = epsilon = radius2 = None
    if "rho" in found:
        # Slopes are sums over the support vectors; a margin within their rounding is none.
        largest = float(np.abs(problem.gram.diag()).max())
        rounding = np.finfo(float).eps * np.count_nonzero(coefficients) * float(np.abs(coefficients).sum()) * largest
        rho = -found["rho"] if abs(found["rho"]) > rounding else 0.0
    elif problem.formulation == "one_class":
        rho = -bias
    if "epsilon" in found:
        epsilon = found["epsilon"]
    if problem.formulation == "svdd":
        # |phi(x_i) - c|^2 = K_ii - 2 (K a)_i + a'Ka, and the margin condition puts R^2 = a'Ka + 2 eta.
        known = known_product(problem, a)  # exact where a is not 0
        inner = float(coefficients @ problem.gram.exact(coefficients)) if known is None else float(a @ known[0])
        radius2 = inner + 2.0 * bias
    parametric = np.array([value for name, value in found.items() if name.startswith("phi")])
    return Model(coefficients, bias, rho, epsilon, radius2, parametric)


def parametric_values(parametric: Any, X: Any, n: int) -> NDArray[np.float64]:
    """Values of the functions phi_j at n samples, as an (n, p) array."""
    if parametric is None or (isinstance(parametric, Sequence) and len(parametric) == 0):
        return np.empty((n, 0))
    if callable(parametric):
        parametric = [parametric]
    if isinstance(parametric, Sequence) and len(parametric) and all(callable(phi) for phi in parametric):
        if X is None:
            raise ValueError("parametric holds functions; pass X so that they can be evaluated.")
        values = np.column_stack([_evaluate(phi, j, X, n) for j, phi in enumerate(parametric)])
    else:
        values = np.asarray(parametric, dtype=np.float64)
        values = values.reshape(-1, 1) if values.ndim == 1 else values
    if values.ndim != 2 or values.shape[0] != n:
        raise ValueError(f"parametric must be functions of X or an array of shape ({n}, p); got shape {values.shape}.")
    if not np.all(np.isfinite(values)):
        raise ValueError("parametric has values that are NaN or infinite at some samples.")
    return values


def _evaluate(phi: Callable[[Any], Any], j: int, X: Any, n: int) -> NDArray[np.float64]:
    values = np.asarray(phi(X), dtype=np.float64)
    if values.size == 1:
        values = np.full(n, float(values.reshape(())))
    if values.size != n:
        raise ValueError(
            f"parametric[{j}] returned shape {values.shape} for {n} samples; it must return one value a sample."
        )
    return values.reshape(n)


def _check_parameters(spec: Formulation, **values: float) -> None:
    for name in spec.parameters:
        value = values[name]
        if name == "C" and not value > 0.0:
            raise ValueError(f"C must be positive; got {value!r}.")
        if name == "C" and np.isinf(value) and not spec.squared:
            raise ValueError(f"C must be finite for {spec.name}; got {value!r}. Use a large number such as 1e9.")
        if name == "nu" and not 0.0 < value <= 1.0:
            raise ValueError(f"nu must lie in (0, 1]; got {value!r}.")
        if name == "epsilon" and not value >= 0.0:
            raise ValueError(f"epsilon must be non-negative; got {value!r}.")


def _check_target(spec: Formulation, y: Any, n: int) -> NDArray[np.float64]:
    if spec.task == "outlier":
        return np.ones(n)
    if y is None:
        raise ValueError(f"{spec.name} needs y.")
    target = np.array(y, dtype=np.float64).reshape(-1)  # a copy, which the problem keeps
    if target.shape[0] != n:
        raise ValueError(f"y has {target.shape[0]} entries where the Gram matrix has {n} points.")
    fault = target_fault(target, spec.task == "classification")
    if fault == NOT_FINITE:
        raise ValueError("y has entries that are NaN or infinite.")
    if fault == NOT_A_SIGN:
        raise ValueError(f"{spec.name} needs labels +1 and -1; got {np.unique(target)[:5]}.")
    return target


def _weights(
    target: NDArray[np.float64], n: int, sample_weight: Any, class_weight: Mapping[float, float] | None
) -> tuple[NDArray[np.float64], int]:
    """The weights of all samples, and how many of them are positive."""
    weight = np.ones(n) if sample_weight is None else np.ascontiguousarray(sample_weight, dtype=np.float64)
    if weight.shape != (n,):
        raise ValueError(f"sample_weight must have shape ({n},); got {weight.shape}.")
    for label, factor in (class_weight or {}).items():
        weight = np.where(target == label, factor * weight, weight)
    count = positive_weights(weight)
    if count < 0:
        raise ValueError("sample_weight and class_weight must be finite and non-negative.")
    return weight, count


def _row(
    spec: Formulation,
    gram: Gram,
    used: NDArray[np.intp],
    y: NDArray[np.float64],
    w: NDArray[np.float64],
    C: float,
    nu: float,
    epsilon: float,
    bias: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64], list[NDArray[np.float64]], NDArray[np.float64], list[str]]:
    """Sign, linear term, constraint columns, right-hand sides and their names."""
    n = y.size
    if spec.task == "outlier":
        ones = np.ones(n)
        if not bias:
            raise ValueError(f"{spec.name} without its threshold has only the trivial solution; keep bias=True.")
        if spec.name == "one_class":
            return ones, np.zeros(n), [ones], np.array([nu * w.sum()]), ["bias"]
        if C * w.sum() < 1.0:
            raise ValueError(
                f"C={C!r} is too small for svdd: C times the sum of weights ({w.sum():.6g}) must be at least 1; "
                f"use C >= {1.0 / w.sum():.6g}."
            )
        # Of an approximation, too, distances from the centre are those of the points, not of their projections.
        own = getattr(gram, "kernel_gram", gram).diag()
        return ones, -0.5 * own[used], [ones], np.array([1.0]), ["bias"]
    if spec.task == "classification":
        sign, f0 = y, np.full(n, 0.0 if spec.name == "nu_svc" else -1.0)
        _check_nu(spec, y, w, nu, bias)
    else:
        sign = np.repeat([1.0, -1.0], n)
        width = 0.0 if spec.name == "nu_svr" else epsilon
        f0 = np.concatenate([-y + width, y + width])
    columns, right, names = [], [], []
    if bias:
        columns, right, names = [sign], [0.0], ["bias"]
    if spec.second:
        columns.append(np.ones(sign.size))
        right.append(nu * w.sum() * (1.0 if spec.name == "nu_svc" else C))
        names.append(spec.second)
    return sign, f0, columns, np.array(right), names


def _check_nu(spec: Formulation, y: NDArray[np.float64], w: NDArray[np.float64], nu: float, bias: bool) -> None:
    if spec.name != "nu_svc" or not bias:
        return
    positive, negative = w[y > 0].sum(), w[y < 0].sum()
    largest = 2.0 * min(positive, negative) / (positive + negative)
    if nu > largest * (1.0 + 1e-12):  # rounding of the three sums
        raise ValueError(
            f"specified nu is infeasible: nu={nu!r} exceeds 2 min(n+, n-)/n = {largest:.6g}, "
            f"beyond which no margin exists; use a smaller nu."
        )


def _box(spec: Formulation, w: NDArray[np.float64], C: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    if spec.squared:
        ridge = np.zeros(w.size) if np.isinf(C) else 1.0 / (2.0 * C * w)
        return np.full(w.size, np.inf), ridge
    return (w.copy() if "C" not in spec.parameters else C * w), np.zeros(w.size)
