"""``dualgap svm-train``: LIBSVM's svm-train with our solvers, its command line and its model files kept."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

from dualgap.cli.libsvm_options import TRAIN_USAGE, read_train_options
from dualgap.cli.libsvm_words import (
    Trained,
    accuracy,
    check_target,
    put_in_place,
    regression_scores,
    run_command,
    tell_task,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dualgap.cli.libsvm_data import Samples
    from dualgap.cli.libsvm_options import TrainOptions

# LIBSVM's folds for the noise of a regression, and the residuals it leaves out of it: those of 5 standard deviations.
_NOISE_FOLDS, _FAR = 5, 5.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Run svm-train and leave with its exit status: 0, or 1 where anything is wrong."""
    sys.exit(run_command(svm_train, arguments, TRAIN_USAGE))


def svm_train(arguments: Sequence[str]) -> None:
    """Read the command line and the data, and train or cross-validate."""
    options = read_train_options(arguments)
    if not options.folds:
        check_target(options.model, "model_file", options.data)
    from dualgap.cli.libsvm_data import read_kernel_rows, read_vectors

    read = read_kernel_rows if options.kernel == "precomputed" else read_vectors
    samples = read(options.data, training=True)
    _warn_of_weights(options, samples)
    if options.folds:
        _cross_validate(options, samples)
    else:
        _train(options, samples)


def _warn_of_weights(options: TrainOptions, samples: Samples) -> None:
    known = set(samples.y.tolist())
    for label in options.weights if options.row == "c_svc" else ():
        if label not in known:
            sys.stderr.write(f"WARNING: class label {label} specified in weight is not found\n")


# -- cross-validation --------------------------------------------------------------------------------------------


def _cross_validate(options: TrainOptions, samples: Samples) -> None:
    from dualgap.cli.libsvm_folds import cross_validate

    if options.folds > len(samples.y):
        options.folds = len(samples.y)
        sys.stderr.write(
            "WARNING: # folds > # data. Will use # folds = # data instead (i.e., leave-one-out cross validation)\n"
        )
    with_probability = options.probability and options.classifies
    predicted = (_likeliest if with_probability else cross_validate)(options, samples)
    if options.regresses:
        error, correlation = regression_scores(predicted, samples.y)
        print(f"Cross Validation Mean squared error = {error:g}")
        print(f"Cross Validation Squared correlation coefficient = {correlation:g}")
    else:
        print(f"Cross Validation Accuracy = {accuracy(predicted, samples.y)[0]:g}%")


def _likeliest(options: TrainOptions, samples: Samples) -> NDArray[np.float64]:
    """Of each sample, the class with the largest probability: with -b 1 that is what LIBSVM scores."""
    import numpy as np

    from dualgap.cli.libsvm_folds import fold_numbers
    from dualgap.estimators.calibration import probabilities

    fold, out = fold_numbers(options, samples.y), np.empty(len(samples.y))
    for k in range(fold.max() + 1):
        train, held = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        model = _estimator(options, samples, samples.y[train])
        if options.kernel == "precomputed":
            matrix = samples.matrix
            _fit(model, matrix[np.ix_(train, train)], samples.y[train])
            values = model._decision_values(matrix[np.ix_(held, train)])
        else:
            _fit(model, samples.X[train], samples.y[train])
            values = model._decision_values(samples.X[held])
        out[held] = model.classes_[np.argmax(probabilities(model, values, agree=False), axis=1)]
        if not options.quiet:
            _tell(options, model, samples.y[train])
    return out


# -- training ----------------------------------------------------------------------------------------------------


def _train(options: TrainOptions, samples: Samples) -> None:
    from dualgap.formats.libsvm_model import write_libsvm_model

    model = _estimator(options, samples, samples.y)
    precomputed = options.kernel == "precomputed"
    _fit(model, samples.matrix if precomputed else samples.X, None if options.row == "one_class" else samples.y)
    if precomputed:
        # Columns are known by the serial numbers of the file, whatever the order of its rows.
        assert samples.column is not None
        model.support_ = samples.column[model.support_].astype(model.support_.dtype)
    if options.probability and options.regresses:
        model.probA_ = _noise(options, samples)
    if not options.quiet:
        _tell(options, model, samples.y)
    put_in_place(options.model, lambda path: write_libsvm_model(model, path))


