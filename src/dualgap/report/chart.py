"""Line charts as hand-written SVG: one function, no plotting library, no scripts.

The colours are CSS variables (see `CHART_CSS`), so that one drawing serves light mode, dark mode and
paper. Real runs contain zeros, NaN and single points; none of them may break a log axis, so:

* a value that is not finite leaves a hole in its line;
* a value that is zero or negative sits on a shelf below the log axis, labelled as such;
* a point without neighbours is a dot.
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Point = tuple[float, float]
    # Where an axis starts and ends on the drawing.
    Span = tuple[float, float]

# The drawing in its own units. About as wide as a column of the page, so that a unit is about a CSS pixel
# on a desktop and 0.7 of one on a phone, where the style sheet enlarges the text to make up for it.
WIDTH, HEIGHT = 480, 300
# Room for: tick labels such as 10 to the -10 at phone size; half a tick label; the y label; ticks + x label.
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 36, 54
# Height of the strip below a log axis for values that have no logarithm: one line of text at phone size.
SHELF = 28
# A line has about 400 units to itself, so more points than this cannot be told apart. A multiple of 4,
# because thinning keeps up to four points a bucket.
MAX_POINTS = 400
# More labels than these run into each other at phone size.
MAX_X_TICKS, MAX_Y_TICKS = 5, 7
# Beyond these magnitudes the arithmetic of the ticks would overflow or divide by zero.
HUGE, TINY = 1e300, 1e-300

CHART_CSS = """\
.chart { margin: 0; min-width: 0; }
.chart svg.plot { display: block; width: 100%; height: auto; }
.chart figcaption { margin-bottom: .4rem; }
.chart .legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; margin: .2rem 0 0; padding: 0;
  list-style: none; font-size: .875rem; overflow-wrap: anywhere; }
