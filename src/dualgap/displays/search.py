"""`SearchDisplay`: scores of a search over a grid of two parameters, as a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np

from dualgap.displays.drawing import INK, one_axes, require_matplotlib

# Cells up to which each holds its score.
_WRITTEN = 80
# The frame of the cell that was chosen: seen on the whole range of viridis.
_CHOSEN = "#D55E00"


class SearchDisplay:
    """Scores of a search, a row a value of the first parameter and a column a value of the second.

    Use `from_search` to create one.

    Parameters
    ----------
    scores : array-like, shape (n_rows, n_columns)
        Mean validation scores.
    rows, columns : list of str
        Values of the two parameters.
    names : tuple of (str, str)
        What rows and columns are values of; the second is empty where there is one parameter only.
    score : str
        What the scores are.
    best : tuple of (int, int) or None
        The cell that was chosen, where it is among those shown.
    fixed : str
        What else was searched, and the value shown.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    im_ : matplotlib AxesImage
        The heat map.
    text_ : list of matplotlib Text
        The scores in the cells; empty where there are too many.
    """

    def __init__(
        self,
        scores: Any,
        rows: list[str],
        columns: list[str],
        *,
        names: tuple[str, str],
        score: str = "score",
        best: tuple[int, int] | None = None,
        fixed: str = "",
    ) -> None:
        self.scores = np.asarray(scores, dtype=np.float64)
        if self.scores.shape != (len(rows), len(columns)):
            raise ValueError(f"scores must have shape ({len(rows)}, {len(columns)}); got {self.scores.shape}.")
        self.rows, self.columns, self.names = rows, columns, names
        self.score, self.best, self.fixed = score, best, fixed

    @classmethod
    def from_search(
        cls, search: Any, *, rows: str = "C", columns: str = "gamma", metric: str = "score", ax: Any = None
    ) -> SearchDisplay:
        """Draw the scores of a fitted search.

        Parameters
        ----------
        search : SVCSearchCV, SVRSearchCV or GridSearchCV
            Fitted. Parameters beyond the two shown stay at their best values.
        rows, columns : str
            The parameters to show; a parameter that was not searched has a single column.
        metric : str
            Which of several scores, as in ``mean_test_<metric>``.
        ax : matplotlib Axes, optional
            Where to draw.

        Returns
        -------
        SearchDisplay
        """
        require_matplotlib(cls.__name__)
        return cls(**_table(search, rows, columns, metric)).plot(ax=ax)

    def plot(self, *, ax: Any = None) -> SearchDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; a new figure by default.

        Returns
        -------
        SearchDisplay
            Itself.
        """
        self.ax_ = one_axes(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        shown = self.scores
        self.im_ = self.ax_.imshow(shown, cmap="viridis", aspect="auto", origin="lower")
        known = shown[np.isfinite(shown)]
        middle = float((known.min() + known.max()) / 2) if known.size else 0.0
        self.text_ = []
        for (i, j), value in np.ndenumerate(shown):
            if shown.size > _WRITTEN or not np.isfinite(value):
                continue
            colour = "black" if value > middle else "white"
            said = self.ax_.text(j, i, f"{value:.3f}", ha="center", va="center", color=colour, fontsize=8)
            self.text_.append(said)
        if self.best is not None:
            from matplotlib.patches import Rectangle

            i, j = self.best
            self.ax_.add_patch(
                Rectangle((j - 0.48, i - 0.48), 0.96, 0.96, fill=False, edgecolor=_CHOSEN, linewidth=2.5)
            )
        self.ax_.set_yticks(range(len(self.rows)), self.rows)
        slanted = {"rotation": 45, "ha": "right"} if len(self.columns) > 8 else {}
        self.ax_.set_xticks(range(len(self.columns)), self.columns, **slanted)
        self.ax_.set_ylabel(self.names[0])
        self.ax_.set_xlabel(self.names[1])
        said = f"mean validation {self.score}"
        self.ax_.set_title(f"{said}, {self.fixed}" if self.fixed else said, fontsize=10, color=INK, loc="left")
        self.figure_.colorbar(self.im_, ax=self.ax_, pad=0.02)
        return self


def _table(search: Any, rows: str, columns: str, metric: str) -> dict[str, Any]:
    """What the constructor takes, from a fitted search."""
    results = getattr(search, "cv_results_", None)
    if results is None:
        raise TypeError(f"SearchDisplay draws fitted searches; {type(search).__name__} has no cv_results_.")
    if f"mean_test_{metric}" not in results:
        found = [name.removeprefix("mean_test_") for name in results if name.startswith("mean_test_")]
        raise ValueError(f"metric must be one of {', '.join(found)}; got {metric!r}.")
    candidates = results["params"]
    if rows not in candidates[0] or rows == columns:
        raise ValueError(f"rows must be one of the searched {', '.join(candidates[0])}, and not columns; got {rows!r}.")
    best_index = int(getattr(search, "best_index_", int(np.nanargmax(results[f"mean_test_{metric}"]))))
    best = candidates[best_index]
    rest = {name: value for name, value in best.items() if name not in (rows, columns)}
    down = _sorted({one[rows] for one in candidates})
    across = _sorted({one.get(columns) for one in candidates})
    scores = np.full((len(down), len(across)), np.nan)
    for one, value in zip(candidates, results[f"mean_test_{metric}"], strict=True):
        if all(one[name] == chosen for name, chosen in rest.items()):
            scores[down.index(one[rows]), across.index(one.get(columns))] = value
    searched = columns in candidates[0]
    return {
        "scores": scores,
        "rows": [_short(value) for value in down],
        "columns": [_short(value) for value in across] if searched else [""],
        "names": (rows, columns if searched else ""),
        "score": _called(search, metric),
        "best": (down.index(best[rows]), across.index(best.get(columns))),
        "fixed": ", ".join(f"{name} = {_short(value)}" for name, value in rest.items()),
    }


def _called(search: Any, metric: str) -> str:
    """What a score is: its name, or that of the estimator's own."""
    from sklearn.base import is_classifier, is_regressor

    if metric != "score":
        return metric
    if isinstance(search.scoring, str):
        return str(search.scoring).replace("_", " ")
    if search.scoring is None and is_classifier(search):
        return "accuracy"
    return "R2" if search.scoring is None and is_regressor(search) else "score"


def _sorted(values: set[Any]) -> list[Any]:
    """Numbers in ascending order, after words."""
    return sorted(values, key=lambda value: (0, 0.0, value) if isinstance(value, str) else (1, value or 0.0, ""))


def _short(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