def _estimator(options: TrainOptions, samples: Samples, y: NDArray[np.float64]) -> Any:
    """The estimator that the options ask for."""
    from dualgap import estimators
    from dualgap.cli.libsvm_folds import class_weights, classes_of, make_kernel

    kernel = make_kernel(options, samples)[1]
    shared: dict[str, Any] = {
        "kernel": kernel.name,
        "gamma": kernel.gamma,
        "degree": kernel.degree,
        "coef0": kernel.coef0,
        "tol": options.tol,
        "cache_size": options.cache_size,
        "shrinking": options.shrinking,
    }
    if options.row == "one_class":
        return estimators.OneClassSVM(nu=options.nu, **shared)
    if options.row == "eps_svr":
        return estimators.SVR(C=options.C, epsilon=options.epsilon, **shared)
    if options.row == "nu_svr":
        return estimators.NuSVR(C=options.C, nu=options.nu, **shared)
    if options.row == "nu_svc":
        classes_of(y)
        return estimators.NuSVC(nu=options.nu, probability=options.probability, **shared)
    classes, _ = classes_of(y)
    weights = dict(zip(classes.tolist(), class_weights(options, classes).tolist(), strict=True))
    return estimators.SVC(C=options.C, class_weight=weights, probability=options.probability, **shared)


def _fit(model: Any, X: Any, y: NDArray[np.float64] | None) -> None:
    """Fit an estimator; classes are integers, and warnings are lines on stderr."""
    import numpy as np

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y.astype(np.int64) if hasattr(model, "class_weight") and y is not None else y)
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            sys.stderr.write(f"WARNING: {warning.message}\n")


def _noise(options: TrainOptions, samples: Samples) -> NDArray[np.float64]:
    """The scale of the Laplace distribution that residuals of new samples seem to have, by LIBSVM's estimate."""
    from dataclasses import replace

    import numpy as np

    from dualgap.cli.libsvm_folds import cross_validate

    folds = min(_NOISE_FOLDS, len(samples.y))
    if folds < 2:
        raise ValueError("one sample is too few to estimate the noise of a regression; leave out -b 1")
    size = np.abs(samples.y - cross_validate(replace(options, folds=folds, quiet=True), samples))
    sigma = float(size[size <= _FAR * np.sqrt(2.0 * size.mean() ** 2)].mean())
    if not options.quiet:
        print("Prob. model for test data: target value = predicted value + z,")
        print(f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma= {sigma:g}")
    return np.array([sigma])


# -- telling -----------------------------------------------------------------------------------------------------


def _tell(options: TrainOptions, model: Any, y: NDArray[np.float64]) -> None:
    for task in _tasks(options, model, y):
        tell_task(task)
    if options.classifies:
        print(f"Total nSV = {len(model.support_)}", flush=True)


def _tasks(options: TrainOptions, model: Any, y: NDArray[np.float64]) -> Iterator[Trained]:
    """The tasks of a fitted estimator."""
    import numpy as np

    iterations = np.atleast_1d(model.n_iter_)
    for number, (coefficients, weight, samples) in enumerate(_expansions(options, model, y)):
        used = coefficients != 0.0
        if options.row == "nu_svc":
            # The sum is nu n before division by the margin, and bounds are 1.
            bounds = np.full(np.count_nonzero(used), np.abs(coefficients).sum() / (options.nu * samples))
        else:
            bounds = weight[used] * (1.0 if options.row == "one_class" else options.C)
        yield Trained(
            options.row,
            int(iterations[number]),
            model.certificates_[number],
            -float(model.intercept_[number]),
            coefficients[used],
            bounds,
            samples,
            getattr(model, "epsilon_", None),
        )


def _expansions(options: TrainOptions, model: Any, y: NDArray[np.float64]) -> Iterator[tuple[Any, Any, int]]:
    """Of each task the coefficients, their weights, and how many samples it had."""
    import numpy as np

    if not options.classifies:
        yield model._dual_coef[0], np.ones(model._dual_coef.shape[1]), len(y)
        return
    ends = np.concatenate([[0], np.cumsum(model.n_support_)])
    counts = [int(np.count_nonzero(y == label)) for label in model.classes_]
    by_vector = np.repeat(model.class_weight_, model.n_support_)
    for first, second in combinations(range(len(counts)), 2):
        one, two = slice(*ends[[first, first + 1]]), slice(*ends[[second, second + 1]])
        parts = (model._dual_coef[second - 1, one], model._dual_coef[first, two])
        yield (
            np.concatenate(parts),
            np.concatenate([by_vector[one], by_vector[two]]),
            counts[first] + counts[second],
        )
