"""Arrays and plain text put together to fitted estimators, every doubt being a `ModelFileError`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.approximation import Approximation
from dualgap.certificate import combine
from dualgap.estimators import SVC, SVDD, LinearOneClassSVM, LinearSVC, LinearSVDD, LinearSVR, NuSVR, OneClassSVM
from dualgap.formats.model_calibration import decode_calibration
from dualgap.formats.model_content import Content, brief, natural, number, optional_number, texts
from dualgap.formats.model_layout import (
    ASSESSED,
    CERTIFICATE_NUMBERS,
    CLASSIFIERS,
    COUNTS,
    CSR,
    DROPPED,
    ESTIMATORS,
    EVENT_ORDER,
    FORMAT,
    LABEL_STORAGE,
    LABEL_TYPES,
    LINEAR,
    MAX_DEGREE,
    VALUES,
    VERSION,
)
from dualgap.kernels.functions import NAMES, Kernel
from dualgap.kernels.lowrank import APPROXIMATIONS
from dualgap.result import Certificate, Event, History, Status
from dualgap.tensors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def restore(content: Content, parametric: Any = None) -> Any:
    """The estimator that `content` describes, with the functions that its fit had."""
    _check_format(content)
    name = content.text("estimator")
    if name not in ESTIMATORS:
        raise ModelFileError(f"estimator {name!a:.24} is not one of {', '.join(ESTIMATORS)}")
    estimator = _decode_params(ESTIMATORS[name], content.json("params"))
    fit = content.json("fit")
    if isinstance(estimator, LINEAR):
        tasks = _decode_linear(estimator, content, fit)
    else:
        tasks = _decode_kernel_machine(estimator, content, fit)
    _decode_functions(estimator, content, parametric)
    _decode_story(estimator, content, fit, tasks)
    content.finish()
    return estimator


def _decode_kernel_machine(estimator: Any, content: Content, fit: dict[str, Any]) -> int:
    """Set what predicts; return the number of binary tasks."""
    estimator._kernel = _decode_kernel(content.json("kernel"), estimator)
    estimator._gamma = estimator._kernel.gamma
    _decode_shape(estimator, fit)
    tasks = 1
    if isinstance(estimator, CLASSIFIERS):
        tasks = _decode_tasks(estimator, content, fit)
    _decode_support(estimator, content, fit)
    estimator.approximation_ = _decode_approximation(content, fit, len(estimator.support_))
    _decode_solution(estimator, content, tasks)
    decode_calibration(estimator, content, tasks)
    estimator.parametric_coef_ = np.empty((tasks, 0))
    if isinstance(estimator, SVDD):
        estimator._constant_diagonal = optional_number(fit.get("constant_diagonal"), "constant_diagonal")
    return tasks


def _decode_linear(estimator: Any, content: Content, fit: dict[str, Any]) -> int:
    """Set what predicts; return the number of tasks."""
    _decode_features(estimator, fit)
    classifier = isinstance(estimator, LinearSVC)
    classes = _decode_classes(content, fit) if classifier else None
    if classes is not None:
        estimator.classes_ = classes
    rows = len(classes) if classes is not None and len(classes) > 2 else 1
    shape = (estimator.n_features_in_,) if isinstance(estimator, LinearSVR) else (rows, estimator.n_features_in_)
    coef = content.numbers("coef", shape)
    intercept = content.numbers("intercept", (None,))
    if type(fit.get("biased")) is not bool or len(intercept) != (rows if fit["biased"] else 1):
        raise ModelFileError("the biases are not one a task")
    estimator.coef_ = sp.csr_matrix(coef) if fit.get("sparsified") is True and classifier else coef
    estimator.intercept_ = intercept if fit["biased"] else float(intercept[0])
    if isinstance(estimator, LinearOneClassSVM | LinearSVDD):
        estimator.offset_ = content.numbers("offset", (1,))
        if "reach" in fit:
            estimator._made_of = natural(fit.get("made_of"), "made_of")
            estimator._reach = float(number(fit["reach"], "reach"))
    if isinstance(estimator, LinearSVDD):
        estimator.center_ = coef[0] / 2.0  # the weights are twice the centre, exactly
        estimator.radius_ = float(content.numbers("radius", (1,))[0])
    jointly = classifier and estimator.multi_class == "crammer_singer"
    # Machines that take no functions say so for all tasks at once.
    alone = jointly or (classifier and estimator.penalty == "l1")
    estimator.parametric_coef_ = np.empty((1 if alone else rows, 0))
    return 1 if jointly else rows


def _decode_functions(estimator: Any, content: Content, parametric: Any) -> None:
    """Coefficients of semi-parametric functions, and the functions, which the caller has."""
    if "parametric_coef" not in content.arrays:
        if parametric is not None:
            raise ModelFileError("holds a model without parametric functions; load it without parametric")
        return
    rows = len(estimator.parametric_coef_)
    coefficients = content.numbers("parametric_coef", (rows, None))
    if parametric is None:
        raise ModelFileError(
            f"holds a model with {coefficients.shape[1]} parametric functions, and no file holds functions; pass "
            f"those of the fit again, load(path, parametric=...)"
        )
    if not callable(parametric) and len(parametric) != coefficients.shape[1]:
        raise ModelFileError(f"holds a model with {coefficients.shape[1]} parametric functions, not {len(parametric)}")
    estimator.parametric_coef_ = coefficients
    estimator.parametric = parametric


def _check_format(content: Content) -> None:
    if content.text("format") != FORMAT:
        raise ModelFileError("the format it names is another than that of dualgap models")
    version = content.text("version")
    if version != str(VERSION):
        raise ModelFileError(f"written in version {version!a:.12} of the format, not {VERSION}; use another dualgap")


def _decode_params(cls: Any, params: dict[str, Any]) -> Any:
    """An unfitted estimator whose own validation accepts the parameters."""
    if DROPPED & params.keys():
        raise ModelFileError("params hold a function, which no model file does")
    weights = params.get("class_weight")
    if isinstance(weights, list):
        params["class_weight"] = _decode_weights(weights)
    try:
        estimator = cls(**params)
        estimator._validate_params()
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"params are none of {cls.__name__} ({brief(error)})") from error
    return estimator


def _decode_weights(pairs: list[Any]) -> dict[Any, Any]:
    for pair in pairs:
        if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[0], list | dict):
            raise ModelFileError("class_weight is not a list of labels and weights")
    return dict(pairs)


def _decode_kernel(stored: dict[str, Any], estimator: Any) -> Kernel:
    name = stored.get("name")
    if name not in NAMES or name != estimator.kernel:
        raise ModelFileError("the fitted kernel is not the one that params name")
    gamma, coef0, degree = (number(stored.get(key), key) for key in ("gamma", "coef0", "degree"))
    if gamma < 0 or not 0 <= degree <= MAX_DEGREE:
        raise ModelFileError("gamma or degree of the kernel is out of range")
    # The degree as it stands: numpy raises to an integer power in its own way.
    return Kernel(name, gamma=float(gamma), coef0=float(coef0), degree=degree)


def _decode_shape(estimator: Any, fit: dict[str, Any]) -> None:
    shape = fit.get("shape")
    if not isinstance(shape, list) or len(shape) != 2:
        raise ModelFileError("shape is not that of a table")
    estimator.shape_fit_ = (natural(shape[0], "shape"), natural(shape[1], "shape"))
    _decode_features(estimator, fit)
    if estimator.n_features_in_ != shape[1] or (estimator.kernel == "precomputed" and shape[0] != shape[1]):
        raise ModelFileError("shape and number of features do not fit together")


def _decode_features(estimator: Any, fit: dict[str, Any]) -> None:
    estimator.n_features_in_ = natural(fit.get("features"), "features")
    if fit.get("names") is not None:
        names = texts(fit["names"], "names", estimator.n_features_in_)
        estimator.feature_names_in_ = np.array(names, dtype=object)


def _decode_tasks(estimator: Any, content: Content, fit: dict[str, Any]) -> int:
    """Set the classes; return the number of binary tasks they make."""
    estimator.classes_ = _decode_classes(content, fit)
    count = len(estimator.classes_)
    estimator.class_weight_ = content.numbers("class_weight", (count,))
    estimator._tie_order = None
    if "tie_order" in content.arrays:
        order = content.naturals("tie_order", np.int64, (count,), count)
        if len(np.unique(order)) != count:
            raise ModelFileError("array 'tie_order' is no order of the classes")
        estimator._tie_order = order
    estimator._against_rest = count > 2 and isinstance(estimator, SVC) and estimator.multi_class == "ovr"
    return count if estimator._against_rest else count * (count - 1) // 2


def _decode_classes(content: Content, fit: dict[str, Any]) -> NDArray[Any]:
    stored = fit.get("classes")
    kind = stored.get("type") if isinstance(stored, dict) else None
    if kind in ("str", "object"):
        labels = texts(stored.get("labels"), "labels")  # type: ignore[union-attr]
        if labels != sorted(set(labels)):
            raise ModelFileError("the class labels are not in order")
        classes = np.array(labels, dtype=object if kind == "object" else np.str_)
    elif isinstance(kind, str) and kind in LABEL_TYPES:
        classes = _decode_numeric_labels(content, np.dtype(kind))
    else:
        raise ModelFileError("the type of the class labels is unknown")
    if len(classes) < 2:
        raise ModelFileError(f"a classifier of {len(classes)} classes")
    return classes


def _decode_numeric_labels(content: Content, dtype: np.dtype[Any]) -> NDArray[Any]:
    stored = content.array("classes", (LABEL_STORAGE[dtype.kind],), (None,))
    with np.errstate(all="ignore"):  # what does not survive the conversion is found by comparing
        labels = stored.astype(dtype)
    if not np.array_equal(labels, stored) or not np.array_equal(labels, np.unique(labels)):
        raise ModelFileError("the class labels are not in order")
    return labels


def _decode_support(estimator: Any, content: Content, fit: dict[str, Any]) -> None:
    estimator.support_ = content.naturals("support", np.int32, (None,), estimator.shape_fit_[0])
    count, layout = len(estimator.support_), fit.get("vectors")
    if not isinstance(layout, str) or not (layout == "dense" or layout in CSR):
        raise ModelFileError("the layout of the support vectors is unknown")
    estimator._sparse = layout in CSR
    if estimator.kernel == "precomputed":
        if estimator._sparse:
            raise ModelFileError("a precomputed kernel has no sparse support vectors")
        shape = (0, 0)
    else:
        shape = (count, estimator.n_features_in_)
    if estimator._sparse:
        vectors = _decode_csr(content, CSR[layout], shape)
    else:
        vectors = content.numbers("support_vectors", shape, (np.float64, np.float32))
    if estimator.kernel == "chi2" and count and vectors.min() < 0:
        raise ModelFileError("support vectors of a chi2 kernel are negative")
    estimator.support_vectors_ = vectors


def _decode_csr(content: Content, container: Callable[..., Any], shape: tuple[int, int]) -> Any:
    rows, width = shape
    data = content.numbers("support_vectors.data", (None,), (np.float64, np.float32))
    wide = content.arrays.get("support_vectors.indices")
    dtype = np.int64 if wide is not None and wide.dtype == np.int64 else np.int32
    if width > np.iinfo(dtype).max:
        raise ModelFileError(f"{width} features are more than the indices can count")
    indices = content.naturals("support_vectors.indices", dtype, (len(data),), width)
    indptr = content.naturals("support_vectors.indptr", dtype, (rows + 1,), len(data) + 1)
    # scipy trusts these when it multiplies, and would read outside the arrays.
    if indptr[0] != 0 or indptr[-1] != len(data) or np.any(np.diff(indptr) < 0):
        raise ModelFileError("array 'support_vectors.indptr' does not cut the entries into rows")
    return container((data, indices, indptr), shape=shape)


def _decode_approximation(content: Content, fit: dict[str, Any], count: int) -> Approximation | None:
    stored = fit.get("approximation")
    if stored is None:
        return None
    if not isinstance(stored, dict) or stored.get("method") not in tuple(APPROXIMATIONS):
        raise ModelFileError("the approximation is of no known method")
    if stored.get("rank") != count or type(stored.get("exact")) is not bool or not isinstance(stored.get("note"), str):
        raise ModelFileError("the approximation is not that of the support vectors")
    numbers = content.array("approximation", (np.float64,), (len(ASSESSED),)).tolist()
    found = dict(zip(ASSESSED, numbers, strict=True))
    return Approximation(stored["method"], count, exact=stored["exact"], note=stored["note"], **found)


def _decode_solution(estimator: Any, content: Content, tasks: int) -> None:
    classifier = isinstance(estimator, CLASSIFIERS)
    groups = len(estimator.classes_) if classifier else 1
    count = len(estimator.support_)
    n_support = content.naturals("n_support", np.int32, (groups,), count + 1)
    if n_support.sum(dtype=np.int64) != count:
        raise ModelFileError(f"array 'n_support' does not add up to the {count} support vectors")
    estimator.n_support_ = n_support
    # Over a basis each pair of classes has coefficients for all of it, and so has a class against the rest.
    together = classifier and estimator.approximation_ is None and not estimator._against_rest
    rows = max(1, groups - 1) if together or not classifier else tasks
    estimator._dual_coef = content.numbers("dual_coef", (rows, count))
    estimator.dual_coef_ = estimator._public(estimator._dual_coef)
    estimator.intercept_ = content.numbers("intercept", (tasks,))
    if isinstance(estimator, OneClassSVM | SVDD):
        estimator.offset_ = content.numbers("offset", (1,))
    if isinstance(estimator, SVDD):
        estimator.radius_ = float(content.numbers("radius", (1,))[0])
    if isinstance(estimator, NuSVR) and "epsilon" in content.arrays:  # other libraries do not tell
        estimator.epsilon_ = float(content.numbers("epsilon", (1,))[0])


def _decode_story(estimator: Any, content: Content, fit: dict[str, Any], tasks: int) -> None:
    notes = texts(fit.get("notes"), "notes", tasks)
    rows = content.array("certificates", (np.float64,), (tasks, CERTIFICATE_NUMBERS)).tolist()
    estimator.certificates_ = [Certificate(*[*row, note]) for row, note in zip(rows, notes, strict=True)]
    estimator.certificate_ = combine(estimator.certificates_)
    histories = _decode_histories(content, tasks)
    estimator.history_ = histories[0] if tasks == 1 else histories
    classifier = isinstance(estimator, CLASSIFIERS)
    iterations = content.naturals("n_iter", np.int64, (tasks if classifier else 1,), 2**31 if classifier else 2**63)
    estimator.n_iter_ = iterations.astype(np.int32) if classifier else int(iterations[0])
    solver, status = fit.get("solver"), fit.get("status")
    if not isinstance(solver, str) or (status is not None and status not in tuple(Status.__members__)):
        raise ModelFileError("solver or status is unknown")
    estimator.solver_ = solver
    # A model that another library has trained has none.
    estimator.status_ = None if status is None else Status[status]
    estimator.fit_status_ = int(estimator.status_ not in (Status.CONVERGED, Status.STOPPED, None))


def _decode_histories(content: Content, tasks: int) -> list[History]:
    counts = content.array("history_counts", (np.int64,), (None, len(COUNTS)))
    total = len(counts)
    values = content.array("history_values", (np.float64,), (total, len(VALUES)))
    lengths = content.naturals("history_lengths", np.int64, (tasks,), total + 1)
    if sum(lengths.tolist()) != total:
        raise ModelFileError(f"array 'history_lengths' does not add up to the {total} events")
    columns = dict(zip(COUNTS + VALUES, counts.T.tolist() + values.T.tolist(), strict=True))
    events = [Event(*row) for row in zip(*(columns[name] for name in EVENT_ORDER), strict=True)]
    ends = np.cumsum(lengths).tolist()
    return [History(events[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
