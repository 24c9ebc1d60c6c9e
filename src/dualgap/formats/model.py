"""Fitted estimators in files: what predicts is stored as arrays, what explains as text, and no code at all.

The file has the layout of `dualgap.formats.tensors`. Its arrays are::

    support, n_support      rows of the training data that are support vectors; how many (a class)
    support_vectors         these rows; .data, .indices and .indptr where they are sparse
    dual_coef, intercept    coefficients and thresholds, as scikit-learn lays them out
    classes, class_weight   of a classifier (labels that are text are in the metadata)
    offset, radius, epsilon where the estimator has them
    certificates            a row a binary task: primal, dual, gap, relative gap, KKT violation, infeasibility
    history_counts, history_values, history_lengths    the events of all tasks, one after the other
    n_iter                  iterations of each task

and its metadata are the names of the format and of the estimator, and JSON: ``params``, ``kernel``, ``fit``.
Loading makes one of our six estimators or raises `ModelFileError`, whatever the file holds.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import astuple, fields
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp

import dualgap
from dualgap.certificate import combine
from dualgap.estimators import SVC, SVDD, SVR, NuSVC, NuSVR, OneClassSVM
from dualgap.formats.tensors import ModelFileError, read_tensors, write_tensors
from dualgap.kernels.functions import NAMES, Kernel
from dualgap.result import Certificate, Event, History, Status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

FORMAT: Final = "dualgap model"
VERSION: Final = 1

_ESTIMATORS: Final[dict[str, Any]] = {cls.__name__: cls for cls in (SVC, NuSVC, SVR, NuSVR, OneClassSVM, SVDD)}
_CLASSIFIERS: Final = (SVC, NuSVC)
# Parameters that are functions, and what to do instead of storing one.
_CODE: Final = {
    "kernel": "use a kernel by name or a precomputed matrix, or pickle the estimator",
    "parametric": "fit without it, or pickle the estimator",
}
# Never stored: a callback watches a fit that is over.
_DROPPED: Final = frozenset({"callback", "parametric"})
# Labels that are numbers are stored in the widest type of their kind and come back in their own.
_LABEL_STORAGE: Final = {"b": np.bool_, "i": np.int64, "u": np.int64, "f": np.float64}
_LABEL_TYPES: Final = frozenset(
    {"bool", "float16", "float32", "float64"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
_CSR: Final = {"csr_matrix": sp.csr_matrix, "csr_array": sp.csr_array}
# Powers beyond this are 0, 1 or infinite for all but a few floats, and numpy takes no integer above 64 bits.
_MAX_DEGREE: Final = 10**6
# `Event` is written with postponed annotations, so the types of its fields are text.
_COUNTS: Final = tuple(f.name for f in fields(Event) if f.type == "int")
_VALUES: Final = tuple(f.name for f in fields(Event) if f.type == "float")
_EVENT_ORDER: Final = tuple(f.name for f in fields(Event))
# The last field of a certificate, its note, is text.
_CERTIFICATE_NUMBERS: Final = len(fields(Certificate)) - 1
# A message from elsewhere that quotes a hostile value is cut to about a line.
_EXCERPT: Final = 160


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator to a file, all at once.

    Parameters
    ----------
    estimator : SVC, NuSVC, SVR, NuSVR, OneClassSVM or SVDD
        Fitted. A `callback` is not stored.
    path : path-like
        The file, in a directory that exists; replaced when the new one is complete.

    Raises
    ------
    ValueError
        Where the estimator is not fitted, or holds what no file without code can: a function as `kernel` or
        as `parametric`. The message names the parameter and the remedy.
    OSError
        Where the system cannot write there.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from dualgap import SVR, load, save
    >>> X = np.linspace(0, 1, 20).reshape(-1, 1)
    >>> model = SVR(gap_tol=1e-6).fit(X, X.ravel() ** 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "square.dualgap")
    ...     save(model, path)
    ...     same = load(path)
    >>> bool(np.all(same.predict(X) == model.predict(X))), same.certificate_ == model.certificate_
    (True, True)
    """
    name = type(estimator).__name__
    if _ESTIMATORS.get(name) is not type(estimator):
        raise ValueError(f"a model file holds one of {', '.join(_ESTIMATORS)}; got {name}.")
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(estimator)
    params, kernel = _encode_params(estimator), _encode_kernel(estimator)
    arrays, fit = _encode_fit(estimator)
    metadata = {
        "format": FORMAT,
        "version": str(VERSION),
        "writer": f"dualgap {dualgap.__version__}",
        "estimator": name,
        "params": json.dumps(params),
        "kernel": json.dumps(kernel),
        "fit": json.dumps(fit),
    }
    write_tensors(path, arrays, metadata)


