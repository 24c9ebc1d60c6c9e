"""Models in LIBSVM's text format, to and from `svm-train` and `svm-predict`.

A file has lines of a name and values, and then a line for each support vector::

    svm_type c_svc          or nu_svc, one_class, epsilon_svr, nu_svr
    kernel_type rbf         or linear, polynomial, sigmoid, precomputed
    degree, gamma, coef0    where the kernel has them
    nr_class 3              2 where there are no classes
    total_sv 5
    rho 0.1 0.2 0.3         one a pair of classes: what is taken off the sum of kernel values
    label 1 2 3             the classes, in the order that pairs and support vectors have
    probA, probB            of Platt's sigmoids, one a pair (of regression: the scale of the noise)
    nr_sv 2 2 1             support vectors of each class
    SV
    0.5 -1 1:0.25 7:2       nr_class - 1 coefficients, and the vector; 0:7 is row 7 of a precomputed kernel

LIBSVM says that a pair's first class wins where the sum is positive. For two classes scikit-learn, and this package,
say so of the second: the file then has the second class first, so that even a sum of zero gives the same label. With
more classes equal votes go to the class that the file names first, which a model that was read remembers.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dualgap.atomic import atomic_write
from dualgap.estimators import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from dualgap.estimators.foreign import adopt_expansion
from dualgap.formats._libsvm_classes import reorder_machine, reorder_sigmoids
from dualgap.formats._libsvm_vectors import read_vectors, vector_texts
from dualgap.formats.model_text import Header, integer_labels, number_text, read_model_text, row_text
from dualgap.tensors import ModelFileError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TYPES: Final[dict[str, Any]] = {
    "c_svc": SVC,
    "nu_svc": NuSVC,
    "one_class": OneClassSVM,
    "epsilon_svr": SVR,
    "nu_svr": NuSVR,
}
_KERNELS: Final = {
    "linear": "linear",
    "polynomial": "poly",
    "rbf": "rbf",
    "sigmoid": "sigmoid",
    "precomputed": "precomputed",
}
# The parameters that each kernel has, in the order of the file.
_PARAMETERS: Final = {"poly": ("degree", "gamma", "coef0"), "rbf": ("gamma",), "sigmoid": ("gamma", "coef0")}
_SIGMOIDS: Final = ("probA", "probB", "prob_density_marks")
_LINES: Final = (
    *("svm_type", "kernel_type", "degree", "gamma", "coef0", "nr_class", "total_sv"),
    *("rho", "label", *_SIGMOIDS, "nr_sv"),
)
# Powers beyond this are 0, 1 or infinite for all but a few floats.
_MAX_DEGREE: Final = 10**6


def write_libsvm_model(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator as a model file of LIBSVM, all at once.

    `svm-predict` then gives the labels and values that the estimator gives. Numbers are written so that the same
    float64 come back.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Fitted, with a kernel that LIBSVM has. Parameters of Platt's sigmoids (`probA_`, `probB_`) are written where it
        has them.
    path : path-like
        The file, in a directory that exists; replaced when the new one is complete.

    Raises
    ------
    ValueError
        Where it is not fitted, or LIBSVM has no such model: labels that are not integers, other kernels, classes
        against the rest. The message names the remedy.
    OSError
        Where the system cannot write there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from dualgap import SVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.model")
    ...     write_libsvm_model(model, path)
    ...     same = read_libsvm_model(path)
    >>> bool((same.predict(X) == model.predict(X)).all())
    True
    """
    from sklearn.utils.validation import check_is_fitted

    kind = _kind(estimator)
    check_is_fitted(estimator)
    _check_model(estimator)
    kernel = estimator._kernel
    lines = [f"svm_type {kind}"]
    lines.append(f"kernel_type {next(name for name, ours in _KERNELS.items() if ours == kernel.name)}")
    for name in _PARAMETERS.get(kernel.name, ()):
        lines.append(f"{name} {number_text(getattr(kernel, name))}")
    order, coefficients, more = _arrangement(estimator)
    vectors = vector_texts(estimator, order)
    rows = [row_text(column) for column in coefficients.T.tolist()]
    lines += [*more, "SV", *(f"{row} {vector}".rstrip() for row, vector in zip(rows, vectors, strict=True))]
    with atomic_write(path) as file:
        file.write(("\n".join(lines) + "\n").encode("ascii"))


