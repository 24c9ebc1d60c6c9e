"""Probabilities of the kernel classifiers: cross-fitted calibration of decision values.

A model is too sure of the samples it was trained on. So each binary task is trained `calibration_cv` times more, with a
fold of the samples left out; the decision values of all samples by models that have not seen them are what a sigmoid
(Platt) or a monotone step function (isotonic regression) is fitted to. Folds read the kernel matrix of the fit itself:
a sample left out is one of weight 0, which has no variable.

With more than two classes there is a calibration for every pair, and `couple` makes one distribution of them; one
against the rest there is one for every class, and the probabilities are scaled to a sum of 1. Last, `agreeing` sees to
it that the class with the largest probability is the one that `predict` names.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.utils import check_random_state

from dualgap.estimators._calibration_coupling import agreeing, couple, normalised
from dualgap.estimators._calibration_sigmoid import fit_sigmoid, smoothed_targets
from dualgap.path.folds import deal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.estimators.base import Solved
    from dualgap.kernels.gram import Gram

# The folds' seed where random_state is None: any would do, but it has to be the same every time.
_SEED = 0


def wanted(probability: Any) -> bool:
    """Whether the parameter asks for probabilities; "deprecated" is scikit-learn's word for False from 1.9 on."""
    return probability != "deprecated" and bool(probability)


def forget(model: Any) -> None:
    """Attributes of a fit without probabilities, which are scikit-learn's."""
    model.probA_, model.probB_ = np.empty(0), np.empty(0)
    model.calibration_thresholds_ = []


def calibrate(
    model: Any,
    gram: Gram,
    phi: NDArray[np.float64] | None,
    codes: NDArray[np.intp],
    weight: NDArray[np.float64],
    frequency: NDArray[np.float64],
) -> None:
    """Fit the calibration of a classifier whose classes are known: `probA_` and `probB_`, or the thresholds.

    Parameters
    ----------
    model : SVC or NuSVC
        The classifier.
    gram, phi : Gram, ndarray or None
        Kernel matrix and semi-parametric functions of the training samples.
    codes : ndarray
        Each sample's place among the classes.
    weight : ndarray
        Weights of the fit, those of the classes included.
    frequency : ndarray
        Weights of the samples alone: how often each counts in the calibration. Weights of classes move a model's
        boundary, but do not make a class more frequent.
    """
    forget(model)
    order = check_random_state(_SEED if model.random_state is None else model.random_state).permutation(len(codes))
    fold = deal(codes, weight > 0.0, model.calibration_cv, order)
    values = _left_out_values(model, gram, phi, codes, weight, fold)
    for number, column in enumerate(values):
        positive, member = _sides(model, number, codes)
        chosen = member & (fold >= 0)
        data = (_oriented(model, column)[chosen], positive[chosen], frequency[chosen])
        if model.calibration == "isotonic":
            model.calibration_thresholds_.append(_fit_isotonic(*data))
        else:
            found = fit_sigmoid(*data)
            model.probA_, model.probB_ = np.append(model.probA_, found.A), np.append(model.probB_, found.B)


def _sides(model: Any, number: int, codes: NDArray[np.intp]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Of a task: who is of its first class, and who takes part."""
    if model._against_rest:
        return codes == number, np.ones(len(codes), dtype=bool)
    first, second = list(model._pairs())[number]
    return codes == first, (codes == first) | (codes == second)


def _oriented(model: Any, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Decision values as LIBSVM has them, positive for the first class of a pair: with two classes ours are not."""
    return -values if len(model.classes_) == 2 else values


def _left_out_values(
    model: Any,
    gram: Gram,
    phi: NDArray[np.float64] | None,
    codes: NDArray[np.intp],
    weight: NDArray[np.float64],
    fold: NDArray[np.intp],
) -> list[NDArray[np.float64]]:
    """Decision values of every task, each sample's by a model that was trained without it."""
    tasks = len(model.intercept_)
    values = [np.zeros(len(codes)) for _ in range(tasks)]
    jobs = []
    for number in range(tasks):
        positive, member = _sides(model, number, codes)
        for left_out in range(model.calibration_cv):
            held = np.flatnonzero(member & (fold == left_out))
            inside = np.where(member & (fold != left_out), weight, 0.0)
            on_first, on_second = float(inside[positive].sum()), float(inside[~positive].sum())
            if held.size and on_first > 0.0 and on_second > 0.0:
                jobs.append((number, held, inside, 2.0 * min(on_first, on_second) / (on_first + on_second)))
            elif held.size:  # LIBSVM's answer where a fold leaves one class alone
                values[number][held] = _oriented(model, np.sign([on_first - on_second]))[0]

    def task(job: int, gram: Gram) -> Solved:
        number, _, inside, largest_nu = jobs[job]
        machine = copy(model)
        if model._row == "nu_svc":
            # A nu that just fits all samples may be too large for some of them.
            machine.nu = min(model.nu, largest_nu)
        return machine._train(number, gram, codes, inside, phi)

    largest = max((int(np.count_nonzero(inside)) for _, _, inside, _ in jobs), default=0)
    for (number, held, _, _), solved in zip(jobs, model._solve_tasks(task, len(jobs), gram, largest), strict=True):
        found = model._scaled(solved.model)
        out = np.full(held.size, found.bias) if phi is None else found.bias + phi[held] @ found.parametric
        used = np.flatnonzero(found.coefficients)
        gram.accumulate(out, used, found.coefficients[used], held)
        values[number][held] = out
    return values


def _fit_isotonic(
    values: NDArray[np.float64], positive: NDArray[np.bool_], weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Decision values and the probabilities there, between which it is interpolated."""
    if not np.any(weight > 0.0):
        return np.zeros(1), np.full(1, 0.5)  # two classes of which there is nobody: even chances
    fitted = IsotonicRegression(increasing=True, out_of_bounds="clip")
    fitted.fit(values, smoothed_targets(positive, weight), sample_weight=weight)
    return (
        np.asarray(fitted.X_thresholds_, dtype=np.float64),
        np.asarray(fitted.y_thresholds_, dtype=np.float64),
    )


def probabilities(model: Any, values: NDArray[np.float64], *, agree: bool = True) -> NDArray[np.float64]:
    """Probabilities of classes from decision values, a column a task.

    Parameters
    ----------
    model : SVC or NuSVC
        A classifier that was fitted with a calibration.
    values : ndarray of shape (n_samples, n_tasks)
        Its decision values.
    agree : bool
        Whether the largest shall be that of the class that `predict` names. LIBSVM's need not be.
    """
    oriented = _oriented(model, values)
    tables = getattr(model, "calibration_thresholds_", None)  # a model read from a file may lack both
    if np.size(getattr(model, "probA_", ())):
        first = expit(-(model.probA_ * oriented + model.probB_))
    elif tables:
        first = np.column_stack([np.interp(oriented[:, k], *table) for k, table in enumerate(tables)])
    else:
        raise NotFittedError("predict_proba is not available when fitted with probability=False")
    found = normalised(first) if model._against_rest else couple(first, len(model.classes_))
    return agreeing(found, model._predicted(values)) if agree else found