def load(path: str | os.PathLike[str]) -> Any:
    """Read a fitted estimator from a file of any origin.

    Parameters
    ----------
    path : path-like
        A file that `save` has written.

    Returns
    -------
    SVC, NuSVC, SVR, NuSVR, OneClassSVM or SVDD
        Predictions, certificates and history are those of the estimator that was saved, bit for bit.

    Raises
    ------
    ModelFileError
        A ValueError: the file is truncated, damaged, or no model of ours.
    OSError
        Where the system cannot read it.
    """
    arrays, metadata = read_tensors(path)
    try:
        return _restore(_Content(arrays, metadata))
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)}: {error}; save or copy the model again") from error


# -- writing -------------------------------------------------------------------------------------------------


def _encode_params(estimator: Any) -> dict[str, Any]:
    """Constructor parameters as JSON can hold them."""
    stored = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in _CODE and not (value is None or isinstance(value, str)):
            raise ValueError(
                f"{name}={value!r} is code, which a model file does not hold; {_CODE[name]} (joblib.dump)."
            )
        if name in _DROPPED:
            continue
        if name == "class_weight" and isinstance(value, dict):
            # JSON has text alone for keys, and labels may be numbers.
            value = [[_plain(name, label), _plain(name, weight)] for label, weight in value.items()]
        elif name == "random_state" and not isinstance(value, int | np.integer):
            value = None  # a generator's state decides nothing: fits are deterministic
        stored[name] = _plain(name, value)
    return stored


def _plain(name: str, value: Any) -> Any:
    """The value in the types of JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: _plain(name, each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(name, each) for each in value]
    raise ValueError(
        f"{name} holds {value!r}, of type {type(value).__name__}, which a model file cannot store; "
        f"use numbers, text, lists or dictionaries of these, or pickle the estimator (joblib.dump)."
    )


def _encode_kernel(estimator: Any) -> dict[str, Any]:
    """The kernel as it was fitted, its gamma a number."""
    kernel = estimator._kernel
    if estimator.kernel != kernel.name:
        raise ValueError(f"kernel={estimator.kernel!r} was set after the fit with {kernel.name!r}; fit it again first.")
    return {key: _plain(key, getattr(kernel, key)) for key in ("name", "gamma", "coef0", "degree")}


def _encode_fit(estimator: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """All arrays, and what else describes the fit."""
    arrays, layout = _encode_vectors(estimator)
    arrays |= _encode_solution(estimator) | _encode_story(estimator)
    fit = {
        "solver": estimator.solver_,
        "status": estimator.status_.name,
        "shape": [int(length) for length in estimator.shape_fit_],
        "features": int(estimator.n_features_in_),
        "names": _names(estimator),
        "vectors": layout,
        "notes": [certificate.note for certificate in estimator.certificates_],
    }
    if isinstance(estimator, _CLASSIFIERS):
        fit["classes"], labels = _encode_classes(estimator.classes_)
        arrays |= labels | {"class_weight": np.asarray(estimator.class_weight_, dtype=np.float64)}
    if isinstance(estimator, SVDD):
        fit["constant_diagonal"] = estimator._constant_diagonal
    return arrays, fit


def _names(estimator: Any) -> list[str] | None:
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else [str(name) for name in names]


def _encode_vectors(estimator: Any) -> tuple[dict[str, NDArray[Any]], str]:
    """Support vectors, and how they are laid out."""
    vectors = estimator.support_vectors_
    if not sp.issparse(vectors):
        return {"support_vectors": vectors}, "dense"
    parts = {part: getattr(vectors, part) for part in ("data", "indices", "indptr")}
    layout = "csr_array" if isinstance(vectors, sp.sparray) else "csr_matrix"
    return {f"support_vectors.{part}": array for part, array in parts.items()}, layout


def _encode_solution(estimator: Any) -> dict[str, NDArray[Any]]:
    scalars = {"offset": "offset_", "radius": "radius_", "epsilon": "epsilon_"}
    found = {
        name: np.asarray(getattr(estimator, attribute), dtype=np.float64).reshape(1)
        for name, attribute in scalars.items()
        if hasattr(estimator, attribute)
    }
    return {
        "support": estimator.support_,
        "n_support": np.asarray(estimator.n_support_, dtype=np.int32),
        "dual_coef": estimator._dual_coef,
        "intercept": estimator.intercept_,
        **found,
    }


def _encode_story(estimator: Any) -> dict[str, NDArray[Any]]:
    """Certificates and history: arrays and not text, because long runs have thousands of events."""
    histories = [estimator.history_] if isinstance(estimator.history_, History) else estimator.history_
    events = [event for history in histories for event in history.events]
    certificates = [astuple(certificate)[:_CERTIFICATE_NUMBERS] for certificate in estimator.certificates_]
    return {
        "n_iter": np.atleast_1d(np.asarray(estimator.n_iter_, dtype=np.int64)),
        "certificates": np.array(certificates, dtype=np.float64),
        "history_lengths": np.array([len(history) for history in histories], dtype=np.int64),
        "history_counts": _columns(events, _COUNTS, np.int64),
        "history_values": _columns(events, _VALUES, np.float64),
    }


def _columns(events: list[Event], names: tuple[str, ...], dtype: Any) -> NDArray[Any]:
    rows = [[getattr(event, name) for name in names] for event in events]
    return np.array(rows, dtype=dtype).reshape(len(events), len(names))


def _encode_classes(classes: NDArray[Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Labels: text in the metadata, numbers as an array."""
    kind = classes.dtype.kind
    if kind in "UO" and all(isinstance(label, str) for label in classes):
        return {"type": "str" if kind == "U" else "object", "labels": classes.tolist()}, {}
    if classes.dtype.name in _LABEL_TYPES:
        stored: NDArray[Any] = classes.astype(_LABEL_STORAGE[kind])
        # The largest unsigned integers would come back right, but read as negative by everyone else.
        if np.array_equal(stored.astype(classes.dtype), classes) and (kind != "u" or stored.min() >= 0):
            return {"type": classes.dtype.name}, {"classes": stored}
    raise ValueError(
        f"classes of dtype {classes.dtype} cannot be stored in a model file; fit with labels that are text, "
        f"integers of up to 63 bits or floats."
    )


