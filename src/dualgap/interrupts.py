"""Signals that ask a run to stop: noted when they arrive, answered between two chunks of work.

A `KeyboardInterrupt` may be raised between any two lines of Python. A run that must leave something whole behind (a
checkpoint, the best solution so far) notes the signal in place of that, and looks at the note wherever it looks at the
clock. A second Ctrl-C is not patient: it raises at once.

Where nothing is noted Ctrl-C does what it does outside, but for one place: within a compilation it waits for the end.
LLVM calls back into Python there, and what is raised in such a call is lost. The user's Ctrl-C would be gone, and Numba
would hold a function half made.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from functools import partial, wraps
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from numba.core.compiler_lock import global_compiler_lock
from numba.core.event import Listener, register, unregister

if TYPE_CHECKING:
    from typing import Self

_Arguments = ParamSpec("_Arguments")
_Returned = TypeVar("_Returned")

ON_INTERRUPT = ("raise", "keep")
_COMPILING = "numba:compiler_lock"


class Interrupts:
    """What becomes of signals while a ``with`` statement runs.

    Handlers are a matter of the main thread: in any other nothing is installed, and nothing arrives there either. A
    signal that is ignored, or that somebody outside Python handles, is left alone. When the statement ends, the
    handlers before are back, and a termination that was noted is sent again, so that what it would have done is done.

    Parameters
    ----------
    keyboard : bool
        Whether Ctrl-C (SIGINT) is noted. Otherwise it goes to the handler before, once nothing is being compiled.
    termination : bool
        Whether SIGTERM is noted.
    """

    def __init__(self, *, keyboard: bool = False, termination: bool = False) -> None:
        self.noted: int | None = None
        self._handlers = {signal.SIGINT: self.note if keyboard else self._pass_on}
        if termination:
            self._handlers[signal.SIGTERM] = self.note
        self._before: dict[int, Any] = {}
        self._compilations = _Compilations()

    @property
    def pending(self) -> bool:
        """Whether the run is asked to stop."""
        return self.noted is not None

    def note(self, number: int, frame: FrameType | None = None) -> None:
        """Take note of a signal; the second Ctrl-C raises."""
        if self.noted is not None and number == signal.SIGINT:
            self._compilations.wait(_interrupt)
        else:
            self.noted = number

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._compilations.wait(partial(self._before[number], number, frame))

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            register(_COMPILING, self._compilations)
            for number, handler in self._handlers.items():
                before = signal.getsignal(number)
                # A default that is no handler of Python's ends the process: there is nothing to be passed on.
                if callable(before) or (before is signal.SIG_DFL and handler == self.note):
                    self._before[number] = before
                    signal.signal(number, handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        noted = self.noted if self._before else None
        while self._before:
            number = next(iter(self._before))
            signal.signal(number, self._before[number])
            del self._before[number]  # once nothing can be passed on to it
        if threading.current_thread() is threading.main_thread():
            unregister(_COMPILING, self._compilations)
        if noted == signal.SIGTERM:
            signal.raise_signal(signal.SIGTERM)


def interruptible(run: Callable[_Arguments, _Returned]) -> Callable[_Arguments, _Returned]:
    """A function that Ctrl-C may end at any moment, with all that was compiled in it whole."""

    @wraps(run)
    def whole(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Returned:
        with Interrupts():
            return run(*args, **kwargs)

    return whole


class _Compilations(Listener):  # type: ignore[misc]  # Numba has no types
    """Lets what Ctrl-C does wait for the end of the main thread's compilation, where there is one."""

    def __init__(self) -> None:
        self._waiting: Callable[[], Any] | None = None

    def wait(self, answer: Callable[[], Any]) -> None:
        """Answer now, or as soon as the compilation that was interrupted is over."""
        if global_compiler_lock.is_locked():  # by this thread
            self._waiting = answer
        else:
            answer()

    def on_start(self, event: Any) -> None:
        """A compilation begins, of whatever thread."""

    def on_end(self, event: Any) -> None:
        """A compilation has ended; compilations lie within each other."""
        mine = threading.current_thread() is threading.main_thread()
        if self._waiting is not None and mine and not global_compiler_lock.is_locked():
            answer, self._waiting = self._waiting, None
            answer()


def _interrupt() -> None:
    raise KeyboardInterrupt
