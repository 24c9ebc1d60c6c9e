"""What the model files of LIBSVM and of LIBLINEAR have in common: lines of a name and values, then numbers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dualgap.datasets.number_text import finite_number
from dualgap.tensors import ModelFileError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

# Both programs read labels and counts into a C int.
_INT_MAX: Final = 2**31 - 1
_FLOAT64: Final = np.dtype(np.float64)
# All that numbers are written with; nan, inf and '1_000' hold something else.
_ORDINARY: Final = b"0123456789+-.eE "
# Names and values quoted in messages are cut to about this.
_EXCERPT: Final = 24


def number_text(value: float) -> str:
    """The number in as many digits, 17 at most, as bring back the same float64."""
    text = repr(float(value))
    return text.removesuffix(".0")


def row_text(values: Iterable[float]) -> str:
    """Numbers separated by blanks."""
    return " ".join(map(number_text, values))


def integer_labels(classes: NDArray[Any], program: str) -> list[int]:
    """Class labels as the C integers that these files hold.

    Raises
    ------
    ValueError
        Where a label is not one.
    """
    whole = classes.dtype.kind in "biuf" and np.all(np.isfinite(classes.astype(np.float64)))
    if not whole or np.any(classes != np.trunc(classes)) or np.any(np.abs(classes.astype(np.float64)) > _INT_MAX):
        raise ValueError(
            f"{program}'s model files hold class labels that are integers below 2**31; the classes are "
            f"{', '.join(repr(label) for label in classes.tolist()[:4])}, ...: encode them (LabelEncoder), or use "
            f"dualgap.save, which stores any labels."
        )
    return [int(label) for label in classes]


class Header:
    """Lines of a name and values, up to the line that begins the numbers."""

    def __init__(self, content: bytes, known: Iterable[str], end: bytes, program: str) -> None:
        self.program = program
        self._values: dict[str, list[str]] = {}
        allowed = frozenset(known)
        position = 0
        self.lines = 0
        while True:
            if position >= len(content):
                raise ModelFileError(f"ends before its line {end.decode()!r}: not a whole {program} model")
            stop = content.find(b"\n", position)
            stop = len(content) if stop < 0 else stop
            line = content[position:stop].strip()
            position = stop + 1
            self.lines += 1
            if line == end:
                break
            self._add(line, allowed)
        self.body = content[position:]

    def _add(self, line: bytes, allowed: frozenset[str]) -> None:
        if not line:
            return
        name, _, rest = line.partition(b" ")
        key = name.decode("ascii", "replace")
        if key not in allowed:
            raise ModelFileError(f"line {self.lines} is no part of a {self.program} model: {key[:_EXCERPT]!a}")
        if key in self._values:
            raise ModelFileError(f"line {self.lines} gives {key} again")
        self._values[key] = rest.decode("ascii", "replace").split()

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def texts(self, name: str, count: int | None = None) -> list[str]:
        """The values of a line, of which there are `count`."""
        if name not in self._values:
            raise ModelFileError(f"has no line {name!r}: not a whole {self.program} model")
        values = self._values[name]
        if count is not None and len(values) != count:
            raise ModelFileError(f"{name} has {len(values)} values where {count} are expected")
        return values

    def choice(self, name: str, choices: Iterable[str]) -> str:
        """The one value of a line, one of the choices."""
        value = self.texts(name, 1)[0]
        known = list(choices)
        if value not in known:
            raise ModelFileError(f"{name} {value[:_EXCERPT]!a} is not one of {', '.join(known)}")
        return value

    def numbers(self, name: str, count: int | None = None) -> NDArray[np.float64]:
        """Finite numbers."""
        found = [finite_number(text, _FLOAT64) for text in self.texts(name, count)]
        if None in found:
            raise ModelFileError(f"{name} holds a value that is not a finite number")
        return np.array(found, dtype=np.float64)

    def number(self, name: str) -> float:
        """One finite number."""
        return float(self.numbers(name, 1)[0])

    def integers(self, name: str, count: int | None = None) -> list[int]:
        """Integers that fit in 32 bits."""
        found = []
        for text in self.texts(name, count):
            digits = text.removeprefix("-")
            # Eleven digits are out of range whatever they are, and int() refuses thousands of them.
            if not (digits.isascii() and digits.isdigit() and len(digits) < 11) or int(digits) > _INT_MAX:
                raise ModelFileError(f"{name} holds {text[:_EXCERPT]!a}, which is no integer of 32 bits")
            found.append(int(text))
        return found

    def natural(self, name: str) -> int:
        """One integer that is not negative."""
        value = self.integers(name, 1)[0]
        if value < 0:
            raise ModelFileError(f"{name} is negative")
        return value

    def labels(self, count: int) -> list[int]:
        """Distinct class labels."""
        found = self.integers("label", count)
        if len(set(found)) != count:
            raise ModelFileError("label gives a class twice")
        return found


def parse_numbers(tokens: list[bytes], what: str) -> NDArray[np.float64]:
    """Finite numbers in decimal notation."""
    text = b" ".join(tokens)
    try:
        if text.translate(None, _ORDINARY):
            raise ValueError
        values = np.array(list(map(float, tokens)), dtype=np.float64)
    except ValueError:
        raise ModelFileError(f"{what} holds something that is not a number") from None
    if not np.all(np.isfinite(values)):
        raise ModelFileError(f"{what} holds a number that is too large")
    return values


def read_model_text(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a model file."""
    with open(path, "rb") as file:
        return file.read()
