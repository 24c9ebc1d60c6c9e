"""`PathDisplay`: objective, gap, support vectors and validation error along a path."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.displays.drawing import COLOURS, INK, is_wide, polish, require_matplotlib, several_axes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dualgap.path import PathResult

_TITLES = {
    "objective": "objective",
    "gap": "relative gap (certified)",
    "support": "support vectors",
    "validation": "validation error",
    "seconds": "seconds",
}


class PathDisplay:
    """Solutions along the values of a parameter, a panel a quantity.

    Use `from_path` to create one.

    Parameters
    ----------
    path : PathResult
        What `svm_path` has returned.
    quantities : sequence of {"objective", "gap", "support", "validation", "seconds"}, optional
        What to draw; by default all there is but the times.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        A panel each.
    ax_, figure_ : matplotlib Axes and Figure
        The first panel, and where all are.
    lines_ : dict of str to matplotlib Line2D
        The line of each quantity.
    line_ : matplotlib Line2D
        The first of them.
    """

    def __init__(self, path: PathResult, *, quantities: Iterable[str] | None = None) -> None:
        from dualgap.path import PathResult

        if not isinstance(path, PathResult):
            raise TypeError(f"PathDisplay draws what svm_path returns; got {type(path).__name__}.")
        self.path = path
        if quantities is None:
            chosen = ["objective", "gap", "support"] + ([] if path.validation_errors is None else ["validation"])
        else:
            chosen = [quantities] if isinstance(quantities, str) else list(quantities)
        for name in chosen:
            if name not in _TITLES:
                raise ValueError(f"quantities must be of {', '.join(_TITLES)}; got {name!r}.")
        if not chosen:
            raise ValueError("quantities is empty: pass at least one.")
        if "validation" in chosen and path.validation_errors is None:
            raise ValueError("This path has no validation errors; pass validation=(X, y) or cv= to svm_path.")
        self.quantities = chosen

    @classmethod
    def from_path(
        cls, path: PathResult, *, quantities: Iterable[str] | None = None, ax: Any = None, **line: Any
    ) -> PathDisplay:
        """Draw a path.

        Parameters
        ----------
        path : PathResult
            What `svm_path` has returned.
        quantities : sequence of str, optional
            What to draw.
        ax : matplotlib Axes or array of them, optional
            Where: as many as there are quantities.
        **line
            Passed to ``Axes.plot``.

        Returns
        -------
        PathDisplay
        """
        require_matplotlib(cls.__name__)
        return cls(path, quantities=quantities).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> PathDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or array of them, optional
            Where; a new figure by default.
        **line
            Passed to ``Axes.plot``.

        Returns
        -------
        PathDisplay
            Itself.
        """
        self.axes_ = several_axes(len(self.quantities), ax, type(self).__name__)
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        order = np.argsort(self.path.values, kind="stable")
        self.lines_: dict[str, Any] = {}
        for name, axes, colour in zip(self.quantities, self.axes_, COLOURS, strict=False):
            self._panel(name, axes, order, {"color": colour, **line})
        self.line_ = self.lines_[self.quantities[0]]
        return self

    def values(self, quantity: str) -> NDArray[np.float64]:
        """What a panel shows, in the path's own order."""
        found: Any = {
            "objective": self.path.objectives,
            "gap": self.path.relative_gaps,
            "support": self.path.n_support,
            "validation": self.path.validation_errors,
            "seconds": self.path.seconds,
        }[quantity]
        return np.asarray(found, dtype=np.float64)

    def _panel(self, name: str, axes: Any, order: NDArray[np.intp], line: dict[str, Any]) -> None:
        x, y = self.path.values[order], self.values(name)[order]
        shown = {"linewidth": 1.5, "marker": "o", "markersize": 4, **line}
        # A gap of zero has no place on a logarithmic axis, and is better than any that has.
        gaps = name == "gap" and bool(np.any(y > 0.0))
        (self.lines_[name],) = axes.plot(x, np.where(y > 0.0, y, np.nan) if gaps else y, **shown)
        if is_wide(x):
            axes.set_xscale("log")
        if gaps and np.any(y <= 0.0):
            exact = x[y <= 0.0]
            low = np.full(exact.size, 0.03)
            place = axes.get_xaxis_transform()
            axes.plot(exact, low, "v", color=shown["color"], transform=place, label="zero")
            axes.legend(frameon=False, fontsize=8)
        if gaps or (name in ("objective", "seconds") and is_wide(y)):
            axes.set_yscale("log")
            if gaps:
                # Whole powers of ten: gaps that differ by little are to look alike.
                low, high = np.log10(y[y > 0.0].min()), np.log10(y[y > 0.0].max())
                axes.set_ylim(10.0 ** np.floor(low), 10.0 ** max(np.ceil(high), np.floor(low) + 1.0))
        elif name in ("support", "validation"):
            axes.set_ylim(bottom=0, top=1.12 * max(float(np.nanmax(y)), 1e-12))
        axes.set_title(_TITLES[name], fontsize=10, color=INK, loc="left")
        axes.set_xlabel(self.path.parameter)
        if name == "support" and self.path.skipped.any():
            skipped = self.path.skipped[order]
            axes.plot(
                x[skipped],
                y[skipped],
                "o",
                markersize=5,
                markerfacecolor="white",
                color=shown["color"],
                label="no solver needed",
            )
            axes.legend(frameon=False, fontsize=8)
        if name == "validation":
            self._folds(axes, order, shown["color"])
        polish(axes)

    def _folds(self, axes: Any, order: NDArray[np.intp], colour: Any) -> None:
        """The spread of the folds and the best value."""
        path = self.path
        assert path.fold_errors is not None
        assert path.validation_errors is not None
        folds = path.fold_errors[order]
        if folds.shape[1] > 1:
            mean, spread = folds.mean(axis=1), folds.std(axis=1)
            axes.fill_between(path.values[order], mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
            axes.set_ylim(bottom=0, top=1.12 * float(np.max(mean + spread)))
        axes.plot(
            path.values[path.best],
            path.validation_errors[path.best],
            "o",
            markersize=9,
            markerfacecolor="none",
            color=INK,
            label=f"best: {path.parameter} = {path.values[path.best]:.3g}",
        )
        axes.legend(frameon=False, fontsize=8)