def read_libsvm_model(path: str | os.PathLike[str], *, n_features: int | None = None) -> Any:
    """Read a model file of LIBSVM as a fitted estimator.

    Parameters
    ----------
    path : path-like
        Written by `svm-train`, by `write_libsvm_model`, or of any other origin: nothing in it is believed.
    n_features : int, optional
        Features of the samples to predict (training samples, for a precomputed kernel). The file does not tell, and
        without this it is the largest that a support vector has.

    Returns
    -------
    SVC, NuSVC, SVR, NuSVR or OneClassSVM
        Predicts as `svm-predict` does. Classes are int64, in order. `support_` counts the support vectors as the file
        lists them, class by class; `certificate_` says that there is none; C, nu and epsilon are not in the file and
        have their defaults.

    Raises
    ------
    ModelFileError
        A ValueError: the file is truncated, damaged, or no such model.
    OSError
        Where the system cannot read it.
    """
    content = read_model_text(path)
    try:
        return _restore(Header(content, _LINES, b"SV", "LIBSVM"), n_features)
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}; write or copy the model again") from error


# -- writing -----------------------------------------------------------------------------------------------------


def _kind(estimator: Any) -> str:
    for kind, cls in _TYPES.items():
        if type(estimator) is cls:
            return kind
    names = ", ".join(cls.__name__ for cls in _TYPES.values())
    raise ValueError(
        f"a LIBSVM model is one of {names}; got {type(estimator).__name__}: use write_liblinear_model for a linear "
        f"machine, or dualgap.save."
    )


def _check_model(estimator: Any) -> None:
    kernel = estimator._kernel.name
    if kernel not in _KERNELS.values():
        raise ValueError(
            f"LIBSVM has no kernel {kernel!r}; use kernel='precomputed', or store the model with dualgap.save or "
            f"to_onnx."
        )
    if estimator.parametric_coef_.shape[1]:
        raise ValueError("LIBSVM has no semi-parametric functions; fit without parametric.")
    if not hasattr(estimator, "classes_") or len(estimator.classes_) == 2:
        return
    if estimator._against_rest or estimator.approximation_ is not None:
        raise ValueError(
            "LIBSVM tells classes apart one against one, each pair by its own support vectors; fit with "
            "multi_class='ovo' and approximation=None, or store the model with dualgap.save or to_onnx."
        )


def _arrangement(estimator: Any) -> tuple[NDArray[np.intp], NDArray[np.float64], list[str]]:
    """Order of the support vectors, their coefficients in that order, and lines that depend on the classes."""
    total = estimator.support_.size
    if not hasattr(estimator, "classes_"):
        lines = ["nr_class 2", f"total_sv {total}", f"rho {row_text(-estimator.intercept_)}"]
        return np.arange(total), estimator._dual_coef, [*lines, *_sigmoids(estimator, None)]
    labels = integer_labels(estimator.classes_, "LIBSVM")
    counts = estimator.n_support_.tolist()
    order = _file_order(estimator)
    sign = -1.0 if len(labels) == 2 else 1.0
    coefficients, biases, rows = reorder_machine(
        sign * estimator._dual_coef, sign * estimator.intercept_, counts, order
    )
    lines = [
        f"nr_class {len(labels)}",
        f"total_sv {total}",
        f"rho {row_text(-biases)}",
        "label " + " ".join(str(labels[place]) for place in order),
        *_sigmoids(estimator, order),
        "nr_sv " + " ".join(str(counts[place]) for place in order),
    ]
    return rows, coefficients, lines


def _file_order(estimator: Any) -> NDArray[np.intp]:
    """Places of the classes, in the order that gives the labels of `predict` even where votes are equal."""
    if len(estimator.classes_) == 2:
        return np.array([1, 0])
    return np.arange(len(estimator.classes_)) if estimator._tie_order is None else estimator._tie_order


