"""`MarginDisplay`: where samples lie, as a histogram of margins or, for two features, in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.displays.drawing import COLOURS, INK, one_axes, polish, require_matplotlib
from dualgap.report.boundary import Plane, plane_of
from dualgap.report.histogram import bins, counts
from dualgap.report.margins import Margins, margins_of
from dualgap.report.runs import unwrap

# What costs most, what costs something, what is as wished.
_KINDS = ("#D55E00", "#9CC7E3", "#0072B2")
# Colours of classes: the first two as far apart as can be.
_CLASSES = (COLOURS[1], COLOURS[0], *COLOURS[2:])


class MarginDisplay:
    """Where samples lie for a fitted estimator.

    Use `from_estimator` to create one. A histogram shows margins ``y f(x)`` of classifiers (the least one over the
    tasks for several classes), residuals of regressors with their tube, and decision values of detectors.

    Parameters
    ----------
    margins : Margins, optional
        What a histogram shows.
    plane : Plane, optional
        What a boundary shows.

    Attributes
    ----------
    margins_ : ndarray or None
        The values of the histogram, one a sample.
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    bars_ : list of matplotlib BarContainer
        Of a histogram: one for each group of samples.
    line_ : matplotlib Line2D or contour set
        The mark at the margin (at the boundary where there is none), or the boundary itself; None where several
        classes meet.
    """

    def __init__(self, margins: Margins | None = None, plane: Plane | None = None) -> None:
        if (margins is None) == (plane is None):
            raise ValueError("Pass either margins or a plane.")
        self.margins, self.plane = margins, plane
        self.margins_ = None if margins is None else margins.values

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, y: Any = None, *, kind: str = "histogram", ax: Any = None
    ) -> MarginDisplay:
        """Draw where samples lie.

        Parameters
        ----------
        estimator : object
            A fitted estimator of dualgap, a pipeline that ends in one, or a search over one.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,), optional
            Labels or targets; needed for regression and for more than two classes.
        kind : {"histogram", "boundary"}
            Margins, or the plane of two features with the boundary, the margin and the support vectors.
        ax : matplotlib Axes, optional
            Where to draw.

        Returns
        -------
        MarginDisplay
        """
        require_matplotlib(cls.__name__)
        if kind not in ("histogram", "boundary"):
            raise ValueError(f'kind must be "histogram" or "boundary"; got {kind!r}.')
        model, points = unwrap(estimator, X)
        if kind == "histogram":
            margins = margins_of(model, points, y)
            if margins is None:
                raise ValueError(
                    f"The margins of {type(model).__name__} need y: pass labels that it knows, or targets."
                )
            return cls(margins).plot(ax=ax)
        plane = plane_of(model, points, y)
        if plane is None:
            raise ValueError(
                f'kind="boundary" is for classifiers and detectors of two features (not of a precomputed kernel); this '
                f"{type(model).__name__} has {getattr(model, 'n_features_in_', 'unknown')}."
            )
        return cls(plane=plane).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> MarginDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; a new figure by default.

        Returns
        -------
        MarginDisplay
            Itself.
        """
        self.ax_ = one_axes(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        self.line_: Any = None
        if self.margins is not None:
            self._histogram(self.margins)
        if self.plane is not None:
            self._boundary(self.plane)
        return self

    def _histogram(self, margins: Margins) -> None:
        edges = bins(margins.values, [value for value, _ in margins.marks])
        below = np.zeros(len(edges) - 1)
        self.bars_ = []
        for name, values, kind in margins.grouped():
            heights = counts(values, edges)
            label = f"{name} ({len(values):,})" if len(values) else None
            bars = self.ax_.bar(
                edges[:-1], heights, np.diff(edges), below, align="edge", color=_KINDS[kind], ec="white", lw=0.4
            )
            bars.set_label(label or "_")
            self.bars_.append(bars)
            below = below + heights
        for value, name in margins.marks:
            self.line_ = self.ax_.axvline(value, color=INK, linestyle="--", linewidth=1.0)
            self.ax_.annotate(
                name,
                (value, 1.0),
                xycoords=("data", "axes fraction"),
                xytext=(0, 3),
                textcoords="offset points",
                ha="center",
                fontsize=8,
                color=INK,
            )
        self.ax_.set_xlabel(margins.quantity)
        self.ax_.set_ylabel("samples")
        # Room above the bars, so that the legend hides none of them.
        self.ax_.set_ylim(0, 1.3 * max(float(below.max()), 1.0))
        self.ax_.legend(frameon=False, fontsize=8)
        polish(self.ax_)

    def _boundary(self, plane: Plane) -> None:
        from matplotlib.colors import ListedColormap

        count = len(plane.names)
        colours = [_CLASSES[code % len(_CLASSES)] for code in range(count)]
        self.ax_.pcolormesh(
            plane.x,
            plane.y,
            plane.regions,
            cmap=ListedColormap(colours),
            vmin=-0.5,
            vmax=count - 0.5,
            alpha=0.16,
            shading="nearest",
            rasterized=True,
        )
        if plane.values is not None:
            self.line_ = self.ax_.contour(plane.x, plane.y, plane.values, levels=[0.0], colors=INK, linewidths=1.8)
            if plane.margin:
                self.ax_.contour(
                    plane.x, plane.y, plane.values, levels=[-1.0, 1.0], colors=INK, linewidths=0.9, linestyles="--"
                )
        for code, name in enumerate(plane.names):
            mine = plane.points[plane.codes == code]
            if len(mine):
                marker = "os^Dv*"[code % 6]
                self.ax_.scatter(
                    *mine.T, s=14, marker=marker, color=colours[code], ec="white", lw=0.4, label=name, zorder=3
                )
        if len(plane.support):
            self.ax_.scatter(
                *plane.support.T, s=46, facecolors="none", edgecolors=INK, lw=0.7, label="support vector", zorder=4
            )
        self.ax_.set_xlim(plane.x[0], plane.x[-1])
        self.ax_.set_ylim(plane.y[0], plane.y[-1])
        self.ax_.set_xlabel(plane.axes[0])
        self.ax_.set_ylabel(plane.axes[1])
        self.ax_.legend(fontsize=8, framealpha=0.85, edgecolor="none")
