"""What ``dualgap path`` and ``dualgap tune`` share: grids of values, reading, JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualgap.cli.files import compact, header_choice, label_choice

if TYPE_CHECKING:
    from dualgap.datasets import Dataset

GRID_HELP = "LOW:HIGH:COUNT (evenly spaced on a logarithmic scale) or values with commas between"
# More values than anyone looks at are a slip of the keyboard.
_MOST = 1000


def grid(text: str, option: str, *, words: tuple[str, ...] = ()) -> list[Any]:
    """The values that an option names; `words` are taken as they are."""
    import numpy as np

    if ":" in text:
        parts = text.split(":")
        try:
            low, high, count = float(parts[0]), float(parts[1]), int(parts[2])
        except (ValueError, IndexError):
            raise ValueError(f"{option} {text}: write LOW:HIGH:COUNT, such as 0.01:1000:20.") from None
        if len(parts) != 3 or not 0.0 < low < high < np.inf or not 2 <= count <= _MOST:
            raise ValueError(f"{option} {text}: LOW must be positive and below HIGH, COUNT from 2 to {_MOST}.")
        return [float(value) for value in np.geomspace(low, high, count)]
    values: list[Any] = []
    for part in (part.strip() for part in text.split(",")):
        try:
            value: Any = part if part in words else float(part)
        except ValueError:
            raise ValueError(f"{option} {text}: {part!r} is no number; use {GRID_HELP}.") from None
        if not isinstance(value, str) and not 0.0 <= value < np.inf:
            raise ValueError(f"{option} {text}: {part} must be a finite number and not negative.")
        values.append(value)
    return list(dict.fromkeys(values))


def read(file: Path, label_column: str, header: bool | None, kernel: str) -> Dataset:
    """The samples of a file, as an array where that is no larger."""
    from dualgap.datasets import Dataset, load

    data = load(file, label_column=label_choice(label_column), header=header_choice(header))
    X = compact(data.X)
    if kernel == "precomputed" and hasattr(X, "toarray"):
        X = X.toarray()
    return Dataset(X, data.y, data.feature_names, data.source)


def write_json(content: dict[str, Any], path: Path) -> None:
    """Write plain data; a file that was there is replaced at once or not at all."""
    from dualgap.atomic import atomic_write

    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    with atomic_write(path) as file:
        file.write(text.encode())
