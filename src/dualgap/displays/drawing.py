"""What all displays share: matplotlib where it is installed, axes, colours."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

# Okabe and Ito's colours, which the colour-blind can tell apart; the lightest two are left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#6B4C9A", "#7A5C00", "#444444", "#56B4E9")
INK, GRID = "#333333", "#e3e3e3"
# Values that differ by more than this factor are drawn on a logarithmic axis.
_WIDE = 10.0
# Range of a logarithmic axis beyond which its powers of ten are ticks enough.
_MANY = 1e3


def require_matplotlib(what: str) -> None:
    """Say what is missing, and where to get it.

    Raises
    ------
    ImportError
        Where matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError(f"{what} needs matplotlib, which is not installed; pip install 'dualgap[report]'.")


def one_axes(ax: Any, what: str) -> Any:
    """The axes to draw into: those given, or those of a new figure."""
    require_matplotlib(what)
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=(6.0, 4.0), layout="constrained")[1]


def several_axes(count: int, ax: Any, what: str) -> list[Any]:
    """As many axes: those given, or those of a new figure."""
    require_matplotlib(what)
    if ax is not None:
        given = list(np.atleast_1d(np.asarray(ax, dtype=object)).ravel())
        if len(given) != count:
            raise ValueError(
                f"{what} draws {count} panels and got {len(given)} axes; pass as many, or fewer quantities."
            )
        return given
    import matplotlib.pyplot as plt

    across = 2 if count in (2, 4) else min(count, 3)
    down = -(-count // across)
    size = (3.9 * across + 0.4, 2.7 * down + 0.3)
    axes = plt.subplots(down, across, figsize=size, layout="constrained", squeeze=False)[1].ravel()
    for unused in axes[count:]:
        unused.remove()
    return list(axes[:count])


def is_wide(values: Any) -> bool:
    """Whether values ask for a logarithmic axis."""
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    return bool(known.size and known.min() > 0.0 and known.max() > _WIDE * known.min())


def polish(axes: Any) -> None:
    """A quiet grid, no frame where there is no axis, and no ticks between many powers of ten."""
    axes.grid(True, color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if axis.get_scale() == "log" and high > _MANY * low:
            axis.minorticks_off()
