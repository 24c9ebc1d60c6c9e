"""Figures as SVG text: lines over linear or logarithmic axes, and digits; no plotting library is needed.

The charts of `report.chart` have two colours and a linear x axis, for a page that follows a run. Here up to eight
methods are told apart, by colour and by dashes, and the file stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dualgap.report.chart import escape

if TYPE_CHECKING:
    from dualgap.reproduce.record import Digits, Figure

WIDTH, HEIGHT = 560, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 30, 50
# A line of the legend, below the drawing; two entries stand in one.
_LEGEND = 20
# Okabe and Ito's colours, which the colour-blind can tell apart, and dashes for paper.
_LOOKS = (
    ("#0072B2", ""),
    ("#D55E00", "7 4"),
    ("#009E73", "2 3"),
    ("#CC79A7", "9 3 2 3"),
    ("#E69F00", "5 2"),
    ("#56B4E9", "1 2"),
    ("#333333", "12 4"),
    ("#8c6d31", "3 1"),
)
# More points than these on one line cannot be told apart.
_POINTS = 600
_PIXEL, _WHITE = 4, 15


def draw(figure: Figure) -> str:
    """A figure as a complete ``<svg>`` element."""
    xs = _Axis([v for line in figure.lines for v in line.x], figure.log_x, _LEFT, WIDTH - _RIGHT)
    ys = _Axis([v for line in figure.lines for v in line.y], figure.log_y, HEIGHT - _BOTTOM, _TOP)
    body = [_frame(xs, ys)]
    for number, line in enumerate(figure.lines):
        colour, dash = _LOOKS[number % len(_LOOKS)]
        points = [(xs.at(x), ys.at(y)) for x, y in zip(line.x, line.y, strict=True) if xs.takes(x) and ys.takes(y)]
        body.append(_polyline(_thin(points), colour, dash))
        row, column = divmod(number, 2)
        at_x, at_y = 20 + column * (WIDTH // 2), HEIGHT + 14 + _LEGEND * row
        body.append(
            f'<line x1="{at_x}" y1="{at_y}" x2="{at_x + 32}" y2="{at_y}" stroke="{colour}" stroke-width="2.2" '
            f'stroke-dasharray="{dash}"/><text x="{at_x + 40}" y="{at_y + 4}">{escape(line.label)}</text>'
        )
    middle = (_LEFT + WIDTH - _RIGHT) // 2
    body.append(f'<text x="6" y="18">{escape(figure.y_label)}</text>')
    body.append(f'<text x="{middle}" y="{HEIGHT - 10}" text-anchor="middle">{escape(figure.x_label)}</text>')
    height = HEIGHT + 10 + _LEGEND * math.ceil(len(figure.lines) / 2)
    return _svg(WIDTH, height, f"{figure.title}: {figure.y_label} against {figure.x_label}", body)


def draw_digits(digits: Digits) -> str:
    """Pictures in a row, each with its label."""
    body, x = [], 0
    for picture, label in zip(digits.pictures, digits.labels, strict=True):
        for i, line in enumerate(picture):
            body += [
                f'<rect x="{x + first * _PIXEL}" y="{i * _PIXEL}" width="{count * _PIXEL}" height="{_PIXEL}" '
                f'fill="#{3 * f"{grey:x}"}"/>'
                for first, count, grey in _strips(line)
            ]
        side = _PIXEL * len(picture)
        body.append(f'<text x="{x + side // 2}" y="{side + 16}" text-anchor="middle">{escape(label)}</text>')
        x += side + 6
    height = _PIXEL * max((len(picture) for picture in digits.pictures), default=0) + 24
    return _svg(max(x, 1), height, digits.title, body)


def _strips(line: Sequence[float]) -> list[tuple[int, int, int]]:
    """Pixels of the same grey (of sixteen) side by side: the first, how many, and the grey; white is the paper's."""
    greys = [round(7.5 * (1.0 - min(1.0, max(-1.0, value)))) for value in line]
    strips, first = [], 0
    for grey, group in groupby(greys):
        count = len(list(group))
        if grey < _WHITE:
            strips.append((first, count, grey))
        first += count
    return strips


def _svg(width: int, height: int, spoken: str, body: Sequence[str]) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(spoken)}" font-family="system-ui, sans-serif" font-size="13" fill="#333">\n'
        f'<rect width="{width}" height="{height}" fill="#fff"/>\n' + "\n".join(body) + "\n</svg>\n"
    )


class _Axis:
    """Where values go, and the ticks."""

    def __init__(self, values: Sequence[float], log: bool, start: float, end: float) -> None:
        self.log, self.start, self.end = log, start, end
        known = [self._value(v) for v in values if self.takes(v)] or [0.0, 1.0]
        low, high = min(known), max(known)
        if log:
            low, high = math.floor(low), math.ceil(high)
        elif low > 0.0:
            low = 0.0
        self.low, self.high = low, high if high > low else low + 1.0

    def takes(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0.0 or not self.log)

    def _value(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def at(self, value: float) -> float:
        return self.start + (self._value(value) - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        if self.log:
            apart = max(1, math.ceil((self.high - self.low) / 7))
            return [(self.at(10.0**e), _power(e)) for e in range(int(self.low), int(self.high) + 1, apart)]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(f * power for f in (1, 2, 5, 10) if rough <= f * power * (1 + 1e-9))
        first, last = math.ceil(self.low / step), math.floor(self.high / step * (1 + 1e-12))
        return [(self.at(i * step), f"{i * step:g}") for i in range(first, last + 1)]


def _power(exponent: int) -> str:
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "\u207b⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _frame(xs: _Axis, ys: _Axis) -> str:
    right, bottom = WIDTH - _RIGHT, HEIGHT - _BOTTOM
    rows = [
        f'<line x1="{_LEFT}" y1="{at:.1f}" x2="{right}" y2="{at:.1f}" stroke="#e3e3e3"/>'
        f'<text x="{_LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{label}</text>'
        for at, label in ys.ticks()
    ]
    columns = [
        f'<line x1="{at:.1f}" y1="{bottom}" x2="{at:.1f}" y2="{bottom + 5}" stroke="#333"/>'
        f'<text x="{at:.1f}" y="{bottom + 19}" text-anchor="middle">{label}</text>'
        for at, label in xs.ticks()
    ]
    return "\n".join([*rows, *columns, f'<path d="M{_LEFT} {_TOP}V{bottom}H{right}" fill="none" stroke="#333"/>'])


def _polyline(points: list[tuple[float, float]], colour: str, dash: str) -> str:
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.4" fill="{colour}"/>' for x, y in points)
    if len(points) > 40:
        dots = ""  # a line of many points needs no marks
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return (
        f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>' + dots
    )


def _thin(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = max(1, math.ceil(len(points) / _POINTS))
    return points[::step] + (points[-1:] if (len(points) - 1) % step else []) if points else []
