"""Fitted estimators taken apart into arrays and plain text, for `dualgap.formats.model`."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dualgap.estimators import SVC, SVDD
from dualgap.formats.model_calibration import encode_calibration
from dualgap.formats.model_layout import (
    ASSESSED,
    CERTIFICATE_NUMBERS,
    CLASSIFIERS,
    COUNTS,
    DROPPED,
    LABEL_STORAGE,
    LABEL_TYPES,
    LINEAR,
    VALUES,
)
from dualgap.result import Event, History

if TYPE_CHECKING:
    from numpy.typing import NDArray


def encode_params(estimator: Any) -> dict[str, Any]:
    """Constructor parameters as JSON can hold them."""
    stored = {}
    asked = isinstance(estimator, SVC) and estimator.multi_class == "ovr" and len(estimator.classes_) > 2
    if asked != getattr(estimator, "_against_rest", False):
        raise ValueError(
            f"multi_class={estimator.multi_class!r} was set after the fit with another; fit it again first."
        )
    _refuse_code(estimator)
    for name, value in estimator.get_params(deep=False).items():
        if name in DROPPED:
            continue
        if name == "class_weight" and isinstance(value, dict):
            # JSON has text alone for keys, and labels may be numbers.
            value = [[_plain(name, label), _plain(name, weight)] for label, weight in value.items()]
        elif name == "random_state" and not isinstance(value, int | np.integer):
            value = None  # a generator's state decides nothing: fits are deterministic
        stored[name] = _plain(name, value)
    return stored


def _refuse_code(estimator: Any) -> None:
    kernel = getattr(estimator, "kernel", "linear")
    if not isinstance(kernel, str):
        raise ValueError(
            f"kernel={kernel!r} is code, which a model file does not hold; use a kernel by name or a precomputed "
            f"matrix, or pickle the estimator (joblib.dump)."
        )
    if (estimator.parametric is None) != (estimator.parametric_coef_.shape[1] == 0):
        raise ValueError(
            f"parametric={estimator.parametric!r} was set after a fit with other functions; fit it again first."
        )


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


def encode_kernel(estimator: Any) -> dict[str, Any]:
    """The kernel as it was fitted, its gamma a number."""
    kernel = estimator._kernel
    if estimator.kernel != kernel.name:
        raise ValueError(f"kernel={estimator.kernel!r} was set after the fit with {kernel.name!r}; fit it again first.")
    return {key: _plain(key, getattr(kernel, key)) for key in ("name", "gamma", "coef0", "degree")}


def encode_fit(estimator: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """All arrays, and what else describes the fit."""
    fit = {
        "solver": estimator.solver_,
        "status": None if estimator.status_ is None else estimator.status_.name,
        "features": int(estimator.n_features_in_),
        "names": _names(estimator),
        "notes": [certificate.note for certificate in estimator.certificates_],
    }
    arrays = _encode_story(estimator)
    if estimator.parametric_coef_.shape[1]:
        arrays["parametric_coef"] = np.asarray(estimator.parametric_coef_, dtype=np.float64)
    if hasattr(estimator, "classes_"):
        fit["classes"], labels = _encode_classes(estimator.classes_)
        arrays |= labels
    if isinstance(estimator, LINEAR):
        weights, more = _encode_weights(estimator)
        return arrays | weights, fit | more
    vectors, layout = _encode_vectors(estimator)
    arrays |= vectors | _encode_solution(estimator) | encode_calibration(estimator)
    fit |= {"shape": [int(length) for length in estimator.shape_fit_], "vectors": layout}
    if isinstance(estimator, CLASSIFIERS):
        if estimator._tie_order is not None:
            arrays["tie_order"] = np.asarray(estimator._tie_order, dtype=np.int64)
        arrays["class_weight"] = np.asarray(estimator.class_weight_, dtype=np.float64)
    if isinstance(estimator, SVDD):
        fit["constant_diagonal"] = estimator._constant_diagonal
    found = estimator.approximation_
    if found is not None:
        fit["approximation"] = {"method": found.method, "rank": found.rank, "exact": found.exact, "note": found.note}
        arrays["approximation"] = np.array([getattr(found, name) for name in ASSESSED], dtype=np.float64)
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


def _scalars(estimator: Any) -> dict[str, NDArray[Any]]:
    """Numbers that only some of the estimators have."""
    names = {"offset": "offset_", "radius": "radius_", "epsilon": "epsilon_"}
    return {
        name: np.asarray(getattr(estimator, attribute), dtype=np.float64).reshape(1)
        for name, attribute in names.items()
        if hasattr(estimator, attribute)
    }


def _encode_weights(estimator: Any) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Weights of a linear estimator, and in which containers it has them."""
    coef = estimator.coef_
    arrays = {
        "coef": coef.toarray() if sp.issparse(coef) else np.asarray(coef, dtype=np.float64),
        "intercept": np.asarray(estimator.intercept_, dtype=np.float64).reshape(-1),
        **_scalars(estimator),
    }
    more = {"sparsified": sp.issparse(coef), "biased": np.ndim(estimator.intercept_) > 0}
    if hasattr(estimator, "_reach"):  # of a detector's sum over samples, for the rounding of its scores
        more |= {"made_of": estimator._made_of, "reach": estimator._reach}
    return arrays, more


def _encode_solution(estimator: Any) -> dict[str, NDArray[Any]]:
    return {
        "support": estimator.support_,
        "n_support": np.asarray(estimator.n_support_, dtype=np.int32),
        "dual_coef": estimator._dual_coef,
        "intercept": estimator.intercept_,
        **_scalars(estimator),
    }


def _encode_story(estimator: Any) -> dict[str, NDArray[Any]]:
    """Certificates and history: arrays and not text, because long runs have thousands of events."""
    histories = [estimator.history_] if isinstance(estimator.history_, History) else estimator.history_
    events = [event for history in histories for event in history.events]
    certificates = [astuple(certificate)[:CERTIFICATE_NUMBERS] for certificate in estimator.certificates_]
    return {
        "n_iter": np.atleast_1d(np.asarray(estimator.n_iter_, dtype=np.int64)),
        "certificates": np.array(certificates, dtype=np.float64),
        "history_lengths": np.array([len(history) for history in histories], dtype=np.int64),
        "history_counts": _columns(events, COUNTS, np.int64),
        "history_values": _columns(events, VALUES, np.float64),
    }


def _columns(events: list[Event], names: tuple[str, ...], dtype: Any) -> NDArray[Any]:
    rows = [[getattr(event, name) for name in names] for event in events]
    return np.array(rows, dtype=dtype).reshape(len(events), len(names))


def _encode_classes(classes: NDArray[Any]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Labels: text in the metadata, numbers as an array."""
    kind = classes.dtype.kind
    if kind in "UO" and all(isinstance(label, str) for label in classes):
        return {"type": "str" if kind == "U" else "object", "labels": classes.tolist()}, {}
    if classes.dtype.name in LABEL_TYPES:
        stored: NDArray[Any] = classes.astype(LABEL_STORAGE[kind])
        # The largest unsigned integers would come back right, but read as negative by everyone else.
        if np.array_equal(stored.astype(classes.dtype), classes) and (kind != "u" or stored.min() >= 0):
            return {"type": classes.dtype.name}, {"classes": stored}
    raise ValueError(
        f"classes of dtype {classes.dtype} cannot be stored in a model file; fit with labels that are text, "
        f"integers of up to 63 bits or floats."
    )
