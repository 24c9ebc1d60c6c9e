"""Arrays and plain text put together to fitted estimators, every doubt being a `ModelFileError`."""

from __future__ import annotations

import json
import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.approximation import Approximation
from dualgap.certificate import combine
from dualgap.estimators import SVDD, NuSVR, OneClassSVM
from dualgap.formats.model_layout import (
    ASSESSED,
    CERTIFICATE_NUMBERS,
    CLASSIFIERS,
    COUNTS,
    CSR,
    DROPPED,
    ESTIMATORS,
    EVENT_ORDER,
    EXCERPT,
    FORMAT,
    LABEL_STORAGE,
    LABEL_TYPES,
    MAX_DEGREE,
    VALUES,
    VERSION,
)
from dualgap.formats.tensors import ModelFileError
from dualgap.kernels.functions import NAMES, Kernel
from dualgap.kernels.lowrank import APPROXIMATIONS
from dualgap.result import Certificate, Event, History, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray


class Content:
    """Arrays and text of a file, handed out once each and checked on the way."""

    def __init__(self, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> None:
        self.arrays, self.metadata = arrays, metadata

    def text(self, name: str) -> str:
        """An entry of the metadata."""
        if name not in self.metadata:
            raise ModelFileError(f"has no {name!r} in its metadata: not a dualgap model")
        return self.metadata[name]

    def json(self, name: str) -> dict[str, Any]:
        """An entry of the metadata that is a JSON object."""
        try:
            value = json.loads(self.text(name))
        except RecursionError as error:
            raise ModelFileError(f"{name} is nested too deeply") from error
        except ModelFileError:
            raise
        except ValueError as error:
            raise ModelFileError(f"{name} is not JSON ({_brief(error)})") from error
        if not isinstance(value, dict):
            raise ModelFileError(f"{name} is not a JSON object")
        return value

    def array(self, name: str, dtypes: Iterable[type], shape: tuple[int | None, ...]) -> NDArray[Any]:
        """The array, of one of the dtypes and of a shape (None stands for any length)."""
        array = self.arrays.pop(name, None)
        if array is None:
            raise ModelFileError(f"array {name!r} is missing")
        if array.dtype not in [np.dtype(dtype) for dtype in dtypes]:
            raise ModelFileError(f"array {name!r} is of dtype {array.dtype}, which it cannot be")
        if array.ndim != len(shape) or any(
            want is not None and want != have for want, have in zip(shape, array.shape, strict=True)
        ):
            wanted = " x ".join("any" if length is None else str(length) for length in shape)
            raise ModelFileError(f"array {name!r} has shape {array.shape} where {wanted} is expected")
        return array

    def numbers(self, name: str, shape: tuple[int | None, ...], dtypes: Iterable[type] = (np.float64,)) -> Any:
        """An array of finite floats."""
        array = self.array(name, dtypes, shape)
        if not np.all(np.isfinite(array)):
            raise ModelFileError(f"array {name!r} holds values that are not finite")
        return array

    def naturals(self, name: str, dtype: type, shape: tuple[int | None, ...], below: int) -> NDArray[Any]:
        """An array of integers from 0 to `below` - 1."""
        array = self.array(name, (dtype,), shape)
        if array.size and (array.min() < 0 or array.max() >= below):
            raise ModelFileError(f"array {name!r} holds values outside 0 to {below - 1}")
        return array

    def finish(self) -> None:
        """Refuse what was not asked for."""
        if self.arrays:
            raise ModelFileError(f"array {min(self.arrays)!a:.24} belongs to no {self.text('estimator')}")


def restore(content: Content) -> Any:
    """The estimator that `content` describes."""
    _check_format(content)
    name = content.text("estimator")
    if name not in ESTIMATORS:
        raise ModelFileError(f"estimator {name!a:.24} is not one of {', '.join(ESTIMATORS)}")
    estimator = _decode_params(ESTIMATORS[name], content.json("params"))
    estimator._kernel = _decode_kernel(content.json("kernel"), estimator)
    estimator._gamma = estimator._kernel.gamma
    fit = content.json("fit")
    _decode_shape(estimator, fit)
    tasks = 1
    if isinstance(estimator, CLASSIFIERS):
        tasks = _decode_classes(estimator, content, fit)
    _decode_support(estimator, content, fit)
    estimator.approximation_ = _decode_approximation(content, fit, len(estimator.support_))
    _decode_solution(estimator, content, tasks)
    if isinstance(estimator, SVDD):
        estimator._constant_diagonal = _optional_number(fit.get("constant_diagonal"), "constant_diagonal")
    _decode_story(estimator, content, fit, tasks)
    content.finish()
    return estimator


def _check_format(content: Content) -> None:
    if content.text("format") != FORMAT:
        raise ModelFileError("the format it names is another than that of dualgap models")
    version = content.text("version")
    if version != str(VERSION):
        raise ModelFileError(f"written in version {version!a:.12} of the format, not {VERSION}; use another dualgap")


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:EXCERPT]


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
        raise ModelFileError(f"params are none of {cls.__name__} ({_brief(error)})") from error
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
    gamma, coef0, degree = (_number(stored.get(key), key) for key in ("gamma", "coef0", "degree"))
    if gamma < 0 or not 0 <= degree <= MAX_DEGREE:
        raise ModelFileError("gamma or degree of the kernel is out of range")
    # The degree as it stands: numpy raises to an integer power in its own way.
    return Kernel(name, gamma=float(gamma), coef0=float(coef0), degree=degree)


