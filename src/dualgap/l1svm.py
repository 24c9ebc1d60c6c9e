"""L1-SVMs, exactly: ``min |w|_1 + C sum loss``, loss the hinge or the squared hinge.

    hinge           max(0, 1 - y f(x))        a linear program
    squared_hinge   max(0, 1 - y f(x))^2      LIBLINEAR's solver 5

The dual problem bounds it: ``a >= 0`` (``a <= C`` for the hinge) with ``|v_j| <= 1`` for ``v = X'(y a)``, and a feature
with ``|v_j| < 1`` has weight 0. So few features matter:

1. Start with the features that a few passes of coordinate descent select (`_l1_descent`; X sparse), or with those of
   largest ``|v_j|`` at ``w = 0`` (X dense, where passes are dear).
2. Solve over these alone; ``_l1_newton`` does so exactly for the squared hinge.
3. Look at ``v`` over all features (one product), take in those with ``|v_j| > 1``, drop those far below; go on at 2.

The hinge is solved by the proximal point method on its dual (the method of multipliers): the loss is smoothed about
the multipliers a0 found last, ``h'(t) = clip(a0 + sigma t, 0, C)``, `_l1_newton` solves that, the slopes are the next
a0, and sigma grows. For a linear program this ends after finitely many rounds. It begins at the solution for the
squared hinge, which has nearly the right features and multipliers, and ends as soon as a vertex close by proves to be
optimal (`_l1_lp`).

The answer is judged by `dualgap.composite_certificate` on the problem as it was asked. Cost: a product with X' a round,
and Newton steps over a few hundred features. A dense X is neither copied nor upcast; a sparse one is copied by columns
(unless it is CSC) in its own precision, and in float64 where programs of the hinge choose among all features.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap._l1_search import Search
from dualgap.composite import Composite
from dualgap.composite_certificate import certify_composite
from dualgap.interrupts import interruptible
from dualgap.losses import Hinge, SquaredHinge
from dualgap.operators import as_operator
from dualgap.regularisers import Penalty
from dualgap.result import Certificate, Event, History, Status

if TYPE_CHECKING:
    from numpy.typing import NDArray

LOSSES = ("hinge", "squared_hinge")
BIASES = ("free", "penalised", "none")


@dataclass(frozen=True)
class L1Result:
    """The answer of `solve_l1_svm`.

    Attributes
    ----------
    coef : ndarray
        Weights of the features; those that were not selected are 0 exactly.
    intercept : float
        The bias.
    a : ndarray
        Dual multipliers, feasible: the bound of the certificate is theirs.
    certificate : Certificate
        Primal, dual and gap, recomputed from these in float64.
    history : History
        One event a round; ``n_support`` counts the features selected, ``violation`` is ``max |v_j| - 1``.
    status : Status
        How the run ended.
    iterations : int
        Newton steps and linear programs.
    seconds : float
        Wall time, the certificate included.
    """

    coef: NDArray[np.float64]
    intercept: float
    a: NDArray[np.float64]
    certificate: Certificate
    status: Status
    iterations: int
    seconds: float
    history: History = field(repr=False)


@interruptible
def solve_l1_svm(
    X: Any,
    y: NDArray[np.float64],
    C: float = 1.0,
    *,
    loss: str = "hinge",
    sample_weight: NDArray[np.float64] | None = None,
    bias: str = "free",
    intercept_scaling: float = 1.0,
    gap_tol: float = 1e-6,
    tol: float | None = None,
    max_iter: int = 1000,
    time_limit: float | None = None,
    callback: Callable[[Event], bool | None] | None = None,
    start: NDArray[np.float64] | None = None,
) -> L1Result:
    """Solve ``min |w|_1 + C sum loss`` exactly.

    Parameters
    ----------
    X : array or sparse matrix
        Samples, one a row; float32 stays float32.
    y : ndarray
        Labels, +1 and -1.
    C : float
        Weight of the losses.
    loss : {"hinge", "squared_hinge"}
        The loss; the squared one has no 1/2.
    sample_weight : ndarray or None
        Multiplies C, sample by sample.
    bias : {"free", "penalised", "none"}
        Free of penalty; the weight of one more feature of value `intercept_scaling`, as LIBLINEAR has it; or none.
    intercept_scaling : float
        Value of that feature.
    gap_tol : float
        Relative duality gap that counts as converged. The answer is exact as a rule whatever is asked for, but for the
        squared hinge with more than 500 features selected: there the run ends at half of it.
    tol : float or None
        If given, ``certificate.kkt_violation`` must be as small as this, too.
    max_iter : int
        Newton steps and linear programs at most.
    time_limit : float or None
        Seconds at most.
    callback : callable or None
        Called with an `Event` once a round; returning True stops the run.
    start : ndarray or None
        Weights to start from, and then the bias if there is one: a solution for another C, say.

    Returns
    -------
    L1Result
        Weights, multipliers and certificate.

    Examples
    --------
    >>> import numpy as np
    >>> from dualgap.l1svm import solve_l1_svm
    >>> X = np.array([[0.0, 1.0], [1.0, 0.0], [3.0, 1.0], [4.0, 0.0]]); y = np.array([-1.0, -1.0, 1.0, 1.0])
    >>> result = solve_l1_svm(X, y, C=10.0)
    >>> result.coef.round(9).tolist(), round(result.intercept, 9), result.certificate.gap < 1e-9
    ([1.0, 0.0], -2.0, True)
    """
    _check(loss, bias, C, intercept_scaling, gap_tol, tol, max_iter, time_limit)
    if sp.issparse(X):
        # By columns: features are what is chosen, and products with few weights cost their columns alone.
        X = X.tocsc()
        X = X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)
    problem = l1_problem(
        X, y, C, loss=loss, sample_weight=sample_weight, bias=bias, intercept_scaling=intercept_scaling
    )
    goal = (gap_tol, np.inf if tol is None else tol)
    search = Search(problem, loss, bias, X, max_iter, time_limit, callback, goal)
    if start is not None:
        search.begin_at(np.asarray(start, dtype=np.float64))
    if not search.one_class():
        if loss == "squared_hinge":
            search.squared()
        else:
            search.hinge()
    certificate, u = certify_composite(problem, search.x, -search.y * search.a)
    status = search.status
    met = certificate.relative_gap <= gap_tol and (tol is None or certificate.kkt_violation <= tol)
    if met and status is not Status.STOPPED:
        status = Status.CONVERGED
    elif status is None:
        status = Status.STALLED
    d = search.d
    return L1Result(
        coef=search.x[:d],
        intercept=float(search.x[d]) if search.bias else 0.0,
        a=np.asarray(-search.y * u),
        certificate=certificate,
        status=status,
        iterations=search.iterations,
        seconds=search.elapsed(),
        history=search.history,
    )


def _check(
    loss: str,
    bias: str,
    C: float,
    scaling: float,
    gap_tol: float,
    tol: float | None,
    max_iter: int,
    time_limit: float | None,
) -> None:
    if loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}; got {loss!r}.")
    if bias not in BIASES:
        raise ValueError(f"bias must be one of {', '.join(BIASES)}; got {bias!r}.")
    positive = {"C": C, "intercept_scaling": scaling, "gap_tol": gap_tol, "tol": tol, "time_limit": time_limit}
    for name, value in positive.items():
        if value is not None and not (np.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} must be a positive number; got {value!r}.")
    if max_iter < 1:
        raise ValueError(f"max_iter must be at least 1; got {max_iter!r}.")


def l1_problem(
    X: Any,
    y: NDArray[np.float64],
    C: float = 1.0,
    *,
    loss: str = "hinge",
    sample_weight: NDArray[np.float64] | None = None,
    bias: str = "free",
    intercept_scaling: float = 1.0,
) -> Composite:
    """What `solve_l1_svm` solves, as a `Composite`: for `certify_composite` to judge anybody's weights by.

    Parameters
    ----------
    X, y, C, loss, sample_weight, bias, intercept_scaling
        As in `solve_l1_svm`. The variables are the weights, and then the bias if there is one.
    """
    if not (sp.issparse(X) or isinstance(X, np.ndarray)):
        raise TypeError(f"X must be an array or a sparse matrix; got {type(X).__name__}.")
    operator = as_operator(X, bias=bias != "none")
    n, d = operator.shape
    y = np.asarray(y, dtype=np.float64)
    if y.shape != (n,):
        raise ValueError(f"y must hold {n} labels; its shape is {y.shape}.")
    weights = np.full(n, float(C))
    if sample_weight is not None:
        given = np.asarray(sample_weight, dtype=np.float64)
        if given.shape != weights.shape:
            raise ValueError(f"sample_weight must hold {n} numbers; its shape is {given.shape}.")
        weights *= given
    phi = Hinge(y, weights) if loss == "hinge" else SquaredHinge(y, weights)
    l1 = np.ones(d)
    if bias == "penalised":
        # b = scaling * w_b, and |w_b| is what is penalised.
        l1[-1] = 1.0 / intercept_scaling
    free = bias == "free"
    return Composite(operator, phi, Penalty(l1=l1[:-1] if free else l1), free=(-1,) if free else ())
