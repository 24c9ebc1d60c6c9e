"""A line on stderr that says how far a slow command has come."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from dualgap.cli.output import seconds
from dualgap.course import Course

if TYPE_CHECKING:
    from typing import Self

    from dualgap.result import Event

# Seconds before the line appears: what is over by then needs none.
_DELAY = 1.0
# Often enough for the spinner to turn, rare enough to cost nothing.
_PER_SECOND = 8


class Progress:
    """The line, shown on a terminal only and once the work has taken a second.

    Parameters
    ----------
    work : str
        What is being done.
    tasks : int
        Binary problems that will be solved.
    each : str
        What one of them is for: a "pair" of classes, or one "class" against the rest.
    quiet : bool
        Whether to show nothing at all.
    goal : tuple of float and (float or None), optional
        The KKT violation, or where there is one the relative gap, that the work is to reach.
    """

    def __init__(
        self,
        work: str,
        *,
        tasks: int = 1,
        each: str = "pair",
        quiet: bool = False,
        goal: tuple[float, float | None] | None = None,
    ) -> None:
        self.work, self.tasks, self.each, self.goal = work, tasks, each, goal
        self.task = 0
        self.course: Course | None = None
        self.event: Event | None = None
        self.console = Console(stderr=True, highlight=False)
        self.shown = self.console.is_terminal and not quiet
        self.began = self.heard = time.perf_counter()
        self.spinner = Spinner("dots")
        self._live: Live | None = None
        self._over = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(_DELAY, self._appear)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if self.shown:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._live is not None:
                self._live.stop()

    def watch(self, event: Event) -> None:
        """Take note of an event; a callback of the estimators."""
        now = time.perf_counter()
        # Events count seconds from the start of their task: one that began after the last event is another.
        if self.task == 0 or now - event.seconds > self.heard:
            self.task += 1
            self.course = None if self.goal is None else Course(*self.goal)
        if self.course is not None:
            self.course.add(event)
        self.heard, self.event = now, event

    def _appear(self) -> None:
        with self._lock:
            if not self._over:
                self._live = Live(self, console=self.console, refresh_per_second=_PER_SECOND, transient=True)
                self._live.start()

    def __rich__(self) -> Spinner:
        self.spinner.update(text=Text(self.line(), overflow="ellipsis", no_wrap=True))
        return self.spinner

    def line(self) -> str:
        """What is known at this moment."""
        parts = [self.work]
        if self.tasks > 1 and self.task:
            parts.append(f"{self.each} {self.task} of {self.tasks}")
        if self.event is not None:
            gap = self.event.relative_gap
            # Not a number while an indefinite kernel or a partial gradient gives no gap.
            parts.append(f"gap {gap:.1e}" if gap == gap else f"violation {self.event.violation:.1e}")
            parts.append(f"{self.event.iteration:,} iterations")
        if self.course is not None and (done := self.course.fraction) is not None:
            left = self.course.left
            parts.append(f"{100 * done:.0f}%")
            parts.append("? left" if left is None else f"about {seconds(max(left, 1.0))} left")
        parts.append(seconds(time.perf_counter() - self.began))
        return "  ".join(parts)
