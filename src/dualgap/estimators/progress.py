"""What `verbose` shows while an estimator is being fitted: the gap on its way to the goal, and the time left.

On a terminal (or in a notebook) one line is drawn over and over; elsewhere a line is printed every few seconds. From
``verbose=2`` on there is a line for every event.
"""

from __future__ import annotations

import time
from math import isfinite
from typing import TYPE_CHECKING, Any

from dualgap.course import Course

if TYPE_CHECKING:
    from dualgap.result import Event

# Seconds between two lines of a log: often enough to see the gap fall, rare enough for a file.
_INTERVAL = 3.0
# Redrawings a second: the eye sees no more, and they cost a millisecond each.
_PER_SECOND = 8
_WIDTH = 24
# The line needs the terminal this wide for the number of support vectors to be shown as well.
_WIDE = 110


def short_time(seconds: float) -> str:
    """A span as a clock shows it: "4 s", "2:05", "3:04:05"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def bar(fraction: float | None, width: int = _WIDTH) -> tuple[str, str]:
    """The two parts of a bar, done and not; a fraction that is not known is nothing."""
    filled = round(2 * width * min(max(fraction or 0.0, 0.0), 1.0))
    return "━" * (filled // 2) + "╸" * (filled % 2), "─" * (width - (filled + 1) // 2)


class Display:
    """The line of one fit.

    Parameters
    ----------
    name : str
        What is fitted.
    verbose : int
        1 for the line, 2 or more for a line an event.
    tol, gap_tol : float, float or None
        The goal.
    """

    def __init__(self, name: str, verbose: int, tol: float, gap_tol: float | None) -> None:
        from rich.console import Console

        self.name, self.verbose, self.tol, self.gap_tol = name, verbose, tol, gap_tol
        self.console = Console(highlight=False)
        self.live: Any = None
        self.tasks, self.task = 1, -1
        self.course = Course(tol, gap_tol)
        self.event: Event | None = None
        self.began = time.perf_counter()
        self.printed = self.began
        self.drawn = 0.0

    def expect(self, tasks: int) -> None:
        """So many tasks there will be."""
        self.tasks = tasks

    def add(self, task: int, event: Event) -> None:
        """Show an event of a task."""
        if task != self.task:
            self.task, self.course = task, Course(self.tol, self.gap_tol)
        self.event = event
        self.course.add(event)
        now = time.perf_counter()
        if self.verbose > 1:
            self._print(self.text())
        elif self.console.is_terminal:
            if self.live is None:
                self._start()
            if now - self.drawn >= 1.0 / _PER_SECOND:
                self.drawn = now
                self.live.update(self.line(), refresh=True)
        elif now - self.printed >= _INTERVAL:
            self.printed = now
            self._print(self.text())

    def _start(self) -> None:
        from rich.live import Live

        self.live = Live(console=self.console, auto_refresh=False, transient=True)
        self.live.start()

    def _print(self, text: str) -> None:
        """A line of a log, as long as it is."""
        self.console.print(text, markup=False, soft_wrap=True)

    def close(self, verdict: str | None) -> None:
        """The fit is over: the line goes, and what became of it stays."""
        if self.live is not None:
            self.live.stop()
            self.live = None
        if verdict is not None:
            self._print(f"[dualgap] {self.name}: {verdict}, {short_time(time.perf_counter() - self.began)}")

    def parts(self) -> dict[str, str]:
        """What is known at this moment, by name."""
        event, course = self.event, self.course
        assert event is not None  # an event came first
        gap = f"gap {event.relative_gap:.1e}" if isfinite(event.relative_gap) else "gap ?"
        goal = f" to {course.goal:.0e}".replace("e-0", "e-")
        left = course.left
        return {
            "task": f"task {self.task + 1} of {self.tasks}" if self.tasks > 1 else "",
            "gap": gap + (goal if course.by_gap else ""),
            "violation": f"violation {event.violation:.1e}{goal}" if not course.by_gap else "",
            "iterations": f"{event.iteration:,} iterations",
            "support": f"{event.n_support:,} SV",
            "time": short_time(event.seconds),
            "left": "? left" if left is None else f"{short_time(max(left, 1.0))} left",
        }

    def text(self) -> str:
        """A line of a log."""
        told = "  ".join(part for part in self.parts().values() if part)
        return f"[dualgap] {self.name}  {told}"

    def line(self) -> Any:
        """The line on a terminal, the bar first."""
        from rich.text import Text

        parts = self.parts()
        narrow = self.console.width < _WIDE
        dropped = ("support", "iterations") if narrow else ()
        done = self.course.fraction
        text = Text(f"{self.name} ", no_wrap=True, overflow="ellipsis")
        full, empty = bar(done, _WIDTH // 2 if narrow else _WIDTH)
        text.append(full, style="green").append(empty, style="bright_black")
        text.append("   ?%  " if done is None else f" {100 * done:3.0f}%  ", style="bold")
        text.append("  ".join(part for key, part in parts.items() if part and key not in dropped))
        return text