.chart .swatch { width: 30px; height: 10px; margin-right: .4rem; }
.chart text { font-size: 13px; fill: var(--dim, #57606a); }
.chart .grid { stroke: var(--rule, #d8dee4); stroke-width: 1; }
.chart .axis { stroke: var(--dim, #57606a); stroke-width: 1; }
.chart .line { fill: none; stroke-width: 2.2; stroke-linejoin: round; stroke-linecap: round; }
.chart .muted { stroke-width: 1; opacity: .5; }
.chart .line.s0 { stroke: var(--s0, #0b62b8); }
.chart .line.s1 { stroke: var(--s1, #b34700); stroke-dasharray: 7 4; }
.chart .dot.s0 { fill: var(--s0, #0b62b8); }
.chart .dot.s1 { fill: var(--s1, #b34700); }
@media (max-width: 640px) { .chart text { font-size: 17px; } }
"""
# Colours the style sheet above knows; the second one is dashed too, for paper and the colour-blind.
SLOTS = 2

# Characters HTML does not allow, and lone surrogates, which UTF-8 does not.
_FORBIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


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
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    slot: int = 0
    muted: bool = False

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"series {self.label!r} has {len(self.x)} x values and {len(self.y)} y values")
        if not 0 <= self.slot < SLOTS:
            raise ValueError(f"slot must be from 0 to {SLOTS - 1}, not {self.slot}")


@dataclass(frozen=True)
class Axis:
    """What an axis shows.

    Attributes
    ----------
    label : str
        The quantity and its unit.
    log : bool
        Powers of ten; for the y axis only.
    whole : bool
        The quantity is a count: no tick between whole numbers.
    top : float or None
        Where a linear axis ends; the largest value when None.
    suffix : str
        Put behind every tick label, such as ``%``.
    """

    label: str
    log: bool = False
    whole: bool = False
    top: float | None = None
    suffix: str = ""


@dataclass(frozen=True)
class _Scale:
    """Where values go on the drawing (None: nowhere) and the ticks, as (position, label)."""

    place: Callable[[float], float | None]
    ticks: list[tuple[float, str]]


def escape(text: object) -> str:
    """Make any text safe to put into HTML, as content or as a quoted attribute.

    Parameters
    ----------
    text : object
        Its ``str`` is taken.

    Returns
    -------
    str
        Escaped, with the characters HTML or UTF-8 forbid replaced by U+FFFD.
    """
    return html.escape(_FORBIDDEN.sub("\ufffd", str(text)), quote=True)


def line_chart(
    series: Sequence[Series],
    *,
    title: str,
    x: Axis,
    y: Axis,
    empty: str = "Nothing was recorded that could be drawn.",
) -> str:
    """Draw series as an HTML figure with a caption, a legend and an inline SVG.

    Parameters
    ----------
    series : sequence of Series
        Drawn in this order: the last one lies on top.
    title : str
        Heading of the figure.
    x, y : Axis
        The x axis is linear and starts at zero; the y axis may be logarithmic.
    empty : str
        What to say when no point can be drawn.

    Returns
    -------
    str
        A ``<figure>`` element. Every unbroken stretch of a series is one ``<polyline>`` of at most
        `MAX_POINTS` points, or a ``<circle>`` when it is a single point.
    """
    x_scale = _linear_scale([v for s in series for v in s.x], x, (LEFT, WIDTH - RIGHT), MAX_X_TICKS, snug=True)
    y_values = [v for s in series for v in s.y]
    make_y = _log_scale if y.log else _linear_scale
    y_scale = make_y(y_values, y, (HEIGHT - BOTTOM, TOP), MAX_Y_TICKS)
    drawn = [(s, stretches) for s in series if (stretches := _stretches(s, x_scale, y_scale))]
    caption = f"<h3>{escape(title)}</h3>"
    if not drawn:
        return f'<figure class="chart"><figcaption>{caption}</figcaption><p>{escape(empty)}</p></figure>\n'
    body = [
        _frame(x_scale, y_scale),
        *(_ink(one, stretch) for one, stretches in drawn for stretch in stretches),
        _labels(x, y),
    ]
    spoken = escape(f"{title}: {y.label} against {x.label}")
    return (
        f'<figure class="chart"><figcaption>{caption}{_legend([one for one, _ in drawn])}</figcaption>\n'
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{spoken}">\n'
        + "\n".join(body)
        + "\n</svg></figure>\n"
    )


def _linear_scale(values: Iterable[float], axis: Axis, span: Span, max_ticks: int, *, snug: bool = False) -> _Scale:
    """Zero to the largest value; the end is a round number unless `snug` keeps it at the data."""
    start, end = span
    known = [float(v) for v in values if abs(v) < HUGE]
    low = min([*known, 0.0])
    high = axis.top if axis.top is not None else max([*known, 0.0])
    if high - low < TINY:
        # A run of one event at time zero, or a count that is always zero: any scale will do.
        high = low + 1.0
    step = _round_step((high - low) / (max_ticks - 1), whole=axis.whole)
    if not snug and axis.top is None:
        high = math.ceil(high / step) * step
    # A linear y axis of negative values does not occur here, but it should be drawn right all the same.
    first, last = math.ceil(low / step), math.floor(high / step * (1 + 1e-12))

    def place(value: float) -> float | None:
        # The comparison is false for NaN and infinity.
        return start + (value - low) / (high - low) * (end - start) if abs(value) < HUGE else None

    ticks = [
        (start + (i * step - low) / (high - low) * (end - start), _compact(i * step) + axis.suffix)
        for i in range(first, last + 1)
    ]
    return _Scale(place, ticks)


def _log_scale(values: Iterable[float], axis: Axis, span: Span, max_ticks: int) -> _Scale:
    """Whole decades around the positive values, above a shelf for the others if there are any."""
    start, end = span
    known = [float(v) for v in values if math.isfinite(v)]
    exponents = [math.log10(v) for v in known if v > 0]
    shelved = len(exponents) < len(known)
    low = math.floor(min(exponents, default=0.0))
    high = max(math.ceil(max(exponents, default=0.0)), low + 1)
    # SVG counts downwards, so the shelf takes its height off the bottom of the axis.
    base = start - SHELF if shelved else start

    def at(exponent: float) -> float:
        return base + (exponent - low) / (high - low) * (end - base)

    def place(value: float) -> float | None:
        if not math.isfinite(value):
            return None
        return at(math.log10(value)) if value > 0 else start

    ticks = [(start, "\u2264 0" + axis.suffix)] if shelved else []
    if exponents:
        # A run from 1e3 to 1e-300 exists; whole decades only, as many as can be read.
        step = next(s for s in (1, 2, 3, 5, 10, 20, 50, 100, 200) if (high - low) // s < max_ticks)
        ticks += [(at(e), _power(e) + axis.suffix) for e in range(-(-low // step) * step, high + 1, step)]
    return _Scale(place, ticks)


def _round_step(least: float, *, whole: bool) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    # 10 belongs to the list for a `least` between 5 and 10; the slack forgives 0.30000000000000004.
    step = next((f * power for f in (1, 2, 5) if least <= f * power * (1 + 1e-9)), 10 * power)
    return max(step, 1.0) if whole else step


def _compact(value: float) -> str:
    """A round number in few characters: 0.2, 500, 20k, 1M."""
    # From ten thousand on only; "2000" is easier to read than "2k".
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 1e4 <= abs(value) < 1e12 and abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"


def _power(exponent: int) -> str:
    """Ten to the exponent, with superscript digits: they need no mark-up inside SVG."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "\u207b⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _stretches(one: Series, x_scale: _Scale, y_scale: _Scale) -> list[list[Point]]:
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
    if len(stretch) == 1:
        (at_x, at_y), radius = stretch[0], 2 if one.muted else 3.5
        return f'<circle class="dot {style}" cx="{at_x:.1f}" cy="{at_y:.1f}" r="{radius}"/>'
    points = " ".join(f"{at_x:.1f},{at_y:.1f}" for at_x, at_y in stretch)
    return f'<polyline class="line {style}" points="{points}"/>'


def _frame(x_scale: _Scale, y_scale: _Scale) -> str:
    """Grid lines, tick labels and the two axes."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    rows = [
        f'<line class="grid" x1="{LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}"/>'
        # A third of the text's height below the line: dominant-baseline is not drawn alike everywhere.
        f'<text x="{LEFT - 7}" y="{at + 4.5:.1f}" text-anchor="end">{escape(label)}</text>'
        for at, label in y_scale.ticks
    ]
    columns = [
        f'<line class="axis" x1="{at:.1f}" y1="{bottom}" x2="{at:.1f}" y2="{bottom + 5}"/>'
        f'<text x="{at:.1f}" y="{bottom + 21}" text-anchor="middle">{escape(label)}</text>'
        for at, label in x_scale.ticks
    ]
    axes = f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>'
    return "\n".join([*rows, *columns, axes])


def _labels(x: Axis, y: Axis) -> str:
    """The names of the axes; that of y lies flat above it, where it is easier to read than upright."""
    middle = (LEFT + WIDTH - RIGHT) / 2
    return (
        f'<text x="4" y="16">{escape(y.label)}</text>'
        f'<text x="{middle:.0f}" y="{HEIGHT - 9}" text-anchor="middle">{escape(x.label)}</text>'
    )


def _legend(series: Iterable[Series]) -> str:
    """One entry for each label and colour; HTML, not SVG, because it has to wrap on a phone."""
    entries = dict.fromkeys((one.label, one.slot) for one in series)
    items = "".join(
        '<li><svg class="swatch" viewBox="0 0 30 10" aria-hidden="true">'
        f'<line class="line s{slot}" x1="2" y1="5" x2="28" y2="5"/></svg>{escape(label)}</li>'
        for label, slot in entries
    )
    return f'<ul class="legend">{items}</ul>'