# -- reading -------------------------------------------------------------------------------------------------


class _Content:
    """Arrays and text of a file, handed out once each and checked on the way."""

    def __init__(self, arrays: dict[str, NDArray[Any]], metadata: dict[str, str]) -> None:
        self.arrays, self.metadata = arrays, metadata

    def text(self, name: str) -> str:
        if name not in self.metadata:
            raise ModelFileError(f"has no {name!r} in its metadata: not a dualgap model")
        return self.metadata[name]

    def json(self, name: str) -> dict[str, Any]:
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
        if self.arrays:
            raise ModelFileError(f"array {min(self.arrays)!a:.24} belongs to no {self.text('estimator')}")


def _restore(content: _Content) -> Any:
    """The estimator that `content` describes."""
    _check_format(content)
    name = content.text("estimator")
    if name not in _ESTIMATORS:
        raise ModelFileError(f"estimator {name!a:.24} is not one of {', '.join(_ESTIMATORS)}")
    estimator = _decode_params(_ESTIMATORS[name], content.json("params"))
    estimator._kernel = _decode_kernel(content.json("kernel"), estimator)
    estimator._gamma = estimator._kernel.gamma
    fit = content.json("fit")
    _decode_shape(estimator, fit)
    tasks = 1
    if isinstance(estimator, _CLASSIFIERS):
        tasks = _decode_classes(estimator, content, fit)
    _decode_support(estimator, content, fit)
    _decode_solution(estimator, content, tasks)
    if isinstance(estimator, SVDD):
        estimator._constant_diagonal = _optional_number(fit.get("constant_diagonal"), "constant_diagonal")
    _decode_story(estimator, content, fit, tasks)
    content.finish()
    return estimator


def _check_format(content: _Content) -> None:
    if content.text("format") != FORMAT:
        raise ModelFileError("the format it names is another than that of dualgap models")
    version = content.text("version")
    if version != str(VERSION):
        raise ModelFileError(f"written in version {version!a:.12} of the format, not {VERSION}; use another dualgap")


def _brief(error: Exception) -> str:
    return " ".join(str(error).split())[:_EXCERPT]


def _decode_params(cls: Any, params: dict[str, Any]) -> Any:
    """An unfitted estimator whose own validation accepts the parameters."""
    if _DROPPED & params.keys():
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
    if gamma < 0 or not 0 <= degree <= _MAX_DEGREE:
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


def _decode_classes(estimator: Any, content: _Content, fit: dict[str, Any]) -> int:
    """Set the classes; return the number of binary tasks they make."""
    stored = fit.get("classes")
    kind = stored.get("type") if isinstance(stored, dict) else None
    if kind in ("str", "object"):
        labels = _texts(stored.get("labels"), "labels")  # type: ignore[union-attr]
        if labels != sorted(set(labels)):
            raise ModelFileError("the class labels are not in order")
        classes = np.array(labels, dtype=object if kind == "object" else np.str_)
    elif isinstance(kind, str) and kind in _LABEL_TYPES:
        classes = _decode_numeric_labels(content, np.dtype(kind))
    else:
        raise ModelFileError("the type of the class labels is unknown")
    count = len(classes)
    if count < 2:
        raise ModelFileError(f"a classifier of {count} classes")
    estimator.classes_ = classes
    estimator.class_weight_ = content.numbers("class_weight", (count,))
    return count * (count - 1) // 2


