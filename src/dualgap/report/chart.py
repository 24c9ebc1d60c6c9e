"""Line charts: a value that is not finite leaves a hole in its line, a point without neighbours is a dot."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dualgap.report.frame import (
    BOTTOM,
    EMPTY,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    axes,
    axis_names,
    figure,
    legend,
    nothing,
)
from dualgap.report.markup import escape as escape
from dualgap.report.scales import MAX_X_TICKS, MAX_Y_TICKS, Axis, scale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dualgap.report.scales import Scale

    Point = tuple[float, float]

# A line has about 400 units to itself, so more points than this cannot be told apart. A multiple of 4,
# because thinning keeps up to four points a bucket.
MAX_POINTS = 400
# Points of a line up to which each is marked: these are values someone has chosen, such as those of C.
MAX_MARKED = 60
# Colours the style sheet knows; the second one is dashed too, for paper and the colour-blind.
SLOTS = 2


@dataclass(frozen=True)
class Series:
    """One line of a chart.

    Attributes
    ----------
    label : str
        Its name in the legend; series that share label and slot share one entry.
    x, y : sequence of float
        Of equal length, in the order of drawing. Anything may be NaN or infinite.
    slot : int
        Which colour, 0 or 1.
    muted : bool
        Thin and pale: there for comparison.
    marked : bool
        With a dot at every point.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    slot: int = 0
    muted: bool = False
    marked: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.label!r} has {len(self.x)} x values and {len(self.y)} y values")
        if not 0 <= self.slot < SLOTS:
            raise ValueError(f"slot must be from 0 to {SLOTS - 1}, not {self.slot}")


def line_chart(series: Sequence[Series], *, title: str, x: Axis, y: Axis, empty: str = EMPTY) -> str:
    """Draw series as an HTML figure with a caption, a legend and an inline SVG.

    Parameters
    ----------
    series : sequence of Series
        Drawn in this order: the last one lies on top.
    title : str
        Heading of the figure.
    x, y : Axis
        A linear x axis ends where the data does, a linear y axis at a round number.
    empty : str
        What to say when no point can be drawn.

    Returns
    -------
    str
        A ``<figure>`` element. Every unbroken stretch of a series is one ``<polyline>`` of at most
        `MAX_POINTS` points, or a ``<circle>`` when it is a single point.
    """
    x_scale = scale([v for s in series for v in s.x], x, (LEFT, WIDTH - RIGHT), MAX_X_TICKS, snug=True)
    y_scale = scale([v for s in series for v in s.y], y, (HEIGHT - BOTTOM, TOP), MAX_Y_TICKS)
    drawn = [(s, stretches) for s in series if (stretches := _stretches(s, x_scale, y_scale))]
    if not drawn:
        return nothing(title, empty)
    body = [
        axes(x_scale, y_scale),
        *(_ink(one, stretch) for one, stretches in drawn for stretch in stretches),
        axis_names(x, y),
    ]
    entries = dict.fromkeys((one.label, one.slot) for one, _ in drawn)
    # A single line that is called what its axis is needs no second name.
    if set(entries) == {(y.label, 0)}:
        entries = {}
    swatches = [(label, f'<line class="line s{slot}" x1="2" y1="5" x2="28" y2="5"/>') for label, slot in entries]
    return figure(title, legend(swatches), body, _spoken(title, x, y, [one for one, _ in drawn]))


def _spoken(title: str, x: Axis, y: Axis, drawn: Sequence[Series]) -> str:
    """The chart in a sentence: where each strong line begins and ends."""
    said = f"{title}: {y.label} against {x.label}"
    for one in drawn:
        known = [float(value) for value in one.y if math.isfinite(value)]
        if not one.muted and known:
            said += f"; {one.label} from {known[0]:.3g} to {known[-1]:.3g}"
    return said


def _stretches(one: Series, x_scale: Scale, y_scale: Scale) -> list[list[Point]]:
    """The points of a series on the drawing, broken where a value is missing."""
    stretches: list[list[Point]] = [[]]
    for value_x, value_y in zip(one.x, one.y, strict=True):
        at_x, at_y = x_scale.place(value_x), y_scale.place(value_y)
        if at_x is not None and at_y is not None:
            stretches[-1].append((at_x, at_y))
        elif stretches[-1]:
            stretches.append([])
    return [_thin(stretch) for stretch in stretches if stretch]


def _thin(points: list[Point]) -> list[Point]:
    """At most `MAX_POINTS` points: the ends and the extremes of consecutive buckets, so no spike is lost."""
    if len(points) <= MAX_POINTS:
        return points
    size = math.ceil(4 * len(points) / MAX_POINTS)
    kept: list[Point] = []
    for begin in range(0, len(points), size):
        bucket = range(begin, min(begin + size, len(points)))
        lowest = min(bucket, key=lambda i: points[i][1])
        highest = max(bucket, key=lambda i: points[i][1])
        kept += [points[i] for i in sorted({bucket[0], lowest, highest, bucket[-1]})]
    return kept


def _ink(one: Series, stretch: list[Point]) -> str:
    style = f"s{one.slot} muted" if one.muted else f"s{one.slot}"
    dots = stretch if len(stretch) == 1 or (one.marked and len(stretch) <= MAX_MARKED) else []
    radius = 2 if one.muted else 3.5
    ink = [f'<circle class="dot {style}" cx="{at_x:.1f}" cy="{at_y:.1f}" r="{radius}"/>' for at_x, at_y in dots]
    if len(stretch) > 1:
        points = " ".join(f"{at_x:.1f},{at_y:.1f}" for at_x, at_y in stretch)
        ink.insert(0, f'<polyline class="line {style}" points="{points}"/>')
    return "".join(ink)
