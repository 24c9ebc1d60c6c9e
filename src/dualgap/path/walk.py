"""`svm_path`: the solutions of a machine for many values of one parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.formulations import FORMULATIONS, build, recover
from dualgap.kernels.functions import Kernel
from dualgap.kernels.threads import thread_count
from dualgap.kernels.variance import weighted_variance
from dualgap.path.both_ways import both_ways
from dualgap.path.grams import KeptGram, lasting_gram
from dualgap.path.held_out import Fold, check_folds, error_of
from dualgap.path.narrowing import LEAST
from dualgap.path.result import PathResult
from dualgap.path.steps import Goal, Step, Walker
from dualgap.result import Event

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.kernels.gram import Gram
    from dualgap.problem import DualQP

_PARAMETERS = ("C", "nu", "gamma", "epsilon")


def svm_path(
    X: Any,
    y: Any,
    values: Sequence[float],
    *,
    parameter: str = "C",
    row: str = "c_svc",
    kernel: str = "rbf",
    gamma: float | str = "scale",
    degree: int = 3,
    coef0: float = 0.0,
    C: float = 1.0,
    nu: float = 0.5,
    epsilon: float = 0.1,
    sample_weight: Any = None,
    validation: tuple[Any, Any] | None = None,
    cv: Any = None,
    solver: str = "auto",
    tol: float = 1e-3,
    gap_tol: float | None = None,
    cache_size: float = 200.0,
    n_jobs: int | None = None,
    callback: Callable[[Event], bool | None] | None = None,
    mixed_events: bool = False,
    warn: bool = True,
    **options: Any,
) -> PathResult:
    """Solve a machine for many values of one parameter, each from the solution of the one before.

    Values are walked through in ascending order; from 4096 samples on those of C from one near the middle up, and then
    from there down: only the first value is solved without a start, and those at the ends are the dearest. Both ways
    are walked at the same time, with half of the threads each, unless there is a callback (see `mixed_events`). The
    kernel matrix and its rows are kept from one value to the next, but for gamma. A value for which the scaled solution
    of the one before is proved to meet the goal is not solved at all (`skipped`).

    Parameters
    ----------
    X : {array, sparse matrix} of shape (n_samples, n_features)
        Samples; for ``kernel="precomputed"`` the kernel matrix.
    y : array-like of shape (n_samples,) or None
        Two classes, real targets, or None, by the row.
    values : sequence of float
        Values of `parameter`, in any order.
    parameter : {"C", "nu", "gamma", "epsilon"}
        What varies; the others stay as given.
    row : str
        Key of `FORMULATIONS`.
    kernel, gamma, degree, coef0
        The kernel, as in `SVC`.
    C, nu, epsilon : float
        Parameters of the machine that do not vary.
    sample_weight : array-like of shape (n_samples,), optional
        Rescales C a sample.
    validation : tuple (X, y), optional
        Held-out samples; their errors are part of the result.
    cv : int, splitter or iterable, optional
        Folds for validation errors in place of `validation`: a path each, over the same kernel matrix.
    solver, tol, gap_tol
        As in `solve`, for every value.
    cache_size : float
        Megabytes for kernel values.
    n_jobs : int, optional
        Threads for kernel products; None means all cores.
    callback : callable, optional
        Called with an `Event` between chunks of work. Returning True ends the path: the values that are complete are
        returned, without validation errors of folds.
    mixed_events : bool
        Whether the callback may be told of two values in turn. Both ways are then walked at the same time in spite of
        it; it is called by one thread at a time, which need not be the caller's.
    warn : bool
        Whether ending short of the goal is a warning beside the status.
    **options
        Settings of the solver's own.

    Returns
    -------
    PathResult

    Examples
    --------
    >>> import numpy as np, dualgap
    >>> X = np.random.default_rng(0).normal(size=(80, 2)); y = np.where(X[:, 0] + X[:, 1] ** 2 > 0.5, 1, -1)
    >>> path = dualgap.svm_path(X, y, [0.1, 1.0, 10.0, 100.0], gap_tol=1e-6, cv=4)
    >>> len(path), bool(path.relative_gaps.max() <= 1e-6), path.coefficients.shape
    (4, True, (4, 80))
    >>> bool(np.all(np.diff(path.objectives) > 0))
    True
    """
    machine = {"C": float(C), "nu": float(nu), "epsilon": float(epsilon)}
    wanted = _check(row, parameter, kernel, values)
    if validation is not None and cv is not None:
        raise ValueError("Pass either validation=(X, y) or cv=, not both.")
    X = _as_points(X)
    target = _labels(row, y)
    folds = check_folds(row, X, target, y, sample_weight, validation, cv, kernel)
    points = folds[0].points if validation is not None else X
    source = _Source(points, kernel, gamma, degree, coef0, X, cache_size, n_jobs)
    watch = _Watch(callback)
    goal = Goal(solver, tol, gap_tol, options, callback=watch if callback else None, warn=warn)
    order = np.argsort(wanted, kind="stable")
    from_the_middle = parameter == "C" and kernel != "linear" and X.shape[0] >= LEAST
    if from_the_middle:
        order = _up_then_down(order)
    threads = thread_count(n_jobs)
    side_by_side = from_the_middle and threads > 1 and (callback is None or mixed_events) and order.size > 2

    def along(fold: Fold, goal: Goal) -> Iterator[tuple[int, Step]]:
        """The steps that are complete, each with its place in the order."""
        made = partial(_problems, source, fold, row, machine, parameter)
        walker = Walker(goal, ratios=parameter == "C")
        gram = source.gram(None) if side_by_side else None
        begun = 1 if isinstance(gram, KeptGram) else order.size
        for place, (value, problem) in enumerate(made(wanted[order[:begun]])):
            step = walker.step(value, problem)
            if watch.stopped:
                return
            yield place, step
        if isinstance(gram, KeptGram):
            turn = order.size - _beginning(order.size)
            ways = [made(wanted[order[1:turn]]), made(wanted[order[turn:]])]
            for way, first in zip(both_ways(walker, ways, gram, threads), (1, turn), strict=True):
                yield from enumerate(way, first)

    whole = folds[0]
    places, steps, errors = [], [], []
    for place, step in along(whole, goal):
        places.append(place)
        steps.append(step)
        errors.append([error_of(row, step, whole)] if whole.held.size else [])
    quiet = replace(goal, warn=False)
    columns = [] if watch.stopped else [[error_of(row, s, fold) for _, s in along(fold, quiet)] for fold in folds[1:]]
    if columns and not watch.stopped:
        errors = [list(one) for one in zip(*columns, strict=True)]
    return _arranged(parameter, wanted, order[places], steps, errors, source.gamma, X.shape[0])


@dataclass
class _Source:
    """Makes Gram matrices, and keeps the last one."""

    points: Any
    kernel: str
    wanted: float | str
    degree: int
    coef0: float
    training: Any
    cache_size: float
    n_jobs: int | None

    def __post_init__(self) -> None:
        self.gamma = _resolved(self.wanted, self.training) if self.kernel not in ("linear", "precomputed") else 0.0
        self._made: tuple[float, Gram] | None = None

    def gram(self, gamma: float | None) -> Gram:
        """The matrix for this gamma (the path's own when None)."""
        value = self.gamma if gamma is None else gamma
        if self._made is None or self._made[0] != value:
            shape = Kernel(self.kernel, gamma=value, coef0=float(self.coef0), degree=int(self.degree))
            self._made = value, lasting_gram(self.points, shape, cache_size=self.cache_size, n_jobs=self.n_jobs)
        return self._made[1]


def _up_then_down(order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Up from the value to begin with, then down from it: only the first is solved without a start."""
    first = _beginning(order.size)
    return np.concatenate([order[first:], order[:first][::-1]])


def _beginning(count: int) -> int:
    """Which of so many values, in ascending order, to begin with: both ways from there should take equally long.

    At small C most samples are support vectors, at large C they take most steps, and the more of them the larger C is:
    somewhat above the middle. Of 20 values of C (ijcnn1 and covtype from 0.1, a9a from 0.01) a step costs 0.08, 0.06
    and 0.015 s at the lower end, 0.17, 0.12 and 0.04 s at the upper one, and both ways take equally long from the 13th,
    12th and 14th. Data that are separated before C is at its largest have cheap steps there (letter: from the 9th).
    """
    return 3 * (count - 1) // 5


class _Watch:
    """The caller's callback, which remembers that it was asked to stop."""

    def __init__(self, callback: Callable[[Event], bool | None] | None) -> None:
        self.callback, self.stopped = callback, False

    def __call__(self, event: Event) -> bool:
        if self.callback is not None and self.callback(event) is True:
            self.stopped = True
        return self.stopped


def _problems(
    source: _Source, fold: Fold, row: str, machine: dict[str, float], parameter: str, values: NDArray[np.float64]
) -> Iterator[tuple[float, DualQP]]:
    for value in values:
        gram = source.gram(float(value) if parameter == "gamma" else None)
        chosen: dict[str, Any] = dict(machine) if parameter == "gamma" else {**machine, parameter: float(value)}
        yield float(value), build(row, gram, fold.target, sample_weight=fold.weight, **chosen)


def _arranged(
    parameter: str,
    wanted: NDArray[np.float64],
    order: NDArray[np.intp],
    steps: list[Step],
    errors: list[list[float]],
    gamma: float,
    n: int,
) -> PathResult:
    """The steps in the order in which their values were given."""
    rank = np.argsort(order, kind="stable")
    values = wanted[order][rank]
    steps, errors = [steps[k] for k in rank], [errors[k] for k in rank]
    models = [recover(step.problem, step.a, step.eta) for step in steps]
    coefficients = sp.csr_matrix(np.array([model.coefficients[:n] for model in models]).reshape(len(models), n))
    folds = np.array(errors) if errors and errors[0] else None
    return PathResult(
        parameter=parameter,
        values=values,
        objectives=np.array([step.certificate.primal for step in steps]),
        certificates=tuple(step.certificate for step in steps),
        statuses=tuple(step.status for step in steps),
        n_support=np.diff(coefficients.indptr).astype(np.int64),
        coefficients=coefficients,
        intercepts=np.array([model.bias for model in models]),
        validation_errors=None if folds is None else folds.mean(axis=1),
        fold_errors=folds,
        seconds=np.array([step.seconds for step in steps]),
        iterations=np.array([step.iterations for step in steps], dtype=np.int64),
        skipped=np.array([step.skipped for step in steps], dtype=bool),
        start_gaps=np.array([step.start_gap for step in steps]),
        bounds=np.array([step.bounds for step in steps]).reshape(-1, 2),
        gamma=gamma,
    )


def _check(row: str, parameter: str, kernel: str, values: Any) -> NDArray[np.float64]:
    """The values, which must suit the parameter."""
    if row not in FORMULATIONS:
        raise ValueError(f"Unknown row {row!r}; choose one of {', '.join(FORMULATIONS)}.")
    if parameter not in _PARAMETERS:
        raise ValueError(f"parameter must be one of {', '.join(_PARAMETERS)}; got {parameter!r}.")
    if parameter == "gamma":
        if kernel in ("linear", "precomputed"):
            raise ValueError(f"kernel={kernel!r} has no gamma; choose another parameter or kernel.")
    elif parameter not in FORMULATIONS[row].parameters:
        raise ValueError(f"{row} does not read {parameter}; it reads {', '.join(FORMULATIONS[row].parameters)}.")
    wanted = np.asarray(values, dtype=np.float64).reshape(-1)
    if wanted.size == 0:
        raise ValueError(f"values is empty: pass at least one value of {parameter}.")
    if not np.all(np.isfinite(wanted)) or not np.all(wanted >= 0.0):
        raise ValueError(f"values of {parameter} must be finite and not negative; got {wanted.tolist()}.")
    return wanted


def _as_points(X: Any) -> Any:
    """The samples as the kernels take them; single precision stays."""
    X = X.tocsr() if sp.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[0] == 0:
        raise ValueError(f"X must be a table of samples, a row each; got shape {X.shape}.")
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not np.all(np.isfinite(X.data if sp.issparse(X) else X)):
        raise ValueError("X has entries that are NaN or infinite.")
    return X if sp.issparse(X) else np.ascontiguousarray(X)


def _labels(row: str, y: Any) -> NDArray[np.float64] | None:
    """Targets; of two classes the larger label is +1."""
    if FORMULATIONS[row].task == "outlier":
        return None
    if y is None:
        raise ValueError(f"{row} needs y.")
    y = np.asarray(y).reshape(-1)
    if FORMULATIONS[row].task == "regression":
        return y.astype(np.float64)
    classes = np.unique(y)
    if classes.size != 2:
        raise ValueError(
            f"A path is that of one machine for two classes; y has {classes.size}. Use SVCSearchCV for several."
        )
    return np.where(y == classes[1], 1.0, -1.0)


def _resolved(gamma: float | str, X: Any) -> float:
    """The coefficient that "scale" and "auto" stand for in scikit-learn."""
    if gamma == "auto":
        return 1.0 / X.shape[1]
    if gamma != "scale":
        return float(gamma)
    variance = weighted_variance(X)
    return 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
