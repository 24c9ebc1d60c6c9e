"""The plane of two features as a drawing: regions, boundary, margin, samples, support vectors."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dualgap.report.boundary import level_line
from dualgap.report.frame import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, axes, axis_names, figure, legend
from dualgap.report.scales import MAX_X_TICKS, MAX_Y_TICKS, Axis, scale

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from dualgap.report.boundary import Plane

    Place = Callable[[float], float]

# Colours of classes the style sheet knows; further classes start again.
CLASSES = 6
# Classes named in the legend; more take more room than the drawing.
_NAMED = 8


def plane_map(plane: Plane, title: str) -> str:
    """Draw a plane as an HTML figure.

    Parameters
    ----------
    plane : Plane
        What to draw.
    title : str
        Heading of the figure.

    Returns
    -------
    str
        A ``<figure>`` element.
    """
    x, y = Axis(plane.axes[0], from_zero=False), Axis(plane.axes[1], from_zero=False)
    x_scale = scale(plane.x, x, (LEFT, WIDTH - RIGHT), MAX_X_TICKS, snug=True)
    y_scale = scale(plane.y, y, (HEIGHT - BOTTOM, TOP), MAX_Y_TICKS, snug=True)

    def at_x(value: float) -> float:
        return x_scale.place(value) or 0.0

    def at_y(value: float) -> float:
        return y_scale.place(value) or 0.0

    body = [*_regions(plane, at_x, at_y), axes(x_scale, y_scale), *_lines(plane, at_x, at_y)]
    body += [_point(at_x(px), at_y(py), int(code)) for (px, py), code in zip(plane.points, plane.codes, strict=True)]
    body += [f'<circle class="ring" cx="{at_x(px):.1f}" cy="{at_y(py):.1f}" r="5.5"/>' for px, py in plane.support]
    body.append(axis_names(x, y))
    spoken = f"{title}: regions of {', '.join(plane.names[:_NAMED])} over {plane.axes[0]} and {plane.axes[1]}"
    return figure(title, legend(_entries(plane)), body, spoken)


def _regions(plane: Plane, at_x: Place, at_y: Place) -> list[str]:
    """Cells of one class that lie side by side are one rectangle; all of a class are one path."""
    paths = ["" for _ in plane.names]
    lefts, bottoms = _edges(plane.x), _edges(plane.y)
    for number, codes in enumerate(plane.regions):
        starts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1, [len(codes)]])
        low, high = at_y(bottoms[number]), at_y(bottoms[number + 1])
        for first, last in pairwise(starts):
            left, right = at_x(lefts[first]), at_x(lefts[last])
            paths[codes[first]] += f"M{left:.1f} {low:.1f}H{right:.1f}V{high:.1f}H{left:.1f}Z"
    return [
        f'<path class="area k{code % CLASSES}" shape-rendering="crispEdges" d="{path}"/>'
        for code, path in enumerate(paths)
        if path
    ]


def _edges(centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """Borders of cells, none beyond the outermost centres."""
    return np.concatenate([centres[:1], (centres[1:] + centres[:-1]) / 2, centres[-1:]])


def _lines(plane: Plane, at_x: Place, at_y: Place) -> list[str]:
    if plane.values is None:
        return []
    found = []
    for level, kind in ((0.0, "boundary"), *(((-1.0, "edge"), (1.0, "edge")) if plane.margin else ())):
        segments = level_line(plane.values, plane.x, plane.y, level)
        path = "".join(f"M{at_x(a[0]):.1f} {at_y(a[1]):.1f}L{at_x(b[0]):.1f} {at_y(b[1]):.1f}" for a, b in segments)
        if path:
            found.append(f'<path class="{kind}" d="{path}"/>')
    return found


def _point(x: float, y: float, code: int) -> str:
    """A sample: classes differ in shape too, for paper and the colour-blind."""
    kind = f"pt k{code % CLASSES}" if code >= 0 else "pt"
    if code % 2:
        return f'<rect class="{kind}" x="{x - 2.6:.1f}" y="{y - 2.6:.1f}" width="5.2" height="5.2"/>'
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'


def _entries(plane: Plane) -> list[tuple[str, str]]:
    entries = [(name, _point(15, 5, code)) for code, name in enumerate(plane.names[:_NAMED])]
    if plane.values is not None:
        entries.append(("boundary", '<path class="boundary" d="M2 5H28"/>'))
        if plane.margin:
            # Segments of a cell are too short to be dashed: the margin is thinner instead.
            entries.append(("margin", '<path class="edge" d="M2 5H28"/>'))
    if len(plane.support):
        entries.append(("support vector", '<circle class="ring" cx="15" cy="5" r="4"/>'))
    return entries