def _number(value: Any, name: str) -> Any:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ModelFileError(f"{name} is not a number")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise ModelFileError(f"{name} is not finite")
    return value


def _optional_number(value: Any, name: str) -> float | None:
    return None if value is None else float(_number(value, name))


def _natural(value: Any, name: str) -> int:
    # Lengths of arrays fit in 63 bits; bool is an int to isinstance.
    if type(value) is not int or not 0 <= value < 2**63:
        raise ModelFileError(f"{name} is not a natural number")
    return value


def _texts(value: Any, name: str, count: int | None = None) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ModelFileError(f"{name} is not a list of texts")
    if count is not None and len(value) != count:
        raise ModelFileError(f"{name} has {len(value)} entries where {count} are expected")
    return value


def _decode_shape(estimator: Any, fit: dict[str, Any]) -> None:
    shape = fit.get("shape")
    if not isinstance(shape, list) or len(shape) != 2:
        raise ModelFileError("shape is not that of a table")
    estimator.shape_fit_ = (_natural(shape[0], "shape"), _natural(shape[1], "shape"))
    estimator.n_features_in_ = _natural(fit.get("features"), "features")
    if estimator.n_features_in_ != shape[1] or (estimator.kernel == "precomputed" and shape[0] != shape[1]):
        raise ModelFileError("shape and number of features do not fit together")
    if fit.get("names") is not None:
        names = _texts(fit["names"], "names", estimator.n_features_in_)
        estimator.feature_names_in_ = np.array(names, dtype=object)


def _decode_classes(estimator: Any, content: Content, fit: dict[str, Any]) -> int:
    """Set the classes; return the number of binary tasks they make."""
    stored = fit.get("classes")
    kind = stored.get("type") if isinstance(stored, dict) else None
    if kind in ("str", "object"):
        labels = _texts(stored.get("labels"), "labels")  # type: ignore[union-attr]
        if labels != sorted(set(labels)):
            raise ModelFileError("the class labels are not in order")
        classes = np.array(labels, dtype=object if kind == "object" else np.str_)
    elif isinstance(kind, str) and kind in LABEL_TYPES:
        classes = _decode_numeric_labels(content, np.dtype(kind))
    else:
        raise ModelFileError("the type of the class labels is unknown")
    count = len(classes)
    if count < 2:
        raise ModelFileError(f"a classifier of {count} classes")
    estimator.classes_ = classes
    estimator.class_weight_ = content.numbers("class_weight", (count,))
    estimator._against_rest = count > 2 and getattr(estimator, "multi_class", "ovo") == "ovr"
    return count if estimator._against_rest else count * (count - 1) // 2


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
    estimator.parametric_coef_ = np.empty((tasks, 0))
    if isinstance(estimator, OneClassSVM | SVDD):
        estimator.offset_ = content.numbers("offset", (1,))
    if isinstance(estimator, SVDD):
        estimator.radius_ = float(content.numbers("radius", (1,))[0])
    if isinstance(estimator, NuSVR):
        estimator.epsilon_ = float(content.numbers("epsilon", (1,))[0])


def _decode_story(estimator: Any, content: Content, fit: dict[str, Any], tasks: int) -> None:
    notes = _texts(fit.get("notes"), "notes", tasks)
    rows = content.array("certificates", (np.float64,), (tasks, CERTIFICATE_NUMBERS)).tolist()
    estimator.certificates_ = [Certificate(*[*row, note]) for row, note in zip(rows, notes, strict=True)]
    estimator.certificate_ = combine(estimator.certificates_)
    histories = _decode_histories(content, tasks)
    estimator.history_ = histories[0] if tasks == 1 else histories
    classifier = isinstance(estimator, CLASSIFIERS)
    iterations = content.naturals("n_iter", np.int64, (tasks,), 2**31 if classifier else 2**63)
    estimator.n_iter_ = iterations.astype(np.int32) if classifier else int(iterations[0])
    solver, status = fit.get("solver"), fit.get("status")
    if not isinstance(solver, str) or not isinstance(status, str) or status not in Status.__members__:
        raise ModelFileError("solver or status is unknown")
    estimator.solver_ = solver
    estimator.status_ = Status[status]
    estimator.fit_status_ = int(estimator.status_ not in (Status.CONVERGED, Status.STOPPED))


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
