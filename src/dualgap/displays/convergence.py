"""`ConvergenceDisplay`: gap, violation or another quantity of a run, over time or iterations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np

from dualgap.displays.drawing import COLOURS, one_axes, polish, require_matplotlib
from dualgap.report.headline import worst_first
from dualgap.report.runs import runs_of, unwrap
from dualgap.result import Event

if TYPE_CHECKING:
    from dualgap.result import History

_ACROSS = {"time": ("seconds", "seconds"), "iteration": ("iteration", "iterations")}
_NAMES = {
    "relative_gap": "relative gap",
    "violation": "KKT violation",
    "n_support": "support vectors",
    "kernel_evaluations": "kernel evaluations",
}
# Quantities that fall by many powers of ten; a zero among them is a hole in the line.
_FALLING = ("relative_gap", "violation")
# Reports up to which each is marked.
_FEW = 40


class ConvergenceDisplay:
    """How runs converged.

    Use `from_estimator` or `from_estimators` to create one.

    Parameters
    ----------
    histories : mapping of str to History
        Runs by name.
    x : {"time", "iteration"}
        What runs are drawn over.
    y : str or sequence of str
        Columns of the history, such as "relative_gap", "violation", "n_support".

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where it is drawn.
    lines_ : list of matplotlib Line2D
        A line for each run and quantity, in this order.
    line_ : matplotlib Line2D
        The first of them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import dualgap
    >>> X, y = load_iris(return_X_y=True)
    >>> model = dualgap.SVC(gap_tol=1e-8).fit(X, y)
    >>> display = dualgap.ConvergenceDisplay.from_estimator(model, x="iteration")  # doctest: +SKIP
    """

    def __init__(
        self,
        histories: Mapping[str, History],
        *,
        x: str = "time",
        y: str | Iterable[str] = ("relative_gap", "violation"),
    ) -> None:
        self.histories = dict(histories)
        if x not in _ACROSS:
            raise ValueError(f'x must be "time" or "iteration"; got {x!r}.')
        known = [field.name for field in fields(Event)]
        self.x, self.y = x, (y,) if isinstance(y, str) else tuple(y)
        for name in self.y:
            if name not in known:
                raise ValueError(f"y must be of {', '.join(known)}; got {name!r}.")
        if not self.y:
            raise ValueError("y is empty: pass at least one quantity.")
        if not self.histories:
            raise ValueError("There are no runs to draw.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        x: str = "time",
        y: str | Iterable[str] = ("relative_gap", "violation"),
        task: str = "worst",
        name: str | None = None,
        ax: Any = None,
        **line: Any,
    ) -> ConvergenceDisplay:
        """Draw the runs of a fitted estimator.

        Parameters
        ----------
        estimator : object
            A fitted estimator of dualgap, a pipeline that ends in one, or a search over one.
        x : {"time", "iteration"}
            What is drawn over.
        y : str or sequence of str
            Columns of the history.
        task : str
            With several tasks: "worst" (certificate), "all", or the name of one, such as "a against b".
        name : str, optional
            What to call the run; its task by default, where there are several.
        ax : matplotlib Axes, optional
            Where to draw.
        **line
            Passed to ``Axes.plot``.

        Returns
        -------
        ConvergenceDisplay
        """
        require_matplotlib(cls.__name__)
        return cls(_chosen(estimator, task, name), x=x, y=y).plot(ax=ax, **line)

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any] | Iterable[Any],
        *,
        names: Iterable[str] | None = None,
        x: str = "time",
        y: str | Iterable[str] = "relative_gap",
        ax: Any = None,
        **line: Any,
    ) -> ConvergenceDisplay:
        """Draw several fitted estimators beside each other, each by the task with the worst certificate.

        Parameters
        ----------
        estimators : mapping of str to estimator, or iterable of estimators
            What to compare.
        names : iterable of str, optional
            Names, where `estimators` has none; those of their solvers by default.
        x, y, ax, **line
            As in `from_estimator`.

        Returns
        -------
        ConvergenceDisplay
        """
        require_matplotlib(cls.__name__)
        if isinstance(estimators, Mapping):
            if names is not None:
                raise ValueError("names is given and estimators has names of its own; leave names out.")
            named = list(estimators.items())
        else:
            models = list(estimators)
            called = _distinct([unwrap(one)[0].solver_ for one in models]) if names is None else list(names)
            if len(called) != len(models):
                raise ValueError(f"There are {len(models)} estimators and {len(called)} names.")
            named = list(zip(called, models, strict=True))
        histories = {name: history for name, one in named for history in _chosen(one, "worst", name).values()}
        if len(histories) < len(named):
            raise ValueError(f"names must differ; got {[name for name, _ in named]}.")
        return cls(histories, x=x, y=y).plot(ax=ax, **line)

    def plot(self, *, ax: Any = None, **line: Any) -> ConvergenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; a new figure by default.
        **line
            Passed to ``Axes.plot``.

        Returns
        -------
        ConvergenceDisplay
            Itself.
        """
        self.ax_ = one_axes(ax, type(self).__name__)
        self.figure_ = self.ax_.figure
        column, label = _ACROSS[self.x]
        self.lines_ = []
        for place, (name, history) in enumerate(self.histories.items()):
            across = np.array(history.column(column), dtype=np.float64)
            for number, quantity in enumerate(self.y):
                up = np.array(history.column(quantity), dtype=np.float64)
                colour = place if len(self.histories) > 1 else number
                style = {
                    "color": COLOURS[colour % len(COLOURS)],
                    "linestyle": ("-", "--", ":", "-.")[number % 4],
                    "linewidth": 1.6,
                    "marker": "o" if len(up) <= _FEW else None,
                    "markersize": 3.5,
                    "label": self._label(name, quantity),
                }
                self.lines_ += self.ax_.plot(across, up, **{**style, **line})
        self.line_ = self.lines_[0]
        self.ax_.set_xlabel(label)
        said = [_NAMES.get(one, one.replace("_", " ")) for one in self.y]
        self.ax_.set_ylabel(said[0] if len(said) == 1 else "")
        if all(quantity in _FALLING for quantity in self.y):
            self.ax_.set_yscale("log", nonpositive="mask")
        if len(self.lines_) > 1 or len(self.histories) > 1:
            self.ax_.legend(frameon=False)
        polish(self.ax_)
        return self

    def _label(self, name: str, quantity: str) -> str:
        said = _NAMES.get(quantity, quantity.replace("_", " "))
        if len(self.y) == 1:
            return name or said
        return f"{name}: {said}" if name else said


def _chosen(estimator: Any, task: str, name: str | None) -> dict[str, History]:
    """Histories by name; those of one task only bear the name given, or none."""
    runs = runs_of(unwrap(estimator)[0])
    histories = {run.name: run.history for run in runs}
    if task == "all":
        return {run if name is None else f"{name}, {run}": one for run, one in histories.items()}
    if task == "worst":
        task = worst_first((run.name, run.certificate) for run in runs)[0][0]
    if task not in histories:
        raise ValueError(f'task must be "worst", "all" or one of {", ".join(histories)}; got {task!r}.')
    return {(task if len(runs) > 1 else "") if name is None else name: histories[task]}


def _distinct(names: list[str]) -> list[str]:
    """Names with numbers behind those that occur more than once."""
    found: list[str] = []
    for place, name in enumerate(names):
        again = names[:place].count(name)
        found.append(f"{name} {again + 1}" if names.count(name) > 1 else name)
    return found