def _sigmoids(estimator: Any, order: NDArray[np.intp] | None) -> list[str]:
    """Parameters of Platt's sigmoids, where there are any; as in scikit-learn ours are of classes in order."""
    found = {name: np.asarray(getattr(estimator, f"{name}_", ()), dtype=np.float64) for name in _SIGMOIDS}
    if order is not None and found["probA"].size:
        found["probA"], found["probB"] = reorder_sigmoids(found["probA"], found["probB"], order)
    return [f"{name} {row_text(values)}" for name, values in found.items() if values.size]


# -- reading -----------------------------------------------------------------------------------------------------


def _restore(header: Header, n_features: int | None) -> Any:
    cls = _TYPES[header.choice("svm_type", _TYPES)]
    kernel = _KERNELS[header.choice("kernel_type", _KERNELS)]
    parameters, gamma = _kernel_parameters(header, kernel)
    if "probB" in header and "probability" in cls._get_param_names():
        parameters["probability"] = True
    classifier = cls in (SVC, NuSVC)
    count = header.natural("nr_class")
    if count < 2 or (count > 2 and not classifier):
        raise ModelFileError(f"nr_class is {count}, which this kind of model cannot have")
    # As many values as there are pairs must be in the file: a count that is too large ends here.
    rho = header.numbers("rho", count * (count - 1) // 2)
    total = header.natural("total_sv")
    labels = header.labels(count) if classifier else []
    counts = header.integers("nr_sv", count) if classifier else [total]
    if min(counts) < 0 or sum(counts) != total:
        raise ModelFileError(f"nr_sv does not add up to the {total} support vectors")
    coefficients, vectors, support = read_vectors(header, total, count - 1, kernel, n_features)
    biases, order, classes = -rho, None, None
    if classifier:
        order = np.argsort(labels)
        coefficients, biases, rows = reorder_machine(coefficients, biases, counts, order)
        if count == 2:  # ours is positive for the second class
            coefficients, biases = -coefficients, -biases
        classes, counts = np.array(labels, dtype=np.int64)[order], [counts[place] for place in order]
        if kernel == "precomputed":
            support = support[rows]
        else:
            vectors = vectors[rows]
    samples, width = total, vectors.shape[1]
    if kernel == "precomputed":
        samples = width = max(int(support.max(initial=-1)) + 1, n_features or 0)
    estimator = adopt_expansion(
        cls(kernel=kernel, gamma=gamma, **parameters),
        gamma=0.0 if kernel == "precomputed" else gamma,
        vectors=vectors,
        support=support,
        coefficients=coefficients,
        intercept=biases,
        n_support=np.array(counts),
        shape=(samples, width),
        origin="libsvm",
        classes=classes,
    )
    if order is not None and count > 2:
        estimator._tie_order = np.argsort(order)  # the first of the file wins where votes are equal
    _keep_sigmoids(estimator, header, order)
    return estimator


def _kernel_parameters(header: Header, kernel: str) -> tuple[dict[str, Any], float]:
    """Degree and coef0 as the estimator takes them, and gamma."""
    found = {name: header.number(name) for name in _PARAMETERS.get(kernel, ())}
    gamma = found.pop("gamma", 1.0)
    degree = found.get("degree", 3.0)
    if gamma < 0 or not 0 <= degree <= _MAX_DEGREE or not degree.is_integer():
        raise ModelFileError("gamma or degree of the kernel is out of range")
    return found | ({"degree": int(degree)} if "degree" in found else {}), gamma


def _keep_sigmoids(estimator: Any, header: Header, order: NDArray[np.intp] | None) -> None:
    """Keep what the file says of probabilities."""
    pairs = len(estimator.intercept_)
    found = {
        name: header.numbers(name, None if name == "prob_density_marks" else pairs)
        for name in _SIGMOIDS
        if name in header
    }
    if order is not None and found:
        if found.keys() != {"probA", "probB"}:
            raise ModelFileError("has probA without probB, or the reverse")
        found["probA"], found["probB"] = reorder_sigmoids(found["probA"], found["probB"], order)
    for name, values in found.items():
        setattr(estimator, f"{name}_", values)
