"""Arrays of other libraries: NumPy inside, and the caller's own kind outside where scikit-learn is told to dispatch.

Solvers are compiled for NumPy arrays. Without scikit-learn's ``array_api_dispatch`` arrays of other libraries are
converted as everywhere in scikit-learn, and results are NumPy's. With it, arguments are converted here and what a
method returns is converted back, to the library and device of X; fitted attributes are NumPy's.
"""

from __future__ import annotations

from functools import wraps
from inspect import getattr_static
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import config_context, get_config
from sklearn.utils._array_api import _convert_to_numpy, device, get_namespace

if TYPE_CHECKING:
    from collections.abc import Callable

# Methods that take samples; plain functions only, because descriptors (`available_if`) are more than a function.
_METHODS = ("fit", "predict", "decision_function", "score_samples")


def convert_arrays(cls: type) -> None:
    """Make the methods of an estimator's class take arrays of any library."""
    for name in _METHODS:
        method = getattr_static(cls, name, None)
        if isinstance(method, FunctionType) and not hasattr(method, "converts_arrays"):
            setattr(cls, name, _converting(method))


def _converting(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def converted(self: Any, X: Any, *arguments: Any, **named: Any) -> Any:
        if not get_config()["array_api_dispatch"] or not _is_foreign(X):
            return method(self, X, *arguments, **named)
        namespace, _ = get_namespace(X)
        inside = [_as_numpy(argument) for argument in (X, *arguments)]
        with config_context(array_api_dispatch=False):
            result = method(self, *inside, **{name: _as_numpy(value) for name, value in named.items()})
        if not isinstance(result, np.ndarray) or result.dtype.kind not in "fiub":
            return result
        return namespace.asarray(result, device=device(X))

    converted.converts_arrays = True  # type: ignore[attr-defined]
    return converted


def _is_foreign(value: Any) -> bool:
    """Whether this is an array, and not NumPy's; tensors of PyTorch do not say so themselves."""
    says = hasattr(value, "__array_namespace__") or type(value).__module__.partition(".")[0] == "torch"
    return says and not isinstance(value, np.ndarray | np.generic)


def _as_numpy(value: Any) -> Any:
    if not _is_foreign(value):
        return value
    return np.asarray(_convert_to_numpy(value, get_namespace(value)[0]))
