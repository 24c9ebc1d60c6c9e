"""Signals that ask a run to stop: noted when they arrive, answered between two chunks of work.

A `KeyboardInterrupt` may be raised between any two lines of Python. A run that must leave something whole behind (a
checkpoint, the best solution so far) notes the signal in place of that, and looks at the note wherever it looks at the
clock. A second Ctrl-C is not patient: it raises at once.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

ON_INTERRUPT = ("raise", "keep")


class Interrupts:
    """Notes of signals while a ``with`` statement runs.

    Handlers are a matter of the main thread: in any other nothing is installed, and nothing arrives there either. A
    signal that is ignored, or that somebody outside Python handles, is left alone. When the statement ends, the
    handlers before are back, and a termination that was noted is sent again, so that what it would have done is done.

    Parameters
    ----------
    keyboard : bool
        Whether Ctrl-C (SIGINT) is noted.
    termination : bool
        Whether SIGTERM is.
    """

    def __init__(self, *, keyboard: bool = False, termination: bool = False) -> None:
        self.wanted = [signal.SIGINT] * keyboard + [signal.SIGTERM] * termination
        self.noted: int | None = None
        self._before: dict[int, Any] = {}

    @property
    def pending(self) -> bool:
        """Whether the run is asked to stop."""
        return self.noted is not None

    def note(self, number: int, frame: FrameType | None = None) -> None:
        """Take note of a signal; the second Ctrl-C raises."""
        if self.noted is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.noted = number

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in self.wanted:
                handler = signal.getsignal(number)
                if handler is not None and handler is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self.note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        installed = bool(self._before)
        while self._before:
            signal.signal(*self._before.popitem())
        if installed and self.noted == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)
