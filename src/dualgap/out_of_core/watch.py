"""Clock, limits and history of a run over data that is not in memory."""

from __future__ import annotations

import time
from collections.abc import Callable

from dualgap.result import Certificate, Event, History, Status


class Watch:
    """Told what is believed, says whether to stop."""

    def __init__(self, time_limit: float | None, callback: Callable[[Event], bool | None] | None) -> None:
        self.time_limit, self.callback = time_limit, callback
        self.history = History()
        self.reason: Status | None = None
        self.began = time.perf_counter()

    def elapsed(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.began

    def late(self) -> bool:
        """Whether the time is over."""
        if self.time_limit is not None and self.elapsed() >= self.time_limit:
            self.reason = self.reason or Status.TIME_LIMIT
        return self.reason is not None

    def __call__(
        self, iteration: int, primal: float, dual: float, gap: float, violation: float, n_support: int
    ) -> bool:
        """Keep an event and pass it on; True where the run is to stop."""
        event = Event(iteration, self.elapsed(), primal, dual, gap, violation, n_support, 0, 0, 0, 0, 0)
        self.history.events.append(event)
        if self.callback is not None and self.callback(event):
            self.reason = self.reason or Status.STOPPED
        return self.late()

    def certified(self, iteration: int, certificate: Certificate, n_support: int) -> bool:
        """The same for what has been proved."""
        c = certificate
        return self(iteration, c.primal, c.dual, c.relative_gap, c.kkt_violation, n_support)


def certificate_of(primal: float, dual: float, gap: float, violation: float, infeasibility: float = 0.0) -> Certificate:
    """A certificate of these sums."""
    return Certificate(primal, dual, gap, gap / max(abs(primal), abs(dual), 1e-300), violation, infeasibility)
