"""The comparison as a picture: relative gap against time, a panel a problem, both axes logarithmic."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dualgap.bench.packages import OURS

if TYPE_CHECKING:
    from dualgap.bench.results import Compared, Report, Runs

# Okabe and Ito's colours, which the colour-blind can tell apart; shapes say the same once more.
_LOOK = {
    OURS: ("#0072B2", "o"),
    "scikit-learn": ("#D55E00", "s"),
    "intelex": ("#009E73", "D"),
    "libsvm": ("#CC79A7", "^"),
    "liblinear": ("#CC79A7", "^"),
    "highs": ("#E69F00", "D"),
    "sgd": ("#E69F00", "v"),
    "skglm": ("#009E73", "D"),
    "snapml": ("#56B4E9", "P"),
    "snapml-threads": ("#F0E442", "X"),
}
# What the gaps of a comparison are: of linear machines dualgap's own and those of peers to the best dual value.
_GAP = {"kernel": "relative duality gap", "linear": "relative gap", "l1": "relative error"}
# Gaps below have nothing to tell but that a problem was solved exactly; they are drawn here.
_EXACT = 1e-13
_STYLE: dict[str, Any] = {"float64": "-", "float32": (0, (4, 1.5))}
_INK, _GRID = "#333333", "#e3e3e3"
# Panels side by side, and the size of one in inches: four fit the width of a screen.
_ACROSS, _WIDTH, _HEIGHT = 4, 3.5, 2.9
# Inches above the panels for the title, for a line of the legend and for one of its entries; inches below the panels
# for the label of the axis.
_TITLE, _LEGEND_LINE, _LEGEND_ENTRY, _FOOT = 0.55, 0.25, 1.65, 0.5
# A relative gap above 1 says nothing but that the run has begun; below the least one a marker needs some room.
_TOP, _ROOM = 3.0, 0.4
_FORMATS = ("png", "svg", "pdf")


def check_plot(path: Path) -> None:
    """Find out, before any work is done, whether a picture can be drawn into this file."""
    if path.suffix.lower().lstrip(".") not in _FORMATS:
        raise ValueError(f"--plot {path}: must end in {', '.join('.' + name for name in _FORMATS)}.")
    if importlib.util.find_spec("matplotlib") is None:
        raise ValueError("--plot needs matplotlib, which is not installed; pip install 'dualgap[report]'.")


def save_plot(report: Report, path: Path) -> None:
    """Draw the comparison into a file, in the format that its name asks for."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from dualgap.atomic import atomic_write

    results = [result for result in report.problems if _has_points(result)]
    across = min(_ACROSS, max(len(results), 1))
    down = max(math.ceil(len(results) / across), 1)
    # A single panel still has to leave room for the legend.
    width = max(across, 2) * _WIDTH
    entries = _entries(results)
    ncols = min(max(len(entries), 1), int(width / _LEGEND_ENTRY))
    head = _TITLE + _LEGEND_LINE * math.ceil(len(entries) / ncols)
    size = (width, down * _HEIGHT + head + _FOOT)
    figure = Figure(figsize=size, facecolor="white", layout="constrained")
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0.0, 0.0, 1.0, 1.0 - head / size[1]), w_pad=0.08, h_pad=0.08, wspace=0.02, hspace=0.03)
    panels = figure.subplots(down, across, squeeze=False, sharey=True).ravel()
    for panel, result in zip(panels, results, strict=False):
        _draw(panel, result, report.settings.get("gap"))
    for panel in panels[len(results) :]:
        panel.set_visible(False)
    panels[0].set_ylim(_ROOM * _least_gap(results, report.settings.get("gap")), _TOP)  # shared by all
    figure.supxlabel("seconds of training", fontsize=11, color=_INK)
    figure.supylabel(_GAP[report.kind], fontsize=11, color=_INK)
    _head(figure, entries, ncols, size[1])
    kind = path.suffix.lower().lstrip(".")
    # The same results make the same file: no date, names of parts from their contents, and letters as letters.
    settings = {"svg.hashsalt": "dualgap", "svg.fonttype": "none"} if kind == "svg" else {}
    with atomic_write(path) as file, rc_context(settings):
        figure.savefig(file, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)


def _has_points(result: Compared) -> bool:
    return any(runs.gap for c in [*result.default, *result.tight] for runs in (c.peer, c.ours))


def _least_gap(results: list[Compared], goal: float | None) -> float:
    """The smallest gap that is drawn."""
    measured = [runs.gap for r in results for c in [*r.default, *r.tight] for runs in (c.peer, c.ours) if runs.gap]
    believed = [gap for r in results for points in r.history.values() for _, gap in points if gap > 0.0]
    return max(min([*measured, *believed, goal or 1.0]), _EXACT)