def _decode_numeric_labels(content: _Content, dtype: np.dtype[Any]) -> NDArray[Any]:
    stored = content.array("classes", (_LABEL_STORAGE[dtype.kind],), (None,))
    with np.errstate(all="ignore"):  # what does not survive the conversion is found by comparing
        labels = stored.astype(dtype)
    if not np.array_equal(labels, stored) or not np.array_equal(labels, np.unique(labels)):
        raise ModelFileError("the class labels are not in order")
    return labels


def _decode_support(estimator: Any, content: _Content, fit: dict[str, Any]) -> None:
    estimator.support_ = content.naturals("support", np.int32, (None,), estimator.shape_fit_[0])
    count, layout = len(estimator.support_), fit.get("vectors")
    if not isinstance(layout, str) or not (layout == "dense" or layout in _CSR):
        raise ModelFileError("the layout of the support vectors is unknown")
    estimator._sparse = layout in _CSR
    if estimator.kernel == "precomputed":
        if estimator._sparse:
            raise ModelFileError("a precomputed kernel has no sparse support vectors")
        shape = (0, 0)
    else:
        shape = (count, estimator.n_features_in_)
    if estimator._sparse:
        vectors = _decode_csr(content, _CSR[layout], shape)
    else:
        vectors = content.numbers("support_vectors", shape, (np.float64, np.float32))
    if estimator.kernel == "chi2" and count and vectors.min() < 0:
        raise ModelFileError("support vectors of a chi2 kernel are negative")
    estimator.support_vectors_ = vectors


def _decode_csr(content: _Content, container: Callable[..., Any], shape: tuple[int, int]) -> Any:
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


def _decode_solution(estimator: Any, content: _Content, tasks: int) -> None:
    classifier = isinstance(estimator, _CLASSIFIERS)
    groups = len(estimator.classes_) if classifier else 1
    count = len(estimator.support_)
    n_support = content.naturals("n_support", np.int32, (groups,), count + 1)
    if n_support.sum(dtype=np.int64) != count:
        raise ModelFileError(f"array 'n_support' does not add up to the {count} support vectors")
    if classifier:
        estimator._n_support = n_support
    else:
        estimator.n_support_ = n_support
    estimator._dual_coef = content.numbers("dual_coef", (max(1, groups - 1), count))
    estimator.dual_coef_ = estimator._public(estimator._dual_coef)
    estimator.intercept_ = content.numbers("intercept", (tasks,))
    estimator.parametric_coef_ = np.empty((tasks, 0))
    if isinstance(estimator, OneClassSVM | SVDD):
        estimator.offset_ = content.numbers("offset", (1,))
    if isinstance(estimator, SVDD):
        estimator.radius_ = float(content.numbers("radius", (1,))[0])
    if isinstance(estimator, NuSVR):
        estimator.epsilon_ = float(content.numbers("epsilon", (1,))[0])


def _decode_story(estimator: Any, content: _Content, fit: dict[str, Any], tasks: int) -> None:
    notes = _texts(fit.get("notes"), "notes", tasks)
    rows = content.array("certificates", (np.float64,), (tasks, _CERTIFICATE_NUMBERS)).tolist()
    estimator.certificates_ = [Certificate(*[*row, note]) for row, note in zip(rows, notes, strict=True)]
    estimator.certificate_ = combine(estimator.certificates_)
    histories = _decode_histories(content, tasks)
    estimator.history_ = histories[0] if tasks == 1 else histories
    classifier = isinstance(estimator, _CLASSIFIERS)
    iterations = content.naturals("n_iter", np.int64, (tasks,), 2**31 if classifier else 2**63)
    estimator.n_iter_ = iterations.astype(np.int32) if classifier else int(iterations[0])
    solver, status = fit.get("solver"), fit.get("status")
    if not isinstance(solver, str) or not isinstance(status, str) or status not in Status.__members__:
        raise ModelFileError("solver or status is unknown")
    estimator.solver_ = solver
    estimator.status_ = Status[status]
    estimator.fit_status_ = int(estimator.status_ not in (Status.CONVERGED, Status.STOPPED))


def _decode_histories(content: _Content, tasks: int) -> list[History]:
    counts = content.array("history_counts", (np.int64,), (None, len(_COUNTS)))
    total = len(counts)
    values = content.array("history_values", (np.float64,), (total, len(_VALUES)))
    lengths = content.naturals("history_lengths", np.int64, (tasks,), total + 1)
    if sum(lengths.tolist()) != total:
        raise ModelFileError(f"array 'history_lengths' does not add up to the {total} events")
    columns = dict(zip(_COUNTS + _VALUES, counts.T.tolist() + values.T.tolist(), strict=True))
    events = [Event(*row) for row in zip(*(columns[name] for name in _EVENT_ORDER), strict=True)]
    ends = np.cumsum(lengths).tolist()
    return [History(events[end - length : end]) for end, length in zip(ends, lengths.tolist(), strict=True)]
