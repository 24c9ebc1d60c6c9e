"""What all comparisons ask of a library: whether it is there, which version, and a fit that can be timed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    Goal: TypeAlias = dict[str, float]

OURS = "dualgap"
_INSTALL = "not installed; pip install 'dualgap[bench]' brings it"
# Points of a history that are kept: more cannot be told apart in a panel of the plot.
_MOST_EVENTS = 200


@dataclass(frozen=True)
class Package:
    """A package that takes part.

    Attributes
    ----------
    name : str
        As the table has it.
    distribution, module : str
        The package to install, and what is imported.
    """

    name: str
    distribution: str
    module: str

    def missing(self) -> str:
        """How to get it, nothing where it is there."""
        return _INSTALL if importlib.util.find_spec(self.module) is None else ""

    def version(self) -> str | None:
        """The version that is installed, None where it is not."""
        try:
            return importlib.metadata.version(self.distribution)
        except importlib.metadata.PackageNotFoundError:
            return None


@dataclass(frozen=True)
class Fit:
    """One fit: what is timed, and what is done with its outcome."""

    run: Callable[[], Any]
    read: Callable[[Any], Any]


def chosen(names: list[str], known: Iterable[str], what: str) -> list[str]:
    """The known names that are asked for, in their own order; all for an empty list."""
    known = list(known)
    for name in names:
        if name not in known:
            raise ValueError(f"there is no {what} {name!r}; choose among {', '.join(known)}.")
    return [name for name in known if name in names] if names else known


def thinned(events: Iterable[Any]) -> list[tuple[float, float]]:
    """Seconds and believed gaps of a run's events, those that a plot can show."""
    points = [(e.seconds, e.relative_gap) for e in events if np.isfinite(e.relative_gap) and e.relative_gap > 0]
    # The last one is where the run ended and always belongs to it.
    kept = np.unique(np.linspace(0, len(points) - 1, min(len(points), _MOST_EVENTS)).astype(np.intp))
    return [points[i] for i in kept] if points else []
