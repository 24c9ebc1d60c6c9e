"""Pictures that commands write: a path, a search."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dualgap.path import PathResult

_FORMATS = ("png", "svg", "pdf")
# Inches of one panel of a path, and of a heat map's cells and what is around them.
_WIDTH, _HEIGHT = 4.2, 2.8
_CELL = (0.75, 0.42)
_AROUND = (2.2, 1.3)
_INK = "#333333"


def check_plot(path: Path) -> None:
    """Find out, before any work is done, whether a picture can be drawn into this file."""
    if path.suffix.lower().lstrip(".") not in _FORMATS:
        raise ValueError(f"--plot {path}: must end in {', '.join('.' + name for name in _FORMATS)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib, which is not installed; pip install 'dualgap[report]'.")


def save_plot(found: PathResult, path: Path, *, title: str) -> None:
    """Draw a path into a file, in the format that its name asks for."""
    from dualgap.displays import PathDisplay

    display = PathDisplay(found)
    count = len(display.quantities)
    across = 2 if count == 4 else count
    down = -(-count // across)

    def draw(figure: Any) -> None:
        figure.suptitle(title, fontsize=12, color=_INK)
        display.plot(ax=figure.subplots(down, across, squeeze=False))

    _save((across * _WIDTH, down * _HEIGHT + 0.4), draw, path)


def save_search_plot(search: Any, path: Path, *, title: str) -> None:
    """Draw the scores of a search into a file."""
    from dualgap.displays import SearchDisplay

    values = search.cv_results_["params"]
    rows, columns = (len({one.get(name) for one in values}) for name in ("C", "gamma"))
    size = (max(columns * _CELL[0], 1.6) + _AROUND[0], max(rows * _CELL[1], 1.2) + _AROUND[1])

    def draw(figure: Any) -> None:
        figure.suptitle(title, fontsize=12, color=_INK)
        SearchDisplay.from_search(search, ax=figure.subplots())

    _save(size, draw, path)


def _save(size: tuple[float, float], draw: Callable[[Any], None], path: Path) -> None:
    # Not pyplot: a command keeps no figures, and needs no display.
    from matplotlib.figure import Figure

    from dualgap.atomic import atomic_write

    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    draw(figure)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix.lower().lstrip("."), dpi=150)
