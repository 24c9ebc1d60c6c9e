"""What `verbose` prints while an estimator is being fitted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dualgap.result import Event

# Seconds between two lines: often enough to see the gap fall, rare enough for a log file.
_INTERVAL = 1.0


def progress_callback(
    callback: Callable[[Event], bool | None] | None, verbose: Any
) -> Callable[[Event], bool | None] | None:
    """The user's callback, with a line a second printed beside it where `verbose` is set."""
    if not verbose:
        return callback
    printed = time.perf_counter() - _INTERVAL

    def report(event: Event) -> bool | None:
        nonlocal printed
        now = time.perf_counter()
        if now - printed >= _INTERVAL:
            printed = now
            print(
                f"[dualgap] {event.seconds:8.1f} s  iteration {event.iteration:>9}  "
                f"relative gap {event.relative_gap:9.2e}  violation {event.violation:9.2e}  "
                f"support vectors {event.n_support}",
                flush=True,
            )
        return callback(event) if callback is not None else None

    return report
