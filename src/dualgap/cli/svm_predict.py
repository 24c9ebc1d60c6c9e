"""``dualgap svm-predict``: LIBSVM's svm-predict, its command line, its files and its answers kept."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dualgap.cli.libsvm_options import PREDICT_USAGE, PredictOptions, UsageError, read_predict_options
from dualgap.cli.libsvm_words import accuracy, check_target, put_in_place, regression_scores, run_command

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from dualgap.cli.libsvm_data import Samples


def main(arguments: Sequence[str] | None = None) -> None:
    """Run svm-predict and leave with its exit status: 0, or 1 where anything is wrong."""
    sys.exit(run_command(svm_predict, arguments, PREDICT_USAGE))


def svm_predict(arguments: Sequence[str]) -> None:
    """Read the command line, the model and the samples; predict, write and score."""
    options = read_predict_options(arguments)
    check_target(options.output, "output_file", options.data, options.model)
    from dualgap.formats.libsvm_model import read_libsvm_model

    model = read_libsvm_model(options.model)
    _check_probability(options, model)
    samples, model = _read_samples(options, model)
    predicted, text = _predict(options, model, samples.X)
    put_in_place(options.output, lambda path: _write(path, text))
    if not options.quiet:
        _tell_scores(model, predicted, samples.y)


def _check_probability(options: PredictOptions, model: Any) -> None:
    import numpy as np

    able = np.size(getattr(model, "probA_", ())) > 0
    if options.probability and not able:
        raise UsageError("Model does not support probability estimates")
    if able and not options.probability and not options.quiet:
        print("Model supports probability estimates, but disabled in prediction.")
    if able and options.probability and not hasattr(model, "classes_") and not options.quiet:
        print("Prob. model for test data: target value = predicted value + z,")
        print(f"z: Laplace distribution e^(-|z|/sigma)/(2sigma),sigma={float(model.probA_[0]):g}")


def _read_samples(options: PredictOptions, model: Any) -> tuple[Samples, Any]:
    """Samples as wide as the model, or a model as wide as the samples: a file tells only of the largest index in it."""
    import scipy.sparse as sp

    from dualgap.cli.libsvm_data import Samples, read_kernel_rows, read_vectors
    from dualgap.formats.libsvm_model import read_libsvm_model

    if model.kernel == "precomputed":
        samples = read_kernel_rows(options.data, training=False)
        if samples.X.shape[1] < model.shape_fit_[0]:
            raise ValueError(
                f"{options.data}: has kernel values with {samples.X.shape[1]} samples, where the model needs those "
                f"with {model.shape_fit_[0]}"
            )
    else:
        samples = read_vectors(options.data, training=False)
    width = samples.X.shape[1]
    if width > model.n_features_in_:
        model = read_libsvm_model(options.model, n_features=width)
    elif width < model.n_features_in_:
        X: Any = samples.X
        X = sp.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], model.n_features_in_))
        samples = Samples(X, samples.y)
    return samples, model


def _predict(options: PredictOptions, model: Any, X: Any) -> tuple[NDArray[Any], str]:
    """Labels or values, and the lines of the output file."""
    import numpy as np

    if not options.probability or not hasattr(model, "classes_"):
        predicted = model.predict(X)
        return predicted, "".join(f"{value:.17g}\n" for value in predicted.tolist())
    from dualgap.estimators.calibration import probabilities

    # As LIBSVM does: classes in the order of the model file, of which the likeliest is predicted.
    labels = _file_labels(options.model)
    found = probabilities(model, model._decision_values(X), agree=False)[:, np.searchsorted(model.classes_, labels)]
    predicted = labels[np.argmax(found, axis=1)]
    lines = [f"labels {' '.join(map(str, labels.tolist()))}\n"]
    for label, row in zip(predicted.tolist(), found.tolist(), strict=True):
        lines.append(f"{label:g} {' '.join(f'{value:g}' for value in row)}\n")
    return predicted, "".join(lines)


def _file_labels(path: Path) -> NDArray[np.int64]:
    """The classes in the order of the model file, which has been read before."""
    import numpy as np

    with path.open("rb") as file:
        for line in file:
            if line.startswith(b"label "):
                return np.array(line.split()[1:], dtype=np.int64)
    raise ValueError(f"{path}: has no line of labels")


def _write(path: Path, text: str) -> None:
    from dualgap.atomic import atomic_write

    with atomic_write(path) as file:
        file.write(text.encode("ascii"))


def _tell_scores(model: Any, predicted: NDArray[Any], truth: NDArray[np.float64]) -> None:
    from sklearn.base import is_regressor

    if is_regressor(model):
        error, correlation = regression_scores(predicted, truth)
        print(f"Mean squared error = {error:g} (regression)")
        print(f"Squared correlation coefficient = {correlation:g} (regression)")
    else:
        share, right = accuracy(predicted, truth)
        print(f"Accuracy = {share:g}% ({right}/{len(truth)}) (classification)")
