"""The runs behind a fitted estimator: each task's name, certificate and history."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualgap.result import Certificate, History


@dataclass(frozen=True)
class TaskRun:
    """One task of a fit: two classes, a class against the rest, or all there is."""

    name: str
    certificate: Certificate
    history: History


def unwrap(estimator: Any, X: Any = None) -> tuple[Any, Any]:
    """The certified estimator inside searches and pipelines, and the samples as it sees them.

    Parameters
    ----------
    estimator : object
        A fitted estimator of dualgap, a search (its best estimator counts) or a pipeline (its last step).
    X : array-like or None
        Samples as the estimator takes them.

    Raises
    ------
    TypeError
        Where there is no certificate inside.
    """
    from sklearn.exceptions import NotFittedError

    if hasattr(estimator, "best_estimator_"):
        return unwrap(estimator.best_estimator_, X)
    if hasattr(estimator, "steps"):
        before = estimator[:-1]
        return unwrap(estimator[-1], X if X is None or not len(before) else before.transform(X))
    if isinstance(estimator, type):
        raise TypeError(f"expected a fitted estimator and got the class {estimator.__name__}; create one and fit it.")
    if not hasattr(estimator, "certificates_"):
        if hasattr(estimator, "fit") and type(estimator).__module__.startswith("dualgap."):
            raise NotFittedError(f"This {type(estimator).__name__} is not fitted yet; call fit first.")
        raise TypeError(
            f"{type(estimator).__name__} has no certificates; expected a fitted estimator of dualgap, a pipeline that "
            f"ends in one, or a search over one."
        )
    return estimator, X


def label(value: Any) -> str:
    """A class as text: whole numbers without a point."""
    if isinstance(value, str):
        return value
    try:
        real = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(real)) if real.is_integer() else repr(real)


def task_names(model: Any) -> list[str]:
    """A name for each task of a fitted estimator."""
    if len(model.certificates_) == 1:
        return [type(model).__name__]
    classes = [label(one) for one in model.classes_]
    if against_rest(model):
        return [f"{one} against the rest" for one in classes]
    return [f"{one} against {other}" for one, other in combinations(classes, 2)]


def against_rest(model: Any) -> bool:
    """Whether each class has been trained against all others; pairs of classes and single tasks have not."""
    return bool(getattr(model, "_against_rest", getattr(model, "multi_class", "") == "ovr"))


def runs_of(model: Any) -> list[TaskRun]:
    """The tasks of a certified estimator, in its own order."""
    from dualgap.result import History

    histories = [model.history_] if isinstance(model.history_, History) else list(model.history_)
    return [TaskRun(*one) for one in zip(task_names(model), model.certificates_, histories, strict=True)]