def _draw(panel: Any, result: Compared, goal: float | None) -> None:
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(result.name, fontsize=11, color=_INK, loc="left", pad=16, fontweight="bold")
    panel.annotate(
        f"n={result.n:,} d={result.d}  {result.title}",
        (0.0, 1.0),
        (0, 4),
        xycoords="axes fraction",
        textcoords="offset points",
        fontsize=7.5,
        color=_INK,
    )
    panel.grid(True, which="major", color=_GRID, linewidth=0.7)
    panel.set_axisbelow(True)
    panel.tick_params(which="both", labelsize=8, colors=_INK, length=3)
    panel.tick_params(which="minor", length=0)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color("#999999")
    if goal:
        panel.axhline(goal, color="#999999", linewidth=0.8, linestyle=(0, (2, 2)), zorder=1)
    for precision, points in result.history.items():
        _line(panel, points, precision)
    for name in _LOOK:
        for precision in ("float64", "float32"):
            _peer(panel, result, name, precision)
    _readable_seconds(panel)


def _readable_seconds(panel: Any) -> None:
    """Plain numbers at 1, 2 and 5 where an axis of time spans little, powers of ten where it spans much."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = panel.get_xlim()
    decades = math.log10(high / low)
    steps = (1.0, 2.0, 5.0) if decades < 1.6 else (1.0, 3.0) if decades < 2.6 else (1.0,)
    panel.xaxis.set_major_locator(LogLocator(subs=steps, numticks=12))
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    panel.xaxis.set_minor_formatter(NullFormatter())


def _line(panel: Any, points: list[tuple[float, float]], precision: str) -> None:
    """Our way: believed gaps, ended by the certified one."""
    shown = [(seconds, max(gap, _EXACT)) for seconds, gap in points if seconds > 0.0 and gap > 0.0]
    if not shown:
        return
    seconds, gaps = zip(*shown, strict=True)
    panel.plot(seconds, gaps, color=_LOOK[OURS][0], linewidth=1.6, linestyle=_STYLE[precision], zorder=3)
    panel.plot(seconds[-1:], gaps[-1:], markersize=5.5, zorder=4, **_marker(OURS, precision))


def _peer(panel: Any, result: Compared, name: str, precision: str) -> None:
    """A peer's settings as points, joined because they belong together."""
    runs: list[Runs] = [
        c.peer
        for c in [*result.default, *result.tight]
        if c.peer.library == name and c.peer.precision == precision and c.peer.gap and c.peer.seconds
    ]
    if not runs:
        return
    points = sorted({(one.seconds, max(one.gap, _EXACT)) for one in runs if one.seconds and one.gap})
    seconds, gaps = zip(*points, strict=True)
    panel.plot(seconds, gaps, color=_LOOK[name][0], linewidth=0.8, alpha=0.6, zorder=2)
    panel.plot(seconds, gaps, linestyle="none", markersize=6, zorder=5, **_marker(name, precision))


def _marker(name: str, precision: str) -> dict[str, Any]:
    """Filled for double precision, hollow for single."""
    return {
        "marker": _LOOK[name][1],
        "markerfacecolor": _LOOK[name][0] if precision == "float64" else "white",
        "markeredgecolor": _LOOK[name][0],
        "markeredgewidth": 1.3,
    }


def _entries(results: list[Compared]) -> list[Any]:
    """The legend: everybody who has a point somewhere."""
    from matplotlib.lines import Line2D

    drawn = {
        (runs.library, runs.precision)
        for result in results
        for c in [*result.default, *result.tight]
        for runs in (c.peer, c.ours)
        if runs.gap
    }
    entries = []
    for name in _LOOK:
        for precision in ("float64", "float32"):
            if (name, precision) in drawn:
                style: Any = "none" if name != OURS else _STYLE[precision]
                look = {"color": _LOOK[name][0], "linestyle": style, **_marker(name, precision)}
                entries.append(Line2D([], [], label=f"{name} {precision}", **look))
    return entries


def _head(figure: Any, entries: list[Any], ncols: int, height: float) -> None:
    """Title and legend, once for all panels."""
    title = "Gap against time: dualgap on its way, peers where they stopped"
    figure.text(0.5, 1.0 - 0.12 / height, title, ha="center", va="top", fontsize=13, color=_INK)
    figure.legend(
        handles=entries,
        loc="upper center",
        bbox_to_anchor=(0.5, 1.0 - 0.4 / height),
        ncols=ncols,
        frameon=False,
        fontsize=9,
        labelcolor=_INK,
        columnspacing=1.4,
        handletextpad=0.5,
        handlelength=2.6,
    )
