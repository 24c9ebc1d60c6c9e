"""What every drawing has: its size, axes, a caption with a legend, and words for those who cannot see it.

Drawings are hand-written SVG without scripts. Colours are CSS variables (see `style`), so that one drawing serves light
mode, dark mode and paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dualgap.report.markup import escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dualgap.report.scales import Axis, Scale

# The drawing in its own units. About as wide as a column of the page, so that a unit is about a CSS pixel
# on a desktop and 0.7 of one on a phone, where the style sheet enlarges the text to make up for it.
WIDTH, HEIGHT = 480, 300
# Room for: tick labels such as 10 to the -10 at phone size; half a tick label; the y label; ticks + x label.
LEFT, RIGHT, TOP, BOTTOM = 64, 24, 36, 54

EMPTY = "Nothing was recorded that could be drawn."


def figure(title: str, legend: str, body: Sequence[str], spoken: str) -> str:
    """A drawing with its heading; `spoken` is what it shows, in a sentence."""
    said = escape(spoken)
    return (
        f'<figure class="chart"><figcaption><h3>{escape(title)}</h3>{legend}</figcaption>\n'
        f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{said}">\n<title>{said}</title>\n'
        + "\n".join(body)
        + "\n</svg></figure>\n"
    )


def nothing(title: str, said: str) -> str:
    """What stands in the place of a drawing without content."""
    return f'<figure class="chart"><figcaption><h3>{escape(title)}</h3></figcaption><p>{escape(said)}</p></figure>\n'


def axes(x_scale: Scale, y_scale: Scale) -> str:
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
    lines = f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{bottom}H{right}"/>'
    return "\n".join([*rows, *columns, lines])


def axis_names(x: Axis, y: Axis) -> str:
    """The names of the axes; that of y lies flat above it, where it is easier to read than upright."""
    middle = (LEFT + WIDTH - RIGHT) / 2
    return (
        f'<text x="4" y="16">{escape(y.label)}</text>'
        f'<text x="{middle:.0f}" y="{HEIGHT - 9}" text-anchor="middle">{escape(x.label)}</text>'
    )


def legend(entries: Iterable[tuple[str, str]]) -> str:
    """Names and swatches (SVG of 30 x 10 units); HTML, not SVG, because it has to wrap on a phone."""
    items = "".join(
        f'<li><svg class="swatch" viewBox="0 0 30 10" aria-hidden="true">{swatch}</svg>{escape(label)}</li>'
        for label, swatch in entries
    )
    return f'<ul class="legend">{items}</ul>' if items else ""
