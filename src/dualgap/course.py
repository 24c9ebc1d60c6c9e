"""How far a run has come on its way to the goal, and when it will be there.

Solvers make the gap fall by about the same factor in the same time, so that the way is measured in its logarithm: from
the first value to the goal. The speed is that of the last half of the run.
"""

from __future__ import annotations

from math import inf, isfinite, log
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dualgap.result import Event

# Seconds between two notes of the course, and the fewest that a speed is taken from.
_APART, _FEWEST = 0.1, 4


class Course:
    """The course of one run.

    Parameters
    ----------
    tol : float
        The KKT violation to reach, where `gap_tol` is None.
    gap_tol : float or None
        The relative duality gap to reach.

    Examples
    --------
    A gap that halves every second, from 1 to a goal of 1/1024, is half way after five seconds.

    >>> from dualgap.result import Event
    >>> course = Course(1e-3, gap_tol=1 / 1024)
    >>> for second in range(6):
    ...     course.add(Event(second, float(second), 1.0, 0.0, 0.5**second, 1.0, 0, 0, 0, 0, 0, 0))
    >>> round(course.fraction, 3), round(course.left, 3)
    (0.5, 5.0)
    """

    def __init__(self, tol: float, gap_tol: float | None = None) -> None:
        self.by_gap = gap_tol is not None
        self.goal = tol if gap_tol is None else gap_tol
        self.best = inf
        self._notes: list[tuple[float, float]] = []

    def value(self, event: Event) -> float:
        """What has to fall to the goal."""
        return event.relative_gap if self.by_gap else event.violation

    def add(self, event: Event) -> None:
        """Take note of an event."""
        value = self.value(event)
        if not (isfinite(value) and value > 0.0):
            return
        if self.best <= self.goal < value:
            self.best = value  # it was believed to be there, and the certificate did not bear that out
        self.best = min(self.best, value)
        if not self._notes or event.seconds - self._notes[-1][0] >= _APART:
            self._notes.append((event.seconds, log(self.best)))
        self._now = event.seconds, log(self.best)

    @property
    def fraction(self) -> float | None:
        """The part of the way that is done, from 0 to 1; None before there is anything to measure."""
        if not self._notes:
            return None
        first, last = self._notes[0][1], log(self.goal)
        if first <= last or self._now[1] <= last:
            return 1.0
        return (first - self._now[1]) / (first - last)

    @property
    def left(self) -> float | None:
        """Seconds that are left at the present speed; None where that is not known."""
        if len(self._notes) < _FEWEST:
            return None
        now, here = self._now
        since = self._notes[0][0] + 0.5 * (now - self._notes[0][0])
        then, there = next(note for note in reversed(self._notes) if note[0] <= since)
        way = max(here - log(self.goal), 0.0)
        return way * (now - then) / (there - here) if there > here else None
