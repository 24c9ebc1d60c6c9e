"""Cross-validation as svm-train does it, without estimators: scikit-learn's import takes longer than a small search.

All folds read one kernel matrix: a sample that is left out is one of weight 0, which has no variable.
"""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.cli.libsvm_words import Trained, tell_task
from dualgap.formulations import FORMULATIONS, build, recover
from dualgap.kernels.functions import Kernel
from dualgap.kernels.threads import share, thread_count
from dualgap.path.folds import deal
from dualgap.path.grams import lasting_gram
from dualgap.run import choose, solve

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.cli.libsvm_data import Samples
    from dualgap.cli.libsvm_options import TrainOptions
    from dualgap.formulations import Model
    from dualgap.kernels.gram import Gram
    from dualgap.result import Result

# Training samples of a fold up to which folds run side by side: beyond, one solve keeps all threads busy.
_SIDE_BY_SIDE = 4096
# Any seed would do, but folds have to be the same for all points of a grid.
_SEED = 0


def classes_of(y: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Classes and each sample's place among them."""
    if np.any(y != np.trunc(y)) or np.any(np.abs(y) >= 2.0**31):
        raise ValueError("class labels must be integers, as LIBSVM's are; use -s 3 or -s 4 for regression")
    classes, codes = np.unique(y.astype(np.int64), return_inverse=True)
    return classes, codes


def class_weights(options: TrainOptions, classes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The factor of C for each class."""
    weights = options.weights if options.row == "c_svc" else {}
    return np.array([weights.get(int(label), 1.0) for label in classes])


def votes(values: NDArray[np.float64], n_classes: int) -> NDArray[np.intp]:
    """How many pairs each class wins; a column a pair, positive for its first class, nan where neither takes part."""
    found = np.zeros((len(values), n_classes), dtype=np.intp)
    for column, (first, second) in enumerate(combinations(range(n_classes), 2)):
        found[:, first] += values[:, column] > 0
        found[:, second] += values[:, column] <= 0
    return found


def fold_numbers(options: TrainOptions, y: NDArray[np.float64]) -> NDArray[np.intp]:
    """The fold of each sample: classes are spread evenly."""
    groups = classes_of(y)[1] if options.classifies else np.zeros(len(y), dtype=np.intp)
    order = np.random.default_rng(_SEED).permutation(len(y))
    return deal(groups, np.ones(len(y), dtype=bool), min(options.folds, len(y)), order)


def make_kernel(options: TrainOptions, samples: Samples) -> tuple[Any, Kernel]:
    """The points and the kernel, gamma filled in: one over the number of features where none is given."""
    if options.kernel == "precomputed":
        return samples.matrix, Kernel("precomputed")
    gamma = options.gamma or 1.0 / max(1, samples.X.shape[1])
    return samples.X, Kernel(options.kernel, gamma=gamma, coef0=options.coef0, degree=options.degree)


def cross_validate(options: TrainOptions, samples: Samples) -> NDArray[np.float64]:
    """Predictions of all samples by machines that were trained without their fold: labels, values, or +1 and -1."""
    fold = fold_numbers(options, samples.y)
    points, kernel = make_kernel(options, samples)
    gram = lasting_gram(points, kernel, cache_size=options.cache_size, all_rows=True)
    if options.classifies:
        return _classes(options, samples.y, gram, fold)
    parts = [(np.where(fold == k, 0.0, 1.0), np.flatnonzero(fold == k)) for k in range(fold.max() + 1)]
    jobs = [(samples.y, weight, weight, held) for weight, held in parts]
    out = np.empty(len(fold))
    for (_, held), values in zip(parts, _solve_all(options, gram, jobs), strict=True):
        out[held] = values if options.regresses else np.where(values > 0, 1.0, -1.0)
    return out


_Job = tuple[Any, Any, Any, Any]


def _classes(options: TrainOptions, y: NDArray[np.float64], gram: Gram, fold: NDArray[np.intp]) -> NDArray[np.float64]:
    classes, codes = classes_of(y)
    weight = class_weights(options, classes)[codes]
    pairs = list(combinations(range(len(classes)), 2))
    values = np.full((len(y), len(pairs)), np.nan)
    jobs, places = [], []
    for k in range(fold.max() + 1):
        held = np.flatnonzero(fold == k)
        for column, (first, second) in enumerate(pairs):
            of_first, of_second = ((codes == label) & (fold != k) for label in (first, second))
            if of_first.any() and of_second.any():
                inside = np.where(of_first | of_second, weight, 0.0)
                jobs.append((np.where(of_first, 1.0, -1.0), inside, of_first | of_second, held))
                places.append((held, column))
            elif of_first.any() or of_second.any():  # the fold holds all of the other class
                values[held, column] = 1.0 if of_first.any() else -1.0
    for (held, column), found in zip(places, _solve_all(options, gram, jobs), strict=True):
        values[held, column] = found
    return classes[np.argmax(votes(values, len(classes)), axis=1)].astype(np.float64)


def _solve_all(options: TrainOptions, gram: Gram, jobs: list[_Job]) -> list[NDArray[np.float64]]:
    """Decision values of the held-out samples of each job."""
    largest = max((int(np.count_nonzero(member)) for _, _, member, _ in jobs), default=0)
    threads = thread_count(None) if largest <= _SIDE_BY_SIDE else 1
    found: list[Any] = [None] * len(jobs)

    def job(number: int) -> None:
        own = gram.separate() if threads > 1 and hasattr(gram, "separate") else gram
        target, weight, _, held = jobs[number]
        result, model = solve_task(options, own, target, weight)
        values = np.full(len(held), model.bias)
        used = np.flatnonzero(model.coefficients)
        own.accumulate(values, used, model.coefficients[used], held)
        found[number] = result, model, values

    share(job, len(jobs), threads)
    if not options.quiet:
        for (_, weight, member, _), (result, model, _) in zip(jobs, found, strict=True):
            tell_task(trained(options, result, model, weight, int(np.count_nonzero(member))))
    return [values for _, _, values in found]


def solve_task(
    options: TrainOptions, gram: Gram, target: NDArray[np.float64], weight: NDArray[np.float64]
) -> tuple[Result, Model]:
    """Solve one task; of nu-SVC the model is divided by the margin, as LIBSVM's is."""
    nu = options.nu
    if options.row == "nu_svc":
        # A nu that just fits all samples may be too large for some of them.
        positive, negative = float(weight[target > 0].sum()), float(weight[target < 0].sum())
        nu = min(nu, 2.0 * min(positive, negative) / (positive + negative))
    numbers = {"C": options.C, "nu": nu, "epsilon": options.epsilon}
    parameters: dict[str, Any] = {name: numbers[name] for name in FORMULATIONS[options.row].parameters}
    labels = None if options.row == "one_class" else target
    problem = build(options.row, gram, labels, sample_weight=weight, **parameters)
    _, module = choose(problem, "auto")
    shrinks = any(field.name == "shrinking" for field in fields(module.Options))
    more: dict[str, Any] = {"shrinking": options.shrinking} if shrinks else {}
    result = solve(problem, "auto", tol=options.tol, warn=False, **more)
    model = recover(problem, result.a, result.eta)
    if options.row == "nu_svc" and model.rho is not None and model.rho > 0.0:
        model = replace(model, coefficients=model.coefficients / model.rho, bias=model.bias / model.rho)
    return result, model


def trained(options: TrainOptions, result: Result, model: Model, weight: NDArray[np.float64], samples: int) -> Trained:
    """What there is to tell of a task."""
    used = np.flatnonzero(model.coefficients)
    if options.row == "nu_svc":
        bounds = np.full(used.size, 1.0 / model.rho if model.rho else np.inf)
    else:
        bounds = weight[used] * (1.0 if options.row == "one_class" else options.C)
    return Trained(
        options.row,
        result.iterations,
        result.certificate,
        -model.bias,
        model.coefficients[used],
        bounds,
        samples,
        model.epsilon,
    )
