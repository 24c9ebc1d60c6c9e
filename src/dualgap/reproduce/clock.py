"""The time an experiment may take, what it is doing, and what it left out for lack of time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Clock:
    """Time limit, progress and notes of one experiment, or of one part of it.

    Parameters
    ----------
    limit : float
        Seconds for all of it. A run in progress is not cut short by more than its own time limit.
    tell : callable or None
        Called with what is being done.

    Attributes
    ----------
    notes : list of str
        What a reader of the tables must know; those of parts are here as well.
    spent : dict
        Seconds of the parts that are over.
    """

    def __init__(self, limit: float, tell: Callable[[str], None] | None = None) -> None:
        self.limit, self.tell = limit, tell
        self.notes: list[str] = []
        self.spent: dict[str, float] = {}
        self.began = time.perf_counter()
        self._whole: Clock | None = None

    def elapsed(self) -> float:
        """Seconds since the start, without those that do not count."""
        return time.perf_counter() - self.began

    @contextmanager
    def apart(self, what: str = "compiling") -> Iterator[None]:
        """Time that does not count: first calls compile, once an installation."""
        self.say(what)
        began = time.perf_counter()
        try:
            yield
        finally:
            self._forget(time.perf_counter() - began)

    def _forget(self, seconds: float) -> None:
        self.began += seconds
        if self._whole is not None:
            self._whole._forget(seconds)

    @contextmanager
    def part(self, name: str, limit: float) -> Iterator[Clock]:
        """A clock for one part: it may take `limit` seconds, or what is left of the whole where that is less."""
        mine = Clock(min(limit, max(0.0, self.limit - self.elapsed())), self.tell)
        mine.notes, mine._whole = self.notes, self
        try:
            yield mine
        finally:
            self.spent[name] = self.spent.get(name, 0.0) + mine.elapsed()

    def left(self, most: float = float("inf")) -> float:
        """Seconds that a run may take: what is left, at most `most`, and at least a tenth of a second."""
        return max(0.1, min(most, self.limit - self.elapsed()))

    def say(self, step: str) -> None:
        """Tell what begins."""
        if self.tell is not None:
            self.tell(step)

    def over(self, what: str) -> bool:
        """Whether the time is spent; `what` is then left out, and the record says so."""
        if self.elapsed() < self.limit:
            return False
        self.note(f"time limit ({self.limit:.0f} s) reached: {what}")
        return True

    def note(self, text: str) -> None:
        """Something a reader of the tables must know."""
        if text not in self.notes:
            self.notes.append(text)
