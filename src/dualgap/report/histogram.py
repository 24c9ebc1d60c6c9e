"""Histograms of samples that fall into named groups, stacked, with marks at values that mean something."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from dualgap.report.frame import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, axes, axis_names, figure, legend, nothing
from dualgap.report.markup import escape
from dualgap.report.scales import MAX_X_TICKS, MAX_Y_TICKS, Axis, scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

# Bars: about ten units wide each.
_BARS = 40
# Values beyond these quantiles are counted in the outermost bars; a few of them would squeeze all others together.
_TAILS = (0.002, 0.998)


def bins(values: Floats, marks: Sequence[float]) -> Floats:
    """Edges of equal bars, one of them at the first mark, over all but the utmost values.

    Parameters
    ----------
    values : ndarray
        Finite, at least one.
    marks : sequence of float
        Values that have to be within the range; may be empty.
    """
    low, high = (float(edge) for edge in np.quantile(values, _TAILS))
    low, high = min([low, *marks]), max([high, *marks])
    if high - low <= 1e-12 * max(abs(low), abs(high)):
        low, high = low - max(0.5, abs(low) * 1e-3), high + max(0.5, abs(high) * 1e-3)
    least = (high - low) / _BARS
    power = 10.0 ** math.floor(math.log10(least))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if least <= factor * power * (1 + 1e-9))
    anchor = marks[0] if marks else 0.0
    first, last = math.floor((low - anchor) / step + 1e-9), math.ceil((high - anchor) / step - 1e-9)
    return anchor + step * np.arange(first, max(last, first + 1) + 1, dtype=np.float64)


def counts(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """How many values each bar stands for; those beyond the edges count in the outermost bars."""
    place = np.searchsorted(edges, values, side="right") - 1
    return np.bincount(np.clip(place, 0, len(edges) - 2), minlength=len(edges) - 1)


def histogram(
    groups: Sequence[tuple[str, Floats, int]],
    *,
    title: str,
    x: Axis,
    marks: Sequence[tuple[float, str]] = (),
    empty: str = "There are no values to draw.",
) -> str:
    """Draw groups of values as stacked bars.

    Parameters
    ----------
    groups : sequence of (str, ndarray, int)
        Names, finite values and colours from 0 to 2; the first lies at the bottom.
    title : str
        Heading of the figure.
    x : Axis
        The quantity.
    marks : sequence of (float, str)
        Vertical lines and their names.
    empty : str
        What to say when there is no value.

    Returns
    -------
    str
        A ``<figure>`` element.
    """
    together = np.concatenate([values for _, values, _ in groups]) if groups else np.empty(0)
    if not together.size:
        return nothing(title, empty)
    edges = bins(together, [value for value, _ in marks])
    heights = np.array([counts(values, edges) for _, values, _ in groups])
    tops = heights.cumsum(axis=0)
    y = Axis("samples", whole=True)
    x_scale = scale(edges, x, (LEFT, WIDTH - RIGHT), MAX_X_TICKS, snug=True)
    y_scale = scale(tops[-1], y, (HEIGHT - BOTTOM, TOP), MAX_Y_TICKS)
    left = np.array([x_scale.place(edge) for edge in edges], dtype=np.float64)
    body = [axes(x_scale, y_scale)]
    for number, (_, _, slot) in enumerate(groups):
        bars = []
        for bar in np.flatnonzero(heights[number]):
            high, low = (y_scale.place(float(tops[number, bar] - part)) for part in (0, heights[number, bar]))
            assert high is not None
            assert low is not None
            # Half a unit between neighbours keeps them apart on paper.
            bars.append(f"M{left[bar] + 0.25:.2f} {low:.1f}V{high:.1f}H{left[bar + 1] - 0.25:.2f}V{low:.1f}Z")
        body.append(f'<path class="bar b{slot}" d="{"".join(bars)}"/>')
    places = [x_scale.place(value) for value, _ in marks]
    # Names after all lines: where one lies under a name, the name is what is read.
    body += [_mark(at) for at in places]
    body += [_mark_name(at, name, number) for number, (at, (_, name)) in enumerate(zip(places, marks, strict=True))]
    body.append(axis_names(x, y))
    shown = [(f"{name} ({len(values):,})", slot) for name, values, slot in groups if len(values)]
    swatches = [(name, f'<rect class="bar b{slot}" x="9" y="0" width="12" height="10"/>') for name, slot in shown]
    spoken = f"{title}: {together.size:,} samples; " + "; ".join(name for name, _ in shown)
    return figure(title, legend(swatches), body, spoken)


def _mark(at: float | None) -> str:
    assert at is not None
    return f'<line class="mark" x1="{at:.1f}" y1="{TOP - 12}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}"/>'


def _mark_name(at: float | None, name: str, number: int) -> str:
    """Beside its line, towards the middle; names of neighbouring marks on two heights."""
    assert at is not None
    side, anchor = (-4, "end") if at > WIDTH / 2 else (4, "start")
    return (
        f'<text class="name" x="{at + side:.1f}" y="{TOP - 3 + 17 * (number % 2):.0f}" text-anchor="{anchor}">'
        f"{escape(name)}</text>"
    )
