"""A path as a picture: objective, gap, support vectors and validation error against the parameter."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from dualgap.path import PathResult

_FORMATS = ("png", "svg", "pdf")
# Okabe and Ito's colours, which the colour-blind can tell apart.
_BLUE, _RED, _GREEN, _PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
_INK, _GRID = "#333333", "#e3e3e3"
# Inches of one panel.
_WIDTH, _HEIGHT = 4.2, 2.8


def check_plot(path: Path) -> None:
    """Find out, before any work is done, whether a picture can be drawn into this file."""
    if path.suffix.lower().lstrip(".") not in _FORMATS:
        raise ValueError(f"--plot {path}: must end in {', '.join('.' + name for name in _FORMATS)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib, which is not installed; pip install 'dualgap[report]'.")


def save_plot(found: PathResult, path: Path, *, title: str) -> None:
    """Draw the path into a file, in the format that its name asks for."""
    from matplotlib.figure import Figure

    from dualgap.formats.atomic import atomic_write

    order = np.argsort(found.values)
    x = found.values[order]
    panels: list[tuple[str, Any, str, bool]] = [
        ("objective", found.objectives[order], _BLUE, True),
        ("relative gap (certified)", found.relative_gaps[order], _RED, True),
        ("support vectors", found.n_support[order], _GREEN, False),
    ]
    if found.validation_errors is not None:
        panels.append(("validation error", found.validation_errors[order], _PURPLE, False))
    across = 2 if len(panels) == 4 else len(panels)
    down = -(-len(panels) // across)
    figure = Figure(figsize=(across * _WIDTH, down * _HEIGHT + 0.4), facecolor="white", layout="constrained")
    figure.suptitle(title, fontsize=12, color=_INK)
    places = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (name, y, colour, logarithmic) in zip(places, panels, strict=True):
        _draw(axes, x, np.asarray(y, dtype=np.float64), name, colour, logarithmic, found.parameter)
        if name == "support vectors":
            axes.set_ylim(bottom=0)
            skipped = found.skipped[order]
            if skipped.any():
                axes.plot(x[skipped], y[skipped], "o", markersize=5, markerfacecolor="white", color=colour)
                axes.annotate(
                    "hollow: no solver needed", (0.98, 0.94), xycoords="axes fraction", ha="right", fontsize=8
                )
        if name == "validation error":
            _mark_folds(axes, found, order, colour)
    with atomic_write(path) as file:
        figure.savefig(file, format=path.suffix.lower().lstrip("."), dpi=150)


def _draw(axes: Any, x: Any, y: Any, name: str, colour: str, logarithmic: bool, parameter: str) -> None:
    axes.plot(x, y, "-o", color=colour, linewidth=1.5, markersize=4)
    if np.all(x > 0.0) and x.max() > 10.0 * x.min():
        axes.set_xscale("log")
    shown = y[np.isfinite(y)]
    if logarithmic and shown.size and np.all(shown > 0.0) and shown.max() > 10.0 * shown.min():
        axes.set_yscale("log")
    axes.set_title(name, fontsize=10, color=_INK, loc="left")
    axes.set_xlabel(parameter, fontsize=9, color=_INK)
    axes.grid(True, color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, colors=_INK)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _mark_folds(axes: Any, found: PathResult, order: Any, colour: str) -> None:
    """The spread of the folds and the best value."""
    assert found.fold_errors is not None
    assert found.validation_errors is not None
    folds = found.fold_errors[order]
    if folds.shape[1] > 1:
        mean, spread = folds.mean(axis=1), folds.std(axis=1)
        axes.fill_between(found.values[order], mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    best = found.best
    axes.plot(found.values[best], found.validation_errors[best], "o", markersize=9, markerfacecolor="none", color=_INK)
    axes.annotate(
        f"best: {found.parameter} = {found.values[best]:.3g}",
        (0.98, 0.94),
        xycoords="axes fraction",
        ha="right",
        fontsize=8,
        color=_INK,
    )
