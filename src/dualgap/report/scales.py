"""Where values go on a drawing, and the ticks beside them.

Real runs contain zeros, NaN and single points; none of them may break a log axis, so a value that is not finite goes
nowhere, and one that is zero or negative sits on a shelf before the log axis, labelled as such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    # Where an axis starts and ends on the drawing.
    Span = tuple[float, float]

# Length of the strip before a log axis for values that have no logarithm: one line of text at phone size.
SHELF = 28
# More labels than these run into each other at phone size.
MAX_X_TICKS, MAX_Y_TICKS = 5, 7
# Beyond these magnitudes the arithmetic of the ticks would overflow or divide by zero.
HUGE, TINY = 1e300, 1e-300


@dataclass(frozen=True)
class Axis:
    """What an axis shows.

    Attributes
    ----------
    label : str
        The quantity and its unit.
    log : bool
        Powers of ten.
    whole : bool
        The quantity is a count: no tick between whole numbers.
    top : float or None
        Where a linear axis ends; the largest value when None.
    suffix : str
        Put behind every tick label, such as ``%``.
    from_zero : bool
        Whether a linear axis shows zero even where no value is near it.
    """

    label: str
    log: bool = False
    whole: bool = False
    top: float | None = None
    suffix: str = ""
    from_zero: bool = True


@dataclass(frozen=True)
class Scale:
    """Where values go on the drawing (None: nowhere) and the ticks, as (position, label)."""

    place: Callable[[float], float | None]
    ticks: list[tuple[float, str]]


def scale(values: Iterable[float], axis: Axis, span: Span, max_ticks: int, *, snug: bool = False) -> Scale:
    """The scale of an axis; a linear one ends at a round number unless `snug` keeps it at the data."""
    return _log(values, axis, span, max_ticks) if axis.log else _linear(values, axis, span, max_ticks, snug)


def _linear(values: Iterable[float], axis: Axis, span: Span, max_ticks: int, snug: bool) -> Scale:
    start, end = span
    known = [float(v) for v in values if abs(v) < HUGE]
    shown = [*known, 0.0] if axis.from_zero or not known else known
    low, high = min(shown), axis.top if axis.top is not None else max(shown)
    if high - low < max(TINY, 1e-12 * abs(high)):
        # A run of one event at time zero, or a value that never changes: any scale will do.
        high = low + max(1.0, abs(low))
    step = _round_step((high - low) / (max_ticks - 1), whole=axis.whole)
    if snug:
        step = _finest_step(low, high, step, max_ticks, whole=axis.whole)
    elif axis.top is None:
        high = math.ceil(high / step) * step
        low = low if axis.from_zero else math.floor(low / step) * step
    first, last = math.ceil(low / step * (1 - 1e-12)), math.floor(high / step * (1 + 1e-12))

    def place(value: float) -> float | None:
        # The comparison is false for NaN and infinity.
        return start + (value - low) / (high - low) * (end - start) if abs(value) < HUGE else None

    ticks = [
        (start + (i * step - low) / (high - low) * (end - start), compact(i * step) + axis.suffix)
        for i in range(first, last + 1)
    ]
    return Scale(place, ticks)


def _log(values: Iterable[float], axis: Axis, span: Span, max_ticks: int) -> Scale:
    """Whole decades around the positive values, beyond a shelf for the others if there are any."""
    start, end = span
    known = [float(v) for v in values if math.isfinite(v)]
    exponents = [math.log10(v) for v in known if v > 0]
    shelved = len(exponents) < len(known)
    # 10^-2 written as 0.01 has a logarithm a rounding below -2, which must not cost a decade.
    low = math.floor(min(exponents, default=0.0) + 1e-9)
    high = max(math.ceil(max(exponents, default=0.0) - 1e-9), low + 1)
    base = start + math.copysign(SHELF, end - start) if shelved else start

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
    return Scale(place, ticks)


def _round_step(least: float, *, whole: bool) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    # 10 belongs to the list for a `least` between 5 and 10; the slack forgives 0.30000000000000004.
    step = next((f * power for f in (1, 2, 5) if least <= f * power * (1 + 1e-9)), 10 * power)
    return max(step, 1.0) if whole else step


def _finest_step(low: float, high: float, step: float, max_ticks: int, *, whole: bool) -> float:
    """The smallest round step of which no more than `max_ticks` multiples lie in a range whose ends are not round."""
    finer = _round_step(step / 2.5, whole=whole)
    if finer >= step or math.floor(high / finer) - math.ceil(low / finer) + 1 > max_ticks:
        return step
    return _finest_step(low, high, finer, max_ticks, whole=whole)


def compact(value: float) -> str:
    """A round number in few characters: 0.2, 500, 20k, 1M."""
    # From ten thousand on only; "2000" is easier to read than "2k".
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 1e4 <= abs(value) < 1e12 and abs(value) >= size:
            return f"{value / size:.6g}{letter}"
    return f"{value:.6g}"


def _power(exponent: int) -> str:
    """Ten to the exponent, with superscript digits: they need no mark-up inside SVG."""
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "\u207b⁰¹²³⁴⁵⁶⁷⁸⁹"))
