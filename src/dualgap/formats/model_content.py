"""Arrays and text of a model file, each checked as it is handed out."""

from __future__ import annotations

import json
import math
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.formats.model_layout import EXCERPT
from dualgap.tensors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

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
            raise ModelFileError(f"{name} is not JSON ({brief(error)})") from error
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


def brief(error: Exception) -> str:
    """An error's message on one line, not too long."""
    return " ".join(str(error).split())[:EXCERPT]


def number(value: Any, name: str) -> Any:
    """The value, where it is a finite number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise ModelFileError(f"{name} is not a number")
    try:
        finite = math.isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise ModelFileError(f"{name} is not finite")
    return value


def optional_number(value: Any, name: str) -> float | None:
    """The value, where it is a finite number or None."""
    return None if value is None else float(number(value, name))


def natural(value: Any, name: str) -> int:
    """The value, where it is one of 0, 1, 2, ..."""
    # Lengths of arrays fit in 63 bits; bool is an int to isinstance.
    if type(value) is not int or not 0 <= value < 2**63:
        raise ModelFileError(f"{name} is not a natural number")
    return value


def texts(value: Any, name: str, count: int | None = None) -> list[str]:
    """The value, where it is a list of texts, `count` of them."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ModelFileError(f"{name} is not a list of texts")
    if count is not None and len(value) != count:
        raise ModelFileError(f"{name} has {len(value)} entries where {count} are expected")
    return value
